/* launch.c: which kernel does it, on what grid, with what arguments. See gpu/kernel.h.
 *
 * All that depends on addresses is decided here once, for all threads of the kernel: whether
 * vectors are possible, and how wide a unit is that can be moved.
 */
#include "gpu/kernel.h"

#include "core/dtype.h"
#include "core/log.h"
#include "core/reduce.h"

_Static_assert((int)HD_GPU_BLOCK == (int)HD_REDUCE_BLOCK, "the same tree");

#define HD_NUMBER(_dt) ((_dt) >> UCC_DATATYPE_SHIFT)

enum { MAX_PARTS = 65535 /* of a grid's y */ };

/* ---- which kernel ---- */

/* Of a type and an operation. 0: none. */
typedef struct choice {
    uint16_t reduce, few, scan; /* kernel + 1 */
    uint16_t scalars;           /* of an element */
} choice_t;

#define ALL(_name)                                                                                 \
    { HD_GPU_REDUCE_##_name + 1, 0, HD_GPU_SCAN_##_name + 1, 1 }
#define ALSO_FEW(_name)                                                                            \
    { HD_GPU_REDUCE_##_name + 1, HD_GPU_FEW_##_name + 1, HD_GPU_SCAN_##_name + 1, 1 }
#define NO_SCAN(_name)                                                                             \
    { HD_GPU_REDUCE_##_name + 1, 0, 0, 1 }
#define BY_PARTS(_name)                                                                            \
    { HD_GPU_REDUCE_##_name + 1, HD_GPU_FEW_##_name + 1, HD_GPU_SCAN_##_name + 1, 2 }
#define NO_SCAN_BY_PARTS(_name)                                                                    \
    { HD_GPU_REDUCE_##_name + 1, 0, 0, 2 }

/* _u: the unsigned type of that width; only order and quotient know a sign. */
#define WIDE_INTEGER(_dt, _u, _s)                                                                  \
    [HD_NUMBER(_dt)][UCC_OP_PROD] = ALL(prod_##_u), [HD_NUMBER(_dt)][UCC_OP_MAX] = ALL(max_##_s),  \
    [HD_NUMBER(_dt)][UCC_OP_MIN] = ALL(min_##_s), [HD_NUMBER(_dt)][UCC_OP_LAND] = ALL(land_##_u),  \
    [HD_NUMBER(_dt)][UCC_OP_LOR] = ALL(lor_##_u), [HD_NUMBER(_dt)][UCC_OP_LXOR] = ALL(lxor_##_u),  \
    [HD_NUMBER(_dt)][UCC_OP_BAND] = ALL(band_##_u), [HD_NUMBER(_dt)][UCC_OP_BOR] = ALL(bor_##_u),  \
    [HD_NUMBER(_dt)][UCC_OP_BXOR] = ALL(bxor_##_u)
#define INTEGER(_dt, _u, _s)                                                                       \
    WIDE_INTEGER(_dt, _u, _s), [HD_NUMBER(_dt)][UCC_OP_AVG] = NO_SCAN(avg_##_s)
#define FLOAT(_dt, _s)                                                                             \
    [HD_NUMBER(_dt)][UCC_OP_SUM] = ALSO_FEW(sum_##_s),                                             \
    [HD_NUMBER(_dt)][UCC_OP_PROD] = ALL(prod_##_s), [HD_NUMBER(_dt)][UCC_OP_MAX] = ALL(max_##_s),  \
    [HD_NUMBER(_dt)][UCC_OP_MIN] = ALL(min_##_s), [HD_NUMBER(_dt)][UCC_OP_AVG] = NO_SCAN(avg_##_s)
#define COMPLEX(_dt, _c, _s)                                                                       \
    [HD_NUMBER(_dt)][UCC_OP_SUM] = BY_PARTS(sum_##_s),                                             \
    [HD_NUMBER(_dt)][UCC_OP_PROD] = ALL(prod_##_c),                                                \
    [HD_NUMBER(_dt)][UCC_OP_AVG] = NO_SCAN_BY_PARTS(avg_##_s)

static const choice_t predefined[UCC_DT_PREDEFINED_LAST][UCC_OP_LAST] = {
    INTEGER(UCC_DT_INT8, u8, i8),
    INTEGER(UCC_DT_INT16, u16, i16),
    INTEGER(UCC_DT_INT32, u32, i32),
    INTEGER(UCC_DT_INT64, u64, i64),
    WIDE_INTEGER(UCC_DT_INT128, u128, i128),
    INTEGER(UCC_DT_UINT8, u8, u8),
    INTEGER(UCC_DT_UINT16, u16, u16),
    INTEGER(UCC_DT_UINT32, u32, u32),
    INTEGER(UCC_DT_UINT64, u64, u64),
    WIDE_INTEGER(UCC_DT_UINT128, u128, u128),
    [HD_NUMBER(UCC_DT_INT8)][UCC_OP_SUM] = ALL(sum_u8),
    [HD_NUMBER(UCC_DT_INT16)][UCC_OP_SUM] = ALL(sum_u16),
    [HD_NUMBER(UCC_DT_INT32)][UCC_OP_SUM] = ALSO_FEW(sum_u32),
    [HD_NUMBER(UCC_DT_INT64)][UCC_OP_SUM] = ALSO_FEW(sum_u64),
    [HD_NUMBER(UCC_DT_INT128)][UCC_OP_SUM] = ALL(sum_u128),
    [HD_NUMBER(UCC_DT_UINT8)][UCC_OP_SUM] = ALL(sum_u8),
    [HD_NUMBER(UCC_DT_UINT16)][UCC_OP_SUM] = ALL(sum_u16),
    [HD_NUMBER(UCC_DT_UINT32)][UCC_OP_SUM] = ALSO_FEW(sum_u32),
    [HD_NUMBER(UCC_DT_UINT64)][UCC_OP_SUM] = ALSO_FEW(sum_u64),
    [HD_NUMBER(UCC_DT_UINT128)][UCC_OP_SUM] = ALL(sum_u128),
    FLOAT(UCC_DT_FLOAT16, f16),
    FLOAT(UCC_DT_BFLOAT16, bf16),
    FLOAT(UCC_DT_FLOAT32, f32),
    FLOAT(UCC_DT_FLOAT64, f64),
    COMPLEX(UCC_DT_FLOAT32_COMPLEX, c32, f32),
    COMPLEX(UCC_DT_FLOAT64_COMPLEX, c64, f64),
};

#define PAIR(_dt, _name)                                                                           \
    [HD_NUMBER(_dt) - HEDDLE_DT_PAIR_FIRST] = {ALL(maxloc_##_name), ALL(minloc_##_name)}

static const choice_t pairs[HEDDLE_DT_PAIR_LAST - HEDDLE_DT_PAIR_FIRST][2] = {
    PAIR(HEDDLE_DT_FLOAT32_INT32, float32_int32), PAIR(HEDDLE_DT_FLOAT64_INT32, float64_int32),
    PAIR(HEDDLE_DT_INT16_INT32, int16_int32),     PAIR(HEDDLE_DT_INT32_INT32, int32_int32),
    PAIR(HEDDLE_DT_INT64_INT32, int64_int32),     PAIR(HEDDLE_DT_FLOAT32_INT64, float32_int64),
    PAIR(HEDDLE_DT_FLOAT64_INT64, float64_int64), PAIR(HEDDLE_DT_INT64_INT64, int64_int64),
};

/* reduce is 0 if there is none. */
static choice_t choose(ucc_datatype_t dt, ucc_reduction_op_t op) {
    const choice_t none = {0, 0, 0, 0};
    if (hd_dt_is_generic(dt) || !hd_dt_valid(dt) || (unsigned)op >= UCC_OP_LAST) {
        return none;
    }
    if (!hd_dt_is_pair(dt)) {
        return predefined[hd_dt_number(dt)][op];
    }
    if (op != UCC_OP_MAXLOC && op != UCC_OP_MINLOC) {
        return none;
    }
    return pairs[hd_dt_number(dt) - HEDDLE_DT_PAIR_FIRST][op == UCC_OP_MINLOC];
}

static ucc_status_t refuse(const hd_gpu_reduction_t *what, const char *why) {
    hd_error("op %s on datatype %s: %s is not supported on devices", hd_reduction_name(what->op),
             hd_dt_name(what->dt), why);
    return UCC_ERR_NOT_SUPPORTED;
}

/* ---- words ---- */

static uint64_t address(const void *pointer) {
    return (uint64_t)(uintptr_t)pointer;
}

/* Where `words` words are to be written: `here` if they fit, else a table, which head then names.
 * NULL: no place. */
static uint64_t *place_words(uint64_t words, uint64_t *here, uint32_t here_words,
                             hd_gpu_table_t *table, uint64_t *head_table, uint64_t *head_host) {
    *head_table = *head_host = 0;
    if (table != NULL) {
        table->used = 0;
    }
    if (words <= here_words) {
        return here;
    }
    if (table == NULL || words > table->capacity) {
        hd_error("a launch needs a table of %llu words, and has one of %u",
                 (unsigned long long)words, table == NULL ? 0 : table->capacity);
        return NULL;
    }
    table->used = (uint32_t)words;
    *head_table = table->device;
    *head_host = address(table->host);
    return table->host;
}

/* ---- grids ---- */

static uint64_t at_most(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t divided_up(uint64_t a, uint64_t b) {
    return a / b + (a % b != 0);
}

/* For so many items for one thread each in every part. Less than a block's threads need no whole
 * block. */
static void set_grid(hd_gpu_launch_t *launch, uint64_t items, uint32_t parts, uint32_t width) {
    uint64_t each = width / parts;
    launch->threads = items >= HD_GPU_THREADS ? HD_GPU_THREADS : (uint32_t)(items + 31) / 32 * 32;
    launch->blocks = (uint32_t)at_most(divided_up(items, launch->threads), each ? each : 1);
    launch->parts = parts;
}

/* ---- reductions ---- */

static uint64_t words_of(const hd_gpu_reduction_t *what) {
    return what->k + (uint64_t)what->m * (what->form == HD_GPU_PARTS ? HD_GPU_PART_WORDS : 1);
}

uint32_t hd_gpu_reduce_words(const hd_gpu_reduction_t *what) {
    uint64_t words = words_of(what);
    return words <= HD_GPU_WORDS ? 0 : (uint32_t)words;
}

/* Sources first; bits in which their addresses differ, and those of all. */
typedef struct bits {
    uint64_t differ, any;
} bits_t;

static void add_address(bits_t *bits, uint64_t *word, uint32_t i, const void *pointer) {
    word[i] = address(pointer);
    bits->differ |= word[i] ^ word[0];
    bits->any |= word[i];
}

static void fill_words(const hd_gpu_reduction_t *what, uint64_t *word, uint32_t scalars,
                       bits_t *bits) {
    uint64_t *dst = word + what->k;
    for (uint32_t i = 0; i < what->k; i++) {
        add_address(bits, word, i, what->src[i]);
    }
    for (uint32_t j = 0; j < what->m; j++) {
        if (what->form == HD_GPU_PARTS) {
            dst[HD_GPU_PART_WORDS * j] = address(what->part[j].dst);
            dst[HD_GPU_PART_WORDS * j + 1] = (uint64_t)what->part[j].first * scalars;
            dst[HD_GPU_PART_WORDS * j + 2] = (uint64_t)what->part[j].count * scalars;
        } else if (what->form == HD_GPU_BLOCKS) {
            dst[j] = address(what->dst[j]);
        } else {
            add_address(bits, word, what->k + j, what->dst[j]);
        }
    }
}

/* Elements of the longest part. */
static uint64_t longest(const hd_gpu_reduction_t *what) {
    uint64_t count = what->form == HD_GPU_PARTS ? 0u : what->count;
    for (uint32_t j = 0; j < what->m && what->form == HD_GPU_PARTS; j++) {
        count = what->part[j].count > count ? what->part[j].count : count;
    }
    return count;
}

/* Fills in a launch of `kernel`, whose arguments have room for here_words words. */
static ucc_status_t fill_reduction(hd_gpu_launch_t *launch, const hd_gpu_reduction_t *what,
                                   uint32_t kernel, uint32_t scalars, uint32_t here_words,
                                   hd_gpu_width_t width, hd_gpu_table_t *table) {
    hd_gpu_reduce_t *head = &launch->args.reduce.head;
    bits_t bits = {0, 0};
    uint64_t *word = place_words(words_of(what), launch->args.reduce.word, here_words, table,
                                 &head->table, &head->host_table);
    if (word == NULL) {
        return UCC_ERR_NO_RESOURCE;
    }
    fill_words(what, word, scalars, &bits);
    head->first = (uint64_t)what->first * scalars;
    head->count = (uint64_t)what->count * scalars;
    head->block = (uint64_t)what->block * scalars;
    head->k = what->k;
    head->m = what->m;
    head->n = what->n;
    head->form = (uint8_t)what->form;
    head->agree = bits.differ % HD_GPU_VECTOR == 0;
    head->natural = bits.any % hd_gpu_kernel[kernel].unit == 0;
    head->flags = width.streaming ? HD_GPU_STREAMING : 0;
    launch->kernel = kernel;
    uint32_t per_thread = head->agree ? (uint32_t)HD_GPU_VECTOR / hd_gpu_kernel[kernel].size : 1;
    set_grid(launch, divided_up(longest(what) * scalars, per_thread),
             what->form == HD_GPU_TO_ALL ? 1 : what->m, width.blocks);
    return UCC_OK;
}

/* A kernel for exactly k sources, or the one for any number. */
static uint32_t kernel_for(const hd_gpu_reduction_t *what, choice_t choice, uint32_t *here_words) {
    bool has_few = choice.few && words_of(what) <= HD_GPU_FEW;
    *here_words = HD_GPU_FEW;
    if (has_few && what->k == 2) {
        return choice.few - 1u;
    }
    if (has_few && what->k == 4) {
        return choice.few - 1u + 1;
    }
    if (has_few && what->k == 8) {
        return choice.few - 1u + 2;
    }
    *here_words = HD_GPU_WORDS;
    return choice.reduce - 1u;
}

ucc_status_t hd_gpu_reduce(hd_gpu_launch_t *launch, const hd_gpu_reduction_t *what,
                           hd_gpu_width_t width, hd_gpu_table_t *table) {
    choice_t choice = choose(what->dt, what->op);
    uint32_t here_words;
    launch->blocks = 0;
    if (!choice.reduce) {
        return refuse(what, "this");
    }
    if (what->k > HD_GPU_OPERANDS) {
        return refuse(what, "a reduction of so many sources");
    }
    if (what->form != HD_GPU_TO_ALL && what->m > MAX_PARTS) {
        return refuse(what, "a reduction to so many parts");
    }
    if (what->k == 0 || what->m == 0 || longest(what) == 0) {
        return UCC_OK;
    }
    uint32_t kernel = kernel_for(what, choice, &here_words);
    return fill_reduction(launch, what, kernel, choice.scalars, here_words, width, table);
}

ucc_status_t hd_gpu_scan(hd_gpu_launch_t *launch, const hd_gpu_reduction_t *what, bool exclusive,
                         hd_gpu_width_t width, hd_gpu_table_t *table) {
    choice_t choice = choose(what->dt, what->op);
    hd_gpu_reduction_t scan = *what;
    scan.m = what->k;
    scan.form = HD_GPU_TO_ALL;
    launch->blocks = 0;
    if (!choice.scan) {
        return refuse(what, "a prefix");
    }
    if (what->count == 0 || what->k < (exclusive ? 2 : 1)) {
        return UCC_OK;
    }
    ucc_status_t status =
        fill_reduction(launch, &scan, choice.scan - 1u, choice.scalars, HD_GPU_WORDS, width, table);
    launch->args.reduce.head.flags |= exclusive ? HD_GPU_EXCLUSIVE : 0;
    return status;
}

/* ---- moves ---- */

enum {
    TURN_BYTES = 4 * HD_GPU_VECTOR, /* that a thread has under way: HD_MOVE_TURN vectors */
    MAX_CHUNK = 128 * 1024
};

/* The largest power of two, up to a vector, by which all of these can be divided. */
static uint32_t common_unit(uint64_t any_bits) {
    uint64_t low = any_bits % HD_GPU_VECTOR;
    return low ? (uint32_t)(low & (0 - low)) : HD_GPU_VECTOR;
}

static uint32_t power_above(uint64_t n) {
    uint32_t power = 1;
    while (power < n) {
        power *= 2;
    }
    return power;
}

/* Teams and chunks for pieces of up to `bytes`, of which there are `pieces`. Chunks grow with what
 * there is to do, for each costs its team some arithmetic. */
static void set_chunks(hd_gpu_move_t *head, uint64_t bytes, uint64_t pieces, uint32_t unit,
                       hd_gpu_width_t width) {
    uint64_t units = divided_up(bytes, unit);
    head->team = units < HD_GPU_THREADS ? power_above(units) : HD_GPU_THREADS;
    head->chunk = HD_GPU_THREADS * TURN_BYTES / HD_GPU_VECTOR * unit;
    while (head->chunk < MAX_CHUNK &&
           divided_up(bytes, head->chunk) * pieces > 8 * (uint64_t)width.blocks) {
        head->chunk *= 2;
    }
    head->flags = width.streaming ? HD_GPU_STREAMING : 0;
}

static void set_move_grid(hd_gpu_launch_t *launch, uint32_t kernel, uint32_t width) {
    const hd_gpu_move_t *head = &launch->args.move.head;
    launch->kernel = kernel;
    launch->parts = 1;
    launch->threads = HD_GPU_THREADS;
    launch->blocks = (uint32_t)at_most(divided_up(head->items, HD_GPU_THREADS / head->team), width);
    if (launch->blocks == 1 && head->items * head->team < HD_GPU_THREADS) {
        uint32_t threads = power_above(head->items * head->team);
        launch->threads = threads < 32 ? 32 : threads;
    }
}

/* Bits in which what moves from block d of source s to block s of destination d is apart modulo 16,
 * for any of them. Source s stands for its address less s blocks. */
static uint64_t pair_bits(const hd_gpu_blocks_t *what, const void *const *src, uint32_t k) {
    uint64_t to = address(what->dst[0]), bits = 0;
    for (uint32_t s = 0; s < k; s++) {
        bits |= (address(src[s]) - s * (uint64_t)what->block) - to;
    }
    for (uint32_t d = 0; d < what->m; d++) {
        bits |= (address(what->dst[d]) - d * (uint64_t)what->block) - to;
    }
    return bits;
}

/* The same of a spread, where a source is one block. */
static uint64_t spread_bits(const hd_gpu_blocks_t *what) {
    uint64_t to = address(what->dst[0]), bits = 0;
    for (uint32_t s = 0; s < what->k; s++) {
        bits |= address(what->src[s]) - s * (uint64_t)what->block - to;
    }
    for (uint32_t d = 0; d < what->m; d++) {
        bits |= address(what->dst[d]) - to;
    }
    return bits;
}

/* The rest of a launch that moves `pieces` blocks. */
static ucc_status_t fill_blocks(hd_gpu_launch_t *launch, const hd_gpu_blocks_t *what,
                                uint32_t kernel, uint64_t pieces, uint64_t bits,
                                hd_gpu_width_t width, hd_gpu_table_t *table) {
    hd_gpu_move_t *head = &launch->args.move.head;
    uint64_t *word = place_words((uint64_t)what->k + what->m, launch->args.move.word, HD_GPU_WORDS,
                                 table, &head->table, &head->host_table);
    if (word == NULL) {
        return UCC_ERR_NO_RESOURCE;
    }
    for (uint32_t s = 0; s < what->k; s++) {
        word[s] = address(what->src[s]) + what->at;
    }
    for (uint32_t d = 0; d < what->m; d++) {
        word[what->k + d] = address(what->dst[d]) + what->at;
    }
    head->bytes = what->bytes;
    head->src_step = head->dst_step = what->block;
    head->k = what->k;
    head->m = what->m;
    head->unit = common_unit(bits);
    head->reserved = 0;
    set_chunks(head, what->bytes, pieces, head->unit, width);
    head->chunks = (uint32_t)divided_up(what->bytes, head->chunk);
    head->items = head->chunks * pieces;
    set_move_grid(launch, kernel, width.blocks);
    return UCC_OK;
}

static bool is_empty(const hd_gpu_blocks_t *what) {
    return what->k == 0 || what->m == 0 || what->bytes == 0;
}

ucc_status_t hd_gpu_spread(hd_gpu_launch_t *launch, const hd_gpu_blocks_t *what,
                           hd_gpu_width_t width, hd_gpu_table_t *table) {
    launch->blocks = 0;
    return is_empty(what) ? UCC_OK
                          : fill_blocks(launch, what, HD_GPU_MOVE_spread, what->k,
                                        spread_bits(what), width, table);
}

ucc_status_t hd_gpu_pairs(hd_gpu_launch_t *launch, const hd_gpu_blocks_t *what,
                          hd_gpu_width_t width, hd_gpu_table_t *table) {
    launch->blocks = 0;
    return is_empty(what)
               ? UCC_OK
               : fill_blocks(launch, what, HD_GPU_MOVE_pairs, (uint64_t)what->k * what->m,
                             pair_bits(what, what->src, what->k), width, table);
}

ucc_status_t hd_gpu_swaps(hd_gpu_launch_t *launch, const hd_gpu_blocks_t *what,
                          hd_gpu_width_t width, hd_gpu_table_t *table) {
    hd_gpu_blocks_t buffers = *what;
    buffers.m = what->k;
    buffers.k = 0;
    launch->blocks = 0;
    if (what->k < 2 || what->bytes == 0) {
        return UCC_OK;
    }
    ucc_status_t status =
        fill_blocks(launch, &buffers, HD_GPU_MOVE_swaps, (uint64_t)what->k * what->k,
                    pair_bits(&buffers, NULL, 0), width, table);
    launch->args.move.head.k = what->k;
    return status;
}

/* Bytes that a row moves. */
static uint64_t row_bytes(const hd_gpu_row_t *row) {
    return row->src == row->dst ? 0 : row->bytes;
}

ucc_status_t hd_gpu_rows(hd_gpu_launch_t *launch, const hd_gpu_row_t *row, uint32_t rows,
                         hd_gpu_width_t width, hd_gpu_table_t *table) {
    hd_gpu_move_t *head = &launch->args.move.head;
    uint64_t largest = 0, pieces = 0;
    launch->blocks = 0;
    for (uint32_t i = 0; i < rows; i++) {
        uint64_t bytes = row_bytes(&row[i]);
        largest = bytes > largest ? bytes : largest;
        pieces += bytes > 0;
    }
    if (largest == 0) {
        return UCC_OK;
    }
    uint64_t *word = place_words((uint64_t)rows * HD_GPU_ROW_WORDS, launch->args.move.word,
                                 HD_GPU_WORDS, table, &head->table, &head->host_table);
    if (word == NULL) {
        return UCC_ERR_NO_RESOURCE;
    }
    set_chunks(head, largest, pieces, HD_GPU_VECTOR, width);
    head->items = 0;
    for (uint32_t i = 0; i < rows; i++, word += HD_GPU_ROW_WORDS) {
        uint64_t bytes = row_bytes(&row[i]);
        word[HD_GPU_ROW_SRC] = address(row[i].src);
        word[HD_GPU_ROW_DST] = address(row[i].dst);
        word[HD_GPU_ROW_BYTES] = bytes | (row[i].swap ? HD_GPU_ROW_SWAP : 0);
        word[HD_GPU_ROW_CHUNK] = head->items;
        head->items += divided_up(bytes, head->chunk);
    }
    head->k = rows;
    head->m = head->chunks = head->unit = head->reserved = 0;
    head->bytes = head->src_step = head->dst_step = 0;
    set_move_grid(launch, HD_GPU_MOVE_rows, width.blocks);
    return UCC_OK;
}

void hd_gpu_write_word(hd_gpu_launch_t *launch, uint64_t *word, uint64_t value) {
    launch->kernel = HD_GPU_WORD;
    launch->blocks = launch->parts = 1;
    launch->threads = 1;
    launch->args.word.address = address(word);
    launch->args.word.value = value;
}
