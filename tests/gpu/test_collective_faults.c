/* test_collective_faults.c: every collective on devices, with every driver call failing once, and
 * with a device lost after each number of operations: nothing hangs, whoever is told UCC_OK has the
 * right result, an error has a line, and nothing is left. Of the calls and operations, one in 19
 * (61 under AddressSanitizer) for each type and manner, others for others; all with
 * HEDDLE_STRESS_SCALE=100.
 */
#include "core/log.h"
#include "support/device_cases.h"
#include "support/dose.h"
#include "support/trial.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(device_faults, .timeout = 240);

enum { UNKNOWN_ERROR = 999, SIZE = 3, FEW = 100, MANY = 30000, MOST_CALLS = 20000 };

static _Atomic unsigned lines;

static void count_line(hd_log_level_t level, const char *text, void *arg) {
    (void)level, (void)text, (void)arg;
    atomic_fetch_add(&lines, 1);
}

typedef struct fault_case {
    uint32_t type;   /* coll_type_at */
    uint32_t manner; /* of `manners` */
    char config[32];
    device_cases_t kind;
    uint64_t count;
    bool on_streams;
    bool copies; /* what can be, are copies between devices */
    bool apart;  /* blocks of 8 endpoints of a device are reduced there first */
} fault_case_t;

enum { DEVICES = 2 };

/* Which ones fail: first, first + step... */
static uint64_t step(void) {
    return dose_step(19, 61);
}

static uint64_t first(const fault_case_t *f) {
    return (f->type + 3 * f->manner) % step();
}

/* What there is to a call: one device for all, several, memory of the host that is staged, devices
 * that don't reach each other, or that copy to each other; in the order of streams. */
static const fault_case_t manners[] = {
    {.config = "2", .kind = DEVICE_CASES_PLAIN, .count = FEW},
    {.config = "2", .kind = DEVICE_CASES_PLAIN, .count = MANY},
    {.config = "2", .kind = DEVICE_CASES_MIXED, .count = FEW},
    {.config = "2,nopeer", .kind = DEVICE_CASES_PLAIN, .count = FEW},
    {.config = "2", .kind = DEVICE_CASES_PLAIN, .count = FEW, .on_streams = true},
    {.config = "2", .kind = DEVICE_CASES_PLAIN, .count = MANY, .on_streams = true},
    {.config = "2,nopeer", .kind = DEVICE_CASES_PLAIN, .count = FEW, .on_streams = true},
    {.config = "2", .kind = DEVICE_CASES_PLAIN, .count = MANY, .copies = true},
    {.config = "2", .kind = DEVICE_CASES_PLAIN, .count = MANY, .on_streams = true, .copies = true},
    {.config = "2", .kind = DEVICE_CASES_PLAIN, .count = MANY, .apart = true},
    {.config = "2", .kind = DEVICE_CASES_PLAIN, .count = MANY, .on_streams = true, .apart = true}};

enum { MANNERS = sizeof(manners) / sizeof(*manners) };

/* Apart, each device has a block, and the second one's is not full. */
static uint32_t size_of(const fault_case_t *f) {
    return f->apart ? 10 : SIZE;
}

static coll_case_t case_of(const fault_case_t *f) {
    ucc_coll_type_t type = coll_type_at(f->type);
    return (coll_case_t){.type = type,
                         .size = size_of(f),
                         .root = size_of(f) - 1,
                         .count = f->apart && coll_has_blocks(type) ? f->count / 10 : f->count,
                         .dt = reference_datatype(UCC_DT_INT32),
                         .op = UCC_OP_SUM,
                         .layout = LAYOUT_SHUFFLED,
                         .seed = f->type + 1};
}

static void open_trial(const fault_case_t *f, trial_t *t) {
    coll_case_t c = case_of(f);
    device_cases_in_runs(f->apart ? 8 : 1);
    (void)case_memory->takes(&c);
    trial_open(t, &c, 0);
    if (f->on_streams) {
        trial_use_streams(t);
    }
}

static fault_case_t cases[COLL_TYPES * MANNERS];

static size_t make_cases(void) {
    size_t n = 0;
    for (uint32_t type = 0; type < COLL_TYPES; type++) {
        for (uint32_t m = 0; m < MANNERS && coll_moves_data(coll_type_at(type)); m++) {
            bool reduces = coll_is_reduction(coll_type_at(type));
            if (!(manners[m].copies && reduces) &&
                !(manners[m].apart && (!reduces || coll_is_scan(coll_type_at(type))))) {
                cases[n] = manners[m];
                cases[n].manner = m;
                cases[n++].type = type;
            }
        }
    }
    return n;
}

static void choose_way(const fault_case_t *f) {
    setenv("HEDDLE_GPU_COPY_MIN", f->copies ? "64" : "inf", 1);
    setenv("HEDDLE_GPU_PARTIAL_MIN", f->apart ? "0" : "inf", 1);
}

