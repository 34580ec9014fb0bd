/* job.c: asks a running process for whom it and the other processes of its job wait, and prints
 * what they answer (threads/asker.h), with a verdict. It needs no network, and knows of none.
 *
 * The process is asked twice: for its teams that use the network, where it hands the question on to
 * the others; and for those that share memory, where it says which others are to be asked, each by
 * itself. A process that is known by both is told by its host and pid.
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

enum {
    MOST_PROCESSES = 1 << 16,
    MOST_WAITS = 64,
    MOST_LINES = 256,
    MOST_LINKS = 512,
    LINE = 2048,
    HOST = 40,
    AGAIN_MS = 5 /* until one that had no room for a connection is tried again */
};
static const double bound = 3; /* seconds */

/* Is a process asked by itself? TO_ASK until there is a connection. */
typedef enum asking { NOT_ASKED, TO_ASK, ASKED, REFUSED } asking_t;

/* A process of the job: one that has said something, or of which another one has. */
typedef struct process {
    uint64_t token[HD_ASK_KINDS][2];
    bool known[HD_ASK_KINDS]; /* by the token of that kind */
    bool complete[HD_ASK_KINDS];
    uint32_t same;  /* 1 + another one that turned out to be the same; 0: none, and it counts */
    int32_t number; /* in a team of so many; -1: not known */
    uint32_t of, pid;
    char host[HOST];
    bool answers; /* something has come of it */
    bool gone;
    asking_t asking;
    char *clause;                  /* what others know of it; NULL: nothing */
    char line[HD_ASK_KINDS][LINE]; /* that is coming in */
    size_t used[HD_ASK_KINDS];
    char *said[MOST_LINES];
    uint32_t n_said, n_waits;
    uint32_t waits[MOST_WAITS]; /* for processes of these numbers in the job's list */
} process_t;

/* A connection to a process. */
typedef struct link {
    int fd;
    hd_ask_kind_t of;
    uint32_t pid;
    bool heard, answered; /* the process has given a sign; has said something */
    bool over;            /* nothing more comes of it */
} link_t;

typedef struct job {
    process_t **process;
    uint32_t n, room, pid;
    link_t link[MOST_LINKS];
    uint32_t n_links;
} job_t;

/* --- what is known ---------------------------------------------------------------------------- */

/* Its place in the list, also if it was found to be the same as another one. */
static uint32_t real(const job_t *job, uint32_t i) {
    while (job->process[i]->same) {
        i = job->process[i]->same - 1;
    }
    return i;
}

/* UINT32_MAX: no process of that token is known. */
static uint32_t find(const job_t *job, hd_ask_kind_t of, const uint64_t token[2]) {
    for (uint32_t i = 0; i < job->n; i++) {
        const process_t *process = job->process[i];
        if (process->known[of] &&
            memcmp(process->token[of], token, sizeof(process->token[of])) == 0) {
            return real(job, i);
        }
    }
    return UINT32_MAX;
}

/* One that is known by other means only. */
static uint32_t find_unnamed(const job_t *job, hd_ask_kind_t of, uint32_t pid, const char *host) {
    for (uint32_t i = 0; pid && i < job->n; i++) {
        const process_t *process = job->process[i];
        if (!process->same && !process->known[of] && process->pid == pid &&
            strcmp(process->host, host) == 0) {
            return i;
        }
    }
    return UINT32_MAX;
}

static void name_it(process_t *process, hd_ask_kind_t of, const uint64_t token[2]) {
    memcpy(process->token[of], token, sizeof(process->token[of]));
    process->known[of] = true;
}

/* Adds one. UINT32_MAX: no memory, or too many. */
static uint32_t add(job_t *job, hd_ask_kind_t of, const uint64_t token[2]) {
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
    name_it(process, of, token);
    process->number = -1;
    job->process[job->n] = process;
    return job->n++;
}

