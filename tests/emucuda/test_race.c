/* test_race.c: a missing order is found whatever runs first, and no order that exists is missed. */
#include "rig.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { COUNT = 640, SEEDS = 20 };

TestSuite(race, .timeout = 120);

/* Work of two streams on x, with an event between them, or not. */
typedef struct pair {
    rig_t rig;
    CUstream first, second;
    CUevent event;
    CUdeviceptr x, y;
} pair_t;

static pair_t open_pair(const char *config) {
    pair_t p = {.rig = rig_open(config)};
    p.first = rig_stream();
    p.second = rig_stream();
    p.event = rig_event();
    p.x = rig_alloc_filled(COUNT, 1);
    p.y = rig_alloc_filled(COUNT, 1);
    return p;
}

static void order(pair_t *p) {
    must(cuEventRecord(p->event, p->first));
    must(cuStreamWaitEvent(p->second, p->event, 0));
}

static void close_pair(pair_t *p, uint64_t races) {
    must(cuCtxSynchronize());
    cr_expect_eq(rig_report().races, races, "%d races, not %d: %s", (int)rig_report().races,
                 (int)races, rig_line(0));
    rig_close(&p->rig);
}

Test(race, a_read_after_a_write_needs_an_order) {
    char config[64];
    for (int seed = 1; seed <= SEEDS; seed++) {
        for (int ordered = 0; ordered <= 1; ordered++) {
            snprintf(config, sizeof(config), "1,seed=%d", seed);
            pair_t p = open_pair(config);
            rig_scale(&p.rig, p.first, p.x, 2, COUNT);
            if (ordered) {
                order(&p);
            }
            must(cuMemcpyDtoDAsync_v2(p.y, p.x, COUNT * 4, p.second));
            close_pair(&p, !ordered);
        }
    }
}

Test(race, a_write_after_a_read_needs_an_order) {
    for (int ordered = 0; ordered <= 1; ordered++) {
        pair_t p = open_pair("1");
        must(cuMemcpyDtoDAsync_v2(p.y, p.x, COUNT * 4, p.first));
        if (ordered) {
            order(&p);
        }
        rig_scale(&p.rig, p.second, p.x, 2, COUNT);
        close_pair(&p, !ordered);
    }
}

Test(race, two_writes_need_an_order_and_two_reads_do_not) {
    pair_t p = open_pair("1");
    must(cuMemcpyDtoDAsync_v2(p.y, p.x, COUNT * 2, p.first));
    must(cuMemcpyDtoDAsync_v2(p.y + COUNT * 2, p.x, COUNT * 2, p.second));
    cr_expect_eq(rig_report().races, 0, "%s", rig_line(0));
    must(cuMemsetD32Async(p.y, 1, 1, p.second));
    close_pair(&p, 1);
}

Test(race, the_line_says_who_and_where) {
    pair_t p = open_pair("1");
    rig_scale(&p.rig, p.first, p.x, 2, COUNT);
    must(cuMemcpyDtoDAsync_v2(p.y, p.x + 64, 256, p.second));
    cr_expect(strstr(rig_line(0), "race: a copy of devices (operation"), "%s", rig_line(0));
    cr_expect(strstr(rig_line(0), "reads 256 bytes"), "%s", rig_line(0));
    cr_expect(strstr(rig_line(0), "64 bytes into an allocation of 2560 on device 0"), "%s",
              rig_line(0));
    cr_expect(strstr(rig_line(0), "not ordered after kernel scale (operation"), "%s", rig_line(0));
    close_pair(&p, 1);
}

Test(race, ranges_that_only_touch_are_no_race) {
    pair_t p = open_pair("1");
    must(cuMemsetD8Async(p.x, 1, 101, p.first));
    must(cuMemsetD8Async(p.x + 101, 1, 99, p.second));
    cr_expect_eq(rig_report().races, 0, "%s", rig_line(0));
    must(cuMemsetD8Async(p.x + 199, 1, 2, p.first));
    close_pair(&p, 1);
}

