/* emu.h: the emulator's data structures.
 *
 * A driver call takes the one lock (emu_enter), and gives it back in the end (emu_leave), where
 * some of the work that is queued runs: there is no thread for streams or devices. A call that
 * orders work makes an operation (emu_op_t) and submits it to a stream: to the graph that the
 * stream captures, or to the stream's queue. Then
 *
 *   - the clock pass (clock.c) goes over it at once, in the order of calls: it joins vector clocks
 *     along streams, events and the host, and checks the operation's ranges against who touched
 *     these bytes before;
 *   - the scheduler (queue.c) executes it at some time, in an order of its own.
 *
 * A record is a point in a stream: what an event's recording made, waited for by others. Everything
 * here is read and written under the lock, unless it is said otherwise.
 *
 * Objects that programs hold handles of are never freed before heddle_emucuda_reset, only used
 * again late: a dead handle is recognized by its mark.
 */
#ifndef EMUCUDA_EMU_H_
#define EMUCUDA_EMU_H_

#include "calls.h"
#include "heddle_emucuda.h"

#include <pthread.h>
#include <stdbool.h>

enum {
    EMU_DEVICES = 64,
    EMU_PARAM_BYTES = 4096,
    EMU_PARAMS = 256,
    EMU_PENDING = 4096,   /* operations that may be queued before a call runs some */
    EMU_GRANULARITY = 512 /* of allocations, as on a device */
};

typedef struct emu_op emu_op_t;
typedef struct emu_record emu_record_t;
typedef struct emu_queue emu_queue_t;
typedef struct emu_allocation emu_allocation_t;
typedef struct emu_capture emu_capture_t;
typedef struct emu_token emu_token_t;

/* Clocks (clock.c, race.c)
 * ------------------------------------------------------------------------- */

/* at[t] says how much of timeline t comes before; what lies beyond count is 0. Timelines are
 * streams and host threads. */
typedef struct emu_vector {
    uint32_t count, capacity;
    uint32_t *at;
} emu_vector_t;

typedef struct emu_timeline {
    CUstream stream; /* NULL: a host thread */
    bool ended;
    uint32_t clock; /* where its next owner begins */
} emu_timeline_t;

/* An access: the clock of its timeline, and what it was, for the line about a race. */
typedef struct emu_epoch {
    uint32_t timeline, clock; /* clock 0: nobody */
    uint64_t serial;
    const char *what; /* lives as long as the emulator */
} emu_epoch_t;

/* Bytes [begin, begin of the next cell) of an allocation have this history: who wrote last, and who
 * has read since, at most one of each timeline. */
typedef struct emu_cell {
    uint64_t begin;
    emu_epoch_t write;
    uint32_t readers, capacity;
    emu_epoch_t *reader;
} emu_cell_t;

typedef struct emu_shadow {
    uint32_t cells, capacity;
    emu_cell_t *cell; /* sorted by begin; the first begins at 0 */
} emu_shadow_t;

typedef struct emu_host {
    uint32_t timeline;
    emu_vector_t clock;
    /* of clock, another one after each change, and no other host's: streams know whether they have
     * seen it */
    uint64_t version;
    bool handed_on; /* to streams or other threads, since its own clock last advanced */
} emu_host_t;

/* What a thread of the program is to the emulator. */
typedef struct emu_thread {
    struct emu_thread *next;
    uint64_t generation; /* emu.generation that it belongs to */
    emu_host_t *host;
    CUcontext *stack; /* contexts; the last is current */
    uint32_t depth, capacity;
    uint32_t site;
    CUstreamCaptureMode mode;
} emu_thread_t;

/* Memory (memory.c)
 * -------------------------------------------------------------------------------- */

typedef enum emu_memory_kind {
    EMU_DEVICE_MEMORY,
    EMU_POOL_MEMORY,
    EMU_MANAGED_MEMORY,
    EMU_HOST_MEMORY,
    EMU_REGISTERED_MEMORY
} emu_memory_kind_t;

struct emu_allocation {
    uint64_t base, bytes;
    emu_memory_kind_t kind;
    int device;
    CUcontext context;
    CUmemoryPool pool;
    CUmodule module; /* whose variable it is; else NULL */
    unsigned int flags;
    uint64_t id;
    bool alive;       /* its bytes may be touched by what runs */
    bool listed;      /* found by address: until it is freed, in stream order as well */
    uint32_t pending; /* operations that hold it */
    emu_shadow_t shadow;
};

