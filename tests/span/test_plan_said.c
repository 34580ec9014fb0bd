/* test_plan_said.c: the call log and the timeline say the plan that runs, also where several
 * processes take part.
 */
#include "../support/deadline.h"
#include "../support/small.h"
#include "../support/world.h"

#include "core/log.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(plan_said, .init = processes_use_network, .timeout = 120);

enum { SECONDS = 60, MOST = 1 << 20 };

static char line_of_init[1024];

static void catch_line(hd_log_level_t level, const char *line, void *arg) {
    (void)level;
    (void)arg;
    if (strstr(line, "allreduce endpoint")) {
        snprintf(line_of_init, sizeof(line_of_init), "%s", line);
    }
}

typedef struct said {
    uint64_t elements;
    const char *swap_max, *line, *trace; /* trace: NULL: as the line */
} said_t;

static bool file_has(const char *path, const char *text) {
    static char all[1 << 20];
    FILE *file = fopen(path, "r");
    if (!file) {
        return false;
    }
    all[fread(all, 1, sizeof(all) - 1, file)] = '\0';
    fclose(file);
    return strstr(all, text) != NULL;
}

/* Each process makes the allreduce twice: the first line may come before all processes are there.
 */
static int allreduce_twice(const process_t *process, void *arg) {
    const said_t *said = arg;
    static int32_t x[16][MOST], y[16][MOST];
    char path[64];
    snprintf(path, sizeof(path), "/tmp/heddle_said_%d.json", (int)getpid());
    setenv("HEDDLE_TRACE", path, 1);
    setenv("HEDDLE_NET_SWAP_MAX", said->swap_max, 1);
    setenv("HEDDLE_COLL_TRACE", "trace", 1);
    hd_log_capture(catch_line, NULL);
    world_t *world = world_create(&(world_params_t){.size = process->size, .process = process});
    for (uint32_t round = 0; round < 2; round++) {
        ucc_coll_req_h request[16] = {NULL};
        for (uint32_t i = 0; i < process->n; i++) {
            ucc_coll_args_t args = small_allreduce(x[i], y[i], said->elements);
            uint32_t endpoint = process->endpoint[i];
            request[endpoint] = small_start(world, endpoint, &args);
        }
        small_finish(world, request, process->size);
    }
    bool ok = strstr(line_of_init, said->line) != NULL;
    if (!ok) {
        fprintf(stderr, "process %u: \"%s\" is not in: %s\n", process->me, said->line,
                line_of_init);
    }
    hd_log_capture(NULL, NULL);
    world_destroy(world);
    const char *trace = said->trace ? said->trace : said->line;
    if (!file_has(path, trace)) {
        fprintf(stderr, "process %u: \"%s\" is not in its trace\n", process->me, trace);
        ok = false;
    }
    unlink(path);
    return ok ? 0 : 1;
}

static void says(uint32_t endpoints, said_t said) {
    shape_t shape = shape_even(2, endpoints);
    cr_assert(processes_run(&shape, SECONDS, allreduce_twice, &said).ok);
}

Test(plan_said, small_one_of_processes_of_one_endpoint_is_one_message_each_way) {
    says(1, (said_t){2, "4096", "; one message each way among 2 processes, numbered",
                     "\"plan\":\"one message each way among 2 processes\""});
}

Test(plan_said, small_one_of_processes_of_two_endpoints_arrives_by_a_tree_first) {
    says(2, (said_t){2, "4096", ", one message each way among 2 processes, numbered",
                     ", one message each way among 2 processes\""});
}

Test(plan_said, without_small_exchanges_it_is_an_allreduce_in_the_release_of_the_tree) {
    says(2, (said_t){2, "0", "inline tree, arrival by counter, allreduce among 2 processes by ",
                     "inline tree, arrival by counter, allreduce among 2 processes by exchange/8"});
}

Test(plan_said, large_one_crosses_in_segments_of_the_flights_units) {
    says(2, (said_t){MOST, "4096",
                     "direct in windows of 65536 bytes by plain stores, arrival by counter, 8 "
                     "segments of 524288 bytes, each allreduce among 2 processes by ",
                     NULL});
}

/* --- lines about waits ------------------------------------------------------------------------ */

static void catch_timeout(hd_log_level_t level, const char *line, void *arg) {
    (void)level;
    (void)arg;
    if (strstr(line, "time-out: ")) {
        snprintf(line_of_init, sizeof(line_of_init), "%s", line);
    }
}

/* Process 1 does not come; process 0's time-out says how the call would have crossed. */
static int wait_in_vain(const process_t *process, void *arg) {
    int32_t x = 1, y = 0;
    (void)arg;
    setenv("HEDDLE_TIMEOUT", "3", 1); /* in which the team must have formed, too */
    hd_log_capture(catch_timeout, NULL);
    world_t *world = world_create(&(world_params_t){.size = process->size, .process = process});
    bool ok = true;
    process_barrier(process); /* who still forms the team would hear of its failure by that */
    if (process->me == 0) {
        ucc_coll_args_t args = small_allreduce(&x, &y, 1);
        ucc_coll_req_h request[2] = {small_start(world, 0, &args), NULL};
        small_wait(world, request, 2);
        ok = ucc_collective_test(request[0]) == UCC_ERR_TIMED_OUT &&
             strstr(line_of_init, " (it runs as: one message each way among 2 processes)");
        if (!ok) {
            fprintf(stderr, "the line is: %s\n", line_of_init);
        }
        ucc_collective_finalize(request[0]);
    }
    process_barrier(process);
    hd_log_capture(NULL, NULL);
    world_destroy(world);
    return ok ? 0 : 1;
}

Test(plan_said, a_time_out_says_how_the_call_crosses_processes) {
    shape_t shape = shape_even(2, 1);
    cr_assert(processes_run(&shape, SECONDS, wait_in_vain, NULL).ok);
}