static uint32_t place_of(job_t *job, hd_ask_kind_t of, const uint64_t token[2]) {
    uint32_t i = find(job, of, token);
    return i == UINT32_MAX ? add(job, of, token) : i;
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

/* The largest team numbers it. */
static void number(process_t *process, int32_t number, uint32_t of) {
    if (number >= 0 && (process->number < 0 || of > process->of)) {
        process->number = number;
        process->of = of;
    }
}

/* "P": a process says who it is. */
static void take_name(job_t *job, hd_ask_kind_t kind, uint32_t by, const char *text) {
    int is;
    unsigned of, pid;
    char host[HOST];
    if (sscanf(text, "%d %u %u %39s", &is, &of, &pid, host) != 4) {
        return;
    }
    process_t *process = job->process[by];
    uint32_t other = process->pid ? UINT32_MAX : find_unnamed(job, kind, pid, host);
    if (other != UINT32_MAX) { /* it is that one, of which the other kind has told */
        process_t *first = job->process[other];
        name_it(first, kind, process->token[kind]);
        first->answers = true;
        process->same = other + 1;
        process = first;
    }
    if (process->asking == NOT_ASKED) {
        process->pid = pid;
        memcpy(process->host, host, sizeof(host));
    }
    number(process, is, of);
}

/* "K", "N": another process that one knows; N: it is asked by itself. */
static void take_known(job_t *job, hd_ask_kind_t kind, uint32_t of, bool asks, const char *text) {
    uint64_t token[2];
    int is, gone, at = 0;
    unsigned pid;
    char host[HOST];
    if (!read_token(text, token) ||
        sscanf(text, "%*s %d %u %39s %d%n", &is, &pid, host, &gone, &at) != 4 || at == 0) {
        return;
    }
    uint32_t i = find(job, kind, token);
    if (i == UINT32_MAX && (i = find_unnamed(job, kind, pid, host)) != UINT32_MAX) {
        name_it(job->process[i], kind, token);
    }
    i = i == UINT32_MAX ? add(job, kind, token) : i;
    if (i == UINT32_MAX) {
        return;
    }
    process_t *process = job->process[i];
    number(process, is, of);
    if (process->asking == NOT_ASKED) { /* who is asked keeps the pid by which that is done */
        process->pid = pid;
        memcpy(process->host, host, sizeof(host));
    }
    process->gone = process->gone || gone;
    if (text[at] && !process->clause) {
        process->clause = strdup(text + at);
    }
    bool new = process->asking == NOT_ASKED &&pid != job->pid &&pid &&pid <= INT32_MAX;
    process->asking = asks && new && !process->gone ? TO_ASK : process->asking;
}

static void take_line(job_t *job, hd_ask_kind_t kind, uint32_t by, const char *line) {
    process_t *process = job->process[by];
    uint64_t token[2];
    const char *text = line[0] && line[1] == ' ' ? line + 2 : "";
    if (line[0] == 'P') {
        take_name(job, kind, by, text);
    } else if (line[0] == 'K' || line[0] == 'N') {
        take_known(job, kind, process->of, line[0] == 'N' && kind == HD_ASK_NODE, text);
    } else if (line[0] == 'W' && read_token(text, token) && process->n_waits < MOST_WAITS) {
        uint32_t other = place_of(job, kind, token);
        if (other != UINT32_MAX) {
            process->waits[process->n_waits++] = other;
        }
    } else if (line[0] == 'T' && process->n_said < MOST_LINES) {
        process->said[process->n_said] = strdup(text);
        process->n_said += process->said[process->n_said] != NULL;
    }
}

static void take_mail(job_t *job, hd_ask_kind_t kind, const hd_mail_t *mail) {
    uint32_t by = place_of(job, kind, mail->by);
    if (by == UINT32_MAX) {
        return;
    }
    job->process[by]->answers = true;
    for (uint32_t i = 0; i < mail->bytes; i++) {
        process_t *process = job->process[by];
        char c = mail->text[i];
        if (c == '\n') {
            process->line[kind][process->used[kind]] = '\0';
            process->used[kind] = 0;
            take_line(job, kind, by, process->line[kind]);
            by = real(job, by); /* it may have said who it is */
        } else if (process->used[kind] < LINE - 1) {
            process->line[kind][process->used[kind]++] = (char)(c >= ' ' && c <= '~' ? c : '?');
        }
    }
    job->process[by]->complete[kind] |= mail->last != 0;
}

/* Has all come that can? */
static bool is_complete(const job_t *job) {
    bool complete = job->n > 0;
    for (uint32_t l = 0; l < job->n_links && complete; l++) {
        complete = job->link[l].over || (job->link[l].of == HD_ASK_NET && job->link[l].answered);
    }
    for (uint32_t i = 0; i < job->n && complete; i++) {
        const process_t *process = job->process[i];
        bool comes = process->known[HD_ASK_NET] && !process->complete[HD_ASK_NET];
        complete = process->same || process->gone || (!comes && process->asking != TO_ASK);
    }
    return complete;
}

static void clear(job_t *job) {
    for (uint32_t l = 0; l < job->n_links; l++) {
        close(job->link[l].fd);
    }
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

/* Has the process that was asked taken the connection, and closed it at once? */
static bool is_busy(int why) {
    return why == EPIPE || why == ECONNRESET;
}

static ucc_status_t refuse_no_socket(uint32_t pid, int why) {
    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH) {
        hd_error("there is no process %u", pid);
        return UCC_ERR_NOT_FOUND;
    }
    if (why == ECONNREFUSED) {
        hd_error("process %u can't be asked: it has no teams of several processes, or has "
                 "NET_ASK=n, or NET_WATCH=n and none that share memory, or is in another network "
                 "namespace",
                 pid);
        return UCC_ERR_NOT_SUPPORTED;
    }
    if (is_busy(why)) {
        hd_error("process %u can't be asked now: it answers as many others as it can at once", pid);
        return UCC_ERR_NO_RESOURCE;
    }
    hd_error("process %u can't be asked: %s", pid, strerror(why));
    return UCC_ERR_NO_RESOURCE;
}

/* Is it that process who listens, and one of this user's? If not, a line says so at that level. */
static ucc_status_t check_owner(int fd, uint32_t pid, hd_log_level_t level) {
    struct ucred who;
    socklen_t size = sizeof(who);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 || (uint32_t)who.pid != pid) {
        hd_log(level, "process %u can't be asked: another process listens in its name", pid);
        return UCC_ERR_NOT_SUPPORTED;
    }
    if (who.uid != geteuid() && geteuid() != 0) {
        hd_log(level, "process %u can't be asked: it belongs to user %u", pid, (unsigned)who.uid);
        return UCC_ERR_NO_RESOURCE;
    }
    return UCC_OK;
}

