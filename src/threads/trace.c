/* trace.c: records of what happened, and the file made of them. See trace.h.
 *
 * Records lie in one large mapping, which the kernel fills with pages as it is written. It is cut
 * into blocks; a thread takes the next block off a counter and is then the only one that writes it,
 * so a record costs no atomic operation but the release store of the block's count. Block numbers
 * only grow, so the records of one thread lie in the order in which it made them.
 *
 * A SESSION lasts from the first library with a file to the last library of any kind: then nobody
 * is left who could record. A library with the same file that comes later adds to what is in it:
 * one file per process.
 *
 * The file is written anew while the program runs, more often than not several times a second, so
 * that one that hangs, crashes or is killed leaves a trace: by a post, or by a wait that is looked
 * after (runner.c), and never for more than a twentieth of the time. What is written replaces the
 * file at once.
 *
 * The writer sorts records by operation and time, cuts each operation's records into posts (spans),
 * and sorts those by team and endpoint. Operations of one endpoint that overlap get further rows,
 * so that on every row spans are nested or apart. All times are whole nanoseconds: children end
 * where or before their parents do, to the digit.
 */
#define _GNU_SOURCE
#include "threads/trace.h"

#include "core/fork.h"
#include "core/log.h"
#include "core/sanitizer.h"
#include "threads/clock.h"
#include "threads/threads.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucc/api/ucc.h>
#include <unistd.h>

enum { BLOCK_RECORDS = 256, MAX_BLOCKS = HD_TRACE_EVENTS / BLOCK_RECORDS };

typedef enum kind { POST, PUBLISHED, DECIDED, SEEN, CHUNK, DONE, LEG, SENT, TAKEN } kind_t;

typedef struct record {
    uint64_t at; /* ticks; of a chunk or a message: when it began */
    const void *op;
    union {
        uint64_t team;         /* POST */
        uint64_t until;        /* CHUNK, SENT, TAKEN */
        const char *stores;    /* PUBLISHED */
        const char *algorithm; /* LEG */
    };
    union {
        const char *name; /* POST, LEG: type; PUBLISHED, DECIDED: plan */
        uint64_t id;      /* SENT, TAKEN */
    };
    union {
        uint64_t number; /* POST, SENT, TAKEN: bytes; PUBLISHED, LEG: k */
        int64_t status;  /* DONE */
        struct {
            uint32_t slice, unit; /* CHUNK */
        };
    };
    uint32_t kind;
    /* POST: endpoint; CHUNK: units; PUBLISHED: bytes of one, or as many as fit; SENT, TAKEN: the
       other process; LEG: lane, and the segment above LANE_BITS */
    uint32_t count;
} record_t;

enum { LANE_BITS = 8 };

typedef struct block {
    alignas(64) _Atomic uint32_t used; /* records that are complete; written by the block's owner */
    record_t record[BLOCK_RECORDS];
} block_t;

atomic_bool hd_trace_recording;
enum { NO_CALLS = -1, ATTEND = 64 }; /* added to the level for each who attends */

atomic_int hd_trace_calls = NO_CALLS;

static struct {
    pthread_mutex_t lock; /* guards the fields up to the blank line */
    uint32_t libraries;
    char path[PATH_MAX];
    bool replaced;  /* the path is a plain file: written beside it, and renamed */
    uint32_t seen;  /* blocks that were taken when it was written */
    uint64_t pause; /* ticks from one writing to the next */
    bool failed;    /* it could not be written last time, and that has been said */
    bool open;
    atomic_bool
        recording; /* records are taken: then hd_trace_recording, the hooks' switch, is set */
    pid_t process; /* that opened it: a child must not write its parent's file */
    uint64_t began, began_ns;   /* ticks, and what CLOCK_MONOTONIC showed then ... */
    uint64_t now, now_ns;       /* ... and when the file was written: what makes times of ticks */
    uint32_t number, processes; /* of this process; 0 processes: no team has spanned any */

    /* written before `recording` is set, read by who has seen it set */
    block_t *blocks;
    _Atomic uint64_t session; /* tells threads that their block is of an earlier session */
    _Atomic uint32_t taken;   /* blocks; may exceed MAX_BLOCKS */
    _Atomic uint64_t due;     /* ticks at which the file is to be written anew */
} trace = {.lock = PTHREAD_MUTEX_INITIALIZER, .due = UINT64_MAX};

static _Thread_local struct {
    uint64_t session;
    block_t *block;
    uint32_t used; /* as in the block: saves the owner a load */
    int attends;
} mine;

/* --- recording -------------------------------------------------------------------------------- */

