/* context.c: context handles: create, progress, attributes, destroy.
 *
 * progress may be called from any thread if the library was initialised with UCC_THREAD_MULTIPLE,
 * else from one thread at a time. It waits for nobody; where it would yield to strangers, it may
 * doze instead, for half a millisecond at most.
 */
#include "api/api.h"
#include "net/net.h"
#include "request/algorithm.h"
#include "threads/callback.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static ucc_status_t check_oob(const ucc_context_params_t *p, bool unplaced) {
    const ucc_oob_coll_t *o = &p->oob;
    if ((p->mask & UCC_CONTEXT_PARAM_FIELD_OOB) &&
        (o->n_oob_eps == 0 || (!unplaced && o->oob_ep >= o->n_oob_eps) ||
         (o->n_oob_eps > 1 && (!o->allgather || !o->req_test || !o->req_free)))) {
        hd_error("ucc_context_create: oob is not valid (ep %u of %u)", o->oob_ep, o->n_oob_eps);
        return UCC_ERR_INVALID_PARAM;
    }
    return UCC_OK;
}

static ucc_status_t check_params(const ucc_context_params_t *p) {
    if ((p->mask & UCC_CONTEXT_PARAM_FIELD_TYPE) && (unsigned)p->type > UCC_CONTEXT_SHARED) {
        hd_error("ucc_context_create: type %d does not exist", (int)p->type);
        return UCC_ERR_INVALID_PARAM;
    }
    if ((p->mask & UCC_CONTEXT_PARAM_FIELD_SYNC_TYPE) &&
        (unsigned)p->sync_type > UCC_SYNC_COLLECTIVES) {
        hd_error("ucc_context_create: sync_type %d does not exist", (int)p->sync_type);
        return UCC_ERR_INVALID_PARAM;
    }
    return UCC_OK;
}

/* In the child of a fork. What is in it fails with its groups (shm/leave.c). */
static void inherited(hd_fork_hook_t *self) {
    ucc_context_h context =
        (ucc_context_h)(void *)((char *)self - offsetof(hd_context_t, fork_hook));
    hd_runner_unlock(&context->runner);
    hd_lock_forget(&context->offers_lock);
}

static uint64_t shorter(uint64_t a, uint64_t b) {
    return !a || (b && b < a) ? b : a;
}

/* Often enough that lines about long waits, default time-outs and traces of waits come when they
 * should. */
static uint64_t look_every(ucc_lib_h lib) {
    enum { LOOKS = 16, TRACE_US = 250000 };
    uint64_t every = shorter(lib->stall, lib->timeout);
    bool traces = *hd_config_string(lib->config, HD_CFG_LIB_TRACE) != '\0';
    return shorter(every ? every / LOOKS + 1 : 0, traces ? TRACE_US * hd_ticks_per_us : 0);
}

/* The array is the client's, and gone after the call. */
static ucc_status_t keep_segments(ucc_context_h context, const ucc_context_params_t *p) {
    uint64_t n = p->mask & UCC_CONTEXT_PARAM_FIELD_MEM_PARAMS ? p->mem_params.n_segments : 0;
    size_t bytes;
    if (n == 0) {
        return UCC_OK;
    }
    if (!p->mem_params.segments || __builtin_mul_overflow(n, sizeof(ucc_mem_map_t), &bytes)) {
        hd_error("ucc_context_create: mem_params.segments is NULL, or n_segments (%llu) too large",
                 (unsigned long long)n);
        return UCC_ERR_INVALID_PARAM;
    }
    context->mem_params.segments = hd_alloc(HD_LINE, bytes);
    if (!context->mem_params.segments) {
        hd_error("ucc_context_create: no memory for %llu segments", (unsigned long long)n);
        return UCC_ERR_NO_MEMORY;
    }
    memcpy(context->mem_params.segments, p->mem_params.segments, bytes);
    context->mem_params.n_segments = n;
    return UCC_OK;
}

/* Before the exchange. */
static ucc_status_t create(ucc_lib_h lib, const ucc_context_params_t *p, ucc_context_h *out) {
    ucc_status_t status = check_params(p);
    if (status != UCC_OK) {
        return status;
    }
    ucc_context_h context = hd_alloc(HD_LINE_PAIR, sizeof(*context));
    if (!context) {
        hd_error("ucc_context_create: no memory");
        return UCC_ERR_NO_MEMORY;
    }
    hd_runner_init(&context->runner, lib->params.thread_mode == UCC_THREAD_MULTIPLE, lib->max_polls,
                   lib->yield_max_us);
    if (lib->debug_order && !context->runner.multiple) {
        context->runner.multiple = context->runner.promised = true;
    }
    context->runner.may_doze = lib->may_park;
    hd_runner_look_after(&context->runner, hd_request_look_after, look_every(lib));
    context->magic = HD_CONTEXT_MAGIC;
    context->lib = lib;
    context->type = p->mask & UCC_CONTEXT_PARAM_FIELD_TYPE ? p->type : UCC_CONTEXT_EXCLUSIVE;
    context->sync_type =
        p->mask & UCC_CONTEXT_PARAM_FIELD_SYNC_TYPE ? p->sync_type : lib->params.sync_type;
    context->id = p->mask & UCC_CONTEXT_PARAM_FIELD_ID ? p->ctx_id : 0;
    context->locality = hd_locality_unknown();
    hd_process_identity(context->address.process);
    context->address.number = hd_serial();
    status = keep_segments(context, p);
    if (status != UCC_OK) {
        hd_free(context);
        return status;
    }
    *out = context;
    return UCC_OK;
}

/* Of a context that nobody has met, or nobody will again. */
static void dispose(ucc_context_h context) {
    hd_algorithms_end(context->offers);
    hd_free(context->mem_params.segments);
    free(context->tune);
    hd_free(context);
}

