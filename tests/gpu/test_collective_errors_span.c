/* test_collective_errors_span.c: collectives on device memory among processes that go wrong: calls
 * that differ, time-outs, aborts and lost devices while what is sent is still copied, and after;
 * processes that die; every driver call failing once.
 */
#include "emucuda/calls.h"
#include "gpu/gpu.h"
#include "support/deadline.h"
#include "support/device_cases.h"
#include "support/dose.h"
#include "support/probe.h"
#include "support/said.h"
#include "support/small.h"
#include "support/unleaked.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(device_span_errors, .timeout = 240);

enum { SECONDS = 60, MOST = 4, UNKNOWN_ERROR = 999 };

/* Elements: few go by stand-ins, many by a relay, in several segments. */
enum { FEW = 1000, MANY = 500000 };
static uint64_t count = FEW;

/* What has a device's memory is posted in the order of streams: it is over when it is enqueued. */
static bool on_streams;

/* In a process: what does not hold ends it. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: process %u: not %s\n", __FILE__, __LINE__, getpid(),           \
                    #condition);                                                                   \
            for (unsigned line_ = 0; said_line(line_)[0]; line_++) {                               \
                fprintf(stderr, "    %s\n", said_line(line_));                                     \
            }                                                                                      \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* A team, and a buffer on a device for each of this process's endpoints. */
typedef struct scene {
    const process_t *process;
    world_t *world;
    int32_t *buffer[MOST];
    void *stream[MOST];
    ucc_coll_args_t args[MOST];
    ucc_coll_req_h request[MOST];
} scene_t;

static scene_t open_scene(const process_t *process) {
    scene_t s = {.process = process};
    int32_t *ones = must_alloc(count, sizeof(*ones));
    for (uint64_t i = 0; i < count; i++) {
        ones[i] = 1;
    }
    s.world = world_create(&(world_params_t){.size = process->size, .process = process});
    for (uint32_t i = 0; i < process->n; i++) {
        s.stream[i] = device_stream(0);
        s.buffer[i] = device_take(0, count * sizeof(int32_t));
        device_to(s.buffer[i], ones, count * sizeof(int32_t));
        s.args[i] = small_allreduce(NULL, s.buffer[i], count);
        s.args[i].mask |= UCC_COLL_ARGS_FIELD_FLAGS;
        s.args[i].flags = UCC_COLL_ARGS_FLAG_IN_PLACE;
        s.args[i].dst.info.mem_type = UCC_MEMORY_TYPE_CUDA;
    }
    free(ones);
    process_barrier(process); /* who still forms the team would hear of its failure by that */
    return s;
}

static void await_stream(const scene_t *s, uint32_t i) {
    device_enter(0);
    must(cuStreamSynchronize(s->stream[i]) == CUDA_SUCCESS ? UCC_OK : UCC_ERR_NO_MESSAGE,
         "cuStreamSynchronize");
    device_leave();
}

static void close_scene(scene_t *s) {
    world_destroy(s->world);
    for (uint32_t i = 0; i < s->process->n; i++) {
        await_stream(s, i);
        device_stream_end(s->stream[i]);
        if (s->buffer[i]) {
            device_put(s->buffer[i]);
        }
    }
}

static void set_timeout(ucc_coll_args_t *args, double seconds) {
    args->flags |= UCC_COLL_ARGS_FLAG_TIMEOUT;
    args->timeout = seconds;
}

/* The status of a post by this process's endpoint i; the request is kept if it is under way. */
static ucc_status_t start(scene_t *s, uint32_t i) {
    ucc_team_h team = s->world->teams[s->process->endpoint[i]];
    s->request[i] = NULL;
    ucc_status_t status = ucc_collective_init(&s->args[i], &s->request[i], team);
    bool host = s->args[i].dst.info.mem_type == UCC_MEMORY_TYPE_HOST;
    if (status == UCC_OK) {
        status = on_streams && !host ? heddle_post_on(s->request[i], s->stream[i])
                                     : ucc_collective_post(s->request[i]);
        if (status != UCC_OK) {
            ucc_collective_finalize(s->request[i]);
            s->request[i] = NULL;
        }
    }
    return status;
}

