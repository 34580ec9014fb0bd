/* test_collective_errors.c: collectives on device memory that go wrong: calls that differ,
 * time-outs and aborts before and after they are enqueued, devices that are lost, every driver call
 * failing once. Waits that are left out: test_sites.c.
 */
#include "emucuda/calls.h"
#include "gpu/gpu.h"
#include "support/deadline.h"
#include "support/device_cases.h"
#include "support/said.h"
#include "support/small.h"
#include "device/internal.h"
#include "shm/claim.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(device_errors, .timeout = 120);

enum { MOST = 8, UNKNOWN_ERROR = 999 };

/* A world, and a buffer on a device for each of its endpoints. */
typedef struct scene {
    world_t *world;
    uint64_t count;
    int32_t *buffer[MOST];
    ucc_coll_args_t args[MOST];
    ucc_coll_req_h request[MOST];
} scene_t;

static void open_scene(scene_t *s, uint32_t n, uint64_t count, int devices) {
    int32_t *zeros = must_alloc(count, sizeof(*zeros));
    *s = (scene_t){.world = small_world(n), .count = count};
    for (uint32_t i = 0; i < n; i++) {
        s->buffer[i] = device_take((int)i % devices, count * sizeof(int32_t));
        device_to(s->buffer[i], zeros, count * sizeof(int32_t));
        s->args[i] = small_allreduce(NULL, s->buffer[i], count);
        s->args[i].mask |= UCC_COLL_ARGS_FIELD_FLAGS;
        s->args[i].flags = UCC_COLL_ARGS_FLAG_IN_PLACE;
        s->args[i].dst.info.mem_type = UCC_MEMORY_TYPE_CUDA;
    }
    free(zeros);
}

static void set_timeout(ucc_coll_args_t *args, double seconds) {
    args->flags |= UCC_COLL_ARGS_FLAG_TIMEOUT;
    args->timeout = seconds;
}

static void close_scene(scene_t *s) {
    uint32_t n = s->world->size;
    world_destroy(s->world);
    for (uint32_t i = 0; i < n; i++) {
        if (s->buffer[i]) {
            device_put(s->buffer[i]);
        }
    }
}

/* The status of a post at endpoint i; the request is kept if it is under way. */
static ucc_status_t start(scene_t *s, uint32_t i) {
    s->request[i] = NULL;
    ucc_status_t status = ucc_collective_init(&s->args[i], &s->request[i], s->world->teams[i]);
    if (status == UCC_OK) {
        status = ucc_collective_post(s->request[i]);
        if (status != UCC_OK) {
            ucc_collective_finalize(s->request[i]);
            s->request[i] = NULL;
        }
    }
    return status;
}

static ucc_status_t finish(scene_t *s, uint32_t i) {
    deadline_t deadline = deadline_start("a collective that fails");
    ucc_status_t status;
    while ((status = ucc_collective_test(s->request[i])) == UCC_INPROGRESS) {
        for (uint32_t c = 0; c < s->world->n_contexts; c++) {
            ucc_context_progress(s->world->contexts[c]);
        }
        deadline_poll(&deadline);
    }
    ucc_collective_finalize(s->request[i]);
    s->request[i] = NULL;
    return status;
}

static void begin(const char *config) {
    said_listen();
    device_cases_begin(config, DEVICE_CASES_PLAIN);
    case_memory = NULL; /* only the memory, not the cases */
}

static uint64_t operations(void) {
    heddle_emucuda_report_t report;
    heddle_emucuda_report(&report, sizeof(report));
    return report.operations + report.pending;
}

/* --- calls that differ ------------------------------------------------------------------------ */

Test(device_errors, the_call_log_says_that_devices_do_it) {
    scene_t s;
    setenv("HEDDLE_COLL_TRACE", "info", 1);
    begin("1");
    open_scene(&s, 2, 1000, 1);
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_eq(start(&s, i), UCC_OK);
    }
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_eq(finish(&s, i), UCC_OK);
    }
    cr_assert(was_said("; device, arrival flat, numbered"), "%s", said_line(0));
    close_scene(&s);
    device_cases_end();
}