Test(race, a_wait_takes_the_record_that_there_is_at_its_call) {
    pair_t p = open_pair("1,policy=lazy");
    order(&p); /* nothing is before it */
    rig_scale(&p.rig, p.first, p.x, 2, COUNT);
    must(cuEventRecord(p.event, p.first));
    must(cuMemcpyDtoDAsync_v2(p.y, p.x, COUNT * 4, p.second));
    close_pair(&p, 1);
}

Test(race, order_goes_through_other_streams_and_devices) {
    rig_t rig = rig_open("2");
    CUcontext other;
    CUstream stream[4];
    CUevent event[4];
    CUdeviceptr x = rig_alloc_filled(COUNT, 1), y = rig_alloc_filled(COUNT, 1);
    must(cuDevicePrimaryCtxRetain(&other, 1));
    for (int i = 0; i < 4; i++) {
        must(cuCtxSetCurrent(i % 2 ? other : rig.context));
        stream[i] = rig_stream();
        event[i] = rig_event();
    }
    must(cuCtxSetCurrent(rig.context));
    rig_scale(&rig, stream[0], x, 2, COUNT);
    for (int i = 0; i < 3; i++) {
        must(cuCtxSetCurrent(i % 2 ? other : rig.context));
        must(cuEventRecord(event[i], stream[i]));
        must(cuCtxSetCurrent(i % 2 ? rig.context : other));
        must(cuStreamWaitEvent(stream[i + 1], event[i], 0));
    }
    must(cuMemcpyDtoDAsync_v2(y, x, COUNT * 4, stream[3]));
    cr_expect_eq(rig_report().races, 0, "%s", rig_line(0));
    must(cuStreamSynchronize(stream[3]));
    must(cuCtxSetCurrent(rig.context));
    cr_expect(rig_all(y, COUNT, 2));
    rig_close(&rig);
}

Test(race, what_the_host_waited_for_comes_before_what_it_enqueues) {
    pair_t p = open_pair("1");
    rig_scale(&p.rig, p.first, p.x, 2, COUNT);
    must(cuEventRecord(p.event, p.first));
    while (cuEventQuery(p.event) == CUDA_ERROR_NOT_READY) {
    }
    rig_scale(&p.rig, p.second, p.x, 2, COUNT);
    must(cuStreamSynchronize(p.second));
    rig_scale(&p.rig, p.first, p.x, 2, COUNT);
    must(cuCtxSynchronize());
    rig_scale(&p.rig, p.second, p.x, 2, COUNT);
    while (cuStreamQuery(p.second) == CUDA_ERROR_NOT_READY) {
    }
    rig_scale(&p.rig, p.first, p.x, 2, COUNT);
    cr_expect(rig_all(p.x, COUNT, 32));
    close_pair(&p, 0);
}

Test(race, the_hosts_own_accesses_to_pinned_memory_count) {
    pair_t p = open_pair("1");
    uint32_t *pinned = rig_pinned(COUNT);
    heddle_emucuda_host_write(pinned, COUNT * 4);
    memset(pinned, 0, COUNT * 4);
    must(cuMemcpyHtoDAsync_v2(p.x, pinned, COUNT * 4, p.first));
    cr_expect_eq(rig_report().races, 0, "%s", rig_line(0));
    heddle_emucuda_host_write(pinned, 4);
    cr_expect_eq(rig_report().races, 1, "the copy may not have been done yet");
    must(cuStreamSynchronize(p.first));
    heddle_emucuda_host_write(pinned, 4);
    must(cuMemcpyDtoHAsync_v2(pinned, p.x, COUNT * 4, p.first));
    heddle_emucuda_host_read(pinned, 4);
    cr_expect(strstr(rig_line(1), "race: the host reads 4 bytes"), "%s", rig_line(1));
    close_pair(&p, 2);
}

