/* roll.c: see roll.h. */
#include "team/roll.h"

#include <stdlib.h>
#include <string.h>

static bool same_process(const hd_called_t *a, const hd_called_t *b) {
    return memcmp(a->process, b->process, sizeof(a->process)) == 0;
}

static int by_process(const void *a, const void *b) {
    const hd_called_t *x = a, *y = b;
    int order = memcmp(x->process, y->process, sizeof(x->process));
    return order ? order : (x->number > y->number) - (x->number < y->number);
}

/* A process is told apart by its lowest member's number. */
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

void hd_roll_take(hd_roll_t *roll, hd_called_t *called, uint32_t n, uint32_t my_number) {
    roll->place_of = hd_alloc(HD_LINE, n * sizeof(*roll->place_of));
    if (!called || !roll->place_of || !find_processes(roll, called, n, my_number) ||
        !(roll->identity = hd_alloc(HD_LINE, roll->span->processes * sizeof(*roll->identity)))) {
        hd_error("no memory for an exchange among several processes");
        roll->trouble = UCC_ERR_NO_MEMORY;
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        roll->place_of[called[i].number] = called[i].place;
        memcpy(roll->identity[roll->span->process_of[called[i].number]], called[i].process,
               sizeof(called[i].process));
    }
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

/* Of the lowest member of a process. */
static uint32_t address_bytes(const hd_roll_t *roll, uint32_t process) {
    return roll->told[roll->place_of[hd_span_endpoint(roll->span, process, 0)]].bytes;
}

ucc_status_t hd_roll_trouble(const hd_roll_t *roll, uint32_t *number) {
    enum { MOST_BYTES = 1 << 20 };
    if (!roll->span) {
        *number = 0;
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
    }
    return UCC_OK;
}

/* Bytes of a slice of a process's address. */
static uint32_t slice_of(const hd_roll_t *roll, uint32_t process) {
    uint32_t n = hd_span_count(roll->span, process);
    return (address_bytes(roll, process) + n - 1) / n;
}

/* My part of my process's address. */
static void cut(hd_roll_t *roll, uint32_t my_number) {
    size_t bytes;
    const uint8_t *address = hd_net_address(roll->net, &bytes);
    uint32_t mine = slice_of(roll, roll->span->mine);
    size_t at = (size_t)mine * roll->span->local_of[my_number];
    if (at < bytes) {
        memcpy(roll->my_slice, address + at, bytes - at < mine ? bytes - at : mine);
    }
}

ucc_status_t hd_roll_slice(hd_roll_t *roll, uint32_t my_number) {
    const hd_span_t *span = roll->span;
    for (uint32_t p = 0; p < span->processes; p++) {
        uint32_t slice = slice_of(roll, p);
        roll->slice = slice > roll->slice ? slice : roll->slice;
    }
    roll->my_slice = hd_alloc(HD_LINE, roll->slice);
    roll->slices = hd_alloc(HD_LINE, (size_t)span->n * roll->slice);
    if (!roll->my_slice || !roll->slices) {
        hd_error("no memory for the addresses of %u processes", span->processes);
        return UCC_ERR_NO_MEMORY;
    }
    cut(roll, my_number);
    return UCC_OK;
}

/* Puts a process's slices together. */
static void collect_address(const hd_roll_t *roll, uint32_t process, uint8_t *to) {
    uint32_t bytes = address_bytes(roll, process), slice = slice_of(roll, process);
    for (uint32_t i = 0, at = 0; at < bytes; i++, at += slice) {
        uint32_t place = roll->place_of[hd_span_endpoint(roll->span, process, i)];
        memcpy(to + at, roll->slices + (size_t)place * roll->slice,
               bytes - at < slice ? bytes - at : slice);
    }
}

hd_net_process_t *hd_roll_processes(const hd_roll_t *roll) {
    uint32_t n = roll->span->processes;
    size_t bytes = n * sizeof(hd_net_process_t);
    for (uint32_t p = 0; p < n; p++) {
        bytes += address_bytes(roll, p);
    }
    hd_net_process_t *process = hd_alloc(HD_LINE, bytes);
    if (!process) {
        return NULL;
    }
    uint8_t *at = (uint8_t *)(process + n);
    for (uint32_t p = 0; p < n; p++) {
        process[p] = (hd_net_process_t){.identity = {roll->identity[p][0], roll->identity[p][1]},
                                        .address = at,
                                        .bytes = address_bytes(roll, p)};
        collect_address(roll, p, at);
        at += process[p].bytes;
    }
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
    *roll = (hd_roll_t){0};
}
