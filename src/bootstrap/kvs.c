/* kvs.c: an address and a key from the launcher (kvs.h). */
#include "bootstrap/kvs.h"
#include "bootstrap/bootstrap.h"

#include "core/log.h"

#include <errno.h>
#include <netinet/in.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { KEY = 32, KEY_TEXT = 2 * KEY };

/* PMIx first: launchers that speak it may set the variables of others, too. */
static const hd_kvs_calls_t *calls(void) {
    return getenv(hd_pmix_calls.variable)   ? &hd_pmix_calls
           : getenv(hd_pmi2_calls.variable) ? &hd_pmi2_calls
                                            : NULL;
}

bool hd_kvs_is_there(void) {
    return calls() != NULL;
}

/* The connection with the launcher, from the first call to the process's end: others may still wait
 * for each other when this process needs it no more, and a launcher takes one that leaves for lost.
 */
static struct {
    const hd_kvs_calls_t *calls; /* NULL: not made yet */
    pid_t pid;                   /* not that of a child of a fork */
    hd_kvs_place_t place;
    uint32_t shared; /* texts so far: each has a key of its own */
} launcher;

static void leave_launcher(void) {
    if (getpid() == launcher.pid) {
        launcher.calls->close();
    }
}

static ucc_status_t reach_launcher(void) {
    if (launcher.calls) {
        return UCC_OK;
    }
    const hd_kvs_calls_t *found = calls();
    ucc_status_t status = found->open(&launcher.place);
    if (status == UCC_OK) {
        launcher.calls = found;
        launcher.pid = getpid();
        atexit(leave_launcher);
    }
    return status;
}

ucc_status_t hd_kvs_size(uint32_t *size) {
    ucc_status_t status = reach_launcher();
    *size = launcher.place.size;
    return status;
}

/* A port of the system's choice, at this host alone where that is enough. Into address: where
 * others find it. */
static ucc_status_t listen_anywhere(heddle_bootstrap_t *b, bool one_host, int *listener,
                                    char *address, size_t size) {
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr = {htonl(one_host ? INADDR_LOOPBACK : INADDR_ANY)}};
    socklen_t bytes = sizeof(at);
    char host[256] = "127.0.0.1";
    *listener = hd_address_listen((struct sockaddr *)&at, bytes, hd_door_backlog(b->size));
    if (*listener < 0 || getsockname(*listener, (struct sockaddr *)&at, &bytes) != 0 ||
        (!one_host && gethostname(host, sizeof(host)) != 0)) {
        hd_error("bootstrap of rank 0: cannot listen: %s%s", strerror(errno), hd_files_hint(errno));
        return UCC_ERR_NO_RESOURCE;
    }
    snprintf(address, size, "%s:%u", host, ntohs(at.sin_port));
    return UCC_OK;
}

/* Rank 0's: a new key, and the address if it has none. */
static ucc_status_t compose(heddle_bootstrap_t *b, bool one_host, bool has_address, int *listener,
                            char text[HD_KVS_TEXT]) {
    uint8_t key[KEY];
    randombytes_buf(key, sizeof(key));
    sodium_bin2hex(text, HD_KVS_TEXT, key, sizeof(key));
    sodium_memzero(key, sizeof(key));
    if (has_address) {
        return UCC_OK;
    }
    return listen_anywhere(b, one_host, listener, text + KEY_TEXT, HD_KVS_TEXT - KEY_TEXT);
}

static ucc_status_t take(heddle_bootstrap_t *b, char text[HD_KVS_TEXT], char *address) {
    ucc_status_t status = UCC_OK;
    if (strlen(text) < KEY_TEXT) {
        hd_error("heddle_bootstrap_env: rank 0 has left no key");
        return UCC_ERR_IO_ERROR;
    }
    if (!b->key) {
        status = hd_key_keep(b, text, KEY_TEXT, "the launcher");
    }
    strcpy(address, text + KEY_TEXT);
    return status;
}

ucc_status_t hd_kvs_meet(heddle_bootstrap_t *b, bool has_address, int *listener,
                         char address[HD_KVS_TEXT]) {
    char text[HD_KVS_TEXT] = "", name[32];
    const hd_kvs_place_t *place = &launcher.place;
    ucc_status_t status = reach_launcher();
    if (status != UCC_OK) {
        return status;
    }
    if (place->rank != b->rank || place->size != b->size) {
        hd_error("heddle_bootstrap_env: rank %u of %u by the environment is rank %u of %u by %s",
                 b->rank, b->size, place->rank, place->size, launcher.calls->name);
        return UCC_ERR_INVALID_PARAM;
    }
    if (b->rank == 0) {
        status = compose(b, place->one_host, has_address, listener, text);
    }
    if (status != UCC_OK) {
        strcpy(text, "-"); /* the others, who would wait, hear that there is nothing */
    }
    snprintf(name, sizeof(name), "heddle.bootstrap.%u", launcher.shared++);
    ucc_status_t shared = launcher.calls->share(b->rank, name, text, b->timeout);
    status = status == UCC_OK ? shared : status;
    if (status == UCC_OK) {
        status = take(b, text, address);
    }
    sodium_memzero(text, sizeof(text));
    return status;
}