/* The hooks stay on for ThreadSanitizer, which is told what posts and completions mean. */
static void stop_recording(void) {
    /* relaxed, both: who still records adds to blocks that nobody frees */
    atomic_store_explicit(&trace.recording, false, memory_order_relaxed);
    atomic_store_explicit(&hd_trace_recording, hd_sanitizer_watches, memory_order_relaxed);
}

static block_t *take_block(void) {
    /* relaxed: a number that nobody else gets; what is in the block, `used` publishes */
    uint32_t i = atomic_fetch_add_explicit(&trace.taken, 1, memory_order_relaxed);
    if (i < MAX_BLOCKS) {
        return &trace.blocks[i];
    }
    /* relaxed: whoever still sees it set ends here */
    if (atomic_exchange_explicit(&trace.recording, false, memory_order_relaxed)) {
        stop_recording();
        hd_warn("%d events are traced: no more are recorded", (int)HD_TRACE_EVENTS);
        /* nobody asks for the file from now on, and the program may be killed: due at once.
           relaxed: see hd_trace_tick */
        atomic_store_explicit(&trace.due, 0, memory_order_relaxed);
        hd_trace_tick();
    }
    return NULL;
}

static void add(const record_t *record) {
    /* acquire: pairs with the release in start_session, for everything it set up */
    if (!atomic_load_explicit(&trace.recording, memory_order_acquire)) {
        return;
    }
    /* relaxed: as the load above, it can't be older than what start_session stored */
    uint64_t session = atomic_load_explicit(&trace.session, memory_order_relaxed);
    if (mine.session != session || !mine.block || mine.used == BLOCK_RECORDS) {
        mine.session = session;
        mine.used = 0;
        mine.block = take_block();
        if (!mine.block) {
            return;
        }
    }
    mine.block->record[mine.used++] = *record;
    /* release: the record; pairs with the acquire in collect */
    atomic_store_explicit(&mine.block->used, mine.used, memory_order_release);
}

void hd_trace_post(const void *op, const char *name, uint64_t bytes, uint64_t team, uint32_t ep) {
    if (hd_sanitizer_watches) {
        hd_sanitizer_release(((const hd_task_t *)op)->home);
        hd_sanitizer_release(&hd_sanitizer_callbacks);
    }
    add(&(record_t){.at = hd_ticks(),
                    .op = op,
                    .team = team,
                    .name = name,
                    .number = bytes,
                    .kind = POST,
                    .count = ep});
    hd_trace_tick();
}

bool hd_trace_records(void) {
    /* relaxed: whoever records looks again, with acquire */
    return atomic_load_explicit(&trace.recording, memory_order_relaxed);
}

/* Without a lock: what is recorded orders nothing, and the child of a fork finds nothing locked. */
const char *hd_trace_keep(const char *text) {
    enum { MOST = 256 };
    static _Atomic(const char *) kept[MOST];
    for (uint32_t i = 0; i < MOST; i++) {
        /* acquire: pairs with the release below, for the text */
        const char *there = atomic_load_explicit(&kept[i], memory_order_acquire);
        char *mine = there ? NULL : strdup(text);
        if (!there && !mine) {
            break;
        }
        /* release: the text; acquire: that of whoever came first */
        if (mine && atomic_compare_exchange_strong_explicit(
                        &kept[i], &there, mine, memory_order_release, memory_order_acquire)) {
            return mine;
        }
        free(mine);
        if (strcmp(there, text) == 0) {
            return there;
        }
    }
    return "one of many plans";
}

void hd_trace_published(const void *op, const char *plan, uint64_t k) {
    add(&(record_t){.at = hd_ticks(), .op = op, .name = plan, .number = k, .kind = PUBLISHED});
}

void hd_trace_decided(const void *op, const char *plan) {
    add(&(record_t){.at = hd_ticks(), .op = op, .name = plan, .kind = DECIDED});
}

void hd_trace_seen(const void *op) {
    add(&(record_t){.at = hd_ticks(), .op = op, .kind = SEEN});
}

void hd_trace_waited(const void *op) {
    hd_sanitizer_acquire(&((const hd_task_t *)op)->req.status);
}

void hd_trace_done(const void *op, int status) {
    if (hd_sanitizer_watches) {
        const hd_task_t *task = op;
        hd_sanitizer_acquire(task->home);
        hd_sanitizer_acquire(&hd_sanitizer_callbacks);
        hd_sanitizer_release(&task->req.status);
    }
    add(&(record_t){.at = hd_ticks(), .op = op, .status = status, .kind = DONE});
}

