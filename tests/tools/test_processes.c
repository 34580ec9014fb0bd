/* test_processes.c: heddle_perf among several processes: its own, those of a launcher, and those
 * that are started by hand; what heddle_info shows of processes, and how heddle_trace merges what
 * they trace. The programs are those that are installed.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(processes, .timeout = 180);

/* Runs a line of shell; $PERF is heddle_perf, $PORT a free one. Its exit status; *output is what it
 * printed, to be freed. */
static int shell(const char *line, char **output) {
    size_t room = 1 << 16, used = 0;
    char *text = malloc(room);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(at);
    char port[16];
    /* It stays bound, so that the system gives the port to nobody, and rank 0 may listen there. */
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    cr_assert(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0 &&
              bind(fd, (struct sockaddr *)&at, bytes) == 0 &&
              getsockname(fd, (struct sockaddr *)&at, &bytes) == 0);
    snprintf(port, sizeof(port), "%u", ntohs(at.sin_port));
    setenv("PORT", port, 1);
    setenv("PERF", HEDDLE_PERF, 1);
    setenv("INFO", HEDDLE_INFO, 1);
    setenv("TRACE", HEDDLE_TRACE, 1);
    FILE *pipe = popen(line, "r");
    cr_assert_not_null(pipe);
    while (used < room - 1) {
        size_t got = fread(text + used, 1, room - 1 - used, pipe);
        if (got == 0) {
            break;
        }
        used += got;
    }
    text[used] = '\0';
    int status = pclose(pipe);
    close(fd);
    *output = text;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static unsigned count(const char *text, const char *word) {
    unsigned found = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++) {
        found++;
    }
    return found;
}

Test(processes, all_collectives_are_right_among_processes_that_the_tool_starts) {
    char *out;
    int status = shell("d=$(mktemp -d); $PERF --processes 3 -n 2 -b 1K -e 1K -i 2 --warmup 1 "
                       "--no-reference --json $d/json >$d/out 2>&1; s=$?; cat $d/out $d/json; "
                       "rm -rf $d; exit $s",
                       &out);
    cr_expect_eq(status, 0, "%s", out);
    cr_expect_eq(count(out, "\"wrong\": 0"), 19, "%s", out);
    cr_expect_eq(count(out, "\"verified\": true"), 19);
    cr_expect_eq(count(out, "\"processes\": 3, \"endpoints\": 6"), 1);
    free(out);
}

Test(processes, the_limit_is_a_message_between_them_measured_in_between) {
    char *out;
    int status = shell("d=$(mktemp -d); $PERF --processes 2 -n 1 -b 8 -e 8 --seconds 0.01 "
                       "--limits allreduce --json $d/json >$d/out 2>&1; s=$?; cat $d/out $d/json; "
                       "rm -rf $d; exit $s",
                       &out);
    cr_expect_eq(status, 0, "%s", out);
    const char *half = strstr(out, "\"message_us\": ");
    cr_assert_not_null(half, "%s", out);
    cr_expect_gt(atof(half + strlen("\"message_us\": ")), 0.0);
    cr_expect_not_null(strstr(out, "\"formula\": \"H(T)\", \"thread_bytes\": 8"), "%s", out);
    free(out);
}

/* One message per pair of processes and step; bytes as in theory. */
Test(processes, messages_and_bytes_of_a_call_are_counted) {
    static const char *const expected[] = {
        /* collective, bytes, messages, of the most, at least, bytes, of the most, at least */
        "barrier,0,8,3.0000,3.0000,1.5000,0.00,0.00,0.00",
        "bcast,1024,8,0.7500,3.0000,0.7500,768.00,3072.00,768.00",
        "allreduce,1024,8,3.0000,3.0000,1.5000,3072.00,3072.00,1536.00",
        "allgather,1024,8,3.0000,3.0000,1.5000,6144.00,6144.00,6144.00",
        "alltoall,1024,8,3.0000,3.0000,3.0000,12288.00,12288.00,12288.00"};
    char *out;
    int status =
        shell("d=$(mktemp -d); HEDDLE_NODE=n $PERF --processes 4 -n 2 -b 1K -e 1K --messages "
              "--csv $d/csv barrier bcast allreduce allgather alltoall >$d/out 2>&1; s=$?; "
              "cat $d/out $d/csv; rm -rf $d; exit $s",
              &out);
    cr_expect_eq(status, 0, "%s", out);
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        cr_expect_not_null(strstr(out, expected[i]), "no '%s' in %s", expected[i], out);
    }
    free(out);
}

