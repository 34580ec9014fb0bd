/* address.c: what a process tells the others so that they can reach it: the addresses of its lanes
 * and of its watch, as plain bytes. Made once, by the thread that opens the net (net.c); parsed by
 * whoever gets another process's (peer.c).
 */
#include "net/internal.h"

#include <string.h>

/* An address is this head, then each lane's address, those by which other hosts reach the lanes if
 * that is not the same, and the watch's, beginning at multiples of 8 bytes. */
typedef struct head {
    uint32_t magic, version;
    uint32_t bytes; /* of all */
    uint32_t check; /* of all, with 0 here */
    uint32_t lanes;
    uint32_t lane_bytes[HD_NET_MOST_LANES], far_bytes[HD_NET_MOST_LANES];
    uint32_t watch_bytes;
    uint64_t token[2], host;
    hd_who_t who;
} head_t;
_Static_assert(sizeof(head_t) % 8 == 0, "the first lane's address is aligned");

enum { MAGIC = 0x6c646864, VERSION = 5, MOST_BYTES = 1 << 20 };

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

/* NULL: there are not so many bytes, or it is said to be none. */
static const void *take(const char **next, size_t *left, uint32_t bytes) {
    const char *part = *next;
    if (bytes == 0 || padded(bytes) > *left) {
        return NULL;
    }
    *next += padded(bytes);
    *left -= padded(bytes);
    return part;
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
        if (!(reach->lane[l] = take(&next, &left, head.lane_bytes[l]))) {
            return false;
        }
    }
    for (uint32_t l = 0; l < head.lanes; l++) {
        reach->far[l] = head.far_bytes[l] ? take(&next, &left, head.far_bytes[l]) : reach->lane[l];
        if (!reach->far[l]) {
            return false;
        }
    }
    reach->lanes = head.lanes;
    reach->host = head.host;
    memcpy(reach->token, head.token, sizeof(head.token));
    reach->who = head.who;
    hd_who_clean(&reach->who);
    reach->watch = next;
    reach->watch_bytes = head.watch_bytes;
    return left == padded(head.watch_bytes);
}

/* Asks UCX for the addresses of all lanes. parts: a place for each. */
static ucc_status_t ask(hd_net_t *net, bool far, void **parts, uint32_t *bytes) {
    ucc_status_t status = UCC_OK;
    for (uint32_t l = 0; l < net->lanes && status == UCC_OK; l++) {
        size_t mine = 0;
        hd_lock(&net->lane[l].lock); /* others may pump */
        status = hd_ucx_address(&net->lane[l].port, far, &parts[l], &mine);
        hd_unlock(&net->lane[l].lock);
        bytes[l] = (uint32_t)mine;
    }
    return status;
}

static char *put(char *to, const void *part, size_t bytes) {
    if (bytes) {
        memcpy(to, part, bytes);
    }
    return to + padded(bytes);
}

ucc_status_t hd_net_address_make(hd_net_t *net, bool far, hd_net_address_t *address) {
    if (!far) { /* later, others read it */
        net->who = hd_who_am_i();
    }
    head_t head = {.magic = MAGIC,
                   .version = VERSION,
                   .lanes = net->lanes,
                   .token = {net->token[0], net->token[1]},
                   .host = net->host,
                   .who = net->who};
    void *part[2 * HD_NET_MOST_LANES] = {0};
    size_t watch_bytes = 0;
    ucc_status_t status = ask(net, false, part, head.lane_bytes);
    if (status == UCC_OK && far) {
        status = ask(net, true, part + net->lanes, head.far_bytes);
    }
    const void *watch = net->watch ? hd_watch_address(net->watch, &watch_bytes) : NULL;
    head.watch_bytes = (uint32_t)watch_bytes;
    head.bytes = (uint32_t)(sizeof(head) + padded(watch_bytes));
    for (uint32_t l = 0; l < net->lanes; l++) {
        head.bytes += (uint32_t)(padded(head.lane_bytes[l]) + padded(head.far_bytes[l]));
    }
    char *all = status == UCC_OK ? hd_alloc(HD_LINE, head.bytes) : NULL;
    char *at = all + sizeof(head);
    for (uint32_t l = 0; l < 2 * net->lanes; l++) {
        bool is_far = l >= net->lanes;
        if (all) {
            at = put(at, part[l], is_far ? head.far_bytes[l - net->lanes] : head.lane_bytes[l]);
        }
        hd_free(part[l]);
    }
    if (!all) {
        return status == UCC_OK ? UCC_ERR_NO_MEMORY : status;
    }
    (void)put(at, watch, watch_bytes);
    head.check = check_of(head, all + sizeof(head));
    memcpy(all, &head, sizeof(head));
    *address = (hd_net_address_t){all, head.bytes};
    return UCC_OK;
}
