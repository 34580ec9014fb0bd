/*
 * What the CPU has, asked once; afterwards a relaxed load.
 */
#include "core/isa.h"

#include <stdatomic.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* HD_ISA_LAST until somebody asks. */
static _Atomic(hd_isa_t) active = HD_ISA_LAST;

#if defined(__x86_64__)
/* Conversion of float16 has a CPUID bit of its own, which not every compiler can name. */
static bool cpu_has_f16c(void) {
    unsigned a, b, c = 0, d;

    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

static bool cpu_has(hd_isa_t isa) {
    switch (isa) {
    case HD_ISA_BASE:
        return true;
#if defined(__x86_64__)
    case HD_ISA_AVX2: /* the builtins ask the operating system too */
        return __builtin_cpu_supports("avx2") && cpu_has_f16c();
    case HD_ISA_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
               cpu_has_f16c();
#endif
    default:
        return false;
    }
}

hd_isa_t hd_isa(void) {
    hd_isa_t isa = atomic_load_explicit(&active, memory_order_relaxed); /* nothing hangs on it */

    if (isa != HD_ISA_LAST) {
        return isa;
    }
    do {
        isa--;
    } while (!cpu_has(isa));
    atomic_store_explicit(&active, isa, memory_order_relaxed); /* all find the same */
    return isa;
}

const char *hd_isa_name(void) {
    static const char *const names[HD_ISA_LAST] = {
        [HD_ISA_BASE] = "base", [HD_ISA_AVX2] = "avx2", [HD_ISA_AVX512] = "avx512"};

    return names[hd_isa()];
}

bool hd_isa_force(hd_isa_t isa) {
    if (!cpu_has(isa)) {
        return false;
    }
    atomic_store_explicit(&active, isa, memory_order_relaxed); /* nothing hangs on it */
    return true;
}
