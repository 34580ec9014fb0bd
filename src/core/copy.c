/*
 * Plain copies of some KiB and more are vectors of our own: memcpy, which copies by string
 * instructions then, took up to 1.5 times as long out of another core's caches. And on AMD's Zen 3
 * string instructions take up to twenty times as long where the destination lies less than half a
 * line behind the source, as far as the lower 12 bits tell. Large memory of malloc() lies so behind
 * the beginning of a page.
 *
 * Streaming copies: up to the first whole line of the destination by plain stores, then whole
 * lines, then the rest. A line has to be written whole and at once, or its parts go to memory one
 * by one. Sources are read at any alignment. Long copies walk through four pages at a time, some
 * lines of each in turn: the hardware then prefetches four sources at once, and more banks of
 * memory are open.
 *
 * One source to several destinations goes window by window: the first destination's copy brings the
 * window to the first cache level, the others find it there.
 */
#include "core/copy.h"

#include <string.h>

#include "core/isa.h"
#include "core/sanitizer.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    PAGE = 4096,
    WALK = 4 * PAGE, /* pages walked through together */
    PAIR = 2 * HD_COPY_LINE,
    TURN = 4 * HD_COPY_LINE,  /* of one page before it is the next one's turn */
    SHORT = 4 * HD_COPY_LINE, /* up to here streaming is not worth its beginning and end */
    MOST_VECTORS = 1 << 20,   /* from here on, source and result are not in a core's caches */
    MOST_STRING = 4 << 20,    /* longer ones C libraries stream */
    PLAIN_WINDOW = 2 * 4096   /* stays in the first cache level beside its destinations */
};

static size_t min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

/* ---- vectors: plain stores anywhere; streaming ones of whole lines, where dst is a multiple of a
 * line, and so is bytes ---- */

/* Streaming ones, by the vector unit. */
typedef struct streams {
    void (*lines)(char *dst, const char *src, size_t bytes);
    void (*pages)(char *dst, const char *src, size_t bytes); /* a multiple of WALK */
    void (*two)(char *dst, char *dst2, const char *src, size_t bytes);
} streams_t;

#if defined(__x86_64__)

#define TARGET_BASE
#define TARGET_AVX2   __attribute__((target("avx2")))
#define TARGET_AVX512 __attribute__((target("avx512f")))

static inline void plain_base(char *dst, const char *src) {
    __m128i a = _mm_loadu_si128((const __m128i_u *)(const void *)src);
    __m128i b = _mm_loadu_si128((const __m128i_u *)(const void *)(src + 16));
    __m128i c = _mm_loadu_si128((const __m128i_u *)(const void *)(src + 32));
    __m128i d = _mm_loadu_si128((const __m128i_u *)(const void *)(src + 48));

    _mm_storeu_si128((__m128i_u *)(void *)dst, a);
    _mm_storeu_si128((__m128i_u *)(void *)(dst + 16), b);
    _mm_storeu_si128((__m128i_u *)(void *)(dst + 32), c);
    _mm_storeu_si128((__m128i_u *)(void *)(dst + 48), d);
}

TARGET_AVX2 static inline void plain_avx2(char *dst, const char *src) {
    __m256i a = _mm256_loadu_si256((const __m256i_u *)(const void *)src);
    __m256i b = _mm256_loadu_si256((const __m256i_u *)(const void *)(src + 32));

    _mm256_storeu_si256((__m256i_u *)(void *)dst, a);
    _mm256_storeu_si256((__m256i_u *)(void *)(dst + 32), b);
}

/* Pairs of whole lines of the destination; what is left at its beginning and its end, which may be
 * part of lines, is stored besides. Backwards where the destination lies just behind the source,
 * as far as the lower 12 bits tell: loads that come so soon after stores wait for them. */
#define DEFINE_PLAIN(_name, _line, _target)                                                        \
    _target static void _name(char *dst, const char *src, size_t bytes) {                          \
        size_t first = hd_copy_gap(dst), last = bytes - HD_COPY_LINE;                              \
        size_t pairs = (last - first) / PAIR, end = first + pairs * PAIR;                          \
        _line(dst, src);                                                                           \
        if (((uintptr_t)dst - (uintptr_t)src - 1) % PAGE < PAGE / 2) {                             \
            for (size_t at = end; at != first;) {                                                  \
                at -= PAIR;                                                                        \
                _line(dst + at + HD_COPY_LINE, src + at + HD_COPY_LINE);                           \
                _line(dst + at, src + at);                                                         \
            }                                                                                      \
        } else {                                                                                   \
            for (size_t at = first; at != end; at += PAIR) {                                       \
                _line(dst + at, src + at);                                                         \
                _line(dst + at + HD_COPY_LINE, src + at + HD_COPY_LINE);                           \
            }                                                                                      \
        }                                                                                          \
        for (size_t at = end; at < last; at += HD_COPY_LINE) {                                     \
            _line(dst + at, src + at);                                                             \
        }                                                                                          \
        _line(dst + last, src + last);                                                             \
    }

