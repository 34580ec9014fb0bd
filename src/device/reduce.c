/* reduce.c: what a device does in a reduction or a scan: one launch for its share, which reads all
 * sources and writes all results of it. The order of operands is the host's, so the bits are, too.
 *
 *   reduce, allreduce, (ex)scan   a share is a range of elements, of all operands
 *   reduce_scatter(v)             a share is the same range of each block
 */
#include "device/internal.h"

#include "core/dtype.h"

static hd_device_range_t range_of(const hd_device_view_t *v, size_t count) {
    return hd_device_range(count, v->op->call.element, v->share, v->shares);
}

uint32_t hd_device_reduce_words(const hd_device_view_t *v) {
    bool parts = hd_coll[v->op->call.type].vector;
    return v->op->place.n * (parts ? 1 + HD_GPU_PART_WORDS : 2);
}

/* Makes one part of the reduction for each member's block. */
static ucc_status_t find_parts(const hd_device_view_t *v, hd_gpu_reduction_t *what) {
    const hd_vector_t *blocks = &v->op->call.receive;
    uint32_t n = v->op->place.n;
    hd_gpu_part_t *part = hd_device_scratch(v, n * sizeof(*part));
    if (!part) {
        return UCC_ERR_NO_MEMORY;
    }
    size_t element = v->op->call.element;
    for (uint32_t d = 0; d < n; d++) {
        hd_device_range_t range = range_of(v, hd_vector_count(blocks, d));
        part[d].dst = (uint8_t *)v->work->dst[d] + range.first * element;
        part[d].first = hd_vector_displacement(blocks, d) + range.first;
        part[d].count = range.count;
    }
    what->form = HD_GPU_PARTS;
    what->part = part;
    return UCC_OK;
}

/* Is each member's own operand left out of its result? (Of a scan; the first member has none then.) */
static bool is_exclusive(const hd_call_t *call) {
    return hd_coll[call->type].result_at == HD_SUCCESSORS;
}

ucc_status_t hd_device_reduce(const hd_device_view_t *v, hd_device_job_t *job) {
    const hd_call_t *call = &v->op->call;
    const hd_coll_t *coll = &hd_coll[call->type];
    uint32_t n = v->op->place.n;
    hd_device_range_t range = range_of(v, call->bytes / call->element);
    hd_gpu_reduction_t what = {.dt = call->reducer.dt,
                               .op = call->reducer.op,
                               .n = n,
                               .k = n,
                               .m = n,
                               .form = HD_GPU_TO_ALL,
                               .src = v->work->src,
                               .dst = v->work->dst,
                               .first = range.first,
                               .count = range.count};
    ucc_status_t status = UCC_OK;
    if (coll->prefix) {
        return hd_gpu_scan(&job->launch, &what, is_exclusive(call), job->width, &job->table);
    }
    if (coll->rooted) {
        what.m = 1;
        what.dst = &v->work->dst[call->root];
    } else if (coll->vector) {
        status = find_parts(v, &what);
    } else if (coll->source == HD_BLOCKS) {
        what.form = HD_GPU_BLOCKS;
        what.block = call->bytes / call->element;
    }
    return status == UCC_OK ? hd_gpu_reduce(&job->launch, &what, job->width, &job->table) : status;
}

ucc_status_t hd_device_can_reduce(const hd_call_t *call) {
    hd_gpu_launch_t launch;
    const void *src = NULL;
    void *dst = NULL;
    hd_gpu_width_t width = {.blocks = 1};
    hd_gpu_reduction_t what = {.dt = call->reducer.dt,
                               .op = call->reducer.op,
                               .k = 1,
                               .m = 1,
                               .n = call->reducer.n,
                               .form = HD_GPU_TO_ALL,
                               .src = &src,
                               .dst = &dst};
    if (call->reducer.n > HD_GPU_OPERANDS && !hd_coll[call->type].prefix) {
        hd_error("%s: reductions of more than %d endpoints are not supported on devices",
                 hd_type_name(call->type), HD_GPU_OPERANDS);
        return UCC_ERR_NOT_SUPPORTED;
    }
    return hd_coll[call->type].prefix ? hd_gpu_scan(&launch, &what, is_exclusive(call), width, NULL)
                                      : hd_gpu_reduce(&launch, &what, width, NULL);
}
