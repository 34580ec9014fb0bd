/* key.c: where the job's key and its name come from. The key's bytes reach no log line. */
#include "bootstrap/bootstrap.h"

#include "core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* With fewer bytes than these, somebody who sees a handshake could try all keys. */
enum { SHORT_KEY = 16 };

ucc_status_t hd_key_keep(heddle_bootstrap_t *b, const void *key, size_t bytes, const char *from) {
    if (bytes == 0) {
        hd_error("heddle_bootstrap_tcp: the job's key in %s is empty", from);
        return UCC_ERR_INVALID_PARAM;
    }
    if (bytes < SHORT_KEY) {
        hd_warn("heddle_bootstrap_tcp: the job's key in %s has %zu bytes only: 32 random ones are "
                "good",
                from, bytes);
    }
    b->key = malloc(bytes);
    if (!b->key) {
        hd_error("heddle_bootstrap_tcp: no memory for the job's key");
        return UCC_ERR_NO_MEMORY;
    }
    memcpy(b->key, key, bytes);
    b->key_bytes = bytes;
    return UCC_OK;
}

/* Everything up to the end of the file, or until `size` bytes; negative: an error. */
static ssize_t read_all(int fd, char *to, size_t size) {
    size_t used = 0;
    while (used < size) {
        ssize_t n = read(fd, to + used, size - used);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -1;
        }
        if (n == 0) {
            break;
        }
        used += (size_t)n;
    }
    return (ssize_t)used;
}

static ucc_status_t keep_content(heddle_bootstrap_t *b, int fd, const char *path) {
    char content[HD_LARGEST_KEY + 2]; /* a newline, and a byte too many */
    struct stat about;
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        hd_error("heddle_bootstrap_tcp: the key file %s is no regular file", path);
        return UCC_ERR_INVALID_PARAM;
    }
    if (about.st_mode & (S_IRGRP | S_IROTH)) {
        hd_warn("heddle_bootstrap_tcp: other users may read the key file %s", path);
    }
    ssize_t n = read_all(fd, content, sizeof(content));
    if (n < 0) {
        hd_error("heddle_bootstrap_tcp: cannot read the key file %s: %s", path, strerror(errno));
        return UCC_ERR_IO_ERROR;
    }
    if (n > 0 && content[n - 1] == '\n') {
        n--;
    }
    ucc_status_t status;
    if (n > HD_LARGEST_KEY) {
        hd_error("heddle_bootstrap_tcp: the key file %s has more than %d bytes", path,
                 HD_LARGEST_KEY);
        status = UCC_ERR_INVALID_PARAM;
    } else {
        status = hd_key_keep(b, content, (size_t)n, path);
    }
    sodium_memzero(content, sizeof(content));
    return status;
}

static ucc_status_t keep_file(heddle_bootstrap_t *b, const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is refused, not waited for */
    if (fd < 0) {
        int error = errno;
        hd_error("heddle_bootstrap_tcp: cannot open the key file %s: %s", path, strerror(error));
        return error == EMFILE || error == ENFILE ? UCC_ERR_NO_RESOURCE : UCC_ERR_NOT_FOUND;
    }
    ucc_status_t status = keep_content(b, fd, path);
    close(fd);
    return status;
}

bool hd_key_is_given(const heddle_bootstrap_params_t *params) {
    return params->key || params->key_file || secure_getenv("HEDDLE_BOOTSTRAP_KEY") ||
           secure_getenv("HEDDLE_BOOTSTRAP_KEY_FILE");
}

ucc_status_t hd_key_load(heddle_bootstrap_t *b, const heddle_bootstrap_params_t *params) {
    const char *key = secure_getenv("HEDDLE_BOOTSTRAP_KEY"),
               *file = secure_getenv("HEDDLE_BOOTSTRAP_KEY_FILE");
    if (params->key && params->key_bytes == 0) {
        hd_error("heddle_bootstrap_tcp: params.key is given, but params.key_bytes is 0");
        return UCC_ERR_INVALID_PARAM;
    }
    if (params->key) {
        return hd_key_keep(b, params->key, params->key_bytes, "params.key");
    }
    if (params->key_file) {
        return keep_file(b, params->key_file);
    }
    if (key) {
        return hd_key_keep(b, key, strlen(key), "HEDDLE_BOOTSTRAP_KEY");
    }
    if (file) {
        return keep_file(b, file);
    }
    hd_error("heddle_bootstrap_tcp: no key: neither key, key_file, HEDDLE_BOOTSTRAP_KEY nor "
             "HEDDLE_BOOTSTRAP_KEY_FILE is set, nor does the launcher speak PMIx or PMI-2 (as srun "
             "--mpi=pmix, srun --mpi=pmi2 and mpirun of Open MPI do)");
    return UCC_ERR_INVALID_PARAM;
}

void hd_job_name(heddle_bootstrap_t *b, const char *job) {
    enum { DIGEST = 8, WHOLE = 22 };
    uint8_t digest[crypto_generichash_BYTES_MIN];
    if (strlen(job) < sizeof(b->job)) {
        snprintf(b->job, sizeof(b->job), "%s", job);
        return;
    }
    crypto_generichash(digest, sizeof(digest), (const uint8_t *)job, strlen(job), NULL, 0);
    snprintf(b->job, sizeof(b->job), "%.*s~", WHOLE, job);
    sodium_bin2hex(b->job + WHOLE + 1, sizeof(b->job) - WHOLE - 1, digest, DIGEST);
}
