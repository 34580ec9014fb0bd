/* test_far_bell.c: bells of memory that is mapped several times: here three times by one process,
 * each with a bell of its own.
 */
#define _GNU_SOURCE
#include "threads/clock.h"
#include "threads/night.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAPS = 3, PAGE = 4096, WORDS = 8 };

/* One mapping: words that are awaited, the far bells, and, across its end, a home. */
typedef struct place {
    uint8_t *base;
    _Atomic uint64_t *word;
    hd_home_t *home;
} place_t;

static place_t place[MAPS];

static place_t map(int memory, uint32_t number) {
    uint8_t *base =
        mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(base, MAP_FAILED);
    cr_assert_eq(mmap(base, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, 0), base);
    place_t p = {base, (_Atomic uint64_t *)(void *)(base + 1024),
                 (hd_home_t *)(void *)(base + PAGE - 64)};
    hd_bell_is_far(&p.home->bell, (hd_far_bell_t *)(void *)base, MAPS, number, PAGE - 64);
    atomic_store(&p.home->refs, 1);
    return p;
}

static void init(void) {
    hd_clock_init();
    hd_park_init();
    cr_assert(hd_park_init_far());
    int memory = memfd_create("far bells", MFD_CLOEXEC);
    cr_assert_eq(ftruncate(memory, PAGE), 0);
    for (uint32_t i = 0; i < MAPS; i++) {
        place[i] = map(memory, i);
    }
    close(memory);
}

TestSuite(far_bell, .init = init, .timeout = 60);

static uint32_t rings(uint32_t i) {
    return atomic_load(&place[i].home->bell.fars[i].rings);
}

static void enlist(uint32_t i, hd_sleeper_t *sleeper, const hd_awaited_t *awaited) {
    *sleeper = (hd_sleeper_t){.word = hd_bell_word(&place[i].home->bell), .by_far = true};
    if (awaited) {
        sleeper->awaited = *awaited;
    }
    cr_assert_not(hd_bell_enlist(&place[i].home->bell, sleeper, true)); /* it is never watched */
}

/* Words from `first` of mapping i, n of them, every other one. */
static hd_awaited_t words_of(uint32_t i, uint32_t first, uint32_t n, uint64_t value) {
    return (hd_awaited_t){.first = place[i].word + first,
                          .n_words = n,
                          .stride = 2 * sizeof(uint64_t),
                          .value = value};
}

Test(far_bell, ring_reaches_a_sleeper_of_another_mapping_and_no_third) {
    hd_sleeper_t sleeper;
    enlist(1, &sleeper, NULL);
    hd_bell_ring(&place[0].home->bell);
    cr_assert_eq(rings(1), 1);
    cr_assert_eq(rings(0) + rings(2), 0);
    cr_assert_not(hd_sleeper_is_rung(&sleeper)); /* it finds out by the count */
    hd_bell_delist(&sleeper);
    cr_assert_eq(atomic_load(&place[2].home->bell.sleepers), 0);
    hd_bell_ring(&place[0].home->bell);
    cr_assert_eq(rings(1), 1);
}

Test(far_bell, own_ring_marks_the_sleeper_and_is_not_counted_as_a_far_one) {
    hd_sleeper_t sleeper;
    enlist(1, &sleeper, NULL);
    uint32_t before = atomic_load(hd_bell_word(&place[1].home->bell));
    hd_bell_ring(&place[1].home->bell);
    cr_assert(hd_sleeper_is_rung(&sleeper));
    cr_assert_eq(rings(1), 0);
    cr_assert_eq(atomic_load(hd_bell_word(&place[1].home->bell)), before + 1);
    hd_bell_delist(&sleeper);
}

Test(far_bell, ring_passes_by_whose_words_have_not_come) {
    hd_sleeper_t sleeper;
    hd_awaited_t awaited = words_of(1, 0, 3, 7);
    enlist(1, &sleeper, &awaited);
    for (uint32_t i = 0; i < 3; i++) {
        hd_bell_ring(&place[2].home->bell);
        cr_assert_eq(rings(1), 0);
        atomic_store(&place[2].word[2 * i], 7);
    }
    hd_bell_ring(&place[2].home->bell);
    cr_assert_eq(rings(1), 1);
    hd_bell_delist(&sleeper);
}

Test(far_bell, alarm_wakes_whatever_is_awaited) {
    hd_sleeper_t sleeper;
    hd_awaited_t awaited = words_of(0, 0, 1, 7);
    enlist(0, &sleeper, &awaited);
    hd_bell_alarm(&place[1].home->bell);
    hd_bell_ring(&place[1].home->bell);
    cr_assert_eq(rings(0), 1);
    hd_bell_delist(&sleeper);
    enlist(0, &sleeper, &awaited); /* that alarm was before it came */
    hd_bell_ring(&place[1].home->bell);
    cr_assert_eq(rings(0), 1);
    hd_bell_delist(&sleeper);
}

