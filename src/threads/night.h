/* night.h: one thread's sleep in a context, between runner.c, which decides on it, and night.c.
 *
 *     init -> find_groups -> enlist -> a last look, by the runner -> sleep -> end
 *
 * From enlist to end the thread is on bells, and can't be cancelled. If user's code is about to run
 * in the last look, hd_runner_rise ends the night early (`over`); the runner then must neither
 * sleep nor end it again.
 */
#ifndef HD_THREADS_NIGHT_H
#define HD_THREADS_NIGHT_H

#include "threads/fd_waiter.h"

enum { HD_NIGHT_BELLS = 16 }; /* groups one sleeper registers with; with more it naps instead */

/* One thread's night: its places on bells, and the futex word that all of them bump. That is the
 * bell's of the group for whose sake it sleeps; or its own if there are several, or none. Of bells
 * that others ring from elsewhere, each has to be slept on by its own word, beside that. */
typedef struct hd_night {
    _Atomic uint32_t own_word;
    _Atomic uint32_t *word;
    _Atomic int event; /* see fd_waiter.h */
    uint32_t n_groups;
    hd_fd_waiter_t
        *outside; /* what those wait for that no bell tells; NULL: nothing, or not only that */
    hd_awaited_t awaited;    /* if there is one task and no more */
    hd_sleeper_t watching;   /* on its bell */
    uint64_t until_deadline; /* us to the earliest deadline of the context's tasks */
    hd_sleeper_t own;        /* on the context's bell: another thread may complete my task */
    hd_sleeper_t group[HD_NIGHT_BELLS];
    hd_home_t *home[HD_NIGHT_BELLS];
    uint32_t rings[HD_NIGHT_BELLS]; /* of each home's bell by other mappings, when it began */
    uint32_t n_far;                 /* homes whose bell is one of several */
    uint32_t mask;                  /* with which it sleeps on the word */
    bool by_far;                    /* the word is a far bell's */
    int cancelling; /* the thread's, while it is enlisted: a cancelled one would end on the bells */
    bool often;     /* see hd_bell_enlist */
    bool over;      /* on no bell any more */
} hd_night_t;

void hd_night_init(hd_night_t *night);
/* Pins every group in which this context has work. False if that is not all that may end the
 * wait: the sleep must be short. awaited: the task whose end is waited for, or NULL. */
bool hd_night_find_groups(hd_runner_t *runner, const hd_task_t *awaited, hd_night_t *night);
void hd_night_enlist(hd_runner_t *runner, hd_night_t *night);
/* Would a bell tell of all that the context's tasks wait for now? */
bool hd_night_bells_tell(hd_runner_t *runner, const hd_night_t *night);
/* Without an outside: sleeps until a bell rings, at most so many microseconds. False: the time
 * is over. */
bool hd_night_sleep(hd_night_t *night, uint64_t us);
/* Leaves all bells and unpins the groups. */
void hd_night_end(hd_night_t *night);

#endif