void hd_trace_chunk(const void *op, uint64_t began, uint32_t slice, uint32_t unit, uint32_t units) {
    add(&(record_t){.at = began,
                    .op = op,
                    .until = hd_ticks(),
                    .slice = slice,
                    .unit = unit,
                    .kind = CHUNK,
                    .count = units});
}

void hd_trace_leg(const void *leg, const char *name, const char *algorithm, uint64_t number,
                  uint32_t segment, uint32_t lane) {
    add(&(record_t){.at = hd_ticks(),
                    .op = leg,
                    .algorithm = algorithm,
                    .name = name,
                    .number = number,
                    .kind = LEG,
                    .count = lane | segment << LANE_BITS});
}

static void add_message(kind_t kind, const void *leg, uint64_t began, uint64_t id, uint64_t bytes,
                        uint32_t other) {
    add(&(record_t){.at = began,
                    .op = leg,
                    .until = hd_ticks(),
                    .id = id,
                    .number = bytes,
                    .kind = kind,
                    .count = other});
}

void hd_trace_sent(const void *leg, uint64_t began, uint64_t id, uint64_t bytes, uint32_t to) {
    add_message(SENT, leg, began, id, bytes, to);
}

void hd_trace_taken(const void *leg, uint64_t began, uint64_t id, uint64_t bytes, uint32_t from) {
    add_message(TAKEN, leg, began, id, bytes, from);
}

void hd_trace_leg_done(const void *leg, int status) {
    add(&(record_t){.at = hd_ticks(), .op = leg, .status = status, .kind = DONE});
}

void hd_trace_process(uint32_t number, uint32_t processes) {
    pthread_mutex_lock(&trace.lock);
    if (trace.processes == 0) {
        trace.number = number;
        trace.processes = processes;
    }
    pthread_mutex_unlock(&trace.lock);
}

/* --- from records to spans -------------------------------------------------------------------- */

/* One post of one operation. */
typedef struct span {
    const record_t *post, *published, *done; /* the last two may be NULL */
    const char *plan;                        /* the last one that was told; NULL: none was */
    const record_t *const *events;           /* its records after POST, in order of time */
    size_t n_events;
    uint64_t seen, end; /* ticks */
} span_t;

static int compare(uint64_t a, uint64_t b) {
    return (a > b) - (a < b);
}

/* By operation, time, and place: within one tick, one thread's records keep their order. */
static int by_operation(const void *left, const void *right) {
    const record_t *a = *(const record_t *const *)left, *b = *(const record_t *const *)right;
    int order = compare((uintptr_t)a->op, (uintptr_t)b->op);
    order = order ? order : compare(a->at, b->at);
    return order ? order : compare((uintptr_t)a, (uintptr_t)b);
}

/* Rows: an endpoint of a team, or a lane; those come last. */
static uint64_t team_of(const record_t *r) {
    return r->kind == LEG ? UINT64_MAX : r->team;
}
static uint32_t place_of(const record_t *r) {
    return r->kind == LEG ? r->count & ((1u << LANE_BITS) - 1) : r->count;
}

/* By team, endpoint and time. */
static int by_place(const void *left, const void *right) {
    const record_t *a = ((const span_t *)left)->post, *b = ((const span_t *)right)->post;
    int order = compare(team_of(a), team_of(b));
    order = order ? order : compare(place_of(a), place_of(b));
    order = order ? order : compare(a->at, b->at);
    return order ? order : compare((uintptr_t)a, (uintptr_t)b);
}

/* All complete records, sorted by operation. NULL: no memory. *last: until when what is open lasts.
 */
static const record_t **collect(size_t *n, uint64_t *last) {
    /* relaxed: a block taken meanwhile may be missed */
    uint32_t taken = atomic_load_explicit(&trace.taken, memory_order_relaxed);
    uint32_t blocks = taken < MAX_BLOCKS ? taken : MAX_BLOCKS;
    const record_t **all = malloc(((size_t)blocks * BLOCK_RECORDS + 1) * sizeof(*all));
    *n = 0;
    *last = hd_ticks();
    for (uint32_t b = 0; all && b < blocks; b++) {
        const block_t *block = &trace.blocks[b];
        /* acquire: pairs with the release in add; records below the count never change again */
        uint32_t used = atomic_load_explicit(&block->used, memory_order_acquire);
        for (uint32_t i = 0; i < used; i++) {
            const record_t *r = &block->record[i];
            bool lasts = r->kind == CHUNK || r->kind == SENT || r->kind == TAKEN;
            uint64_t end = lasts ? r->until : r->at;
            *last = end > *last ? end : *last;
            all[(*n)++] = r;
        }
    }
    if (all) {
        qsort(all, *n, sizeof(*all), by_operation);
    }
    return all;
}

