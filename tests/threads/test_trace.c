/* test_trace.c: the timeline is valid JSON, tells what every endpoint did, and its spans nest;
 * COLL_TRACE logs what it says, where it says.
 *
 * The file is read back by a parser of its own: JSON as a whole by a recursive check, events line
 * by line, as the writer puts them (one a line).
 */
#include "../support/cases.h"
#include "../support/deadline.h"
#include "../support/driver.h"
#include "../support/small.h"

#include "core/log.h"
#include "threads/trace.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_ROWS = 4096, DIRECT = 20000 };

TestSuite(trace, .timeout = 120);

/* --- is it JSON? ------------------------------------------------------------------------------ */

static const char *skip(const char *at) {
    while (isspace((unsigned char)*at)) {
        at++;
    }
    return at;
}

static const char *json_string(const char *at) {
    if (*at++ != '"') {
        return NULL;
    }
    for (; *at != '"'; at++) {
        if ((unsigned char)*at < ' ' || *at == '\\') { /* the writer never needs an escape */
            return NULL;
        }
    }
    return at + 1;
}

static const char *json_number(const char *at) {
    char *end;
    if (*at != '-' && !isdigit((unsigned char)*at)) {
        return NULL;
    }
    strtod(at, &end);
    return end;
}

/* Behind the value, or NULL if there is none. */
static const char *json_value(const char *at);

static const char *json_list(const char *at, char close, bool keys) {
    at = skip(at + 1);
    if (*at == close) {
        return at + 1;
    }
    for (;;) {
        if (keys) {
            at = json_string(skip(at));
            at = at ? skip(at) : NULL;
            if (!at || *at++ != ':') {
                return NULL;
            }
        }
        at = json_value(at);
        if (!at) {
            return NULL;
        }
        at = skip(at);
        if (*at == close) {
            return at + 1;
        }
        if (*at++ != ',') {
            return NULL;
        }
    }
}

static const char *json_value(const char *at) {
    at = skip(at);
    switch (*at) {
    case '{':
        return json_list(at, '}', true);
    case '[':
        return json_list(at, ']', false);
    case '"':
        return json_string(at);
    case 't':
        return strncmp(at, "true", 4) == 0 ? at + 4 : NULL;
    default:
        return json_number(at);
    }
}

static bool is_json(const char *text) {
    const char *end = json_value(text);
    return end && *skip(end) == '\0';
}

/* --- what it says ----------------------------------------------------------------------------- */

typedef struct span {
    char name[32], plan[128];
    unsigned row;
    uint64_t begin, end, bytes;
    bool unfinished, failed;
} span_t;

typedef struct timeline {
    char *text;
    span_t *spans;
    size_t n_spans;
    char row_name[MAX_ROWS][64];
} timeline_t;

static char *read_file(const char *path) {
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "no file %s", path);
    fseek(file, 0, SEEK_END);
    long bytes = ftell(file);
    rewind(file);
    char *text = must_alloc(1, (size_t)bytes + 1);
    cr_assert_eq(fread(text, 1, (size_t)bytes, file), (size_t)bytes);
    fclose(file);
    return text;
}

static void read_span(timeline_t *t, const char *line) {
    span_t *s = &t->spans[t->n_spans];
    unsigned long long ts, dur, bytes = 0;
    unsigned ts_ns, dur_ns;
    if (sscanf(line,
               "{\"ph\":\"X\",\"pid\":%*d,\"tid\":%u,\"name\":\"%31[^\"]\",\"ts\":%llu.%u,"
               "\"dur\":%llu.%u,",
               &s->row, s->name, &ts, &ts_ns, &dur, &dur_ns) != 6) {
        return;
    }
    const char *more = strstr(line, "\"bytes\":");
    if (more) {
        sscanf(more, "\"bytes\":%llu,\"plan\":\"%127[^\"]", &bytes, s->plan);
    }
    s->begin = ts * 1000 + ts_ns;
    s->end = s->begin + dur * 1000 + dur_ns;
    s->bytes = bytes;
    s->unfinished = strstr(line, "\"unfinished\":true") != NULL;
    s->failed = strstr(line, "\"status\":") != NULL;
    cr_assert_lt(s->row, MAX_ROWS);
    t->n_spans++;
}

