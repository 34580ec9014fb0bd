/* segment.h: memory that several processes map: a memfd, which has no name in the file system, and
 * is sealed so that no process can take a page of it away from another one.
 */
#ifndef HD_NODE_SEGMENT_H
#define HD_NODE_SEGMENT_H

#include <stddef.h>
#include <ucc/api/ucc_status.h>

typedef struct hd_node_segment {
    int fd; /* close-on-exec; -1: none. Mappings outlive it. */
    size_t bytes;
} hd_node_segment_t;

/* No segment can have more bytes: the process's limit of files, if it has one. */
size_t hd_segment_most(void);

/* Makes a segment of so many bytes, all zero, which take memory when they are first written. The
 * number may be far larger than the memory that there is.
 *
 * UCC_ERR_INVALID_PARAM: of no bytes. UCC_ERR_NO_MEMORY: that many can't be had.
 * UCC_ERR_NO_RESOURCE: no descriptor, or the limit of a file's size (RLIMIT_FSIZE) is less.
 * UCC_ERR_NOT_SUPPORTED: the system refuses memfds or seals. On an error, a line at level warn says
 * which, and segment->fd is -1. */
ucc_status_t hd_segment_create(size_t bytes, hd_node_segment_t *segment);

/* Takes a descriptor that another process has sent. UCC_ERR_INVALID_PARAM: it is not a memfd of
 * exactly so many bytes that can be read and written, and can neither shrink nor grow (logged at
 * level warn); then it is closed, and segment->fd is -1. */
ucc_status_t hd_segment_adopt(int fd, size_t bytes, hd_node_segment_t *segment);

/* Maps all of it, shared, for reading and writing: at this address, in place of what is mapped
 * there, or where there is room (NULL). The caller unmaps it. Pages are placed by whoever touches
 * them first. UCC_ERR_NO_MEMORY: it can't be mapped (logged at level warn). */
ucc_status_t hd_segment_map(const hd_node_segment_t *segment, void *at, void **where);

/* Closes the descriptor, if there is one. */
void hd_segment_close(hd_node_segment_t *segment);

#endif