Test(race, memory_that_is_not_pinned_is_read_before_the_call_returns) {
    pair_t p = open_pair("1,policy=lazy,idle=0");
    uint32_t source[COUNT];
    for (int i = 0; i < COUNT; i++) {
        source[i] = 9;
    }
    must(cuMemcpyHtoDAsync_v2(p.x, source, sizeof(source), p.first));
    memset(source, 0, sizeof(source));
    cr_expect(rig_all(p.x, COUNT, 9));
    close_pair(&p, 0);
}

Test(race, memory_that_is_not_pinned_is_written_before_the_call_returns) {
    pair_t p = open_pair("1,policy=lazy,idle=0");
    uint32_t target[COUNT] = {0};
    rig_scale(&p.rig, p.first, p.x, 6, COUNT);
    must(cuMemcpyDtoHAsync_v2(target, p.x, sizeof(target), p.first));
    cr_expect_eq(target[COUNT - 1], 6);
    close_pair(&p, 0);
}

Test(race, a_race_behind_a_gate_is_told_when_the_write_that_opens_it_is_enqueued) {
    pair_t p = open_pair("1,policy=lazy,idle=0");
    CUdeviceptr word = (CUdeviceptr)(uintptr_t)memset(rig_pinned(1), 0, 4);
    must(cuStreamWaitValue32_v2(p.second, word, 2, CU_STREAM_WAIT_VALUE_GEQ));
    rig_scale(&p.rig, p.second, p.x, 3, COUNT);
    must(cuStreamWriteValue32_v2(p.first, word, 1, 0));
    rig_scale(&p.rig, p.first, p.x, 3, COUNT);
    cr_expect_eq(rig_report().races, 0, "it is not known yet what comes first");
    must(cuStreamWriteValue32_v2(p.first, word, 2, 0));
    cr_expect_eq(rig_report().races, 0, "it comes after all of this");
    rig_scale(&p.rig, p.first, p.x, 3, COUNT);
    cr_expect_eq(rig_report().races, 1, "%s", rig_line(0));
    close_pair(&p, 1);
}

Test(race, a_synchronous_copy_from_there_does_not_order_non_blocking_streams) {
    pair_t p = open_pair("1");
    uint32_t source[COUNT] = {0};
    must(cuMemcpyHtoD_v2(p.x, source, sizeof(source)));
    rig_scale(&p.rig, p.first, p.x, 2, COUNT);
    close_pair(&p, 1);
}

Test(race, a_write_of_a_value_orders_who_waits_for_it_even_if_it_comes_later) {
    for (int after = 0; after <= 1; after++) {
        pair_t p = open_pair("1");
        CUstream third = rig_stream();
        CUevent event = rig_event();
        CUdeviceptr word = (CUdeviceptr)(uintptr_t)memset(rig_pinned(1), 0, 4);
        must(cuStreamWaitValue32_v2(p.second, word, 1, CU_STREAM_WAIT_VALUE_EQ));
        rig_scale(&p.rig, p.second, p.x, 3, COUNT);
        must(cuEventRecord(event, p.second));
        must(cuStreamWaitEvent(third, event, 0));
        rig_scale(&p.rig, third, p.x, 5, COUNT);
        if (after) {
            must(cuStreamWriteValue32_v2(p.first, word, 1, 0));
            rig_scale(&p.rig, p.first, p.x, 2, COUNT);
        } else {
            rig_scale(&p.rig, p.first, p.x, 2, COUNT);
            must(cuStreamWriteValue32_v2(p.first, word, 1, 0));
        }
        must(cuCtxSynchronize());
        cr_expect_eq(rig_report().races > 0, after, "%s", rig_line(0));
        rig_close(&p.rig);
    }
}

