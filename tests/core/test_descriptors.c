/* The room for file descriptors: each test in a process of its own, whose limits it changes. */
#include "core/descriptors.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

/* Leaves room for so many descriptors below the soft limit, and so many below the hard one. */
static void limit(rlim_t soft, rlim_t hard) {
    int fd = open("/dev/null", O_RDONLY);
    cr_assert_geq(fd, 0);
    close(fd);
    struct rlimit limits = {(rlim_t)fd + soft, (rlim_t)fd + hard};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limits), 0);
}

static rlim_t soft_limit(void) {
    struct rlimit limits;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limits), 0);
    return limits.rlim_cur;
}

Test(descriptors, a_limit_that_is_high_enough_stays_as_it_is) {
    limit(100, 200);
    rlim_t before = soft_limit();
    cr_expect(hd_descriptors_reserve(100));
    cr_expect_eq(soft_limit(), before);
}

Test(descriptors, the_soft_limit_is_raised_for_what_does_not_fit) {
    limit(4, 200);
    cr_expect(hd_descriptors_reserve(100));
    int fd = 0;
    for (int i = 0; i < 100 && fd >= 0; i++) {
        fd = open("/dev/null", O_RDONLY);
    }
    cr_expect_geq(fd, 0);
}

Test(descriptors, beyond_the_hard_limit_there_is_no_room) {
    limit(4, 50);
    cr_expect_not(hd_descriptors_reserve(100));
    cr_expect(hd_descriptors_reserve(50));
}

Test(descriptors, a_process_that_has_none_left_may_have_more) {
    limit(1, 200);
    int fd = open("/dev/null", O_RDONLY);
    cr_assert_geq(fd, 0);
    cr_assert_lt(open("/dev/null", O_RDONLY), 0);
    cr_expect(hd_descriptors_reserve(8));
    cr_expect_geq(open("/dev/null", O_RDONLY), 0);
}
