/* share.c: what several files need that describe a device's share of the work: where a share
 * begins, memory to describe it in, and rows that are launched without a table.
 */
#include "device/internal.h"

/* Returns how many of `count` things come before the share-th of shares, cut at multiples of
 * grain. */
static size_t cut(size_t count, size_t grain, uint32_t share, uint32_t shares) {
    hd_assert_le(share, shares);
    size_t grains = count / grain + (count % grain != 0);
    size_t at = (grains / shares * share + grains % shares * share / shares) * grain;
    return share == shares || at > count ? count : at;
}

hd_device_range_t hd_device_range(size_t count, size_t element, uint32_t share, uint32_t shares) {
    size_t grain = hd_device_grain(element), first = cut(count, grain, share, shares);
    return (hd_device_range_t){first, cut(count, grain, share + 1, shares) - first};
}

void *hd_device_scratch(const hd_device_view_t *v, size_t bytes) {
    struct hd_device_done *done = v->done;
    if (bytes > done->scratch_bytes) {
        hd_free(done->scratch);
        done->scratch = hd_alloc(HD_LINE, bytes);
        done->scratch_bytes = done->scratch ? bytes : 0;
    }
    if (!done->scratch) {
        hd_error("%s: no memory to describe it to a device", hd_op_type_name(v->op));
    }
    return done->scratch;
}

void *hd_line_memory(const hd_op_t *op, hd_line_t *line, int which, size_t bytes,
                     hd_line_memory_fn *put) {
    hd_line_memory_t *memory = line->memory[which];
    hd_assert(hd_line_is_locked(line));
    if (!memory && (memory = hd_alloc(HD_LINE, bytes))) {
        memory->put = put;
        line->memory[which] = memory;
    }
    if (!memory) {
        hd_error("%s: no memory for what devices pass to each other", hd_op_type_name(op));
    }
    return memory;
}

void hd_device_launch_rows(hd_device_rows_t *rows) {
    hd_gpu_launch_t launch = {.blocks = 0};
    hd_gpu_width_t width = {.blocks = rows->line->info.width};
    if (rows->status == UCC_OK) {
        rows->status = hd_gpu_rows(&launch, rows->row, rows->n, width, NULL);
    }
    if (rows->status == UCC_OK && launch.blocks) {
        rows->launches++;
        rows->status = rows->driver->launch(rows->line->stream, &launch);
    }
    rows->n = 0;
}

void hd_device_add_row(hd_device_rows_t *rows, hd_gpu_row_t row) {
    hd_gpu_row_t *last = rows->n ? &rows->row[rows->n - 1] : NULL;
    if (last && !last->swap && !row.swap &&
        (const uint8_t *)last->src + last->bytes == (const uint8_t *)row.src &&
        (uint8_t *)last->dst + last->bytes == (uint8_t *)row.dst) {
        last->bytes += row.bytes;
        return;
    }
    if (rows->n == HD_DEVICE_ROWS) {
        hd_device_launch_rows(rows);
    }
    rows->row[rows->n++] = row;
}
