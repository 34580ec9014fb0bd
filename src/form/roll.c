/* roll.c: exchanges, and how members of several processes learn who lives where, and how each
 * process is reached. roll.h says in which order its functions are called, and by whom. It has no
 * state of its own, but for a few pieces of memory that are used when the heap has none.
 */
#include "form/roll.h"

#include "core/hash.h"

#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROOM = 2048, /* there is memory for addresses of so many bytes, to begin with */
    MOST_BYTES = 1 << 20
};

/* --- exchanges -------------------------------------------------------------------------------- */

ucc_status_t hd_roll_begin(hd_roll_t *roll, const ucc_oob_coll_t *oob, const char *who,
                           uint64_t stall) {
    uint32_t n = oob->n_oob_eps;
    roll->oob = *oob;
    roll->who = who;
    roll->stall = stall;
    roll->all = hd_alloc(HD_LINE_PAIR, n * (sizeof(*roll->all) + sizeof(*roll->told)));
    if (!roll->all) {
        hd_error("no memory for an exchange of %s %u of %u", who, oob->oob_ep, n);
        return UCC_ERR_NO_MEMORY;
    }
    roll->told = (hd_account_t *)(void *)(roll->all + n);
    return UCC_OK;
}

/* Returns the status of a call of the OOB's; an error is logged. */
static ucc_status_t check_call(const hd_roll_t *roll, const char *call, ucc_status_t status) {
    if (status >= 0) {
        return UCC_OK;
    }
    hd_error("%s of %s %u of %u failed: %s", call, roll->who, roll->oob.oob_ep, roll->oob.n_oob_eps,
             ucc_status_string(status));
    return status;
}

ucc_status_t hd_roll_give(hd_roll_t *roll, void *mine, void *all, size_t bytes) {
    const ucc_oob_coll_t *oob = &roll->oob;
    hd_assert(!roll->request); /* one at a time */
    roll->waited = (hd_stall_t){0};
    ucc_status_t status = oob->allgather(mine, all, bytes, oob->coll_info, &roll->request);
    if (status < 0) {
        roll->request = NULL; /* whatever was written there, nothing is outstanding */
    }
    return check_call(roll, "oob.allgather", status);
}

ucc_status_t hd_roll_taken(hd_roll_t *roll) {
    ucc_status_t status = roll->oob.req_test(roll->request);
    if (status == UCC_INPROGRESS) {
        return status;
    }
    ucc_status_t freed = roll->oob.req_free(roll->request);
    roll->request = NULL;
    return check_call(roll, "oob allgather", status < 0 ? status : freed);
}

/* Called between two looks of a call that blocks: logs a wait that is long, and yields. */
static void pause_call(hd_roll_t *roll) {
    uint64_t now = hd_ticks();
    if (hd_stall_is_due(&roll->waited, now, roll->stall)) {
        hd_stall_line("%s %u of %u has waited %.1f s for %s", roll->who, roll->oob.oob_ep,
                      roll->oob.n_oob_eps, hd_stall_seconds(&roll->waited, now),
                      roll->request ? "its oob allgather, which not all may have called"
                                    : "the network to be opened");
    }
    sched_yield(); /* the call blocks by contract, and the others may need the processor */
}

ucc_status_t hd_roll_exchange(hd_roll_t *roll, void *mine, void *all, size_t bytes) {
    ucc_status_t status = hd_roll_give(roll, mine, all, bytes);
    if (status != UCC_OK) {
        return status;
    }
    while ((status = hd_roll_taken(roll)) == UCC_INPROGRESS) {
        pause_call(roll);
    }
    return status;
}

ucc_status_t hd_roll_refusal(const hd_roll_t *roll, uint32_t *place) {
    for (uint32_t i = 0; i < roll->oob.n_oob_eps; i++) {
        const hd_record_t *r = &roll->all[i];
        *place = i;
        if (r->version == roll->mine.version && r->trouble != UCC_OK) {
            return r->trouble < 0 ? (ucc_status_t)r->trouble : UCC_ERR_INVALID_PARAM;
        }
    }
    return UCC_OK;
}

uint64_t *hd_roll_words(hd_roll_t *roll) {
    _Static_assert(sizeof(*roll->told) == sizeof(uint64_t), "a word has the room of an account");
    return memset(roll->told, 0, roll->oob.n_oob_eps * sizeof(*roll->told));
}