Test(device_errors, memory_of_the_host_at_one_endpoint_only) {
    int32_t host[4] = {0};
    scene_t s;
    begin("1");
    open_scene(&s, 2, 4, 1);
    s.args[0].dst.info = small_info(host, 4);
    cr_assert_eq(start(&s, 0), UCC_OK);
    (void)start(&s, 1);
    cr_assert_eq(finish(&s, 0), UCC_ERR_INVALID_PARAM);
    if (s.request[1]) {
        cr_assert_eq(finish(&s, 1), UCC_ERR_INVALID_PARAM);
    }
    cr_assert(was_said("memory type cuda") && was_said("memory type host"), "%s", said_line(0));
    close_scene(&s);
    device_cases_end();
}

Test(device_errors, what_is_said_to_be_device_memory_and_is_not) {
    int32_t host[4] = {0};
    scene_t s;
    begin("1");
    open_scene(&s, 2, 4, 1);
    s.args[0].dst.info = small_info(host, 4);
    s.args[0].dst.info.mem_type = UCC_MEMORY_TYPE_CUDA;
    cr_assert_eq(start(&s, 0), UCC_ERR_INVALID_PARAM);
    cr_assert(was_said("dst has a device's memory type, but there is no device memory"), "%s",
              said_line(0));
    s.args[0].dst.info.mem_type = UCC_MEMORY_TYPE_ROCM;
    cr_assert_eq(start(&s, 0), UCC_ERR_NOT_SUPPORTED);
    s.args[0].dst.info = small_info(s.buffer[0], 1);
    s.args[0].dst.info.mem_type = UCC_MEMORY_TYPE_CUDA;
    s.args[0].dst.info.datatype = UCC_DT_FLOAT128;
    cr_assert_eq(start(&s, 0), UCC_ERR_NOT_SUPPORTED);
    cr_assert(was_said("float128"));
    close_scene(&s);
    device_cases_end();
}

/* --- less memory than the call says ----------------------------------------------------------- */

/* Endpoint 0 of two is refused, and the line has these words. */
static void check_refused(scene_t *s, const char *words) {
    said_forget();
    cr_assert_eq(start(s, 0), UCC_ERR_INVALID_PARAM, "%s", words);
    cr_assert(was_said(words), "'%s', not '%s'", said_line(0), words);
}

static ucc_coll_buffer_info_t of_device(void *buffer, uint64_t count) {
    ucc_coll_buffer_info_t info = small_info(buffer, count);
    info.mem_type = UCC_MEMORY_TYPE_CUDA;
    return info;
}

Test(device_errors, more_than_the_allocation_has_is_refused) {
    static const ucc_coll_type_t from_src[] = {
        UCC_COLL_TYPE_ALLREDUCE, UCC_COLL_TYPE_BCAST,    UCC_COLL_TYPE_SCATTER,
        UCC_COLL_TYPE_REDUCE,    UCC_COLL_TYPE_ALLTOALL, UCC_COLL_TYPE_REDUCE_SCATTER};
    static const ucc_coll_type_t to_dst[] = {UCC_COLL_TYPE_ALLREDUCE, UCC_COLL_TYPE_ALLGATHER,
                                             UCC_COLL_TYPE_ALLTOALL, UCC_COLL_TYPE_GATHER,
                                             UCC_COLL_TYPE_REDUCE_SCATTER};
    scene_t s;
    begin("1");
    open_scene(&s, 2, 100, 1);
    for (size_t i = 0; i < sizeof(from_src) / sizeof(*from_src); i++) {
        uint64_t to =
            from_src[i] == UCC_COLL_TYPE_REDUCE_SCATTER || from_src[i] == UCC_COLL_TYPE_SCATTER
                ? 49
                : 98;
        s.args[0] = small_args(from_src[i]);
        s.args[0].op = UCC_OP_SUM;
        s.args[0].root = 0;
        s.args[0].src.info = of_device(s.buffer[0] + 3, 98);
        s.args[0].dst.info = of_device(s.buffer[1], to);
        check_refused(&s, " at endpoint 0: src: 392 bytes are needed at ");
        cr_assert(was_said("its allocation ends after 388"), "%s", said_line(0));
    }
    for (size_t i = 0; i < sizeof(to_dst) / sizeof(*to_dst); i++) {
        bool even = to_dst[i] == UCC_COLL_TYPE_ALLREDUCE || to_dst[i] == UCC_COLL_TYPE_ALLTOALL;
        s.args[0] = small_args(to_dst[i]);
        s.args[0].op = UCC_OP_SUM;
        s.args[0].root = 0;
        s.args[0].src.info = of_device(s.buffer[1], even ? 102 : 51);
        s.args[0].dst.info = of_device(s.buffer[0], 102);
        check_refused(&s, " at endpoint 0: dst: 408 bytes are needed at ");
        cr_assert(was_said("its allocation ends after 400"), "%s", said_line(0));
    }
    s.args[0] = small_allreduce(NULL, s.buffer[0], 101);
    s.args[0].mask |= UCC_COLL_ARGS_FIELD_FLAGS;
    s.args[0].flags = UCC_COLL_ARGS_FLAG_IN_PLACE | UCC_COLL_ARGS_FLAG_PERSISTENT;
    s.args[0].dst.info.mem_type = UCC_MEMORY_TYPE_UNKNOWN;
    check_refused(&s, "dst: 404 bytes are needed at ");
    void *stream = device_stream(0);
    said_forget();
    cr_assert_eq(heddle_collective_on(&s.args[0], s.world->teams[0], stream),
                 UCC_ERR_INVALID_PARAM);
    cr_assert(was_said("dst: 404 bytes are needed at "), "%s", said_line(0));
    device_stream_end(stream);
    close_scene(&s);
    device_cases_end();
}

