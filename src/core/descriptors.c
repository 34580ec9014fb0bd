#include "core/descriptors.h"

#include "core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

/* Returns the lowest number that is free, or what is beyond all numbers. */
static rlim_t lowest_free(rlim_t limit) {
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == EMFILE ? limit : 0; /* else it says nothing of this process */
    }
    close(fd);
    return (rlim_t)fd;
}

bool hd_descriptors_reserve(uint32_t more) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return true; /* it will be seen when they are asked for */
    }
    rlim_t needed = lowest_free(limit.rlim_cur) + more, before = limit.rlim_cur;
    if (needed <= limit.rlim_cur) {
        return true;
    }
    rlim_t wanted = needed + needed / 2;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    if (limit.rlim_cur > before && setrlimit(RLIMIT_NOFILE, &limit) == 0) {
        hd_info("the limit of descriptors (RLIMIT_NOFILE) is raised from %llu to %llu",
                (unsigned long long)before, (unsigned long long)limit.rlim_cur);
        before = limit.rlim_cur;
    }
    return needed <= before;
}