static ucc_status_t configure(ucc_context_h context, const hd_config_t *config) {
    ucc_status_t status = hd_api_tune(context, config);
    return status == UCC_OK ? hd_net_name_devices(hd_config_string(config, HD_CFG_CTX_NET_DEVICES))
                            : status;
}

ucc_status_t hd_api_create_context(ucc_lib_h lib, const ucc_context_params_t *p,
                                   const hd_config_t *config, bool unplaced, ucc_context_h *out) {
    bool meets = p->mask & UCC_CONTEXT_PARAM_FIELD_OOB;
    ucc_context_h context;
    ucc_status_t status = check_oob(p, unplaced);
    if (status != UCC_OK) {
        return status;
    }
    status = create(lib, p, &context);
    if (status == UCC_OK && config && (status = configure(context, config)) != UCC_OK) {
        dispose(context);
    }
    if (status != UCC_OK) {
        if (meets) {
            hd_roll_refuse(&p->oob, "context", lib->stall, status);
        }
        return status;
    }
    status = meets ? hd_context_meet(context, &p->oob, unplaced) : UCC_OK;
    if (status != UCC_OK) {
        hd_context_part(context);
        dispose(context);
        return status;
    }
    hd_fork_watch(&context->fork_hook, inherited);
    /* relaxed: a count for ucc_finalize, which the client orders after this */
    atomic_fetch_add_explicit(&lib->contexts, 1, memory_order_relaxed);
    *out = context;
    return UCC_OK;
}

ucc_status_t hd_api_new_context(ucc_lib_h lib, const ucc_context_params_t *params,
                                const ucc_context_config_h config, bool unplaced,
                                ucc_context_h *context) {
    static const char caller[] = "ucc_context_create";
    if (!hd_api_lib(lib, caller) || !hd_api_pointer(params, "params", caller)) {
        return UCC_ERR_INVALID_PARAM;
    }
    ucc_status_t status =
        hd_api_pointer(context, "context", caller) ? UCC_OK : UCC_ERR_INVALID_PARAM;
    if (config && !hd_config_valid((const hd_config_t *)config, HD_CFG_SCOPE_CONTEXT)) {
        hd_error("%s: config is not a context configuration", caller);
        status = UCC_ERR_INVALID_PARAM;
    }
    if (status != UCC_OK) { /* the others must not wait for this one */
        if ((params->mask & UCC_CONTEXT_PARAM_FIELD_OOB) && check_oob(params, unplaced) == UCC_OK) {
            hd_roll_refuse(&params->oob, "context", lib->stall, status);
        }
        return status;
    }
    return hd_api_create_context(lib, params, (const hd_config_t *)config, unplaced, context);
}

ucc_status_t ucc_context_create(ucc_lib_h lib_handle, const ucc_context_params_t *params,
                                const ucc_context_config_h config, ucc_context_h *context) {
    return hd_api_new_context(lib_handle, params, config, false, context);
}

ucc_status_t ucc_context_progress(ucc_context_h context) {
    if (__builtin_expect(!context || context->magic != HD_CONTEXT_MAGIC, 0)) {
        hd_error("%s: not a context handle", __func__);
        return UCC_ERR_INVALID_PARAM;
    }
    return hd_runner_poll(&context->runner);
}

ucc_status_t ucc_context_destroy(ucc_context_h context) {
    if (!hd_api_context(context, __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    /* relaxed: the client has destroyed its teams before */
    uint32_t teams = atomic_load_explicit(&context->teams, memory_order_relaxed);
    if (teams) {
        hd_error("%s: %u teams of this context are alive", __func__, teams);
        return UCC_ERR_INVALID_PARAM;
    }
    /* relaxed: likewise, and its schedules are over */
    uint32_t schedules = atomic_load_explicit(&context->runner.schedules, memory_order_relaxed);
    if (schedules) {
        hd_error("%s: %u schedules that this context drives are running", __func__, schedules);
        return UCC_ERR_INVALID_PARAM;
    }
    context->magic = HD_DEAD_MAGIC;
    hd_callback_forget(&context->runner);
    hd_context_part(context);
    hd_fork_forget(&context->fork_hook);
    atomic_fetch_sub_explicit(&context->lib->contexts, 1, memory_order_relaxed); /* a count */
    dispose(context);
    return UCC_OK;
}

/* One-sided clients allocate this much scratch per endpoint; threads share memory and need none,
 * but clients take zero for "one-sided collectives are missing", and the size that the released
 * library's default transport has for granted. */
enum { WORK_BUFFER_BYTES = 5 };

ucc_status_t ucc_context_get_attr(ucc_context_h context, ucc_context_attr_t *context_attr) {
    if (!hd_api_context(context, __func__) ||
        !hd_api_pointer(context_attr, "context_attr", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    if (context_attr->mask & UCC_CONTEXT_ATTR_FIELD_TYPE) {
        context_attr->type = context->type;
    }
    if (context_attr->mask & UCC_CONTEXT_ATTR_FIELD_SYNC_TYPE) {
        context_attr->sync_type = context->sync_type;
    }
    if (context_attr->mask & UCC_CONTEXT_ATTR_FIELD_CTX_ADDR) {
        context_attr->ctx_addr = &context->address;
    }
    if (context_attr->mask & UCC_CONTEXT_ATTR_FIELD_CTX_ADDR_LEN) {
        context_attr->ctx_addr_len = sizeof(context->address);
    }
    if (context_attr->mask & UCC_CONTEXT_ATTR_FIELD_WORK_BUFFER_SIZE) {
        context_attr->global_work_buffer_size = WORK_BUFFER_BYTES;
    }
    return UCC_OK;
}