/* The records from *at on, which starts with a POST or a LEG: one span. Moves *at behind its last
 * record. A post that is never done ends with the next one of its operation, or with the trace. */
static span_t cut(const record_t *const *all, size_t n, size_t *at, uint64_t last) {
    span_t span = {.post = all[*at], .events = &all[*at + 1], .end = last};
    span.seen = UINT64_MAX;
    for (++*at; *at < n && all[*at]->op == span.post->op && !span.done; ++*at) {
        const record_t *r = all[*at];
        if (r->kind == POST || r->kind == LEG) {
            span.end = r->at;
            break;
        }
        span.n_events++;
        if (r->kind == PUBLISHED) {
            span.published = r;
            span.plan = r->name;
        } else if (r->kind == DECIDED) {
            span.plan = r->name;
        } else if (r->kind == DONE) {
            span.done = r;
            span.end = r->at;
        } else if (r->at < span.seen) { /* SEEN, or the first CHUNK */
            span.seen = r->at;
        }
    }
    span.seen = span.seen < span.end ? span.seen : span.end;
    return span;
}

/* All spans, sorted by place. NULL: no memory. */
static span_t *cut_all(const record_t *const *all, size_t n, uint64_t last, size_t *n_spans) {
    size_t posts = 0;
    for (size_t i = 0; i < n; i++) {
        posts += all[i]->kind == POST || all[i]->kind == LEG;
    }
    span_t *spans = malloc((posts + 1) * sizeof(*spans));
    *n_spans = 0;
    for (size_t i = 0; spans && i < n;) {
        if (all[i]->kind == POST || all[i]->kind == LEG) {
            spans[(*n_spans)++] = cut(all, n, &i, last);
        } else {
            i++; /* posted before the session, or done twice */
        }
    }
    if (spans) {
        qsort(spans, *n_spans, sizeof(*spans), by_place);
    }
    return spans;
}

/* --- the file --------------------------------------------------------------------------------- */

typedef struct writer {
    FILE *file;
    bool any;        /* an event was written: the next one needs a comma */
    uint32_t n_rows; /* thread ids given out */
    uint32_t n_teams;
    uint64_t *row_end; /* of the endpoint at hand: until when each of its rows is taken */
    uint32_t n_row_ends, room;
} writer_t;

/* By CLOCK_MONOTONIC, so that the processes of a host agree, whatever each thinks of the length of
 * a tick. */
static uint64_t nanoseconds(uint64_t ticks) {
    if (ticks <= trace.began) {
        return 0;
    }
    if (trace.now <= trace.began) {
        return (ticks - trace.began) * 1000u / hd_ticks_per_us;
    }
    return (uint64_t)((unsigned __int128)(ticks - trace.began) * (trace.now_ns - trace.began_ns) /
                      (trace.now - trace.began));
}

static void begin_event(writer_t *w) {
    fputs(w->any ? ",\n" : "\n", w->file);
    w->any = true;
}

/* A span, up to its arguments. */
static void begin_span(writer_t *w, const char *name, uint32_t row, uint64_t from, uint64_t to) {
    uint64_t begin = nanoseconds(from), end = nanoseconds(to > from ? to : from);
    begin_event(w);
    fprintf(w->file,
            "{\"ph\":\"X\",\"pid\":%ld,\"tid\":%u,\"name\":\"%s\",\"ts\":%llu.%03u,"
            "\"dur\":%llu.%03u,\"args\":{",
            (long)trace.process, row, name, (unsigned long long)(begin / 1000),
            (unsigned)(begin % 1000), (unsigned long long)((end - begin) / 1000),
            (unsigned)((end - begin) % 1000));
}

static void end_span(writer_t *w) {
    fputs("}}", w->file);
}

static void name_process(writer_t *w) {
    begin_event(w);
    fprintf(w->file, "{\"ph\":\"M\",\"pid\":%ld,\"name\":\"process_name\",\"args\":{\"name\":\"",
            (long)trace.process);
    for (const char *c = program_invocation_short_name; *c; c++) {
        bool plain = *c >= ' ' && *c < 0x7f && *c != '"' && *c != '\\';
        fputc(plain ? *c : '_', w->file);
    }
    if (trace.processes) {
        fprintf(w->file, ", process %u of %u", trace.number, trace.processes);
    }
    fputs("\"}}", w->file);
    if (trace.processes) {
        begin_event(w);
        fprintf(w->file,
                "{\"ph\":\"M\",\"pid\":%ld,\"name\":\"process_sort_index\",\"args\":{"
                "\"sort_index\":%u}}",
                (long)trace.process, trace.number);
    }
}

