/* drafts_world.h: teams made by a draft's calls, for the tests of both drafts. Include it after
 * HEDDLE_DRAFT is defined. One thread drives all endpoints; log lines are kept for a look.
 */
#ifndef TESTS_DRAFTS_WORLD_H_
#define TESTS_DRAFTS_WORLD_H_

#include "../support/deadline.h"
#include "../support/oob.h"
#include "core/log.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <heddle/drafts.h>

enum { DRAFTS_MAX = 6 };

typedef struct drafts {
    uint32_t n;
    ucc_lib_h lib;
    oob_board_t *board;
    ucc_context_h contexts[DRAFTS_MAX];
    ucc_team_h teams[DRAFTS_MAX];
    ucc_coll_req_h requests[DRAFTS_MAX];
} drafts_t;

static char drafts_line[1024];
static int drafts_lines;

static inline void drafts_keep(hd_log_level_t level, const char *line, void *arg) {
    (void)arg;
    if (level <= HD_LOG_ERROR) {
        drafts_lines++;
        snprintf(drafts_line, sizeof(drafts_line), "%s", line);
    }
}

/* The draft's structure has no place for the number of the caller. */
static inline heddle_draft_oob_coll_t drafts_oob(drafts_t *d, uint32_t place) {
    ucc_oob_coll_t oob = oob_endpoint(d->board, place);
    return (heddle_draft_oob_coll_t){.allgather = (int (*)(void *, void *, size_t, void *,
                                                           void **))(void (*)(void))oob.allgather,
                                     .req_test = oob.req_test,
                                     .req_free = oob.req_free,
                                     .participants = oob.n_oob_eps,
                                     .coll_info = oob.coll_info};
}

static inline ucc_lib_h drafts_lib(ucc_thread_mode_t mode) {
    ucc_lib_params_t params = {.mask = UCC_THREAD_MODE, .thread_mode = mode};
    ucc_lib_h lib = NULL;
    must(ucc_init(&params, NULL, &lib), "ucc_init");
    return lib;
}

static inline drafts_t drafts_open(uint32_t n) {
    drafts_t d = {.n = n, .lib = drafts_lib(UCC_LIB_THREAD_MULTIPLE), .board = oob_board_create(n)};
    hd_log_capture(drafts_keep, NULL);
    drafts_lines = 0;
    for (uint32_t i = 0; i < n; i++) {
        ucc_context_params_t params = {.mask = UCC_CONTEXT_TYPE, .ctx_type = UCC_CONTEXT_SHARED};
        must(ucc_context_create(d.lib, &params, NULL, &d.contexts[i]), "ucc_context_create");
    }
    return d;
}

static inline void drafts_destroy_teams(drafts_t *d) {
    for (uint32_t i = 0; i < d->n; i++) {
        if (d->teams[i]) {
            cr_assert_eq(ucc_team_destroy(d->teams[i]), UCC_OK);
            d->teams[i] = NULL;
        }
    }
}

static inline void drafts_close(drafts_t *d) {
    drafts_destroy_teams(d);
    for (uint32_t i = 0; i < d->n; i++) {
        cr_assert_eq(ucc_context_destroy(d->contexts[i]), UCC_OK);
    }
    cr_assert_eq(ucc_finalize(d->lib), UCC_OK);
    oob_board_destroy(d->board);
    hd_log_capture(NULL, NULL);
}

/* Drives n handles until each has said something final. */
static inline void drafts_settle(uint32_t n, ucc_team_h *teams, ucc_status_t *statuses) {
    deadline_t deadline = deadline_start("a draft's team that forms or fails");
    for (uint32_t i = 0; i < n; i++) {
        statuses[i] = UCC_INPROGRESS;
    }
    for (uint32_t left = n; left > 0;) {
        for (uint32_t i = 0; i < n; i++) {
            if (statuses[i] == UCC_INPROGRESS) {
                statuses[i] = ucc_team_create_test(teams[i]);
                left -= statuses[i] != UCC_INPROGRESS;
            }
        }
        deadline_poll(&deadline);
    }
}

/* A team by params[i] with an allgather in which endpoint i has place n - 1 - i. */
static inline void drafts_post_teams(drafts_t *d, ucc_team_params_t *params) {
    for (uint32_t i = 0; i < d->n; i++) {
        params[i].HEDDLE_DRAFT_EITHER(oob_collectives, oob_collective) =
            drafts_oob(d, d->n - 1 - i);
        must(ucc_team_create_post(&d->contexts[i], 1, params[i], &d->teams[i]), "create_post");
    }
}

static inline void drafts_form(drafts_t *d, ucc_team_params_t *params) {
    ucc_status_t statuses[DRAFTS_MAX];
    drafts_post_teams(d, params);
    drafts_settle(d->n, d->teams, statuses);
    for (uint32_t i = 0; i < d->n; i++) {
        cr_assert_eq(statuses[i], UCC_OK, "endpoint %u: %d", i, (int)statuses[i]);
    }
}

/* A team whose endpoints are 0 to n - 1. */
static inline drafts_t drafts_ready(uint32_t n) {
    drafts_t d = drafts_open(n);
    ucc_team_params_t params[DRAFTS_MAX] = {0};
    for (uint32_t i = 0; i < n; i++) {
        params[i].ep = i;
    }
    drafts_form(&d, params);
    return d;
}

static inline void drafts_end(drafts_t *d) {
    deadline_t deadline = deadline_start("a draft's collective");
    for (uint32_t i = 0; i < d->n; i++) {
        ucc_status_t status;
        while ((status = ucc_collective_test(d->requests[i])) == UCC_INPROGRESS) {
            for (uint32_t j = 0; j < d->n; j++) {
                must(ucc_context_progress(d->contexts[j]), "ucc_context_progress");
            }
            deadline_poll(&deadline);
        }
        cr_assert_eq(status, UCC_OK, "endpoint %u: %d", i, (int)status);
    }
}

static inline void drafts_run(drafts_t *d, ucc_coll_op_args_t *args) {
    for (uint32_t i = 0; i < d->n; i++) {
        must(ucc_collective_init_and_post(&args[i], &d->requests[i], d->teams[i]), "init_and_post");
    }
    drafts_end(d);
    for (uint32_t i = 0; i < d->n; i++) {
        must(ucc_collective_finalize(d->requests[i]), "ucc_collective_finalize");
    }
}

#endif
