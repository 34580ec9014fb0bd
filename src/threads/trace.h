/* trace.h: what happened when, for people: a timeline of collectives (TRACE=file) and log lines
 * about them (COLL_TRACE=level).
 *
 * TIMELINE. While a library with TRACE set is open, every collective of the process leaves records:
 *
 *     post --> published --> seen --> chunk ... --> done
 *
 * in memory. From time to time, when the last library of the process is finalized, and at exit, the
 * file is written anew from them as trace events, which Perfetto and chrome://tracing show: a row
 * per endpoint, on it a span per collective, in it what it waited for and which chunks of work its
 * endpoint ran. Legs between processes have rows of their own, one per lane, with the messages that
 * they send and take; files of several processes are merged by heddle_trace, which draws an arrow
 * for each message. What is not over yet lasts until the file was written, and is marked as
 * unfinished. A record names its operation by address; the writer puts the records of one operation
 * together, so nothing is kept in operations, and nothing is paid for when there is no trace but a
 * relaxed load at each hook.
 *
 * Memory is bounded: after HD_TRACE_EVENTS records the process stops recording, and says so.
 *
 * The hooks also tell ThreadSanitizer what a collective orders (core/sanitizer.h): in a process
 * that it watches they are on, without a timeline. `op` is an operation's task.
 *
 * Who may call: open and close, any thread; the others, whoever steps the operation. Nothing is
 * called without hd_trace_is_on() except open and close.
 */
#ifndef HD_THREADS_TRACE_H
#define HD_THREADS_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { HD_TRACE_EVENTS = 1 << 22 };

/* --- libraries -------------------------------------------------------------------------------- */

/* A library was initialized, or goes. file: its TRACE, "" or NULL: none. The first file of those
 * that are open counts; %p in it stands for the process id, %h for the host. calls: its COLL_TRACE,
 * a hd_log_level_t. Each open is followed by one close. */
void hd_trace_open(const char *file, int calls);
void hd_trace_close(void);

/* --- the timeline ----------------------------------------------------------------------------- */

extern atomic_bool hd_trace_recording;

static inline bool hd_trace_is_on(void) {
    /* relaxed: whoever records looks again, with acquire */
    return __builtin_expect(atomic_load_explicit(&hd_trace_recording, memory_order_relaxed), 0);
}

/* The operation begins, or begins again (persistent). name is a constant; team tells teams apart.
 * The caller holds no lock. */
void hd_trace_post(const void *op, const char *name, uint64_t bytes, uint64_t team, uint32_t ep);
/* Its lane is visible to its peers. plan: how it runs, of hd_trace_keep. */
void hd_trace_published(const void *op, const char *plan, uint64_t k);
/* All have arrived, and only now it is known how it runs: instead of what was said before. */
void hd_trace_decided(const void *op, const char *plan);
/* Is there a timeline? The hooks are on, too, where ThreadSanitizer watches. */
bool hd_trace_records(void);
/* A text like this one, for ever: there are few different ones, and of too many the same one stands
 * for the rest. */
const char *hd_trace_keep(const char *text);
/* It has all that it waits for from its peers. Not needed if it is done then, or runs a chunk. */
void hd_trace_seen(const void *op);
/* It is over. A second call for the same post is ignored. */
void hd_trace_done(const void *op, int status);
/* A thread that did not end it itself, perhaps, has seen that it is over. */
void hd_trace_waited(const void *op);
/* It ran `units` units of a slice, from `began` (hd_ticks) until now. */
void hd_trace_chunk(const void *op, uint64_t began, uint32_t slice, uint32_t unit, uint32_t units);

/* --- between processes ------------------------------------------------------------------------ */

/* By the holder of a lane's lock. `leg` tells legs apart, as `op` does operations. */

/* A leg is taken in by its lane. name and algorithm are constants. */
void hd_trace_leg(const void *leg, const char *name, const char *algorithm, uint64_t number,
                  uint32_t segment, uint32_t lane);
/* A message of it was handed to the network, from `began` until now; or is in place. id: the same
 * in both processes, and of no other message: an arrow goes from the one to the other when their
 * files are merged (heddle_trace). */
void hd_trace_sent(const void *leg, uint64_t began, uint64_t id, uint64_t bytes, uint32_t to);
void hd_trace_taken(const void *leg, uint64_t began, uint64_t id, uint64_t bytes, uint32_t from);
void hd_trace_leg_done(const void *leg, int status);
/* This process is that number of so many, in the first team that spans processes: its name in the
 * file. */
void hd_trace_process(uint32_t number, uint32_t processes);

/* While it records, now and then: writes the file if that is due. */
void hd_trace_tick(void);

/* --- log lines -------------------------------------------------------------------------------- */

/* The most detailed COLL_TRACE of the libraries that are open, and more while somebody attends. */
extern atomic_int hd_trace_calls;

/* Until leave, every call goes the way of those that are logged, and looks a second time: some
 * thread is inside a callback from which nothing may be called (callback.h). Costs nobody anything
 * otherwise. */
void hd_trace_attend(void);
void hd_trace_leave(void);
/* The most detailed COLL_TRACE alone. */
int hd_trace_level(void);

static inline bool hd_trace_logs_calls(int level) {
    /* relaxed: guards nothing; may be true for nothing, the library of the call has the last word
     */
    return __builtin_expect(atomic_load_explicit(&hd_trace_calls, memory_order_relaxed) >= level,
                            0);
}

/* What is said about a collective. Texts may be NULL: then they have no meaning for it. */
typedef struct hd_trace_call {
    const char *event; /* "init", "post" */
    const char *name, *datatype, *op;
    uint32_t ep, n;
    uint32_t root; /* UINT32_MAX: none */
    uint64_t bytes;
    uint64_t flags; /* of ucc_coll_args_t */
    const char *plan, *order;
} hd_trace_call_t;

/* One line at this hd_log_level_t, whatever the log's own level is. */
void hd_trace_log_call(int level, const hd_trace_call_t *call);

#endif
