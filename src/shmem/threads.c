/* threads.c: a program's threads belong to the PE that started them, so pthread_create() and
 * thrd_create() are defined here. launch.c says why programs find them.
 */
#include "pe.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <threads.h>

typedef struct start {
    void *(*work)(void *);
    void *argument;
    pe_t *pe;
} start_t;

static void *work_for_pe(void *argument) {
    start_t start = *(start_t *)argument;
    free(argument);
    this_pe = start.pe;
    return start.work(start.argument);
}

__attribute__((visibility("default"))) int pthread_create(pthread_t *thread,
                                                          const pthread_attr_t *attributes,
                                                          void *(*work)(void *), void *argument) {
    typedef int create_t(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    create_t *create = (create_t *)dlsym(RTLD_NEXT, "pthread_create");
    start_t *start = malloc(sizeof(*start));
    if (!create || !start) {
        free(start);
        return EAGAIN;
    }
    *start = (start_t){work, argument, this_pe};
    int error = create(thread, attributes, work_for_pe, start);
    if (error) {
        free(start);
    }
    return error;
}

typedef struct c11_start {
    thrd_start_t work;
    void *argument;
} c11_start_t;

/* thrd_join() finds the int in the pointer. */
static void *work_of_c11(void *argument) {
    c11_start_t start = *(c11_start_t *)argument;
    free(argument);
    return (void *)(intptr_t)start.work(start.argument);
}

__attribute__((visibility("default"))) int thrd_create(thrd_t *thread, thrd_start_t work,
                                                       void *argument) {
    c11_start_t *start = malloc(sizeof(*start));
    if (!start) {
        return thrd_nomem;
    }
    *start = (c11_start_t){work, argument};
    if (pthread_create(thread, NULL, work_of_c11, start) != 0) {
        free(start);
        return thrd_error;
    }
    return thrd_success;
}