/* Asks that process. An error: as check_owner; UCC_ERR_NO_MESSAGE: errno says why not. */
static ucc_status_t connect_to(job_t *job, hd_ask_kind_t of, uint32_t pid, hd_log_level_t level) {
    struct sockaddr_un at;
    const hd_question_t question = {HD_ASK_MAGIC, HD_ASK_VERSION};
    socklen_t size = (socklen_t)hd_ask_address(&at, of, pid);
    ucc_status_t status = UCC_ERR_NO_MESSAGE;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&at, size) == 0) {
        status = check_owner(fd, pid, level);
        if (status == UCC_OK && send(fd, &question, sizeof(question), MSG_NOSIGNAL) < 0) {
            status = UCC_ERR_NO_MESSAGE;
        }
    }
    if (status == UCC_OK) {
        job->link[job->n_links++] = (link_t){.fd = fd, .of = of, .pid = pid};
    } else if (fd >= 0) {
        int why = errno;
        close(fd);
        errno = why;
    }
    return status;
}

/* Does it close the last connection without a word? */
static bool is_turned_away(const job_t *job) {
    enum { MS = 200 };
    struct pollfd wait = {.fd = job->link[job->n_links - 1].fd, .events = POLLIN};
    char word;
    if (poll(&wait, 1, MS) != 1) {
        return false;
    }
    ssize_t got = recv(wait.fd, &word, sizeof(word), MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && is_busy(errno));
}

