/* init.c: shmem_init and shmem_finalize, by each PE once: what the other files make for a PE
 * begins and ends here. */
#include "exchange.h"
#include "job.h"
#include "memory.h"
#include "pe.h"

/* Guards the_world.group while PEs come. */
static pthread_mutex_t forming = PTHREAD_MUTEX_INITIALIZER;

/* job_t::coming: a PE has come; and, above that bit, the number of a PE that never will, + 1. Its
 * accesses are relaxed, as nothing comes with it. */
enum { CAME = 1 };

/* The first PE of a process comes. */
static void come(void) {
    uint32_t seen = atomic_fetch_or_explicit(&the_job->coming, CAME, memory_order_relaxed);
    if (seen > CAME) {
        fail("shmem_init", "PE %u has ended without it", seen / 2 - 1);
    }
}

void never_comes(const pe_t *pe) {
    uint32_t gone = ((uint32_t)pe->number + 1) * 2, seen = 0;
    while (!atomic_compare_exchange_weak_explicit(&the_job->coming, &seen,
                                                  seen > CAME ? seen : seen | gone,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
    if (seen & CAME) {
        fail("shmem_init", "this PE has ended without it, and others wait for it");
    }
}

/* Of the PEs of this process. Those of one process have their heaps from Heddle. */
static void make_group(int level) {
    bool is_alone = the_world.processes == 1;
    ucc_oob_coll_t oob;
    heddle_group_params_t params = {
        .endpoints = (uint32_t)the_world.here,
        .thread_mode = level == SHMEM_THREAD_MULTIPLE ? UCC_THREAD_MULTIPLE : UCC_THREAD_SINGLE,
        .symmetric_bytes = is_alone ? the_world.heap_bytes + HEAP_ALIGNMENT : 0,
        .oob = is_alone ? NULL : &oob,
    };
    exchange_begin(&oob);
    must(heddle_group_create(&params, &the_world.group), "shmem_init");
    /* Endpoints of one thread at a time are good enough for all levels but the last. */
    the_world.thread_level =
        level == SHMEM_THREAD_MULTIPLE ? SHMEM_THREAD_MULTIPLE : SHMEM_THREAD_SERIALIZED;
}

/* The group's threads are those of the PE that comes first, as all PEs should ask for the same. */
static void join(pe_t *pe, int level) {
    pthread_mutex_lock(&forming);
    if (!the_world.group) {
        come();
        make_group(level);
    }
    pthread_mutex_unlock(&forming);
    must(
        heddle_join(the_world.group, (uint32_t)(pe->number - the_world.first), &pe->world.endpoint),
        "shmem_init");
}

static char *find_heap(const pe_t *pe) {
    void *memory;
    size_t bytes;
    if (the_world.processes > 1) {
        return memory_heap(pe->number);
    }
    must(heddle_team_memory(heddle_ep_team(pe->world.endpoint), (uint64_t)pe->number, &memory,
                            &bytes),
         "shmem_init");
    return (char *)(((uintptr_t)memory + HEAP_ALIGNMENT - 1) & ~(HEAP_ALIGNMENT - 1));
}

int shmem_init_thread(int requested, int *provided) {
    pe_t *pe = this_pe;
    if (!pe) {
        fail("shmem_init", "the program was not started by shmemrun");
    }
    if (pe->finalized) {
        fail("shmem_init", "shmem_finalize has been called");
    }
    if (!pe->initialized) {
        join(pe, requested);
        pe->heap = find_heap(pe);
        pe->thread_level = requested < the_world.thread_level ? requested : the_world.thread_level;
        pe->initialized = true;
        heap_begin(pe);
        teams_begin(pe);
        must(heddle_barrier(pe->world.endpoint), "shmem_init"); /* all heaps are known now */
    }
    if (provided) {
        *provided = pe->thread_level;
    }
    return pe->thread_level < requested;
}

void shmem_init(void) {
    shmem_init_thread(SHMEM_THREAD_SINGLE, NULL);
}

void start_pes(int npes) {
    (void)npes;
    shmem_init();
}

void shmem_finalize(void) {
    pe_t *pe = this_pe;
    if (!pe || !pe->initialized || pe->finalized) { /* !pe: from atexit, when all PEs have ended */
        return;
    }
    shmem_barrier_all(); /* nobody touches this PE's heap any more */
    pe->finalized = true;
    sets_end(pe);
    teams_end(pe);
    heap_end(pe);
    pe->heap = NULL;
    must(heddle_leave(pe->world.endpoint), "shmem_finalize");
    pe->world.endpoint = NULL;
}
