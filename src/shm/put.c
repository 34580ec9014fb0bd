/* put.c: one-sided bcast, allgather and alltoall into the team's symmetric memory, among threads,
 * or among processes that have all parts of it mapped (parts.c). Every member said that its
 * buffers lie there and may be touched before it posts (HEDDLE_COLL_FLAG_SYMMETRIC and _READY), so
 * the source writes straight into its peers' buffers, whether they have entered or not, and its
 * lane only says that the data is there. One copy, one synchronization, at any size.
 *
 * A buffer has the same offset in every member's part of the memory (group->region): it is part of
 * the signature, so that a member with another one is found, if too late for what was overwritten.
 * Whether a peer still reads what is overwritten is the caller's business: that is what READY
 * promises.
 *
 * When a request reports an error, nobody touches its buffers any more, as everywhere. Here a peer
 * may be writing to them without their owner's doing, so a failure is everybody's: it poisons the
 * group, and a request ends only when no writer is left inside. A writer says that it is inside
 * before it looks for the poison, and who has seen the poison looks for writers after that; all
 * four accesses are seq_cst, so either the writer sees the poison and writes nothing, or it is seen
 * and waited for.
 *
 * The same holds for an endpoint that leaves the team, whose memory may be gone then: it counts
 * itself among the leavers before it looks for writers, and who sees a leaver writes nothing. No
 * collective that can complete is lost by that: all endpoints take part in it, and none of them is
 * done with it before it has seen the lane that its writer publishes after writing. So whoever left
 * before that will never take part.
 *
 * A process that is killed while a member of it writes never counts that one out again. Nobody
 * waits for members of a process that is known to have ended; for those of one that is stopped,
 * all wait.
 */
#include "shm/internal.h"
#include "shm/reach.h"

#include "core/copy.h"

size_t hd_put_offset(const hd_op_t *op, const uint8_t *buffer) {
    return (size_t)(buffer - (const uint8_t *)op->group->region[op->place.me].address);
}

/* Where my buffer lies at member i. */
static uint8_t *at_peer(const hd_op_t *op, const uint8_t *buffer, uint32_t i) {
    return (uint8_t *)op->group->region[i].address + hd_put_offset(op, buffer);
}

bool hd_put_reaches(const hd_group_t *group) {
    return !group->apart || group->puts;
}

bool hd_put_fits(const hd_op_t *op, const uint8_t *buffer, size_t bytes) {
    const struct hd_region *region = op->group->region;
    uintptr_t base = (uintptr_t)region[op->place.me].address, at = (uintptr_t)buffer;
    for (uint32_t i = 0; i < op->place.n; i++) {
        if (at < base || at - base > region[i].bytes || bytes > region[i].bytes - (at - base)) {
            return false;
        }
    }
    return true;
}

static ucc_status_t wait_for_root(hd_op_t *op) {
    const hd_lane_t *lane;
    return hd_op_lane(op, op->call.root, &lane);
}

/* Its data is not there and won't be: the failure that kept it from being written ends it. After an
 * endpoint has left, that is still to be found (by hd_op_step: a leaver, or a call that
 * differs). */
static ucc_status_t wait_for_failure(hd_op_t *op) {
    ucc_status_t failure = hd_group_poisoned(op->group);
    return failure == UCC_OK ? UCC_INPROGRESS : failure;
}

/* --- writing ---------------------------------------------------------------------------------- */

static _Atomic uint32_t *writing(const hd_group_t *group, uint32_t ep) {
    return &group->board->shared[ep]->writing;
}

static void put(const hd_op_t *op, uint32_t i, const uint8_t *buffer, const uint8_t *src) {
    uint8_t *dst = at_peer(op, buffer, i);
    if (dst != src) {
        hd_copy(dst, src, op->call.bytes, HD_STORES_PLAIN);
    }
}

/* False if the group has failed or an endpoint has left: then not all of it was written. */
static bool put_to_all(const hd_op_t *op, bool is_bcast) {
    _Atomic uint32_t *mine = writing(op->group, op->place.me);
    const _Atomic int32_t *poison = &hd_common(op->group)->poison;
    /* seq_cst, here and below: see the head of this file */
    atomic_fetch_add_explicit(mine, 1, memory_order_seq_cst);
    bool is_pairwise = hd_coll[op->call.type].pairwise;
    bool clean = atomic_load_explicit(poison, memory_order_seq_cst) == 0 &&
                 atomic_load_explicit(&hd_common(op->group)->n_left, memory_order_seq_cst) == 0;
    for (uint32_t i = 0; i < op->place.n && clean; i++) {
        if (is_bcast) {
            put(op, i, op->call.src, op->call.src);
        } else {
            const uint8_t *src = op->call.src + (is_pairwise ? i * op->call.bytes : 0);
            put(op, i, op->call.dst + op->place.me * op->call.bytes, src);
        }
        /* relaxed: only so as not to keep others waiting for a result that nobody will read */
        clean = atomic_load_explicit(poison, memory_order_relaxed) == 0;
    }
    hd_delay_point();
    /* release: my writes happen before whatever the memory is used for next; pairs with lingers */
    uint32_t before = atomic_fetch_sub_explicit(mine, 1, memory_order_release);
    hd_assert_lt(0, before);
    (void)before;
    if (!clean) {
        hd_bell_ring(&op->group->home.bell); /* who waits for writers may sleep */
    }
    return clean;
}

ucc_status_t hd_put_start(hd_op_t *op) {
    bool is_bcast = hd_coll[op->call.type].bcast;
    bool writes = !is_bcast || op->call.is_root;
    op->wait = !is_bcast ? hd_op_all_lanes : op->call.is_root ? hd_arrive_done : wait_for_root;
    op->exposed = !is_bcast || !op->call.is_root;
    if (writes && !put_to_all(op, is_bcast)) {
        op->wait = wait_for_failure; /* a lane would say that the data is there */
        return UCC_OK;
    }
    return hd_lane_announce(op);
}

/* --- failing ---------------------------------------------------------------------------------- */

/* Has the process of this member, which can't be this one? */
static bool has_ended(const hd_group_t *group, uint32_t i) {
    return group->reach && hd_reach_has_lost(group->reach, group->home_of[i]);
}

bool hd_put_lingers(hd_group_t *group) {
    if (hd_group_is_inherited(group)) { /* who writes there writes in the parent */
        return false;
    }
    /* An RMW, because it reads the latest count. acq_rel: if not all have joined yet, whoever
       writes does so after the last one has, and sees what I did before this; else I see
       everybody's member */
    uint32_t joined = atomic_fetch_add_explicit(&hd_common(group)->joined, 0, memory_order_acq_rel);
    if ((joined & ~HD_GROUP_ABANDONED) != group->n) {
        return false;
    }
    for (uint32_t i = 0; i < group->n; i++) {
        /* seq_cst: see the head of this file */
        if (atomic_load_explicit(writing(group, i), memory_order_seq_cst) != 0 &&
            !has_ended(group, i)) {
            return true;
        }
    }
    return false;
}

ucc_status_t hd_put_cancel(hd_op_t *op, ucc_status_t why) {
    hd_group_poison(op->group, why);
    if (hd_put_lingers(op->group)) {
        return UCC_INPROGRESS;
    }
    op->exposed = false;
    return why;
}