/* As connect_to, and again while that process is busy with others. */
static ucc_status_t connect_patiently(job_t *job, hd_ask_kind_t of, uint32_t pid) {
    enum { TIMES = 40, MS = 50 };
    ucc_status_t status = UCC_OK;
    for (int i = 0; i < TIMES; i++) {
        status = connect_to(job, of, pid, HD_LOG_ERROR);
        if (status == UCC_OK && is_turned_away(job)) {
            close(job->link[--job->n_links].fd);
            status = UCC_ERR_NO_MESSAGE;
            errno = EPIPE;
        }
        if (status != UCC_ERR_NO_MESSAGE || !is_busy(errno)) {
            break;
        }
        poll(NULL, 0, MS);
        errno = EPIPE;
    }
    return status;
}

/* The process that the caller has named. */
static ucc_status_t ask_first(job_t *job) {
    int why = ECONNREFUSED;
    for (int of = 0; of < HD_ASK_KINDS; of++) {
        ucc_status_t status = connect_patiently(job, (hd_ask_kind_t)of, job->pid);
        if (status != UCC_OK && status != UCC_ERR_NO_MESSAGE) {
            return status;
        }
        why = status != UCC_OK && errno != ECONNREFUSED ? errno : why;
    }
    return job->n_links ? UCC_OK : refuse_no_socket(job->pid, why);
}

/* Those of which it has told. False: some could not be asked yet. */
static bool ask_others(job_t *job) {
    bool all = true;
    for (uint32_t i = 0; i < job->n; i++) {
        process_t *process = job->process[i];
        if (process->same || process->asking != TO_ASK) {
            continue;
        }
        ucc_status_t status = job->n_links < MOST_LINKS
                                  ? connect_to(job, HD_ASK_NODE, process->pid, HD_LOG_INFO)
                                  : UCC_ERR_NO_RESOURCE;
        bool again = status == UCC_ERR_NO_MESSAGE && (errno == EAGAIN || errno == EINTR);
        process->asking = status == UCC_OK ? ASKED : again ? TO_ASK : REFUSED;
        all = all && !again;
    }
    return all;
}

/* Its first packet: which version answers. */
static ucc_status_t take_greeting(const job_t *job, link_t *link, const void *bytes, size_t n) {
    hd_question_t theirs = {0};
    memcpy(&theirs, bytes, n < sizeof(theirs) ? n : sizeof(theirs));
    link->heard = true;
    if (theirs.magic == HD_ASK_MAGIC && theirs.version == HD_ASK_VERSION) {
        return UCC_OK;
    }
    link->over = true;
    if (link->pid != job->pid) {
        return UCC_OK;
    }
    hd_error("process %u can't be asked: it has another version of Heddle", job->pid);
    return UCC_ERR_INVALID_PARAM;
}

/* One packet. */
static ucc_status_t take_packet(job_t *job, link_t *link) {
    hd_mail_t mail;
    ssize_t got = recv(link->fd, &mail, sizeof(mail), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
        return UCC_OK;
    }
    if (got <= 0) { /* it has ended, or takes no more questions */
        link->over = true;
        return UCC_OK;
    }
    if (!link->heard) {
        return take_greeting(job, link, &mail, (size_t)got);
    }
    if ((size_t)got < offsetof(hd_mail_t, text) || mail.bytes > HD_MAIL_TEXT ||
        hd_mail_bytes(&mail) != (size_t)got) {
        return UCC_OK;
    }
    link->answered = true;
    link->over = link->of == HD_ASK_NODE && mail.last; /* of no other process */
    take_mail(job, link->of, &mail);
    return UCC_OK;
}