Test(race, a_gate_that_the_host_opens_orders_what_it_released) {
    for (int released = 0; released <= 1; released++) {
        pair_t p = open_pair("1");
        uint32_t *word = memset(rig_pinned(1), 0, 4), *data = rig_pinned(COUNT);
        must(cuStreamWaitValue32_v2(p.second, (CUdeviceptr)(uintptr_t)word, 1,
                                    CU_STREAM_WAIT_VALUE_EQ));
        must(cuMemcpyHtoDAsync_v2(p.x, data, COUNT * 4, p.second));
        heddle_emucuda_host_write(data, COUNT * 4);
        if (released) {
            heddle_emucuda_host_release(word);
        }
        __atomic_store_n(word, 1, __ATOMIC_RELEASE);
        close_pair(&p, !released);
    }
}

Test(race, a_signal_orders_the_host_that_saw_it) {
    for (int acquired = 0; acquired <= 1; acquired++) {
        pair_t p = open_pair("1");
        uint32_t *word = memset(rig_pinned(1), 0, 4), count = COUNT, value = 4;
        void *where = word;
        void *params[] = {&p.x, &count, &where, &value};
        must(rig_launch(p.rig.ring, p.first, COUNT, params));
        while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value) {
            heddle_emucuda_run(1);
        }
        if (acquired) {
            heddle_emucuda_host_acquire(word);
        }
        rig_scale(&p.rig, p.second, p.x, 2, COUNT);
        close_pair(&p, !acquired);
    }
}

static void tell(void *token) {
    heddle_emucuda_host_release(token);
    __atomic_store_n((uint32_t *)token, 1, __ATOMIC_RELEASE);
}

Test(race, a_host_function_hands_on_what_comes_before_it) {
    for (int acquired = 0; acquired <= 1; acquired++) {
        pair_t p = open_pair("1");
        uint32_t told = 0;
        rig_scale(&p.rig, p.first, p.x, 2, COUNT);
        must(cuLaunchHostFunc(p.first, tell, &told));
        while (__atomic_load_n(&told, __ATOMIC_ACQUIRE) == 0) {
            heddle_emucuda_run(1);
        }
        if (acquired) {
            heddle_emucuda_host_acquire(&told);
        }
        rig_scale(&p.rig, p.second, p.x, 2, COUNT);
        close_pair(&p, !acquired);
    }
}

/* Two threads, one after the other, with a stream each. */
typedef struct turn {
    pair_t *pair;
    CUstream stream;
    bool hand_on;
    int token;
} turn_t;

static void *take_turn(void *arg) {
    turn_t *turn = arg;
    must(cuCtxSetCurrent(turn->pair->rig.context));
    if (turn->hand_on) {
        heddle_emucuda_host_acquire(&turn->token);
    }
    rig_scale(&turn->pair->rig, turn->stream, turn->pair->x, 2, COUNT);
    must(cuStreamSynchronize(turn->stream));
    if (turn->hand_on) {
        heddle_emucuda_host_release(&turn->token);
    }
    return NULL;
}

static uint64_t races_of_threads(const char *config, bool hand_on) {
    pair_t p = open_pair(config);
    turn_t turn = {.pair = &p, .hand_on = hand_on};
    heddle_emucuda_host_release(&turn.token);
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        turn.stream = i ? p.second : p.first;
        cr_assert_eq(pthread_create(&thread, NULL, take_turn, &turn), 0);
        pthread_join(thread, NULL);
    }
    uint64_t races = rig_report().races;
    rig_close(&p.rig);
    return races;
}

Test(race, threads_of_the_host_are_one_or_hand_on_what_they_know) {
    cr_expect_eq(races_of_threads("1", false), 0);
    cr_expect_eq(races_of_threads("1,host=threads", true), 0);
    cr_expect_gt(races_of_threads("1,host=threads", false), 0);
}

