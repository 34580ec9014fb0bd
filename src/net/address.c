/* address.c: what a process tells the others so that they can reach it: the addresses of its lanes
 * and of its watch, as plain bytes. Made once, by the thread that opens the net (net.c); parsed by
 * whoever gets another process's (peer.c).
 */
#include "net/internal.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* An address is this head, then each lane's address, and the watch's, beginning at
 * multiples of 8 bytes. */
typedef struct head {
    uint32_t magic, version;
    uint32_t bytes; /* of all */
    uint32_t check; /* of all, with 0 here */
    uint32_t lanes;
    uint32_t lane_bytes[HD_NET_MOST_LANES];
    uint32_t watch_bytes;
    uint64_t token[2];
    hd_net_who_t who;
} head_t;
_Static_assert(sizeof(head_t) % 8 == 0, "the first lane's address is aligned");

enum { MAGIC = 0x6c646864, VERSION = 4, MOST_BYTES = 1 << 20 };

static size_t padded(size_t bytes) {
    return (bytes + 7) / 8 * 8;
}

static uint32_t check_more(uint32_t x, const void *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        x = (x ^ ((const uint8_t *)at)[i]) * 16777619u;
    }
    return x;
}

static uint32_t check_of(head_t head, const void *rest) {
    head.check = 0;
    return check_more(check_more(2166136261u, &head, sizeof(head)), rest,
                      head.bytes - sizeof(head));
}

/* A name that can be printed, whatever has come. */
static void clean(char name[HD_NET_HOST_NAME]) {
    name[HD_NET_HOST_NAME - 1] = '\0';
    for (char *c = name; *c; c++) {
        *c = (char)(*c > ' ' && *c <= '~' ? *c : '?');
    }
    if (!*name) {
        strcpy(name, "?");
    }
}

static hd_net_who_t who_am_i(void) {
    hd_net_who_t who = {.pid = (uint32_t)getpid()};
    struct stat space;
    if (stat("/proc/self/ns/pid", &space) == 0) {
        who.space = (uint32_t)space.st_ino;
    }
    (void)gethostname(who.host, sizeof(who.host) - 1); /* what does not fit is cut off */
    clean(who.host);
    return who;
}

bool hd_net_address_parse(const void *address, size_t bytes, hd_net_reach_t *reach) {
    head_t head;
    if (bytes < sizeof(head) || bytes > MOST_BYTES) {
        return false;
    }
    memcpy(&head, address, sizeof(head));
    const char *next = (const char *)address + sizeof(head);
    if (head.magic != MAGIC || head.version != VERSION || head.bytes != bytes || head.lanes == 0 ||
        head.lanes > HD_NET_MOST_LANES || head.check != check_of(head, next)) {
        return false;
    }
    size_t left = bytes - sizeof(head);
    for (uint32_t l = 0; l < head.lanes; l++) {
        size_t mine = padded(head.lane_bytes[l]);
        if (head.lane_bytes[l] == 0 || mine > left) {
            return false;
        }
        reach->lane[l] = next;
        next += mine;
        left -= mine;
    }
    reach->lanes = head.lanes;
    memcpy(reach->token, head.token, sizeof(head.token));
    reach->who = head.who;
    clean(reach->who.host);
    reach->watch = next;
    reach->watch_bytes = head.watch_bytes;
    return left == padded(head.watch_bytes);
}

ucc_status_t hd_net_address_make(hd_net_t *net) {
    net->who = who_am_i();
    head_t head = {.magic = MAGIC,
                   .version = VERSION,
                   .lanes = net->lanes,
                   .token = {net->token[0], net->token[1]},
                   .who = net->who};
    void *part[HD_NET_MOST_LANES] = {0};
    size_t bytes = sizeof(head), at = sizeof(head), watch_bytes = 0;
    ucc_status_t status = UCC_OK;
    for (uint32_t l = 0; l < net->lanes && status == UCC_OK; l++) {
        size_t mine = 0;
        status = hd_ucx_address(&net->lane[l].port, &part[l], &mine);
        head.lane_bytes[l] = (uint32_t)mine;
        bytes += padded(mine);
    }
    const void *watch = net->watch ? hd_watch_address(net->watch, &watch_bytes) : NULL;
    head.watch_bytes = (uint32_t)watch_bytes;
    bytes += padded(watch_bytes);
    net->address = status == UCC_OK ? hd_alloc(HD_LINE, bytes) : NULL;
    for (uint32_t l = 0; l < net->lanes; l++) {
        if (net->address && part[l]) {
            memcpy((char *)net->address + at, part[l], head.lane_bytes[l]);
            at += padded(head.lane_bytes[l]);
        }
        hd_free(part[l]);
    }
    if (!net->address) {
        return status == UCC_OK ? UCC_ERR_NO_MEMORY : status;
    }
    if (watch) {
        memcpy((char *)net->address + at, watch, watch_bytes);
    }
    head.bytes = (uint32_t)bytes;
    head.check = check_of(head, (char *)net->address + sizeof(head));
    memcpy(net->address, &head, sizeof(head));
    net->address_bytes = bytes;
    return UCC_OK;
}