static timeline_t *read_timeline(const char *path) {
    timeline_t *t = must_alloc(1, sizeof(*t));
    t->text = read_file(path);
    cr_assert(is_json(t->text), "%s is not JSON", path);
    size_t lines = 1;
    for (const char *c = t->text; *c; c++) {
        lines += *c == '\n';
    }
    t->spans = must_alloc(lines, sizeof(*t->spans));
    for (char *save, *line = strtok_r(t->text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        unsigned row;
        char name[64];
        if (sscanf(
                line,
                "{\"ph\":\"M\",\"pid\":%*d,\"tid\":%u,\"name\":\"thread_name\",\"args\":{\"name\":"
                "\"%63[^\"]",
                &row, name) == 2) {
            cr_assert_lt(row, MAX_ROWS);
            strcpy(t->row_name[row], name);
        }
        read_span(t, line);
    }
    return t;
}

static void free_timeline(timeline_t *t) {
    free(t->spans);
    free(t->text);
    free(t);
}

static bool is_phase(const span_t *s) {
    return strcmp(s->name, "queued") == 0 || strcmp(s->name, "arrival") == 0 ||
           strcmp(s->name, "chunk") == 0;
}

/* Outer spans first. */
static int by_time(const void *left, const void *right) {
    const span_t *a = left, *b = right;
    if (a->row != b->row) {
        return a->row < b->row ? -1 : 1;
    }
    if (a->begin != b->begin) {
        return a->begin < b->begin ? -1 : 1;
    }
    if (is_phase(a) != is_phase(b)) {
        return is_phase(a) ? 1 : -1;
    }
    return (a->end > b->end) - (a->end < b->end);
}

/* On each row collectives are apart, and phases lie one after the other within one collective. */
static void check_nesting(timeline_t *t) {
    const span_t *outer = NULL;
    uint64_t inner_end = 0;
    qsort(t->spans, t->n_spans, sizeof(*t->spans), by_time);
    for (size_t i = 0; i < t->n_spans; i++) {
        const span_t *s = &t->spans[i];
        if (outer && outer->row != s->row) {
            outer = NULL;
        }
        if (!is_phase(s)) {
            cr_assert(!outer || outer->end <= s->begin, "%s overlaps %s on %s", s->name,
                      outer->name, t->row_name[s->row]);
            outer = s;
            inner_end = s->begin;
            continue;
        }
        cr_assert(outer && s->begin >= inner_end && s->end <= outer->end,
                  "%s sticks out of %s on %s", s->name, outer ? outer->name : "nothing",
                  t->row_name[s->row]);
        inner_end = s->end;
    }
}

/* Spans of this name on the rows of this endpoint (further rows too), of any team. */
static size_t count(const timeline_t *t, const char *name, uint32_t endpoint) {
    size_t n = 0;
    for (size_t i = 0; i < t->n_spans; i++) {
        unsigned ep;
        n += strcmp(t->spans[i].name, name) == 0 &&
             sscanf(t->row_name[t->spans[i].row], "team %*u endpoint %u", &ep) == 1 &&
             ep == endpoint;
    }
    return n;
}

static const span_t *find(const timeline_t *t, const char *name) {
    for (size_t i = 0; i < t->n_spans; i++) {
        if (strcmp(t->spans[i].name, name) == 0) {
            return &t->spans[i];
        }
    }
    return NULL;
}

/* --- running something ------------------------------------------------------------------------ */

static char path[64];

static const char *new_path(void) {
    snprintf(path, sizeof(path), "trace-%ld.json", (long)getpid());
    return path;
}

static void with_variable(world_t *world, const char *name, const char *value, uint64_t id) {
    uint32_t n = world->size;
    world->libs = must_alloc(n, sizeof(*world->libs));
    world->contexts = must_alloc(n, sizeof(*world->contexts));
    world->teams = must_alloc(n, sizeof(*world->teams));
    for (uint32_t i = 0; i < n; i++) {
        ucc_lib_config_h config;
        ucc_lib_params_t lib_params = {.mask = 0};
        must(ucc_lib_config_read(NULL, NULL, &config), "ucc_lib_config_read");
        must(ucc_lib_config_modify(config, name, value), "ucc_lib_config_modify");
        must(ucc_init(&lib_params, config, &world->libs[i]), "ucc_init");
        ucc_lib_config_release(config);
        world->contexts[i] = world_new_context(world->libs[i], UCC_CONTEXT_EXCLUSIVE, NULL);
        ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_EP | UCC_TEAM_PARAM_FIELD_ID |
                                            UCC_TEAM_PARAM_FIELD_EP_RANGE |
                                            UCC_TEAM_PARAM_FIELD_TEAM_SIZE,
                                    .ep = i,
                                    .ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG,
                                    .team_size = n,
                                    .id = id};
        must(ucc_team_create_post(&world->contexts[i], 1, &params, &world->teams[i]),
             "ucc_team_create_post");
    }
    world_finish_teams(n, world->teams);
}

