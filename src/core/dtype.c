/*
 * The tables of predefined and pair datatypes, and the recognition of generic handles. See dtype.h.
 */
#include "core/dtype.h"

typedef struct dt_entry {
    const char *name;
    size_t size;
} dt_entry_t;

/* By number. */
static const dt_entry_t predefined[UCC_DT_PREDEFINED_LAST] = {
    {"int8", 1},
    {"int16", 2},
    {"int32", 4},
    {"int64", 8},
    {"int128", 16},
    {"uint8", 1},
    {"uint16", 2},
    {"uint32", 4},
    {"uint64", 8},
    {"uint128", 16},
    {"float16", 2},
    {"float32", 4},
    {"float64", 8},
    {"bfloat16", 2},
    {"float128", 16},
    {"float32_complex", 8},
    {"float64_complex", 16},
    {"float128_complex", 32},
};

/* By number, from HEDDLE_DT_PAIR_FIRST on. */
static const dt_entry_t pairs[HEDDLE_DT_PAIR_LAST - HEDDLE_DT_PAIR_FIRST] = {
    {"float32_int32", sizeof(heddle_float32_int32_t)},
    {"float64_int32", sizeof(heddle_float64_int32_t)},
    {"int16_int32", sizeof(heddle_int16_int32_t)},
    {"int32_int32", sizeof(heddle_int32_int32_t)},
    {"int64_int32", sizeof(heddle_int64_int32_t)},
    {"float32_int64", sizeof(heddle_float32_int64_t)},
    {"float64_int64", sizeof(heddle_float64_int64_t)},
    {"int64_int64", sizeof(heddle_int64_int64_t)},
    {"float128_int32", sizeof(heddle_float128_int32_t)},
};

static const char *const op_names[UCC_OP_LAST] = {
    [UCC_OP_SUM] = "sum",   [UCC_OP_PROD] = "prod",     [UCC_OP_MAX] = "max",
    [UCC_OP_MIN] = "min",   [UCC_OP_LAND] = "land",     [UCC_OP_LOR] = "lor",
    [UCC_OP_LXOR] = "lxor", [UCC_OP_BAND] = "band",     [UCC_OP_BOR] = "bor",
    [UCC_OP_BXOR] = "bxor", [UCC_OP_MAXLOC] = "maxloc", [UCC_OP_MINLOC] = "minloc",
    [UCC_OP_AVG] = "avg",
};

static const dt_entry_t *find_entry(ucc_datatype_t dt) {
    uint64_t number = hd_dt_number(dt);

    if ((dt & UCC_DATATYPE_CLASS_MASK) != UCC_DATATYPE_PREDEFINED) {
        return NULL;
    }
    if (number < UCC_DT_PREDEFINED_LAST) {
        return &predefined[number];
    }
    return hd_dt_is_pair(dt) ? &pairs[number - HEDDLE_DT_PAIR_FIRST] : NULL;
}

/* Allocations lie below this address: user space as far as it is handed out without being asked. */
#if defined(__x86_64__)
#define USER_SPACE_END (UINT64_C(1) << 47)
#else
#define USER_SPACE_END (UINT64_C(1) << 52)
#endif

/* Before its memory is looked at, the address must be one that hd_alloc() can have returned. */
static bool is_live_generic(ucc_datatype_t dt) {
    uint64_t address = dt & ~(uint64_t)UCC_DATATYPE_CLASS_MASK;

    if (!hd_dt_is_generic(dt) || address % HD_DT_GENERIC_ALIGN != 0 || address < 4096 ||
        address >= USER_SPACE_END) {
        return false;
    }
    return hd_dt_generic(dt)->magic == HD_DT_GENERIC_MAGIC;
}

bool hd_dt_valid(ucc_datatype_t dt) {
    return find_entry(dt) != NULL || is_live_generic(dt);
}

bool hd_dt_is_contiguous(ucc_datatype_t dt) {
    return hd_dt_size(dt) != 0;
}

size_t hd_dt_size(ucc_datatype_t dt) {
    const dt_entry_t *entry = find_entry(dt);

    if (entry != NULL) {
        return entry->size;
    }
    /* contig_size is 0 without the flag */
    return is_live_generic(dt) ? hd_dt_generic(dt)->ops.contig_size : 0;
}

const char *hd_dt_name(ucc_datatype_t dt) {
    const dt_entry_t *entry = find_entry(dt);

    if (entry != NULL) {
        return entry->name;
    }
    return is_live_generic(dt) ? "generic" : "invalid";
}

const char *hd_reduction_name(ucc_reduction_op_t op) {
    return (unsigned)op < UCC_OP_LAST ? op_names[op] : "invalid";
}
