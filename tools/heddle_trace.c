/* heddle_trace.c: makes one trace of those that several processes have written
 * (HEDDLE_TRACE=trace-%p.json).
 *
 * A trace of the library's has a line for each event, behind one that says by which clock its times
 * count (one per system), and when they begin. Processes of one host have the same clock. Of
 * different hosts, the offset is estimated from the messages between them: no message is taken
 * before it was sent, so with the shortest ways there and back, taken to be equally long, the
 * clocks are as far apart as half their difference.
 */
#include <inttypes.h>
#include <search.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct message {
    uint64_t id;
    double sent, taken; /* ns of the sender's, and of the receiver's clock */
    uint32_t from, to;  /* clocks */
    bool was_sent, was_taken;
} message_t;

typedef struct input {
    const char *name;
    FILE *file;
    double began; /* ns of its clock */
    uint32_t clock;
    long pid, shown; /* as it says, and in the result */
} input_t;

typedef struct merger {
    input_t *input;
    uint32_t n, clocks;
    char (*clock)[64];
    /* ns from a message's sending to its taking, [clocks][clocks]; HUGE: there is none */
    double *least;
    double *offset; /* of each clock, to be taken off */
    bool *known;
    void *messages; /* a tree, by id */
    FILE *out;
} merger_t;

static const double NEVER = 1e300;

static void help(void) {
    puts("heddle_trace: makes one trace of those of several processes\n"
         "\n"
         "usage: heddle_trace merge [-o OUTPUT] FILE...      (default output: standard output)\n"
         "\n"
         "FILEs are what HEDDLE_TRACE=trace-%p.json has made a program's processes write (%h is "
         "the\n"
         "host's name). The result shows them side by side, on one clock, with an arrow for each "
         "message\n"
         "between them: in https://ui.perfetto.dev, or chrome://tracing.");
}

static _Noreturn void fail(const char *name, const char *why) {
    fprintf(stderr, "heddle_trace: %s: %s\n", name, why);
    exit(1);
}

static void *allocate(size_t n, size_t bytes) {
    void *memory = calloc(n ? n : 1, bytes);
    if (memory == NULL) {
        fail("memory", "there is none left");
    }
    return memory;
}

/* ------------------------------------------------------------------------------------------------
 * Reading lines
 * ---------------------------------------------------------------------------------------------- */

/* What follows "key": in the line; NULL: it is not there. */
static const char *value_of(const char *line, const char *key) {
    char text[32];
    snprintf(text, sizeof(text), "\"%s\":", key);
    const char *at = strstr(line, text);
    return at != NULL ? at + strlen(text) : NULL;
}

static bool is_phase(const char *line, char phase) {
    const char *at = value_of(line, "ph");
    return at != NULL && at[0] == '"' && at[1] == phase && at[2] == '"';
}

static double nanoseconds(const char *line) {
    const char *at = value_of(line, "ts");
    return at != NULL ? strtod(at, NULL) * 1e3 : 0.0;
}

static uint32_t clock_named(merger_t *m, const char *name) {
    for (uint32_t i = 0; i < m->clocks; i++) {
        if (strcmp(m->clock[i], name) == 0) {
            return i;
        }
    }
    snprintf(m->clock[m->clocks], sizeof(m->clock[0]), "%s", name);
    return m->clocks++;
}

static void open_input(merger_t *m, input_t *in) {
    char *line = NULL, name[64] = "";
    size_t room = 0;
    in->file = fopen(in->name, "r");
    if (in->file == NULL) {
        fail(in->name, "can't be read");
    }
    const char *clock = NULL, *began = NULL;
    if (getline(&line, &room, in->file) > 0) {
        clock = value_of(line, "clock");
        began = value_of(line, "began_ns");
    }
    if (clock == NULL || began == NULL || sscanf(clock, "\"%63[^\"]\"", name) != 1) {
        fail(in->name, "is no trace of Heddle's, or of an older one");
    }
    in->began = strtod(began, NULL);
    in->clock = clock_named(m, name);
    while (in->pid == 0 && getline(&line, &room, in->file) > 0) {
        const char *pid = value_of(line, "pid");
        in->pid = pid != NULL ? strtol(pid, NULL, 10) : 0;
    }
    in->shown = in->pid;
    free(line);
}

static void tell_apart(merger_t *m) {
    for (uint32_t i = 0; i < m->n; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (m->input[j].shown == m->input[i].shown) {
                m->input[i].shown += 10000000; /* no system has so many */
                j = UINT32_MAX;
            }
        }
    }
}

/* ------------------------------------------------------------------------------------------------
 * Clocks
 * ---------------------------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b) {
    const message_t *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static void note(merger_t *m, const input_t *in, uint64_t id, double ts, bool sent) {
    message_t *mine = allocate(1, sizeof(*mine));
    mine->id = id;
    void *found = tsearch(mine, &m->messages, by_id);
    if (found == NULL) {
        fail("memory", "there is none left");
    }
    message_t *message = *(message_t **)found;
    if (message != mine) {
        free(mine);
    }
    if (sent) {
        message->sent = in->began + ts;
        message->from = in->clock;
        message->was_sent = true;
    } else {
        message->taken = in->began + ts;
        message->to = in->clock;
        message->was_taken = true;
    }
    if (message->was_sent && message->was_taken) {
        double *least = &m->least[message->from * m->clocks + message->to];
        double took = message->taken - message->sent;
        *least = took < *least ? took : *least;
    }
}

static void note_messages(merger_t *m) {
    char *line = NULL;
    size_t room = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        rewind(m->input[i].file);
        while (getline(&line, &room, m->input[i].file) > 0) {
            bool sent = is_phase(line, 's');
            const char *id = sent || is_phase(line, 'f') ? value_of(line, "id") : NULL;
            if (id != NULL) {
                note(m, &m->input[i], strtoull(id + 1, NULL, 16), nanoseconds(line), sent);
            }
        }
    }
    free(line);
}

/* By how much clock `to` is ahead of clock `from`. False: no message tells. */
static bool ahead(const merger_t *m, uint32_t from, uint32_t to, double *by) {
    double there = m->least[from * m->clocks + to], back = m->least[to * m->clocks + from];
    if (there == NEVER && back == NEVER) {
        return false;
    }
    *by = there == NEVER ? -back : back == NEVER ? there : (there - back) / 2.0;
    return true;
}