Test(far_bell, two_of_a_mapping_are_woken_by_any_ring_until_both_have_gone) {
    hd_sleeper_t sleeper[2];
    hd_awaited_t awaited = words_of(1, 0, 1, 7), other = words_of(1, 4, 1, 7);
    enlist(1, &sleeper[0], &awaited);
    enlist(1, &sleeper[1], &other);
    hd_bell_ring(&place[0].home->bell);
    cr_assert_eq(rings(1), 1);
    hd_bell_delist(&sleeper[0]);
    hd_bell_ring(&place[0].home->bell);
    cr_assert_eq(rings(1), 2);
    hd_bell_delist(&sleeper[1]);
    enlist(1, &sleeper[0], &awaited);
    hd_bell_ring(&place[0].home->bell);
    cr_assert_eq(rings(1), 2);
    hd_bell_delist(&sleeper[0]);
}

Test(far_bell, words_that_lie_elsewhere_are_not_read) {
    hd_sleeper_t sleeper;
    hd_awaited_t awaited = words_of(1, 0, 1 << 20, 0); /* most of them beyond the memory */
    enlist(1, &sleeper, &awaited);
    hd_bell_ring(&place[0].home->bell);
    cr_assert_eq(rings(1), 1);
    hd_bell_delist(&sleeper);
    awaited = words_of(1, 0, 2, 0);
    awaited.stride = -(ptrdiff_t)PAGE;
    enlist(1, &sleeper, &awaited);
    hd_bell_ring(&place[0].home->bell);
    cr_assert_eq(rings(1), 2);
    hd_bell_delist(&sleeper);
}

/* --- asleep ----------------------------------------------------------------------------------- */

enum { ROUNDS = 3000 };

typedef struct duo {
    uint32_t sleeps, rings; /* by which mappings */
    bool tells;             /* what it waits for */
    _Atomic uint32_t seen;
} duo_t;

/* The protocol of park.c, without any time-out: a lost wake-up hangs the test. */
static void sleep_once(const duo_t *duo, uint64_t round) {
    hd_bell_t *bell = &place[duo->sleeps].home->bell;
    _Atomic uint64_t *word = &place[duo->sleeps].word[0];
    hd_awaited_t awaited = words_of(duo->sleeps, 0, 1, round);
    hd_sleeper_t sleeper;
    uint32_t before = rings(duo->sleeps);
    enlist(duo->sleeps, &sleeper, duo->tells ? &awaited : NULL);
    hd_park_fence(true);
    while (atomic_load(word) < round) {
        uint32_t seen = atomic_load(hd_bell_word(bell));
        if (rings(duo->sleeps) != before) {
            break;
        }
        hd_park_until(hd_bell_word(bell), seen, sleeper.mask, true, NULL);
    }
    hd_bell_delist(&sleeper);
}

static void *sleep_often(void *arg) {
    duo_t *duo = arg;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        while (atomic_load(&place[duo->sleeps].word[0]) < round) {
            sleep_once(duo, round);
        }
        atomic_store(&duo->seen, round);
    }
    return NULL;
}

static void run_duo(bool tells) {
    duo_t duo = {.sleeps = 2, .rings = 0, .tells = tells};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, sleep_often, &duo), 0);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        for (uint32_t i = round * 7919u % 3000; i; i--) {
            hd_relax();
        }
        atomic_store_explicit(&place[0].word[0], round, memory_order_release);
        hd_bell_ring(&place[0].home->bell);
        while (atomic_load(&duo.seen) < round) {
            sched_yield();
        }
    }
    pthread_join(thread, NULL);
}

Test(far_bell, no_wake_up_is_lost) {
    run_duo(false);
}

Test(far_bell, no_wake_up_is_lost_by_who_says_what_it_waits_for) {
    run_duo(true);
}

/* --- nights ----------------------------------------------------------------------------------- */

static _Atomic uint32_t over;

static ucc_status_t step(hd_task_t *task) {
    (void)task;
    return atomic_load_explicit(&over, memory_order_acquire) ? UCC_OK : UCC_INPROGRESS;
}

static void *ring_second_late(void *arg) {
    hd_home_t *home = arg;
    usleep(100000);
    atomic_store(&over, 1);
    hd_bell_ring(&home->bell);
    return NULL;
}

/* A thread sleeps on two groups, each of which has others elsewhere; either may wake it. */
Test(far_bell, one_sleep_is_ended_by_the_second_of_two_far_bells) {
    int memory = memfd_create("far bells", MFD_CLOEXEC);
    cr_assert_eq(ftruncate(memory, PAGE), 0);
    place_t other[2] = {map(memory, 0), map(memory, 1)};
    hd_runner_t runner;
    hd_runner_init(&runner, true, 64, 1000000);
    runner.may_doze = true;
    hd_task_t task[2];
    for (int i = 0; i < 2; i++) {
        task[i] = (hd_task_t){
            .magic = HD_TASK_LIVE, .step = step, .home = i ? other[0].home : place[0].home};
        task[i].req.status = UCC_INPROGRESS;
        task[i].context = (hd_context_t *)(void *)&runner;
        hd_runner_push(&runner, &task[i]);
    }
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, ring_second_late, other[1].home), 0);
    uint64_t began = hd_ticks();
    cr_assert_eq(hd_runner_wait(&runner, &task[0], 30, true, 10), UCC_OK);
    cr_assert_lt(hd_ticks() - began, 10 * UINT64_C(1000000) * hd_ticks_per_us);
    pthread_join(thread, NULL);
    close(memory);
}
