/* pull.c: what members of other processes have is read by the kernel (process_vm_readv): one copy,
 * where windows take two. The system may forbid it (Yama, seccomp, another namespace of processes),
 * so each process tries it, once the team has formed, and says what came of it in memory that all
 * have mapped. Whether data are pulled, reader and source decide alike from that (far.c), and
 * whether the source, which would only wait, writes some of them (process_vm_writev; ends.c).
 *
 * Whoever cancels does not wait for readers of its buffers: it has poisoned the group before its
 * caller can write there again, and a reader that finds the group poisoned after it has read fails,
 * too. Reading harms nobody else.
 */
#include "shm/far.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

/* Shared, by mapping. */
typedef struct reader {
    /* Written before its members join: its process, in which there is the same token as here. */
    alignas(HD_LINE) uint64_t process;
    uint64_t address, answer;
    uint64_t token[2];
    /* 1: it reads all others', and writes them; written before any of its members publishes */
    uint32_t reads, writes;
    /* why it does not, for people: errno at the first mapping that it can't read, or one of these;
     * 0: it does, or has not tried yet */
    int32_t why;
    uint32_t whom;
} reader_t;

enum { IS_ANOTHER = -1, NEVER_WORTH_IT = -2 };

size_t hd_pull_bytes(uint32_t mappings) {
    return mappings * sizeof(reader_t);
}

/* Where others try whether they may write to this process: of no meaning, and there as long as the
 * library is, for an endpoint may have left the team, and its group be gone, when they do. */
static _Atomic uint64_t answer;

static reader_t *reader_of(const hd_group_t *group, uint32_t mapping) {
    return (reader_t *)(void *)group->readers + mapping;
}

/* Returns the bytes that were read; -1: errno says why not. */
static ssize_t read_from(const reader_t *reader, void *to, uint64_t from, size_t bytes) {
    struct iovec here = {.iov_base = to, .iov_len = bytes},
                 there = {.iov_base = (void *)(uintptr_t)from, .iov_len = bytes};
    return process_vm_readv((pid_t)reader->process, &here, 1, &there, 1, 0);
}

static ssize_t write_to(const reader_t *reader, uint64_t to, const void *from, size_t bytes) {
    struct iovec here = {.iov_base = (void *)(uintptr_t)from, .iov_len = bytes},
                 there = {.iov_base = (void *)(uintptr_t)to, .iov_len = bytes};
    return process_vm_writev((pid_t)reader->process, &here, 1, &there, 1, 0);
}

void hd_pull_open(hd_group_t *group) {
    reader_t *reader = reader_of(group, group->mapping.number);
    if (getrandom(group->token, sizeof(group->token), 0) != (ssize_t)sizeof(group->token)) {
        memset(group->token, 0, sizeof(group->token)); /* then nobody tries */
    }
    reader->process = (uint64_t)getpid();
    reader->address = (uintptr_t)group->token;
    reader->answer = (uintptr_t)&answer;
    memcpy(reader->token, group->token, sizeof(group->token));
    reader->reads = reader->writes = 0;
    reader->why = 0;
}

/* 0: this process reads that one; else why it does not. */
static int32_t try_mapping(const hd_group_t *group, uint32_t mapping) {
    const reader_t *reader = reader_of(group, mapping);
    uint64_t token[2];
    if (!(reader->token[0] | reader->token[1])) {
        return IS_ANOTHER; /* it has drawn none */
    }
    ssize_t bytes = read_from(reader, token, reader->address, sizeof(token));
    if (bytes != (ssize_t)sizeof(token)) {
        int32_t why = bytes < 0 ? errno : EFAULT;
        hd_info("process %llu's memory can't be read by the kernel (%s): what is large takes "
                "another copy",
                (unsigned long long)reader->process, strerror(why));
        return why;
    }
    if (memcmp(token, reader->token, sizeof(token)) != 0) {
        hd_info("process %llu is another one here: what is large takes another copy",
                (unsigned long long)reader->process);
        return IS_ANOTHER;
    }
    return 0;
}

/* That process is read: does the system let it be written to, too? */
static bool try_writing(const hd_group_t *group, uint32_t mapping) {
    const reader_t *reader = reader_of(group, mapping);
    return write_to(reader, reader->answer, reader->token, sizeof(answer)) == sizeof(answer);
}

