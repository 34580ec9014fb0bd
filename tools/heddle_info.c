/* heddle_info.c: prints what the library knows: its build, the machine, the trees it would use, all
 * configuration variables, and which protocol runs per collective and size; and, for processes that
 * it starts or that a launcher has started, what connects them; and for whom those of a running job
 * wait.
 */
#include <getopt.h>
#include <heddle/heddle.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifdef TOOL_HAVE_BOOTSTRAP
#include "common/launch.h"
#endif

static void help(void) {
    puts("heddle_info: what Heddle sees and would do\n"
         "\n"
         "usage: heddle_info [options]          (no section named: all of them)\n"
         "\n"
         "      --build         version, compiler, kernels chosen on this processor\n"
         "      --topology      the machine, or the one that HEDDLE_TOPOLOGY describes\n"
         "      --trees         trees for the endpoints, placed by topology\n"
         "      --config        every variable: meaning, default, value in force, its origin\n"
         "      --profile       the machine's profile: what large data cost, and what follows\n"
         "      --plans         which protocol runs per collective and size\n"
         "      --net           which algorithm runs among processes per collective and size\n"
         "      --gpus          GPUs, their peers and NUMA nodes, whose they should be of the\n"
         "                      endpoints, and which way calls on them take per collective and\n"
         "                      size: with HEDDLE_GPU=cuda, or emulated\n"
         "  -n, --endpoints N   number of endpoints for trees, plans and GPUs (default: one\n"
         "                      per processor), of processes for --net (default: 2)\n"
         "      --processes N   start N processes that form a team, and show how they reach each\n"
         "                      other: near, far or by the network, and why not by a better way;\n"
         "                      the transports that UCX selects, and the plans among them\n"
         "      --launched      the same among the processes of a launcher, found by\n"
         "                      HEDDLE_BOOTSTRAP_ADDRESS and _KEY (see <heddle/bootstrap.h>)\n"
         "      --job PID       ask a running process of yours, and all processes of its job that\n"
         "                      it knows or reaches, for whom they wait; exit status 1: it can't "
         "be asked, or\n"
         "                      does not answer\n"
         "  -h, --help");
}

static bool parse_endpoints(const char *text, uint32_t *endpoints) {
    char *end = NULL;
    unsigned long number = strtoul(text, &end, 10);
    if (end == text || *end != '\0' || text[0] == '-' || number == 0 || number > (1UL << 20)) {
        fprintf(stderr, "heddle_info: '%s' is not a number from 1 to 1048576\n", text);
        return false;
    }
    *endpoints = (uint32_t)number;
    return true;
}

static bool parse_pid(const char *text, uint32_t *pid) {
    char *end = NULL;
    unsigned long number = strtoul(text, &end, 10);
    if (end == text || *end != '\0' || text[0] == '-' || number == 0 || number > INT32_MAX) {
        fprintf(stderr, "heddle_info: '%s' is not the number of a process\n", text);
        return false;
    }
    *pid = (uint32_t)number;
    return true;
}

#ifdef TOOL_HAVE_BOOTSTRAP

/* The ways to all other processes, as each of them knows its own: process 0 has them already. */
static ucc_status_t show_ways_of_others(heddle_ep_t *ep, uint32_t processes) {
    enum { ROOM = 8192 }; /* a line for each group of processes: what does not fit is cut off */
    char *mine = calloc(1, ROOM), *all = calloc(processes, ROOM);
    FILE *stream = mine ? fmemopen(mine, ROOM, "w") : NULL;
    ucc_status_t status =
        stream && all ? heddle_team_print_ways(stream, heddle_ep_team(ep)) : UCC_ERR_NO_MEMORY;
    if (stream) {
        fclose(stream);
    }
    if (mine && all) {
        mine[ROOM - 1] = '\0';
        ucc_status_t gathered = heddle_gather(ep, mine, all, ROOM, UCC_DT_INT8, 0);
        status = status == UCC_OK ? gathered : status;
    }
    for (uint32_t p = 1; status == UCC_OK && heddle_ep_index(ep) == 0 && p < processes; p++) {
        fputs(all + (size_t)p * ROOM, stdout);
    }
    free(mine);
    free(all);
    return status;
}

/* Some traffic, small and large, so that UCX makes all that it wants to make; then process 0 tells.
 */
