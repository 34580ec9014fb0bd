/* active_pairs.c: send and receive as bcasts over active sets of two, among 1,000 endpoints, each
 * pair a set of its own: every payload is verified, and so is that memory does not grow with the
 * number of sets. Prints what a message takes.
 */
#include "stress.h"

#include <heddle/heddle.h>
#include <unistd.h>

#include "../support/random.h"

#if STRESS_TSAN || defined(__SANITIZE_ADDRESS__)
enum { CHECKS_MEMORY = 0 }; /* most of it is the sanitizer's */
#else
enum { CHECKS_MEMORY = 1 };
#endif

enum { ENDPOINTS = 1000, THREADS = 2, WINDOW = 32, WORDS = 4, MOST_MIB = 100 };

typedef struct message {
    uint32_t from, to;
} message_t;

typedef struct slot {
    ucc_coll_req_h request;
    uint64_t number;
    uint32_t to;
    bool receives;
    uint64_t words[WORDS];
} slot_t;

typedef struct side {
    heddle_ep_t **ep;
    uint32_t index, of;
    uint64_t messages;
} side_t;

static message_t message_of(uint64_t number) {
    uint64_t state = number + 1;
    uint32_t from = (uint32_t)random_below(&state, ENDPOINTS);
    uint32_t by = 1 + (uint32_t)random_below(&state, ENDPOINTS - 1);
    return (message_t){from, (from + by) % ENDPOINTS};
}

static void post(const side_t *side, slot_t *slot, uint64_t number, uint32_t me) {
    message_t m = message_of(number);
    *slot = (slot_t){.number = number, .to = m.to, .receives = me == m.to};
    for (uint32_t i = 0; i < WORDS && !slot->receives; i++) {
        slot->words[i] = number * WORDS + i;
    }
    ucc_coll_args_t args = {
        .mask = UCC_COLL_ARGS_FIELD_ACTIVE_SET, .coll_type = UCC_COLL_TYPE_BCAST, .root = m.from};
    args.active_set.start = m.from;
    args.active_set.stride = (int64_t)m.to - (int64_t)m.from;
    args.active_set.size = 2;
    args.src.info =
        (ucc_coll_buffer_info_t){slot->words, WORDS, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST};
    must(ucc_collective_init_and_post(&args, &slot->request, heddle_ep_team(side->ep[me])),
         "init_and_post");
}

static void finish(const side_t *side, slot_t *slot, uint32_t me) {
    deadline_t deadline = deadline_start("a message");
    ucc_status_t status;
    while ((status = ucc_collective_test(slot->request)) == UCC_INPROGRESS) {
        ucc_context_progress(heddle_ep_context(side->ep[me]));
        deadline_poll(&deadline);
    }
    stress_expect(status, UCC_OK, "a message");
    for (uint32_t i = 0; i < WORDS && slot->receives; i++) {
        if (slot->words[i] != slot->number * WORDS + i) {
            stress_error("message %llu to %u has a wrong word", (unsigned long long)slot->number,
                         slot->to);
        }
    }
    must(ucc_collective_finalize(slot->request), "finalize");
}

/* All threads go through the messages in one order, a window ahead: nobody waits for one that its
 * peer can't post yet. */
static void *drive(void *arg) {
    const side_t *side = arg;
    slot_t *ring = must_alloc(WINDOW, sizeof(*ring));
    uint32_t *who = must_alloc(WINDOW, sizeof(*who));
    uint64_t posted = 0, done = 0;
    for (uint64_t number = 0; number < side->messages; number++) {
        message_t m = message_of(number);
        uint32_t ends[2] = {m.from, m.to};
        for (uint32_t i = 0; i < 2; i++) {
            if (ends[i] % side->of != side->index) {
                continue;
            }
            if (posted - done == WINDOW) {
                finish(side, &ring[done % WINDOW], who[done % WINDOW]);
                done++;
            }
            who[posted % WINDOW] = ends[i];
            post(side, &ring[posted % WINDOW], number, ends[i]);
            posted++;
        }
    }
    for (; done < posted; done++) {
        finish(side, &ring[done % WINDOW], who[done % WINDOW]);
    }
    free(ring);
    free(who);
    return NULL;
}

static double mib_in_use(void) {
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file) {
        if (fscanf(file, "%*u %lu", &pages) != 1) {
            pages = 0;
        }
        fclose(file);
    }
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static void run(uint32_t threads, uint64_t messages) {
    heddle_group_t *group;
    heddle_ep_t **ep = must_alloc(ENDPOINTS, sizeof(heddle_ep_t *));
    heddle_group_params_t params = {
        .endpoints = ENDPOINTS, .contexts = threads, .thread_mode = UCC_THREAD_MULTIPLE};
    pthread_t thread[THREADS];
    side_t side[THREADS];
    double before = mib_in_use();
    must(heddle_group_create(&params, &group), "heddle_group_create");
    for (uint32_t i = 0; i < ENDPOINTS; i++) {
        must(heddle_join(group, i, &ep[i]), "heddle_join");
    }
    double began = test_now();
    for (uint32_t i = 0; i < threads; i++) {
        side[i] = (side_t){ep, i, threads, messages};
        pthread_create(&thread[i], NULL, drive, &side[i]);
    }
    for (uint32_t i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
    }
    double took = test_now() - began, mib = mib_in_use() - before;
    printf("%u threads, %u endpoints, %llu messages: %.0f ns each, %.0f MiB\n", threads, ENDPOINTS,
           (unsigned long long)messages, took / (double)messages * 1e9, mib);
    if (CHECKS_MEMORY && mib > MOST_MIB) {
        stress_error("%.0f MiB for %llu sets", mib, (unsigned long long)messages);
    }
    for (uint32_t i = 0; i < ENDPOINTS; i++) {
        must(heddle_leave(ep[i]), "heddle_leave");
    }
    must(heddle_group_destroy(group), "heddle_group_destroy");
    free(ep);
}

int main(int argc, char **argv) {
    stress_begin(argc, argv);
    stress_phase("messages, one thread", 240);
    run(1, stress_scaled(200000));
    stress_phase("messages, two threads", 240);
    run(THREADS, stress_scaled(200000));
    return stress_end();
}