typedef struct emu_gap {
    uint64_t begin, bytes;
} emu_gap_t;

/* The memory of a device: `user` is what programs get, and can't touch; what it holds lies at user
 * + shift. */
typedef struct emu_arena {
    uint64_t user, bytes;
    int64_t shift;
    uint64_t used;
    emu_gap_t *gap; /* free address ranges, sorted */
    uint32_t gaps, capacity, last;
} emu_arena_t;

/* Objects (object.c)
 * ------------------------------------------------------------------------------- */

typedef enum emu_mark {
    EMU_DEAD = 0,
    EMU_CONTEXT = 0x43545845,
    EMU_STREAM = 0x5354524d,
    EMU_EVENT = 0x45564e54,
    EMU_MODULE = 0x4d4f4455,
    EMU_FUNCTION = 0x46554e43,
    EMU_LIBRARY = 0x4c494252,
    EMU_KERNEL = 0x4b45524e,
    EMU_POOL = 0x504f4f4c,
    EMU_GRAPH = 0x47524150,
    EMU_NODE = 0x4e4f4445,
    EMU_EXEC = 0x45584543,
    EMU_USER_OBJECT = 0x55534552
} emu_mark_t;

/* First in each object. */
typedef struct emu_object {
    emu_mark_t mark;
    uint32_t bytes;
    struct emu_object *next;            /* of all objects, dead or alive */
    struct emu_object *before, *behind; /* of those alive, of the same mark, in order of creation */
    struct emu_object *next_dead;
} emu_object_t;

struct CUctx_st {
    emu_object_t object;
    int device;
    bool primary;
    uint32_t references; /* of a primary one */
    uint64_t id;
    unsigned int flags;
    CUresult error;        /* sticky */
    uint64_t peers;        /* devices whose memory it may reach, as bits */
    CUstream legacy;       /* its NULL stream */
    CUstream *per_thread;  /* one for each thread that asked: see threads */
    emu_thread_t **thread; /* whose they are */
    uint32_t per_threads;
    size_t limit[8];
};

struct CUstream_st {
    emu_object_t object;
    CUcontext context;
    unsigned int flags;
    int priority;
    uint64_t id;
    bool internal; /* not created by the program: NULL streams, lanes of graphs */
    bool legacy;
    bool destroyed; /* by the program; lives until its work is done */
    emu_queue_t *queue;
    uint32_t pending;  /* operations in the queue */
    uint64_t enqueued; /* operations ever */
    emu_op_t *last;    /* the last one in the queue, if it is still there */
    /* order with the NULL stream */
    uint64_t legacy_seen; /* context->legacy->enqueued that this one has waited for */
    /* clock pass */
    uint32_t timeline;
    emu_vector_t clock;
    uint64_t seen_version;            /* of a host's clock, the one joined last */
    emu_op_t *unknown, *unknown_last; /* operations that the clock pass has not gone over yet */
    struct CUstream_st *next_blocked; /* of those that wait for the same record or token */
    /* capture */
    emu_capture_t *capture;
    CUgraphNode *dependency; /* what its next node depends on */
    size_t dependencies;
};

struct CUevent_st {
    emu_object_t object;
    CUcontext context;
    unsigned int flags;
    emu_record_t *record;   /* of the last recording; NULL: none, or captured */
    emu_capture_t *capture; /* that it was last recorded in; held */
    CUgraphNode *dependency;
    size_t dependencies;
};

struct CUmemPoolHandle_st {
    emu_object_t object;
    int device;
    bool standard;   /* the device's own */
    uint64_t access; /* devices beside its own, as bits */
    uint64_t used, used_high, reserved_high, threshold;
    int option[4];
};

struct CUmod_st {
    emu_object_t object;
    CUcontext context;
    CUlibrary library; /* of which it is the copy in this context; else NULL */
    const heddle_emucuda_module_t *image;
    CUfunction *function; /* by index of kernel; NULL: nobody asked yet */
    emu_allocation_t **global;
};