Test(processes, processes_started_by_hand_find_each_other_at_an_address) {
    char *out;
    int status =
        shell("export HEDDLE_BOOTSTRAP_KEY=of-this-test; "
              "run=\"$PERF --processes 2 --address 127.0.0.1:$PORT -n 2 -e 8 --seconds 0.002\"; "
              "{ $run --rank 1 barrier allreduce & $run --rank 0 barrier allreduce; a=$?; wait $!; "
              "b=$?; } 2>&1; exit $((a + b))",
              &out);
    cr_expect_eq(status, 0, "%s", out);
    cr_expect_eq(count(out, "# heddle_perf: 4 endpoints"), 1, "rank 0 alone prints: %s", out);
    free(out);
}

Test(processes, processes_that_are_asked_for_different_things_say_so) {
    char *out;
    int status =
        shell("export HEDDLE_BOOTSTRAP_KEY=of-this-test; "
              "run=\"$PERF --processes 2 --address 127.0.0.1:$PORT -n 1 -e 8 --seconds 0.002\"; "
              "{ $run --rank 1 barrier & $run --rank 0 allreduce; a=$?; wait $!; b=$?; } 2>&1; "
              "exit $((a * 10 + b))",
              &out);
    cr_expect_eq(status, 11, "%s", out);
    cr_expect_eq(count(out, "asked for different things"), 2, "%s", out);
    free(out);
}

Test(processes, a_launcher_says_who_they_are) {
    static const char *const mpiexec[] = {
        "mpiexec.mpich", "mpiexec.openmpi --allow-run-as-root --oversubscribe --bind-to none"};
    unsigned tried = 0;
    for (size_t i = 0; i < 2; i++) {
        char line[600], *out;
        snprintf(line, sizeof(line), "type %.16s >/dev/null 2>&1", mpiexec[i]);
        int there = shell(line, &out);
        free(out);
        if (there != 0) {
            continue;
        }
        tried++;
        snprintf(
            line, sizeof(line),
            "export HEDDLE_BOOTSTRAP_KEY=of-this-test HEDDLE_BOOTSTRAP_ADDRESS=127.0.0.1:$PORT; "
            "%s -n 2 $PERF -n 2 -e 8 --seconds 0.002 barrier allreduce 2>&1 </dev/null",
            mpiexec[i]);
        int status = shell(line, &out);
        cr_expect_eq(status, 0, "%s: %s", mpiexec[i], out);
        cr_expect_eq(count(out, "# heddle_perf: 4 endpoints"), 1, "%s", out);
        free(out);
    }
    if (tried == 0) {
        cr_skip_test("no mpiexec here");
    }
}

Test(processes, info_shows_what_ucx_has_selected_and_the_plans_among_them) {
    char *out;
    int status =
        shell("HEDDLE_NODE=n HEDDLE_NET_TLS=tcp HEDDLE_NET_LANES=2 $INFO --processes 3 2>&1", &out);
    cr_expect_eq(status, 0, "%s", out);
    cr_expect_not_null(strstr(out, "process 2: endpoints 2\n"), "%s", out);
    cr_expect_not_null(strstr(out, "over 2 lanes"), "%s", out);
    cr_expect_not_null(strstr(out, "process 1, lane 0\n    tcp/"), "%s", out);
    cr_expect_null(strstr(out, "sysv"), "only TCP: %s", out);
    cr_expect_not_null(strstr(out, "plans across 3 processes"), "%s", out);
    free(out);
}

