/*
 * Datatypes: sizes, names, and the object behind a user-defined ("generic") one.
 *
 * A ucc_datatype_t carries its class in its low three bits. Predefined types and the pair types of
 * heddle_dt.h have a number above those bits; a generic type is the address of a ucc_dt_generic,
 * whose 64-byte alignment leaves the bits free. Clients hand over garbage where a datatype is
 * insignificant, so a handle is dereferenced only after it looks like such an address.
 *
 * Datatypes are immutable between creation and destruction: any thread may ask anything here.
 */
#ifndef HD_CORE_DTYPE_H
#define HD_CORE_DTYPE_H

#include <heddle/heddle_dt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucc/api/ucc.h>

/* A live generic datatype has this number in its first field; destruction clears it. */
#define HD_DT_GENERIC_MAGIC UINT64_C(0x48644764745f7631)

enum { HD_DT_GENERIC_ALIGN = 64 };

struct ucc_dt_generic {
    uint64_t magic;
    void *context;            /* the user's, handed to start_pack and start_unpack */
    ucc_generic_dt_ops_t ops; /* flags is 0 if it was outside the user's mask, and contig_size and
                                 reduce are 0 unless their flag is set */
};

/* Bytes per element; 0 if dt is invalid, or generic and not contiguous. */
size_t hd_dt_size(ucc_datatype_t dt);

/* A predefined type, a pair type, or a generic type that has not been destroyed. A stale or forged
 * handle that points to readable, suitably aligned memory is recognised by its magic number; one
 * that points to unmapped memory cannot be. */
bool hd_dt_valid(ucc_datatype_t dt);

/* "float32", "float32_int32", "generic", or "invalid". */
const char *hd_dt_name(ucc_datatype_t dt);

/* "sum", ..., or "invalid". */
const char *hd_reduction_name(ucc_reduction_op_t op);

/* By the class bits alone. */
static inline bool hd_dt_is_generic(ucc_datatype_t dt) {
    return (dt & UCC_DATATYPE_CLASS_MASK) == UCC_DATATYPE_GENERIC;
}

/* The object behind a handle for which hd_dt_is_generic() holds. */
static inline ucc_dt_generic_t *hd_dt_generic(ucc_datatype_t dt) {
    return (ucc_dt_generic_t *)(uintptr_t)(dt & ~(ucc_datatype_t)UCC_DATATYPE_CLASS_MASK);
}

/* Number of a predefined or pair type: the index into tables. Meaningless for generic types. */
static inline uint64_t hd_dt_number(ucc_datatype_t dt) {
    return dt >> UCC_DATATYPE_SHIFT;
}

static inline bool hd_dt_is_pair(ucc_datatype_t dt) {
    return (dt & UCC_DATATYPE_CLASS_MASK) == UCC_DATATYPE_PREDEFINED &&
           hd_dt_number(dt) >= HEDDLE_DT_PAIR_FIRST && hd_dt_number(dt) < HEDDLE_DT_PAIR_LAST;
}

/* Valid, and an element is hd_dt_size() bytes in a row. */
bool hd_dt_is_contiguous(ucc_datatype_t dt);

#endif
