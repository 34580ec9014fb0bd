/* heddle_info.c: prints what the library knows: its build, the machine, the trees it would use, all
 * configuration variables, and which protocol runs per collective and size.
 */
#include <getopt.h>
#include <heddle/heddle.h>
#include <stdlib.h>

static void help(void) {
    puts("heddle_info: what Heddle sees and would do\n"
         "\n"
         "usage: heddle_info [options]          (no section named: all of them)\n"
         "\n"
         "      --build         version, compiler, kernels chosen on this processor\n"
         "      --topology      the machine, or the one that HEDDLE_TOPOLOGY describes\n"
         "      --trees         trees for the endpoints, placed by topology\n"
         "      --config        every variable: meaning, default, value in force, its origin\n"
         "      --plans         which protocol runs per collective and size\n"
         "  -n, --endpoints N   number of endpoints for trees and plans (default: one per "
         "processor)\n"
         "  -h, --help");
}

static bool parse_endpoints(const char *text, uint32_t *endpoints) {
    char *end = NULL;
    unsigned long number = strtoul(text, &end, 10);
    if (end == text || *end != '\0' || text[0] == '-' || number == 0 || number > (1UL << 20)) {
        fprintf(stderr, "heddle_info: '%s' is not a number of endpoints (1 to 1048576)\n", text);
        return false;
    }
    *endpoints = (uint32_t)number;
    return true;
}

int main(int argc, char **argv) {
    enum { SECTION = 256 }; /* SECTION + i stands for bit i of heddle_info_flags_t */
    static const struct option options[] = {
        {"build", no_argument, NULL, SECTION + 0}, {"topology", no_argument, NULL, SECTION + 1},
        {"trees", no_argument, NULL, SECTION + 2}, {"config", no_argument, NULL, SECTION + 3},
        {"plans", no_argument, NULL, SECTION + 4}, {"endpoints", required_argument, NULL, 'n'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
    };
    uint64_t flags = 0;
    uint32_t endpoints = 0;
    int option;
    while ((option = getopt_long(argc, argv, "n:h", options, NULL)) != -1) {
        if (option >= SECTION) {
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
    ucc_status_t status =
        heddle_info_print(stdout, flags == 0 ? HEDDLE_INFO_ALL : flags, endpoints);
    if (status != UCC_OK) {
        fprintf(stderr, "heddle_info: %s\n", ucc_status_string(status));
        return 1;
    }
    return 0;
}
