/*
 * Reduction of generic datatypes by their own callback. For reduce.c only.
 */
#ifndef HD_CORE_REDUCE_USER_H
#define HD_CORE_REDUCE_USER_H

#include "core/reduce.h"

/* hd_reduce_block() for k >= 2 operands of a generic datatype. */
ucc_status_t hd_reduce_user(const hd_reducer_t *r, uint32_t k, const void *const *src, void *dst,
                            size_t count);

#endif