static void progress(const scene_t *s) {
    for (uint32_t c = 0; c < s->world->n_contexts; c++) {
        ucc_context_progress(s->world->contexts[c]);
    }
}

static ucc_status_t finish(scene_t *s, uint32_t i) {
    deadline_t deadline = deadline_start("a collective that fails");
    ucc_status_t status;
    while ((status = ucc_collective_test(s->request[i])) == UCC_INPROGRESS) {
        progress(s);
        deadline_poll(&deadline);
    }
    ucc_collective_finalize(s->request[i]);
    s->request[i] = NULL;
    return status;
}

static void progress_until_said(const scene_t *s, const char *words) {
    deadline_t deadline = deadline_start(words);
    while (!was_said(words)) {
        progress(s);
        deadline_poll(&deadline);
    }
}

static uint64_t pending(void) {
    heddle_emucuda_report_t report;
    heddle_emucuda_report(&report, sizeof(report));
    return report.pending;
}

/* Posts, and waits: what it ends with. */
static ucc_status_t run_one(scene_t *s, uint32_t i) {
    ucc_status_t status = start(s, i);
    return status == UCC_OK ? finish(s, i) : status;
}

static void begin(void) {
    said_listen();
    device_cases_begin("1", DEVICE_CASES_PLAIN);
    case_memory = NULL; /* only the memory, not the cases */
}

static void runs(uint32_t processes, uint32_t doomed, int (*work)(const process_t *, void *)) {
    if (!probe_network()) {
        cr_skip_test("this build has no network");
    }
    shape_t shape = shape_even(processes, 1);
    shape.doomed = doomed;
    for (int k = 0; k < 4; k++) {
        on_streams = k % 2 == 1;
        count = k < 2 ? FEW : MANY;
        cr_assert(processes_run(&shape, SECONDS, work, NULL).ok, "%llu elements, %s",
                  (unsigned long long)count, on_streams ? "on streams" : "plain");
    }
}

/* --- calls that differ ------------------------------------------------------------------------ */

static int differ(const process_t *process, void *arg) {
    int32_t *host = must_alloc(count, sizeof(*host));
    (void)arg;
    begin();
    scene_t s = open_scene(process);
    if (process->me == 0) {
        s.args[0].dst.info.buffer = host;
        s.args[0].dst.info.mem_type = UCC_MEMORY_TYPE_HOST;
    }
    CHECK(run_one(&s, 0) == UCC_ERR_INVALID_PARAM);
    free(host);
    close_scene(&s);
    device_cases_end();
    return 0;
}

Test(device_span_errors, memory_of_the_host_in_one_process_only) {
    runs(2, 0, differ);
}

static int refuse(const process_t *process, void *arg) {
    (void)arg;
    begin();
    scene_t s = open_scene(process);
    s.args[0].dst.info.count = 2;
    s.args[0].dst.info.datatype = UCC_DT_FLOAT128;
    CHECK(start(&s, 0) == UCC_ERR_NOT_SUPPORTED && was_said("float128"));
    close_scene(&s);
    device_cases_end();
    return 0;
}

Test(device_span_errors, what_devices_do_not_reduce_is_refused_as_in_one_process) {
    runs(2, 0, refuse);
}

/* --- while what is sent is copied, or what has come ------------------------------------------- */

/* All internal streams of the device stand still. */
typedef struct gate {
    const hd_gpu_driver_t *gpu;
    hd_gpu_flag_t *word;
} gate_t;

static gate_t shut(void) {
    gate_t gate;
    must(hd_gpu_open(&gate.gpu), "hd_gpu_open");
    must(gate.gpu->word_take(0, &gate.word), "word_take");
    for (uint32_t i = 0; i < HD_GPU_STREAMS; i++) {
        hd_gpu_stream_t stream;
        must(gate.gpu->stream(0, i, &stream), "stream");
        must(gate.gpu->gate(stream, gate.word, 1, HD_GPU_SITE_NONE), "gate");
    }
    return gate;
}

