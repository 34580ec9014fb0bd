/* record.c: what a member of an exchange says of itself (roll.h): in which process and on which
 * host it lives, and in what the processes of a team have to agree.
 */
#include "form/form.h"
#include "form/roll.h"

#include "core/fork.h"
#include "core/hash.h"
#include "core/who.h"

#include <heddle/heddle_version.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* --- who it is -------------------------------------------------------------------------------- */

static pthread_mutex_t identity_lock = PTHREAD_MUTEX_INITIALIZER;

/* What identity[1] has beside random bits: the pid, and in which namespace it is one. */
enum {
    PID_BITS = 22, /* as many as any Linux has */
    SPACE_BITS = 32
};

static uint64_t pid_and_space(void) {
    hd_who_t me = hd_who_am_i();
    bool known = me.pid >> PID_BITS == 0 && me.space != 0;
    return known ? me.pid | (uint64_t)me.space << PID_BITS : 0;
}

static uint64_t space_of(const uint64_t identity[2]) {
    return identity[1] >> PID_BITS & ((UINT64_C(1) << SPACE_BITS) - 1);
}

uint32_t hd_process_pid(const uint64_t identity[2]) {
    uint64_t mine[2];
    hd_process_identity(mine);
    bool same = space_of(identity) != 0 && space_of(identity) == space_of(mine);
    return same ? (uint32_t)(identity[1] & ((1u << PID_BITS) - 1)) : 0;
}

void hd_process_identity(uint64_t identity[2]) {
    static uint64_t drawn[2];
    static uint32_t forks; /* the child of a fork is another process, whatever its pid */
    static bool is_drawn;
    hd_fork_guard(&identity_lock);
    pthread_mutex_lock(&identity_lock);
    if (!is_drawn || forks != hd_forks()) {
        if (getrandom(drawn, sizeof(drawn), 0) != (ssize_t)sizeof(drawn)) {
            struct timespec t;
            clock_gettime(CLOCK_REALTIME, &t);
            drawn[0] = (uint64_t)t.tv_sec ^ (uint64_t)t.tv_nsec << 32 ^ (uint64_t)getpid() << 16;
            drawn[1] = 0;
        }
        drawn[1] = (drawn[1] & ~UINT64_C(0) << (PID_BITS + SPACE_BITS)) | pid_and_space();
        is_drawn = true;
        forks = hd_forks();
    }
    memcpy(identity, drawn, sizeof(drawn));
    pthread_mutex_unlock(&identity_lock);
}

/* Returns a number that all processes of this host get, since it was started, and that share its
 * loopback address. */
static uint64_t host_identity(void) {
    static _Atomic uint64_t known;
    /* relaxed: a thread that finds none works out the same */
    uint64_t identity = atomic_load_explicit(&known, memory_order_relaxed);
    if (identity) {
        return identity;
    }
    char text[256] = "";
    identity = hd_net_host();
    /* containers of one host have names of their own */
    (void)gethostname(text, sizeof(text) - 1);
    for (const char *c = text; *c; c++) {
        identity = hd_hash_mix(identity, (uint8_t)*c);
    }
    identity |= 1; /* 0: not known yet */
    atomic_store_explicit(&known, identity, memory_order_relaxed);
    return identity;
}

/* --- what must agree -------------------------------------------------------------------------- */

/* The variables that decide how an exchange among processes goes: choices and booleans, and a
 * number as the last one. */
static const hd_cfg_id_t agreed[] = {HD_CFG_LIB_REPRODUCIBLE,       HD_CFG_LIB_CHECK,
                                     HD_CFG_LIB_NET_BARRIER,        HD_CFG_LIB_NET_BCAST,
                                     HD_CFG_LIB_NET_ALLGATHER,      HD_CFG_LIB_NET_ALLTOALL,
                                     HD_CFG_LIB_NET_GATHER,         HD_CFG_LIB_NET_SCATTER,
                                     HD_CFG_LIB_NET_ALLREDUCE,      HD_CFG_LIB_NET_REDUCE,
                                     HD_CFG_LIB_NET_REDUCE_SCATTER, HD_CFG_LIB_NET_SWAP_MAX};

/* In hd_record_t.variables each value has so many bits, and the last one has all that are left. */
enum { N_AGREED = sizeof(agreed) / sizeof(agreed[0]), BITS = 4, BITS_OF_LAST = 13 };
_Static_assert((N_AGREED - 1) * BITS + BITS_OF_LAST <= 64, "a record has room for all values");

static uint64_t value_of(const hd_config_t *config, hd_cfg_id_t id) {
    hd_cfg_type_t type = hd_config_variable(id)->type;
    return type == HD_CFG_BOOL   ? hd_config_bool(config, id)
           : type == HD_CFG_UINT ? hd_config_uint(config, id)
                                 : (uint64_t)hd_config_choice(config, id);
}

/* Returns the values of all those variables, side by side: the same for all spellings. */
static uint64_t values_of(const hd_config_t *config) {
    uint64_t values = 0;
    for (uint32_t i = 0; i < N_AGREED; i++) {
        uint64_t value = value_of(config, agreed[i]);
        hd_assert_eq(value >> (i + 1 < N_AGREED ? BITS : BITS_OF_LAST), 0);
        values |= value << i * BITS;
    }
    return values;
}

uint32_t hd_record_terms(const hd_config_t *config, bool two_sided, uint32_t n) {
    return (uint32_t)(hd_hash_mix(hd_hash_mix(hd_hash_mix(1, two_sided), n), values_of(config)) >>
                      32);
}

void hd_record_sign(hd_record_t *record, const hd_config_t *config) {
    record->version = HEDDLE_VERSION;
    hd_process_identity(record->process);
    record->host = host_identity();
    record->variables = config ? values_of(config) : 0;
    record->shares = config && hd_config_bool(config, HD_CFG_LIB_NODE);
}

const char *hd_record_disagreed(const hd_record_t *one, const hd_record_t *other) {
    uint64_t differs = one->variables ^ other->variables;
    if (!differs) {
        return NULL;
    }
    uint32_t i = (uint32_t)__builtin_ctzll(differs) / BITS;
    return hd_config_variable(agreed[i < N_AGREED ? i : N_AGREED - 1])->name;
}
