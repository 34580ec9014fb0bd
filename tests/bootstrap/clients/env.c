/* env.c: one process of a job: finds the others by what its launcher set, and gathers all ranks.
 * The address and the key are in the environment, too. Prints "rank R of N" if all is right. Linked
 * with the library as it ships.
 */
#include <errno.h>
#include <heddle/bootstrap.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What libpmix keeps of its own is not this library's to give back. The test reads all output. */
const char *__lsan_default_options(void);
const char *__lsan_default_options(void) {
    return "print_suppressions=0";
}
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:libpmix.so\n";
}

static bool may_listen = true;

/* Called by the library, too. */
int listen(int fd, int backlog) {
    if (!may_listen) {
        errno = EMFILE;
        return -1;
    }
    return (int)syscall(SYS_listen, fd, backlog);
}

int main(void) {
    heddle_bootstrap_t *bootstrap;
    ucc_oob_coll_t oob;
    void *request;
    may_listen = !getenv("FIRST_LISTEN_FAILS");
    if (!may_listen && heddle_bootstrap_env(NULL, &bootstrap) == UCC_OK) {
        return 6;
    }
    may_listen = true;
    if (heddle_bootstrap_env(NULL, &bootstrap) != UCC_OK) {
        return 1;
    }
    heddle_bootstrap_oob(bootstrap, &oob);
    uint32_t rank = heddle_bootstrap_rank(bootstrap), size = heddle_bootstrap_size(bootstrap);
    uint32_t *all = calloc(size, sizeof(*all));
    ucc_status_t status = oob.allgather(&rank, all, sizeof(rank), oob.coll_info, &request);
    if (status < 0) {
        return 2;
    }
    while ((status = oob.req_test(request)) == UCC_INPROGRESS) {
        continue;
    }
    oob.req_free(request);
    for (uint32_t i = 0; i < size && status == UCC_OK; i++) {
        if (all[i] != i) {
            return 3;
        }
    }
    free(all);
    if (status != UCC_OK || heddle_bootstrap_end(bootstrap) != UCC_OK) {
        return 4;
    }
    if (heddle_bootstrap_env(NULL, &bootstrap) != UCC_OK || /* once more */
        heddle_bootstrap_end(bootstrap) != UCC_OK) {
        return 5;
    }
    printf("rank %u of %u\n", rank, size);
    return 0;
}
