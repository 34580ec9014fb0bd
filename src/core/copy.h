/*
 * Moving bytes: by plain stores, by string instructions or by streaming stores, to one destination
 * or to several.
 *
 * Plain stores leave the data in the caches of the core that copies. String instructions, by which
 * C libraries copy more than a few KiB, are slower where source or destination lies in a core's own
 * caches or in another one's, by up to half of the time; and faster by as much at times where a
 * line of the destination would have to come from further away only to be overwritten. Streaming
 * (non-temporal) stores go past the caches: a line that is written whole need not be read first,
 * and nothing is evicted for it. They win, by up to half of the time, where the data would not stay
 * in the caches anyway, and cost several times as much where they would. Whether lines in order or
 * several pages at once are faster depends on the memory. Which is the case only the caller can
 * know.
 *
 * A release store does not order streaming stores. Whoever asked for them calls hd_copy_fence()
 * before it publishes that the data are there: once per chunk, not once per copy.
 *
 * Addresses and sizes are arbitrary. A destination may be exactly the source; otherwise no two
 * buffers may overlap. Any thread may call.
 */
#ifndef HD_CORE_COPY_H
#define HD_CORE_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HD_COPY_LINE = 64 };

typedef enum hd_stores {
    HD_STORES_PLAIN,
    HD_STORES_STRING,
    HD_STORES_STREAMING, /* line after line */
    HD_STORES_PAGES      /* streaming, some lines of each of four pages in turn */
} hd_stores_t;

static inline bool hd_stores_stream(hd_stores_t stores) {
    return stores >= HD_STORES_STREAMING;
}

void hd_copy(void *dst, const void *src, size_t bytes, hd_stores_t stores);

/* Bytes from which vectors of ours are used, for plain stores, and where string instructions would
 * be slow. Below, memcpy has vectors itself. */
enum { HD_COPY_LONG = 2048 };

/* Bytes of a copy that are enough for HD_STORES_PAGES to take turns. */
enum { HD_COPY_PAGES = 32 * 1024 };

/* To every dst[j] + dst_offset (bytes), j < m, except those that are src itself. The source is read
 * from memory once. */
void hd_copy_to_many(uint32_t m, void *const *dst, size_t dst_offset, const void *src, size_t bytes,
                     hd_stores_t stores);

/* Streaming stores before it become visible before any store after it. Costs some ns without them,
 * and waits for them to leave the core otherwise. */
static inline void hd_copy_fence(void) {
#if defined(__SSE2__)
    __builtin_ia32_sfence(); /* not emmintrin.h's name for it: see threads/clock.h */
#endif
}

/* ---- for copies whose source is made window by window (reduce_tree.c) ---- */

/* Bytes of a window that streams to its destinations from the first cache level. Measured: from 512
 * bytes to 2 KiB all the same, then slower, for reading and writing memory alternate. */
enum { HD_COPY_WINDOW = 2048 };

/* Bytes from p to the next line. */
static inline size_t hd_copy_gap(const void *p) {
    return -(uintptr_t)p % HD_COPY_LINE;
}

/* Streams bytes [begin, end) of some data to dst, the address of byte 0; windows come one after the
 * other. data: where the window lies. A line of dst that the window does not fill is left to the
 * next window, which finds its bytes before its own data: up to a line before `data` must be
 * readable unless begin is 0. `last`: nothing is left. */
void hd_copy_stream_window(void *dst, const void *data, size_t begin, size_t end, bool last);

/* Asks for the first lines of what is read next, at most `bytes`, while something is written:
 * hardware prefetchers stop at the end of a page and start anew with every window. */
static inline void hd_copy_prefetch(const void *src, size_t bytes) {
    enum { AHEAD = 8 * HD_COPY_LINE };

    for (size_t at = 0; at < bytes && at < AHEAD; at += HD_COPY_LINE) {
        __builtin_prefetch((const char *)src + at, 0, 3);
    }
}

#endif