static ucc_status_t show_team(heddle_ep_t *ep, uint32_t processes) {
    enum { ELEMENTS = 1 << 18 };
    float *data = heddle_alloc_like(ep, ELEMENTS * sizeof(*data), HEDDLE_ALLOC_TOUCH);
    ucc_status_t status = data ? UCC_OK : UCC_ERR_NO_MEMORY;
    for (uint32_t root = 0; root < processes && status == UCC_OK; root++) {
        status = heddle_bcast(ep, data, ELEMENTS, UCC_DT_FLOAT32, root);
    }
    if (status == UCC_OK) {
        status = heddle_allreduce(ep, HEDDLE_IN_PLACE, data, ELEMENTS, UCC_DT_FLOAT32, UCC_OP_SUM);
    }
    if (status == UCC_OK) {
        status = heddle_barrier(ep);
    }
    heddle_free(data);
    if (status == UCC_OK && heddle_ep_index(ep) == 0) {
        status = heddle_team_print(stdout, heddle_ep_team(ep));
    }
    status = status == UCC_OK ? show_ways_of_others(ep, processes) : status;
    if (status == UCC_OK && heddle_ep_index(ep) == 0) {
        fputc('\n', stdout);
        status = heddle_info_print(stdout, HEDDLE_INFO_NET, processes);
    }
    return status == UCC_OK ? heddle_barrier(ep) : status;
}

/* One endpoint in each process. */
static ucc_status_t form_and_show(heddle_bootstrap_t *bootstrap) {
    ucc_oob_coll_t oob;
    heddle_group_t *group;
    heddle_ep_t *ep;
    heddle_bootstrap_oob(bootstrap, &oob);
    ucc_status_t status =
        heddle_group_create(&(heddle_group_params_t){.endpoints = 1, .oob = &oob}, &group);
    if (status != UCC_OK) {
        return status;
    }
    status = heddle_join(group, 0, &ep);
    if (status == UCC_OK) {
        status = show_team(ep, heddle_bootstrap_size(bootstrap));
        ucc_status_t left = heddle_leave(ep);
        status = status == UCC_OK ? left : status;
    }
    (void)heddle_group_destroy(group);
    return status;
}

/* launched: rank and number are a launcher's. Returns the exit status. */
static int show_processes(uint32_t n, bool launched) {
    heddle_bootstrap_params_t params;
    heddle_bootstrap_t *bootstrap;
    int exit_status;
    if (!launched && !launch_processes("heddle_info", n, &params, &exit_status)) {
        return exit_status;
    }
    ucc_status_t status = launched ? heddle_bootstrap_env(NULL, &bootstrap)
                                   : heddle_bootstrap_tcp(&params, &bootstrap);
    if (status == UCC_OK) {
        status = form_and_show(bootstrap);
        (void)heddle_bootstrap_end(bootstrap);
    }
    if (status != UCC_OK) {
        fprintf(stderr, "heddle_info: %s\n", ucc_status_string(status));
    }
    return status != UCC_OK;
}

#else

static int show_processes(uint32_t n, bool launched) {
    (void)n, (void)launched;
    fputs("heddle_info: built without libheddle_bootstrap, by which processes meet\n", stderr);
    return 2;
}

#endif

int main(int argc, char **argv) {
    enum { PROCESSES = 300, LAUNCHED, JOB };
    enum { SECTION = 256 }; /* SECTION + i stands for bit i of heddle_info_flags_t */
    static const struct option options[] = {
        {"build", no_argument, NULL, SECTION + 0},
        {"topology", no_argument, NULL, SECTION + 1},
        {"trees", no_argument, NULL, SECTION + 2},
        {"config", no_argument, NULL, SECTION + 3},
        {"plans", no_argument, NULL, SECTION + 4},
        {"profile", no_argument, NULL, SECTION + 7},
        {"net", no_argument, NULL, SECTION + 5},
        {"gpus", no_argument, NULL, SECTION + 6},
        {"endpoints", required_argument, NULL, 'n'},
        {"processes", required_argument, NULL, PROCESSES},
        {"launched", no_argument, NULL, LAUNCHED},
        {"job", required_argument, NULL, JOB},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    uint64_t flags = 0;
    uint32_t endpoints = 0, processes = 0, job = 0;
    bool launched = false;
    int option;
    while ((option = getopt_long(argc, argv, "n:h", options, NULL)) != -1) {
        if (option == LAUNCHED) {
            launched = true;
        } else if (option == JOB) {
            if (!parse_pid(optarg, &job)) {
                return 2;
            }
        } else if (option == PROCESSES) {
            if (!parse_endpoints(optarg, &processes)) {
                return 2;
            }
        } else if (option >= SECTION) {
            flags |= UINT64_C(1) << (option - SECTION);
        } else if (option == 'h') {
            help();
            return 0;
        } else if (option != 'n' || !parse_endpoints(optarg, &endpoints)) {
            fprintf(stderr, "Try heddle_info --help.\n");
            return 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "heddle_info: unexpected '%s'. Try heddle_info --help.\n", argv[optind]);
        return 2;
    }
    if (job) {
        return heddle_job_print(stdout, job) != UCC_OK; /* which has said why not */
    }
    if (processes || launched) {
        return show_processes(processes, launched);
    }
    ucc_status_t status =
        heddle_info_print(stdout, flags == 0 ? HEDDLE_INFO_ALL : flags, endpoints);
    if (status != UCC_OK) {
        fprintf(stderr, "heddle_info: %s\n", ucc_status_string(status));
        return 1;
    }
    return 0;
}
