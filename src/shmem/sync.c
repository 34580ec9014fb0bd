/* sync.c: order, waits and tests, signals. Looks at variables are loads with acquire order: whoever
 * sees a value sees what was put before it (rma.c, atomics.c).
 */
#include "job.h"
#include "pe.h"

#include <stdio.h>
#include <string.h>

/* Operations are complete when they return. What is left to do is for processors that would let a
 * store of a later call overtake one of an earlier: fence; or a load: quiet. ThreadSanitizer does
 * not know fences, and needs none, since it follows the release stores. */
#ifdef __SANITIZE_THREAD__
#define order_accesses(order) (void)(order)
#else
#define order_accesses(order) atomic_thread_fence(order)
#endif

void shmem_fence(void) {
    order_accesses(memory_order_release);
}

void shmem_quiet(void) {
    order_accesses(memory_order_seq_cst);
}

void shmem_ctx_fence(shmem_ctx_t ctx) {
    (void)ctx;
    order_accesses(memory_order_release);
}

void shmem_ctx_quiet(shmem_ctx_t ctx) {
    (void)ctx;
    order_accesses(memory_order_seq_cst);
}

/* Where that is, as all PEs would say it. */
static void describe(char *text, size_t size, const char *what, const void *address) {
    size_t in_heap = (size_t)((uintptr_t)address - (uintptr_t)this_pe->heap);
    size_t in_image = (size_t)((uintptr_t)address - (uintptr_t)this_pe->image);
    if (in_heap < the_world.heap_bytes) {
        snprintf(text, size, "%s at byte %zu of the heap, %p,", what, in_heap, address);
    } else {
        snprintf(text, size, "%s at byte %#zx of the program, %p,", what, in_image, address);
    }
}

__attribute__((noinline, cold)) void watch_wait(waiting_t *waiting, const char *call,
                                                const char *what, const void *address) {
    char who[96], whom[128];
    double now = seconds();
    if (waiting->began > 0 && now - waiting->began < waiting->next) {
        return;
    }
    double waited = waiting->began > 0 ? now - waiting->began : 0;
    waiting->began = waiting->began > 0 ? waiting->began : now;
    snprintf(who, sizeof(who), "PE %d in %s", this_pe->number, call);
    describe(whom, sizeof(whom), what, address);
    strncat(whom, " to be changed", sizeof(whom) - strlen(whom) - 1);
    must(heddle_watch_wait(who, whom, waited, &waiting->next) == UCC_ERR_TIMED_OUT
             ? UCC_ERR_TIMED_OUT
             : UCC_OK,
         call);
}

/* What is waited for: of n variables those whose status is 0, each compared with its value, or all
 * with one. */
typedef bool holds_t(const void *variable, int cmp, const void *value);
typedef struct condition {
    holds_t *holds;
    const char *variables;
    size_t size; /* of a variable */
    size_t n;
    const int *status; /* NULL: all */
    int cmp;
    const char *values;
    size_t step; /* from one value to the next: size, or 0 */
    const char *call;
} condition_t;

/* Tests that were in vain, one after the other, in this thread. */
static _Thread_local unsigned vain;

/* Programs test in loops, so a test in vain may give the processor away. */
static bool told(bool result) {
    if (result) {
        vain = 0;
    } else {
        pause_between(&vain);
    }
    return result;
}

static bool is_member(const condition_t *c, size_t i) {
    return !c->status || !c->status[i];
}

static bool holds_at(const condition_t *c, size_t i) {
    return c->holds(c->variables + i * c->size, c->cmp, c->values + i * c->step);
}

/* The first that is waited for: for the line about a long wait. */
static const void *first_of(const condition_t *c) {
    size_t i = 0;
    while (i + 1 < c->n && (!is_member(c, i) || holds_at(c, i))) {
        i++;
    }
    return c->variables + i * c->size;
}

/* After a test in vain, which has paused. */
static void note_vain(const condition_t *c, waiting_t *waiting) {
    enum { TESTS_PER_CLOCK = 256 };
    if (++waiting->looks % TESTS_PER_CLOCK == 0) {
        watch_wait(waiting, c->call, "the variable", first_of(c));
    }
}

