/* node.c: fuzz target of what processes of one machine say to each other at their doors (src/node):
 * messages, descriptors, and connections that come and end.
 *
 * The first byte of an input says which: the parser alone (wire.c), which gets bytes as they are at
 * each stage of a connection; or a whole node with real sockets, of which nothing waits, so that
 * all that is sent is there at once. Then the input is a program: each byte an instruction, with
 * operands. Others connect, greet, say what they like with whatever descriptors, close, and stand
 * behind doors of their own where the node fetches from; and the node offers, fetches, meets, and
 * ends. Messages are in order unless the input spoils them.
 *
 * Whatever comes: what the node says is in order; nobody who has not named its door hears anything;
 * a fetch that is done has a sealed segment of its size; and no descriptor is left at the end.
 */
#include "node/internal.h"

#include "core/log.h"
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { PARSER, WHOLE, MODES };
enum {
    COME,
    SAY,
    BYTES,
    ENDS,
    HEAR,
    LOOK,
    OFFER,
    END_OFFER,
    WITHDRAW,
    FETCH,
    END_FETCH,
    TEST,
    MEET,
    PART,
    ACCEPT,
    N
};
enum { LAYOUT = 5, OTHERS = 6, DOORS = 3, OBJECTS = 4, SMALL = 4096 };

typedef struct other {
    int fd;                          /* -1: none */
    bool accepted, greeted, welcome; /* by us; it has named the door; the node has answered so */
} other_t;

static hd_node_t *node;
static other_t other[OTHERS];
static int door[DOORS]; /* sockets behind doors that are not ours */
static hd_node_offer_t *offer[OBJECTS];
static hd_node_fetch_t *fetch[OBJECTS];
static hd_node_peer_t *peer[OBJECTS];

/* --- the parser ------------------------------------------------------------------------------- */

static void parse_bytes(input_t *in) {
    hd_node_message_t m;
    hd_node_stage_t stage = (hd_node_stage_t)(next_byte(in) % (HD_NODE_AT_END + 1));
    uint32_t descriptors = next_byte(in) % 5;
    bool lost = next_byte(in) % 2, in_order = next_byte(in) % 2;
    uint8_t *exact =
        malloc(in->left ? in->left : 1); /* so that a sanitizer sees what is read beyond */
    CHECK(exact);
    if (in->left > 0) {
        memcpy(exact, in->at, in->left);
    }
    if (in_order && in->left >= 6) { /* mostly, it is not stopped by the first fields */
        hd_node_message_t head = hd_node_write(HD_NODE_HELLO);
        memcpy(exact, &head, 6);
    }
    if (!hd_node_parse(stage, exact, in->left, descriptors, lost, &m)) {
        CHECK(in->left == HD_NODE_MESSAGE && memcmp(&m, exact, sizeof(m)) == 0);
        CHECK(m.kind > 0 && m.kind < HD_NODE_KINDS && stage != HD_NODE_AT_END);
        CHECK(descriptors + lost == (m.kind == HD_NODE_SEGMENT));
        CHECK((stage == HD_NODE_AT_HELLO) == (m.kind == HD_NODE_HELLO));
    }
    free(exact);
}

/* --- others ----------------------------------------------------------------------------------- */

/* Door 0 is the node's. */
static void door_of(uint32_t i, uint64_t to[2]) {
    memcpy(to, node->address.door, 2 * sizeof(to[0]));
    to[0] ^= i;
}

static struct sockaddr_un place_of(uint32_t i, socklen_t *bytes) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    uint64_t name[2];
    door_of(i, name);
    *bytes =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + hd_node_door_name(name, at.sun_path));
    return at;
}

static int make_socket(void) {
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0);
    return fd;
}

static void end(other_t *o) {
    if (o->fd >= 0) {
        close(o->fd);
    }
    *o = (other_t){.fd = -1};
}

static void come(other_t *o) {
    socklen_t bytes;
    struct sockaddr_un at = place_of(0, &bytes);
    end(o);
    o->fd = make_socket();
    if (connect(o->fd, (struct sockaddr *)&at, bytes) != 0) {
        CHECK(errno == EAGAIN);
        end(o);
    }
}

static void take_in(other_t *o, uint32_t i) {
    int fd = accept4(door[i], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
        end(o);
        *o = (other_t){.fd = fd, .accepted = true};
    }
}

static void name_of(input_t *in, uint64_t name[2]) {
    name[0] = 1 + next_byte(in) % 4;
    name[1] = 9;
}

static int some_file(uint32_t which) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0);
    if (which != 1) {
        CHECK(ftruncate(fd, SMALL) == 0);
    }
    if (which != 2) {
        CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
    }
    return fd;
}