DEFINE_PLAIN(copy_base, plain_base, TARGET_BASE)
DEFINE_PLAIN(copy_avx2, plain_avx2, TARGET_AVX2)

/* 512 bits at a time were no faster: the lines' way is what takes the time. */
static void copy_vectors(char *dst, const char *src, size_t bytes) {
    if (hd_isa() == HD_ISA_BASE) {
        copy_base(dst, src, bytes);
    } else {
        copy_avx2(dst, src, bytes);
    }
}

static inline void line_base(char *dst, const char *src) {
    __m128i a = _mm_loadu_si128((const __m128i_u *)(const void *)src);
    __m128i b = _mm_loadu_si128((const __m128i_u *)(const void *)(src + 16));
    __m128i c = _mm_loadu_si128((const __m128i_u *)(const void *)(src + 32));
    __m128i d = _mm_loadu_si128((const __m128i_u *)(const void *)(src + 48));

    _mm_stream_si128((__m128i *)(void *)dst, a);
    _mm_stream_si128((__m128i *)(void *)(dst + 16), b);
    _mm_stream_si128((__m128i *)(void *)(dst + 32), c);
    _mm_stream_si128((__m128i *)(void *)(dst + 48), d);
}

TARGET_AVX2 static inline void line_avx2(char *dst, const char *src) {
    __m256i a = _mm256_loadu_si256((const __m256i_u *)(const void *)src);
    __m256i b = _mm256_loadu_si256((const __m256i_u *)(const void *)(src + 32));

    _mm256_stream_si256((__m256i *)(void *)dst, a);
    _mm256_stream_si256((__m256i *)(void *)(dst + 32), b);
}

TARGET_AVX512 static inline void line_avx512(char *dst, const char *src) {
    _mm512_stream_si512((void *)dst, _mm512_loadu_si512(src));
}

/* A function per vector unit around its line, for a call per line would cost as much as the line.
 */
#define DEFINE_STREAM(_name, _line, _target)                                                       \
    _target static void _name(char *dst, const char *src, size_t bytes) {                          \
        for (size_t at = 0; at < bytes; at += HD_COPY_LINE) {                                      \
            _line(dst + at, src + at);                                                             \
        }                                                                                          \
    }

DEFINE_STREAM(stream_base, line_base, TARGET_BASE)
DEFINE_STREAM(stream_avx2, line_avx2, TARGET_AVX2)
DEFINE_STREAM(stream_avx512, line_avx512, TARGET_AVX512)

