/* address.c: by what processes know whether they can meet, and the words of states (node.h). */
#include "node/internal.h"

#include "core/hash.h"
#include "core/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    ucc_status_t status;
    const char *text;
} words[HD_NODE_STATES] = {
    [HD_NODE_PENDING] = {UCC_INPROGRESS, "is waited for"},
    [HD_NODE_DONE] = {UCC_OK, "is there"},
    [HD_NODE_ABSENT] = {UCC_ERR_NOT_FOUND, "is not there"},
    [HD_NODE_DIED] = {UCC_ERR_IO_ERROR, "has died"},
    [HD_NODE_LEFT] = {UCC_ERR_NOT_FOUND, "has left"},
    [HD_NODE_UNLIKE] = {UCC_ERR_NOT_SUPPORTED, "has another version"},
    [HD_NODE_FOREIGN] = {UCC_ERR_NOT_SUPPORTED, "is another user's"},
    [HD_NODE_SPURNED] = {UCC_ERR_NOT_SUPPORTED, "does not answer as it should"},
    [HD_NODE_FORBIDDEN] = {UCC_ERR_NOT_SUPPORTED, "can't be connected to"},
    [HD_NODE_INHERITED] = {UCC_ERR_INVALID_PARAM, "was the peer of this process's parent"},
    [HD_NODE_UNEXPECTED] = {UCC_ERR_INVALID_PARAM, "does not offer the segment to this process"},
    [HD_NODE_WITHDRAWN] = {UCC_ERR_NOT_FOUND, "does not offer the segment any more"},
    [HD_NODE_CROWDED] = {UCC_ERR_NO_RESOURCE, "has too many requests to answer"},
    [HD_NODE_NO_DESCRIPTOR] = {UCC_ERR_NO_RESOURCE, "found no free descriptor (ulimit -n)"},
    [HD_NODE_NO_MEMORY] = {UCC_ERR_NO_MEMORY, "has no memory"},
    [HD_NODE_BAD_SEGMENT] = {UCC_ERR_IO_ERROR, "has sent no proper segment"},
};

ucc_status_t hd_node_status(hd_node_state_t state) {
    return words[state].status;
}

const char *hd_node_describe(hd_node_state_t state) {
    return words[state].text;
}

/* Two processes whose numbers differ can't meet, or must not: abstract sockets belong to a network
 * namespace, of one boot of one kernel. */
static bool find_identity(uint64_t identity[2]) {
    static const uint64_t key[2] = {0x686464, 0x6e6f6465};
    struct {
        char boot[40];
        uint64_t device, space, user;
    } here;
    struct stat space;
    memset(&here, 0, sizeof(here));
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    size_t n = file ? fread(here.boot, 1, sizeof(here.boot) - 1, file) : 0;
    if (file) {
        fclose(file);
    }
    if (n == 0 || stat("/proc/thread-self/ns/net", &space) != 0) {
        return false;
    }
    here.device = space.st_dev;
    here.space = space.st_ino;
    here.user = geteuid();
    hd_keyed_hash(key, &here, sizeof(here), identity);
    return true;
}

ucc_status_t hd_node_find_address(hd_node_address_t *address, const uint64_t door[2]) {
    enum { BYTES = sizeof(address->door) };
    *address = (hd_node_address_t){.pid = (uint32_t)getpid(), .uid = geteuid()};
    if (door) {
        memcpy(address->door, door, BYTES);
    } else if (getrandom(address->door, BYTES, 0) != BYTES) {
        hd_info("no door for processes of this machine: no random numbers: %s", strerror(errno));
        return UCC_ERR_NOT_SUPPORTED;
    }
    /* Without /proc, all machines would be one: this process has one of its own, then. */
    if (!find_identity(address->identity)) {
        memcpy(address->identity, address->door, BYTES);
    }
    return UCC_OK;
}

bool hd_node_is_at(const hd_node_address_t *address) {
    hd_node_address_t now;
    return hd_node_find_address(&now, address->door) == UCC_OK && hd_node_may_reach(&now, address);
}

bool hd_node_may_reach(const hd_node_address_t *a, const hd_node_address_t *b) {
    return hd_node_is_same(a->identity, b->identity) && a->uid == b->uid;
}

uint32_t hd_node_door_name(const uint64_t door[2], char name[HD_NODE_NAME]) {
    static const char purpose[] = "heddle: the door's socket";
    uint64_t hash[2];
    hd_keyed_hash(door, purpose, sizeof(purpose), hash);
    name[0] = 0;
    return 1 + (uint32_t)snprintf(name + 1, HD_NODE_NAME - 1, "heddle-%016llx%016llx",
                                  (unsigned long long)hash[0], (unsigned long long)hash[1]);
}