uint64_t hd_roll_serial(const hd_record_t *first) {
    return hd_hash_mix(hd_hash_mix(hd_hash_mix(1, first->process[0]), first->process[1]),
                       first->serial);
}

/* --- several processes ------------------------------------------------------------------------ */

static int by_process(const void *a, const void *b) {
    const hd_record_t *x = *(const hd_record_t *const *)a, *y = *(const hd_record_t *const *)b;
    int order = memcmp(x->process, y->process, sizeof(x->process));
    return order ? order : (x->number > y->number) - (x->number < y->number);
}

/* Makes the span. A process is told from others by the number of its lowest member. */
static bool find_processes(hd_roll_t *roll) {
    uint32_t n = roll->oob.n_oob_eps, lowest = 0;
    uint32_t *process_of = hd_alloc(HD_LINE, n * sizeof(*process_of));
    const hd_record_t **sorted = hd_alloc(HD_LINE, n * sizeof(*sorted));
    if (process_of && sorted) {
        for (uint32_t i = 0; i < n; i++) {
            sorted[i] = &roll->all[i];
        }
        qsort(sorted, n, sizeof(*sorted), by_process);
        for (uint32_t i = 0; i < n; i++) {
            bool same = i > 0 && hd_record_same_process(sorted[i], sorted[i - 1]);
            lowest = same ? lowest : sorted[i]->number;
            process_of[sorted[i]->number] = lowest;
        }
        roll->span = hd_span_create(n, process_of, roll->mine.number);
    }
    hd_free(process_of);
    hd_free(sorted);
    return roll->span != NULL;
}

/* Returns the record of a process's lowest member. */
static const hd_record_t *first_of(const hd_roll_t *roll, uint32_t process) {
    return &roll->all[roll->place_of[hd_span_endpoint(roll->span, process, 0)]];
}

/* Returns the length of a process's address, as its lowest member told it. */
static uint32_t address_bytes(const hd_roll_t *roll, uint32_t process) {
    return roll->told[first_of(roll, process) - roll->all].bytes;
}

/* Returns the bytes of a slice, if the process's address has so many. */
static uint32_t slice_of(const hd_roll_t *roll, uint32_t process, uint32_t bytes) {
    uint32_t n = hd_span_count(roll->span, process);
    return (bytes + n - 1) / n;
}

/* Returns the bytes of the largest slice, if each address has so many; 0: as they are. */
static uint32_t largest_slice(const hd_roll_t *roll, uint32_t bytes) {
    uint32_t largest = 0;
    for (uint32_t p = 0; p < roll->span->processes; p++) {
        uint32_t slice = slice_of(roll, p, bytes ? bytes : address_bytes(roll, p));
        largest = slice > largest ? slice : largest;
    }
    return largest;
}