struct CUfunc_st {
    emu_object_t object;
    CUmodule module;
    const heddle_emucuda_kernel_t *kernel;
    const char *what; /* "kernel NAME", kept */
    unsigned int shared_limit;
};

struct CUlib_st {
    emu_object_t object;
    const heddle_emucuda_module_t *image;
    CUkernel *kernel;
    CUmodule *module; /* by context, loaded when first asked for */
    uint32_t modules;
};

struct CUkern_st {
    emu_object_t object;
    CUlibrary library;
    uint32_t index;
};

/* Work (op.c, queue.c)
 * ----------------------------------------------------------------------------- */

/* A point in a stream. */
struct emu_record {
    uint32_t references;
    bool done;  /* all before it has run */
    bool known; /* clock is set */
    uint32_t timeline;
    uint64_t nanoseconds; /* when it was done */
    emu_vector_t clock;   /* of the stream, there */
    emu_op_t *waiting;    /* operations at the head of their queues */
    CUstream blocked;     /* streams whose clock pass waits until it is known */
    emu_queue_t *queue;   /* in which it stands, until done */
    emu_record_t *next_free;
};

typedef enum emu_kind {
    EMU_OP_KERNEL,
    EMU_OP_COPY,
    EMU_OP_FILL,
    EMU_OP_RECORD,
    EMU_OP_WAIT,
    EMU_OP_WRITE_VALUE,
    EMU_OP_WAIT_VALUE,
    EMU_OP_HOST,
    EMU_OP_ALLOC,
    EMU_OP_FREE,
    EMU_OP_NOTHING
} emu_kind_t;

typedef enum emu_access { EMU_READ, EMU_WRITE, EMU_SIGNAL } emu_access_t;

typedef struct emu_range {
    uint64_t begin, bytes;
    emu_allocation_t *allocation; /* NULL: memory of the host that nobody registered, or a fault */
    emu_access_t access;
} emu_range_t;

/* Addresses from begin to end. */
typedef struct emu_span {
    uint64_t begin, end;
} emu_span_t;

typedef struct emu_launch {
    CUfunction function;
    heddle_emucuda_launch_t launch;
    char *param; /* copies of the parameters, each aligned to 16 bytes */
    size_t param_bytes;
    uint64_t blocks, next;  /* how many, and how many have run */
    uint64_t first, stride; /* their order: (first + i * stride) % blocks */
    bool blamed;            /* for memory that it did not declare */
} emu_launch_t;

/* width bytes in each of height rows. */
typedef struct emu_copy {
    uint64_t target, source;
    uint64_t target_pitch, source_pitch;
    uint64_t width, height;
    void *staged; /* a copy of the source, made by the call; freed with the operation */
} emu_copy_t;

typedef struct emu_fill {
    uint64_t target, count;
    uint32_t value, bytes; /* of an element */
} emu_fill_t;

typedef struct emu_word {
    uint64_t address, value;
    unsigned int flags;
    uint32_t bytes; /* 4 or 8 */
} emu_word_t;

typedef struct emu_callback {
    CUhostFn function;
    CUstreamCallback callback; /* if function is NULL */
    CUstream handle;           /* as the program named it */
    void *arg;
} emu_callback_t;

struct emu_op {
    emu_op_t *next;         /* in its queue */
    emu_op_t *next_unknown; /* in its stream */
    emu_op_t *next_waiting; /* for the same record */
    emu_kind_t kind;
    bool known;   /* the clock pass has gone over it */
    bool started; /* a piece has run */
    bool waiting; /* is in record->waiting */
    CUstream stream;
    uint64_t serial;
    const char *what;
    emu_record_t *record; /* of EMU_OP_RECORD and EMU_OP_WAIT */
    CUevent event;    /* of nodes that record or wait for an event at each launch of their graph */
    CUgraphExec exec; /* that launched it: held until it has run */
    emu_vector_t host_clock; /* of the call, if the clock pass comes later */
    emu_vector_t clock;      /* of an operation that signals, or calls the host */
    uint64_t fault;          /* an address that it must not touch; 0: none */
    emu_access_t fault_access;
    uint32_t ranges, range_capacity;
    emu_range_t *range;
    emu_range_t few[4]; /* where range lies if that is enough */
    union {
        emu_launch_t kernel;
        emu_copy_t copy;
        emu_fill_t fill;
        emu_word_t word;
        emu_callback_t callback;
        emu_allocation_t *memory;
    };
};

