/* algorithm.h: algorithms that users register for a team's collectives (algorithm.c). api/
 * registers them; request.c asks for them at init, and posts what they run.
 */
#ifndef HD_REQUEST_ALGORITHM_H
#define HD_REQUEST_ALGORITHM_H

#include "request/request.h"
#include "threads/schedule.h"

#include <heddle/schedule.h>

/* Of an algorithm of the library's own: returns whether the call asks for the algorithm by giving
 * its arguments another meaning. Then nothing else can run the call. *checked: what of the
 * arguments is to be checked as always. */
typedef bool (*hd_algorithm_redefines_fn)(ucc_team_h team, const ucc_coll_args_t *args, void *arg,
                                          ucc_coll_args_t *checked);

/* Registers an algorithm with a team handle, or with a context; the other is NULL. redefines: NULL
 * for algorithms of users. */
ucc_status_t hd_algorithm_register(ucc_team_h team, ucc_context_h context,
                                   const heddle_algorithm_params_t *params,
                                   hd_algorithm_redefines_fn redefines, heddle_algorithm_t **out);
/* Returns whether this is an algorithm that has not been freed. */
bool hd_algorithm_is_live(const heddle_algorithm_t *algorithm);
/* UCC_ERR_INVALID_PARAM: it was unregistered before (logged). */
ucc_status_t hd_algorithm_unregister(heddle_algorithm_t *algorithm);
/* Gives a new team handle the algorithms of its context. If that fails, the handle has none. */
ucc_status_t hd_algorithms_inherit(ucc_team_h team, ucc_context_h context);
/* Ends the list of a handle or a context, at the end of that. */
void hd_algorithms_end(struct hd_offer *offers);

/* Called instead of hd_args_prepare if the handle has algorithms. If one runs the call, r->run is
 * set. A call that an algorithm redefines is refused with UCC_ERR_NOT_SUPPORTED (logged) if it has
 * a tag, an active set or no order. */
ucc_status_t hd_algorithm_prepare(ucc_team_h team, const ucc_coll_args_t *args, bool tagged,
                                  hd_request_t *r);
/* Posts a request that an algorithm runs. UCC_INPROGRESS: the run is on its way, and the request no
 * longer the caller's. Else it is over. */
ucc_status_t hd_algorithm_post(hd_request_t *r);
/* Returns whether this schedule is the run of a request. */
bool hd_algorithm_has(const hd_schedule_t *schedule);
/* Returns the task of the run, which is in its context's list instead of the request. */
hd_task_t *hd_algorithm_carrier(const hd_request_t *r);
/* Returns the name that its user gave the algorithm that runs the request. */
const char *hd_algorithm_name(const hd_request_t *r);
/* Ends the run of a request. */
void hd_algorithm_release(hd_request_t *r);

#endif
