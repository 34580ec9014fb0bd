/* flight_parts.c: what the passages share: what a slice's number means, lists of pieces for legs,
 * and a unit of COMBINE. Members and whoever steps a leg ask about slices, and carry out units; the
 * completer of the arrival writes the lists. */
#include "span/internal.h"

#include <string.h>

/* --- slices ----------------------------------------------------------------------------------- */

bool hd_slice_is(const hd_plan_t *plan, uint32_t s, hd_slice_kind_t *kind, uint32_t *segment) {
    *kind = (hd_slice_kind_t)(s / plan->segments);
    *segment = s % plan->segments;
    return s < hd_slice_exit(plan);
}

/* --- pieces ----------------------------------------------------------------------------------- */

ucc_status_t hd_flight_room(hd_flight_t *f, size_t pieces, hd_pieces_t *out) {
    size_t lists = 2 * (size_t)f->span->processes;
    lists = lists > f->plan.segments ? lists : f->plan.segments;
    if (pieces > f->pieces_room) {
        hd_free(f->pieces);
        f->pieces = hd_alloc(HD_LINE, pieces * sizeof(*f->pieces));
        f->pieces_room = f->pieces ? pieces : 0;
    }
    if (lists > f->data_room) {
        hd_free(f->data);
        f->data = hd_alloc(HD_LINE, lists * sizeof(*f->data));
        f->data_room = f->data ? lists : 0;
    }
    if ((pieces && !f->pieces) || !f->data) {
        hd_error("%s: no memory for %zu pieces of data", hd_type_name(f->call.type), pieces);
        return UCC_ERR_NO_MEMORY;
    }
    memset(f->data, 0, lists * sizeof(*f->data));
    *out = (hd_pieces_t){f->pieces, 0};
    return UCC_OK;
}

void hd_pieces_begin(const hd_pieces_t *pieces, hd_net_data_t *data) {
    *data = (hd_net_data_t){.piece = pieces->piece + pieces->n};
}

void hd_pieces_add(hd_pieces_t *pieces, hd_net_data_t *data, const void *at, size_t bytes) {
    if (!bytes) {
        return;
    }
    hd_net_piece_t *last = data->n ? &pieces->piece[pieces->n - 1] : NULL;
    data->bytes += bytes;
    if (last && (uint8_t *)last->at + last->bytes == (const uint8_t *)at) {
        last->bytes += bytes;
        return;
    }
    pieces->piece[pieces->n++] = (hd_net_piece_t){(void *)(uintptr_t)at, bytes};
    data->n++;
}

/* --- combining -------------------------------------------------------------------------------- */

ucc_status_t hd_flight_combine(const hd_flight_t *f, uint32_t segment, uint32_t unit) {
    const hd_segment_t *s = &f->segment[segment];
    if (!s->asked) {
        return UCC_OK; /* the leg had nothing to combine here */
    }
    hd_range_t part = hd_cut_combine(s->count, unit);
    if (!part.bytes) {
        return UCC_OK;
    }
    size_t at = part.at * f->reducer.element_size;
    void *dst = s->dst;
    return hd_reduce_tree(&f->reducer, s->k, s->operand, at, 1, &dst, at, part.bytes,
                          HD_STORES_PLAIN);
}
