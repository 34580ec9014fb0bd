/* race.c: who touched which bytes last, and whether who touches them now comes after. */
#include "emu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void emu_shadow_free(emu_shadow_t *shadow) {
    for (uint32_t i = 0; i < shadow->cells; i++) {
        free(shadow->cell[i].reader);
    }
    free(shadow->cell);
    *shadow = (emu_shadow_t){.cells = 0};
}

/* The index of the cell that offset is in. */
static uint32_t cell_of(const emu_shadow_t *shadow, uint64_t offset) {
    uint32_t low = 0, high = shadow->cells;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (shadow->cell[middle].begin <= offset) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Makes a cell begin at offset, and returns its index: the number of cells if offset is the end. */
static uint32_t split(emu_shadow_t *shadow, uint64_t offset, uint64_t end) {
    if (offset >= end) {
        return shadow->cells;
    }
    if (shadow->cells == 0) {
        shadow->cell = emu_grow(shadow->cell, &shadow->capacity, 1, sizeof(*shadow->cell));
        shadow->cell[shadow->cells++] = (emu_cell_t){.begin = 0};
    }
    uint32_t i = cell_of(shadow, offset);
    if (shadow->cell[i].begin == offset) {
        return i;
    }
    shadow->cell =
        emu_grow(shadow->cell, &shadow->capacity, shadow->cells + 1, sizeof(*shadow->cell));
    memmove(&shadow->cell[i + 2], &shadow->cell[i + 1],
            (shadow->cells - i - 1) * sizeof(*shadow->cell));
    shadow->cells++;
    emu_cell_t *cell = &shadow->cell[i + 1];
    *cell = shadow->cell[i];
    cell->begin = offset;
    cell->reader = NULL;
    cell->capacity = 0;
    if (cell->readers > 0) {
        cell->reader = emu_grow(NULL, &cell->capacity, cell->readers, sizeof(*cell->reader));
        memcpy(cell->reader, shadow->cell[i].reader, cell->readers * sizeof(*cell->reader));
    }
    return i + 1;
}

static bool same_epoch(const emu_epoch_t *a, const emu_epoch_t *b) {
    return a->timeline == b->timeline && a->clock == b->clock;
}

static bool same_history(const emu_cell_t *a, const emu_cell_t *b) {
    if (!same_epoch(&a->write, &b->write) || a->readers != b->readers) {
        return false;
    }
    for (uint32_t r = 0; r < a->readers; r++) {
        if (!same_epoch(&a->reader[r], &b->reader[r])) {
            return false;
        }
    }
    return true;
}

/* Makes one of neighbours with the same history, from cell first to cell last. */
static void merge(emu_shadow_t *shadow, uint32_t first, uint32_t last) {
    uint32_t kept = first;
    last = last < shadow->cells ? last : shadow->cells - 1;
    for (uint32_t i = first + 1; i <= last; i++) {
        if (same_history(&shadow->cell[kept], &shadow->cell[i])) {
            free(shadow->cell[i].reader);
        } else {
            shadow->cell[++kept] = shadow->cell[i];
        }
    }
    if (kept < last) {
        memmove(&shadow->cell[kept + 1], &shadow->cell[last + 1],
                (shadow->cells - last - 1) * sizeof(*shadow->cell));
        shadow->cells -= last - kept;
    }
}

static bool ordered(const emu_epoch_t *before, const emu_vector_t *clock) {
    return before->clock == 0 ||
           (before->timeline < clock->count && clock->at[before->timeline] >= before->clock);
}

static size_t describe(char *text, size_t bytes, const emu_epoch_t *epoch) {
    char where[64];
    emu_name_timeline(epoch->timeline, where, sizeof(where));
    int length = epoch->serial ? snprintf(text, bytes, "%s (operation %llu, %s)",
                                          epoch->what ? epoch->what : "?",
                                          (unsigned long long)epoch->serial, where)
                               : snprintf(text, bytes, "%s", epoch->what ? epoch->what : "?");
    return length > 0 ? (size_t)length : 0;
}

typedef struct access {
    const emu_allocation_t *allocation;
    uint64_t begin, bytes;
    emu_access_t kind;
    const emu_epoch_t *epoch;
    const emu_vector_t *clock;
    emu_epoch_t told; /* the last one that this access is said to race with */
} access_t;

/* Of a stream whose context has failed: it touches nothing any more, and nobody can be ordered
 * after it. */
static bool is_over(const emu_epoch_t *before) {
    CUstream stream = emu.timeline[before->timeline].stream;
    return stream && stream->context->error != CUDA_SUCCESS;
}

static void compare(access_t *access, const emu_epoch_t *before, bool wrote) {
    if (ordered(before, access->clock) || same_epoch(before, &access->told) || is_over(before)) {
        return;
    }
    char now[256], then[256];
    access->told = *before;
    describe(now, sizeof(now), access->epoch);
    describe(then, sizeof(then), before);
    emu_find(HEDDLE_EMUCUDA_RACE,
             "%s %s %llu bytes at 0x%llx (%llu bytes into an allocation of %llu on device %d), not "
             "ordered after %s, "
             "which %s there",
             now, access->kind == EMU_WRITE ? "writes" : "reads", (unsigned long long)access->bytes,
             (unsigned long long)access->begin,
             (unsigned long long)(access->begin - access->allocation->base),
             (unsigned long long)access->allocation->bytes, access->allocation->device, then,
             wrote ? "writes" : "reads");
}

/* Readers that come before this one say nothing that it doesn't say as well. */
static void add_reader(emu_cell_t *cell, const access_t *access) {
    uint32_t kept = 0;
    for (uint32_t r = 0; r < cell->readers; r++) {
        if (!ordered(&cell->reader[r], access->clock)) {
            cell->reader[kept++] = cell->reader[r];
        }
    }
    cell->reader = emu_grow(cell->reader, &cell->capacity, kept + 1, sizeof(*cell->reader));
    cell->reader[kept] = *access->epoch;
    cell->readers = kept + 1;
}

static void check_write(emu_shadow_t *shadow, uint32_t first, uint32_t end, access_t *access) {
    for (uint32_t i = first; i < end; i++) {
        emu_cell_t *cell = &shadow->cell[i];
        compare(access, &cell->write, true);
        for (uint32_t r = 0; r < cell->readers; r++) {
            compare(access, &cell->reader[r], false);
        }
        if (i > first) {
            free(cell->reader);
        }
    }
    shadow->cell[first].write = *access->epoch;
    shadow->cell[first].readers = 0;
    if (end > first + 1) {
        memmove(&shadow->cell[first + 1], &shadow->cell[end],
                (shadow->cells - end) * sizeof(*shadow->cell));
        shadow->cells -= end - first - 1;
    }
    merge(shadow, first > 0 ? first - 1 : 0, first + 1);
}

static void check_read(emu_shadow_t *shadow, uint32_t first, uint32_t end, access_t *access) {
    for (uint32_t i = first; i < end; i++) {
        compare(access, &shadow->cell[i].write, true);
        add_reader(&shadow->cell[i], access);
    }
    merge(shadow, first > 0 ? first - 1 : 0, end);
}

void emu_check(emu_allocation_t *allocation, uint64_t begin, uint64_t bytes, emu_access_t kind,
               const emu_epoch_t *epoch, const emu_vector_t *clock) {
    uint64_t from = begin - allocation->base;
    uint64_t to = bytes < allocation->bytes - from ? from + bytes : allocation->bytes;
    access_t access = {.allocation = allocation,
                       .begin = begin,
                       .bytes = to - from,
                       .kind = kind,
                       .epoch = epoch,
                       .clock = clock};
    uint32_t first = split(&allocation->shadow, from, allocation->bytes);
    uint32_t end = split(&allocation->shadow, to, allocation->bytes);
    if (kind == EMU_WRITE) {
        check_write(&allocation->shadow, first, end, &access);
    } else {
        check_read(&allocation->shadow, first, end, &access);
    }
}