/* Operations in the order in which they begin: of a stream, or of all streams of a device that
 * share a channel. */
struct emu_queue {
    emu_op_t *head, *tail;
    int device;
    int ready;      /* its place in emu.ready, or -1 */
    bool polled;    /* is in emu.polled: its head waits for a value */
    bool busy;      /* its head runs in the thread for callbacks */
    uint32_t users; /* streams */
    uint64_t number;
};

/* A word, or anything with an address, by which clocks are handed on. */
struct emu_token {
    emu_token_t *next; /* of the same hash */
    uint64_t address;
    emu_vector_t clock; /* who released it, or signalled it when running */
    bool written;       /* a cuStreamWriteValue was enqueued: the last one */
    uint64_t value;
    emu_vector_t write_clock;
    CUstream blocked; /* streams whose clock pass waits for a value */
};

/* Graphs (capture.c, graph.c)
 * ---------------------------------------------------------------------- */

struct CUgraphNode_st {
    emu_object_t object;
    CUgraph graph;
    uint64_t index;    /* in the graph */
    emu_op_t *op;      /* as it will be enqueued; NULL: empty */
    CUcontext context; /* of the stream that it was captured from */
    CUgraphNode *dependency;
    size_t dependencies;
};

struct CUuserObject_st {
    emu_object_t object;
    CUhostFn destroy;
    void *pointer;
    uint64_t references, owned; /* all of them, and those of the program */
};

typedef struct emu_held {
    CUuserObject object;
    uint64_t count;
} emu_held_t;

struct CUgraph_st {
    emu_object_t object;
    CUgraphNode *node;
    size_t nodes;
    uint32_t capacity;
    emu_held_t *held;
    size_t held_count;
    bool captured; /* it is being captured: not the program's yet */
};

typedef struct emu_step {
    emu_op_t *op;
    CUcontext context;
    uint32_t lane;
    bool first;     /* in its lane */
    bool recorded;  /* a step in another lane depends on it */
    bool last;      /* nothing depends on it */
    size_t *depend; /* steps */
    size_t depends;
} emu_step_t;

struct CUgraphExec_st {
    emu_object_t object;
    emu_step_t *step;
    size_t steps;
    uint32_t lanes;
    CUstream *lane;
    emu_record_t *previous; /* the end of the last launch */
    CUcontext context;
    emu_held_t *held;
    size_t held_count;
    uint32_t running; /* operations that hold it */
    bool destroyed;
};

struct emu_capture {
    emu_capture_t *next; /* of those in progress */
    uint32_t references;
    uint64_t id;
    CUstreamCaptureMode mode;
    CUstreamCaptureStatus status;
    const emu_thread_t *thread; /* that began it */
    CUstream origin;
    CUgraph graph; /* NULL once it has ended */
};

/* All of it
 * ---------------------------------------------------------------------------------------- */

typedef enum emu_policy { EMU_RANDOM, EMU_LAZY, EMU_STARVE, EMU_NEWEST } emu_policy_t;

typedef struct emu_config {
    int devices;
    bool peers;
    uint64_t seed;
    uint32_t channels;
    emu_policy_t policy;
    uint32_t window;
    uint64_t memory;
    bool threads; /* host=threads */
    uint32_t patience, idle;
} emu_config_t;

typedef struct emu_device {
    emu_arena_t arena;
    CUcontext primary; /* NULL: never retained */
    unsigned int primary_flags;
    CUmemoryPool standard_pool, pool;
    emu_queue_t **channel;
    uint32_t next_channel;
    bool lost;
    bool doomed;
    uint64_t left; /* operations before it is lost, if doomed */
} emu_device_t;

