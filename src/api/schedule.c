/* schedule.c: the public face of threads/schedule.h: the same structures under their public names.
 */
#include "api/api.h"
#include "request/algorithm.h"

#include <heddle/schedule.h>
#include <stddef.h>

/* --- one memory, two types -------------------------------------------------------------------- */

/* Programs read and write the public fields, the library those of its own types at the same places:
 * never both in one translation unit, so that the optimiser need not know that they are the
 * same. */

_Static_assert((int)UCC_EVENT_PROGRESS == HD_ON_PROGRESS &&
                   (int)UCC_EVENT_COMPLETED == HD_ON_COMPLETED &&
                   (int)UCC_EVENT_FRAGMENT_COMPLETED == HD_ON_FRAGMENT_COMPLETED &&
                   (int)UCC_EVENT_CANCELED == HD_ON_CANCELED && (int)UCC_EVENT_LAST == HD_ON_LAST,
               "events have the same numbers");
_Static_assert((int)UCC_TASK_STATE_NOT_READY == HD_STAGE_NOT_READY &&
                   (int)UCC_TASK_STATE_INPROGRESS == HD_STAGE_INPROGRESS &&
                   (int)UCC_TASK_STATE_COMPLETED == HD_STAGE_COMPLETED &&
                   sizeof(ucc_task_state_t) == sizeof(hd_stage_state_t),
               "states have the same numbers");
_Static_assert(sizeof(ucc_event_manager_t) >= sizeof(hd_events_t) &&
                   _Alignof(ucc_event_manager_t) >= _Alignof(hd_events_t),
               "an event manager has room for what is inside");
_Static_assert(offsetof(ucc_coll_task_t, em) == offsetof(hd_stage_t, events) &&
                   offsetof(ucc_coll_task_t, state) == offsetof(hd_stage_t, state) &&
                   offsetof(ucc_coll_task_t, handlers) == offsetof(hd_stage_t, handler) &&
                   offsetof(ucc_coll_task_t, status) == offsetof(hd_stage_t, status) &&
                   sizeof(ucc_coll_task_t) == sizeof(hd_stage_t) &&
                   _Alignof(ucc_coll_task_t) >= _Alignof(hd_stage_t),
               "a task is a stage");
_Static_assert(offsetof(ucc_schedule_t, n_completed_tasks) ==
                       offsetof(hd_schedule_t, n_completed) &&
                   offsetof(ucc_schedule_t, args) >= sizeof(hd_schedule_t) &&
                   _Alignof(ucc_schedule_t) >= _Alignof(hd_schedule_t),
               "a schedule has room for what is inside");
_Static_assert(HEDDLE_ERR_CANCELED == HD_STAGE_CANCELED, "one status");

static hd_events_t *events_of(ucc_event_manager_t *em) {
    return (hd_events_t *)em;
}

static hd_stage_t *stage_of(ucc_coll_task_t *task) {
    return (hd_stage_t *)task;
}

static hd_schedule_t *schedule_of(ucc_schedule_t *schedule) {
    return (hd_schedule_t *)schedule;
}

/* Each is false, and a line, for NULL, and for what was never initialised or has moved since. */
static bool is_in_place(bool in_place, const char *what, const char *caller) {
    if (!in_place) {
        hd_error("%s: the %s was never initialised, or its memory has moved", caller, what);
    }
    return in_place;
}

static bool has_manager(ucc_event_manager_t *em, const char *caller) {
    return hd_api_pointer(em, "em", caller) &&
           is_in_place(hd_events_are_in_place(events_of(em)), "event manager", caller);
}

static bool has_task(ucc_coll_task_t *task, const char *caller) {
    return hd_api_pointer(task, "task", caller) &&
           is_in_place(hd_stage_is_in_place(stage_of(task)), "task", caller);
}

static bool has_schedule(ucc_schedule_t *schedule, const char *caller) {
    return hd_api_pointer(schedule, "schedule", caller) &&
           is_in_place(hd_schedule_is_in_place(schedule_of(schedule)), "schedule", caller);
}

