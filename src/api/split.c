/* split.c: endpoints of sub-teams: heddle_split and heddle_subset. The members of a list meet by
 * that list (form/meet.c); a split first finds out, by an allgather, who is on which list.
 */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

/* What each endpoint says of itself. */
typedef struct choice {
    int64_t color, key;
} choice_t;

typedef struct member {
    int64_t key;
    uint64_t ep;
} member_t;

static int by_key_then_number(const void *a, const void *b) {
    const member_t *x = a, *y = b;
    int by_key = (x->key > y->key) - (x->key < y->key);
    return by_key ? by_key : (x->ep > y->ep) - (x->ep < y->ep);
}

/* An endpoint for a team that is just being formed. */
static ucc_status_t go_ahead(heddle_ep_t *parent, ucc_team_h team, heddle_ep_t **sub) {
    ucc_status_t status = hd_team_form_ahead(team);
    heddle_ep_t *ep = status == UCC_OK ? hd_api_sub_ep(parent, team) : NULL;
    if (!ep) {
        status = status == UCC_OK ? UCC_ERR_NO_MEMORY : status;
        if (team->group) {
            hd_group_poison(team->group, status); /* the others must not wait for me */
            hd_team_see_off(team);
        }
        hd_team_free(team);
        return status;
    }
    *sub = ep;
    return UCC_OK;
}

/* list: endpoints of the parent, in the order of their new numbers. */
static ucc_status_t form(heddle_ep_t *parent, const hd_list_t *list, heddle_ep_t **sub) {
    ucc_team_h team;
    ucc_status_t status = hd_team_from_list(parent->team, list, &team);
    return status == UCC_OK ? go_ahead(parent, team, sub) : status;
}

static bool are_good(heddle_ep_t *ep, heddle_ep_t **sub, const char *caller) {
    if (!hd_api_is_ep(ep)) {
        hd_error("%s: not an endpoint", caller);
        return false;
    }
    return hd_api_pointer(sub, "sub", caller);
}

static uint64_t entry(const void *list, uint32_t i) {
    return ((const uint32_t *)list)[i];
}

ucc_status_t heddle_subset(heddle_ep_t *ep, const uint32_t *list, uint32_t n, heddle_ep_t **sub) {
    if (!are_good(ep, sub, __func__) || !hd_api_pointer(list, "list", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    *sub = NULL;
    if (n == 0 || n > ep->team->n) {
        hd_error("%s: n is %u, in a team of %u", __func__, n, ep->team->n);
        return UCC_ERR_INVALID_PARAM;
    }
    return form(ep, &(hd_list_t){entry, list, n}, sub);
}

ucc_status_t heddle_shrink(heddle_ep_t *ep, heddle_ep_t **sub) {
    ucc_team_h team;
    if (!are_good(ep, sub, __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    *sub = NULL;
    ucc_status_t status = hd_team_shrink(ep->team, NULL, &team);
    return status == UCC_OK ? go_ahead(ep, team, sub) : status;
}

/* Those of my color, in the order of their keys. */
static uint32_t select_mine(const choice_t *all, uint32_t n, int64_t color, member_t *member,
                            uint64_t *list) {
    uint32_t mine = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (all[i].color == color) {
            member[mine++] = (member_t){all[i].key, i};
        }
    }
    qsort(member, mine, sizeof(*member), by_key_then_number);
    for (uint32_t i = 0; i < mine; i++) {
        list[i] = member[i].ep;
    }
    return mine;
}

ucc_status_t heddle_split(heddle_ep_t *ep, int64_t color, int64_t key, heddle_ep_t **sub) {
    if (!are_good(ep, sub, __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    uint32_t n = ep->team->n;
    choice_t mine = {color, key}, *all = hd_alloc(HD_LINE, n * sizeof(*all));
    member_t *member = hd_alloc(HD_LINE, n * sizeof(*member));
    uint64_t *list = hd_alloc(HD_LINE, n * sizeof(*list));
    ucc_status_t status = all && member && list ? UCC_OK : UCC_ERR_NO_MEMORY;
    *sub = NULL;
    if (status == UCC_OK) {
        status = heddle_allgather(ep, &mine, all, sizeof(mine) / sizeof(int64_t), UCC_DT_INT64);
    } else {
        hd_error("%s: no memory for %u endpoints", __func__, n);
        hd_group_poison(ep->team->group, status); /* the others would wait for me */
    }
    if (status == UCC_OK && color >= 0) {
        hd_list_t members = hd_list_of(list, select_mine(all, n, color, member, list));
        status = form(ep, &members, sub);
    }
    hd_free(list);
    hd_free(member);
    hd_free(all);
    return status;
}
