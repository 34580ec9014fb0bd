/* job.c: asks a running process for whom it and the other processes of its job wait, and prints
 * what they answer (ask.h), with a verdict. It needs no network, and knows nothing of one.
 *
 * What comes is read as far as it makes sense: lines that do not are left out, and nothing that a
 * terminal would obey is printed.
 */
#include "net/ask.h"

#include "core/log.h"
#include "core/mem.h"
#include "threads/clock.h"
#include "threads/stall.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MOST_PROCESSES = 1 << 16, MOST_WAITS = 64, MOST_LINES = 256, LINE = 2048, HOST = 40 };
static const double bound = 3; /* seconds */

/* A process of the job: one that has said something, or of which another one has. */
typedef struct process {
    uint64_t token[2];
    int32_t number; /* -1: not known */
    uint32_t pid;
    char host[HOST];
    bool answers, complete; /* something has come of it; all has */
    bool gone;
    char *clause;    /* what others know of it; NULL: nothing */
    char line[LINE]; /* that is coming in */
    size_t used;
    char *said[MOST_LINES];
    uint32_t n_said, n_waits;
    uint32_t waits[MOST_WAITS]; /* for processes of these numbers in the job's list */
} process_t;

typedef struct job {
    process_t **process;
    uint32_t n, room, of;
    uint32_t pid;
    bool heard; /* the process has given a sign */
} job_t;

/* --- what is known ---------------------------------------------------------------------------- */

/* Its place in the list; UINT32_MAX: no memory, or too many. */
static uint32_t place_of(job_t *job, const uint64_t token[2]) {
    for (uint32_t i = 0; i < job->n; i++) {
        if (memcmp(job->process[i]->token, token, sizeof(job->process[i]->token)) == 0) {
            return i;
        }
    }
    if (job->n == job->room) {
        uint32_t room = job->room ? 2 * job->room : 64;
        process_t **more =
            room <= MOST_PROCESSES ? realloc(job->process, room * sizeof(*more)) : NULL;
        if (!more) {
            return UINT32_MAX;
        }
        job->process = more;
        job->room = room;
    }
    process_t *process = calloc(1, sizeof(*process));
    if (!process) {
        return UINT32_MAX;
    }
    memcpy(process->token, token, sizeof(process->token));
    process->number = -1;
    job->process[job->n] = process;
    return job->n++;
}

static bool read_token(const char *text, uint64_t token[2]) {
    unsigned long long one, other;
    bool is = sscanf(text, "%16llx%16llx", &one, &other) == 2;
    if (is) {
        token[0] = one;
        token[1] = other;
    }
    return is;
}

/* "K": another process that one knows. */
static void take_known(job_t *job, const char *text) {
    uint64_t token[2];
    int number, gone, at = 0;
    unsigned pid;
    char host[HOST];
    if (!read_token(text, token) ||
        sscanf(text, "%*s %d %u %39s %d%n", &number, &pid, host, &gone, &at) != 4 || at == 0) {
        return;
    }
    uint32_t i = place_of(job, token);
    if (i == UINT32_MAX) {
        return;
    }
    process_t *process = job->process[i];
    process->number = process->number < 0 ? number : process->number;
    process->pid = pid;
    memcpy(process->host, host, sizeof(host));
    process->gone = process->gone || gone;
    if (text[at] && !process->clause) {
        process->clause = strdup(text + at);
    }
}

static void take_line(job_t *job, uint32_t by, const char *line) {
    process_t *process = job->process[by];
    uint64_t token[2];
    int number;
    unsigned of, pid;
    char host[HOST];
    const char *text = line[0] && line[1] == ' ' ? line + 2 : "";
    if (line[0] == 'P' && sscanf(text, "%d %u %u %39s", &number, &of, &pid, host) == 4) {
        process->number = process->number < 0 ? number : process->number;
        process->pid = pid;
        memcpy(process->host, host, sizeof(host));
        job->of = of > job->of ? of : job->of;
    } else if (line[0] == 'K') {
        take_known(job, text);
    } else if (line[0] == 'W' && read_token(text, token) && process->n_waits < MOST_WAITS) {
        uint32_t other = place_of(job, token);
        if (other != UINT32_MAX) {
            process->waits[process->n_waits++] = other;
        }
    } else if (line[0] == 'T' && process->n_said < MOST_LINES) {
        process->said[process->n_said] = strdup(text);
        process->n_said += process->said[process->n_said] != NULL;
    }
}

static void take_mail(job_t *job, const hd_mail_t *mail) {
    uint32_t by = place_of(job, mail->by);
    if (by == UINT32_MAX) {
        return;
    }
    process_t *process = job->process[by];
    process->answers = true;
    for (uint32_t i = 0; i < mail->bytes; i++) {
        char c = mail->text[i];
        if (c == '\n') {
            process->line[process->used] = '\0';
            process->used = 0;
            take_line(job, by, process->line);
        } else if (process->used < LINE - 1) {
            process->line[process->used++] = (char)(c >= ' ' && c <= '~' ? c : '?');
        }
    }
    process->complete = process->complete || mail->last;
}