static void leave_gate(gate_t *gate) {
    gate->gpu->word_put(0, gate->word);
    hd_gpu_close();
}

/* The device of process 0 stands still, so it publishes nothing; calls on memory of the host go on.
 */
static int hold_up(const process_t *process, void *arg) {
    enum { CALLS = 3 };
    int32_t small[CALLS] = {0}, *mine = must_alloc(count, sizeof(*mine));
    gate_t gate = {NULL, NULL};
    (void)arg;
    begin();
    scene_t s = open_scene(process);
    if (process->me == 0) {
        gate = shut();
    }
    CHECK(start(&s, 0) == UCC_OK);
    ucc_coll_req_h first = s.request[0];
    ucc_coll_args_t large = s.args[0];
    for (int k = 0; k < CALLS; k++) {
        small[k] = 1;
        s.args[0] = small_allreduce(NULL, &small[k], 1);
        s.args[0].mask |= UCC_COLL_ARGS_FIELD_FLAGS;
        s.args[0].flags = UCC_COLL_ARGS_FLAG_IN_PLACE;
        CHECK(run_one(&s, 0) == UCC_OK && small[k] == 2);
    }
    CHECK(ucc_collective_test(first) == UCC_INPROGRESS);
    process_barrier(process);
    if (process->me == 0) {
        hd_gpu_word_open(gate.word, 1);
    }
    s.request[0] = first;
    CHECK(finish(&s, 0) == UCC_OK);
    await_stream(&s, 0);
    device_from(mine, large.dst.info.buffer, count * sizeof(*mine));
    CHECK(mine[0] == 2 && mine[count - 1] == 2);
    free(mine);
    if (process->me == 0) {
        leave_gate(&gate);
    }
    close_scene(&s);
    device_cases_end();
    return 0;
}

Test(device_span_errors, calls_posted_later_do_not_wait_for_a_device_that_is_late) {
    runs(2, 0, hold_up);
}

static int time_out_filling(const process_t *process, void *arg) {
    gate_t gate = {NULL, NULL};
    (void)arg;
    begin();
    scene_t s = open_scene(process);
    if (process->me == 1) {
        CHECK(run_one(&s, 0) < 0);
    } else {
        gate = shut();
        set_timeout(&s.args[0], 0.05);
        CHECK(start(&s, 0) == UCC_OK);
        progress_until_said(&s, "time-out: ");
        for (int k = 0; k < 1000; k++) {
            progress(&s);
        }
        CHECK(ucc_collective_test(s.request[0]) == UCC_INPROGRESS); /* its buffer is in use */
        hd_gpu_word_open(gate.word, 1);
        CHECK(finish(&s, 0) == UCC_ERR_TIMED_OUT);
        leave_gate(&gate);
    }
    process_barrier(process);
    close_scene(&s);
    device_cases_end();
    return 0;
}

Test(device_span_errors, who_times_out_while_filling_waits_for_the_device_and_others_do_not) {
    runs(2, 0, time_out_filling);
}

/* From a root: the other process only drains. */
static int fail_draining(const process_t *process, void *arg) {
    gate_t gate = {NULL, NULL};
    (void)arg;
    begin();
    scene_t s = open_scene(process);
    s.args[0] = small_bcast(s.buffer[0], count, 0);
    s.args[0].src.info.mem_type = UCC_MEMORY_TYPE_CUDA;
    if (process->me == 0) {
        (void)run_one(&s, 0);
    } else {
        deadline_t deadline = deadline_start("what a root has sent");
        gate = shut();
        uint64_t before = pending();
        CHECK(start(&s, 0) == UCC_OK);
        while (on_streams ? ucc_collective_test(s.request[0]) == UCC_INPROGRESS
                          : pending() == before) {
            progress(&s);
            deadline_poll(&deadline);
        }
        CHECK(heddle_team_abort(s.world->teams[process->endpoint[0]]) == UCC_OK);
        for (int k = 0; k < 1000; k++) {
            progress(&s);
        }
        /* its buffer is in use */
        CHECK(ucc_collective_test(s.request[0]) == (on_streams ? UCC_OK : UCC_INPROGRESS));
        hd_gpu_word_open(gate.word, 1);
        CHECK(finish(&s, 0) == (on_streams ? UCC_OK : HEDDLE_ERR_ABORTED));
        leave_gate(&gate);
    }
    process_barrier(process);
    close_scene(&s);
    device_cases_end();
    return 0;
}

