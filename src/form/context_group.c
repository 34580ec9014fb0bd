/* context_group.c: what contexts that were created by one out-of-band exchange know of each other:
 * how many they are, in which processes they live, and a number by which teams over them meet, rank
 * 0's serial number. It is in context->peers.
 *
 * If the contexts live in several processes, more exchanges tell how each process is reached
 * (roll.h), so that teams over these contexts need no exchange. A process keeps that once for all
 * its contexts of the exchange.
 */
#include "form/internal.h"

#include "core/fork.h"

/* --- contexts in several processes ------------------------------------------------------------ */

/* Called when the last context of the group has ended. */
static void free_group(void *object) {
    hd_context_group_t *group = object;
    /* a forked child does not share its parent's references */
    if (group->net && group->forks == hd_forks()) {
        hd_net_close(group->net);
    }
    if (group->scope) {
        hd_meetings_end(group->serial); /* which would keep the scope */
        hd_home_unpin(&group->scope->home);
    }
    hd_free(group->obstacle);
    hd_free(group->process);
    hd_free(group->span);
    hd_free(group);
}

void hd_context_part(ucc_context_h context) {
    hd_ordinals_end(&context->peers.lists);
    if (context->peers.group) {
        hd_meeting_release(context->peers.group->meeting, false);
        context->peers.group = NULL;
    }
}

typedef struct mine {
    hd_context_group_t *group;
    hd_kin_t *kin; /* if the processes share memory */
} mine_t;

/* The first context to come to the meeting with its group makes that the group of all. */
static void *make_group(void *arg) {
    const mine_t *mine = arg;
    if (mine->kin) {
        hd_kin_is_scope(mine->kin);
        mine->group->scope = hd_kin_found(mine->kin);
    }
    return mine->group;
}

/* The contexts live in several processes: calls the roll, and sets context->peers.group. trouble:
 * why this context can't go on, of which the others hear. */
static ucc_status_t meet_processes(ucc_context_h context, hd_roll_t *roll, ucc_status_t trouble) {
    hd_meeting_t *meeting = NULL;
    hd_context_group_t *group = hd_alloc(HD_LINE, sizeof(*group));
    roll->mine.number = context->rank;
    /* rank 0's own number is unique in its process only */
    context->peers.serial = hd_roll_serial(roll);
    hd_roll_take(roll);
    if (!group) {
        hd_error("no memory for an exchange among %u contexts", roll->oob.n_oob_eps);
        roll->trouble = UCC_ERR_NO_MEMORY;
    }
    roll->trouble = trouble == UCC_OK ? roll->trouble : trouble;
    if (roll->trouble == UCC_OK) {
        const hd_span_t *span = roll->span;
        hd_meet_key_t key = {.kind = HD_MEET_LIST, .scope = context->peers.serial};
        uint32_t me = span->local_of[context->rank], here = hd_span_count(span, span->mine);
        roll->trouble = hd_meet(&key, here, &me, 0, true, &meeting);
        meeting = roll->trouble == UCC_OK ? meeting : NULL;
        roll->meeting = meeting;
    }
    hd_group_config_t config =
        hd_team_group_config(context->lib, UCC_NO_SYNC_COLLECTIVES, roll->oob.n_oob_eps);
    roll->group_config = &config;
    roll->optional = true; /* without a network, they are good for teams inside their processes */
    ucc_status_t status = hd_roll_call_through(roll);
    if (status == UCC_OK) {
        *group = (hd_context_group_t){.obstacle = roll->net ? hd_roll_obstacles(roll) : NULL,
                                      .process = roll->net ? hd_roll_processes(roll) : NULL,
                                      .span = roll->span,
                                      .net = roll->net,
                                      .meeting = meeting,
                                      .serial = context->peers.serial,
                                      .forks = hd_forks()};
        roll->span = NULL;
        roll->net = NULL;
        mine_t mine = {.group = group, .kin = roll->together ? roll->kin : NULL};
        context->peers.group = hd_meeting_object(meeting, make_group, &mine, free_group);
    } else if (meeting) {
        hd_meeting_release(meeting, false);
    }
    if (group && group != context->peers.group) {
        free_group(group);
    }
    return status;
}

/* --- contexts --------------------------------------------------------------------------------- */

/* Reads the records, and goes on to the other exchanges if there are several processes. */
static ucc_status_t read_records(ucc_context_h context, hd_roll_t *roll, bool unplaced) {
    uint32_t n = roll->oob.n_oob_eps, places = 0;
    bool spans_processes = false;
    ucc_status_t status = UCC_OK;
    context->peers.serial = roll->all[0].serial;
    for (uint32_t i = 0; i < n; i++) {
        const hd_record_t *r = &roll->all[i];
        bool here = hd_record_same_process(r, &roll->mine);
        context->peers.by_id |= r->by_id != 0;
        spans_processes |= !here;
        if (unplaced && here && r->serial == roll->mine.serial) {
            context->rank = i;
            places++;
        }
    }
    if (unplaced && places != 1) {
        hd_error("oob allgather of the context: the caller's own record is there %u times", places);
        status = UCC_ERR_INVALID_PARAM;
    }
    return spans_processes ? meet_processes(context, roll, status) : status;
}

/* Returns whether different processes may make teams of the same members in different orders. */
static bool needs_ids(const ucc_lib_h lib) {
    int choice = hd_config_choice(lib->config, HD_CFG_LIB_TEAM_IDS);
    return choice == HD_CFG_TEAM_IDS_ALWAYS ||
           (choice == HD_CFG_TEAM_IDS_AUTO && lib->params.thread_mode == UCC_THREAD_MULTIPLE);
}

ucc_status_t hd_context_meet(ucc_context_h context, const ucc_oob_coll_t *oob, bool unplaced) {
    hd_roll_t roll = {.stall = context->lib->stall,
                      .mine = {.serial = hd_serial(), .by_id = needs_ids(context->lib)}};
    context->rank = unplaced ? 0 : oob->oob_ep;
    context->peers.n = oob->n_oob_eps;
    ucc_status_t status = hd_roll_introduce(&roll, oob, "context", context->lib->config);
    status = status == UCC_OK ? read_records(context, &roll, unplaced) : status;
    hd_roll_end(&roll);
    return status;
}