static uint64_t calls_so_far(void) {
    heddle_emucuda_report_t report;
    heddle_emucuda_report(&report, sizeof(report));
    return report.calls;
}

/* The n-th driver call from the first init on fails. False: there are not so many. */
static bool fails_at(const fault_case_t *f, uint64_t n) {
    trial_t t;
    open_trial(f, &t);
    uint64_t before = calls_so_far();
    lines = 0;
    heddle_emucuda_fail_call(n, UNKNOWN_ERROR);
    bool well = trial_run(&t);
    uint64_t calls = calls_so_far() - before;
    heddle_emucuda_fail_call(0, 0);
    cr_assert(well || lines > 0, "call %llu: an error, and no line", (unsigned long long)n);
    cr_assert(trial_check(&t), "call %llu: somebody was told OK, and it is not",
              (unsigned long long)n);
    trial_close(&t);
    cr_assert_eq(case_memory->wrong(), 0, "call %llu", (unsigned long long)n);
    return calls >= n;
}

ParameterizedTestParameters(device_faults, every_driver_call_fails_once) {
    return cr_make_param_array(fault_case_t, cases, make_cases());
}

ParameterizedTest(fault_case_t *f, device_faults, every_driver_call_fails_once) {
    uint64_t n = 1 + first(f);
    hd_log_capture(count_line, NULL);
    choose_way(f);
    device_cases_begin(f->config, f->kind);
    while (n < MOST_CALLS && fails_at(f, n)) {
        n += step();
    }
    cr_assert_gt(n, 20);
    cr_assert_lt(n, MOST_CALLS);
    device_cases_end();
}

/* --- lost devices ----------------------------------------------------------------------------- */

enum { OVER_BEFORE, ENDED_BADLY, WRONG };

static bool is(bool right, const char *what, int device, uint64_t operations) {
    if (!right) {
        fprintf(stderr, "device %d lost after %llu operations: %s\n", device,
                (unsigned long long)operations, what);
    }
    return right;
}

/* Requests are over, so buffers on the other devices are their owners': is nobody still there? */
static bool are_free(const trial_t *t, int lost) {
    heddle_emucuda_report_t report;
    for (uint32_t i = 0; i < SIZE; i++) {
        const region_t *of[] = {&t->prepared->src[i], &t->prepared->dst[i]};
        for (int k = 0; k < 2 && (int)i % DEVICES != lost; k++) {
            if (of[k]->mirror) {
                case_memory->to(of[k]->mirror, of[k]->memory, of[k]->memory_bytes);
            }
        }
    }
    heddle_emucuda_report(&report, sizeof(report));
    return report.races == 0;
}

static int is_lost_at(const fault_case_t *f, int device, uint64_t operations) {
    trial_t t;
    device_cases_begin(f->config, f->kind);
    open_trial(f, &t);
    device_lose(device, operations);
    bool well = trial_run(&t);
    trial_await(&t);
    bool right = is(well || lines > 0, "an error, and no line", device, operations);
    for (uint32_t i = 0; i < size_of(f) && f->kind == DEVICE_CASES_PLAIN; i++) {
        bool can_look = t.prepared->statuses[i] == UCC_OK && device_cases_device(i) != device;
        right = is(!can_look || case_check_member(t.prepared, i), "a wrong result", device,
                   operations) &&
                right;
    }
    /* in windows on streams, a stream that waits for the lost device's end has nothing else that
     * tells of its own device's */
    bool told = !f->on_streams || !strstr(f->config, "nopeer");
    bool looked_at = f->kind == DEVICE_CASES_PLAIN && told;
    right = is(!looked_at || are_free(&t, device), "a buffer is still used", device, operations) &&
            right;
    trial_close(&t);
    /* by way of memory that devices pass on to each other, one may be waiting for ever: that is
     * kept */
    bool kept = strstr(f->config, "nopeer") != NULL || f->apart;
    right = is(kept || case_memory->wrong() == 0, "something is left", device, operations) && right;
    return !right ? WRONG : well ? OVER_BEFORE : ENDED_BADLY;
}

/* In a process of its own: what is kept, is kept until that ends. */
static int lose_apart(const fault_case_t *f, int device, uint64_t operations) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(is_lost_at(f, device, operations));
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : WRONG;
}

ParameterizedTestParameters(device_faults, a_device_is_lost_at_each_step) {
    return cr_make_param_array(fault_case_t, cases, make_cases());
}

ParameterizedTest(fault_case_t *f, device_faults, a_device_is_lost_at_each_step) {
    hd_log_capture(count_line, NULL);
    choose_way(f);
    for (int device = 0; device < DEVICES; device++) {
        uint64_t n = first(f);
        int how;
        while ((how = lose_apart(f, device, n)) == ENDED_BADLY && n < MOST_CALLS) {
            n += step();
        }
        cr_assert_eq(how, OVER_BEFORE, "device %d, %llu operations", device, (unsigned long long)n);
    }
}