static void send_with(int to, const void *bytes, size_t n, uint32_t files, uint32_t which) {
    char room[CMSG_SPACE(8 * sizeof(int))] = {0};
    struct iovec part = {(void *)(uintptr_t)bytes, n};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    int fd = -1;
    if (files > 0) {
        fd = some_file(which);
        header.msg_control = room;
        header.msg_controllen = CMSG_SPACE(files * sizeof(int));
        struct cmsghdr *control = CMSG_FIRSTHDR(&header);
        control->cmsg_level = SOL_SOCKET;
        control->cmsg_type = SCM_RIGHTS;
        control->cmsg_len = CMSG_LEN(files * sizeof(int));
        for (uint32_t i = 0; i < files; i++) {
            memcpy(CMSG_DATA(control) + i * sizeof(int), &fd, sizeof(int));
        }
    }
    (void)sendmsg(to, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (fd >= 0) {
        close(fd);
    }
}

/* A message that is in order, of that kind; the input may spoil a byte of it. */
static void say(other_t *o, input_t *in) {
    uint32_t kind = 1 + next_byte(in) % (HD_NODE_KINDS - 1), how = next_byte(in);
    hd_node_message_t m = hd_node_write(kind);
    uint32_t files = kind == HD_NODE_SEGMENT;
    if (kind == HD_NODE_HELLO) {
        m.word = LAYOUT;
        door_of(how & 0x40 ? 1 : 0, m.name);
        door_of(1 + next_byte(in) % (DOORS - 1), m.from);
    } else if (kind == HD_NODE_VERDICT) {
        m.word = LAYOUT;
        m.code = how & 0x40 ? next_byte(in) % HD_NODE_VERDICTS : HD_NODE_WELCOME;
        m.holds = next_byte(in) % 2;
    } else if (kind >= HD_NODE_FETCH) {
        name_of(in, m.name);
        m.number = 1 + next_byte(in) % 4;
        m.word = kind == HD_NODE_SEGMENT ? SMALL : 0;
        m.code = kind == HD_NODE_TAKEN    ? HD_NODE_DONE
                 : kind == HD_NODE_REFUSE ? HD_NODE_CROWDED
                                          : 0;
    }
    if (how & 0x80) {
        ((uint8_t *)&m)[next_byte(in) % sizeof(m)] ^= next_byte(in);
        files = next_byte(in) % 7;
    }
    o->greeted = o->greeted || memcmp(m.name, node->address.door, sizeof(m.name)) == 0;
    send_with(o->fd, &m, sizeof(m), files, how % 4);
}

/* What the node says. */
static void hear(other_t *o) {
    hd_node_message_t m, checked;
    char room[CMSG_SPACE(8 * sizeof(int))];
    struct iovec part = {&m, sizeof(m)};
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    ssize_t n = recvmsg(o->fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n <= 0) {
        return;
    }
    struct cmsghdr *control = CMSG_FIRSTHDR(&header);
    bool has_file = control != NULL;
    CHECK((size_t)n == sizeof(m) && !(header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)));
    CHECK(m.version == HD_NODE_VERSION && has_file == (m.kind == HD_NODE_SEGMENT));
    if (has_file) {
        int fd;
        hd_node_segment_t segment;
        memcpy(&fd, CMSG_DATA(control), sizeof(fd));
        CHECK(hd_segment_adopt(fd, SMALL, &segment) == UCC_OK);
        hd_segment_close(&segment);
    }
    hd_node_stage_t stage = m.kind == HD_NODE_HELLO     ? HD_NODE_AT_HELLO
                            : m.kind == HD_NODE_VERDICT ? HD_NODE_AT_VERDICT
                                                        : HD_NODE_AT_OPEN;
    CHECK(!hd_node_parse(stage, &m, sizeof(m), has_file, false, &checked));
    if (o->accepted) {
        CHECK(m.kind != HD_NODE_VERDICT);
    } else {
        CHECK(m.kind != HD_NODE_HELLO && o->greeted);
        CHECK(o->welcome == (m.kind != HD_NODE_VERDICT));
        o->welcome = o->welcome || m.code == HD_NODE_WELCOME;
    }
}

/* --- the node --------------------------------------------------------------------------------- */

static void end_offer(uint32_t i) {
    if (offer[i]) {
        hd_node_offer_end(offer[i]);
    }
    offer[i] = NULL;
}

static void make_offer(uint32_t i, input_t *in) {
    uint64_t name[2], doors[DOORS][2];
    hd_node_segment_t segment;
    uint32_t n = next_byte(in) % DOORS;
    end_offer(i);
    name_of(in, name);
    for (uint32_t k = 0; k < n; k++) {
        door_of(1 + k, doors[k]);
    }
    CHECK(hd_segment_create(SMALL, &segment) == UCC_OK);
    if (hd_node_offer(node, name, &segment, (const uint64_t(*)[2])doors, n, &offer[i]) != UCC_OK) {
        hd_segment_close(&segment);
    }
}