Test(device_errors, blocks_beyond_the_allocation_are_refused) {
    uint64_t counts[2] = {10, 20}, inside[2] = {0, 80}, beyond[2] = {0, 81}, at[2];
    scene_t s;
    begin("1");
    open_scene(&s, 2, 100, 1);
    void *bases[] = {s.buffer[0], NULL};
    for (int absolute = 0; absolute < 2; absolute++) {
        for (int side = 0; side < 2; side++) {
            for (int i = 0; i < 2; i++) {
                at[i] = beyond[i] + (absolute ? (uintptr_t)s.buffer[0] / 4 : 0);
            }
            s.args[0] = small_args(UCC_COLL_TYPE_ALLTOALLV);
            s.args[0].mask |= UCC_COLL_ARGS_FIELD_FLAGS;
            s.args[0].flags =
                UCC_COLL_ARGS_FLAG_COUNT_64BIT | UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT;
            s.args[0].src.info_v = s.args[0].dst.info_v = (ucc_coll_buffer_info_v_t){
                s.buffer[1], counts, inside, UCC_DT_INT32, UCC_MEMORY_TYPE_CUDA};
            ucc_coll_buffer_info_v_t *info = side ? &s.args[0].dst.info_v : &s.args[0].src.info_v;
            info->buffer = bases[absolute];
            info->displacements = at;
            check_refused(&s, side ? "dst, block 1: 80 bytes are needed at "
                                   : "src, block 1: 80 bytes are needed at ");
            cr_assert(was_said("its allocation ends after 76"), "%s", said_line(0));
        }
    }
    at[1] = (uintptr_t)s.buffer[0] / 4 + 100;
    check_refused(&s, "dst, block 1 has a device's memory type, but there is no device memory");
    close_scene(&s);
    device_cases_end();
}

Test(device_errors, memory_that_is_freed_or_outside_is_no_device_memory) {
    scene_t s;
    begin("1");
    open_scene(&s, 2, 100, 1);
    s.args[0].dst.info = of_device(s.buffer[0] + 100, 1);
    check_refused(&s, "there is no device memory: is it the host's, freed, or outside");
    s.args[0].dst.info = of_device(s.buffer[0], 1);
    device_put(s.buffer[0]);
    s.buffer[0] = NULL;
    check_refused(&s, "there is no device memory: is it the host's, freed, or outside");
    close_scene(&s);
    device_cases_end();
}

Test(device_errors, blocks_of_different_sizes) {
    scene_t s;
    uint32_t counts[2][2] = {{1, 2}, {1, 1}}, displacements[2] = {0, 1};
    begin("1");
    open_scene(&s, 2, 8, 1);
    for (uint32_t i = 0; i < 2; i++) {
        s.args[i] = small_args(UCC_COLL_TYPE_ALLGATHERV);
        s.args[i].src.info = small_info(s.buffer[i] + 4, 1);
        s.args[i].src.info.mem_type = UCC_MEMORY_TYPE_CUDA;
        s.args[i].dst.info_v = small_info_v(s.buffer[i], counts[i], displacements);
        s.args[i].dst.info_v.mem_type = UCC_MEMORY_TYPE_CUDA;
    }
    cr_assert_eq(start(&s, 0), UCC_OK);
    (void)start(&s, 1);
    cr_assert_eq(finish(&s, 0), UCC_ERR_INVALID_PARAM);
    if (s.request[1]) {
        cr_assert_eq(finish(&s, 1), UCC_ERR_INVALID_PARAM);
    }
    cr_assert(was_said("sends 4 bytes, endpoint 0 expects 8"), "%s", said_line(0));
    close_scene(&s);
    device_cases_end();
}