/* Some lines of each of so many pages in turn. */
#define DEFINE_PAGES(_name, _line, _target)                                                        \
    _target static void _name(char *dst, const char *src, size_t bytes) {                          \
        for (size_t at = 0; at < bytes; at += WALK) {                                              \
            for (size_t turn = at; turn < at + PAGE; turn += TURN) {                               \
                for (size_t i = turn; i < turn + WALK; i += PAGE) {                                \
                    _line(dst + i, src + i);                                                       \
                    _line(dst + i + HD_COPY_LINE, src + i + HD_COPY_LINE);                         \
                    _line(dst + i + 2 * HD_COPY_LINE, src + i + 2 * HD_COPY_LINE);                 \
                    _line(dst + i + 3 * HD_COPY_LINE, src + i + 3 * HD_COPY_LINE);                 \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

DEFINE_PAGES(pages_base, line_base, TARGET_BASE)
DEFINE_PAGES(pages_avx2, line_avx2, TARGET_AVX2)
DEFINE_PAGES(pages_avx512, line_avx512, TARGET_AVX512)

/* To two destinations: some lines of one, then of the other, which the source's lines still in the
 * first cache level serve. */
#define DEFINE_STREAM_TWO(_name, _line, _target)                                                   \
    _target static void _name(char *dst, char *dst2, const char *src, size_t bytes) {              \
        for (size_t turn = 0; turn < bytes; turn += TURN) {                                        \
            size_t end = turn + min_size(TURN, bytes - turn);                                      \
            for (size_t at = turn; at < end; at += HD_COPY_LINE) {                                 \
                _line(dst + at, src + at);                                                         \
            }                                                                                      \
            for (size_t at = turn; at < end; at += HD_COPY_LINE) {                                 \
                _line(dst2 + at, src + at);                                                        \
            }                                                                                      \
        }                                                                                          \
    }

DEFINE_STREAM_TWO(stream_two_base, line_base, TARGET_BASE)
DEFINE_STREAM_TWO(stream_two_avx2, line_avx2, TARGET_AVX2)
DEFINE_STREAM_TWO(stream_two_avx512, line_avx512, TARGET_AVX512)

static const streams_t *streams(void) {
    static const streams_t by_isa[HD_ISA_LAST] = {
        [HD_ISA_BASE] = {stream_base, pages_base, stream_two_base},
        [HD_ISA_AVX2] = {stream_avx2, pages_avx2, stream_two_avx2},
        [HD_ISA_AVX512] = {stream_avx512, pages_avx512, stream_two_avx512}};
    return &by_isa[hd_isa()];
}

#else

static void copy_vectors(char *dst, const char *src, size_t bytes) {
    memcpy(dst, src, bytes);
}

static void copy_two(char *dst, char *dst2, const char *src, size_t bytes) {
    memcpy(dst, src, bytes);
    memcpy(dst2, src, bytes);
}

static const streams_t *streams(void) {
    static const streams_t plain = {copy_vectors, copy_vectors, copy_two};
    return &plain;
}

#endif

/* ---- copies ---- */

static void stream(char *dst, const char *src, size_t bytes, hd_stores_t stores) {
    size_t head = hd_copy_gap(dst), lines, walked;

    if (bytes < SHORT) {
        memcpy(dst, src, bytes);
        return;
    }
    memcpy(dst, src, head);
    lines = (bytes - head) / HD_COPY_LINE * HD_COPY_LINE;
    walked = stores == HD_STORES_PAGES ? lines / WALK * WALK : 0;
    if (walked) {
        streams()->pages(dst + head, src + head, walked);
    }
    streams()->lines(dst + head + walked, src + head + walked, lines - walked);
    memcpy(dst + head + lines, src + head + lines, bytes - head - lines);
}

/* Destinations whose lines begin at the same places. */
static void stream_two(char *dst, char *dst2, const char *src, size_t bytes) {
    size_t head = hd_copy_gap(dst), lines = (bytes - head) / HD_COPY_LINE * HD_COPY_LINE;
    size_t tail = head + lines;

    memcpy(dst, src, head);
    memcpy(dst2, src, head);
    streams()->two(dst + head, dst2 + head, src + head, lines);
    memcpy(dst + tail, src + tail, bytes - tail);
    memcpy(dst2 + tail, src + tail, bytes - tail);
}

/* See the head of this file. */
static bool is_slow_as_string(const void *dst, const void *src) {
    return ((uintptr_t)dst - (uintptr_t)src - 1) % PAGE < HD_COPY_LINE / 2 - 1;
}

static bool is_for_vectors(const void *dst, const void *src, size_t bytes, hd_stores_t stores) {
    bool plain = stores == HD_STORES_PLAIN && bytes < MOST_VECTORS;
    return bytes >= HD_COPY_LONG && !hd_sanitizer_checks_copies &&
           (plain || (bytes < MOST_STRING && is_slow_as_string(dst, src)));
}

void hd_copy(void *dst, const void *src, size_t bytes, hd_stores_t stores) {
    if (bytes == 0 || dst == src) {
        return;
    }
    if (hd_stores_stream(stores)) {
        stream(dst, src, bytes, stores);
    } else if (is_for_vectors(dst, src, bytes, stores)) {
        copy_vectors(dst, src, bytes);
    } else {
        memcpy(dst, src, bytes);
    }
}

/* How far the windows up to byte `end` have filled whole lines of dst. */
static size_t filled(const char *dst, size_t end) {
    size_t partial = (uintptr_t)(dst + end) % HD_COPY_LINE;

    return partial < end ? end - partial : 0;
}

void hd_copy_stream_window(void *dst, const void *data, size_t begin, size_t end, bool last) {
    size_t from = filled(dst, begin), to = last ? end : filled(dst, end);

    stream((char *)dst + from, (const char *)data - (begin - from), to - from, HD_STORES_STREAMING);
}

static void window_to_many(uint32_t m, void *const *dst, size_t dst_offset, const char *src,
                           size_t begin, size_t end, size_t bytes, hd_stores_t stores) {
    for (uint32_t j = 0; j < m; j++) {
        char *to = (char *)dst[j] + dst_offset;

        if (to == src) {
            continue;
        }
        if (hd_stores_stream(stores)) {
            hd_copy_stream_window(to, src + begin, begin, end, end == bytes);
        } else {
            hd_copy(to + begin, src + begin, end - begin, stores);
        }
    }
}

void hd_copy_to_many(uint32_t m, void *const *dst, size_t dst_offset, const void *src, size_t bytes,
                     hd_stores_t stores) {
    size_t window = hd_stores_stream(stores) ? HD_COPY_WINDOW : PLAIN_WINDOW;
    uint32_t first = 0, end;

    if (bytes == 0) {
        return;
    }
    while (first < m && (char *)dst[first] + dst_offset == src) {
        first++;
    }
    for (end = m; end > first && (char *)dst[end - 1] + dst_offset == src;) {
        end--;
    }
    if (end - first == 1) { /* one alone needs no windows */
        hd_copy((char *)dst[first] + dst_offset, src, bytes, stores);
        return;
    }
    if (end - first == 2 && hd_stores_stream(stores) && bytes >= SHORT) {
        char *one = (char *)dst[first] + dst_offset, *two = (char *)dst[first + 1] + dst_offset;

        if (hd_copy_gap(one) == hd_copy_gap(two)) {
            stream_two(one, two, src, bytes);
            return;
        }
    }
    for (size_t at = 0; first < end && at < bytes; at += window) {
        size_t next = at + min_size(window, bytes - at);

        hd_copy_prefetch((const char *)src + next, bytes - next);
        window_to_many(end - first, dst + first, dst_offset, src, at, next, bytes, stores);
    }
}
