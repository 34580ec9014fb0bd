/* test_devices.c: heddle_perf --mem on emulated devices. The program is the one that is installed.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

TestSuite(devices, .timeout = 180);

/* Runs heddle_perf with these arguments; its exit status. What it prints is in output. */
static char output[1 << 16];

static int perf(const char *gpu, const char *arguments) {
    char line[1024];
    snprintf(line, sizeof(line), "HEDDLE_GPU=%s '%s' %s 2>&1", gpu, HEDDLE_PERF, arguments);
    FILE *pipe = popen(line, "r");
    cr_assert_not_null(pipe);
    size_t used = fread(output, 1, sizeof(output) - 1, pipe);
    output[used] = '\0';
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static unsigned count(const char *word) {
    unsigned found = 0;
    for (const char *at = output; (at = strstr(at, word)) != NULL; at++) {
        found++;
    }
    return found;
}

Test(devices, all_collectives_are_right_on_memory_of_devices) {
    cr_expect_eq(perf("emulated:2", "-n 3 --mem cuda --uneven -b 8 -e 128K -f 128 -i 3 --warmup 1"),
                 0, "%s", output);
    cr_expect_eq(count("device memory of 2 x "), 1, "%s", output);
    cr_expect_eq(count("\n      131072"), 16, "each has a line, but for those without data: %s",
                 output);
    cr_expect_eq(count("emucuda:"), 0, "nothing is found: %s", output);
}

Test(devices, memory_may_be_managed_in_place_the_root_another_each_time_and_endpoints_tasks) {
    cr_expect_eq(
        perf("emulated:3",
             "--tasks 5 --drivers 2 --mem cuda-managed --in-place --root alternate "
             "-d int64 -o max -b 4K -e 4K -i 6 --warmup 1 bcast reduce gather scatter allgather"),
        0, "%s", output);
    cr_expect_eq(count("managed memory of 3 x "), 1, "%s", output);
    cr_expect_eq(count("emucuda:"), 0, "%s", output);
}

Test(devices, calls_on_streams_are_right_and_a_sample_is_many_of_them) {
    cr_expect_eq(
        perf("emulated:2",
             "-n 3 --mem cuda --stream --limits -b 8 -e 64K -f 8192 -i 32 --json /dev/stderr"),
        0, "%s", output);
    cr_expect_eq(count("\"api\": \"stream\""), 1, "%s", output);
    cr_expect_eq(count("\"batch\": 16"), 35, "each line: %s", output);
    cr_expect_eq(count("emucuda:"), 0, "%s", output);
}

Test(devices, endpoints_of_one_device_are_neighbours) {
    cr_expect_eq(perf("emulated:3", "-n 7 --mem cuda -b 8 -e 8 -i 2 barrier"), 0, "%s", output);
    cr_expect_eq(count("\n# endpoints 0-2 on GPU 0, 3-4 on GPU 1, 5-6 on GPU 2\n"), 1, "%s",
                 output);
    cr_expect_eq(perf("emulated:3", "-n 2 --mem cuda -b 8 -e 8 -i 2 barrier"), 0, "%s", output);
    cr_expect_eq(count("\n# endpoints 0 on GPU 0, 1 on GPU 1\n"), 1, "%s", output);
    cr_expect_eq(perf("emulated:3", "-n 4 --mem cuda --device 2 -b 8 -e 8 -i 2 barrier"), 0, "%s",
                 output);
    cr_expect_eq(count("\n# endpoints 0-3 on GPU 2\n"), 1, "%s", output);
}

Test(devices, every_line_has_its_limit) {
    cr_expect_eq(perf("emulated:2", "-n 2 --mem cuda --limits -b 8 -e 64K -f 8192 -i 16 allreduce"),
                 0, "%s", output);
    cr_expect_eq(count("  L\n"), 1, "%s", output);
    cr_expect_eq(count("  C(T), T = 65536\n"), 1, "%s", output);
    cr_expect_eq(perf("emulated:2",
                      "-n 2 --mem cuda --device 1 --limits -b 64K -e 64K -i 16 allreduce barrier"),
                 0, "%s", output);
    cr_expect_eq(count("  C(T), T = 131072\n"), 1, "one device does all: %s", output);
    cr_expect_eq(count("  X\n") + count("  ring\n"), 1, "a barrier is the host's: %s", output);
}

Test(devices, json_says_where_the_memory_is_and_what_limits_are) {
    cr_expect_eq(
        perf("emulated:1", "-n 2 --mem cuda --limits --json /dev/stderr -b 8 -e 8 -i 8 bcast"), 0,
        "%s", output);
    cr_expect_eq(count("\"memory\": \"cuda\", \"devices\": 1, "), 1, "%s", output);
    cr_expect_eq(count("\"formula\": \"L\""), 1, "%s", output);
}

Test(devices, what_cannot_be_is_refused_with_a_reason) {
    cr_expect_eq(perf("emulated:2", "--mem cuda --device 2 bcast"), 1);
    cr_expect_eq(count("--device: there are fewer devices"), 1, "%s", output);
    cr_expect_eq(perf("n", "--mem cuda --touch bcast"), 2);
    cr_expect_eq(count("--mem is for one process, without --touch"), 1, "%s", output);
    cr_expect_eq(perf("n", "--mem cuda --stream --tasks 4 bcast"), 2);
    cr_expect_eq(count("--stream needs --mem, and threads"), 1, "%s", output);
    cr_expect_eq(perf("n", "--device 1 bcast"), 2);
    cr_expect_eq(count("--device needs --mem"), 1, "%s", output);
    cr_expect_eq(perf("n", "--mem cuda --api heddle bcast"), 2);
    cr_expect_eq(count("--mem needs --api ucc"), 1, "%s", output);
}
