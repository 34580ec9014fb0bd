/* test_processes.c: the launcher of tests in several processes, and the reference of their
 * reductions, are themselves right. See tests/support/processes.h.
 */
#include "../reference.h"
#include "../support/deadline.h"
#include "../support/processes.h"
#include "../support/random.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(processes, .timeout = 60);

static int tells_its_endpoints(const process_t *process, void *arg) {
    (void)arg;
    for (uint32_t k = 0; k < process->n; k++) {
        process_add(process, 0, 1u << process->endpoint[k]);
    }
    return 0;
}

static uint64_t endpoints_of(shape_t shape, numbering_t numbering, uint32_t p) {
    shape.numbering = numbering;
    return processes_run(&shape, 20, tells_its_endpoints, NULL).value[p][0];
}

Test(processes, number_their_endpoints_as_the_shape_says) {
    shape_t shape = {.processes = 3, .endpoints = {1, 2, 4}, .seed = 3};
    cr_expect_eq(endpoints_of(shape, NUMBERING_CONSECUTIVE, 1), 0x06);
    cr_expect_eq(endpoints_of(shape, NUMBERING_CONSECUTIVE, 2), 0x78);
    cr_expect_eq(endpoints_of(shape, NUMBERING_INTERLEAVED, 0), 0x01);
    cr_expect_eq(endpoints_of(shape, NUMBERING_INTERLEAVED, 1), 0x0a);
    cr_expect_eq(endpoints_of(shape, NUMBERING_INTERLEAVED, 2), 0x74);
    uint64_t all = 0;
    for (uint32_t p = 0; p < 3; p++) {
        uint64_t mine = endpoints_of(shape, NUMBERING_RANDOM, p);
        cr_expect_eq(__builtin_popcountll(mine), (int)shape.endpoints[p]);
        all |= mine;
    }
    cr_expect_eq(all, 0x7f);
}

/* Byte b of the endpoint's contribution to a round. */
static unsigned char content(uint32_t endpoint, uint32_t round, size_t b) {
    return (unsigned char)(31 * endpoint + 7 * round + b + b / 4096);
}

/* All endpoints of a process at once, each with one call under way on each of two boards. */
static int gathers(const process_t *process, void *arg) {
    static const size_t bytes[] = {0, 1, 8, 4095, 4096, 4097, 100000, 3};
    uint32_t n = process->size;
    int wrong = 0;
    (void)arg;
    for (uint32_t round = 0; round < 40; round++) {
        size_t size = bytes[round % 8];
        unsigned char *from[64], *to[64];
        void *request[64];
        ucc_oob_coll_t oob[64];
        for (uint32_t k = 0; k < 2 * process->n; k++) {
            uint32_t endpoint = process->endpoint[k / 2];
            oob[k] = process_oob(process, k % 2, endpoint);
            from[k] = must_alloc(size, 1);
            to[k] = must_alloc(n, size);
            must(oob[k].allgather(from[k], to[k], size, oob[k].coll_info, &request[k]), "call");
            for (size_t b = 0; b < size; b++) { /* it is read later */
                from[k][b] = content(endpoint, round, b);
            }
        }
        for (uint32_t k = 2 * process->n; k-- > 0;) {
            while (oob[k].req_test(request[k]) == UCC_INPROGRESS) {
                for (uint32_t j = 0; j < k; j++) {
                    oob[j].req_test(request[j]);
                }
            }
            for (size_t b = 0; b < n * size; b++) {
                wrong += to[k][b] != content((uint32_t)(b / size), round, b % size);
            }
            oob[k].req_free(request[k]);
            free(from[k]);
            free(to[k]);
        }
    }
    process_barrier(process);
    return wrong != 0;
}

Test(processes, gather_any_size_among_all_endpoints) {
    shape_t shape = {.processes = 3, .endpoints = {1, 2, 4}, .numbering = NUMBERING_INTERLEAVED};
    cr_expect(processes_run(&shape, 40, gathers, NULL).ok);
}

static int hangs_or_dies(const process_t *process, void *arg) {
    const char *how = arg;
    process_note(process, "is about to");
    if (process->me == 1 && strcmp(how, "die") == 0) {
        abort();
    }
    if (process->me == 1 && strcmp(how, "fail") == 0) {
        return 3;
    }
    if (process->me == 0 && strcmp(how, "hang") == 0) {
        pause();
    }
    return 0;
}

Test(processes, that_hang_die_or_fail_are_noticed) {
    shape_t shape = shape_even(2, 1);
    cr_expect(processes_run(&shape, 20, hangs_or_dies, "go").ok);
    outcome_t hung = processes_run(&shape, 0.2, hangs_or_dies, "hang");
    cr_expect(!hung.ok && WIFSIGNALED(hung.status[0])); /* the other one may be late, too */
    outcome_t died = processes_run(&shape, 20, hangs_or_dies, "die");
    cr_expect(!died.ok && WIFSIGNALED(died.status[1]));
    outcome_t failed = processes_run(&shape, 20, hangs_or_dies, "fail");
    cr_expect(!failed.ok && WEXITSTATUS(failed.status[1]) == 3);
}

/* --- the reference --- */

enum { MOST = 64 };

static float sum_across(const float *values, const uint32_t *process_of, uint32_t n) {
    unsigned char *sources[MOST];
    float result;
    for (uint32_t i = 0; i < n; i++) {
        sources[i] = (unsigned char *)(uintptr_t)&values[i];
    }
    reference_reduce_across(reference_datatype(UCC_DT_FLOAT32), UCC_OP_SUM, sources, process_of, n,
                            1, (unsigned char *)&result);
    return result;
}

Test(processes, that_hold_aligned_runs_of_eight_sum_as_one_does) {
    uint64_t random = 5;
    uint32_t one[MOST], runs[MOST], pairs[MOST];
    float values[MOST];
    uint32_t differ = 0;
    for (uint32_t i = 0; i < MOST; i++) {
        one[i] = 9;
        runs[i] = 7 - i / 8;
        pairs[i] = i / 2;
    }
    for (int k = 0; k < 100; k++) {
        for (uint32_t i = 0; i < MOST; i++) {
            values[i] = (float)random_below(&random, 1u << 24) / 7.0f;
        }
        float sum = sum_across(values, one, MOST);
        cr_assert_eq(memcmp(&sum, &(float){sum_across(values, runs, MOST)}, sizeof(sum)), 0);
        differ += sum != sum_across(values, pairs, MOST);
    }
    cr_expect_gt(differ, 0);
}

/* Processes in the order of their lowest endpoints: (1 + 3) + (2), and not by their numbers. */
Test(processes, sum_in_the_order_of_their_lowest_endpoints) {
    const float values[] = {1e8f, 1.0f, -1e8f};
    cr_expect_eq(sum_across(values, (uint32_t[]){5, 2, 5}, 3), 1.0f);
    cr_expect_eq(sum_across(values, (uint32_t[]){5, 5, 2}, 3), 0.0f);
    cr_expect_eq(sum_across(values, (uint32_t[]){2, 5, 5}, 3), 0.0f);
}