static bool has_members(const condition_t *c) {
    for (size_t i = 0; i < c->n; i++) {
        if (is_member(c, i)) {
            return true;
        }
    }
    return false;
}

static int test_all(const condition_t *c) {
    for (size_t i = 0; i < c->n; i++) {
        if (is_member(c, i) && !holds_at(c, i)) {
            return told(false);
        }
    }
    return told(true);
}

/* Begins after the one that was found last, so that none is forgotten while others hold all the
 * time. */
static size_t test_any(const condition_t *c) {
    static _Thread_local size_t next;
    for (size_t k = 0; k < c->n; k++) {
        size_t i = (next + k) % c->n;
        if (is_member(c, i) && holds_at(c, i)) {
            told(true);
            next = i + 1;
            return i;
        }
    }
    told(false);
    return SIZE_MAX;
}

static size_t test_some(const condition_t *c, size_t *indices) {
    size_t found = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (is_member(c, i) && holds_at(c, i)) {
            indices[found++] = i;
        }
    }
    told(found > 0);
    return found;
}

static void wait_all(const condition_t *c) {
    for (waiting_t waiting = {0}; !test_all(c);) {
        note_vain(c, &waiting);
    }
}

static size_t wait_any(const condition_t *c) {
    size_t found = SIZE_MAX;
    for (waiting_t waiting = {0}; has_members(c) && (found = test_any(c)) == SIZE_MAX;) {
        note_vain(c, &waiting);
    }
    return found;
}

static size_t wait_some(const condition_t *c, size_t *indices) {
    size_t found = 0;
    for (waiting_t waiting = {0}; has_members(c) && (found = test_some(c, indices)) == 0;) {
        note_vain(c, &waiting);
    }
    return found;
}

/* Nobody but this PE changes what is not symmetric. */
static void must_be_changeable(const void *variables, size_t n, const char *call) {
    if (n > 0) {
        must_be_symmetric(variables, call);
    }
}

#define DEFINE_HOLDS(TYPE, NAME)                                                                   \
    static inline bool compare_##NAME(const TYPE *variable, int cmp, TYPE value) {                 \
        TYPE seen = atomic_load_explicit((_Atomic(TYPE) *)(uintptr_t)variable,                     \
                                         memory_order_acquire); /* pairs with release in rma.c */  \
        switch (cmp) {                                                                             \
        case SHMEM_CMP_EQ:                                                                         \
            return seen == value;                                                                  \
        case SHMEM_CMP_NE:                                                                         \
            return seen != value;                                                                  \
        case SHMEM_CMP_GT:                                                                         \
            return seen > value;                                                                   \
        case SHMEM_CMP_LE:                                                                         \
            return seen <= value;                                                                  \
        case SHMEM_CMP_LT:                                                                         \
            return seen < value;                                                                   \
        case SHMEM_CMP_GE:                                                                         \
            return seen >= value;                                                                  \
        default:                                                                                   \
            fail("shmem_" #NAME "_wait_until or test", "cmp is %d", cmp);                          \
        }                                                                                          \
    }                                                                                              \
    static bool holds_##NAME(const void *variable, int cmp, const void *value) {                   \
        return compare_##NAME(variable, cmp, *(const TYPE *)value);                                \
    }
#define CONDITION(TYPE, NAME, VALUES, STEP)                                                        \
    &(condition_t) {                                                                               \
        holds_##NAME, (const char *)ivars, sizeof(TYPE), n, status, cmp, (const char *)(VALUES),   \
            (STEP), __func__                                                                       \
    }
