/* shmem_types.h: for which types each family of calls exists, as lists of X(TYPE, NAME), in the
 * words of the tables of OpenSHMEM 1.5. shmem.h declares by these lists, the library defines by
 * them, and programs may test by them.
 */
#ifndef SHMEM_TYPES_H_
#define SHMEM_TYPES_H_

/* Signed types for which reductions are arithmetic only, and unsigned ones, which have bits as
 * well. */
#define SHMEM_SIGNED_TYPES(X)                                                                      \
    X(char, char)                                                                                  \
    X(signed char, schar)                                                                          \
    X(short, short)                                                                                \
    X(int, int)                                                                                    \
    X(long, long)                                                                                  \
    X(long long, longlong)                                                                         \
    X(ptrdiff_t, ptrdiff)
#define SHMEM_BITS_TYPES(X)                                                                        \
    X(unsigned char, uchar)                                                                        \
    X(unsigned short, ushort)                                                                      \
    X(unsigned int, uint)                                                                          \
    X(unsigned long, ulong)                                                                        \
    X(unsigned long long, ulonglong)                                                               \
    X(int8_t, int8)                                                                                \
    X(int16_t, int16)                                                                              \
    X(int32_t, int32)                                                                              \
    X(int64_t, int64)                                                                              \
    X(uint8_t, uint8)                                                                              \
    X(uint16_t, uint16)                                                                            \
    X(uint32_t, uint32)                                                                            \
    X(uint64_t, uint64)                                                                            \
    X(size_t, size)
#define SHMEM_REAL_TYPES(X)                                                                        \
    X(float, float)                                                                                \
    X(double, double)                                                                              \
    X(long double, longdouble)
#define SHMEM_COMPLEX_TYPES(X)                                                                     \
    X(float _Complex, complexf)                                                                    \
    X(double _Complex, complexd)

/* Put, get and the collectives that move data; also minimum, maximum, sum and product. */
#define SHMEM_RMA_TYPES(X)                                                                         \
    SHMEM_SIGNED_TYPES(X)                                                                          \
    SHMEM_BITS_TYPES(X)                                                                            \
    SHMEM_REAL_TYPES(X)

/* Sized calls: X(SUFFIX, BYTES) of an element. */
#define SHMEM_SIZES(X)                                                                             \
    X(8, 1)                                                                                        \
    X(16, 2)                                                                                       \
    X(32, 4)                                                                                       \
    X(64, 8)                                                                                       \
    X(128, 16)

/* Atomics: all operations of arithmetic; fetch, set and swap; those on bits. */
#define SHMEM_ATOMIC_TYPES(X)                                                                      \
    X(int, int)                                                                                    \
    X(long, long)                                                                                  \
    X(long long, longlong)                                                                         \
    X(unsigned int, uint)                                                                          \
    X(unsigned long, ulong)                                                                        \
    X(unsigned long long, ulonglong)                                                               \
    X(int32_t, int32)                                                                              \
    X(int64_t, int64)                                                                              \
    X(uint32_t, uint32)                                                                            \
    X(uint64_t, uint64)                                                                            \
    X(size_t, size)                                                                                \
    X(ptrdiff_t, ptrdiff)
#define SHMEM_ATOMIC_EXTENDED_TYPES(X)                                                             \
    SHMEM_ATOMIC_TYPES(X)                                                                          \
    X(float, float)                                                                                \
    X(double, double)
#define SHMEM_ATOMIC_BITS_TYPES(X)                                                                 \
    X(unsigned int, uint)                                                                          \
    X(unsigned long, ulong)                                                                        \
    X(unsigned long long, ulonglong)                                                               \
    X(int32_t, int32)                                                                              \
    X(int64_t, int64)                                                                              \
    X(uint32_t, uint32)                                                                            \
    X(uint64_t, uint64)

/* Wait and test. */
#define SHMEM_WAIT_TYPES(X)                                                                        \
    SHMEM_ATOMIC_TYPES(X)                                                                          \
    X(short, short)                                                                                \
    X(unsigned short, ushort)

/* The deprecated calls: reductions over active sets, and atomics and waits without "atomic" in the
 * name. */
#define SHMEM_SET_INTEGER_TYPES(X)                                                                 \
    X(short, short)                                                                                \
    X(int, int)                                                                                    \
    X(long, long)                                                                                  \
    X(long long, longlong)
#define SHMEM_OLD_ATOMIC_TYPES(X)                                                                  \
    X(int, int)                                                                                    \
    X(long, long)                                                                                  \
    X(long long, longlong)
#define SHMEM_OLD_ATOMIC_EXTENDED_TYPES(X)                                                         \
    SHMEM_OLD_ATOMIC_TYPES(X)                                                                      \
    X(float, float)                                                                                \
    X(double, double)

#endif
