/* flight_parts.c: what the passages share (internal.h): lists of pieces for legs, operands, the
 * row. The completer of the arrival writes the lists; members carry out units; whoever steps a leg
 * asks about slices. */
#include "span/internal.h"

/* --- pieces ----------------------------------------------------------------------------------- */

void hd_pieces_begin(hd_flight_t *f, hd_net_data_t *data) {
    *data = (hd_net_data_t){.piece = f->piece + f->pieces};
}

void hd_pieces_add(hd_flight_t *f, hd_net_data_t *data, const void *at, size_t bytes) {
    if (!bytes) {
        return;
    }
    hd_net_piece_t *last = data->n ? &f->piece[f->pieces - 1] : NULL;
    data->bytes += bytes;
    if (last && (uint8_t *)last->at + last->bytes == (const uint8_t *)at) {
        last->bytes += bytes;
        return;
    }
    f->piece[f->pieces++] = (hd_net_piece_t){(void *)(uintptr_t)at, bytes};
    hd_assert((uint8_t *)(f->piece + f->pieces) <= f->lists.at + f->lists.room);
    data->n++;
}

void hd_flight_prepare_bcast(hd_segment_t *s, uint8_t *whole) {
    hd_flight_t *f = s->flight;
    hd_range_t r = hd_cut_segment(&f->plan, f->call.bytes, s->index);
    hd_net_data_t *data = &f->give[s->index];
    hd_pieces_begin(f, data);
    hd_pieces_add(f, data, whole + r.at, r.bytes);
    s->leg.call.give = s->leg.call.take = data;
}

/* --- operands --------------------------------------------------------------------------------- */

ucc_status_t hd_flight_reduce(const hd_flight_t *f, size_t at, size_t bytes, uint8_t *to,
                              size_t stride) {
    uint32_t most = f->plan.apart ? f->span->together : f->n;
    ucc_status_t status = UCC_OK;
    for (uint32_t first = 0; first < f->n && status == UCC_OK; first += most, to += stride) {
        uint32_t k = f->n - first < most ? f->n - first : most;
        void *dst = to;
        status = hd_reduce_tree(&f->call.reducer, k, f->work->src + first, at, 1, &dst, 0,
                                bytes / f->call.element, HD_STORES_PLAIN);
    }
    return status;
}

void hd_flight_give_operands(hd_segment_t *s, size_t at) {
    const hd_flight_t *f = s->flight;
    const hd_span_t *span = f->span;
    s->leg.call.operand = hd_at(f->operands[0], at);
    if (f->plan.apart) {
        s->several = (hd_net_several_t){.n = span->blocks,
                                        .first = span->first_block,
                                        .place = span->block,
                                        .mine = f->operands,
                                        .at = at};
        s->leg.call.several = &s->several;
    }
}

/* --- slices ----------------------------------------------------------------------------------- */

static uint32_t units_of(const hd_op_t *op, hd_unit_kind_t kind, uint32_t segment) {
    switch (kind) {
    case HD_UNIT_MEMBERS:
        return op->place.n;
    case HD_UNIT_ENDPOINTS:
        return op->span->n;
    case HD_UNIT_WINDOWS:
        return hd_cut_windows(&op->plan, op->call.bytes, segment);
    case HD_UNIT_PARTS:
        return HD_COMBINE_UNITS;
    case HD_UNIT:
        break;
    }
    return 1;
}

void hd_flight_lay_out(const hd_op_t *op, uint32_t s, hd_slice_t *slice) {
    const hd_passage_t *passage = (const hd_passage_t *)(const void *)op->plan.row;
    uint32_t kind = s / op->plan.segments;
    if (kind >= HD_NET) {
        hd_slice_outer(slice, 1, op->place.k);
        return;
    }
    hd_unit_kind_t units = (hd_unit_kind_t)passage->slice[kind].units;
    uint32_t n = units_of(op, units, s % op->plan.segments);
    hd_slice_later(slice, n, 1, kind == HD_LOCAL ? n : 0);
}

ucc_status_t hd_flight_run(const hd_op_t *op, const hd_work_t *work, uint32_t s, uint32_t unit) {
    const hd_flight_t *f = hd_flight_of(op);
    uint32_t kind = s / f->plan.segments;
    hd_assert(f->work == work && kind < HD_NET);
    return f->passage->slice[kind].run
               ? f->passage->slice[kind].run(f, op, s % f->plan.segments, unit)
               : UCC_OK;
}

ucc_status_t hd_flight_combine(const hd_segment_t *s, size_t at, size_t bytes, void *to) {
    const hd_reducer_t *reducer = &s->flight->reducer;
    if (!s->asked) { /* the leg had nothing to combine here */
        return UCC_OK;
    }
    return hd_reduce_tree(reducer, s->k, s->operand, at, 1, &to, 0, bytes / reducer->element_size,
                          HD_STORES_PLAIN);
}

ucc_status_t hd_flight_run_combine(const hd_flight_t *f, const hd_op_t *op, uint32_t segment,
                                   uint32_t unit) {
    const hd_segment_t *s = &f->segment[segment];
    size_t element = f->reducer.element_size, first = s->count * unit / HD_COMBINE_UNITS * element;
    size_t end = s->count * (unit + 1) / HD_COMBINE_UNITS * element;
    (void)op;
    hd_assert_lt(unit, HD_COMBINE_UNITS);
    return hd_flight_combine(s, first, end - first, hd_at(s->dst, first));
}

bool hd_flight_has_local(const hd_segment_t *s) {
    const hd_flight_t *f = s->flight;
    return hd_outer_slice_is_finished(&f->ref, hd_slice_of(&f->plan, HD_LOCAL, s->index));
}
