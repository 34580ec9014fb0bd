/* state.c: the emulator's one state, and how calls enter and leave it. */
#include "emu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

emu_state_t emu = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .generation = 1};
_Thread_local bool emu_forbidden;
_Thread_local emu_op_t *emu_callback_op;

static _Thread_local emu_thread_t *self;
static _Thread_local uint64_t self_generation;
static pthread_key_t thread_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool forked; /* in the child of a fork, whose devices stayed with the parent */

void *emu_alloc(size_t count, size_t bytes) {
    void *memory = calloc(count > 0 ? count : 1, bytes);
    if (!memory) {
        fprintf(stderr, "emucuda: out of memory for %zu bytes of its own\n", count * bytes);
        abort();
    }
    return memory;
}

void *emu_grow(void *array, uint32_t *capacity, uint32_t needed, size_t bytes) {
    if (needed <= *capacity) {
        return array;
    }
    uint32_t more = *capacity * 2 > needed ? *capacity * 2 : needed < 8 ? 8 : needed;
    void *grown = realloc(array, more * bytes);
    if (!grown) {
        fprintf(stderr, "emucuda: out of memory for %zu bytes of its own\n", more * bytes);
        abort();
    }
    *capacity = more;
    return grown;
}

const char *emu_keep(const char *format, const char *name) {
    char text[256];
    snprintf(text, sizeof(text), format, name);
    for (uint32_t i = 0; i < emu.name_count; i++) {
        if (strcmp(emu.names[i], text) == 0) {
            return emu.names[i];
        }
    }
    emu.names = emu_grow(emu.names, &emu.name_capacity, emu.name_count + 1, sizeof(*emu.names));
    char *kept = emu_alloc(strlen(text) + 1, 1);
    strcpy(kept, text);
    return emu.names[emu.name_count++] = kept;
}

/* xorshift64*: the same numbers for the same seed. */
uint64_t emu_draw(uint64_t below) {
    uint64_t x = emu.random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    emu.random = x;
    return below > 1 ? (x * 0x2545f4914f6cdd1dU >> 32) % below : 0;
}

static void thread_free(emu_thread_t *thread) {
    if (thread->host != emu.one) {
        emu_timeline_end(thread->host->timeline, &thread->host->clock);
        emu_vector_free(&thread->host->clock);
        free(thread->host);
    }
    free(thread->stack);
    free(thread);
}

static void thread_ends(void *generation) {
    pthread_mutex_lock(&emu.lock);
    if ((uintptr_t)generation == emu.generation && self_generation == emu.generation) {
        emu_thread_t **at = &emu.threads;
        while (*at && *at != self) {
            at = &(*at)->next;
        }
        if (*at) {
            *at = self->next;
            emu.callers--;
            for (emu_capture_t *c = emu.captures; c; c = c->next) {
                c->thread = c->thread == self ? NULL : c->thread;
            }
            thread_free(self);
            self = NULL;
            self_generation = 0;
            pthread_cond_broadcast(&emu.changed);
        }
    }
    pthread_mutex_unlock(&emu.lock);
}

static void child_after_fork(void) {
    forked = true;
}

static void begin_once(void) {
    pthread_key_create(&thread_key, thread_ends);
    pthread_atfork(NULL, NULL, child_after_fork);
}

static emu_host_t *host_new(void) {
    emu_host_t *host = emu_alloc(1, sizeof(*host));
    host->timeline = emu_timeline_new(NULL);
    emu_timeline_begin(host->timeline, &host->clock);
    host->version = ++emu.versions;
    return host;
}

emu_thread_t *emu_self(void) {
    if (self && self_generation == emu.generation) {
        return self;
    }
    self = emu_alloc(1, sizeof(*self));
    self_generation = emu.generation;
    if (emu.config.threads) {
        self->host = host_new();
    } else {
        emu.one = emu.one ? emu.one : host_new();
        self->host = emu.one;
    }
    self->next = emu.threads;
    emu.threads = self;
    emu.callers++;
    pthread_setspecific(thread_key, (void *)(uintptr_t)emu.generation);
    return self;
}

CUcontext emu_current(void) {
    emu_thread_t *thread = emu_self();
    return thread->depth > 0 ? thread->stack[thread->depth - 1] : NULL;
}

static CUresult configure_from_environment(void) {
    if (!emu.configured) {
        const char *text = getenv("HEDDLE_EMUCUDA");
        if (emu_config_parse(text ? text : "1", &emu.config) != 0) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        emu.configured = true;
    }
    return CUDA_SUCCESS;
}

