/* context_group.c: what contexts that were created by one out-of-band exchange know of each other:
 * how many they are, in which processes they live, and a number by which teams over them meet.
 * ucc_context_create calls hd_context_meet, which blocks; what it learns is in context->peers.
 *
 * The records carry process identities and serial numbers; all contexts take rank 0's. These are
 * plain numbers, so nothing in them can be gone when the others read it. Identities tell a process
 * from its child after a fork, too.
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

/* Enters the meeting of this process's contexts of the exchange. They share one group, which the
 * meeting is about. */
static ucc_status_t meet(ucc_context_h context, const hd_span_t *span, hd_meeting_t **meeting) {
    hd_meet_key_t key = {.kind = HD_MEET_LIST, .scope = context->peers.serial};
    uint32_t me = span->local_of[context->rank];
    ucc_status_t status = hd_meet(&key, hd_span_count(span, span->mine), &me, 0, true, meeting);
    *meeting = status == UCC_OK ? *meeting : NULL;
    return status;
}

/* The first context to come with its group makes that the group of all. */
static void *make_group(void *mine) {
    return mine;
}

/* Calls the roll; all contexts of the exchange do so together. Moves what it says into `group`. If
 * there is no network, the contexts are good for teams inside their processes. */
static ucc_status_t call_roll(const hd_config_t *config, hd_roll_t *roll,
                              hd_context_group_t *group) {
    ucc_status_t status = hd_roll_call_through(roll, config);
    if (status == UCC_ERR_NOT_SUPPORTED && roll->blames && roll->span) {
        hd_info("contexts in %u processes, without a network: no team of theirs can span processes",
                roll->span->processes);
        /* this context may lack more than that */
        status = roll->trouble == UCC_ERR_NOT_SUPPORTED ? UCC_OK : roll->trouble;
    } else if (status != UCC_OK && roll->blames) {
        hd_error("oob allgather: context %u of %u can't take part: %s", roll->culprit,
                 roll->oob.n_oob_eps, ucc_status_string(status));
    } else if (status == UCC_OK) {
        group->process = hd_roll_processes(roll);
        group->net = roll->net;
        roll->net = NULL;
    }
    if (status == UCC_OK) {
        group->span = roll->span;
        roll->span = NULL;
    }
    return status;
}

/* The contexts live in several processes: calls the roll, and sets context->peers.group. trouble:
 * why this context can't go on, of which the others hear. */
static ucc_status_t meet_processes(ucc_context_h context, hd_roll_t *roll, ucc_status_t trouble) {
    uint32_t n = roll->oob.n_oob_eps;
    hd_meeting_t *meeting = NULL;
    hd_context_group_t *group = hd_alloc(HD_LINE, sizeof(*group));
    for (uint32_t i = 0; i < n; i++) {
        roll->all[i].number = i;
    }
    roll->mine.number = context->rank;
    /* rank 0's own number is unique in its process only */
    context->peers.serial = hd_roll_serial(&roll->all[0]);
    hd_roll_take(roll);
    if (!group) {
        hd_error("no memory for an exchange among %u contexts", n);
        roll->trouble = UCC_ERR_NO_MEMORY;
    } else if (trouble == UCC_OK && roll->trouble == UCC_OK) {
        roll->trouble = meet(context, roll->span, &meeting);
    }
    roll->trouble = trouble == UCC_OK ? roll->trouble : trouble;
    ucc_status_t status = call_roll(context->lib->config, roll, group);
    if (status == UCC_OK) {
        group->meeting = meeting;
        group->forks = hd_forks();
        context->peers.group = hd_meeting_object(meeting, make_group, group, free_group);
    } else if (meeting) {
        hd_meeting_release(meeting, false);
    }
    if (group && group != context->peers.group) {
        free_group(group);
    }
    return status;
}

/* --- contexts --------------------------------------------------------------------------------- */

/* Reads the records of the first exchange, and goes on to the others if there are several
 * processes. */
static ucc_status_t read_records(ucc_context_h context, hd_roll_t *roll, bool unplaced) {
    uint32_t n = roll->oob.n_oob_eps, places = 0, place;
    bool spans_processes = false;
    ucc_status_t status = hd_roll_refusal(roll, &place);
    if (status != UCC_OK) {
        hd_error("oob allgather: context %u of %u can't be created: %s", place, n,
                 ucc_status_string(status));
        return status;
    }
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
    hd_roll_t roll = {.mine = {.serial = hd_serial(), .by_id = needs_ids(context->lib)}};
    context->rank = unplaced ? 0 : oob->oob_ep;
    context->peers.n = oob->n_oob_eps;
    if (oob->n_oob_eps == 1) {
        context->peers.serial = roll.mine.serial;
        return UCC_OK;
    }
    if (hd_roll_begin(&roll, oob, "context", context->lib->stall) != UCC_OK) {
        hd_context_refuse(oob, context->lib->stall, UCC_ERR_NO_MEMORY);
        return UCC_ERR_NO_MEMORY;
    }
    hd_record_sign(&roll.mine, context->lib->config);
    ucc_status_t status = hd_roll_exchange(&roll, &roll.mine, roll.all, sizeof(roll.mine));
    status = status == UCC_OK ? read_records(context, &roll, unplaced) : status;
    hd_roll_end(&roll);
    return status;
}

void hd_context_refuse(const ucc_oob_coll_t *oob, uint64_t stall, ucc_status_t why) {
    hd_roll_refuse(oob, "context", stall, why);
}