static world_t *make_world(uint32_t n, const char *name, const char *value) {
    static uint64_t id = 500;
    world_t *world = must_alloc(1, sizeof(*world));
    world->size = world->n_contexts = n;
    with_variable(world, name, value, ++id);
    return world;
}

static void run_case(world_t *world, driver_t driver, uint32_t type, uint64_t n) {
    coll_case_t c = {.type = coll_type_at(type),
                     .size = world->size,
                     .root = world->size - 1,
                     .count = n,
                     .dt = reference_datatype(UCC_DT_INT32),
                     .op = UCC_OP_SUM,
                     .seed = 1 + type};
    prepared_t *p = case_prepare(&c);
    job_t job = {.args = p->args, .statuses = p->statuses, .name = p->name};
    driver_run(world, driver, &job, 1);
    cr_assert(case_check(p), "%s gave a wrong result", p->name);
    case_free(p);
}

static void run_all(driver_t driver, uint32_t n) {
    world_t *world = make_world(n, "TRACE", new_path());
    for (uint32_t type = 0; type < COLL_TYPES; type++) {
        run_case(world, driver, type, 1);
        run_case(world, driver, type, DIRECT);
    }
    world_destroy(world);
    timeline_t *t = read_timeline(path);
    check_nesting(t);
    size_t chunks = 0;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t type = 0; type < COLL_TYPES; type++) {
            const char *name = reference_coll_name(coll_type_at(type));
            cr_assert_eq(count(t, name, i), 2, "%zu %s at endpoint %u", count(t, name, i), name, i);
        }
        cr_assert_eq(count(t, "queued", i), 2 * COLL_TYPES);
        cr_assert_eq(count(t, "arrival", i), 2 * COLL_TYPES);
        chunks += count(t, "chunk", i);
    }
    cr_assert_gt(chunks, COLL_TYPES - 3); /* each with data ran some, somewhere */
    for (size_t i = 0; i < t->n_spans; i++) {
        cr_assert_not(t->spans[i].unfinished || t->spans[i].failed);
        cr_assert_gt(strlen(t->row_name[t->spans[i].row]), 0);
    }
    free_timeline(t);
    unlink(path);
}

Test(trace, every_collective_has_its_span_at_each_endpoint_and_spans_nest) {
    run_all(DRIVER_THREADS, 4);
}

Test(trace, a_team_that_arrives_by_a_tree_and_is_driven_by_one_thread_is_traced_as_well) {
    run_all(DRIVER_ONE, 11);
}

Test(trace, a_span_says_bytes_and_plan) {
    world_t *world = make_world(2, "TRACE", new_path());
    run_case(world, DRIVER_ONE, 2, 1);
    world_destroy(world);
    timeline_t *t = read_timeline(path);
    const span_t *s = find(t, reference_coll_name(coll_type_at(2)));
    cr_assert_not_null(s);
    cr_assert_eq(s->bytes, sizeof(int32_t));
    cr_assert_str_eq(s->plan, "inline, arrival flat");
    free_timeline(t);
    unlink(path);
}

Test(trace, a_span_of_a_direct_one_says_how_the_work_is_cut_and_written) {
    setenv("HEDDLE_NONTEMPORAL_MIN", "1K", 1);
    world_t *world = make_world(2, "TRACE", new_path());
    run_case(world, DRIVER_ONE, 2, DIRECT);
    world_destroy(world);
    timeline_t *t = read_timeline(path);
    const span_t *s = find(t, reference_coll_name(coll_type_at(2)));
    cr_assert_not_null(s);
    /* half of an endpoint's share of 40,000 bytes, in whole lines */
    cr_assert_str_eq(s->plan, "direct in windows of 20032 bytes by streaming stores, arrival flat");
    free_timeline(t);
    unlink(path);
}