/* --- who reaches what ------------------------------------------------------------------------- */

static uint32_t asked;

static ucc_status_t elsewhere(int device, const void *pointer, bool *yes) {
    (void)pointer;
    asked++;
    *yes = device != 1;
    return UCC_OK;
}

Test(device_errors, pinned_memory_is_asked_about_as_any_other) {
    static int32_t pinned;
    const hd_gpu_memory_t memory = {.kind = HD_GPU_PINNED, .device = 0, .id = 5};
    hd_gpu_driver_t driver = {.devices = 2, .reachable = elsewhere};
    hd_devices_t *devices = hd_devices_make(&driver);
    bool yes;
    for (int times = 0; times < 2; times++) {
        cr_assert_eq(hd_devices_reach(devices, 0, &memory, &pinned, &yes), UCC_OK);
        cr_assert(yes);
        cr_assert_eq(hd_devices_reach(devices, 1, &memory, &pinned, &yes), UCC_OK);
        cr_assert(!yes);
    }
    cr_assert_eq(asked, 2); /* once for each device */
    hd_devices_unmake(devices, false);
}

/* The first half of it is registered: devices must not be given the rest. */
Test(device_errors, memory_of_the_host_that_is_pinned_in_part) {
    enum { HALF = 4096, N = 2 * HALF / sizeof(int32_t) };
    int32_t *source = aligned_alloc(HALF, 2 * (size_t)HALF), result[N];
    scene_t s;
    begin("1");
    open_scene(&s, 2, N, 1);
    for (int32_t i = 0; i < (int32_t)N; i++) {
        source[i] = i;
    }
    device_enter(0);
    cr_assert_eq(cuMemHostRegister_v2(source, HALF, 0), CUDA_SUCCESS);
    device_leave();
    for (uint32_t i = 0; i < 2; i++) {
        s.args[i].flags = 0;
        s.args[i].src.info = small_info(source, N);
        cr_assert_eq(start(&s, i), UCC_OK);
    }
    cr_assert_eq(finish(&s, 0), UCC_OK);
    cr_assert_eq(finish(&s, 1), UCC_OK);
    device_from(result, s.buffer[1], sizeof(result));
    for (int32_t i = 0; i < (int32_t)N; i++) {
        cr_assert_eq(result[i], 2 * i);
    }
    device_enter(0);
    cr_assert_eq(cuMemHostUnregister(source), CUDA_SUCCESS);
    device_leave();
    close_scene(&s);
    device_cases_end();
    free(source);
}

/* Between two posts of the same requests. */
Test(device_errors, memory_of_the_host_that_is_unregistered_meanwhile) {
    enum { BYTES = 4096, N = BYTES / sizeof(int32_t) };
    int32_t *source = aligned_alloc(BYTES, BYTES), result[N];
    scene_t s;
    begin("1");
    open_scene(&s, 2, N, 1);
    for (uint32_t i = 0; i < 2; i++) {
        s.args[i].flags = UCC_COLL_ARGS_FLAG_PERSISTENT;
        s.args[i].src.info = small_info(source, N);
        cr_assert_eq(ucc_collective_init(&s.args[i], &s.request[i], s.world->teams[i]), UCC_OK);
    }
    for (int32_t round = 0; round < 3; round++) {
        for (uint32_t k = 0; k < N; k++) {
            source[k] = round + 1;
        }
        device_enter(0);
        cr_assert_eq(round == 1 ? cuMemHostUnregister(source)
                                : cuMemHostRegister_v2(source, BYTES, 0),
                     CUDA_SUCCESS);
        device_leave();
        for (uint32_t i = 0; i < 2; i++) {
            cr_assert_eq(ucc_collective_post(s.request[i]), UCC_OK, "round %d", round);
        }
        for (uint32_t i = 0; i < 2; i++) {
            cr_assert_eq(heddle_wait(s.request[i], 30), UCC_OK, "round %d", round);
        }
        device_from(result, s.buffer[1], sizeof(result));
        cr_assert_eq(result[N - 1], 2 * (round + 1), "round %d", round);
    }
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_eq(ucc_collective_finalize(s.request[i]), UCC_OK);
    }
    device_enter(0);
    cr_assert_eq(cuMemHostUnregister(source), CUDA_SUCCESS);
    device_leave();
    close_scene(&s);
    device_cases_end();
    free(source);
}

