/* handles.c: is this a live handle? Every entry point asks here first. What is none has a line in
 * the log that names the caller. A handle is known by its magic number, as far as that can tell:
 * memory that was given back may be anything. lib.c does the same for handles of the library. Any
 * thread.
 */
#include "api/api.h"

__attribute__((noinline, cold)) bool hd_api_no_pointer(const char *name, const char *caller) {
    hd_error("%s: %s is NULL", caller, name);
    return false;
}

bool hd_api_context(ucc_context_h context, const char *caller) {
    if (!context || context->magic != HD_CONTEXT_MAGIC) {
        hd_error("%s: not a context handle", caller);
        return false;
    }
    return true;
}

bool hd_api_team(ucc_team_h team, const char *caller) {
    if (!team || team->magic != HD_TEAM_MAGIC) {
        hd_error("%s: not a team handle", caller);
        return false;
    }
    return true;
}

bool hd_api_active_team(ucc_team_h team, const char *caller) {
    if (__builtin_expect(team && team->magic == HD_TEAM_MAGIC && team->state == HD_TEAM_ACTIVE,
                         1)) {
        return true;
    }
    if (hd_api_team(team, caller)) {
        hd_error("%s: the team is not (or never will be) ready for collectives", caller);
    }
    return false;
}

/* Kept out of the way of ordinary requests. */
static __attribute__((noinline, cold)) hd_request_t *hooked(hd_request_t *r, const char *caller) {
    if (r && r->op.task.magic == HD_TASK_HOOKED) {
        if (hd_task_status(&r->op.task) != UCC_INPROGRESS) {
            hd_request_unhook(r);
        }
        return r;
    }
    hd_error("%s: not a live request", caller);
    return NULL;
}

hd_request_t *hd_api_request(ucc_coll_req_h request, const char *caller) {
    hd_request_t *r = (hd_request_t *)(void *)request;
    return __builtin_expect(r && r->op.task.magic == HD_TASK_LIVE, 1) ? r : hooked(r, caller);
}
