/* scatter.c: scatter and scatterv. Small: the root publishes all blocks, each member copies its own.
 * Large: the engine copies.
 *
 * In scatterv only the root knows the total: all register with the engine, and find out from the
 * root's lane. Its small payload is a table of n + 1 offsets (uint32_t) followed by the blocks.
 * op->dst takes my block of op->bytes bytes; op->src is the root's buffer of op->total bytes.
 */
#include "shm/shm.h"

#include <string.h>

static ucc_status_t done(hd_op_t *op) {
    return hd_arrive_help(op) ? UCC_OK : UCC_INPROGRESS;
}

static const uint8_t *root_block(const hd_op_t *op, uint32_t i, size_t *bytes) {
    if (op->type == HD_SCATTER) {
        *bytes = op->bytes;
        return op->src + i * op->bytes;
    }
    *bytes = hd_vector_count(&op->send, i) * op->element;
    return hd_at(op->src, hd_vector_displacement(&op->send, i) * op->element);
}

static ucc_status_t take_own(hd_op_t *op) {
    size_t bytes;
    const uint8_t *block = root_block(op, op->me, &bytes);
    if (!op->in_place && bytes != op->bytes) {
        return hd_op_sizes_differ(op, op->me, bytes, op->bytes);
    }
    if (!op->in_place && bytes && block != op->dst) {
        memcpy(op->dst, block, bytes);
    }
    return UCC_OK;
}

static ucc_status_t wait_for_block(hd_op_t *op) {
    const hd_lane_t *lane;
    ucc_status_t status = hd_op_lane(op, op->root, &lane);
    if (status == UCC_OK && !hd_lane_read(lane, op->k, op->me * op->bytes, op->bytes, op->dst)) {
        return UCC_INPROGRESS;
    }
    return status;
}

static ucc_status_t wait_for_vector(hd_op_t *op) {
    const hd_lane_t *lane;
    uint32_t span[2];
    ucc_status_t status = hd_op_lane(op, op->root, &lane);
    if (status != UCC_OK) {
        return status;
    }
    if (hd_lane_regime(lane) == HD_REGIME_DIRECT) {
        op->wait = hd_engine_step;
        return hd_engine_step(op);
    }
    hd_lane_prefetch(lane);
    if (!hd_arrive_help(op) ||
        !hd_lane_read(lane, op->k, op->me * sizeof(span[0]), sizeof(span), span)) {
        return UCC_INPROGRESS;
    }
    op->exposed = false; /* no work in this exchange */
    if (span[1] - span[0] != op->bytes) {
        return hd_op_sizes_differ(op, op->root, span[1] - span[0], op->bytes);
    }
    return hd_lane_read(lane, op->k, (op->n + 1) * sizeof(span[0]) + span[0], op->bytes, op->dst)
               ? UCC_OK
               : UCC_INPROGRESS;
}

static ucc_status_t publish_vector(hd_op_t *op) {
    uint8_t *staging = hd_lane_staging(op);
    if (!staging) {
        return UCC_ERR_NO_MEMORY;
    }
    uint32_t *table = (uint32_t *)(void *)staging, at = 0;
    uint8_t *data = staging + (op->n + 1) * sizeof(*table);
    for (uint32_t i = 0; i < op->n; i++) {
        size_t bytes;
        const uint8_t *block = root_block(op, i, &bytes);
        table[i] = at;
        if (bytes) {
            memcpy(data + at, block, bytes);
        }
        at += (uint32_t)bytes;
    }
    table[op->n] = at;
    ucc_status_t status = hd_lane_publish_staged(op, (op->n + 1) * sizeof(*table) + at);
    return status == UCC_OK ? take_own(op) : status;
}

static ucc_status_t start_vector(hd_op_t *op) {
    ucc_status_t status = hd_engine_register(op, op->src, op->dst);
    size_t staged = (op->n + 1) * sizeof(uint32_t) + op->total;
    if (status != UCC_OK) {
        return status;
    }
    if (op->group->two_sided || (op->is_root && staged > op->group->staged_max)) {
        op->wait = hd_engine_step;
        status = hd_lane_publish(op, HD_REGIME_DIRECT, NULL, 0);
    } else if (op->is_root) {
        op->wait = done;
        op->exposed = false; /* all data goes out with the lane */
        status = publish_vector(op);
    } else {
        op->wait = wait_for_vector;
        status = hd_lane_publish(op, HD_REGIME_NONE, NULL, 0);
    }
    if (status == UCC_OK) {
        hd_arrive(op, false);
    }
    return status;
}

ucc_status_t hd_scatter_start(hd_op_t *op) {
    if (op->type == HD_SCATTERV) {
        return start_vector(op);
    }
    hd_regime_t regime = hd_regime_for(op->group, op->type, op->n, op->bytes * op->n);
    if (regime == HD_REGIME_DIRECT) {
        return hd_engine_start(op, op->src, op->dst);
    }
    if (!op->is_root) {
        op->wait = wait_for_block;
        hd_op_expect(op, regime, op->bytes * op->n);
        return hd_lane_publish(op, HD_REGIME_NONE, NULL, 0);
    }
    op->wait = done;
    ucc_status_t status = hd_lane_publish(op, regime, op->src, op->bytes * op->n);
    return status == UCC_OK ? take_own(op) : status;
}
