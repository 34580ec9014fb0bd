/*
 * ucc_dt_create_generic and ucc_dt_destroy: user-defined datatypes.
 *
 * The handle is the address of the library's own copy of the description, with the class in its low
 * bits. Everything that the rest of the library reads from the copy is normalised here: what the
 * user's mask or flags leave out is zero. Any thread may call; the user must not destroy a datatype
 * that an operation in flight still uses.
 */
#include "core/dtype.h"
#include "core/log.h"
#include "core/mem.h"

/* The first callback that packing needs and ops lacks, or NULL. */
static const char *missing_callback(const ucc_generic_dt_ops_t *ops) {
    const struct {
        const char *name;
        bool present;
    } callbacks[] = {
        {"start_pack", ops->start_pack != NULL},   {"start_unpack", ops->start_unpack != NULL},
        {"packed_size", ops->packed_size != NULL}, {"pack", ops->pack != NULL},
        {"unpack", ops->unpack != NULL},           {"finish", ops->finish != NULL},
    };

    for (size_t i = 0; i < sizeof(callbacks) / sizeof(callbacks[0]); i++) {
        if (!callbacks[i].present) {
            return callbacks[i].name;
        }
    }
    return NULL;
}

static ucc_status_t check_ops(const ucc_generic_dt_ops_t *ops, uint64_t flags) {
    const char *missing;

    if ((flags & UCC_GENERIC_DT_OPS_FLAG_CONTIG) != 0) {
        if (ops->contig_size == 0) {
            hd_error("ucc_dt_create_generic: a contiguous datatype needs a contig_size above 0");
            return UCC_ERR_INVALID_PARAM;
        }
    } else if ((missing = missing_callback(ops)) != NULL) {
        hd_error("ucc_dt_create_generic: a datatype that is not contiguous needs the callback %s",
                 missing);
        return UCC_ERR_INVALID_PARAM;
    }
    if ((flags & UCC_GENERIC_DT_OPS_FLAG_REDUCE) != 0 && ops->reduce.cb == NULL) {
        hd_error("ucc_dt_create_generic: flag REDUCE is set but reduce.cb is NULL");
        return UCC_ERR_INVALID_PARAM;
    }
    return UCC_OK;
}

ucc_status_t ucc_dt_create_generic(const ucc_generic_dt_ops_t *ops, void *context,
                                   ucc_datatype_t *datatype_p) {
    ucc_dt_generic_t *dt;
    ucc_status_t status;
    uint64_t flags;

    if (ops == NULL || datatype_p == NULL) {
        hd_error("%s is NULL", ops == NULL ? "ops" : "datatype_p");
        return UCC_ERR_INVALID_PARAM;
    }
    flags = (ops->mask & UCC_GENERIC_DT_OPS_FIELD_FLAGS) != 0 ? ops->flags : 0;
    status = check_ops(ops, flags);
    if (status != UCC_OK) {
        return status;
    }
    dt = hd_alloc(HD_DT_GENERIC_ALIGN, sizeof(*dt));
    if (dt == NULL) {
        hd_error("no memory for a datatype");
        return UCC_ERR_NO_MEMORY;
    }
    dt->context = context;
    dt->ops = *ops;
    dt->ops.flags = flags;
    if ((flags & UCC_GENERIC_DT_OPS_FLAG_CONTIG) == 0) {
        dt->ops.contig_size = 0;
    }
    if ((flags & UCC_GENERIC_DT_OPS_FLAG_REDUCE) == 0) {
        dt->ops.reduce.cb = NULL;
        dt->ops.reduce.cb_ctx = NULL;
    }
    dt->magic = HD_DT_GENERIC_MAGIC;
    *datatype_p = (ucc_datatype_t)(uintptr_t)dt | UCC_DATATYPE_GENERIC;
    return UCC_OK;
}

void ucc_dt_destroy(ucc_datatype_t datatype) {
    ucc_dt_generic_t *dt;

    if (!hd_dt_valid(datatype)) {
        hd_error("0x%llx is no datatype", (unsigned long long)datatype);
        return;
    }
    if (!hd_dt_is_generic(datatype)) {
        return; /* predefined types are nobody's to destroy */
    }
    dt = hd_dt_generic(datatype);
    dt->magic = 0;
    hd_free(dt);
}
