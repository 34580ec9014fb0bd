/* operands.h: what programs that check reductions fold, and which operations there are for a type.
 * CHECK_REDUCE(OP, FOLD, VALUE, TYPE, NAME), which each defines, makes reduce_<OP>_<NAME>(): it
 * combines VALUE(pe, i) of all PEs and folds a and b itself.
 */
#ifndef OPERANDS_H_
#define OPERANDS_H_

/* Small enough for the product or the sum of many to fit into a char. */
static int factor(int pe, int i) {
    return 1 + ((pe + i) % 8 == 0);
}

static int addend(int pe, int i) {
    return (pe + i) % 6;
}

static int mask(int pe, int i) {
    return 127 - addend(pe, i);
}

#define CHECK_BITS(TYPE, NAME)                                                                     \
    CHECK_REDUCE(and, a &b, mask, TYPE, NAME)                                                      \
    CHECK_REDUCE(or, a | b, addend, TYPE, NAME)                                                    \
    CHECK_REDUCE(xor, a ^ b, addend, TYPE, NAME)
#define CHECK_ORDER(TYPE, NAME)                                                                    \
    CHECK_REDUCE(max, a > b ? a : b, addend, TYPE, NAME)                                           \
    CHECK_REDUCE(min, a < b ? a : b, addend, TYPE, NAME)
#define CHECK_SUM(TYPE, NAME)                                                                      \
    CHECK_REDUCE(sum, a + b, addend, TYPE, NAME)                                                   \
    CHECK_REDUCE(prod, a *b, factor, TYPE, NAME)

#define RUN_BITS(TYPE, NAME)  reduce_and_##NAME(), reduce_or_##NAME(), reduce_xor_##NAME();
#define RUN_ORDER(TYPE, NAME) reduce_max_##NAME(), reduce_min_##NAME();
#define RUN_SUM(TYPE, NAME)   reduce_sum_##NAME(), reduce_prod_##NAME();

#endif
