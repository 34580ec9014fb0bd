/* pe.h: what the files of libheddle_shmem share. A PE is a thread of one of the program's
 * processes, of which there is one mostly; threads that it starts belong to it.
 *
 * Two parts of a PE's memory are symmetric: its heap, and its copy of the program, where globals
 * lie. An object has the same offset in that part at every PE, so a remote address is the other
 * PE's part plus the offset (remote_address).
 */
#ifndef SHMEM_PE_H_
#define SHMEM_PE_H_

#define SHMEM_IN_LIBRARY
#include <heddle/heddle.h>
#include <heddle/shmem/shmem.h>
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>

/** Numbers of its PEs in the world: start, start + stride, ... Only members have one. */
struct shmem_team {
    heddle_ep_t *endpoint; /**< this PE's, for collectives */
    int start;
    int stride; /**< may be negative */
    int size;
    int my_pe;
    shmem_team_config_t config;
    struct shmem_team *next; /**< in pe_t::teams */
};

/** PEs of a call are numbered as in the team that the context was made from, of which it keeps the
 * numbers. */
struct shmem_context {
    int start;
    int stride;
    int size;
    shmem_team_t team;
    struct shmem_context *next; /**< in pe_t::contexts */
};

typedef struct block block_t;           /* heap.c */
typedef struct active_set active_set_t; /* active_sets.c */

/** One PE. Others read heap and image only, which do not change between shmem_init and
 * shmem_finalize. Of a PE of another process there are these two and the number, written by the
 * launcher. */
typedef struct pe {
    alignas(128) char
        *heap;   /**< before the first barrier of shmem_init the PE writes it; NULL before */
    char *image; /**< its copy of the program, as it is mapped here; the launcher writes it */
    int number;
    bool initialized;
    bool finalized;
    int thread_level;
    struct shmem_team world;  /**< what SHMEM_TEAM_WORLD means here */
    struct shmem_team shared; /**< SHMEM_TEAM_SHARED: the same PEs, with collectives of their own */
    block_t *blocks;          /**< of the heap, in the order of addresses */
    pthread_mutex_t lock; /**< of the lists of what shmem_finalize ends; several threads may call */
    active_set_t *sets;   /**< the latest first */
    struct shmem_team *teams;
    struct shmem_context *contexts;
} pe_t;

/** The launcher fills it before there are PEs; group is made by the PE that comes first to
 * shmem_init. Each process has its own. */
typedef struct world {
    int size;
    int processes;
    int process; /**< the number of this one */
    int first;   /**< its PEs: this one and those that follow */
    int here;    /**< so many */
    size_t heap_bytes;
    size_t image_bytes;
    unsigned spins; /**< looks at a variable before a waiting PE gives its processor away */
    pe_t *pes;
    heddle_group_t *group;
    int thread_level; /**< for which group was made */
} world_t;

extern world_t the_world;
extern _Thread_local pe_t *this_pe;

/** A line "shmem: PE 2: CALL: ...". */
void tell(const char *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Ends the program after such a line. */
_Noreturn void fail(const char *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
_Noreturn void fail_before_init(const char *call);
_Noreturn void fail_member(const char *call);
_Noreturn void fail_address(const char *call, const void *address);
_Noreturn void fail_number(const char *call, int pe, int size);

/** Of a call of Heddle's that failed. */
_Noreturn void fail_status(const char *call, ucc_status_t status);
/** Ends shmemrun, or a process without PEs. */
_Noreturn void complain(const char *what, const char *why);

/** The first PE of a process: PEs are in the processes' order. */
static inline int first_pe(int process) {
    return (int)((int64_t)process * the_world.size / the_world.processes);
}

/** What shmem_init makes and shmem_finalize ends beside the endpoints. */
void heap_begin(pe_t *pe);
void heap_end(pe_t *pe);
void teams_begin(pe_t *pe);
void teams_end(pe_t *pe);
void sets_end(pe_t *pe);

/** A PE ends that has not called shmem_init: others would wait for it. */
void never_comes(const pe_t *pe);

/** A team of those of parent's PEs; this one is among them. */
void team_form(struct shmem_team *team, const struct shmem_team *parent, int start, int stride,
               int size);

/** Heaps begin at a multiple of it, so that shmem_align means the same everywhere. */
#define HEAP_ALIGNMENT ((size_t)1 << 24)

/** The address at another PE of what is symmetric here. Ends the program if it is not. */
static inline void *remote_address(const void *address, int pe, const char *call) {
    const pe_t *me = this_pe, *other = &the_world.pes[pe];
    size_t offset = (size_t)((uintptr_t)address - (uintptr_t)me->heap);
    if (offset < the_world.heap_bytes) {
        return other->heap + offset;
    }
    offset = (size_t)((uintptr_t)address - (uintptr_t)me->image);
    if (offset >= the_world.image_bytes) {
        fail_address(call, address);
    }
    return other->image + offset;
}

/** The same for PE number pe of a context. */
static inline void *remote(shmem_ctx_t ctx, const void *address, int pe, const char *call) {
    if ((unsigned)pe >= (unsigned)ctx->size) {
        fail_number(call, pe, ctx->size);
    }
    return remote_address(address, ctx->start + pe * ctx->stride, call);
}

/** Ends the program unless the object is symmetric. */
static inline void must_be_symmetric(const void *address, const char *call) {
    (void)remote_address(address, this_pe->number, call);
}

/** Fails with the name of the call when Heddle does. */
static inline void must(ucc_status_t status, const char *call) {
    if (status != UCC_OK) {
        fail_status(call, status);
    }
}

/** A handle's team at this PE. */
static inline shmem_team_t own_team(shmem_team_t team) {
    if (team == SHMEM_TEAM_WORLD) {
        return &this_pe->world;
    }
    return team == SHMEM_TEAM_SHARED ? &this_pe->shared : team;
}

/** The same for a call that every member makes, and nobody else. Looked at last, the mistake costs
 *  SHMEM_TEAM_WORLD nothing. */
static inline shmem_team_t member_team(shmem_team_t team, const char *call) {
    if (team == SHMEM_TEAM_WORLD) {
        return &this_pe->world;
    }
    if (team == SHMEM_TEAM_SHARED) {
        return &this_pe->shared;
    }
    if (team == SHMEM_TEAM_INVALID) {
        fail_member(call);
    }
    return team;
}

/** A wait for what another PE shall do, of which no one else tells when it lasts long. All 0 when
 * it begins. */
typedef struct waiting {
    unsigned looks;
    double began; /**< seconds; 0: no clock has been read yet */
    double next;  /**< see heddle_watch_wait */
} waiting_t;

/** Says after HEDDLE_STALL seconds (10), and again and again, who waits in which call for the
 *  variable at this address; fails after HEDDLE_TIMEOUT. Now and then. */
void watch_wait(waiting_t *waiting, const char *call, const char *what, const void *address);

/** Between two looks at what another PE shall change. There may be more PEs than processors:
 *  whoever looked often gives its own away. */
static inline void pause_between(unsigned *looks) {
    if (++*looks < the_world.spins) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        return;
    }
    sched_yield();
}

/** The same for whoever does nothing else than to wait. */
static inline void pause_in_wait(waiting_t *waiting, const char *call, const char *what,
                                 const void *address) {
    enum { LOOKS_PER_CLOCK = 64 };
    pause_between(&waiting->looks);
    if (waiting->looks >= the_world.spins && waiting->looks % LOOKS_PER_CLOCK == 0) {
        watch_wait(waiting, call, what, address);
    }
}

#endif
