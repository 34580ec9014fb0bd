/* team.c: team handles: create, test, attributes, destroy, teams from teams; and the queries that
 * 1.x has dropped.
 */
#include "api/api.h"
#include "form/kin.h"
#include "shm/parts.h"
#include "gpu/near.h"
#include "span/span.h"

#include <string.h>
#include <time.h>

/* EXCLUSIVE promises one team at a time; clients keep several, so it is a warning at most. */
static ucc_status_t check_exclusive(ucc_context_h context) {
    /* relaxed: advice only */
    if (context->type != UCC_CONTEXT_EXCLUSIVE ||
        atomic_load_explicit(&context->teams, memory_order_relaxed) == 0) {
        return UCC_OK;
    }
    if (context->lib->strict_exclusive) {
        hd_error("ucc_team_create_post: the context is EXCLUSIVE and has a live team "
                 "(STRICT_EXCLUSIVE is set)");
        return UCC_ERR_INVALID_PARAM;
    }
    hd_debug("context is EXCLUSIVE and has another live team");
    return UCC_OK;
}

ucc_status_t hd_api_create_team(ucc_context_h *contexts, uint32_t n_contexts,
                                const ucc_team_params_t *params, const heddle_team_params_t *extra,
                                bool unplaced, ucc_team_h *team, const char *caller) {
    if (!hd_api_pointer(contexts, "contexts", caller) ||
        !hd_api_pointer(params, "team_params", caller) ||
        !hd_api_pointer(team, "new_team", caller)) {
        return UCC_ERR_INVALID_PARAM;
    }
    if (n_contexts == 0 || n_contexts > 1024) {
        hd_error("%s: num_contexts is %u", caller, n_contexts);
        return UCC_ERR_INVALID_PARAM;
    }
    for (uint32_t i = 0; i < n_contexts; i++) {
        if (!hd_api_context(contexts[i], caller)) {
            return UCC_ERR_INVALID_PARAM;
        }
        if (contexts[i]->lib != contexts[0]->lib) {
            hd_error("%s: contexts belong to different libraries", caller);
            return UCC_ERR_INVALID_PARAM;
        }
        ucc_status_t status = check_exclusive(contexts[i]);
        if (status != UCC_OK) {
            return status;
        }
    }
    return hd_team_create(contexts, n_contexts, params, extra, unplaced, team);
}

ucc_status_t heddle_team_create_post(ucc_context_h *contexts, uint32_t n_contexts,
                                     const ucc_team_params_t *params,
                                     const heddle_team_params_t *extra, ucc_team_h *team) {
    return hd_api_create_team(contexts, n_contexts, params, extra, false, team, __func__);
}

ucc_status_t ucc_team_create_post(ucc_context_h *contexts, uint32_t num_contexts,
                                  const ucc_team_params_t *team_params, ucc_team_h *new_team) {
    return heddle_team_create_post(contexts, num_contexts, team_params, NULL, new_team);
}

ucc_status_t ucc_team_create_test(ucc_team_h team) {
    return hd_api_team(team, __func__) ? hd_team_create_test(team) : UCC_ERR_INVALID_PARAM;
}