/* team 0: a lane's. */
static void name_row(writer_t *w, uint32_t row, uint32_t team, uint32_t ep, uint32_t further) {
    char name[64];
    int used = team ? snprintf(name, sizeof(name), "team %u endpoint %u", team, ep)
                    : snprintf(name, sizeof(name), "network lane %u", ep);
    if (further) {
        snprintf(name + used, sizeof(name) - (size_t)used, " (%u)", further + 1);
    }
    begin_event(w);
    fprintf(w->file,
            "{\"ph\":\"M\",\"pid\":%ld,\"tid\":%u,\"name\":\"thread_name\",\"args\":{\"name\":"
            "\"%s\"}}",
            (long)trace.process, row, name);
    begin_event(w);
    fprintf(w->file,
            "{\"ph\":\"M\",\"pid\":%ld,\"tid\":%u,\"name\":\"thread_sort_index\",\"args\":{"
            "\"sort_index\":%u}}",
            (long)trace.process, row, row);
}

/* The message as a span, and its end of the arrow. */
static void write_message(writer_t *w, const record_t *r, uint64_t end, uint32_t row) {
    bool sent = r->kind == SENT;
    begin_span(w, sent ? "send" : "receive", row, r->at, r->until < end ? r->until : end);
    fprintf(w->file, "\"bytes\":%llu,\"%s\":%u", (unsigned long long)r->number,
            sent ? "to" : "from", r->count);
    end_span(w);
    uint64_t at = nanoseconds(r->at);
    begin_event(w);
    fprintf(w->file,
            "{\"ph\":\"%s\",\"pid\":%ld,\"tid\":%u,\"cat\":\"message\",\"name\":\"message\","
            "\"id\":\"0x%llx\",\"ts\":%llu.%03u}",
            sent ? "s" : "f\",\"bp\":\"e", (long)trace.process, row, (unsigned long long)r->id,
            (unsigned long long)(at / 1000), (unsigned)(at % 1000));
}

static void write_leg(writer_t *w, const span_t *span, uint32_t row) {
    begin_span(w, span->post->name, row, span->post->at, span->end);
    fprintf(w->file, "\"algorithm\":\"%s\",\"k\":%llu,\"segment\":%u", span->post->algorithm,
            (unsigned long long)span->post->number, span->post->count >> LANE_BITS);
    if (!span->done) {
        fputs(",\"unfinished\":true", w->file);
    } else if (span->done->status < 0) {
        fprintf(w->file, ",\"status\":\"%s\"", ucc_status_string((ucc_status_t)span->done->status));
    }
    end_span(w);
    for (size_t i = 0; i < span->n_events; i++) {
        const record_t *r = span->events[i];
        if (r->kind == SENT || r->kind == TAKEN) {
            write_message(w, r, span->end, row);
        }
    }
}

static void write_phases(writer_t *w, const span_t *span, uint32_t row) {
    uint64_t published = span->published ? span->published->at : span->end;
    if (span->published || !span->done || span->done->status < 0) {
        begin_span(w, "queued", row, span->post->at, published);
        end_span(w);
    }
    if (span->published) {
        begin_span(w, "arrival", row, published, span->seen);
        end_span(w);
    }
    for (size_t i = 0; i < span->n_events; i++) {
        const record_t *r = span->events[i];
        if (r->kind == CHUNK) {
            begin_span(w, "chunk", row, r->at, r->until < span->end ? r->until : span->end);
            fprintf(w->file, "\"slice\":%u,\"unit\":%u,\"units\":%u", r->slice, r->unit, r->count);
            end_span(w);
        }
    }
}

static void write_span(writer_t *w, const span_t *span, uint32_t row) {
    if (span->post->kind == LEG) {
        write_leg(w, span, row);
        return;
    }
    begin_span(w, span->post->name, row, span->post->at, span->end);
    fprintf(w->file, "\"bytes\":%llu,\"plan\":\"%s\"", (unsigned long long)span->post->number,
            span->plan ? span->plan : "none");
    if (span->published) {
        fprintf(w->file, ",\"k\":%llu", (unsigned long long)span->published->number);
    }
    if (!span->done) {
        fputs(",\"unfinished\":true", w->file);
    } else if (span->done->status < 0) {
        fprintf(w->file, ",\"status\":\"%s\"", ucc_status_string((ucc_status_t)span->done->status));
    }
    end_span(w);
    write_phases(w, span, row);
}