/* Has all come that can? */
static bool is_complete(const job_t *job) {
    bool complete = job->n > 0;
    for (uint32_t i = 0; i < job->n && complete; i++) {
        complete = job->process[i]->complete || job->process[i]->gone;
    }
    return complete;
}

static void clear(job_t *job) {
    for (uint32_t i = 0; i < job->n; i++) {
        process_t *process = job->process[i];
        for (uint32_t l = 0; l < process->n_said; l++) {
            free(process->said[l]);
        }
        free(process->clause);
        free(process);
    }
    free(job->process);
}

/* --- asking ----------------------------------------------------------------------------------- */

static ucc_status_t refuse_no_socket(uint32_t pid, int why) {
    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH) {
        hd_error("there is no process %u", pid);
        return UCC_ERR_NOT_FOUND;
    }
    if (why == ECONNREFUSED) {
        hd_error("process %u can't be asked: it has no teams of several processes that use the "
                 "network, or has NET_ASK=n or NET_WATCH=n, or is in another network namespace",
                 pid);
        return UCC_ERR_NOT_SUPPORTED;
    }
    hd_error("process %u can't be asked: %s", pid, strerror(why));
    return UCC_ERR_NO_RESOURCE;
}

/* Is it that process who listens, and one of this user's? */
static ucc_status_t check_owner(int fd, uint32_t pid) {
    struct ucred who;
    socklen_t size = sizeof(who);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 || (uint32_t)who.pid != pid) {
        hd_error("process %u can't be asked: another process listens in its name", pid);
        return UCC_ERR_NOT_SUPPORTED;
    }
    if (who.uid != geteuid() && geteuid() != 0) {
        hd_error("process %u can't be asked: it belongs to user %u", pid, (unsigned)who.uid);
        return UCC_ERR_NO_RESOURCE;
    }
    return UCC_OK;
}

static ucc_status_t connect_to(uint32_t pid, int *fd) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const hd_question_t question = {HD_ASK_MAGIC, HD_ASK_VERSION};
    int length = hd_ask_name(at.sun_path + 1, sizeof(at.sun_path) - 1, pid);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    *fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0 || connect(*fd, (const struct sockaddr *)&at, size) != 0) {
        return refuse_no_socket(pid, errno);
    }
    ucc_status_t status = check_owner(*fd, pid);
    if (status == UCC_OK && send(*fd, &question, sizeof(question), MSG_NOSIGNAL) < 0) {
        status = refuse_no_socket(pid, errno);
    }
    return status;
}

/* One packet. UCC_INPROGRESS: there is more to come. */
static ucc_status_t take_packet(job_t *job, int fd) {
    hd_mail_t mail;
    ssize_t got = recv(fd, &mail, sizeof(mail), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
        return UCC_INPROGRESS;
    }
    if (got <= 0) { /* it has ended, or takes no more questions */
        return job->heard ? UCC_OK : UCC_ERR_NO_RESOURCE;
    }
    if (!job->heard) {
        hd_question_t theirs = {0};
        memcpy(&theirs, &mail, (size_t)got < sizeof(theirs) ? (size_t)got : sizeof(theirs));
        job->heard = true;
        if (theirs.magic == HD_ASK_MAGIC && theirs.version == HD_ASK_VERSION) {
            return UCC_INPROGRESS;
        }
        hd_error("process %u can't be asked: it has another version of Heddle", job->pid);
        return UCC_ERR_INVALID_PARAM;
    }
    if ((size_t)got < offsetof(hd_mail_t, text) || mail.bytes > HD_MAIL_TEXT ||
        hd_mail_bytes(&mail) != (size_t)got) {
        return UCC_INPROGRESS;
    }
    take_mail(job, &mail);
    return is_complete(job) ? UCC_OK : UCC_INPROGRESS;
}

/* Takes what comes, for as long as it may take. */
static ucc_status_t listen_to(job_t *job, int fd) {
    uint64_t end = hd_clock_ns() + (uint64_t)(bound * 1e9), now;
    ucc_status_t status = UCC_INPROGRESS;
    while (status == UCC_INPROGRESS && (now = hd_clock_ns()) < end) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (poll(&wait, 1, (int)((end - now) / 1000000) + 1) > 0) {
            status = take_packet(job, fd);
        }
    }
    return status == UCC_INPROGRESS ? UCC_OK : status;
}

/* --- printing --------------------------------------------------------------------------------- */

static void name(FILE *out, const process_t *process) {
    fprintf(out, process->number < 0 ? "a process" : "process %d", process->number);
    if (process->pid) {
        fprintf(out, " (host %s, pid %u)", process->host, process->pid);
    }
}

