/* proof.c: how two processes show each other that they know a key, without showing it: by a keyed
 * hash of what both know.
 */
#include "net/watch.h"

#include "core/hash.h"

void hd_watch_prove(const uint64_t key[2], const hd_watch_proven_t *proven, uint64_t proof[2]) {
    hd_keyed_hash(key, proven, sizeof(*proven), proof);
}