Test(device_span_errors, who_fails_while_draining_waits_for_the_device) {
    runs(2, 0, fail_draining);
}

static int abort_all(const process_t *process, void *arg) {
    (void)arg;
    begin();
    scene_t s = open_scene(process);
    if (process->me == 1) {
        CHECK(heddle_team_abort(s.world->teams[process->endpoint[0]]) == UCC_OK);
        CHECK(run_one(&s, 0) < 0);
    } else {
        CHECK(run_one(&s, 0) == HEDDLE_ERR_ABORTED);
    }
    process_barrier(process);
    close_scene(&s);
    device_cases_end();
    return 0;
}

Test(device_span_errors, an_abort_ends_what_waits_for_another_process) {
    runs(2, 0, abort_all);
}

static int lose_device(const process_t *process, void *arg) {
    (void)arg;
    begin();
    scene_t s = open_scene(process);
    if (process->me == 0) {
        (void)shut();
        CHECK(start(&s, 0) == UCC_OK);
        for (int k = 0; k < 1000; k++) {
            progress(&s);
        }
        heddle_emucuda_lose_device(0, 0);
        CHECK(finish(&s, 0) == UCC_ERR_IO_ERROR);
        CHECK(was_said("has failed before it was complete"));
    } else {
        CHECK(run_one(&s, 0) < 0);
    }
    process_barrier(process);
    world_destroy(s.world);
    return 0; /* what is left belongs to a device that is gone */
}

Test(device_span_errors, a_device_that_is_lost_while_it_fills) {
    runs(2, 0, lose_device);
}

static int die(const process_t *process, void *arg) {
    (void)arg;
    begin();
    scene_t s = open_scene(process);
    for (int k = 0; k < 3; k++) {
        CHECK(run_one(&s, 0) == UCC_OK);
    }
    process_barrier(process); /* or the last of them fails where it has not ended yet */
    if (process->me == 2) {
        raise(SIGKILL);
    }
    CHECK(run_one(&s, 0) < 0);
    close_scene(&s);
    device_cases_end();
    return 0;
}

Test(device_span_errors, a_process_that_dies) {
    runs(3, 1u << 2, die);
}

