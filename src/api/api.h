/* api.h: what the entry points share. They validate, log, and hand on: nothing else lives here. */
#ifndef HD_API_H
#define HD_API_H

#include "api/lib_internal.h"
#include "device/device.h"
#include "form/form.h"
#include "request/request.h"
#include "threads/trace.h"

enum {
    HD_EP_LOCAL = 0x6e0dee00u, /* of a team inside this process */
    HD_EP_WIDE = 0x6e0dee01u,  /* of a team of several */
    HD_EP_LEFT = 0x6e0dde0du
};

/* A context made for one endpoint of a group, and used by the sub-teams' endpoints made from it,
 * and by teams: the last of them to go destroys it, or whoever is just progressing it. */
typedef struct hd_own_context {
    heddle_group_t *group;
    ucc_context_h context;
    uint32_t index;   /* of the endpoint */
    uint32_t refs;    /* under the group's lock */
    heddle_ep_t *eps; /* that use it and have not left; under the group's lock */
} hd_own_context_t;

/* Its memory stays until its group is freed: a second heddle_leave can be told. */
struct heddle_ep {
    uint32_t magic;
    uint32_t index; /* in its team; for whoever comes when it has left */
    heddle_group_t *group;
    ucc_team_h team;
    ucc_context_h context;
    hd_own_context_t *own; /* NULL: the context is the group's */
    bool is_sub;           /* of a sub-team */
    /* Under the group's lock: among those of `own`, or of the group that have left; and where the
     * list of `own` points to this one. */
    heddle_ep_t *next, **at;
};

static inline bool hd_api_is_local_ep(const heddle_ep_t *ep) {
    return __builtin_expect(ep && ep->magic == HD_EP_LOCAL, 1);
}
static inline bool hd_api_is_ep(const heddle_ep_t *ep) {
    return hd_api_is_local_ep(ep) || (ep && ep->magic == HD_EP_WIDE);
}

/* True for a live handle; logs the caller's name otherwise. */
bool hd_api_lib(ucc_lib_h lib, const char *caller);
bool hd_api_context(ucc_context_h context, const char *caller);
bool hd_api_team(ucc_team_h team, const char *caller);
/* A team that collectives can be posted on. */
bool hd_api_active_team(ucc_team_h team, const char *caller);
hd_request_t *hd_api_request(ucc_coll_req_h request, const char *caller);
/* NULL pointers: false, and a line that names the argument. */
bool hd_api_no_pointer(const char *name, const char *caller);
static inline bool hd_api_pointer(const void *pointer, const char *name, const char *caller) {
    return __builtin_expect(pointer != NULL, 1) || hd_api_no_pointer(name, caller);
}

/* Of an operation that is over: its status, as a waiting client is told. Another thread may have
 * ended it. */
static inline ucc_status_t hd_api_seen(const hd_request_t *r) {
    if (hd_trace_is_on()) {
        hd_trace_waited(r);
    }
    return hd_task_status(&r->op.task);
}

/* A round by a caller who has more to do: it never sleeps in that context, whoever wants the
 * processor. True if anything was completed. */
static inline bool hd_api_look_at(ucc_context_h context) {
    uint64_t vain = 0;
    return hd_runner_progress(&context->runner, &vain);
}

/* A collective from its arguments to its end. published: 0, or the number under which its lane is
 * out already (request/shortcut.c). */
ucc_status_t hd_api_run(ucc_coll_args_t *args, ucc_team_h team, uint64_t published);
/* Called by libucc.so.1 when it is loaded: exported for it, and declared in no public header. */
__attribute__((visibility("default"))) void heddle_loaded_as_ucc(void);

/* An endpoint of a sub-team on the context of `parent`, or NULL (logged). It takes the handle over.
 */
heddle_ep_t *hd_api_sub_ep(heddle_ep_t *parent, ucc_team_h team);
/* One round over those contexts of the group that have work; its contexts have locks. True if
 * anything was completed. */
bool hd_api_progress_group(heddle_group_t *group);
/* Has a thread joined as several endpoints? Else each is likely to be driven by a thread of its
 * own. */
bool hd_api_group_is_shared(heddle_group_t *group);
/* For heddle_ep_failure(): a call at this endpoint's team has failed. Any team. */
void hd_api_remember_failure(ucc_team_h team, ucc_status_t status);
/* A request for these arguments. tag: NULL, or what the collective is matched by. */
ucc_status_t hd_api_init(ucc_coll_args_t *args, const uint64_t *tag, ucc_coll_req_h *request,
                         ucc_team_h team, const char *caller);
/* Initialises and posts; *request is NULL unless that succeeded. */
ucc_status_t hd_api_start(ucc_coll_args_t *args, ucc_team_h team, ucc_coll_req_h *request,
                          const char *caller);
struct heddle_request_task;
/* A task without a request (request_task.c). */
void hd_api_request_task_init(struct heddle_request_task *task);
/* ucc_context_create, with and without a configuration object; unplaced: oob.oob_ep is not known.
 */
ucc_status_t hd_api_new_context(ucc_lib_h lib, const ucc_context_params_t *params,
                                const ucc_context_config_h config, bool unplaced,
                                ucc_context_h *context);
ucc_status_t hd_api_create_context(ucc_lib_h lib, const ucc_context_params_t *params,
                                   const hd_config_t *config, bool unplaced, ucc_context_h *out);
/* Do processes of this machine share memory, as the environment or the file says (NODE)? */
bool hd_api_shares(void);
/* What a handle of ucc_mem_map is of, if that is memory of this process. */
bool hd_api_mapping(ucc_mem_map_mem_h memh, ucc_mem_map_t *segment);
/* What TUNE says in the context's configuration: one_sided.c. */
ucc_status_t hd_api_tune(ucc_context_h context, const hd_config_t *config);
/* heddle_team_create_post; unplaced: oob.oob_ep is not known, nor is the range of ep. */
ucc_status_t hd_api_create_team(ucc_context_h *contexts, uint32_t n_contexts,
                                const ucc_team_params_t *params, const heddle_team_params_t *extra,
                                bool unplaced, ucc_team_h *team, const char *caller);

#endif
