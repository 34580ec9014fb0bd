/* teams.c: teams of every form: strided, reversed, of one PE, two dimensions, teams of teams;
 * contexts of teams, and numbers from one team to another.
 */
#include "verify.h"

#include <limits.h>

static int sum, mine, word;

/* The sum of the world's numbers of a team's PEs, by a reduction and by translation. */
static void check_sum(shmem_team_t team) {
    int expected = 0, n = shmem_team_n_pes(team);
    for (int i = 0; i < n; i++) {
        expected += shmem_team_translate_pe(team, i, SHMEM_TEAM_WORLD);
    }
    mine = shmem_my_pe();
    VERIFY(shmem_sum_reduce(team, &sum, &mine, 1) == 0);
    VERIFY(sum == expected);
    VERIFY(shmem_team_translate_pe(team, shmem_team_my_pe(team), SHMEM_TEAM_WORLD) ==
           shmem_my_pe());
}

/* Every PE tells the next one of the team its number in the team. */
static void check_context(shmem_team_t team) {
    shmem_ctx_t ctx;
    shmem_team_t again;
    int me = shmem_team_my_pe(team), n = shmem_team_n_pes(team);
    VERIFY(shmem_team_create_ctx(team, 0, &ctx) == 0);
    VERIFY(shmem_ctx_get_team(ctx, &again) == 0 && again == team);
    shmem_p(ctx, &word, me, (me + 1) % n);
    shmem_ctx_quiet(ctx);
    shmem_sync(team);
    VERIFY(word == (me + n - 1) % n);
    VERIFY(shmem_g(ctx, &word, (me + 1) % n) == me);
    shmem_sync(team);
    shmem_ctx_destroy(ctx);
}

static void check(shmem_team_t team) {
    if (team != SHMEM_TEAM_INVALID) {
        check_sum(team);
        check_context(team);
        shmem_team_sync(team);
    }
}

static void strided(int me, int n) {
    shmem_team_t even, reversed, one;
    shmem_team_config_t config = {.num_contexts = 3}, told = {0};
    VERIFY(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, (n + 1) / 2, &config,
                                    SHMEM_TEAM_NUM_CONTEXTS, &even) == 0);
    VERIFY((even == SHMEM_TEAM_INVALID) == (me % 2 == 1));
    if (even != SHMEM_TEAM_INVALID) {
        VERIFY(shmem_team_my_pe(even) == me / 2);
        VERIFY(shmem_team_get_config(even, SHMEM_TEAM_NUM_CONTEXTS, &told) == 0);
        VERIFY(told.num_contexts == 3);
        VERIFY(shmem_team_translate_pe(SHMEM_TEAM_WORLD, 1, even) == -1);
        shmem_team_t last; /* a team of a team: its last PE alone */
        int size = shmem_team_n_pes(even);
        VERIFY(shmem_team_split_strided(even, size - 1, 0, 1, NULL, 0, &last) == 0);
        check(last);
        shmem_team_destroy(last);
    }
    check(even);
    VERIFY(shmem_team_split_strided(SHMEM_TEAM_WORLD, n - 1, -1, n, NULL, 0, &reversed) == 0);
    VERIFY(shmem_team_my_pe(reversed) == n - 1 - me);
    VERIFY(shmem_team_ptr(reversed, &word, 0) == shmem_ptr(&word, n - 1));
    VERIFY(shmem_team_ptr(reversed, &word, n) == NULL && shmem_team_ptr(reversed, &me, 0) == NULL);
    VERIFY(shmem_team_ptr(SHMEM_TEAM_INVALID, &word, 0) == NULL);
    check(reversed);
    if (n > 2) { /* every second of the reversed ones */
        VERIFY(shmem_team_split_strided(reversed, 1, 2, n / 2, NULL, 0, &one) == 0);
        check(one);
        shmem_team_destroy(one);
    }
    VERIFY(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, n + 1, NULL, 0, &one) != 0);
    VERIFY(one == SHMEM_TEAM_INVALID && shmem_team_my_pe(one) == -1);
    VERIFY(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, INT_MIN, INT_MIN, NULL, 0, &one) != 0);
    shmem_team_destroy(reversed);
    shmem_team_destroy(even);
}

static void two_dimensions(int me, int n) {
    for (int width = 1; width <= n + 1; width++) {
        shmem_team_t x, y;
        int used = width < n ? width : n;
        VERIFY(shmem_team_split_2d(SHMEM_TEAM_WORLD, width, NULL, 0, &x, NULL, 0, &y) == 0);
        VERIFY(shmem_team_my_pe(x) == me % used && shmem_team_my_pe(y) == me / used);
        check(x);
        check(y);
        shmem_team_destroy(x);
        shmem_team_destroy(y);
    }
}

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    check(SHMEM_TEAM_WORLD);
    check(SHMEM_TEAM_SHARED);
    VERIFY(shmem_team_n_pes(SHMEM_TEAM_SHARED) == n); /* threads share all memory */
    strided(me, n);
    two_dimensions(me, n);
    verified("teams");
    return 0;
}
