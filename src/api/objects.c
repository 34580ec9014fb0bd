/* objects.c: what the C++ headers have one of in the process, however many copies of them it has. */
#include "core/fork.h"

#include <heddle/heddle.h>
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

void *heddle_process_object(const char *name, void *(*make)(void)) {
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
