/* job.c: see job.h. */
#include "job.h"

#include "../support/deadline.h"
#include "core/log.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

const char job_key[] = "a key of thirty-two bytes, or so";

/* A socket with a port of its own. Others that allow it, too, may listen there while it does not.
 */
static int bind_somewhere(uint16_t *port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
        bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &bytes) != 0) {
        perror("FATAL: bind");
        abort();
    }
    *port = ntohs(at.sin_port);
    return fd;
}

static int listen_somewhere(uint16_t *port) {
    int fd = bind_somewhere(port);
    if (listen(fd, 512) != 0) {
        perror("FATAL: listen");
        abort();
    }
    return fd;
}

uint16_t job_free_port(void) {
    uint16_t port;
    (void)bind_somewhere(&port); /* which keeps it */
    return port;
}

/* All that were opened: no leaks. */
static job_t *jobs;

job_t *job_open(uint32_t size) {
    job_t *job = must_alloc(1, sizeof(*job));
    job->size = size;
    job->report = mmap(NULL, 2 * size * sizeof(report_t), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(job->report != MAP_FAILED ? UCC_OK : UCC_ERR_NO_MEMORY, "shared memory");
    job->listener = listen_somewhere(&job->port);
    snprintf(job->address, sizeof(job->address), "127.0.0.1:%u", job->port);
    job->next = jobs;
    jobs = job;
    return job;
}

static void keep_line(hd_log_level_t level, const char *line, void *arg) {
    report_t *report = arg;
    size_t used = strlen(report->log);
    if (level <= HD_LOG_WARN) {
        snprintf(report->log + used, sizeof(report->log) - used, "%s\n", line);
    }
}

#if defined(__SANITIZE_ADDRESS__)
/* Of the sanitizer's interface, whose header gcc does not have. LeakSanitizer itself can't look at
 * the child of a process with threads. */
size_t __sanitizer_get_current_allocated_bytes(void);

static size_t allocated(void) {
    return __sanitizer_get_current_allocated_bytes();
}
#else
static size_t allocated(void) {
    return 0;
}
#endif

void job_start(job_t *job, uint32_t i, job_run_t *run) {
    report_t *report = &job->report[i];
    report->status = UCC_INPROGRESS;
    pid_t pid = fork();
    if (pid != 0) {
        report->pid = pid;
        return;
    }
    alarm(JOB_SECONDS);
    if (i != 0) {
        close(job->listener); /* or a dead rank 0 would seem to listen */
    }
    hd_log_capture(keep_line, report);
    size_t before = allocated();
    ucc_status_t status = run(job, i);
    report->status = allocated() == before || job->keeps_memory ? status : UCC_ERR_NO_MEMORY;
    report->ended = test_now();
    _exit(0);
}

void job_wait(job_t *job) {
    for (uint32_t i = 0; i < 2 * job->size; i++) {
        if (job->report[i].pid > 0) {
            waitpid(job->report[i].pid, NULL, 0);
            job->report[i].pid = 0;
        }
    }
}

void job_all(job_t *job, job_run_t *run) {
    for (uint32_t i = 0; i < job->size; i++) {
        job_start(job, i, run);
    }
    close(job->listener); /* rank 0 has its own */
    job_wait(job);
}

heddle_bootstrap_params_t job_params(const job_t *job, uint32_t rank) {
    return (heddle_bootstrap_params_t){.rank = rank,
                                       .size = job->size,
                                       .address = job->address,
                                       .listener = rank == 0 ? job->listener : 0,
                                       .key = job_key,
                                       .key_bytes = sizeof(job_key) - 1,
                                       .timeout = 20};
}

ucc_status_t job_form(const job_t *job, uint32_t rank, heddle_bootstrap_t **bootstrap) {
    heddle_bootstrap_params_t params = job_params(job, rank);
    return heddle_bootstrap_tcp(&params, bootstrap);
}

ucc_status_t job_end(heddle_bootstrap_t *bootstrap, ucc_status_t status) {
    ucc_status_t ended = heddle_bootstrap_end(bootstrap);
    return status != UCC_OK ? status : ended;
}

ucc_status_t job_exchange(const ucc_oob_coll_t *oob, void *src, void *dst, size_t n) {
    void *request;
    ucc_status_t status = oob->allgather(src, dst, n, oob->coll_info, &request);
    if (status < 0) {
        return status;
    }
    while ((status = oob->req_test(request)) == UCC_INPROGRESS) {
        sched_yield();
    }
    ucc_status_t freed = oob->req_free(request);
    return status < 0 ? status : freed;
}

/* Whether the process has a socket with this inode. */
static bool owns(pid_t pid, unsigned long inode) {
    char path[300], target[64], wanted[64];
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
    DIR *folder = opendir(path);
    bool found = false;
    for (struct dirent *entry; folder && !found && (entry = readdir(folder)) != NULL;) {
        snprintf(path, sizeof(path), "/proc/%d/fd/%.20s", (int)pid, entry->d_name);
        ssize_t n = readlink(path, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = '\0';
        found = strcmp(target, wanted) == 0;
    }
    if (folder) {
        closedir(folder);
    }
    return found;
}

uint16_t job_listening_port(pid_t pid) {
    unsigned port = 0, state;
    while (port == 0) {
        char line[256];
        unsigned long inode;
        FILE *table = fopen("/proc/net/tcp", "r");
        must(table ? UCC_OK : UCC_ERR_NOT_FOUND, "/proc/net/tcp");
        while (fgets(line, sizeof(line), table)) {
            unsigned p;
            if (sscanf(line, " %*u: %*x:%x %*x:%*x %x %*x:%*x %*x:%*x %*x %*u %*u %lu", &p, &state,
                       &inode) == 3 &&
                state == 10 && owns(pid, inode)) {
                port = p;
            }
        }
        fclose(table);
        usleep(1000);
    }
    return (uint16_t)port;
}

/* Byte j of the block of that rank; different for neighbours of all kinds. */
static uint8_t byte_of(uint32_t rank, size_t j, uint64_t seed) {
    return (uint8_t)(rank * 37 + j * 11 + (j >> 8) * 3 + (j >> 16) * 7 + seed * 101);
}

ucc_status_t job_gather(heddle_bootstrap_t *bootstrap, size_t n, uint64_t seed) {
    uint32_t size = heddle_bootstrap_size(bootstrap), rank = heddle_bootstrap_rank(bootstrap);
    uint8_t *src = must_alloc(n + 1, 1), *dst = must_alloc(n * size + 1, 1);
    ucc_oob_coll_t oob;
    heddle_bootstrap_oob(bootstrap, &oob);
    for (size_t j = 0; j < n; j++) {
        src[j] = byte_of(rank, j, seed);
    }
    ucc_status_t status = job_exchange(&oob, src, dst, n);
    for (uint32_t r = 0; r < size && status == UCC_OK; r++) {
        for (size_t j = 0; j < n && status == UCC_OK; j++) {
            if (dst[r * n + j] != byte_of(r, j, seed)) {
                status = UCC_ERR_NO_MESSAGE;
            }
        }
    }
    if (status == UCC_OK && dst[n * size] != 0) {
        status = UCC_ERR_NO_MESSAGE; /* behind the end */
    }
    free(src);
    free(dst);
    return status;
}

bool job_logged(const job_t *job, uint32_t i, const char *text) {
    return strstr(job->report[i].log, text) != NULL;
}
