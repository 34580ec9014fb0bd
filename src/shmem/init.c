/* init.c: shmem_init, shmem_finalize, and what a PE can ask about itself and others. */
#include "pe.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

world_t the_world;
_Thread_local pe_t *this_pe;

/* Guards the_world.group while PEs come. */
static pthread_mutex_t forming = PTHREAD_MUTEX_INITIALIZER;

void tell(const char *call, const char *format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    fprintf(stderr, "shmem: PE %d: %s: %s\n", this_pe ? this_pe->number : -1, call, text);
}

_Noreturn void fail(const char *call, const char *format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    tell(call, "%s", text);
    shmem_global_exit(1);
}

_Noreturn void fail_before_init(const char *call) {
    fail(call, "shmem_init has not been called, or shmem_finalize has");
}

_Noreturn void fail_member(const char *call) {
    fail(call, "the team is SHMEM_TEAM_INVALID: this PE is not in it");
}

_Noreturn void fail_address(const char *call, const void *address) {
    if (!this_pe || !this_pe->heap) {
        fail_before_init(call);
    }
    fail(call, "%p is not symmetric: neither in the heap nor a global of the program", address);
}

_Noreturn void fail_number(const char *call, int pe, int size) {
    if (size == 0) {
        fail(call, "the context is SHMEM_CTX_INVALID");
    }
    fail(call, "there is no PE %d among %d", pe, size);
}

/* The group's threads are those of the PE that comes first, as all PEs should ask for the same. */
static void join(pe_t *pe, int level) {
    pthread_mutex_lock(&forming);
    if (the_world.gone) {
        fail("shmem_init", "PE %d has ended without it", the_world.gone->number);
    }
    if (!the_world.group) {
        heddle_group_params_t params = {
            .endpoints = (uint32_t)the_world.size,
            .thread_mode = level == SHMEM_THREAD_MULTIPLE ? UCC_THREAD_MULTIPLE : UCC_THREAD_SINGLE,
            .symmetric_bytes = the_world.heap_bytes + HEAP_ALIGNMENT,
        };
        must(heddle_group_create(&params, &the_world.group), "shmem_init");
        /* Endpoints of one thread at a time are good enough for all levels but the last. */
        the_world.thread_level =
            level == SHMEM_THREAD_MULTIPLE ? SHMEM_THREAD_MULTIPLE : SHMEM_THREAD_SERIALIZED;
    }
    pthread_mutex_unlock(&forming);
    must(heddle_join(the_world.group, (uint32_t)pe->number, &pe->world.endpoint), "shmem_init");
}

void never_comes(const pe_t *pe) {
    pthread_mutex_lock(&forming);
    the_world.gone = pe;
    if (the_world.group) {
        fail("shmem_init", "this PE has ended without it, and others wait for it");
    }
    pthread_mutex_unlock(&forming);
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
        void *memory;
        size_t bytes;
        join(pe, requested);
        must(heddle_team_memory(heddle_ep_team(pe->world.endpoint), (uint64_t)pe->number, &memory,
                                &bytes),
             "shmem_init");
        pe->heap = (char *)(((uintptr_t)memory + HEAP_ALIGNMENT - 1) & ~(HEAP_ALIGNMENT - 1));
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

static atomic_int exit_status;

static void exit_now(int signal) {
    (void)signal;
    _exit(exit_status);
}

/* Other PEs are in the middle of anything: no destructor may run, but what was printed is not lost. One of them may
 * hold a stream that is to be flushed, and for ever, such as one that reads what nobody sends: no longer than
 * a while for that, and the standard output before it. */
_Noreturn void shmem_global_exit(int status) {
    enum { LONGEST_S = 2 };
    sigset_t alarm_only;
    exit_status = status;
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = exit_now}, NULL);
    pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
    alarm(LONGEST_S);
    fflush(stdout);
    fflush(NULL);
    _exit(status);
}

void shmem_query_thread(int *provided) {
    *provided = this_pe->thread_level;
}

void shmem_query_initialized(int *initialized) {
    *initialized = this_pe->initialized;
}

int shmem_my_pe(void) {
    return this_pe->number;
}

int shmem_n_pes(void) {
    return the_world.size;
}

int _my_pe(void) {
    return this_pe->number;
}

int _num_pes(void) {
    return the_world.size;
}

int shmem_pe_accessible(int pe) {
    return pe >= 0 && pe < the_world.size;
}

int shmem_addr_accessible(const void *address, int pe) {
    const pe_t *me = this_pe;
    bool symmetric = (size_t)((uintptr_t)address - (uintptr_t)me->heap) < the_world.heap_bytes ||
                     (size_t)((uintptr_t)address - (uintptr_t)me->image) < the_world.image_bytes;
    return symmetric && shmem_pe_accessible(pe);
}

void *shmem_ptr(const void *dest, int pe) {
    return shmem_addr_accessible(dest, pe) ? remote_address(dest, pe, __func__) : NULL;
}

void *shmem_team_ptr(shmem_team_t handle, const void *dest, int pe) {
    if (handle == SHMEM_TEAM_INVALID) {
        return NULL;
    }
    const struct shmem_team *team = own_team(handle);
    return pe >= 0 && pe < team->size ? shmem_ptr(dest, team->start + pe * team->stride) : NULL;
}

void shmem_info_get_version(int *major, int *minor) {
    *major = SHMEM_MAJOR_VERSION;
    *minor = SHMEM_MINOR_VERSION;
}

void shmem_info_get_name(char *name) {
    _Static_assert(sizeof(SHMEM_VENDOR_STRING) <= SHMEM_MAX_NAME_LEN, "programs have that much");
    memcpy(name, SHMEM_VENDOR_STRING, sizeof(SHMEM_VENDOR_STRING));
}

/* Deprecated: caches have been coherent for long. */
void shmem_set_cache_inv(void) {
}

void shmem_clear_cache_inv(void) {
}

void shmem_set_cache_line_inv(void *dest) {
    (void)dest;
}

void shmem_clear_cache_line_inv(void *dest) {
    (void)dest;
}

void shmem_udcflush(void) {
}

void shmem_udcflush_line(void *dest) {
    (void)dest;
}

void shmem_pcontrol(int level, ...) {
    (void)level; /* there is no profiling interface to be controlled */
}