void hd_pull_try(hd_group_t *group) {
    bool writes = true;
    uint64_t seen[HD_FAR_MOST / 64 + 1] = {0};
    reader_t *mine = reader_of(group, group->mapping.number);
    int32_t why = group->pull_min < SIZE_MAX ? 0 : NEVER_WORTH_IT;
    seen[group->mapping.number / 64] |= UINT64_C(1) << group->mapping.number % 64;
    for (uint32_t ep = 0; ep < group->n && !why; ep++) {
        uint32_t mapping = group->home_of[ep];
        uint64_t bit = UINT64_C(1) << mapping % 64;
        if (!(seen[mapping / 64] & bit)) {
            seen[mapping / 64] |= bit;
            why = try_mapping(group, mapping);
            writes = writes && !why && try_writing(group, mapping);
            mine->whom = mapping;
        }
    }
    mine->why = why;
    mine->reads = !why;
    mine->writes = !why && writes;
}

void hd_pull_say(const hd_group_t *group, uint32_t mapping, hd_text_t *text) {
    const reader_t *reader = reader_of(group, mapping);
    uint32_t reads = reader->reads, whom = reader->whom, number;
    int32_t why = reader->why;
    if (reads) {
        hd_text_add(text, "far: kernel from %zu bytes on, windows below", group->pull_min);
        if (group->pull_end < SIZE_MAX) {
            hd_text_add(text, " and where an endpoint receives %zu", group->pull_end);
        }
    } else if (!why) {
        hd_text_add(text, "far: windows (not by the kernel: not tried yet)");
    } else if (why == NEVER_WORTH_IT) {
        hd_text_add(text, "far: windows (not by the kernel: PULL_MIN is inf, or by the profile)");
    } else {
        const char *what = why == IS_ANOTHER ? "it has another pid here" : strerror(why);
        number = whom;
        (void)hd_who_number(group, whom, &number);
        hd_text_add(text, "far: windows (not by the kernel: memory of process %u: %s)", number,
                    what);
    }
}

bool hd_pull_reads(const hd_group_t *group, uint32_t mapping) {
    return reader_of(group, mapping)->reads != 0;
}

bool hd_pull_writes(const hd_group_t *group, uint32_t mapping) {
    return reader_of(group, mapping)->writes != 0;
}

static bool is_readable(const reader_t *reader, uint64_t from) {
    uint8_t byte;
    return read_from(reader, &byte, from, 1) == 1;
}

ucc_status_t hd_pull(const hd_op_t *op, uint32_t mapping, void *to, uint64_t from, size_t bytes) {
    const reader_t *reader = reader_of(op->group, mapping);
    ucc_status_t status = hd_group_poisoned(op->group); /* then the source may have gone on */
    size_t done = 0;
    while (status == UCC_OK && done < bytes) { /* it stops at 2 GiB, for one */
        ssize_t some = read_from(reader, hd_at(to, done), from + done, bytes - done);
        if (some <= 0) {
            const char *why = !some             ? "nothing is there"
                              : errno != EFAULT ? strerror(errno)
                              : is_readable(reader, from + done)
                                  ? "this endpoint's own buffer can't be written there"
                                  : "its buffer can't be read there";
            hd_error("%s: %zu bytes can't be copied from process %llu (%s)", hd_op_type_name(op),
                     bytes - done, (unsigned long long)reader->process, why);
            return UCC_ERR_IO_ERROR;
        }
        done += (size_t)some;
    }
    /* acquire: what has been read was read before this looks */
    atomic_thread_fence(memory_order_acquire);
    return hd_group_poisoned(op->group);
}

bool hd_pull_is_open(const void *at, size_t bytes) {
    uint8_t ends[2];
    uint64_t first = (uintptr_t)at;
    struct iovec here = {.iov_base = ends, .iov_len = sizeof(ends)};
    struct iovec there[] = {
        {.iov_base = (void *)(uintptr_t)first, .iov_len = 1},
        {.iov_base = (void *)(uintptr_t)(first + bytes - 1), .iov_len = 1},
    };
    return bytes == 0 || process_vm_readv(getpid(), &here, 1, there, 2, 0) == (ssize_t)sizeof(ends);
}

ucc_status_t hd_push(const hd_op_t *op, uint32_t mapping, uint64_t to, const void *from,
                     size_t bytes) {
    const reader_t *reader = reader_of(op->group, mapping);
    /* Of a team that has failed, that process may be gone, and another one have its number. */
    ucc_status_t status = hd_group_poisoned(op->group);
    if (status != UCC_OK) {
        return status;
    }
    size_t done = 0;
    while (done < bytes) {
        ssize_t some = write_to(reader, to + done, (const uint8_t *)from + done, bytes - done);
        if (some <= 0) {
            hd_error("%s: %zu bytes can't be written to process %llu (%s)", hd_op_type_name(op),
                     bytes - done, (unsigned long long)reader->process,
                     some ? strerror(errno) : "no room is there");
            return UCC_ERR_IO_ERROR;
        }
        done += (size_t)some;
    }
    return UCC_OK;
}