/* Allocates all that is needed after the accounts, for addresses of so many bytes. */
static void make_room(hd_roll_t *roll, uint32_t bytes) {
    const hd_span_t *span = roll->span;
    uint32_t slice = largest_slice(roll, bytes);
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

void hd_roll_take(hd_roll_t *roll) {
    uint32_t n = roll->oob.n_oob_eps;
    roll->step = HD_ROLL_OPEN;
    roll->waited = (hd_stall_t){0};
    roll->place_of = hd_alloc(HD_LINE, n * sizeof(*roll->place_of));
    if (!roll->place_of || !find_processes(roll)) {
        hd_error("no memory for an exchange among several processes");
        roll->trouble = UCC_ERR_NO_MEMORY;
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        roll->place_of[roll->all[i].number] = i;
    }
    make_room(roll, ROOM);
}

static ucc_status_t tell(hd_roll_t *roll) {
    roll->account.status = (int32_t)roll->trouble;
    return hd_roll_give(roll, &roll->account, roll->told, sizeof(roll->account));
}

static ucc_status_t open_network(hd_roll_t *roll, const hd_config_t *config) {
    size_t bytes = 0;
    if (roll->trouble == UCC_OK) {
        ucc_status_t status = hd_net_open(config, &roll->net);
        if (status == UCC_INPROGRESS) { /* another thread is opening it */
            return status;
        }
        roll->trouble = status;
    }
    if (roll->trouble == UCC_OK) {
        hd_net_address(roll->net, &bytes);
    }
    roll->account.bytes = (uint32_t)bytes;
    roll->step = HD_ROLL_ACCOUNTS;
    return tell(roll);
}

/* Returns UCC_OK if all members have got on, else why the culprit has not. most: the length of the
 * longest address. All members that have a span come to the same answer. */
static ucc_status_t look_for_trouble(hd_roll_t *roll, uint32_t *most) {
    *most = 0;
    roll->blames = true;
    if (!roll->span) {
        return roll->trouble;
    }
    for (uint32_t i = 0; i < roll->span->n; i++) {
        const hd_account_t *told = &roll->told[roll->place_of[i]];
        uint32_t expected = address_bytes(roll, roll->span->process_of[i]);
        roll->culprit = i;
        if (told->status != UCC_OK) {
            return told->status < 0 ? (ucc_status_t)told->status : UCC_ERR_INVALID_PARAM;
        }
        if (told->bytes == 0 || told->bytes > MOST_BYTES || told->bytes != expected) {
            return UCC_ERR_INVALID_PARAM;
        }
        *most = told->bytes > *most ? told->bytes : *most;
    }
    roll->blames = false;
    return UCC_OK;
}

/* Copies this member's part of its process's address to my_slice. */
static void cut(hd_roll_t *roll) {
    const hd_span_t *span = roll->span;
    size_t bytes;
    const uint8_t *address = hd_net_address(roll->net, &bytes);
    uint32_t mine = slice_of(roll, span->mine, address_bytes(roll, span->mine));
    size_t at = (size_t)mine * span->local_of[roll->mine.number];
    memset(roll->my_slice, 0, roll->slice);
    if (at < bytes) {
        memcpy(roll->my_slice, address + at, bytes - at < mine ? bytes - at : mine);
    }
}

/* The accounts have come: goes on to the addresses, or, if some address is longer than the room for
 * it, to accounts once more. */
static ucc_status_t read_accounts(hd_roll_t *roll) {
    uint32_t most;
    ucc_status_t status = look_for_trouble(roll, &most);
    if (status != UCC_OK) {
        return status;
    }
    if (most > roll->room) {
        make_room(roll, most);
        return tell(roll);
    }
    roll->slice = largest_slice(roll, 0);
    cut(roll);
    roll->step = HD_ROLL_SLICES;
    return hd_roll_give(roll, roll->my_slice, roll->slices, roll->slice);
}

ucc_status_t hd_roll_call(hd_roll_t *roll, const hd_config_t *config) {
    ucc_status_t status = UCC_OK;
    if (roll->step == HD_ROLL_OPEN) {
        status = open_network(roll, config);
    }
    while (status == UCC_OK) {
        status = hd_roll_taken(roll);
        if (status == UCC_OK && roll->step == HD_ROLL_SLICES) {
            return UCC_OK;
        }
        status = status == UCC_OK ? read_accounts(roll) : status;
    }
    return status;
}

ucc_status_t hd_roll_call_through(hd_roll_t *roll, const hd_config_t *config) {
    ucc_status_t status;
    while ((status = hd_roll_call(roll, config)) == UCC_INPROGRESS) {
        pause_call(roll);
    }
    return status;
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
        const uint64_t *identity = first_of(roll, p)->process;
        process[p] = (hd_net_process_t){
            .identity = {identity[0], identity[1]}, .address = at, .bytes = address_bytes(roll, p)};
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
    hd_free(roll->all);
    hd_free(roll->my_slice);
    hd_free(roll->slices);
    hd_free(roll->process);
    *roll = (hd_roll_t){0};
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

void hd_roll_refuse(const ucc_oob_coll_t *oob, const char *who, uint64_t stall, ucc_status_t why) {
    hd_roll_t roll = {.oob = *oob, .who = who, .stall = stall, .mine.trouble = (int32_t)why};
    hd_record_sign(&roll.mine, NULL);
    roll.all = oob->n_oob_eps > 1 ? hd_roll_room(oob->n_oob_eps * sizeof(roll.mine)) : NULL;
    if (roll.all) {
        (void)hd_roll_exchange(&roll, &roll.mine, roll.all, sizeof(roll.mine));
        hd_roll_end_room(roll.all);
    }
}
