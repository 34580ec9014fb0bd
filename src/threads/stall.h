/* stall.h: waits that last too long say so: after STALL seconds, and again whenever they have
 * lasted twice as long as at the last line.
 *
 * Who waits keeps a hd_stall_t (zero: nothing is waited for) and asks now and then, after a look in
 * vain:
 *
 *     uint64_t now = hd_ticks();
 *     if (hd_stall_is_due(&stall, now, lib->stall)) {
 *         hd_text_t text = {0};
 *         hd_text_numbers(&text, n, is_missing, group);
 *         hd_stall_line("team of %u: endpoint %u has waited %.1f s for %s", n, me,
 *                       hd_stall_seconds(&stall, now), text.line);
 *     }
 *
 * and sets it to zero when the wait is over. Reading the clock costs about 20 cycles, so the place
 * to ask is where nothing was found. Operations need not ask: their context does it for them
 * (runner.c, shm/stall.c).
 *
 * Who may call: anybody; a hd_stall_t and a hd_text_t belong to their caller.
 */
#ifndef HD_THREADS_STALL_H
#define HD_THREADS_STALL_H

#include "threads/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hd_stall {
    uint64_t since; /* ticks of the first look in vain; 0: none yet */
    uint64_t after; /* ticks after `since` at which the next line is due */
} hd_stall_t;

/* A look at `now` was in vain: is a line due? first: ticks to the first one; 0: never. */
bool hd_stall_is_due(hd_stall_t *stall, uint64_t now, uint64_t first);

static inline double hd_stall_seconds(const hd_stall_t *stall, uint64_t now) {
    return hd_ticks_to_seconds(now - stall->since);
}

/* Ticks of so many seconds, as configured; 0 or less, or for ever: 0. */
uint64_t hd_stall_ticks(double seconds);

/* One warning. */
void hd_stall_line(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* --- text that grows -------------------------------------------------------------------------- */

/* Begins as {0}. What does not fit is left out. */
typedef struct hd_text {
    size_t used;
    char line[1536];
} hd_text_t;

void hd_text_add(hd_text_t *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The numbers below n that are `in`, as "endpoint 3", "endpoints 1, 3 and 4", or, of many, as "37
 * of 64 endpoints: 3, 5-9, 11, ...". Returns how many there are. */
uint32_t hd_text_numbers(hd_text_t *text, uint32_t n, bool (*in)(const void *arg, uint32_t i),
                         const void *arg);

/* --- threads ---------------------------------------------------------------------------------- */

/* The calling thread progresses contexts that are others': it is not whose waits it finds there. */
void hd_stall_help(bool helps);
bool hd_stall_is_helping(void);

/* The system's number of the calling thread. */
int32_t hd_thread_number(void);
/* What that thread of this process is doing: "runs", "sleeps", "is stopped", "has ended"; NULL: not
 * known. */
const char *hd_thread_state(int32_t thread);
/* The same of a thread of a process of this host, and of this one's pid namespace. */
const char *hd_thread_state_in(int32_t process, int32_t thread);
/* The same of a process of this host, and of this one's pid namespace: of its first thread. */
const char *hd_process_state(int32_t process);

#endif