/* Waits for what comes, so many ms at most, and takes one packet of each connection. */
static ucc_status_t take_some(job_t *job, int ms) {
    struct pollfd wait[MOST_LINKS];
    ucc_status_t status = UCC_OK;
    uint32_t n = job->n_links;
    for (uint32_t l = 0; l < n; l++) {
        const link_t *link = &job->link[l];
        wait[l] = (struct pollfd){.fd = link->over ? -1 : link->fd, .events = POLLIN};
    }
    int some = poll(wait, n, ms);
    for (uint32_t l = 0; l < n && some > 0 && status == UCC_OK; l++) {
        if (wait[l].revents) {
            status = take_packet(job, &job->link[l]);
        }
    }
    return status;
}

static bool all_over(const job_t *job) {
    uint32_t l = 0;
    while (l < job->n_links && job->link[l].over) {
        l++;
    }
    return l == job->n_links;
}

/* Takes what comes, for as long as it may take. */
static ucc_status_t listen_to(job_t *job) {
    uint64_t end = hd_clock_ns() + (uint64_t)(bound * 1e9), now;
    ucc_status_t status = UCC_OK;
    while (status == UCC_OK && (now = hd_clock_ns()) < end) {
        bool asked = ask_others(job);
        if (is_complete(job) || (asked && all_over(job))) {
            break;
        }
        int left = (int)((end - now) / 1000000) + 1;
        status = take_some(job, asked || left < AGAIN_MS ? left : AGAIN_MS);
    }
    return status;
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
    } else if (process->asking == REFUSED && !process->answers) {
        fprintf(out, " does not answer: it takes no questions");
    } else if (process->asking == ASKED && !process->answers) {
        fprintf(out, " does not answer within %.0f s", bound);
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
            uint32_t other = real(job, process->waits[i]);
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

static bool all_silent(const job_t *job) {
    uint32_t l = 0;
    while (l < job->n_links && !job->link[l].heard) {
        l++;
    }
    return l == job->n_links;
}

static void print(FILE *out, job_t *job) {
    process_t **sorted = malloc(job->n * sizeof(*sorted));
    uint32_t answers = 0, n = 0;
    for (uint32_t i = 0; i < job->n; i++) {
        answers += !job->process[i]->same && job->process[i]->answers;
        n += !job->process[i]->same;
    }
    fprintf(out, "job of process %u: %u of %u processes answer\n", job->pid, answers, n);
    if (sorted) {
        memcpy(sorted, job->process, job->n * sizeof(*sorted));
        qsort(sorted, job->n, sizeof(*sorted), by_number);
    }
    for (uint32_t i = 0; i < job->n; i++) {
        const process_t *process = sorted ? sorted[i] : job->process[i];
        if (!process->same) {
            print_process(out, process);
        }
    }
    free(sorted);
    print_verdict(out, job);
}

ucc_status_t hd_job_print(FILE *out, uint32_t pid) {
    job_t *job = calloc(1, sizeof(*job));
    if (!job) {
        hd_error("no memory to ask process %u", pid);
        return UCC_ERR_NO_MEMORY;
    }
    job->pid = pid;
    ucc_status_t status = ask_first(job);
    if (status == UCC_OK) {
        status = listen_to(job);
    }
    if (status == UCC_OK && job->n == 0 && all_over(job) && all_silent(job)) {
        hd_error("process %u has not taken the question", pid);
        status = UCC_ERR_NO_RESOURCE;
    } else if (status == UCC_OK && job->n == 0) {
        const char *state = hd_process_state((int32_t)pid);
        bool stopped = state && strcmp(state, "is stopped") == 0;
        hd_error("process %u does not answer within %.0f s: %s", pid, bound,
                 stopped ? "it is stopped"
                         : "all its threads compute, or wait for nobody outside it");
        status = UCC_ERR_TIMED_OUT;
    } else if (status == UCC_OK) {
        print(out, job);
    }
    clear(job);
    free(job);
    return status;
}