/* --- before it is enqueued -------------------------------------------------------------------- */

Test(device_errors, a_time_out_before_all_have_come_enqueues_nothing) {
    scene_t s;
    begin("2");
    open_scene(&s, 3, 1000, 2);
    set_timeout(&s.args[0], 0.05);
    uint64_t before = operations();
    cr_assert_eq(start(&s, 0), UCC_OK);
    cr_assert_eq(finish(&s, 0), UCC_ERR_TIMED_OUT);
    cr_assert_neq(start(&s, 1), UCC_OK);
    cr_assert_eq(operations(), before);
    close_scene(&s);
    device_cases_end();
}

Test(device_errors, an_abort_ends_what_waits_for_others) {
    scene_t s;
    begin("1");
    open_scene(&s, 2, 1000, 1);
    cr_assert_eq(start(&s, 0), UCC_OK);
    cr_assert_eq(heddle_team_abort(s.world->teams[1]), UCC_OK);
    cr_assert_eq(finish(&s, 0), HEDDLE_ERR_ABORTED);
    close_scene(&s);
    device_cases_end();
}

static void *post_aside(void *request) {
    (void)ucc_collective_post(request);
    return request;
}

/* With these flags, memory of the host is written before its owner has come, and nothing else is.
 */
Test(device_errors, symmetric_memory_is_in_use_while_a_claimer_enqueues) {
    enum { COUNT = 1000 };
    const size_t bytes = COUNT * sizeof(int32_t);
    heddle_group_params_t params = {.endpoints = 2, .symmetric_bytes = 2 * bytes};
    heddle_group_t *group;
    heddle_ep_t *ep[2];
    ucc_coll_req_h request[2];
    void *src[2], *dst;
    pthread_t claimer;
    begin("1");
    must(heddle_group_create(&params, &group), "heddle_group_create");
    for (uint32_t i = 0; i < 2; i++) {
        must(heddle_join(group, i, &ep[i]), "heddle_join");
        src[i] = device_take(0, bytes);
    }
    for (uint32_t i = 0; i < 2; i++) {
        ucc_coll_args_t args = small_args(UCC_COLL_TYPE_ALLGATHER);
        must(heddle_team_memory(heddle_ep_team(ep[i]), i, &dst, &(size_t){0}), "its memory");
        args.mask = UCC_COLL_ARGS_FIELD_FLAGS;
        args.flags = HEDDLE_COLL_FLAG_SYMMETRIC | HEDDLE_COLL_FLAG_READY;
        args.src.info = small_info(src[i], COUNT);
        args.src.info.mem_type = UCC_MEMORY_TYPE_CUDA;
        args.dst.info = small_info(dst, 2 * COUNT);
        must(ucc_collective_init(&args, &request[i], heddle_ep_team(ep[i])), "init");
    }
    ucc_team_h team = heddle_ep_team(ep[0]);
    hd_line_t *line = hd_devices_line(team->devices, 0, team->group);
    must(ucc_collective_post(request[0]), "post");
    uint64_t unclaimed = hd_generation(1);
    _Atomic uint64_t *claim = &atomic_load(&team->group->board->slot[1].work)->slice[0].claim;
    cr_assert_eq(atomic_load(claim), unclaimed);
    hd_line_lock(line);
    cr_assert_eq(pthread_create(&claimer, NULL, post_aside, request[1]), 0);
    deadline_t deadline = deadline_start("a claim");
    while (atomic_load(claim) == unclaimed) {
        deadline_poll(&deadline);
    }
    cr_assert_eq(heddle_team_abort(team), UCC_OK);
    cr_assert_eq(heddle_wait(request[0], 0.05), UCC_INPROGRESS);
    hd_line_unlock(line);
    cr_assert_eq(pthread_join(claimer, NULL), 0);
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_neq(heddle_wait(request[i], 20), UCC_INPROGRESS);
        cr_assert_eq(ucc_collective_finalize(request[i]), UCC_OK);
        cr_assert_eq(heddle_leave(ep[i]), UCC_OK);
        device_put(src[i]);
    }
    heddle_group_destroy(group);
    device_cases_end();
}

