/* kvs.h: what a launcher keeps for the processes of its job: rank 0 leaves a text there, and the
 * others get it. So they need neither an address nor a key from their user.
 *
 * Two libraries speak with launchers: PMIx's (pmix.c) and PMI-2's (pmi2.c), each loaded when it is
 * called. The declarations of what they export are the library's own here, by what the standards
 * say: neither has to be there when this one is built.
 */
#ifndef HD_BOOTSTRAP_KVS_H
#define HD_BOOTSTRAP_KVS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ucc/api/ucc_status.h>

enum { HD_KVS_TEXT = 512 };

/* What the launcher says of this process. */
typedef struct hd_kvs_place {
    uint32_t rank, size;
    bool one_host; /* all of its job's processes are on this one */
} hd_kvs_place_t;

typedef struct hd_kvs_calls {
    const char *name, *variable; /* the launcher has set it, where it speaks this */
    /* Connects with the launcher; to be closed if that went well. All errors are logged. */
    ucc_status_t (*open)(hd_kvs_place_t *place);
    /* Called by all; rank 0's text reaches the others by a name. seconds: until it gives up, where
     * the launcher can; negative: never. */
    ucc_status_t (*share)(uint32_t rank, const char *name, char text[HD_KVS_TEXT], double seconds);
    void (*close)(void);
} hd_kvs_calls_t;

extern const hd_kvs_calls_t hd_pmix_calls, hd_pmi2_calls;

/* Finds a library's n functions of these names. False: logged. library.c */
bool hd_library_load(const char *library, const char *const *names, void **to, size_t n);

#endif