static CUresult initialize(void) {
    CUresult status = configure_from_environment();
    if (status != CUDA_SUCCESS || emu.config.devices == 0) {
        return status != CUDA_SUCCESS ? status : CUDA_ERROR_NO_DEVICE;
    }
    emu.random = emu.config.seed * 0x9e3779b97f4a7c15U + 0x1234567;
    emu.random = emu.random ? emu.random : 1;
    for (int d = 0; d < emu.config.devices; d++) {
        if (!emu_arena_open(&emu.device[d].arena, emu.config.memory)) {
            emu_devices_close();
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        emu.device[d].standard_pool = emu_pool_new(d, true);
        emu.device[d].pool = emu.device[d].standard_pool;
    }
    emu_guard_begin();
    emu.initialized = true;
    return CUDA_SUCCESS;
}

static CUresult planted_failure(void) {
    emu.report.calls++;
    if (emu.fail_call > 0 && --emu.fail_call == 0) {
        return (CUresult)emu.fail_error;
    }
    return CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags) {
    if (flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (forked) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    pthread_once(&once, begin_once);
    pthread_mutex_lock(&emu.lock);
    CUresult status = planted_failure();
    if (status == CUDA_SUCCESS && !emu.initialized) {
        status = initialize();
    }
    pthread_mutex_unlock(&emu.lock);
    return status;
}

CUresult emu_enter_freeing(CUresult *planted) {
    if (emu_forbidden) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    if (forked) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    pthread_mutex_lock(&emu.lock);
    if (!emu.initialized) {
        pthread_mutex_unlock(&emu.lock);
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    *planted = planted_failure();
    return CUDA_SUCCESS;
}

CUresult emu_enter(void) {
    CUresult planted, status = emu_enter_freeing(&planted);
    if (status != CUDA_SUCCESS || planted == CUDA_SUCCESS) {
        return status;
    }
    pthread_mutex_unlock(&emu.lock);
    return planted;
}

CUresult emu_enter_context(CUcontext *context) {
    CUresult status = emu_enter();
    if (status != CUDA_SUCCESS) {
        return status;
    }
    *context = emu_current();
    status = emu_context_status(*context);
    if (status != CUDA_SUCCESS) {
        pthread_mutex_unlock(&emu.lock);
    }
    return status;
}

CUresult emu_leave(CUresult status) {
    emu_drive();
    pthread_mutex_unlock(&emu.lock);
    return status;
}

bool emu_site_dropped(void) {
    emu_thread_t *thread = emu_self();
    uint32_t site = thread->site;
    thread->site = 0;
    if (site == 0) {
        return false;
    }
    uint32_t had = emu.sites;
    emu.site = emu_grow(emu.site, &emu.sites, site + 1, sizeof(*emu.site));
    if (emu.sites > had) {
        memset(emu.site + had, 0, (emu.sites - had) * sizeof(*emu.site));
    }
    emu.site[site]++;
    return emu.drop_site == site;
}

int heddle_emucuda_configure(const char *config) {
    emu_config_t parsed;
    if (!config || emu_config_parse(config, &parsed) != 0) {
        return -1;
    }
    pthread_mutex_lock(&emu.lock);
    bool late = emu.initialized;
    if (!late) {
        emu.config = parsed;
        emu.configured = true;
    }
    pthread_mutex_unlock(&emu.lock);
    if (late) {
        fprintf(stderr, "emucuda: heddle_emucuda_configure(\"%s\") after cuInit\n", config);
    }
    return late ? -1 : 0;
}

static void free_lists(void) {
    while (emu.threads) {
        emu_thread_t *next = emu.threads->next;
        thread_free(emu.threads);
        emu.threads = next;
    }
    if (emu.one) {
        emu_vector_free(&emu.one->clock);
        free(emu.one);
    }
    for (uint32_t i = 0; i < emu.name_count; i++) {
        free(emu.names[i]);
    }
    free(emu.names);
    free(emu.timeline);
    free(emu.free_timeline);
    free(emu.allocation);
    free(emu.ready);
    free(emu.polled);
    free(emu.site);
}

void heddle_emucuda_reset(void) {
    emu_callbacks_stop();
    pthread_mutex_lock(&emu.lock);
    if (emu.initialized) {
        emu_guard_end();
        emu_devices_close();
    }
    emu_objects_free();
    emu_tokens_free();
    emu_ops_free();
    free_lists();
    uint64_t generation = emu.generation;
    size_t from = offsetof(emu_state_t, initialized);
    memset((char *)&emu + from, 0, sizeof(emu) - from);
    emu.generation = generation + 1;
    pthread_mutex_unlock(&emu.lock);
}