/* --- after it is enqueued --------------------------------------------------------------------- */

/* All internal streams of device 0 stand still. */
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

static void progress(const scene_t *s) {
    for (uint32_t c = 0; c < s->world->n_contexts; c++) {
        ucc_context_progress(s->world->contexts[c]);
    }
}

static void progress_for(const scene_t *s, double seconds) {
    double end = test_now() + seconds;
    while (test_now() < end) {
        progress(s);
    }
}

/* Operations in the devices' queues. */
static uint64_t enqueued(void) {
    heddle_emucuda_report_t report;
    heddle_emucuda_report(&report, sizeof(report));
    return report.pending;
}

Test(device_errors, who_times_out_after_enqueuing_waits_for_the_device) {
    scene_t s;
    begin("1");
    open_scene(&s, 2, 1000, 1);
    gate_t gate = shut();
    set_timeout(&s.args[0], 0.5); /* so that it is enqueued by then */
    cr_assert_eq(start(&s, 0), UCC_OK);
    cr_assert_eq(start(&s, 1), UCC_OK);
    deadline_t deadline = deadline_start("a time-out");
    while (!was_said("its devices to complete what is enqueued")) {
        progress(&s);
        deadline_poll(&deadline);
    }
    progress_for(&s, 0.1);
    cr_assert_eq(ucc_collective_test(s.request[0]), UCC_INPROGRESS); /* its buffers are in use */
    hd_gpu_word_open(gate.word, 1);
    cr_assert_eq(finish(&s, 0), UCC_ERR_TIMED_OUT);
    cr_assert_eq(finish(&s, 1), UCC_ERR_TIMED_OUT);
    leave_gate(&gate);
    close_scene(&s);
    device_cases_end();
}

Test(device_errors, boards_are_left_before_devices_are_done) {
    enum { CALLS = 40 }; /* more than a board has exchanges */
    scene_t s;
    begin("1");
    open_scene(&s, 2, 1000, 1);
    gate_t gate = shut();
    ucc_coll_req_h request[CALLS][2];
    for (int k = 0; k < CALLS; k++) {
        for (uint32_t i = 0; i < 2; i++) {
            cr_assert_eq(start(&s, i), UCC_OK);
            request[k][i] = s.request[i];
        }
    }
    deadline_t deadline = deadline_start("all to be enqueued, and none complete");
    while (enqueued() < CALLS) {
        progress(&s);
        deadline_poll(&deadline);
    }
    hd_gpu_word_open(gate.word, 1);
    for (int k = 0; k < CALLS; k++) {
        for (uint32_t i = 0; i < 2; i++) {
            s.request[i] = request[k][i];
            cr_assert_eq(finish(&s, i), UCC_OK);
        }
    }
    leave_gate(&gate);
    close_scene(&s);
    device_cases_end();
}

/* Addresses of so many endpoints are too many for the arguments of a launch. */
Test(device_errors, launches_with_tables_wait_for_no_device) {
    enum { CALLS = 40, ENDPOINTS = 8, BLOCK = 4 };
    uint32_t counts[ENDPOINTS], displacements[ENDPOINTS];
    ucc_coll_req_h request[CALLS][ENDPOINTS];
    scene_t s;
    begin("1");
    open_scene(&s, ENDPOINTS, 2 * ENDPOINTS * BLOCK, 1);
    for (uint32_t i = 0; i < ENDPOINTS; i++) {
        counts[i] = BLOCK;
        displacements[i] = i * BLOCK;
        s.args[i] = small_args(UCC_COLL_TYPE_ALLTOALLV);
        s.args[i].src.info_v = small_info_v(s.buffer[i], counts, displacements);
        s.args[i].dst.info_v = small_info_v(s.buffer[i] + ENDPOINTS * BLOCK, counts, displacements);
        s.args[i].src.info_v.mem_type = s.args[i].dst.info_v.mem_type = UCC_MEMORY_TYPE_CUDA;
    }
    gate_t gate = shut();
    for (int k = 0; k < CALLS; k++) {
        for (uint32_t i = 0; i < ENDPOINTS; i++) {
            cr_assert_eq(start(&s, i), UCC_OK);
            request[k][i] = s.request[i];
        }
    }
    progress_for(&s, 0.2);
    hd_gpu_word_open(gate.word, 1);
    for (int k = 0; k < CALLS; k++) {
        for (uint32_t i = 0; i < ENDPOINTS; i++) {
            s.request[i] = request[k][i];
            cr_assert_eq(finish(&s, i), UCC_OK);
        }
    }
    leave_gate(&gate);
    close_scene(&s);
    device_cases_end();
}

