/* roll.c: members of several processes learn who lives where, and how each process is reached.
 * roll.h says in which order its functions are called, and by whom. It has no state of its own, but
 * for a few pieces of memory that are used when the heap has none.
 */
#include "form/roll.h"

#include "threads/stall.h"

#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROOM = 2048, /* there is memory for addresses of so many bytes, to begin with */
    MOST_BYTES = 1 << 20
};

static bool same_process(const hd_called_t *a, const hd_called_t *b) {
    return memcmp(a->process, b->process, sizeof(a->process)) == 0;
}

static int by_process(const void *a, const void *b) {
    const hd_called_t *x = a, *y = b;
    int order = memcmp(x->process, y->process, sizeof(x->process));
    return order ? order : (x->number > y->number) - (x->number < y->number);
}

/* Makes the span. A process is told from others by the number of its lowest member. */
static bool find_processes(hd_roll_t *roll, hd_called_t *called, uint32_t n, uint32_t my_number) {
    uint32_t *process_of = hd_alloc(HD_LINE, n * sizeof(*process_of)), lowest = 0;
    qsort(called, n, sizeof(*called), by_process);
    for (uint32_t i = 0; process_of && i < n; i++) {
        lowest = i > 0 && same_process(&called[i], &called[i - 1]) ? lowest : called[i].number;
        process_of[called[i].number] = lowest;
    }
    roll->span = process_of ? hd_span_create(n, process_of, my_number) : NULL;
    hd_free(process_of);
    return roll->span != NULL;
}

/* Returns the bytes of a slice, if the process's address has so many. */
static uint32_t slice_of(const hd_roll_t *roll, uint32_t process, uint32_t bytes) {
    uint32_t n = hd_span_count(roll->span, process);
    return (bytes + n - 1) / n;
}

/* Allocates all that is needed after the accounts, for addresses of so many bytes. */
static void make_room(hd_roll_t *roll, uint32_t bytes) {
    const hd_span_t *span = roll->span;
    uint32_t slice = 0;
    for (uint32_t p = 0; p < span->processes; p++) {
        uint32_t one = slice_of(roll, p, bytes);
        slice = one > slice ? one : slice;
    }
    hd_free(roll->my_slice);
    hd_free(roll->slices);
    hd_free(roll->process);
    roll->my_slice = hd_alloc(HD_LINE, slice);
    roll->slices = hd_alloc(HD_LINE, (size_t)span->n * slice);
    roll->process = hd_alloc(HD_LINE, span->processes * (sizeof(*roll->process) + bytes));
    roll->room = bytes;
    if (!roll->my_slice || !roll->slices || !roll->process) {
        hd_error("no memory for the addresses of %u processes", span->processes);
        roll->trouble = UCC_ERR_NO_MEMORY;
    }
}

void hd_roll_take(hd_roll_t *roll, hd_called_t *called, uint32_t n, uint32_t my_number) {
    roll->number = my_number;
    roll->place_of = hd_alloc(HD_LINE, n * sizeof(*roll->place_of));
    if (!called || !roll->place_of || !find_processes(roll, called, n, my_number) ||
        !(roll->identity = hd_alloc(HD_LINE, roll->span->processes * sizeof(*roll->identity)))) {
        hd_error("no memory for an exchange among several processes");
        hd_free(roll->span);
        roll->span = NULL;
        roll->trouble = UCC_ERR_NO_MEMORY;
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        roll->place_of[called[i].number] = called[i].place;
        memcpy(roll->identity[roll->span->process_of[called[i].number]], called[i].process,
               sizeof(called[i].process));
    }
    make_room(roll, ROOM);
}

ucc_status_t hd_roll_open(hd_roll_t *roll, const hd_config_t *config) {
    size_t bytes = 0;
    if (roll->trouble == UCC_OK) {
        ucc_status_t status = hd_net_open(config, &roll->net);
        if (status == UCC_INPROGRESS) {
            return status;
        }
        roll->trouble = status;
    }
    if (roll->trouble == UCC_OK) {
        hd_net_address(roll->net, &bytes);
    }
    roll->mine = (hd_account_t){.status = (int32_t)roll->trouble, .bytes = (uint32_t)bytes};
    return UCC_OK;
}

/* Returns the length of a process's address, as its lowest member told it. */
static uint32_t address_bytes(const hd_roll_t *roll, uint32_t process) {
    return roll->told[roll->place_of[hd_span_endpoint(roll->span, process, 0)]].bytes;
}

/* Returns UCC_OK if all members have got on, else why not, with the member's number. most: the
 * length of the longest address. All members that have a span come to the same answer. */
static ucc_status_t look_for_trouble(const hd_roll_t *roll, uint32_t *number, uint32_t *most) {
    *number = 0;
    *most = 0;
    if (!roll->span) {
        return roll->trouble;
    }
    for (uint32_t i = 0; i < roll->span->n; i++) {
        const hd_account_t *told = &roll->told[roll->place_of[i]];
        uint32_t expected = address_bytes(roll, roll->span->process_of[i]);
        *number = i;
        if (told->status != UCC_OK) {
            return told->status < 0 ? (ucc_status_t)told->status : UCC_ERR_INVALID_PARAM;
        }
        if (told->bytes == 0 || told->bytes > MOST_BYTES || told->bytes != expected) {
            return UCC_ERR_INVALID_PARAM;
        }
        *most = told->bytes > *most ? told->bytes : *most;
    }
    return UCC_OK;
}

