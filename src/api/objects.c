/* objects.c: what the C++ headers have one of in the process, however many copies of them it has.
 */
#define _GNU_SOURCE
#include "api/api.h"
#include "core/fork.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct object {
    struct object *next;
    void *made;
    char name[];
} object_t;

static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; /* guards the list; held while one is made */
static object_t *objects;

static object_t *find(const char *name) {
    object_t *object = objects;
    while (object && strcmp(object->name, name) != 0) {
        object = object->next;
    }
    return object;
}

static object_t *add(const char *name) {
    size_t length = strlen(name) + 1;
    object_t *object = calloc(1, sizeof(*object) + length);
    if (object) {
        memcpy(object->name, name, length);
        object->next = objects;
        objects = object;
    }
    return object;
}

/* The caller's module stays in the process: an object has, beside its maker's code, what each of
 * its users puts into it. Not under the lock, for a module that is just being loaded may ask for an
 * object under the loader's. */
static void keep_module(void *(*make)(void)) {
    Dl_info module;
    if (dladdr((void *)make, &module) &&
        module.dli_fname) { /* the program itself needs no keeping */
        (void)dlopen(module.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    }
}

void *heddle_process_object(const char *name, void *(*make)(void)) {
    if (!hd_api_pointer(name, "name", __func__) ||
        !hd_api_pointer((const void *)make, "make", __func__)) {
        return NULL;
    }
    keep_module(make);
    hd_fork_guard(&lock);
    pthread_mutex_lock(&lock);
    object_t *object = find(name);
    object = object ? object : add(name);
    if (object && !object->made) {
        object->made = make();
    }
    void *made = object ? object->made : NULL;
    pthread_mutex_unlock(&lock);
    return made;
}
