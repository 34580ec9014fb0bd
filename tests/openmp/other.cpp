/* other.cpp: see other.h. */
#include "other.h"

#include <heddle/omp.h>

int64_t other_sum(int64_t x) {
    return heddle_omp_allreduce(&x, 1, UCC_DT_INT64, UCC_OP_SUM) == UCC_OK ? x : -1;
}
