/*
 * What must hold, checked where it must hold: for builds with HD_DEBUG.
 *
 *   0  nothing is compiled in: not an instruction, and no argument is evaluated
 *   1  hd_assert and its like, at every step of a protocol
 *   2  also hd_runner_check, hd_group_check, hd_board_check, which walk a whole structure
 *
 * A check that fails writes one line with its place, its expression and the values, and aborts. So
 * what is checked is the library's own promise; what callers may get wrong is an error with a
 * status instead.
 */
#ifndef HD_CORE_DEBUG_H
#define HD_CORE_DEBUG_H

#include <stdint.h>

#ifndef HD_DEBUG
#define HD_DEBUG 0
#endif

#if HD_DEBUG >= 1 || defined(HD_TEST)

/* Two values follow, of which `n` (0 or 2) are worth printing. */
_Noreturn void hd_assert_failed(const char *file, int line, const char *expression, int n,
                                uint64_t left, uint64_t right) __attribute__((cold));

/* For the walks, which are also there in builds for tests. */
#define hd_always(_condition)                                                                      \
    ((_condition) ? (void)0 : hd_assert_failed(__FILE__, __LINE__, #_condition, 0, 0, 0))
#define hd_always_lt(_left, _right) hd_compare_(_left, <, _right)
#define hd_always_le(_left, _right) hd_compare_(_left, <=, _right)
#define hd_always_eq(_left, _right) hd_compare_(_left, ==, _right)

/* Each argument is evaluated once. A negative value counts as a large one. */
#define hd_compare_(_left, _operator, _right)                                                      \
    do {                                                                                           \
        uint64_t left_ = (uint64_t)(_left), right_ = (uint64_t)(_right);                           \
        if (!(left_ _operator right_)) {                                                           \
            hd_assert_failed(__FILE__, __LINE__, #_left " " #_operator " " #_right, 2, left_,      \
                             right_);                                                              \
        }                                                                                          \
    } while (0)

#endif

#if HD_DEBUG >= 1
#define hd_assert(_condition)       hd_always(_condition)
#define hd_assert_lt(_left, _right) hd_always_lt(_left, _right)
#define hd_assert_le(_left, _right) hd_always_le(_left, _right)
#define hd_assert_eq(_left, _right) hd_always_eq(_left, _right)
#else
/* Not evaluated: only so that what is used by checks alone counts as used. */
#define hd_assert(_condition)       ((void)sizeof(_condition))
#define hd_assert_lt(_left, _right) ((void)sizeof(_left), (void)sizeof(_right))
#define hd_assert_le(_left, _right) ((void)sizeof(_left), (void)sizeof(_right))
#define hd_assert_eq(_left, _right) ((void)sizeof(_left), (void)sizeof(_right))
#endif

/* A walk: hd_checked(hd_runner_check(runner)); */
#if HD_DEBUG >= 2
#define hd_checked(_call) (_call)
#else
#define hd_checked(_call) ((void)0)
#endif

#endif