static void end_fetch(uint32_t i) {
    if (fetch[i]) {
        hd_node_fetch_end(fetch[i]);
    }
    fetch[i] = NULL;
}

static hd_node_address_t address_of(input_t *in) {
    hd_node_address_t address = node->address;
    door_of(next_byte(in) % DOORS, address.door);
    return address;
}

static void make_fetch(uint32_t i, input_t *in) {
    uint64_t name[2];
    hd_node_address_t address = address_of(in);
    end_fetch(i);
    name_of(in, name);
    (void)hd_node_fetch(node, &address, name, &fetch[i]);
}

static void test_all(void) {
    for (uint32_t i = 0; i < OBJECTS; i++) {
        hd_node_segment_t segment;
        struct stat stat;
        if (offer[i]) {
            (void)hd_node_offer_test(offer[i]);
        }
        if (fetch[i] && hd_node_fetch_test(fetch[i], &segment) == UCC_OK && segment.fd >= 0) {
            CHECK(fstat(segment.fd, &stat) == 0 && (size_t)stat.st_size == segment.bytes);
            CHECK(fcntl(segment.fd, F_GET_SEALS) & F_SEAL_SHRINK);
            hd_segment_close(&segment);
        }
    }
}

static void part(uint32_t i) {
    if (peer[i]) {
        hd_node_part(peer[i]);
    }
    peer[i] = NULL;
}

static void meet(uint32_t i, input_t *in) {
    hd_node_address_t address = address_of(in);
    part(i);
    (void)hd_node_meet(node, &address, next_byte(in) % 2, &peer[i]);
}

static void step(input_t *in) {
    uint32_t what = next_byte(in), which = what / N;
    other_t *o = &other[which % OTHERS];
    uint32_t i = which % OBJECTS;
    uint8_t bytes[2 * HD_NODE_MESSAGE];
    uint64_t name[2];
    size_t n;
    switch (what % N) {
    case COME:
        come(o);
        break;
    case ACCEPT:
        take_in(o, next_byte(in) % DOORS);
        break;
    case SAY:
        if (o->fd >= 0) {
            say(o, in);
        }
        break;
    case BYTES:
        n = next_byte(in) % sizeof(bytes);
        next_bytes(in, bytes, n);
        if (o->fd >= 0) {
            send_with(o->fd, bytes, n, next_byte(in) % 3, 0);
        }
        break;
    case HEAR:
        if (o->fd >= 0) {
            hear(o);
        }
        break;
    case ENDS:
        end(o);
        break;
    case LOOK:
        (void)hd_node_progress(node);
        break;
    case OFFER:
        make_offer(i, in);
        break;
    case END_OFFER:
        end_offer(i);
        break;
    case WITHDRAW:
        name_of(in, name);
        hd_node_withdraw(node, name);
        break;
    case FETCH:
        make_fetch(i, in);
        break;
    case END_FETCH:
        end_fetch(i);
        break;
    case TEST:
        test_all();
        break;
    case MEET:
        meet(i, in);
        break;
    case PART:
        part(i);
        break;
    }
}

static void run_program(input_t *in) {
    int before = dup(0);
    CHECK(before >= 0 && close(before) == 0);
    CHECK(hd_node_open(LAYOUT, NULL, &node) == UCC_OK);
    for (uint32_t i = 1; i < DOORS; i++) {
        socklen_t bytes;
        struct sockaddr_un at = place_of(i, &bytes);
        door[i] = make_socket();
        CHECK(bind(door[i], (struct sockaddr *)&at, bytes) == 0 && listen(door[i], 8) == 0);
    }
    door[0] = -1;
    for (uint32_t i = 0; i < OTHERS; i++) {
        other[i] = (other_t){.fd = -1};
    }
    for (int steps = 0; in->left > 0 && steps < 400; steps++) {
        step(in);
    }
    (void)hd_node_progress(node);
    for (uint32_t i = 0; i < OBJECTS; i++) {
        end_offer(i);
        end_fetch(i);
        part(i);
    }
    (void)hd_node_progress(node);
    hd_node_close(node);
    for (uint32_t i = 0; i < OTHERS; i++) {
        end(&other[i]);
    }
    for (uint32_t i = 1; i < DOORS; i++) {
        close(door[i]);
    }
    int after = dup(0);
    CHECK(after == before && close(after) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input_t in = {data, size};
    hd_log_set_level(HD_LOG_FATAL);
    if (next_byte(&in) % MODES == PARSER) {
        parse_bytes(&in);
    } else {
        run_program(&in);
    }
    return 0;
}
