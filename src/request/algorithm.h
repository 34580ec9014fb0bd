/* algorithm.h: algorithms that users register for a team's collectives (algorithm.c). */
#ifndef HD_REQUEST_ALGORITHM_H
#define HD_REQUEST_ALGORITHM_H

#include "request/request.h"
#include "threads/schedule.h"

#include <heddle/schedule.h>

/* Of the library's own: does this call ask for the algorithm, which gives its arguments another
 * meaning? Then nothing else can run it. *checked: what of the arguments is to be checked as
 * always. */
typedef bool (*hd_algorithm_redefines_fn)(ucc_team_h team, const ucc_coll_args_t *args, void *arg,
                                          ucc_coll_args_t *checked);

/* With a team handle, or with a context; the other is NULL. redefines: NULL for users'. */
ucc_status_t hd_algorithm_register(ucc_team_h team, ucc_context_h context,
                                   const heddle_algorithm_params_t *params,
                                   hd_algorithm_redefines_fn redefines, heddle_algorithm_t **out);
bool hd_algorithm_is_live(const heddle_algorithm_t *algorithm);
/* UCC_ERR_INVALID_PARAM (logged): it was unregistered before. */
ucc_status_t hd_algorithm_unregister(heddle_algorithm_t *algorithm);
/* A context's, for a new team handle; nothing is left of them if it fails. */
ucc_status_t hd_algorithms_inherit(ucc_team_h team, ucc_context_h context);
/* At the end of a handle or a context. */
void hd_algorithms_end(struct hd_offer *offers);

/* hd_args_prepare, where a handle has offers: its result in *status. True: an algorithm runs this
 * call, or has failed to, or it redefines the call and can't run it: UCC_ERR_NOT_SUPPORTED
 * (logged), if that has a tag, an active set or no order. */
bool hd_algorithm_prepare(ucc_team_h team, const ucc_coll_args_t *args, bool tagged,
                          hd_request_t *r, ucc_status_t *status);
/* The post of such a request. UCC_INPROGRESS: on its way, and no longer the caller's; else it is
 * over. */
ucc_status_t hd_algorithm_post(hd_request_t *r);
/* Is it such a request's schedule? */
bool hd_algorithm_has(const hd_schedule_t *schedule);
/* Of such a request: what is in its context's list instead. */
hd_task_t *hd_algorithm_carrier(const hd_request_t *r);
/* What its user calls the algorithm. */
const char *hd_algorithm_name(const hd_request_t *r);
/* Its end. */
void hd_algorithm_release(hd_request_t *r);

#endif
