/* segment.c: memfds (segment.h). Knows nothing of the rest of this folder. */
#include "node/segment.h"

#include "core/descriptors.h"
#include "core/log.h"
#include "malloc/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif

enum {
    SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
    READ_ONLY = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE
};

static ucc_status_t status_of(int error) {
    switch (error) {
    case ENOMEM:
    case ENOSPC:
    case EFBIG:
    case EINVAL: /* of ftruncate: larger than any file */
        return UCC_ERR_NO_MEMORY;
    case EMFILE:
    case ENFILE:
        return UCC_ERR_NO_RESOURCE;
    default:
        return UCC_ERR_NOT_SUPPORTED;
    }
}

static ucc_status_t fail(hd_node_segment_t *segment, const char *what, int error) {
    hd_warn("no shared memory of %zu bytes: %s: %s", segment->bytes, what, strerror(error));
    hd_segment_close(segment);
    return status_of(error);
}

size_t hd_segment_most(void) {
    return hd_memfd_most();
}

ucc_status_t hd_segment_create(size_t bytes, hd_node_segment_t *segment) {
    *segment = (hd_node_segment_t){.fd = -1, .bytes = bytes};
    if (bytes == 0) {
        hd_warn("a segment of no bytes is asked for");
        return UCC_ERR_INVALID_PARAM;
    }
    if (bytes > LONG_MAX) {
        return fail(segment, "ftruncate", EFBIG);
    }
    /* Beyond the limit, ftruncate would end the process by SIGXFSZ. */
    if (bytes > hd_segment_most()) {
        hd_warn("no shared memory of %zu bytes: the limit of a file's size (ulimit -f) is %zu",
                bytes, hd_segment_most());
        return UCC_ERR_NO_RESOURCE;
    }
    (void)hd_descriptors_reserve(1);
    segment->fd = hd_memfd("heddle");
    if (segment->fd < 0) {
        return fail(segment, "memfd_create", errno);
    }
    if (ftruncate(segment->fd, (off_t)bytes) != 0) {
        return fail(segment, "ftruncate", errno);
    }
    if (fcntl(segment->fd, F_ADD_SEALS, SEALS) != 0) {
        return fail(segment, "seals", errno == EINVAL ? EPERM : errno);
    }
    return UCC_OK;
}

/* NULL: it is what it should be. No file of a file system has these seals. */
static const char *fault_of(int fd, size_t bytes) {
    struct stat stat;
    int seals = fcntl(fd, F_GET_SEALS), flags = fcntl(fd, F_GETFL);
    if (seals < 0) {
        return "it is no memfd";
    }
    if ((seals & SEALS) != SEALS) {
        return "it may still change its size";
    }
    if ((seals & READ_ONLY) || flags < 0 || (flags & O_ACCMODE) != O_RDWR) {
        return "it can't be written";
    }
    if (fstat(fd, &stat) != 0 || stat.st_size < 0 || (size_t)stat.st_size != bytes || bytes == 0) {
        return "it has another size";
    }
    return NULL;
}

ucc_status_t hd_segment_adopt(int fd, size_t bytes, hd_node_segment_t *segment) {
    *segment = (hd_node_segment_t){.fd = fd, .bytes = bytes};
    const char *fault = fault_of(fd, bytes);
    if (fault) {
        hd_warn("a segment of %zu bytes, sent by another process, is refused: %s", bytes, fault);
        hd_segment_close(segment);
        return UCC_ERR_INVALID_PARAM;
    }
    return UCC_OK;
}

ucc_status_t hd_segment_map(const hd_node_segment_t *segment, void *at, void **where) {
    void *base = hd_memfd_map(segment->fd, segment->bytes, at);
    if (base == MAP_FAILED) {
        hd_warn("a segment of %zu bytes can't be mapped: %s", segment->bytes, strerror(errno));
        *where = NULL;
        return UCC_ERR_NO_MEMORY;
    }
    *where = base;
    return UCC_OK;
}

void hd_segment_close(hd_node_segment_t *segment) {
    if (segment->fd >= 0) {
        close(segment->fd);
    }
    segment->fd = -1;
}