/* --- event managers --------------------------------------------------------------------------- */

static bool is_event(ucc_event_t event, const char *caller) {
    if ((unsigned)event < (unsigned)UCC_EVENT_LAST) {
        return true;
    }
    hd_error("%s: event %d does not exist", caller, (int)event);
    return false;
}

ucc_status_t ucc_event_manager_init(ucc_event_manager_t *em) {
    if (!hd_api_pointer(em, "em", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    hd_events_init(events_of(em), NULL);
    return UCC_OK;
}

ucc_status_t ucc_event_manager_subscribe(ucc_event_manager_t *em, ucc_event_t event,
                                         ucc_coll_task_t *task) {
    if (!has_manager(em, __func__) || !is_event(event, __func__) || !has_task(task, __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    return hd_events_subscribe(events_of(em), (hd_stage_event_t)event, stage_of(task));
}

ucc_status_t heddle_event_manager_unsubscribe(ucc_event_manager_t *em, ucc_event_t event,
                                              ucc_coll_task_t *task) {
    if (!has_manager(em, __func__) || !is_event(event, __func__) || !has_task(task, __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    return hd_events_unsubscribe(events_of(em), (hd_stage_event_t)event, stage_of(task));
}

ucc_status_t ucc_event_manager_notify(ucc_event_manager_t *em, ucc_event_t event) {
    if (!has_manager(em, __func__) || !is_event(event, __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    return hd_events_raise(events_of(em), (hd_stage_event_t)event);
}

ucc_status_t heddle_event_manager_destroy(ucc_event_manager_t *em) {
    if (!has_manager(em, __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    hd_events_destroy(events_of(em), false);
    return UCC_OK;
}

/* --- tasks ------------------------------------------------------------------------------------ */

ucc_status_t ucc_coll_task_init(ucc_coll_task_t *task) {
    if (!hd_api_pointer(task, "task", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    hd_stage_init(stage_of(task), NULL);
    return UCC_OK;
}

ucc_status_t heddle_coll_task_end(ucc_coll_task_t *task, ucc_status_t status) {
    if (!has_task(task, __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    if (status > 0) {
        hd_error("%s: status %s is neither UCC_OK nor an error", __func__,
                 ucc_status_string(status));
        return UCC_ERR_INVALID_PARAM;
    }
    return hd_stage_end(stage_of(task), status);
}

ucc_status_t heddle_coll_task_destroy(ucc_coll_task_t *task) {
    if (!has_task(task, __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    return hd_stage_destroy(stage_of(task));
}

/* --- schedules -------------------------------------------------------------------------------- */

ucc_status_t ucc_schedule_init(ucc_schedule_t *schedule) {
    if (!hd_api_pointer(schedule, "schedule", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    hd_clock_init(); /* a schedule of its own needs no library handle */
    hd_park_init();
    hd_schedule_init(schedule_of(schedule));
    return UCC_OK;
}

ucc_status_t ucc_schedule_add_task(ucc_schedule_t *schedule, ucc_coll_task_t *task) {
    if (!has_schedule(schedule, __func__) || !has_task(task, __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    return hd_schedule_add(schedule_of(schedule), stage_of(task));
}

ucc_status_t heddle_schedule_attach(ucc_schedule_t *schedule, ucc_context_h context) {
    if (!has_schedule(schedule, __func__) || !hd_api_context(context, __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    if (hd_schedule_result(schedule_of(schedule)) == UCC_INPROGRESS) {
        hd_error("%s: the schedule runs", __func__);
        return UCC_ERR_INVALID_PARAM;
    }
    schedule_of(schedule)->patience = context->lib->stall;
    hd_schedule_attach(schedule_of(schedule), &context->runner, NULL);
    return UCC_OK;
}

ucc_status_t ucc_schedule_start(ucc_schedule_t *schedule) {
    if (!has_schedule(schedule, __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    if (hd_algorithm_has(schedule_of(schedule))) {
        hd_error("%s: the schedule is an algorithm's, which ucc_collective_post starts", __func__);
        return UCC_ERR_INVALID_PARAM;
    }
    return hd_schedule_start(schedule_of(schedule));
}

ucc_status_t ucc_schedule_progress(ucc_schedule_t *schedule) {
    if (!has_schedule(schedule, __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    ucc_status_t result = hd_schedule_progress(schedule_of(schedule));
    if (result == UCC_OPERATION_INITIALIZED) {
        hd_error("%s: the schedule was never started", __func__);
        return UCC_ERR_INVALID_PARAM;
    }
    return result;
}

ucc_status_t heddle_schedule_cancel(ucc_schedule_t *schedule) {
    if (!has_schedule(schedule, __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    if (!hd_schedule_cancel(schedule_of(schedule), HEDDLE_ERR_CANCELED)) {
        hd_debug("%s: the schedule does not run", __func__); /* it may just have ended */
        return UCC_ERR_INVALID_PARAM;
    }
    return UCC_OK;
}

ucc_status_t heddle_schedule_destroy(ucc_schedule_t *schedule) {
    return has_schedule(schedule, __func__) ? hd_schedule_destroy(schedule_of(schedule))
                                            : UCC_ERR_INVALID_PARAM;
}

/* --- requests as tasks ------------------------------------------------------------------------ */

ucc_status_t heddle_request_task_init(heddle_request_task_t *task, ucc_coll_req_h request) {
    if (!hd_api_pointer(task, "task", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    hd_request_t *r = hd_api_request(request, __func__);
    if (!r) {
        return UCC_ERR_INVALID_PARAM;
    }
    hd_api_request_task_init(task);
    task->request = request;
    task->team = r->op.team;
    return UCC_OK;
}

ucc_status_t heddle_collective_task_init(heddle_request_task_t *task, ucc_team_h team,
                                         const ucc_coll_args_t *args, const uint64_t *tag) {
    if (!hd_api_pointer(task, "task", __func__) || !hd_api_active_team(team, __func__) ||
        !hd_api_pointer(args, "args", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    hd_api_request_task_init(task);
    task->team = team;
    task->args = *args;
    task->has_tag = tag != NULL;
    task->tag = tag ? *tag : 0;
    task->owned = true;
    return UCC_OK;
}

/* --- algorithms ------------------------------------------------------------------------------- */

static bool are_params(const heddle_algorithm_params_t *p, const char *caller) {
    const uint64_t all = ((uint64_t)1 << HD_N_TYPES) - 1;
    if (!hd_api_pointer(p, "params", caller)) {
        return false;
    }
    if (p->coll_types == 0 || (p->coll_types & ~all)) {
        hd_error("%s: params.coll_types 0x%llx names no collective, or one that does not exist",
                 caller, (unsigned long long)p->coll_types);
        return false;
    }
    return hd_api_pointer((const void *)(uintptr_t)p->init, "params.init", caller) &&
           hd_api_pointer((const void *)(uintptr_t)p->finalize, "params.finalize", caller);
}

ucc_status_t heddle_algorithm_register(ucc_team_h team, const heddle_algorithm_params_t *params,
                                       heddle_algorithm_t **algorithm) {
    if (!hd_api_active_team(team, __func__) || !are_params(params, __func__) ||
        !hd_api_pointer(algorithm, "algorithm", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    return hd_algorithm_register(team, NULL, params, NULL, algorithm);
}

ucc_status_t heddle_algorithm_register_context(ucc_context_h context,
                                               const heddle_algorithm_params_t *params,
                                               heddle_algorithm_t **algorithm) {
    if (!hd_api_context(context, __func__) || !are_params(params, __func__) ||
        !hd_api_pointer(algorithm, "algorithm", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    return hd_algorithm_register(NULL, context, params, NULL, algorithm);
}

ucc_status_t heddle_algorithm_unregister(heddle_algorithm_t *algorithm) {
    if (!hd_algorithm_is_live(algorithm)) {
        hd_error("%s: not a registered algorithm", __func__);
        return UCC_ERR_INVALID_PARAM;
    }
    return hd_algorithm_unregister(algorithm);
}
