/* parts.c: where the parts of swaps lie (see swap.c): what each process has given of each exchange,
 * and what this one gives.
 *
 * Part k of process i lies at slot k mod HD_SWAP_SLOTS, and stays there until this process says
 * that k is over. swap.c puts parts there, by lane 0's holder alone; the owner of an exchange, any
 * thread, writes what it gives, reads what has come, and says when it is over.
 *
 * Who reads. A part's number is written last (release), so whoever sees it (acquire), with or
 * without the lane's lock, may read the part, until it says that the number is over (release),
 * which who writes the next one has seen (acquire).
 */
#include "net/internal.h"

/* --- a team's --------------------------------------------------------------------------------- */

enum {
    TYPES = 1 << HD_BARRIER | 1 << HD_ALLREDUCE | 1 << HD_REDUCE | 1 << HD_BCAST | 1 << HD_MCAST |
            1 << HD_ALLGATHER | 1 << HD_ALLTOALL | 1 << HD_GATHER | 1 << HD_SCATTER
};

uint32_t hd_net_swap_types(const uint8_t chosen[HD_NET_FAMILIES]) {
    uint32_t types = 0;
    for (uint32_t t = 0; t < HD_N_TYPES; t++) {
        if (TYPES >> t & 1) {
            uint8_t choice = chosen[hd_net_family_of[t]];
            bool direct_will_do = choice == HD_NET_NOTHING || choice == HD_NET_DIRECT;
            types |= direct_will_do ? 1u << t : 0;
        }
    }
    return types;
}

hd_net_swaps_t *hd_net_swaps_create(const hd_net_team_t *team, bool early) {
    size_t parts = (size_t)HD_SWAP_SLOTS * team->n;
    hd_net_swaps_t *swaps = hd_alloc(HD_LINE_PAIR, sizeof(*swaps) + parts * sizeof(hd_swap_part_t));
    if (swaps) {
        swaps->types = hd_net_swap_types(team->choice);
        swaps->early = early;
        atomic_init(&swaps->users, 1);
    }
    return swaps;
}

void hd_net_swaps_leave(hd_net_swaps_t *swaps) {
    /* acq_rel: the last user frees what the others have done with */
    if (!swaps || atomic_fetch_sub_explicit(&swaps->users, 1, memory_order_acq_rel) > 1) {
        return;
    }
    for (hd_swap_late_t *next, *late = swaps->late; late; late = next) {
        next = late->next;
        hd_free(late);
    }
    hd_free_local(atomic_load_explicit(&swaps->longs, memory_order_relaxed)); /* the last user */
    hd_free(swaps);
}

bool hd_net_may_swap(const hd_net_team_t *team, uint8_t type) {
    return team->swaps && team->swaps->types & 1u << type;
}

ucc_status_t hd_net_swap_reserve(hd_net_team_t *team) {
    hd_net_swaps_t *swaps = team->swaps;
    uint8_t *none = NULL;
    /* relaxed: only whether there is one */
    if (atomic_load_explicit(&swaps->longs, memory_order_relaxed)) {
        return UCC_OK;
    }
    size_t parts = (size_t)2 * HD_SWAP_SLOTS * team->n;
    uint8_t *longs = hd_alloc_local(parts * hd_net_swap_most(team->n), -1); /* by its users */
    if (!longs) {
        hd_error("no memory for small messages among %u processes", team->n);
        return UCC_ERR_NO_MEMORY;
    }
    /* release: it is zero; relaxed: another's is as good */
    if (!atomic_compare_exchange_strong_explicit(&swaps->longs, &none, longs, memory_order_release,
                                                 memory_order_relaxed)) {
        hd_free_local(longs);
    }
    return UCC_OK;
}

/* --- what this process gives ------------------------------------------------------------------ */

hd_net_swap_t *hd_net_swap_of(const hd_net_team_t *team, uint64_t k) {
    return &team->swaps->mine[hd_swap_slot(k)].swap;
}

void *hd_net_swap_room(const hd_net_team_t *team, uint64_t k, uint32_t to, bool is_long) {
    return is_long ? hd_swap_long_of(team, k, to, false) : team->swaps->mine[hd_swap_slot(k)].data;
}

/* --- what has come ---------------------------------------------------------------------------- */

bool hd_net_swap_has_begun(const hd_net_team_t *team, uint64_t k) {
    /* relaxed: written under lane 0's lock, which those have who come before or after it there */
    return team->swaps &&
           atomic_load_explicit(&team->swaps->begun[hd_swap_slot(k)], memory_order_relaxed) == k;
}

bool hd_net_swap_has_come(const hd_net_team_t *team, uint64_t k, uint32_t *source) {
    for (uint32_t i = 0; team->swaps && i < team->n; i++) {
        /* relaxed: written under this lock */
        if (atomic_load_explicit(&hd_swap_part_of(team, k, i)->k, memory_order_relaxed) == k) {
            *source = i;
            return true;
        }
    }
    for (const hd_swap_late_t *late = team->swaps ? team->swaps->late : NULL; late;
         late = late->next) {
        if (late->k == k) {
            *source = late->source;
            return true;
        }
    }
    return false;
}

bool hd_net_swap_has_part(const hd_net_team_t *team, uint64_t k, uint32_t process) {
    return hd_swap_has_part(team, k, process);
}

bool hd_net_swap_fits(const hd_net_team_t *team, uint64_t k, uint32_t process, uint32_t signature,
                      size_t bytes) {
    const hd_swap_part_t *part = hd_swap_part_of(team, k, process);
    return part->signature == signature && part->bytes == bytes;
}

const void *hd_net_swap_part(const hd_net_team_t *team, uint64_t k, uint32_t process) {
    return hd_swap_bytes_of(team, k, process, hd_swap_part_of(team, k, process)->bytes);
}

void hd_net_swap_over(hd_net_team_t *team, uint64_t k) {
    /* release: what was read of the parts; see the head */
    atomic_store_explicit(&team->swaps->over[hd_swap_slot(k)], k, memory_order_release);
}
