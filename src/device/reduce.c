/* reduce.c: what a device does in a reduction or a scan: one launch for its share, which reads all
 * sources and writes all results of it. The order of operands is the host's, so the bits are, too.
 *
 *   reduce, allreduce, (ex)scan   a share is a range of elements, of all operands
 *   reduce_scatter(v)             a share is the same range of each block
 */
#include "device/internal.h"

#include "core/dtype.h"

hd_gpu_reduction_t hd_device_reduction(const hd_call_t *call, size_t first, size_t count) {
    return (hd_gpu_reduction_t){.dt = call->reducer.dt,
                                .op = call->reducer.op,
                                .form = HD_GPU_TO_ALL,
                                .first = first,
                                .count = count};
}

ucc_status_t hd_device_describe(const hd_call_t *call, const hd_gpu_reduction_t *what,
                                hd_gpu_launch_t *launch, hd_gpu_width_t width,
                                hd_gpu_table_t *table) {
    return hd_coll[call->type].prefix
               ? hd_gpu_scan(launch, what, call->type == HD_EXSCAN, width, table)
               : hd_gpu_reduce(launch, what, width, table);
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
        hd_device_range_t range =
            hd_device_range(hd_vector_count(blocks, d), element, v->share, v->shares);
        part[d].dst = (uint8_t *)v->work->dst[d] + range.first * element;
        part[d].first = hd_vector_displacement(blocks, d) + range.first;
        part[d].count = range.count;
    }
    what->form = HD_GPU_PARTS;
    what->part = part;
    return UCC_OK;
}

ucc_status_t hd_device_reduce(const hd_device_view_t *v, hd_device_job_t *job) {
    const hd_call_t *call = &v->op->call;
    const hd_coll_t *coll = &hd_coll[call->type];
    size_t elements = call->bytes / call->element;
    hd_device_range_t range = hd_device_range(elements, call->element, v->share, v->shares);
    hd_gpu_reduction_t what = hd_device_reduction(call, range.first, range.count);
    ucc_status_t status = UCC_OK;
    what.n = what.k = what.m = v->op->place.n;
    what.src = v->work->src;
    what.dst = v->work->dst;
    if (coll->rooted) {
        what.m = 1;
        what.dst = &v->work->dst[call->root];
    } else if (coll->vector) {
        status = find_parts(v, &what);
    } else if (coll->source == HD_BLOCKS) {
        what.form = HD_GPU_BLOCKS;
        what.block = elements;
    }
    return status == UCC_OK ? hd_device_describe(call, &what, &job->launch, job->width, &job->table)
                            : status;
}

ucc_status_t hd_device_can_reduce(const hd_call_t *call) {
    hd_gpu_launch_t launch;
    const void *src = NULL;
    void *dst = NULL;
    hd_gpu_reduction_t what = hd_device_reduction(call, 0, 0);
    what.k = what.m = 1;
    what.n = call->reducer.n;
    what.src = &src;
    what.dst = &dst;
    if (call->reducer.n > HD_GPU_OPERANDS && !hd_coll[call->type].prefix) {
        hd_error("%s: reductions of more than %d endpoints are not supported on devices",
                 hd_type_name(call->type), HD_GPU_OPERANDS);
        return UCC_ERR_NOT_SUPPORTED;
    }
    return hd_device_describe(call, &what, &launch, (hd_gpu_width_t){.blocks = 1}, NULL);
}
