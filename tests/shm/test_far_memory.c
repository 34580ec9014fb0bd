/* test_far_memory.c: sets of windows: who has which, and where they lie. */
#include "shm/far.h"
#include "small_group.h"

#include <stdlib.h>
#include <string.h>

static void init(void) {
    hd_park_init();
}

TestSuite(far_memory, .init = init, .timeout = 60);

enum { PROCESSES = 16, EXCHANGES = 100 };

typedef struct user {
    hd_op_t op;
    hd_exchange_t exchange;
    hd_far_t far;
} user_t;

static hd_group_t *group_of_processes(void) {
    hd_group_config_t config = small_config();
    config.processes = PROCESSES;
    config.apart = true;
    hd_group_t *group = hd_group_create(PROCESSES, &config);
    cr_assert(group);
    return group;
}

static user_t *users_of(hd_group_t *group) {
    user_t *user = aligned_alloc(alignof(user_t), EXCHANGES * sizeof(user_t));
    memset(user, 0, EXCHANGES * sizeof(user_t));
    for (uint32_t i = 0; i < EXCHANGES; i++) {
        user[i].op.group = group;
        user[i].op.exchange = &user[i].exchange;
    }
    return user;
}

Test(far_memory, sets_of_exchanges_leave_memory_for_boards) {
    hd_group_t *group = group_of_processes();
    user_t *user = users_of(group);
    uint32_t n = 0;
    while (n < EXCHANGES && hd_far_take_set(&user[n].op, &user[n].far)) {
        n++;
    }
    cr_expect(n >= 4 && n < EXCHANGES, "%u sets", n);
    cr_expect(hd_mapping_give(group, (size_t)1 << 30));
    for (uint32_t i = 0; i < n; i++) {
        hd_far_give_set(&user[i].op, &user[i].far);
    }
    cr_expect(hd_far_take_set(&user[n].op, &user[n].far), "whoever waited gets one of those");
    hd_far_give_set(&user[n].op, &user[n].far);
    hd_home_unpin(&group->home);
    free(user);
}
