/* ends.c: data that one process has for one other are copied from both ends: the reader reads parts
 * by the kernel, and the source, which would only wait, writes others where the reader has told it
 * to (pull.c). Each takes the next part that nobody has.
 *
 * The kernel writes to the reader's buffer, by a thread of another process, so a reader that
 * cancels has to wait for it. One word says which parts are taken, and by whom: who closes it knows
 * how many the source has taken, all that it ever will; when as many are written, or the source is
 * dead, nobody touches the buffer any more.
 */
#include "shm/far.h"

/* The word `taken`: (epoch:32 | closed:1 | parts:16 | those of the source:15). */
enum { PARTS_SHIFT = 15, SOURCE_MASK = HD_ENDS_MOST };
#define CLOSED (UINT32_C(1) << 31)

_Static_assert(SOURCE_MASK == (1 << PARTS_SHIFT) - 1, "all parts may be the source's");

static uint32_t parts_in(uint32_t count) {
    return (count & ~CLOSED) >> PARTS_SHIFT;
}

void hd_ends_open(const hd_far_t *far, hd_window_t *window) {
    /* relaxed, both: handed on with `prepared`, and to the source with the windows that it waits
       for */
    atomic_store_explicit(&window->taken, far->epoch, memory_order_relaxed);
    atomic_store_explicit(&window->written, far->epoch, memory_order_relaxed);
}

bool hd_ends_take(const hd_far_t *far, hd_window_t *window, uint32_t parts, bool is_source,
                  uint32_t *part) {
    /* relaxed: a guess, which the CAS checks */
    uint64_t word = atomic_load_explicit(&window->taken, memory_order_relaxed), next;
    do {
        uint32_t count = hd_far_count(far, word);
        *part = parts_in(count);
        if ((count & CLOSED) || *part >= parts) {
            return false;
        }
        next = far->epoch | (count + (1u << PARTS_SHIFT) + is_source);
        hd_delay_point();
        /* acquire: a part is written only after it was taken. Release is not needed: what others
           learn from the word is itself */
    } while (!atomic_compare_exchange_weak_explicit(&window->taken, &word, next,
                                                    memory_order_acquire, memory_order_relaxed));
    return true;
}

void hd_ends_wrote(const hd_far_t *far, hd_window_t *window) {
    /* relaxed: a guess */
    uint64_t word = atomic_load_explicit(&window->written, memory_order_relaxed), next;
    do {
        next = far->epoch | (hd_far_count(far, word) + 1);
        hd_delay_point();
        /* release: the part; pairs with all_written, also after those of other threads */
    } while (!atomic_compare_exchange_weak_explicit(&window->written, &word, next,
                                                    memory_order_release, memory_order_relaxed));
}

static bool all_written(const hd_far_t *far, const hd_window_t *window, uint32_t count) {
    /* acquire: pairs with hd_ends_wrote; what was written, and that it is over */
    uint64_t word = atomic_load_explicit(&window->written, memory_order_acquire);
    return hd_far_count(far, word) == (count & SOURCE_MASK);
}

bool hd_ends_are_done(const hd_far_t *far, const hd_window_t *window, uint32_t parts) {
    /* relaxed: once all are taken, it does not change; the data come with `written` */
    uint32_t count = hd_far_count(far, atomic_load_explicit(&window->taken, memory_order_relaxed));
    return parts_in(count) >= parts && all_written(far, window, count);
}

bool hd_ends_close(const hd_far_t *far, hd_window_t *window) {
    /* relaxed: a guess */
    uint64_t word = atomic_load_explicit(&window->taken, memory_order_relaxed);
    uint32_t count;
    do {
        if (word >> 32 << 32 != far->epoch) {
            return true; /* it was opened for another use of the set: this exchange is over */
        }
        count = hd_far_count(far, word) | CLOSED;
        hd_delay_point();
        /* relaxed, both: the order of this word decides who has come first */
    } while (!atomic_compare_exchange_weak_explicit(&window->taken, &word, far->epoch | count,
                                                    memory_order_relaxed, memory_order_relaxed));
    return all_written(far, window, count);
}