typedef struct emu_state {
    pthread_mutex_t lock;
    pthread_cond_t
        changed; /* a callback has ended, or a thread's call changed what others wait for */
    bool initialized, configured, closing;
    uint64_t generation; /* counts heddle_emucuda_reset */
    emu_config_t config;
    uint64_t random;
    emu_device_t device[EMU_DEVICES];

    emu_thread_t *threads;
    uint32_t callers; /* threads that have made calls, and have not ended */
    emu_host_t *one;  /* of all threads, unless host=threads */
    emu_timeline_t *timeline;
    uint32_t timelines, timeline_capacity;
    uint32_t *free_timeline; /* first in, first out */
    uint32_t free_count, free_capacity;

    emu_allocation_t **allocation; /* sorted by base */
    uint32_t allocations, allocation_capacity;
    uint64_t allocation_ids;

    emu_object_t *objects;                    /* all there are */
    emu_object_t *alive[16], *alive_last[16]; /* by mark */
    uint64_t alive_count[16];
    emu_object_t *dead, *dead_last;
    uint64_t dead_count;

    emu_queue_t **ready;
    uint32_t ready_count, ready_capacity;
    emu_queue_t **polled;
    uint32_t polled_count, polled_capacity;
    uint64_t pending, serial, queues, steps;
    uint64_t versions; /* of the clocks of hosts, given so far */
    uint32_t running;  /* callbacks */
    uint64_t starved;  /* the queue that waits, and until when */
    uint64_t starved_until;
    emu_op_t *free_op;
    emu_record_t *free_record;
    emu_op_t *current_op; /* the kernel that runs, and what it has declared */
    emu_span_t *declared_span;
    uint32_t declared, declared_capacity;

    emu_token_t *token[1024];
    emu_capture_t *captures;
    uint64_t ids; /* of streams, contexts, captures */
    char **names;
    uint32_t name_count, name_capacity;

    uint64_t fail_call, drop_site;
    int fail_error;
    uint64_t *site;
    uint32_t sites;
    heddle_emucuda_report_t report;
    void (*found)(heddle_emucuda_finding_t, const char *, void *);
    void *found_arg;
    uint64_t lines; /* printed */
} emu_state_t;

extern emu_state_t emu;
/* This thread runs what may make no call: a kernel, or a driver's callback; and the operation of a
 * host function. */
extern _Thread_local bool emu_forbidden;
extern _Thread_local emu_op_t *emu_callback_op;

/* state.c */
/* Counts a call and takes the lock; after an error, the lock is not held. */
CUresult emu_enter(void);
/* The same, for calls that need a current context which has not failed. */
CUresult emu_enter_context(CUcontext *context);
/* For what frees or destroys: an error that a test planted is in *planted, and the work is to be
 * done all the same. */
CUresult emu_enter_freeing(CUresult *planted);
/* Runs some queued work, gives the lock back, and returns status. */
CUresult emu_leave(CUresult status);
/* The calling thread, and its current context, which may be NULL. */
emu_thread_t *emu_self(void);
CUcontext emu_current(void);
/* A random number below that bound, by the seed. */
uint64_t emu_draw(uint64_t below);
/* Zeroed memory, and an array with room for `needed` elements: never NULL, for the program ends
 * without memory. */
void *emu_alloc(size_t count, size_t bytes);
void *emu_grow(void *array, uint32_t *capacity, uint32_t needed, size_t bytes);
/* A text that lives as long as the emulator. */
const char *emu_keep(const char *format, const char *name);
/* Whether the wait that begins here is at a site that is dropped. */
bool emu_site_dropped(void);

/* config.c */
int emu_config_parse(const char *text, emu_config_t *config);