static void lose_one(const char *config) {
    scene_t s;
    begin(config);
    open_scene(&s, 3, 100000, 2);
    cr_assert_eq(start(&s, 0), UCC_OK);
    cr_assert_eq(start(&s, 1), UCC_OK);
    heddle_emucuda_lose_device(1, 0);
    (void)start(&s, 2);
    for (uint32_t i = 0; i < 3; i++) {
        if (s.request[i]) {
            cr_assert_lt(finish(&s, i), 0);
        }
    }
    cr_assert_gt(said_lines(), 0);
    cr_assert_neq(start(&s, 0), UCC_OK); /* the team has failed */
    world_destroy(s.world);
}

Test(device_errors, a_device_that_is_lost) {
    lose_one("2");
}

/* What belongs to lines is kept for ever then: nothing of the host's, as AddressSanitizer sees. */
Test(device_errors, a_device_that_is_lost_in_windows) {
    lose_one("2,nopeer");
}

/* Requests end, calls are refused as what they are, and the end of the team waits for nothing and
 * says nothing. */
static bool child_has_no_devices(scene_t *s) {
    bool ends = finish(s, 0) == UCC_ERR_NOT_SUPPORTED && finish(s, 1) == UCC_ERR_NOT_SUPPORTED;
    said_forget();
    bool refused = start(s, 0) == UCC_ERR_NOT_SUPPORTED && was_said("fork");
    world_destroy(s->world);
    return ends && refused && said_lines() == 1;
}

Test(device_errors, the_child_of_a_fork_has_no_devices) {
    scene_t s;
    begin("1");
    open_scene(&s, 2, 1000, 1);
    gate_t gate = shut();
    cr_assert_eq(start(&s, 0), UCC_OK);
    cr_assert_eq(start(&s, 1), UCC_OK);
    pid_t child = fork();
    if (child == 0) {
        _exit(child_has_no_devices(&s) ? 0 : 1);
    }
    int status = -1;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    hd_gpu_word_open(gate.word, 1);
    cr_assert_eq(finish(&s, 0), UCC_OK);
    cr_assert_eq(finish(&s, 1), UCC_OK);
    leave_gate(&gate);
    close_scene(&s);
    device_cases_end();
}

/* --- every driver call fails once ------------------------------------------------------------- */

/* Some collectives of three endpoints on two devices, the n-th driver call from the first init on
 * failing. False: there are not so many. */
static bool fails_at(uint64_t n, uint64_t count) {
    scene_t s;
    heddle_emucuda_report_t report;
    open_scene(&s, 3, count, 2);
    said_forget();
    heddle_emucuda_report(&report, sizeof(report));
    uint64_t before = report.calls;
    heddle_emucuda_fail_call(n, UNKNOWN_ERROR);
    bool failed = false;
    for (int times = 0; times < 2 && !failed; times++) {
        for (uint32_t i = 0; i < 3; i++) {
            set_timeout(&s.args[i], 0.2);
            failed = start(&s, i) != UCC_OK || failed;
        }
        for (uint32_t i = 0; i < 3; i++) {
            failed = (s.request[i] && finish(&s, i) != UCC_OK) || failed;
        }
    }
    heddle_emucuda_report(&report, sizeof(report));
    heddle_emucuda_fail_call(0, 0);
    cr_assert(!failed || said_lines() > 0, "call %llu: an error, and no line",
              (unsigned long long)n);
    close_scene(&s);
    return report.calls - before >= n;
}

static void every_call_fails(const char *config, uint64_t count, uint64_t step) {
    uint64_t n = 1;
    begin(config);
    while (fails_at(n, count)) {
        n += step;
    }
    fprintf(stderr, "%s, %llu elements: %llu calls\n", config, (unsigned long long)count,
            (unsigned long long)n);
    device_cases_end();
}

Test(device_errors, every_driver_call_fails_once) {
    every_call_fails("2", 100, 1);
}

Test(device_errors, every_driver_call_fails_once_on_all_devices) {
    every_call_fails("2", 100000, 1);
}

Test(device_errors, every_driver_call_fails_once_without_peers) {
    every_call_fails("2,nopeer", 100, 1);
}