#define DEFINE_MANY(TYPE, NAME, SUFFIX, PARAMETER, VALUES, STEP)                                   \
    void shmem_##NAME##_wait_until_all##SUFFIX(TYPE *ivars, size_t n, const int *status, int cmp,  \
                                               PARAMETER) {                                        \
        must_be_changeable(ivars, n, __func__);                                                    \
        wait_all(CONDITION(TYPE, NAME, VALUES, STEP));                                             \
    }                                                                                              \
    size_t shmem_##NAME##_wait_until_any##SUFFIX(TYPE *ivars, size_t n, const int *status,         \
                                                 int cmp, PARAMETER) {                             \
        must_be_changeable(ivars, n, __func__);                                                    \
        return wait_any(CONDITION(TYPE, NAME, VALUES, STEP));                                      \
    }                                                                                              \
    size_t shmem_##NAME##_wait_until_some##SUFFIX(TYPE *ivars, size_t n, size_t *indices,          \
                                                  const int *status, int cmp, PARAMETER) {         \
        must_be_changeable(ivars, n, __func__);                                                    \
        return wait_some(CONDITION(TYPE, NAME, VALUES, STEP), indices);                            \
    }                                                                                              \
    int shmem_##NAME##_test_all##SUFFIX(TYPE *ivars, size_t n, const int *status, int cmp,         \
                                        PARAMETER) {                                               \
        must_be_changeable(ivars, n, __func__);                                                    \
        return test_all(CONDITION(TYPE, NAME, VALUES, STEP));                                      \
    }                                                                                              \
    size_t shmem_##NAME##_test_any##SUFFIX(TYPE *ivars, size_t n, const int *status, int cmp,      \
                                           PARAMETER) {                                            \
        must_be_changeable(ivars, n, __func__);                                                    \
        return test_any(CONDITION(TYPE, NAME, VALUES, STEP));                                      \
    }                                                                                              \
    size_t shmem_##NAME##_test_some##SUFFIX(TYPE *ivars, size_t n, size_t *indices,                \
                                            const int *status, int cmp, PARAMETER) {               \
        must_be_changeable(ivars, n, __func__);                                                    \
        return test_some(CONDITION(TYPE, NAME, VALUES, STEP), indices);                            \
    }
#define DEFINE_WAIT(TYPE, NAME)                                                                    \
    DEFINE_HOLDS(TYPE, NAME)                                                                       \
    void shmem_##NAME##_wait_until(TYPE *ivar, int cmp, TYPE value) {                              \
        must_be_symmetric(ivar, __func__);                                                         \
        for (waiting_t waiting = {0}; !compare_##NAME(ivar, cmp, value);) {                        \
            pause_in_wait(&waiting, __func__, "the variable", ivar);                               \
        }                                                                                          \
    }                                                                                              \
    void shmem_##NAME##_wait(TYPE *ivar, TYPE value) {                                             \
        shmem_##NAME##_wait_until(ivar, SHMEM_CMP_NE, value);                                      \
    }                                                                                              \
    int shmem_##NAME##_test(TYPE *ivar, int cmp, TYPE value) {                                     \
        must_be_symmetric(ivar, __func__);                                                         \
        return told(compare_##NAME(ivar, cmp, value));                                             \
    }                                                                                              \
    DEFINE_MANY(TYPE, NAME, , TYPE value, &value, 0)                                               \
    DEFINE_MANY(TYPE, NAME, _vector, TYPE *values, values, sizeof(TYPE))
SHMEM_WAIT_TYPES(DEFINE_WAIT)

void shmem_wait(long *ivar, long value) {
    shmem_long_wait(ivar, value);
}

uint64_t shmem_signal_fetch(const uint64_t *address) {
    must_be_symmetric(address, __func__);
    return atomic_load_explicit((_Atomic uint64_t *)(uintptr_t)address,
                                memory_order_acquire); /* pairs with release in put_signal */
}

uint64_t shmem_signal_wait_until(uint64_t *address, int cmp, uint64_t value) {
    must_be_symmetric(address, __func__);
    for (waiting_t waiting = {0};; pause_in_wait(&waiting, __func__, "the signal", address)) {
        uint64_t seen = shmem_signal_fetch(address);
        if (holds_uint64(&seen, cmp, &value)) {
            return seen; /* the very value that was compared: it may change any time */
        }
    }
}