/* Posted one behind the other: more than the ring takes, so some are queued. */
Test(trace, collectives_of_one_endpoint_that_overlap_lie_on_rows_of_their_own) {
    enum { N = 2, AT_ONCE = 20 };
    world_t *world = make_world(N, "TRACE", new_path());
    ucc_coll_req_h requests[N * AT_ONCE];
    int32_t in = 1, out[N * AT_ONCE];
    for (uint32_t i = 0; i < N * AT_ONCE; i++) {
        ucc_coll_args_t args = small_allreduce(&in, &out[i], 1);
        requests[i] = small_start(world, i / AT_ONCE, &args);
    }
    small_finish(world, requests, N * AT_ONCE);
    world_destroy(world);
    timeline_t *t = read_timeline(path);
    check_nesting(t);
    unsigned rows = 0;
    for (uint32_t r = 0; r < MAX_ROWS; r++) {
        rows += t->row_name[r][0] != '\0';
    }
    cr_assert_gt(rows, N);
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(count(t, "allreduce", i), AT_ONCE);
    }
    free_timeline(t);
    unlink(path);
}

Test(trace, persistent_requests_have_a_span_per_post) {
    enum { POSTS = 5 };
    world_t *world = make_world(2, "TRACE", new_path());
    ucc_coll_req_h requests[2];
    for (uint32_t i = 0; i < 2; i++) {
        ucc_coll_args_t args = small_barrier();
        args.mask |= UCC_COLL_ARGS_FIELD_FLAGS;
        args.flags = UCC_COLL_ARGS_FLAG_PERSISTENT;
        requests[i] = small_init(world, i, &args);
    }
    for (int p = 0; p < POSTS; p++) {
        for (uint32_t i = 0; i < 2; i++) {
            must(ucc_collective_post(requests[i]), "ucc_collective_post");
        }
        small_wait(world, requests, 2);
    }
    small_finish(world, requests, 2);
    world_destroy(world);
    timeline_t *t = read_timeline(path);
    check_nesting(t);
    cr_assert_eq(count(t, "barrier", 0), POSTS);
    cr_assert_eq(count(t, "barrier", 1), POSTS);
    free_timeline(t);
    unlink(path);
}

Test(trace, a_collective_that_fails_says_how) {
    world_t *world = make_world(2, "TRACE", new_path());
    ucc_coll_args_t args = small_barrier();
    args.mask |= UCC_COLL_ARGS_FIELD_FLAGS;
    args.flags = UCC_COLL_ARGS_FLAG_TIMEOUT;
    args.timeout = 0.01;
    ucc_coll_req_h request = small_start(world, 0, &args); /* endpoint 1 never comes */
    small_wait(world, &request, 1);
    cr_assert_eq(ucc_collective_test(request), UCC_ERR_TIMED_OUT);
    must(ucc_collective_finalize(request), "ucc_collective_finalize");
    world_destroy(world);
    timeline_t *t = read_timeline(path);
    const span_t *s = find(t, "barrier");
    cr_assert_not_null(s);
    cr_assert(s->failed && !s->unfinished);
    cr_assert_geq(s->end - s->begin, 9000000);
    free_timeline(t);
    unlink(path);
}

/* --- when the file is written ----------------------------------------------------------------- */

Test(trace, a_process_that_exits_in_the_middle_leaves_what_was_not_finished) {
    new_path();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        world_t *world = make_world(2, "TRACE", path);
        ucc_coll_args_t args = small_barrier();
        small_start(world, 0, &args); /* endpoint 1 never comes */
        exit(0);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    timeline_t *t = read_timeline(path);
    const span_t *s = find(t, "barrier");
    cr_assert_not_null(s);
    cr_assert(s->unfinished);
    free_timeline(t);
    unlink(path);
}

Test(trace, the_file_is_there_and_valid_as_soon_as_a_library_is_open) {
    world_t *world = make_world(1, "TRACE", new_path());
    timeline_t *t = read_timeline(path);
    cr_assert_eq(t->n_spans, 0);
    free_timeline(t);
    world_destroy(world);
    unlink(path);
}

static bool file_says(const char *what) {
    if (access(path, R_OK) != 0) {
        return false;
    }
    char *text = read_file(path);
    bool says = strstr(text, what) != NULL;
    cr_assert(is_json(text)); /* at any time */
    free(text);
    return says;
}

Test(trace, a_process_that_is_killed_while_it_waits_leaves_the_wait) {
    new_path();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        world_t *world = make_world(2, "TRACE", path);
        ucc_coll_args_t args = small_barrier();
        small_start(world, 0, &args); /* endpoint 1 never comes */
        for (;;) {
            ucc_context_progress(world_context(world, 0));
        }
    }
    deadline_t deadline = deadline_start("a barrier in the trace");
    while (!file_says("unfinished") && test_now() < deadline.end) {
        usleep(10000);
    }
    kill(child, SIGKILL);
    cr_assert_eq(waitpid(child, NULL, 0), child);
    timeline_t *t = read_timeline(path);
    const span_t *s = find(t, "barrier");
    cr_assert_not_null(s);
    cr_assert(s->unfinished);
    cr_assert_gt(s->end, s->begin);
    free_timeline(t);
    unlink(path);
}

