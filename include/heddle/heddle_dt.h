/* heddle_dt.h: (value, index) pair datatypes for UCC_OP_MAXLOC and UCC_OP_MINLOC, and other names
 * of the bitwise operations.
 *
 * The interface has the two operations but no datatype they could work on. The pairs below are
 * ordinary ucc_datatype_t values: every collective moves them, the reducing ones take them with
 * MAXLOC and MINLOC and with no other operation. An element is the struct of the same name, in C's
 * natural layout, padding included.
 *
 * The pair with the larger (MAXLOC) or smaller (MINLOC) value wins and is copied whole. Of equal
 * values the smaller index wins; +0 and -0 are equal; NaN wins over every number, and of several
 * NaNs the one with the smallest index wins.
 */
#ifndef HEDDLE_DT_H_
#define HEDDLE_DT_H_

#include <stdint.h>
#include <ucc/api/ucc.h>

#define HEDDLE_DT_FLOAT32_INT32  UCC_PREDEFINED_DT(64) /**< heddle_float32_int32_t */
#define HEDDLE_DT_FLOAT64_INT32  UCC_PREDEFINED_DT(65) /**< heddle_float64_int32_t */
#define HEDDLE_DT_INT16_INT32    UCC_PREDEFINED_DT(66) /**< heddle_int16_int32_t */
#define HEDDLE_DT_INT32_INT32    UCC_PREDEFINED_DT(67) /**< heddle_int32_int32_t */
#define HEDDLE_DT_INT64_INT32    UCC_PREDEFINED_DT(68) /**< heddle_int64_int32_t */
#define HEDDLE_DT_FLOAT32_INT64  UCC_PREDEFINED_DT(69) /**< heddle_float32_int64_t */
#define HEDDLE_DT_FLOAT64_INT64  UCC_PREDEFINED_DT(70) /**< heddle_float64_int64_t */
#define HEDDLE_DT_INT64_INT64    UCC_PREDEFINED_DT(71) /**< heddle_int64_int64_t */
#define HEDDLE_DT_FLOAT128_INT32 UCC_PREDEFINED_DT(72) /**< heddle_float128_int32_t */

/** Numbers of the first pair datatype, and one past the last. */
#define HEDDLE_DT_PAIR_FIRST 64
#define HEDDLE_DT_PAIR_LAST  73

typedef struct heddle_float32_int32 {
    float value;
    int32_t index;
} heddle_float32_int32_t;

typedef struct heddle_float64_int32 {
    double value;
    int32_t index;
} heddle_float64_int32_t;

typedef struct heddle_int16_int32 {
    int16_t value;
    int32_t index;
} heddle_int16_int32_t;

typedef struct heddle_int32_int32 {
    int32_t value;
    int32_t index;
} heddle_int32_int32_t;

typedef struct heddle_int64_int32 {
    int64_t value;
    int32_t index;
} heddle_int64_int32_t;

typedef struct heddle_float32_int64 {
    float value;
    int64_t index;
} heddle_float32_int64_t;

typedef struct heddle_float64_int64 {
    double value;
    int64_t index;
} heddle_float64_int64_t;

typedef struct heddle_int64_int64 {
    int64_t value;
    int64_t index;
} heddle_int64_int64_t;

/** Like UCC_DT_FLOAT128 the value is the compiler's long double. */
typedef struct heddle_float128_int32 {
    long double value;
    int32_t index;
} heddle_float128_int32_t;

/** The drafts' AND, OR and XOR (drafts_names.h has them as UCC_OP_AND and so on): bit by bit, on
 * integers. */
#define HEDDLE_OP_AND UCC_OP_BAND
#define HEDDLE_OP_OR  UCC_OP_BOR
#define HEDDLE_OP_XOR UCC_OP_BXOR

#endif /* HEDDLE_DT_H_ */