/* The endpoint's first row that is free when this span begins; false: no memory for one more. */
static bool find_row(writer_t *w, const span_t *span, uint32_t *row) {
    uint32_t i = 0;
    while (i < w->n_row_ends && w->row_end[i] > nanoseconds(span->post->at)) {
        i++;
    }
    if (i == w->room) {
        uint32_t room = w->room ? 2 * w->room : 16;
        uint64_t *ends = realloc(w->row_end, room * sizeof(*ends));
        if (!ends) {
            return false;
        }
        w->row_end = ends;
        w->room = room;
    }
    w->row_end[i] = nanoseconds(span->end);
    *row = i;
    return true;
}

/* The spans of one endpoint; returns how many there were. */
static size_t write_endpoint(writer_t *w, const span_t *spans, size_t n, uint32_t team) {
    const record_t *first = spans[0].post;
    size_t i = 0;
    w->n_row_ends = 0;
    for (; i < n && team_of(spans[i].post) == team_of(first) &&
           place_of(spans[i].post) == place_of(first);
         i++) {
        uint32_t row;
        if (!find_row(w, &spans[i], &row)) {
            continue;
        }
        if (row == w->n_row_ends) {
            w->n_row_ends++;
            name_row(w, w->n_rows + row, team, place_of(first), row);
        }
        write_span(w, &spans[i], w->n_rows + row);
    }
    w->n_rows += w->n_row_ends;
    return i;
}

static void write_all(FILE *file, const span_t *spans, size_t n) {
    writer_t w = {.file = file, .n_rows = 1};
    char boot[64] = "";
    FILE *id =
        fopen("/proc/sys/kernel/random/boot_id", "r"); /* tells systems apart, and so clocks */
    if (id) {
        if (!fgets(boot, sizeof(boot), id)) {
            boot[0] = '\0';
        }
        fclose(id);
    }
    fprintf(file,
            "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"clock\":\"%.*s\",\"began_ns\":%llu},"
            "\"traceEvents\":[",
            (int)strcspn(boot, "\n"), boot, (unsigned long long)trace.began_ns);
    name_process(&w);
    for (size_t i = 0; i < n;) {
        bool leg = spans[i].post->kind == LEG;
        w.n_teams += i == 0 || team_of(spans[i].post) != team_of(spans[i - 1].post);
        i += write_endpoint(&w, &spans[i], n - i, leg ? 0 : w.n_teams);
    }
    fputs("\n]}\n", file);
    free(w.row_end);
}

/* Both clocks at once, as well as that goes: a thread may lose its processor between two looks. */
static void read_clocks(uint64_t *ticks, uint64_t *ns) {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 16; i++) {
        uint64_t before = hd_ticks(), now = hd_clock_ns(), after = hd_ticks();
        if (after - before < least) {
            least = after - before;
            *ticks = before + least / 2;
            *ns = now;
        }
    }
}

/* Called under the lock. */
static void write_file(void) {
    read_clocks(&trace.now, &trace.now_ns);
    size_t n, n_spans = 0;
    uint64_t last;
    int cancelling; /* a cancelled thread must not end under the lock */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
    const record_t **all = collect(&n, &last);
    span_t *spans = all ? cut_all(all, n, last, &n_spans) : NULL;
    char beside[PATH_MAX + 8];
    snprintf(beside, sizeof(beside), "%s%s", trace.path, trace.replaced ? ".new" : "");
    FILE *file = spans ? fopen(beside, "w") : NULL;
    if (file) {
        write_all(file, spans, n_spans);
    }
    bool bad = !file || ferror(file);
    if (file) {
        bad |= fclose(file) != 0; /* in any case: it must not stay open */
    }
    bad = bad || (trace.replaced && rename(beside, trace.path) != 0);
    if (bad && !trace.failed) {
        hd_warn("can't write the trace %s: %s", trace.path, strerror(spans ? errno : ENOMEM));
    }
    if (bad && file && trace.replaced) {
        unlink(beside); /* half a file is of no use, and takes room that may be short */
    }
    trace.failed = bad;
    free(spans);
    free(all);
    pthread_setcancelstate(cancelling, NULL);
}

enum { SHORTEST_PAUSE_US = 250000, LONGEST_PAUSE_US = 10000000, SHARE = 20 };

