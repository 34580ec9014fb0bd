/* pe.c: the world and this thread's PE, below all other files; how a PE ends the program when
 * something is wrong; and what a PE can ask about itself and others. pe.h says who fills them in.
 * Any thread of a PE may call.
 */
#include "pe.h"

#include "job.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

world_t the_world = {.processes = 1};
_Thread_local pe_t *this_pe;

/* Only the addresses of these two matter: see own_team. */
char shmem_handle_world, shmem_handle_shared;

static atomic_int exit_status;

static void exit_now(int signal) {
    (void)signal;
    _exit(exit_status);
}

/* Other PEs are in the middle of anything: no destructor may run, but what was printed is not
 * lost. One of them may hold a stream that is to be flushed, and for ever, such as one that
 * reads what nobody sends: no longer than a while for that, and the standard output before it. */
_Noreturn void shmem_global_exit(int status) {
    enum { LONGEST_S = 2 };
    sigset_t alarm_only;
    job_end(status);
    exit_status = status;
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = exit_now}, NULL);
    pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
    alarm(LONGEST_S);
    fflush(stdout);
    fflush(NULL);
    job_leave();
    _exit(status);
}

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

_Noreturn void fail_status(const char *call, ucc_status_t status) {
    if (status == UCC_ERR_IO_ERROR) {
        job_heed();
    }
    fail(call, "%s", ucc_status_string(status));
}

_Noreturn void complain(const char *what, const char *why) {
    fprintf(stderr, "shmemrun: %s: %s\n", what, why);
    _exit(2);
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