static void print_process(FILE *out, const process_t *process) {
    name(out, process);
    if (!process->answers && process->clause) {
        fprintf(out, "%s, does not answer", process->clause);
    } else if (!process->answers) {
        fprintf(out, " does not answer: all its threads compute, or wait for nobody outside it");
    }
    fputc('\n', out);
    for (uint32_t l = 0; l < process->n_said; l++) {
        fprintf(out, "  %s\n", process->said[l]);
    }
    if (process->answers && process->clause) {
        fprintf(out, "  another process knows it as one%s\n", process->clause);
    }
}

static int by_number(const void *a, const void *b) {
    const process_t *x = *(process_t *const *)a, *y = *(process_t *const *)b;
    bool is = x->number >= 0, too = y->number >= 0;
    return is != too ? too - is : (x->number > y->number) - (x->number < y->number);
}

/* --- the verdict ------------------------------------------------------------------------------ */

/* Marks all that the process waits for, directly or not. */
static void mark(const job_t *job, uint32_t from, bool *marked, uint32_t *queue) {
    uint32_t n = 0;
    queue[n++] = from;
    for (uint32_t at = 0; at < n; at++) {
        const process_t *process = job->process[queue[at]];
        for (uint32_t i = 0; i < process->n_waits; i++) {
            uint32_t other = process->waits[i];
            if (!marked[other]) {
                marked[other] = true;
                queue[n++] = other;
            }
        }
    }
}

static void say_why(FILE *out, const process_t *process) {
    if (process->answers) {
        fprintf(out, ", which waits for no other process: see what its endpoints do");
    } else {
        fprintf(out, "%s", process->clause ? process->clause : ", which does not answer");
    }
}

/* Who waits for others waits for processes that wait for none, or in a circle. */
static void print_verdict(FILE *out, const job_t *job) {
    bool *marked = calloc(job->n + 1, sizeof(*marked));
    uint32_t *queue = calloc(job->n + 1, sizeof(*queue)), waiting = 0, ends = 0, said = 0;
    for (uint32_t i = 0; marked && queue && i < job->n; i++) {
        waiting += job->process[i]->n_waits > 0;
        if (job->process[i]->n_waits > 0) {
            mark(job, i, marked, queue);
        }
    }
    for (uint32_t i = 0; marked && i < job->n; i++) {
        ends += marked[i] && job->process[i]->n_waits == 0;
    }
    if (waiting == 0) {
        fprintf(out, "nobody waits for another process");
    } else if (ends == 0) {
        fprintf(out, "%u processes wait for each other: compare what they are in", waiting);
    } else {
        fprintf(out,
                waiting == 1 ? "%u process waits for " : "%u processes wait, directly or not, for ",
                waiting);
    }
    for (uint32_t i = 0; marked && i < job->n && said < 4; i++) {
        if (waiting && marked[i] && job->process[i]->n_waits == 0) {
            fprintf(out, "%s", said++ ? "; and for " : "");
            name(out, job->process[i]);
            say_why(out, job->process[i]);
        }
    }
    fprintf(out, ends > 4 ? "; and for %u more\n" : "\n", ends - said);
    free(marked);
    free(queue);
}

static void print(FILE *out, job_t *job) {
    process_t **sorted = malloc(job->n * sizeof(*sorted));
    uint32_t answers = 0;
    for (uint32_t i = 0; i < job->n; i++) {
        answers += job->process[i]->answers;
    }
    fprintf(out, "job of process %u: %u of %u processes answer\n", job->pid, answers, job->n);
    if (sorted) {
        memcpy(sorted, job->process, job->n * sizeof(*sorted));
        qsort(sorted, job->n, sizeof(*sorted), by_number);
    }
    for (uint32_t i = 0; i < job->n; i++) {
        print_process(out, sorted ? sorted[i] : job->process[i]);
    }
    free(sorted);
    print_verdict(out, job);
}

ucc_status_t hd_job_print(FILE *out, uint32_t pid) {
    job_t job = {.pid = pid};
    int fd = -1;
    ucc_status_t status = connect_to(pid, &fd);
    if (status == UCC_OK) {
        status = listen_to(&job, fd);
    }
    if (status == UCC_OK && job.n == 0) {
        const char *state = hd_process_state((int32_t)pid);
        bool stopped = state && strcmp(state, "is stopped") == 0;
        hd_error("process %u does not answer within %.0f s: %s", pid, bound,
                 stopped ? "it is stopped"
                         : "all its threads compute, or wait for nobody outside it");
        status = UCC_ERR_TIMED_OUT;
    } else if (status == UCC_ERR_NO_RESOURCE && fd >= 0 && !job.heard) {
        hd_error("process %u has not taken the question", pid);
    } else if (status == UCC_OK) {
        print(out, &job);
    }
    if (fd >= 0) {
        close(fd);
    }
    clear(&job);
    return status;
}