Test(race, a_dropped_site_is_found_and_counted) {
    pair_t p = open_pair("1");
    for (uint32_t dropped = 0; dropped <= 2; dropped++) {
        uint64_t before = rig_report().races;
        heddle_emucuda_drop_site(dropped);
        rig_scale(&p.rig, p.first, p.x, 2, COUNT);
        must(cuEventRecord(p.event, p.first));
        heddle_emucuda_site(1);
        must(cuStreamWaitEvent(p.second, p.event, 0));
        rig_scale(&p.rig, p.second, p.x, 2, COUNT);
        heddle_emucuda_site(2);
        must(cuStreamSynchronize(p.second));
        must(cuMemcpyDtoDAsync_v2(p.y, p.x, COUNT * 4, p.first));
        cr_expect_eq(rig_report().races > before, dropped > 0, "site %u", dropped);
        heddle_emucuda_drop_site(0);
        must(cuCtxSynchronize());
    }
    cr_expect_eq(heddle_emucuda_site_count(1), 3);
    cr_expect_eq(heddle_emucuda_site_count(2), 3);
    cr_expect_eq(heddle_emucuda_site_count(3), 0);
    rig_close(&p.rig);
}

/* Random work of many streams against a plain model: who touched which word last, ordered or not.
 */
enum { STREAMS = 5, WORDS = 24, STEPS = 400 };

typedef struct model {
    uint32_t clock[STREAMS][STREAMS]; /* of each stream */
    uint32_t event[STREAMS][STREAMS]; /* of the last recording in each stream */
    uint32_t write[WORDS][2];         /* stream, its clock */
    uint32_t read[WORDS][STREAMS];
} model_t;

static bool model_access(model_t *m, unsigned s, unsigned begin, unsigned end, bool writes) {
    bool race = false;
    uint32_t now = ++m->clock[s][s];
    for (unsigned w = begin; w < end; w++) {
        race = race || m->clock[s][m->write[w][0]] < m->write[w][1];
        for (unsigned t = 0; writes && t < STREAMS; t++) {
            race = race || m->clock[s][t] < m->read[w][t];
        }
        if (writes) {
            memset(m->read[w], 0, sizeof(m->read[w]));
            m->write[w][0] = s;
            m->write[w][1] = now;
        } else {
            m->read[w][s] = now;
        }
    }
    return race;
}

static unsigned draw(uint64_t *state, unsigned below) {
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(*state >> 33) % below;
}

Test(race, the_detector_agrees_with_a_plain_model) {
    for (uint64_t seed = 1; seed <= 40; seed++) {
        rig_t rig = rig_open("1,policy=newest");
        CUstream stream[STREAMS];
        CUevent event[STREAMS];
        CUdeviceptr x = rig_alloc_filled(WORDS, 0), y = rig_alloc_filled(WORDS * STREAMS, 0);
        model_t model = {.clock = {{0}}};
        uint64_t random = seed;
        for (unsigned i = 0; i < STREAMS; i++) {
            stream[i] = rig_stream();
            event[i] = rig_event();
        }
        for (unsigned step = 0; step < STEPS; step++) {
            unsigned s = draw(&random, STREAMS), t = draw(&random, STREAMS),
                     what = draw(&random, 8);
            unsigned begin = draw(&random, WORDS), end = begin + 1 + draw(&random, WORDS - begin);
            uint64_t before = rig_report().races;
            bool race = false;
            if (what < 3) {
                must(cuEventRecord(event[s], stream[s]));
                memcpy(model.event[s], model.clock[s], sizeof(model.event[s]));
            } else if (what < 6) {
                must(cuStreamWaitEvent(stream[s], event[t], 0));
                for (unsigned i = 0; i < STREAMS; i++) {
                    uint32_t *clock = &model.clock[s][i];
                    *clock = *clock > model.event[t][i] ? *clock : model.event[t][i];
                }
            } else if (what == 6) {
                must(cuMemsetD32Async(x + begin * 4, step, end - begin, stream[s]));
                race = model_access(&model, s, begin, end, true);
            } else {
                must(cuMemcpyDtoDAsync_v2(y + s * WORDS * 4, x + begin * 4, (end - begin) * 4,
                                          stream[s]));
                race = model_access(&model, s, begin, end, false);
            }
            cr_assert_eq(rig_report().races > before, race, "seed %d, step %u", (int)seed, step);
        }
        must(cuCtxSynchronize());
        rig_close(&rig);
    }
}