ucc_status_t ucc_team_destroy(ucc_team_h team) {
    if (!hd_api_team(team, __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    if (team->n_contexts == 0) {
        return UCC_OK; /* what a draft's call gives those who have no team (drafts.c) */
    }
    if (team->owned_by_ep) {
        hd_error("%s: this handle belongs to a heddle_ep_t: use heddle_leave", __func__);
        return UCC_ERR_INVALID_PARAM;
    }
    return hd_team_destroy(team);
}

ucc_status_t ucc_team_get_attr(ucc_team_h team, ucc_team_attr_t *attr) {
    if (!hd_api_active_team(team, __func__) || !hd_api_pointer(attr, "team_attr", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    uint64_t mask = attr->mask;
    if (mask & UCC_TEAM_ATTR_FIELD_POST_ORDERING) {
        attr->ordering = team->ordering;
    }
    if (mask & UCC_TEAM_ATTR_FIELD_OUTSTANDING_CALLS) {
        attr->outstanding_colls = team->outstanding_colls;
    }
    if (mask & UCC_TEAM_ATTR_FIELD_EP) {
        attr->ep = team->group->labels[team->ep];
    }
    if (mask & UCC_TEAM_ATTR_FIELD_EP_RANGE) {
        attr->ep_range = team->ep_range;
    }
    if (mask & UCC_TEAM_ATTR_FIELD_SYNC_TYPE) {
        attr->sync_type = team->sync_type;
    }
    if (mask & UCC_TEAM_ATTR_FIELD_MEM_PARAMS) {
        attr->mem_params = team->mem_params;
    }
    if (mask & UCC_TEAM_ATTR_FIELD_SIZE) {
        attr->size = team->n;
    }
    if (mask & UCC_TEAM_ATTR_FIELD_EPS) {
        if (!hd_api_pointer(attr->eps, "team_attr->eps", __func__)) {
            return UCC_ERR_INVALID_PARAM;
        }
        memcpy(attr->eps, team->group->labels, team->n * sizeof(*attr->eps));
    }
    return UCC_OK;
}

/* --- teams from teams ------------------------------------------------------------------------- */

ucc_status_t ucc_team_create_from_parent(uint64_t my_ep, uint32_t included, ucc_team_h parent_team,
                                         ucc_team_h *new_team) {
    if (!hd_api_active_team(parent_team, __func__) ||
        !hd_api_pointer(new_team, "new_team", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    if (my_ep != parent_team->ep && my_ep != parent_team->group->labels[parent_team->ep]) {
        hd_error("%s: my_ep is %llu, but the handle is endpoint %u", __func__,
                 (unsigned long long)my_ep, parent_team->ep);
        return UCC_ERR_INVALID_PARAM;
    }
    return hd_team_derive(parent_team, included != 0, new_team);
}

ucc_status_t ucc_create_team_from_eps(ucc_team_h parent, uint64_t **eps, uint64_t num_eps,
                                      ucc_team_h *team) {
    if (!hd_api_active_team(parent, __func__) || !hd_api_pointer(eps, "ep", __func__) ||
        !hd_api_pointer(*eps, "*ep", __func__) || !hd_api_pointer(team, "new_team", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    if (num_eps > parent->n) {
        hd_error("%s: num_eps is %llu, of %u endpoints", __func__, (unsigned long long)num_eps,
                 parent->n);
        return UCC_ERR_INVALID_PARAM;
    }
    hd_list_t list = hd_list_of(*eps, (uint32_t)num_eps);
    return hd_team_from_list(parent, &list, team);
}

ucc_status_t heddle_team_shrink(ucc_team_h team, ucc_team_h *left) {
    if (!hd_api_active_team(team, __func__) || !hd_api_pointer(left, "left", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    return hd_team_shrink(team, NULL, left);
}

/* --- queries ---------------------------------------------------------------------------------- */

ucc_status_t ucc_team_get_size(ucc_team_h team, uint32_t *size) {
    if (!hd_api_active_team(team, __func__) || !hd_api_pointer(size, "size", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    *size = team->n;
    return UCC_OK;
}

ucc_status_t ucc_team_get_my_ep(ucc_team_h team, uint64_t *ep) {
    if (!hd_api_active_team(team, __func__) || !hd_api_pointer(ep, "ep", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    *ep = team->group->labels[team->ep];
    return UCC_OK;
}

ucc_status_t ucc_team_get_all_eps(ucc_team_h team, uint64_t **eps, uint64_t *num_eps) {
    if (!hd_api_active_team(team, __func__) || !hd_api_pointer(eps, "ep", __func__) ||
        !hd_api_pointer(num_eps, "num_eps", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    *eps = team->group->labels;
    *num_eps = team->n;
    return UCC_OK;
}

ucc_status_t heddle_team_get_thread_mode(ucc_team_h team, ucc_thread_mode_t *mode) {
    if (!hd_api_active_team(team, __func__) || !hd_api_pointer(mode, "mode", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    *mode = team->thread_mode;
    return UCC_OK;
}

/* Member of the group. UCC_ERR_NOT_SUPPORTED: it lives in another process (logged). */
static ucc_status_t find_member(ucc_team_h team, uint64_t ep, const char *caller,
                                uint32_t *member) {
    if (ep >= team->n) {
        hd_error("%s: ep %llu of %u", caller, (unsigned long long)ep, team->n);
        return UCC_ERR_INVALID_PARAM;
    }
    *member = hd_group_member(team->group, (uint32_t)ep);
    const hd_span_t *span = hd_form_span(team->group);
    if (*member == team->group->n || (span && span->process_of[ep] != span->mine)) {
        hd_error("%s: ep %llu lives in another process", caller, (unsigned long long)ep);
        return UCC_ERR_NOT_SUPPORTED;
    }
    return UCC_OK;
}

/* Does it live in another process that shares memory with this one? */
static bool lives_beside(ucc_team_h team, uint64_t ep) {
    const hd_span_t *span = hd_kin_span(team->group);
    return span && ep < span->n && span->process_of[ep] != span->mine;
}

/* A heap that is met for the first time is there in some milliseconds. */
static ucc_status_t find_part(ucc_team_h team, uint32_t ep, void **address, size_t *bytes) {
    enum { STEP_NS = 200 * 1000, STEPS = 10000 };
    void *at = NULL;
    size_t n = 0;
    ucc_status_t status = hd_group_is_complete(team->group) ? hd_part_find(team->group, ep, &at, &n)
                                                            : UCC_ERR_NOT_FOUND;
    for (uint32_t i = 0; status == UCC_INPROGRESS && i < STEPS; i++) {
        nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
        status = hd_part_find(team->group, ep, &at, &n);
    }
    status = status == UCC_INPROGRESS ? UCC_ERR_NO_RESOURCE : status;
    if (status == UCC_ERR_NO_RESOURCE || status == UCC_ERR_NOT_SUPPORTED) {
        hd_error("heddle_team_memory: the part of endpoint %u, of another process, %s", ep,
                 status == UCC_ERR_NO_RESOURCE ? "can't be mapped"
                                               : "lies in no heap (heddle_alloc)");
        return status;
    }
    if (status == UCC_OK) {
        *address = at;
        *bytes = n;
    }
    return status;
}

ucc_status_t heddle_team_memory(ucc_team_h team, uint64_t ep, void **address, size_t *bytes) {
    uint32_t member;
    if (!hd_api_active_team(team, __func__) || !hd_api_pointer(address, "address", __func__) ||
        !hd_api_pointer(bytes, "bytes", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    if (lives_beside(team, ep)) {
        return find_part(team, (uint32_t)ep, address, bytes);
    }
    ucc_status_t status = find_member(team, ep, __func__, &member);
    if (status != UCC_OK) {
        return status;
    }
    const struct hd_region *region = &team->group->region[member];
    /* the caller's part is its own; the others' are there when they have joined */
    if ((ep != team->ep && !hd_group_is_complete(team->group)) || !region->bytes) {
        return UCC_ERR_NOT_FOUND;
    }
    *address = region->address;
    *bytes = region->bytes;
    return UCC_OK;
}

ucc_status_t heddle_team_gpu(ucc_team_h team, uint64_t ep, int *device) {
    hd_gpu_places_t gpus;
    uint32_t member;
    if (!hd_api_active_team(team, __func__) || !hd_api_pointer(device, "device", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    ucc_status_t status = find_member(team, ep, __func__, &member);
    if (status != UCC_OK) {
        return status;
    }
    uint8_t *all = hd_alloc(HD_LINE, team->group->n);
    status = all ? hd_device_share_out(team, &gpus, all) : UCC_ERR_NO_MEMORY;
    if (status == UCC_OK) {
        *device = all[member];
    }
    hd_free(all);
    return status;
}

ucc_status_t heddle_team_abort(ucc_team_h team) {
    if (!hd_api_active_team(team, __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    hd_group_poison(team->group, HEDDLE_ERR_ABORTED);
    if (team->crossing) { /* the others hear of it now, as far as that depends on the caller */
        hd_net_pump(team->crossing->net);
    }
    return UCC_OK;
}