/* Copies this member's part of its process's address to my_slice. */
static void cut(hd_roll_t *roll) {
    const hd_span_t *span = roll->span;
    size_t bytes;
    const uint8_t *address = hd_net_address(roll->net, &bytes);
    uint32_t mine = slice_of(roll, span->mine, address_bytes(roll, span->mine));
    size_t at = (size_t)mine * span->local_of[roll->number];
    memset(roll->my_slice, 0, roll->slice);
    if (at < bytes) {
        memcpy(roll->my_slice, address + at, bytes - at < mine ? bytes - at : mine);
    }
}

ucc_status_t hd_roll_heard(hd_roll_t *roll, uint32_t *number) {
    uint32_t most;
    ucc_status_t status = look_for_trouble(roll, number, &most);
    if (status != UCC_OK) {
        return status;
    }
    if (most > roll->room) {
        make_room(roll, most);
        roll->mine.status = (int32_t)roll->trouble;
        return UCC_INPROGRESS;
    }
    roll->slice = 0;
    for (uint32_t p = 0; p < roll->span->processes; p++) {
        uint32_t slice = slice_of(roll, p, address_bytes(roll, p));
        roll->slice = slice > roll->slice ? slice : roll->slice;
    }
    cut(roll);
    return UCC_OK;
}

/* Puts a process's slices together. */
static void collect_address(const hd_roll_t *roll, uint32_t process, uint8_t *to) {
    uint32_t bytes = address_bytes(roll, process), slice = slice_of(roll, process, bytes);
    for (uint32_t i = 0, at = 0; at < bytes; i++, at += slice) {
        uint32_t place = roll->place_of[hd_span_endpoint(roll->span, process, i)];
        memcpy(to + at, roll->slices + (size_t)place * roll->slice,
               bytes - at < slice ? bytes - at : slice);
    }
}

hd_net_process_t *hd_roll_processes(hd_roll_t *roll) {
    hd_net_process_t *process = roll->process;
    uint32_t n = roll->span->processes;
    uint8_t *at = (uint8_t *)(process + n);
    for (uint32_t p = 0; p < n; p++) {
        process[p] = (hd_net_process_t){.identity = {roll->identity[p][0], roll->identity[p][1]},
                                        .address = at,
                                        .bytes = address_bytes(roll, p)};
        collect_address(roll, p, at);
        at += process[p].bytes;
    }
    roll->process = NULL;
    return process;
}

void hd_roll_end(hd_roll_t *roll) {
    if (roll->net) {
        hd_net_close(roll->net);
    }
    hd_free(roll->span);
    hd_free(roll->place_of);
    hd_free(roll->identity);
    hd_free(roll->my_slice);
    hd_free(roll->slices);
    hd_free(roll->process);
    *roll = (hd_roll_t){0};
}

ucc_status_t hd_roll_exchange(const ucc_oob_coll_t *oob, const char *who, uint64_t stall,
                              void *mine, void *all, size_t bytes) {
    void *request = NULL;
    hd_stall_t waited = {0};
    ucc_status_t status = oob->allgather(mine, all, bytes, oob->coll_info, &request);
    if (status < 0) {
        hd_error("oob.allgather of %s %u of %u failed: %s", who, oob->oob_ep, oob->n_oob_eps,
                 ucc_status_string(status));
        return status;
    }
    while ((status = oob->req_test(request)) == UCC_INPROGRESS) {
        uint64_t now = hd_ticks();
        if (hd_stall_is_due(&waited, now, stall)) {
            hd_stall_line("%s %u of %u has waited %.1f s for its oob allgather, which not all may "
                          "have called",
                          who, oob->oob_ep, oob->n_oob_eps, hd_stall_seconds(&waited, now));
        }
        sched_yield(); /* the call blocks by contract, and the others may need the processor */
    }
    ucc_status_t freed = oob->req_free(request);
    status = status < 0 ? status : freed;
    if (status < 0) {
        hd_error("oob allgather of %s %u of %u failed: %s", who, oob->oob_ep, oob->n_oob_eps,
                 ucc_status_string(status));
    }
    return status < 0 ? status : UCC_OK;
}

/* --- where there is no memory ----------------------------------------------------------------- */

/* There are several pieces, since threads of one process may wait for each other in one
 * exchange. */
enum { SPARES = 8, SPARE_BYTES = 1 << 17 };
static alignas(HD_LINE_PAIR) uint8_t spare[SPARES][SPARE_BYTES];
static atomic_flag taken[SPARES];

void *hd_roll_room(size_t bytes) {
    void *room = hd_alloc(HD_LINE_PAIR, bytes);
    for (uint32_t i = 0; !room && bytes <= SPARE_BYTES && i < SPARES; i++) {
        /* acquire; pairs with the release below: the user before has written its last */
        if (!atomic_flag_test_and_set_explicit(&taken[i], memory_order_acquire)) {
            room = memset(spare[i], 0, bytes);
        }
    }
    if (!room) {
        hd_error("no memory to tell the others of an exchange that this one lacks it");
    }
    return room;
}

void hd_roll_end_room(void *room) {
    for (uint32_t i = 0; i < SPARES; i++) {
        if (room == spare[i]) {
            atomic_flag_clear_explicit(&taken[i], memory_order_release);
            return;
        }
    }
    hd_free(room);
}

void hd_roll_refuse(const ucc_oob_coll_t *oob, const char *who, uint64_t stall, void *mine,
                    size_t bytes) {
    void *all = oob->n_oob_eps > 1 ? hd_roll_room(oob->n_oob_eps * bytes) : NULL;
    if (all) {
        (void)hd_roll_exchange(oob, who, stall, mine, all, bytes);
        hd_roll_end_room(all);
    }
}