/* report.c */
void emu_find(heddle_emucuda_finding_t kind, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
size_t emu_name_timeline(uint32_t timeline, char *text, size_t bytes);

/* object.c */
/* A dead object's memory stays readable: emu_object_is tells whether a handle is alive and of that
 * kind. */
void *emu_object_new(emu_mark_t mark, size_t bytes);
void emu_object_kill(void *object);
bool emu_object_is(const void *object, emu_mark_t mark);
emu_object_t *emu_object_first(emu_mark_t mark);
uint64_t emu_object_count(emu_mark_t mark);
void emu_objects_free(void);

/* memory.c */
bool emu_arena_open(emu_arena_t *arena, uint64_t bytes);
void emu_arena_close(emu_arena_t *arena);
bool emu_arena_has(const emu_arena_t *arena, uint64_t address);
emu_allocation_t *emu_allocate(int device, CUcontext context, emu_memory_kind_t kind,
                               uint64_t bytes);
emu_allocation_t *emu_allocation_list(uint64_t base, uint64_t bytes, emu_memory_kind_t kind,
                                      int device, CUcontext context);
/* An allocation lives while it is listed (programs can name it), alive (its bytes may be touched),
 * or pending (operations hold it). These end one of the three each. */
void emu_allocation_unlist(emu_allocation_t *allocation);
void emu_allocation_end(emu_allocation_t *allocation);
void emu_allocation_drop(emu_allocation_t *allocation);
/* The listed allocation that address is in, or NULL. */
emu_allocation_t *emu_allocation_at(uint64_t address);
/* Where the host finds the bytes that a device has at address. */
void *emu_bytes_at(uint64_t address);
/* Whether kernels of the context may touch it. */
bool emu_reaches(CUcontext context, const emu_allocation_t *allocation);
/* Frees all that the context has; leaked: and tells each. */
void emu_allocations_of(CUcontext context, bool leaked);

/* guard.c */
void emu_guard_begin(void);
void emu_guard_end(void);

/* clock.c */
void emu_vector_join(emu_vector_t *into, const emu_vector_t *from);
void emu_vector_copy(emu_vector_t *into, const emu_vector_t *from);
void emu_vector_free(emu_vector_t *vector);
uint32_t emu_timeline_new(CUstream stream);
void emu_timeline_begin(uint32_t timeline, emu_vector_t *clock);
void emu_timeline_end(uint32_t timeline, const emu_vector_t *clock);
/* Goes over an operation that was just enqueued. */
void emu_clock_pass(CUstream stream, emu_op_t *op);
/* The operation begins to run: a wait for a value that is over, though the clock pass could not
 * know why. */
void emu_clock_force(emu_op_t *op);
/* The operation has run: hands on the clocks of what it signals. */
void emu_clock_executed(emu_op_t *op);
/* What the calling thread does from now on comes after clock. */
void emu_host_join(const emu_vector_t *clock);
void emu_tokens_free(void);

/* race.c */
void emu_check(emu_allocation_t *allocation, uint64_t begin, uint64_t bytes, emu_access_t access,
               const emu_epoch_t *epoch, const emu_vector_t *clock);
void emu_host_access(uint64_t address, uint64_t bytes, emu_access_t access, const char *what);
void emu_shadow_free(emu_shadow_t *shadow);

/* op.c */
emu_op_t *emu_op_new(emu_kind_t kind, const char *what);
emu_op_t *emu_op_copy(const emu_op_t *op);
void emu_op_free(emu_op_t *op);
void emu_ops_free(void);
/* Fills the ranges of an operation that a stream of the context is to run, and its fault, if one is
 * wrong. */
void emu_op_declare(emu_op_t *op, CUcontext context);
void emu_op_range(emu_op_t *op, uint64_t begin, uint64_t bytes, emu_access_t access);
emu_record_t *emu_record_new(void);
void emu_record_hold(emu_record_t *record);
void emu_record_drop(emu_record_t *record);

/* execute.c */
/* Runs a piece of the operation; true if it is over. */
bool emu_execute(emu_op_t *op);

/* queue.c */
emu_queue_t *emu_queue_for(int device);
void emu_queue_leave(emu_queue_t *queue);
void emu_queue_push(emu_queue_t *queue, emu_op_t *op);
/* The operation at the head is over: takes it out, and frees it. */
void emu_queue_finish(emu_queue_t *queue);
/* The stream has come to the record: wakes who waits for it. */
void emu_record_reached(emu_record_t *record);
/* Takes out all operations of the stream, none of which is a host function that runs, without
 * running them. */
void emu_stream_purge(CUstream stream);
/* Runs a piece of some operation that is drawn, or of one that the record needs; false if none can
 * run. */
bool emu_step(void);
bool emu_step_towards(const emu_record_t *record);
/* What a call runs in the end, as the policy has it. */
void emu_drive(void);
/* Whether the value that the operation waits for is there. */
bool emu_word_satisfied(const emu_op_t *op);

/* wait.c */
/* Run work until there is no need to wait; then the calling thread comes after it.
 * CUDA_ERROR_TIMEOUT: a deadlock, which was told. */
CUresult emu_wait(emu_record_t *record, CUcontext context);
CUresult emu_wait_stream(CUstream stream);
CUresult emu_wait_context(CUcontext context);
CUresult emu_wait_allocation(emu_allocation_t *allocation);

/* callback.c */
/* Hands the host function at the queue's head to the thread for callbacks, and waits for it a
 * while. */
void emu_callback_run(emu_queue_t *queue);
void emu_destroy_later(CUhostFn function, void *pointer);
/* Sees to it that queued work goes on while nobody calls. */
void emu_background(void);
void emu_callbacks_stop(void);

/* device.c, context.c */
CUcontext emu_context_new(int device, unsigned int flags);
void emu_context_destroy(CUcontext context);
void emu_context_push(CUcontext context);
CUresult emu_context_status(CUcontext context);
void emu_context_fail(CUcontext context, CUresult error);
bool emu_device_valid(CUdevice device);
void emu_device_lose(int device);
void emu_devices_close(void);

/* stream.c */
CUstream emu_stream_new(CUcontext context, unsigned int flags, bool internal);
/* Frees a stream without pending operations. */
void emu_stream_gone(CUstream stream);
/* The stream that a program means by handle, and the error of its context. */
CUresult emu_stream(CUstream handle, CUcontext context, CUstream *stream);
/* Take op over, also if they fail. The first adds it to what the stream captures, if it does. */
CUresult emu_submit(CUstream stream, emu_op_t *op);
CUresult emu_enqueue(CUstream stream, emu_op_t *op);
/* A record of all that is pending, to be dropped by the caller; NULL if nothing is. */
emu_record_t *emu_stream_tail(CUstream stream);
/* These three enqueue an operation, a wait for a record, and a wait for all that another stream has
 * pending, without regard to captures and NULL streams. */
void emu_stream_push(CUstream stream, emu_op_t *op);
void emu_stream_wait(CUstream stream, emu_record_t *record);
void emu_stream_follow(CUstream stream, CUstream other);
/* A wait for a record, as a program enqueues it. */
CUresult emu_stream_after(CUstream stream, emu_record_t *record);
CUstream emu_per_thread(CUstream stream);

/* event.c, module.c, launch.c */
void emu_event_free(CUevent event);
CUmodule emu_module_load(CUcontext context, const void *image, CUresult *status);
void emu_module_unload(CUmodule module);
CUfunction emu_module_function(CUmodule module, uint32_t kernel);
const heddle_emucuda_module_t *emu_image(const void *image);
CUfunction emu_function(CUfunction handle, CUcontext context);
/* Fills params with where each parameter lies. */
void emu_launch_params(const emu_launch_t *launch, void **params);
void emu_library_free(CUlibrary library);

/* pool.c */
CUmemoryPool emu_pool_new(int device, bool standard);
void emu_pool_used(emu_allocation_t *allocation, bool begins);

/* capture.c */
/* Whether the calling thread may make a call that is unsafe, or use the NULL stream of the context,
 * while others capture: else, their captures are invalid from now on. */
CUresult emu_capture_unsafe(void);
CUresult emu_capture_legacy(CUcontext context);
CUresult emu_capture_node(CUstream stream, emu_op_t *op);
CUresult emu_capture_record(CUstream stream, CUevent event);
CUresult emu_capture_wait(CUstream stream, CUevent event);
void emu_capture_hold(emu_capture_t *capture);
void emu_capture_drop(emu_capture_t *capture);
void emu_capture_invalidate(emu_capture_t *capture);
void emu_capture_stream_gone(CUstream stream);
void emu_event_uncapture(CUevent event);

/* graph.c, user_object.c */
CUgraph emu_graph_new(void);
CUgraphNode emu_graph_add(CUgraph graph, emu_op_t *op, CUcontext context,
                          const CUgraphNode *dependency, size_t dependencies);
void emu_graph_free(CUgraph graph);
void emu_exec_drop(CUgraphExec exec);
void emu_exec_free(CUgraphExec exec);
void emu_exec_destroy(CUgraphExec exec);
void emu_user_object_drop(CUuserObject object, uint64_t count);
void emu_held_drop(emu_held_t *held, size_t count);

#endif