static int fork_child(const process_t *process, void *arg) {
    gate_t gate = {NULL, NULL};
    (void)arg;
    begin();
    scene_t s = open_scene(process);
    gate = shut();
    CHECK(start(&s, 0) == UCC_OK);
    pid_t child = fork();
    if (child == 0) {
        _exit(finish(&s, 0) == UCC_ERR_NOT_SUPPORTED ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    hd_gpu_word_open(gate.word, 1);
    CHECK(finish(&s, 0) == UCC_OK);
    leave_gate(&gate);
    close_scene(&s);
    device_cases_end();
    return 0;
}

Test(device_span_errors, the_child_of_a_fork_has_no_devices) {
    runs(2, 0, fork_child);
}

/* --- every driver call fails once ------------------------------------------------------------- */

/* What one try at failing a driver call has shown. */
typedef struct {
    bool reached; /* there are as many calls */
    bool untold;  /* operations timed out, and no line says why: a busy machine, or a failure that
                      nobody was told of */
} failing_t;

/* Of two results the one that tells more. */
static ucc_status_t telling(ucc_status_t a, ucc_status_t b) {
    return a == UCC_OK || (a == UCC_ERR_TIMED_OUT && b != UCC_OK) ? b : a;
}

/* An allreduce and an allgatherv among two processes of two endpoints, the n-th driver call of
 * process 0 from the first init on failing. Who does not post because of it tells nobody: the
 * others wait for `patience` seconds. */
static failing_t fails_at(const process_t *process, uint64_t n, double patience) {
    heddle_emucuda_report_t report;
    uint32_t counts[] = {10, 0, 30, 40}, displacements[] = {50, 0, 100, 0};
    scene_t s = open_scene(process);
    ucc_status_t failed = UCC_OK; /* the first that isn't a time-out, if there is one */
    said_forget();
    heddle_emucuda_report(&report, sizeof(report));
    uint64_t before = report.calls;
    if (process->me == 0) {
        heddle_emucuda_fail_call(n, UNKNOWN_ERROR);
    }
    for (int times = 0; times < 2 && failed == UCC_OK; times++) {
        for (uint32_t i = 0; i < process->n; i++) {
            if (times == 1) {
                s.args[i] = small_args(UCC_COLL_TYPE_ALLGATHERV);
                s.args[i].mask |= UCC_COLL_ARGS_FIELD_FLAGS;
                s.args[i].flags = UCC_COLL_ARGS_FLAG_IN_PLACE;
                s.args[i].dst.info_v = small_info_v(s.buffer[i], counts, displacements);
                s.args[i].dst.info_v.mem_type = UCC_MEMORY_TYPE_CUDA;
            }
            set_timeout(&s.args[i], patience);
            failed = telling(failed, start(&s, i));
        }
        for (uint32_t i = 0; i < process->n; i++) {
            failed = telling(failed, s.request[i] ? finish(&s, i) : UCC_OK);
        }
    }
    heddle_emucuda_report(&report, sizeof(report));
    heddle_emucuda_fail_call(0, 0);
    bool untold = process->me == 0 && failed != UCC_OK && said_lines() == 0;
    CHECK(!untold || failed == UCC_ERR_TIMED_OUT);
    process_barrier(process);
    close_scene(&s);
    return (failing_t){report.calls - before >= n, untold};
}

/* What process 0 has seen, to all. */
static failing_t agreed(const process_t *process, failing_t seen) {
    process_set(process, 0, seen.reached);
    process_set(process, 1, seen.untold);
    process_barrier(process);
    seen.reached = process_get(process, 0, 0) != 0;
    seen.untold = process_get(process, 0, 1) != 0;
    process_barrier(process);
    return seen;
}

static int fail_all(const process_t *process, void *arg) {
    failing_t seen = {true, false};
    uint64_t step = dose_step(5, 13), n = count == MANY ? 2 : 1; /* others in each test */
    n += on_streams ? 2 : 0;
    const hd_gpu_driver_t *gpu;
    (void)arg;
    begin();
    ucc_lib_h lib = world_lib(UCC_THREAD_SINGLE); /* which keeps the configuration */
    must(hd_gpu_open(&gpu), "hd_gpu_open");
    must(gpu->use(0), "use"); /* failures of that are test_faults.c's */
    for (; seen.reached; n += step) {
        seen = agreed(process, fails_at(process, n, 0.25));
        if (seen.untold) { /* was it in want of time? */
            CHECK(!agreed(process, fails_at(process, n, 10)).untold);
        }
    }
    CHECK(n > 20); /* there are that many, at least */
    hd_gpu_close();
    must(ucc_finalize(lib), "ucc_finalize");
    device_cases_end();
    return 0;
}

static void every_call_fails(void) {
    if (!probe_network()) {
        cr_skip_test("this build has no network");
    }
    shape_t shape = shape_even(2, 2);
    cr_assert(processes_run(&shape, 3 * SECONDS, fail_all, NULL).ok);
}

Test(device_span_errors, every_driver_call_fails_once_on_streams) {
    on_streams = true;
    every_call_fails();
}

Test(device_span_errors, every_driver_call_fails_once_in_segments_on_streams) {
    on_streams = true;
    count = MANY;
    every_call_fails();
}

Test(device_span_errors, every_driver_call_fails_once) {
    every_call_fails();
}

Test(device_span_errors, every_driver_call_fails_once_in_segments) {
    count = MANY;
    every_call_fails();
}