static double first_of(const merger_t *m, uint32_t clock) {
    double first = NEVER;
    for (uint32_t i = 0; i < m->n; i++) {
        if (m->input[i].clock == clock && m->input[i].began < first) {
            first = m->input[i].began;
        }
    }
    return first;
}

/* Each is set by one that is; where messages lead nowhere, traces begin together. */
static void set_clocks(merger_t *m) {
    m->known[0] = true;
    for (uint32_t set = 1; set < m->clocks;) {
        uint32_t before = set;
        for (uint32_t i = 0; i < m->clocks; i++) {
            for (uint32_t j = 0; j < m->clocks; j++) {
                double by;
                if (m->known[i] && !m->known[j] && ahead(m, i, j, &by)) {
                    m->offset[j] = m->offset[i] + by;
                    m->known[j] = true;
                    set++;
                }
            }
        }
        for (uint32_t j = 0; set == before && j < m->clocks; j++) {
            if (!m->known[j]) {
                fprintf(stderr, "heddle_trace: no message leads to some processes: their traces "
                                "begin when the first "
                                "one does\n");
                m->offset[j] = first_of(m, j) - (first_of(m, 0) - m->offset[0]);
                m->known[j] = true;
                set++;
            }
        }
    }
}

/* ------------------------------------------------------------------------------------------------
 * Writing
 * ---------------------------------------------------------------------------------------------- */

/* The line with another pid and another time; without what follows the event. */
static void write_event(merger_t *m, const input_t *in, char *line, double shift, bool first) {
    line[strcspn(line, "\n")] = '\0';
    size_t length = strlen(line);
    if (length > 0 && line[length - 1] == ',') {
        line[length - 1] = '\0';
    }
    fputs(first ? "\n" : ",\n", m->out);
    for (char *at = line; *at != '\0';) {
        const char *pid = value_of(at, "pid"), *ts = value_of(at, "ts");
        const char *next = pid != NULL && (ts == NULL || pid < ts) ? pid : ts;
        if (next == NULL) {
            fputs(at, m->out);
            break;
        }
        fwrite(at, 1, (size_t)(next - at), m->out);
        if (next == pid) {
            fprintf(m->out, "%ld", in->shown);
        } else {
            fprintf(m->out, "%.3f", (nanoseconds(next - strlen("\"ts\":")) + shift) / 1e3);
        }
        at = (char *)(uintptr_t)next + strspn(next, "-0123456789.");
    }
}

static void write_all(merger_t *m) {
    char *line = NULL;
    size_t room = 0;
    double zero = NEVER;
    bool first = true;
    for (uint32_t i = 0; i < m->n; i++) {
        double began = m->input[i].began - m->offset[m->input[i].clock];
        zero = began < zero ? began : zero;
    }
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", m->out);
    for (uint32_t i = 0; i < m->n; i++) {
        input_t *in = &m->input[i];
        double shift = in->began - m->offset[in->clock] - zero;
        rewind(in->file);
        while (getline(&line, &room, in->file) > 0) {
            if (strncmp(line, "{\"ph\":", 6) == 0) {
                write_event(m, in, line, shift, first);
                first = false;
            }
        }
        fclose(in->file);
    }
    fputs("\n]}\n", m->out);
    free(line);
}

static void merge(merger_t *m) {
    m->clock = allocate(m->n, sizeof(m->clock[0]));
    for (uint32_t i = 0; i < m->n; i++) {
        open_input(m, &m->input[i]);
    }
    tell_apart(m);
    m->least = allocate((size_t)m->clocks * m->clocks, sizeof(*m->least));
    m->offset = allocate(m->clocks, sizeof(*m->offset));
    m->known = allocate(m->clocks, sizeof(*m->known));
    for (size_t i = 0; i < (size_t)m->clocks * m->clocks; i++) {
        m->least[i] = NEVER;
    }
    if (m->clocks > 1) {
        note_messages(m);
    }
    set_clocks(m);
    write_all(m);
}

int main(int argc, char **argv) {
    merger_t m = {.out = stdout};
    const char *output = "standard output";
    int at = 2;
    if (argc < 2 || strcmp(argv[1], "merge") != 0) {
        bool asked = argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
        help();
        return asked ? 0 : 2;
    }
    if (argc > 3 && strcmp(argv[2], "-o") == 0) {
        output = argv[3];
        at = 4;
    }
    if (at >= argc || argv[at][0] == '-') {
        fputs("heddle_trace: no files are named. Try heddle_trace --help.\n", stderr);
        return 2;
    }
    m.n = (uint32_t)(argc - at);
    m.input = allocate(m.n, sizeof(*m.input));
    for (uint32_t i = 0; i < m.n; i++) {
        m.input[i].name = argv[at + (int)i];
    }
    if (at == 4) {
        m.out = fopen(output, "w");
        if (m.out == NULL) {
            fail(output, "can't be written");
        }
    }
    merge(&m);
    bool bad = ferror(m.out) != 0;
    bad = fclose(m.out) != 0 || bad;
    if (bad) {
        fail(output, "could not be written in full");
    }
    return 0;
}