Test(trace, a_later_session_goes_on_in_the_same_file) {
    enum { SESSIONS = 3 };
    new_path();
    for (int i = 0; i < SESSIONS; i++) {
        world_t *world = make_world(1, "TRACE", "trace-%p.json");
        run_case(world, DRIVER_ONE, 2, 1);
        world_destroy(world);
    }
    timeline_t *t = read_timeline(path);
    check_nesting(t);
    cr_assert_eq(count(t, reference_coll_name(coll_type_at(2)), 0), SESSIONS);
    free_timeline(t);
    char second[80];
    snprintf(second, sizeof(second), "%s.2", path);
    cr_assert_neq(access(second, F_OK), 0);
    unlink(path);
}

/* --- log lines -------------------------------------------------------------------------------- */

static int n_lines[HD_LOG_N_LEVELS];
static char last_line[512];

static void catch_line(hd_log_level_t level, const char *line, void *arg) {
    (void)arg;
    n_lines[level]++;
    snprintf(last_line, sizeof(last_line), "%s", line);
}

static void forget_lines(void) {
    memset(n_lines, 0, sizeof(n_lines));
}

Test(trace, when_the_budget_is_spent_recording_stops_and_says_so_once) {
    int op = 0;
    hd_log_capture(catch_line, NULL);
    forget_lines();
    hd_trace_open(new_path(), -1);
    cr_assert(hd_trace_is_on());
    hd_trace_post(&op, "barrier", 0, 1, 0);
    for (int i = 0; i < HD_TRACE_EVENTS + 1000; i++) {
        hd_trace_seen(&op);
    }
    cr_assert_not(hd_trace_is_on());
    cr_assert_eq(n_lines[HD_LOG_WARN], 1);
    timeline_t *t = read_timeline(path); /* also of a process that is killed from now on */
    cr_assert_eq(count(t, "barrier", 0), 1);
    free_timeline(t);
    hd_trace_close();
    t = read_timeline(path);
    cr_assert_eq(count(t, "barrier", 0), 1);
    free_timeline(t);
    unlink(path);
}

Test(trace, a_file_that_cannot_be_written_is_a_warning_and_no_trace) {
    hd_log_capture(catch_line, NULL);
    forget_lines();
    hd_trace_open("/nowhere/at/all/trace.json", -1);
    cr_assert_eq(n_lines[HD_LOG_WARN], 1);
    cr_assert_not(hd_trace_is_on());
    hd_trace_close();
}

/* Files can't grow beyond that many bytes, as on a full disk. */
static void limit_files(rlim_t bytes) {
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static int lowest_free_descriptor(void) {
    int fd = open("/dev/null", O_RDONLY);
    close(fd);
    return fd;
}

Test(trace, on_a_full_disk_one_line_says_so_and_nothing_stays_open) {
    enum { OPS = 200 }; /* more text than stdio keeps back until the file is closed */
    static int op[OPS];
    hd_log_capture(catch_line, NULL);
    forget_lines();
    hd_trace_open(new_path(), -1);
    int free_before = lowest_free_descriptor();
    limit_files(100);
    for (int i = 0; i < OPS; i++) {
        hd_trace_post(&op[i], "barrier", 0, 1, 0);
    }
    deadline_t deadline = deadline_start("a line about the trace");
    while (n_lines[HD_LOG_WARN] == 0) {
        hd_trace_tick();
        deadline_poll(&deadline);
    }
    for (double end = test_now() + 0.7; test_now() < end; usleep(1000)) {
        hd_trace_tick();
    }
    cr_assert_eq(n_lines[HD_LOG_WARN], 1);
    cr_assert_eq(lowest_free_descriptor(), free_before);
    limit_files(RLIM_INFINITY);
    hd_trace_close();
    timeline_t *t = read_timeline(path);
    cr_assert_eq(count(t, "barrier", 0), OPS, "the end of the session finds room again");
    free_timeline(t);
    unlink(path);
}

static int status_of(pid_t child) {
    int status = -1;
    cr_assert_eq(waitpid(child, &status, 0), child);
    return status;
}

Test(trace, a_child_that_opens_a_library_of_its_own_has_a_file_of_its_own) {
    hd_trace_open(new_path(), -1);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        hd_trace_open("trace-%p.json", -1);
        new_path();
        _exit(hd_trace_is_on() && access(path, R_OK) == 0 && unlink(path) == 0 ? 0 : 1);
    }
    cr_assert_eq(status_of(child), 0);
    hd_trace_close();
    unlink(path);
}

