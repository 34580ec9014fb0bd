/* pthread.c: the C library's barrier. */
#include <pthread.h>
#include <stdio.h>
#if defined(__GLIBC__)
#include <gnu/libc-version.h>
#endif

#include "loop.h"

static pthread_barrier_t barrier;
static pthread_once_t barrier_once = PTHREAD_ONCE_INIT;
static uint32_t participants; /* written before threads start */

static void version(char *text, size_t bytes) {
#if defined(__GLIBC__)
    snprintf(text, bytes, "glibc %s", gnu_get_libc_version());
#else
    snprintf(text, bytes, "POSIX");
#endif
}

static bool supports(const bench_case_t *c) {
    return c->form == BENCH_BLOCKING && c->coll->id == BENCH_BARRIER;
}

static void barrier_make(void) {
    if (pthread_barrier_init(&barrier, NULL, participants) != 0) {
        bench_fail("pthread_barrier_init", "no resources");
    }
}

static void *join(const bench_options_t *o, uint32_t rank) {
    (void)rank;
    participants = o->participants; /* everybody writes the same */
    pthread_once(&barrier_once, barrier_make);
    return NULL;
}

static void call(void *self, const bench_case_t *c, uint32_t root) {
    (void)self, (void)c, (void)root;
    pthread_barrier_wait(&barrier);
}

int main(int argc, char **argv) {
    static const bench_peer_t peer = {
        .name = "pthread", .version = version, .supports = supports, .join = join, .call = call};
    return bench_main(&peer, argc, argv);
}