void hd_trace_tick(void) {
    /* relaxed: who finds it due looks again under the lock */
    if (hd_ticks() < atomic_load_explicit(&trace.due, memory_order_relaxed) ||
        pthread_mutex_trylock(&trace.lock) != 0) {
        return;
    }
    uint64_t began = hd_ticks();
    if (trace.open && trace.replaced && trace.process == getpid() &&
        began >= atomic_load_explicit(&trace.due, memory_order_relaxed)) {
        write_file();
        uint64_t now = hd_ticks(), shortest = SHORTEST_PAUSE_US * hd_ticks_per_us;
        uint64_t longest = LONGEST_PAUSE_US * hd_ticks_per_us;
        uint32_t taken = atomic_load_explicit(&trace.taken, memory_order_relaxed); /* a guess */
        /* of a program that only waits, what is written changes little */
        uint64_t pause = taken == trace.seen ? 2 * trace.pause : shortest;
        pause = pause < longest ? pause : longest;
        pause = pause > SHARE * (now - began) ? pause : SHARE * (now - began);
        trace.pause = pause;
        trace.seen = taken;
        uint64_t due =
            trace.failed ? UINT64_MAX : now + pause; /* the end of the session tries again */
        atomic_store_explicit(&trace.due, due, memory_order_relaxed); /* see above */
    }
    pthread_mutex_unlock(&trace.lock);
}

/* --- sessions --------------------------------------------------------------------------------- */

/* Replaces %p and %h. False if the name is too long. */
static bool expand(const char *file, char *out, size_t size) {
    char host[256] = "localhost";
    size_t used = 0;
    gethostname(host, sizeof(host) - 1);
    while (*file && used < size) {
        int n;
        if (file[0] == '%' && (file[1] == 'p' || file[1] == 'h')) {
            n = file[1] == 'p' ? snprintf(out + used, size - used, "%ld", (long)getpid())
                               : snprintf(out + used, size - used, "%s", host);
            file += 2;
        } else {
            n = snprintf(out + used, size - used, "%c", *file++);
        }
        used += (size_t)n;
    }
    return used < size;
}

/* The file is made now: a path that can't be written is told at once. Absolute, as the process may
 * change its directory. */
static bool make_file(const char *name, char *path) {
    char given[PATH_MAX];
    FILE *file = NULL;
    errno = ENAMETOOLONG;
    int cancelling; /* see write_file */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
    if (expand(name, given, sizeof(given))) {
        file = fopen(given, "a");
    }
    bool made = file && fclose(file) == 0 && realpath(given, path);
    if (!made) {
        hd_warn("can't write the trace %s: %s", name, strerror(errno));
    }
    pthread_setcancelstate(cancelling, NULL);
    return made;
}

/* The process ends with libraries open. */
static void at_exit(void) {
    stop_recording();
    pthread_mutex_lock(&trace.lock);
    if (trace.open && trace.process == getpid()) {
        trace.open = false;
        write_file();
    }
    pthread_mutex_unlock(&trace.lock);
}