/* Of a number of processes that nobody has started. */
Test(processes, info_shows_plans_among_any_number_of_processes_without_them) {
    char *out;
    int status = shell("HEDDLE_NET_ALLGATHER=ring $INFO --net -n 1000 2>&1", &out);
    cr_expect_eq(status, 0, "%s", out);
    const char *row = strstr(out, "\nbarrier ");
    cr_assert_not_null(row, "%s", out);
    cr_expect_eq(strspn(row + strlen("\nbarrier "), " ") > 0, true);
    cr_expect_not_null(strstr(row, "dissemination/4"), "%s", out);
    row = strstr(out, "\nallgather ");
    cr_expect_eq(strncmp(row + strlen("\nallgather ") + strspn(row + strlen("\nallgather "), " "),
                         "ring", 4),
                 0, "as the configuration says: %s", out);
    free(out);
}

/* What is answered, tests/span/test_awaited.c looks at. */
Test(processes, info_says_which_processes_can_not_be_asked) {
    static const struct {
        const char *pid, *says;
        int status;
    } cases[] = {
        {"0", "is not the number of a process", 2},
        {"12x", "is not the number of a process", 2},
        {"4194304", "there is no process 4194304", 1}, /* pids are below */
        {"$$", "has no teams of several processes", 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char line[64], *out;
        snprintf(line, sizeof(line), "$INFO --job %.16s 2>&1", cases[i].pid);
        cr_expect_eq(shell(line, &out), cases[i].status, "%s: %s", cases[i].pid, out);
        cr_expect_not_null(strstr(out, cases[i].says), "%s: %s", cases[i].pid, out);
        free(out);
    }
}

/* --- traces ----------------------------------------------------------------------------------- */

/* Reads the merged trace as JSON, and says: arrows that begin, arrows that end, those of them whose
 * two ends are in different processes, those that end more than 10 ms before they begin, rows of
 * lanes, names of processes. */
#define READ_ALL                                                                                   \
    "python3 -c \"import json; e = json.load(open('$d/all.json'))['traceEvents']; "                \
    "s = {x['id']: x for x in e if x['ph'] == 's'}; f = [x for x in e if x['ph'] == 'f']; "        \
    "n = sorted(x['args']['name'] for x in e if x.get('name') == 'process_name'); "                \
    "print('arrows', len(s), len(f), sum(x['pid'] != s[x['id']]['pid'] for x in f), "              \
    "'backwards', sum(x['ts'] < s[x['id']]['ts'] - 10000 for x in f), 'lanes', "                   \
    "sum(x['name'] == 'thread_name' and 'lane' in x['args']['name'] for x in e), n)\""

/* A barrier among 3 processes is 6 messages. */
Test(processes, traces_of_all_processes_become_one_with_an_arrow_for_each_message) {
    char *out;
    int status =
        shell("type python3 >/dev/null && set -e; d=$(mktemp -d); "
              "HEDDLE_NODE=n HEDDLE_TRACE=$d/t-%p.json $PERF --processes 3 -n 2 -i 4 --warmup 0 "
              "--no-reference barrier >/dev/null; "
              "$TRACE merge -o $d/all.json $d/t-*.json; " READ_ALL "; rm -rf $d",
              &out);
    unsigned begun = 0, ended = 0, across = 0;
    cr_expect_eq(status, 0, "%s", out);
    cr_assert_eq(sscanf(out, "arrows %u %u %u", &begun, &ended, &across), 3, "%s", out);
    cr_expect_geq(begun, 24, "%s", out);
    cr_expect_eq(begun, ended, "%s", out);
    cr_expect_eq(across, ended, "%s", out);
    cr_expect_not_null(strstr(out, "backwards 0 lanes 3 ['heddle_perf, process 0 of 3', "
                                   "'heddle_perf, process 1 of 3', 'heddle_perf, process 2 of 3']"),
                       "%s", out);
    free(out);
}

/* Two hosts, one of whose clocks is 5 s ahead. Messages took 30 us there, and 50 us back: 40 is the
 * middle. */
Test(processes, clocks_of_different_hosts_are_brought_together_by_their_messages) {
    char *out;
    int status = shell(
        "set -e; d=$(mktemp -d); "
        "m() { printf '{\"ph\":\"%s\",\"pid\":7,\"tid\":1,\"cat\":\"message\",\"name\":\"message\","
        "\"id\":\"0x%s\",\"ts\":%s}%s\\n' \"$@\"; }; "
        "h() { printf '{\"otherData\":{\"clock\":\"%s\",\"began_ns\":%s},\"traceEvents\":[\\n' "
        "\"$@\"; }; "
        "{ h host-a 1000000; m s 1 100.000 ,; m f 2 190.000 ''; echo ']}'; } > $d/a; "
        "{ h host-b 5001000000; m f 1 130.000 ,; m s 2 140.000 ''; echo ']}'; } > $d/b; "
        "$TRACE merge $d/a $d/b; rm -rf $d",
        &out);
    cr_expect_eq(status, 0, "%s", out);
    cr_expect_not_null(strstr(out, "\"pid\":7,\"tid\":1,\"cat\":\"message\",\"name\":\"message\","
                                   "\"id\":\"0x1\",\"ts\":100.000}"),
                       "%s", out);
    cr_expect_not_null(strstr(out, "\"pid\":10000007,\"tid\":1,\"cat\":\"message\","
                                   "\"name\":\"message\",\"id\":\"0x1\",\"ts\":140.000}"),
                       "another process of the same number, 10 us later: %s", out);
    cr_expect_not_null(strstr(out, "\"id\":\"0x2\",\"ts\":150.000}"), "%s", out);
    free(out);
}

Test(processes, what_is_no_trace_is_not_merged) {
    char *out;
    cr_expect_eq(shell("$TRACE merge $PERF 2>&1", &out), 1);
    cr_expect_not_null(strstr(out, "is no trace"), "%s", out);
    free(out);
}

/* --- by which way processes reach each other -------------------------------------------------- */

/* Runs heddle_info --processes in this environment: each of the texts is there. */
static void expect_ways(const char *environment, unsigned n, const char *const texts[]) {
    char command[512], *out;
    snprintf(command, sizeof(command), "%s $INFO --processes %u 2>&1", environment, n);
    cr_expect_eq(shell(command, &out), 0, "%s", out);
    for (; *texts; texts++) {
        cr_expect_not_null(strstr(out, *texts), "no '%s' in %s", *texts, out);
    }
    free(out);
}

Test(processes, info_tells_of_processes_that_share_memory_what_is_near_and_what_is_far) {
    expect_ways("HEDDLE_NODE=y HEDDLE_XPMEM=n HEDDLE_PULL_MIN=inf", 3,
                (const char *[]){"large data to process 0 (host ", "large data to process 2 (host ",
                                 ": near where all buffers lie in heaps (",
                                 " of its 1 mapped); far: windows (not by the kernel: "
                                 "PULL_MIN is inf, or by the profile); not by xpmem: XPMEM=n\n",
                                 NULL}); /* how many are mapped by then, nobody says */
    expect_ways("HEDDLE_NODE=y HEDDLE_XPMEM=n", 2,
                (const char *[]){") from process 1: near where all",
                                 ") from process 0: near where all", "); far: ", NULL});
}

Test(processes, info_tells_why_processes_use_the_network) {
    expect_ways("HEDDLE_NODE=n", 2,
                (const char *[]){") from process 1: network, as NODE is n in one of them\n",
                                 ") from process 0: network, as NODE is n in one of them\n", NULL});
    expect_ways("HEDDLE_NODE=y HEDDLE_DEBUG_NODES=2", 4,
                (const char *[]){") from process 1: network, as they count as different hosts",
                                 ") from process 2: far: windows (the team has processes of other "
                                 "hosts)\n",
                                 "large data to process 3 (host ", NULL});
    expect_ways(
        "HEDDLE_NODE=y HEDDLE_DEBUG_NODES=2 HEDDLE_REPRODUCIBLE=placement", 4,
        (const char *[]){") from process 2: network, as REPRODUCIBLE=placement, and", NULL});
}