Test(trace, a_child_leaves_its_parent_s_file_alone_and_says_so) {
    struct stat before, after;
    hd_trace_open(new_path(), -1);
    cr_assert_eq(stat(path, &before), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        hd_log_capture(catch_line, NULL);
        forget_lines();
        hd_trace_open(path, -1);
        _exit(n_lines[HD_LOG_WARN] == 1 && strstr(last_line, "%p") ? 0 : 1);
    }
    cr_assert_eq(status_of(child), 0);
    cr_assert_eq(stat(path, &after), 0);
    cr_assert_eq(before.st_ino, after.st_ino);
    hd_trace_close();
    unlink(path);
}

static void check_lines_of(uint64_t elements, const char *level, int infos, int debugs) {
    enum { N = 3 };
    static int32_t in[DIRECT], out[N][DIRECT];
    ucc_coll_args_t args[N];
    world_t *world = make_world(N, "COLL_TRACE", level);
    hd_log_capture(catch_line, NULL);
    forget_lines();
    for (uint32_t i = 0; i < N; i++) {
        args[i] = small_allreduce(in, out[i], elements);
    }
    small_run(world, args, "an allreduce that is logged");
    cr_assert_eq(n_lines[HD_LOG_INFO], infos, "%s: %d info lines", level, n_lines[HD_LOG_INFO]);
    cr_assert_eq(n_lines[HD_LOG_DEBUG], debugs, "%s: %d debug lines", level, n_lines[HD_LOG_DEBUG]);
    hd_log_capture(NULL, NULL);
    world_destroy(world);
}

static void check_lines(const char *level, int infos, int debugs) {
    check_lines_of(1, level, infos, debugs);
}

Test(trace, coll_trace_logs_init_from_info_post_from_debug_and_all_endpoints_from_trace) {
    check_lines("warn", 0, 0);
    check_lines("info", 1, 0);
    check_lines("debug", 1, 1);
    check_lines("trace", 3, 3);
    check_lines("warn", 0, 0);
}

Test(trace, a_line_about_a_collective_says_what_and_how) {
    check_lines("info", 1, 0);
    cr_assert_not_null(strstr(last_line, "allreduce endpoint 0 of 3: 4 bytes of int32 sum"), "%s",
                       last_line);
    cr_assert_not_null(strstr(last_line, "inline, arrival flat, numbered"), "%s", last_line);
}

Test(trace, a_line_about_a_direct_collective_says_how_its_work_is_cut_and_written) {
    check_lines_of(DIRECT, "info", 1, 0);
    cr_assert_not_null(strstr(last_line, "direct in windows of 26688 bytes by plain stores, "),
                       "%s", last_line);
}

/* --- threads that are not there any more ------------------------------------------------------ */

static void *open_cancelled(void *arg) {
    pthread_cancel(pthread_self());
    hd_trace_open(arg, -1);
    return arg;
}

Test(trace, cancelled_thread_does_not_end_under_the_lock) {
    pthread_t thread;
    char file[] = "/tmp/heddle_cancelled_XXXXXX";
    void *returned = NULL;
    close(mkstemp(file));
    cr_assert_eq(pthread_create(&thread, NULL, open_cancelled, file), 0);
    pthread_join(thread, &returned);
    cr_assert_eq(returned, file);
    hd_trace_close();
    unlink(file);
}

static void *attend(void *arg) {
    hd_trace_attend();
    pthread_barrier_wait(arg);
    pthread_barrier_wait(arg);
    hd_trace_leave();
    return NULL;
}

Test(trace, child_of_a_fork_hears_only_of_its_own_threads_callbacks) {
    pthread_t thread;
    pthread_barrier_t both;
    int status = 0;
    hd_trace_open(NULL, -1);
    pthread_barrier_init(&both, NULL, 2);
    cr_assert_eq(pthread_create(&thread, NULL, attend, &both), 0);
    pthread_barrier_wait(&both);
    hd_trace_attend();
    pid_t child = fork();
    if (child == 0) {
        hd_trace_leave();
        _exit(hd_trace_calls == -1 ? 0 : 1);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    hd_trace_leave();
    pthread_barrier_wait(&both);
    pthread_join(thread, NULL);
    cr_assert_eq(hd_trace_calls, -1);
    pthread_barrier_destroy(&both);
    hd_trace_close();
}