/* Records begin anew; nobody records yet. */
static bool start_file(const char *path) {
    struct stat what;
    void *blocks = mmap(NULL, MAX_BLOCKS * sizeof(block_t), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (blocks == MAP_FAILED) {
        hd_warn("no address space for a trace: %s", strerror(errno));
        return false;
    }
    if (trace.blocks &&
        trace.process == getpid()) { /* in an inherited one, others may still record */
        munmap(trace.blocks, MAX_BLOCKS * sizeof(block_t));
    }
    trace.blocks = blocks;
    strcpy(trace.path, path); /* both hold PATH_MAX */
    trace.replaced = stat(path, &what) == 0 && S_ISREG(what.st_mode);
    trace.failed = false;
    trace.process = getpid();
    read_clocks(&trace.began, &trace.began_ns);
    trace.processes = 0;
    /* relaxed: nobody records yet; published by the store in start_session */
    atomic_store_explicit(&trace.taken, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&trace.session, 1, memory_order_relaxed);
    write_file(); /* a process that is killed soon leaves a trace without events, but a trace */
    return true;
}

static void start_session(const char *file) {
    static bool registered; /* under the lock */
    char path[PATH_MAX];
    if (!make_file(file, path)) {
        return;
    }
    if (trace.open && strcmp(path, trace.path) == 0) {
        hd_warn("the trace %s is the parent process's: %%p in its name tells them apart", path);
        return;
    }
    stop_recording(); /* into what the parent's session left in a child */
    bool goes_on = trace.blocks && trace.process == getpid() && strcmp(path, trace.path) == 0;
    if (!goes_on && !start_file(path)) {
        return;
    }
    if (!registered) {
        registered = atexit(at_exit) == 0;
    }
    trace.open = true;
    trace.pause = SHORTEST_PAUSE_US * hd_ticks_per_us;
    /* relaxed: see hd_trace_tick */
    atomic_store_explicit(&trace.due, hd_ticks() + trace.pause, memory_order_relaxed);
    /* release: all of the above; pairs with the acquire in add */
    atomic_store_explicit(&trace.recording, true, memory_order_release);
    atomic_store_explicit(&hd_trace_recording, true, memory_order_relaxed); /* only a switch */
}

static void end_session(void) {
    stop_recording(); /* no library is left, so nobody records */
    trace.open = false;
    atomic_store_explicit(&trace.due, UINT64_MAX, memory_order_relaxed); /* see hd_trace_tick */
    if (trace.process == getpid()) {
        write_file();
    }
}

/* relaxed, here and below: readers need the value only */
int hd_trace_level(void) {
    int calls = atomic_load_explicit(&hd_trace_calls, memory_order_relaxed);
    return (calls - NO_CALLS) % ATTEND + NO_CALLS;
}

static void set_level(int level) {
    atomic_fetch_add_explicit(&hd_trace_calls, level - hd_trace_level(), memory_order_relaxed);
}

void hd_trace_attend(void) {
    mine.attends++;
    atomic_fetch_add_explicit(&hd_trace_calls, ATTEND, memory_order_relaxed);
}

void hd_trace_leave(void) {
    mine.attends--;
    atomic_fetch_sub_explicit(&hd_trace_calls, ATTEND, memory_order_relaxed);
}

/* In the child of a fork: of those who attend, only the calling thread is there. */
static void inherited(hd_fork_hook_t *self) {
    (void)self;
    atomic_store_explicit(&hd_trace_calls, hd_trace_level() + ATTEND * mine.attends,
                          memory_order_relaxed);
}

static void watch_forks(void) {
    static hd_fork_hook_t fork_hook;
    hd_fork_watch(&fork_hook, inherited);
}

void hd_trace_open(const char *file, int calls) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    hd_fork_guard(&trace.lock);
    pthread_mutex_lock(&trace.lock);
    trace.libraries++;
    if (hd_sanitizer_watches) {
        /* relaxed: a switch; this thread's own collectives come after it, as do those of whoever
           this library is handed to */
        atomic_store_explicit(&hd_trace_recording, true, memory_order_relaxed);
    }
    if (file && *file && (!trace.open || trace.process != getpid())) {
        start_session(file);
    }
    if (calls > hd_trace_level()) {
        set_level(calls);
    }
    pthread_mutex_unlock(&trace.lock);
}

void hd_trace_close(void) {
    pthread_mutex_lock(&trace.lock);
    if (--trace.libraries == 0) {
        if (trace.open) {
            end_session();
        }
        set_level(NO_CALLS);
    }
    pthread_mutex_unlock(&trace.lock);
}

/* --- log lines -------------------------------------------------------------------------------- */

static void name_flags(uint64_t flags, char *out, size_t size) {
    static const struct {
        uint64_t flag;
        const char *name;
    } names[] = {{UCC_COLL_ARGS_FLAG_IN_PLACE, " in_place"},
                 {UCC_COLL_ARGS_FLAG_PERSISTENT, " persistent"},
                 {UCC_COLL_ARGS_FLAG_COUNT_64BIT, " count_64bit"},
                 {UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT, " displacements_64bit"},
                 {UCC_COLL_ARGS_FLAG_CONTIG_SRC_BUFFER, " contig_src"},
                 {UCC_COLL_ARGS_FLAG_CONTIG_DST_BUFFER, " contig_dst"},
                 {UCC_COLL_ARGS_FLAG_TIMEOUT, " timeout"},
                 {UCC_COLL_ARGS_FLAG_MEM_MAPPED_BUFFERS, " mem_mapped"}};
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (flags & names[i].flag && used < size) {
            used += (size_t)snprintf(out + used, size - used, "%s", names[i].name);
        }
    }
}

void hd_trace_log_call(int level, const hd_trace_call_t *call) {
    char flags[160], root[24] = "";
    name_flags(call->flags, flags, sizeof(flags));
    if (call->root != UINT32_MAX) {
        snprintf(root, sizeof(root), " root %u", call->root);
    }
    hd_log_line((hd_log_level_t)level, call->event,
                "%s endpoint %u of %u: %llu bytes%s%s%s%s%s, flags%s; %s, %s", call->name, call->ep,
                call->n, (unsigned long long)call->bytes, call->datatype ? " of " : "",
                call->datatype ? call->datatype : "", call->op ? " " : "", call->op ? call->op : "",
                root, *flags ? flags : " none", call->plan, call->order);
}
