/* poison.c: whether a group may still be used.
 *
 * What all operations of a group end with, once something has gone wrong in it for good: set once,
 * looked at by whoever waits. A child's copy of a group is poisoned before fork() returns
 * (leave.c).
 */
#include "shm/outer.h"

void hd_group_poison(hd_group_t *group, ucc_status_t status) {
    int32_t clean = 0;
    hd_group_t *here = hd_group_first(group);
    hd_assert(status < UCC_OK);
    /* the first cause wins; pairs with hd_group_poisoned. seq_cst, also if another cause was first:
       see put.c, whose writers must see it or be seen by those who look for them after this */
    bool first =
        atomic_compare_exchange_strong_explicit(&hd_common(group)->poison, &clean, (int32_t)status,
                                                memory_order_seq_cst, memory_order_seq_cst);
    hd_bell_alarm(&group->home.bell);
    hd_bell_ring(&group->home.bell);
    if (first && group->outside && group->outside->failed && !hd_group_is_inherited(group)) {
        group->outside->failed(group->outside, status);
    }
    /* seq_cst: see hd_group_on_poison */
    void (*does)(const hd_group_t *) = atomic_load_explicit(&here->on_poison, memory_order_seq_cst);
    if (first && does && !hd_group_is_inherited(group)) {
        does(here);
    }
}

void hd_group_lose(hd_group_t *group, uint32_t process) {
    hd_assert_lt(process, HD_FAR_MOST);
    /* relaxed, here and below: the poison, which comes after it, hands it on */
    atomic_fetch_or_explicit(&hd_common(group)->lost[process / 64], UINT64_C(1) << process % 64,
                             memory_order_relaxed);
}

bool hd_group_has_lost(const hd_group_t *group, uint32_t process) {
    hd_assert_lt(process, HD_FAR_MOST);
    return atomic_load_explicit(&hd_common(group)->lost[process / 64], memory_order_relaxed) >>
               process % 64 &
           1;
}

void hd_group_on_poison(hd_group_t *group, void (*does)(const hd_group_t *group)) {
    group = hd_group_first(group);
    /* seq_cst, both: hd_group_poison sees it after its swap, or I see what that has swapped in */
    atomic_store_explicit(&group->on_poison, does, memory_order_seq_cst);
    if (atomic_load_explicit(&hd_common(group)->poison, memory_order_seq_cst) != 0) {
        does(group);
    }
}

bool hd_group_is_inherited(const hd_group_t *group) {
    return group->forks != hd_forks();
}

void hd_group_say_inherited(hd_group_t *group) {
    /* relaxed: only one line instead of many */
    if (hd_group_is_inherited(group) &&
        !atomic_exchange_explicit(&group->said_inherited, true, memory_order_relaxed)) {
        hd_error(
            "an endpoint was inherited through a fork: its team belongs to the parent process");
    }
}
