/* two.h: nodes of one process, which meet as those of two would; and what stands behind a door that
 * is none of ours. For tests that run in a process of their own each.
 */
#ifndef TESTS_NODE_TWO_H_
#define TESTS_NODE_TWO_H_

#include "../support/deadline.h"
#include "node/internal.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { LAYOUT = 77, BYTES = 8192 };

static const uint64_t name[2] = {3, 4};

__attribute__((unused)) static hd_node_t *opened(void) {
    hd_node_t *node;
    cr_assert_eq(hd_node_open(LAYOUT, NULL, &node), UCC_OK);
    return node;
}

/* As the caller finds it; lets all of them work until then. */
#define UNTIL(_condition, ...)                                                                     \
    do {                                                                                           \
        hd_node_t *const all_[] = {__VA_ARGS__};                                                   \
        deadline_t deadline_ = deadline_start(#_condition);                                        \
        while (!(_condition)) {                                                                    \
            for (size_t i_ = 0; i_ < sizeof(all_) / sizeof(all_[0]); i_++) {                       \
                hd_node_progress(all_[i_]);                                                        \
            }                                                                                      \
            deadline_poll(&deadline_);                                                             \
        }                                                                                          \
    } while (0)

/* All that is under way has come. */
__attribute__((unused)) static void settle(hd_node_t *a, hd_node_t *b) {
    for (int idle = 0; idle < 3; idle++) {
        bool some = hd_node_progress(a);
        some = hd_node_progress(b) || some;
        idle = some ? 0 : idle;
    }
}

__attribute__((unused)) static uint32_t descriptors(void) {
    uint32_t n = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder)) {
        n++;
    }
    closedir(folder);
    return n;
}

__attribute__((unused)) static uint32_t lines_of(const hd_node_t *node) {
    uint32_t n = 0;
    for (const hd_node_line_t *line = node->lines; line; line = line->next) {
        n += line->fd >= 0;
    }
    return n;
}

__attribute__((unused)) static hd_node_peer_t *meet(hd_node_t *node, const hd_node_t *other,
                                                    bool connects) {
    hd_node_peer_t *peer;
    cr_assert_eq(hd_node_meet(node, hd_node_address(other), connects, &peer), UCC_OK);
    return peer;
}

__attribute__((unused)) static hd_node_fetch_t *fetch_from(hd_node_t *node,
                                                           const hd_node_t *leader) {
    hd_node_fetch_t *fetch;
    cr_assert_eq(hd_node_fetch(node, hd_node_address(leader), name, &fetch), UCC_OK);
    return fetch;
}

/* The first byte of the segment is 42. */
__attribute__((unused)) static hd_node_offer_t *offer_to(hd_node_t *node, const hd_node_t *member) {
    hd_node_segment_t segment;
    hd_node_offer_t *offer;
    void *where;
    uint64_t doors[1][2];
    memcpy(doors[0], member->address.door, sizeof(doors[0]));
    cr_assert_eq(hd_segment_create(BYTES, &segment), UCC_OK);
    cr_assert_eq(hd_segment_map(&segment, NULL, &where), UCC_OK);
    *(char *)where = 42;
    cr_assert_eq(hd_node_offer(node, name, &segment, (const uint64_t(*)[2])doors, 1, &offer),
                 UCC_OK);
    return offer;
}

__attribute__((unused)) static void expect_segment(hd_node_fetch_t *fetch) {
    hd_node_segment_t segment;
    void *where;
    cr_assert_eq(hd_node_fetch_test(fetch, &segment), UCC_OK);
    cr_assert_eq(hd_segment_map(&segment, NULL, &where), UCC_OK);
    cr_expect_eq(segment.bytes, BYTES);
    cr_expect_eq(*(char *)where, 42);
    hd_segment_close(&segment);
}

/* --- others ----------------------------------------------------------------------------------- */

__attribute__((unused)) static struct sockaddr_un place_of(const uint64_t door[2],
                                                           socklen_t *bytes) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    uint32_t n = hd_node_door_name(door, at.sun_path);
    *bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    return at;
}

/* A connection to the node's door by whoever knows its socket. */
__attribute__((unused)) static int stranger(const hd_node_t *node) {
    socklen_t bytes;
    struct sockaddr_un at = place_of(node->address.door, &bytes);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    cr_assert_geq(fd, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&at, bytes), 0);
    return fd;
}

/* A socket behind a door that is not ours, and less than like's; and its address. */
__attribute__((unused)) static int impostor(const hd_node_t *like, hd_node_address_t *address) {
    socklen_t bytes;
    *address = like->address;
    address->door[0] /= 2;
    struct sockaddr_un at = place_of(address->door, &bytes);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    cr_assert_geq(fd, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&at, bytes), 0);
    cr_assert_eq(listen(fd, 100), 0);
    return fd;
}

__attribute__((unused)) static hd_node_message_t hello_to(const hd_node_t *node) {
    hd_node_message_t m = hd_node_write(HD_NODE_HELLO);
    m.word = LAYOUT;
    memcpy(m.name, node->address.door, sizeof(m.name));
    m.from[0] = 1234;
    return m;
}

/* With n copies of a descriptor. */
__attribute__((unused)) static void say(int fd, const hd_node_message_t *m, int with, uint32_t n) {
    char room[CMSG_SPACE(64 * sizeof(int))] = {0};
    struct iovec part = {(void *)(uintptr_t)m, sizeof(*m)};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (n > 0) {
        header.msg_control = room;
        header.msg_controllen = CMSG_SPACE(n * sizeof(int));
        struct cmsghdr *control = CMSG_FIRSTHDR(&header);
        control->cmsg_level = SOL_SOCKET;
        control->cmsg_type = SCM_RIGHTS;
        control->cmsg_len = CMSG_LEN(n * sizeof(int));
        for (uint32_t i = 0; i < n; i++) {
            memcpy(CMSG_DATA(control) + i * sizeof(int), &with, sizeof(int));
        }
    }
    cr_assert_eq(sendmsg(fd, &header, MSG_NOSIGNAL), (ssize_t)sizeof(*m));
}

/* Lets the node work until something comes; 0: the end. */
__attribute__((unused)) static size_t hear(int fd, hd_node_t *node, hd_node_message_t *m) {
    ssize_t n = -1;
    UNTIL((n = recv(fd, m, sizeof(*m), MSG_DONTWAIT)) >= 0 || errno == ECONNRESET, node);
    return n < 0 ? 0 : (size_t)n;
}

#endif
