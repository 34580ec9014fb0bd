/* omp.h: collectives among the threads of an OpenMP parallel region. Header-only, C11 and C++11.
 *
 *     #pragma omp parallel
 *     {
 *         double *mine = ...;                                  // n of them, any n; each thread has
 *                                                              its own
 *         heddle_omp_allreduce(mine, n, UCC_DT_FLOAT64, UCC_OP_SUM);
 *     }                                                        // every thread had all sums
 *
 * Every thread of the innermost parallel region calls, as for the region's own barrier: not from
 * explicit tasks, and not inside of work-sharing constructs. Endpoint i is the thread whose
 * omp_get_thread_num() is i, so results have the same bits in every run with the same number of
 * threads. Where a region spans processes, its team has all their threads: those of process 0
 * first, then those of process 1, and so on, each process's in the order of omp_get_thread_num().
 * heddle_ep_index() and heddle_ep_size() of heddle_omp_ep()'s endpoint say which one of how many a
 * thread is.
 *
 * The threads of a region form a heddle group when they first call. It is kept: the next region of
 * the same size finds it, whichever threads the runtime takes. Nested regions, and the regions of a
 * league's teams, have their own. A thread finds its endpoint again in some nanoseconds.
 *
 * Calls stay inside the process, until heddle_omp_across says how to reach others: then the same
 * call spans the outermost regions of all of them.
 *
 * Threads that are made otherwise (pthreads, std::thread) and open parallel regions of their own AT
 * THE SAME TIME can't be told apart by OpenMP's means. Each of them has to have an object of its
 * own then:
 *
 *     static heddle_omp_t mine = HEDDLE_OMP_INITIALIZER;       // for all regions that this thread
 *     opens
 *     #pragma omp parallel
 *     {
 *         heddle_ep_t *ep;
 *         heddle_omp_ep_in(&mine, &ep);                        // then any call of
 *                                                              <heddle/heddle.h>
 *     }
 *
 * Where they have not, UCC_ERR_INVALID_PARAM says so at a thread that finds its endpoint in use,
 * and the group is aborted; until two threads meet like that, regions may have got each other's
 * data.
 *
 * With -mcmodel=medium, gcc 12 refuses a thread-local variable of more than 64 KiB, such as a
 * threadprivate array, beside any other one, such as this header's ("section type conflict"):
 * -mlarge-data-threshold=BYTES beyond its size, or a file of its own, helps.
 */
#ifndef HEDDLE_OMP_H_
#define HEDDLE_OMP_H_

#ifndef _OPENMP
#error "<heddle/omp.h> is for OpenMP programs: compile them with -fopenmp"
#endif

#include <heddle/heddle.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------
 * Data structures; nobody but this header uses the fields
 * ---------------------------------------------------------------------------------------------- */

/** A thread's place in a region. Alone on its lines: it is written at each call. */
typedef struct heddle_omp_seat {
    heddle_ep_t *ep;     /* NULL: nobody has been here yet */
    heddle_ep_t *firsts; /* of the processes' first threads; NULL: none, or not yet */
    uint32_t busy;       /* a thread is in a call here */
    uint32_t wide;       /* the team has threads of other processes */
    uint32_t split;      /* firsts is what it will be */
    char padding[128 - 2 * sizeof(void *) - 3 * sizeof(uint32_t)];
} heddle_omp_seat_t;

/** Regions at one place of the nest: their group. */
typedef struct heddle_omp_region {
    struct heddle_omp_region *next;
    heddle_group_t *group;
    heddle_omp_seat_t *seat; /* [n] */
    int *path;               /* [2 * level - 1]: see heddle_omp_step_ */
    int league, teams;       /* omp_get_team_num() and omp_get_num_teams() */
    int level, n;
} heddle_omp_region_t;

/** All regions that one thread opens, one after the other, and those inside of them. */
typedef struct heddle_omp {
    pthread_mutex_t lock;
    heddle_omp_region_t *regions;
    uint64_t id; /* of no other object, nor of this one before heddle_omp_free; 0: it has nothing */
    /* Of outermost regions with those of other processes; n_oob_eps is 0: there are none. */
    ucc_oob_coll_t oob;
    /* Of one of those that could not be made, until heddle_omp_free: the others are not told of a
     * second try. */
    ucc_status_t failure;
} heddle_omp_t;

#define HEDDLE_OMP_ALONE_                                                                          \
    { NULL, NULL, NULL, NULL, 0, 0 }
#define HEDDLE_OMP_INITIALIZER                                                                     \
    { PTHREAD_MUTEX_INITIALIZER, NULL, 0, HEDDLE_OMP_ALONE_, UCC_OK }

/* One for the whole program, however many files include this; but each module that is loaded with
 * names of its own has another (dlopen's RTLD_LOCAL), and the same heddle_omp_t may be known to
 * several. */
#define HEDDLE_OMP_ONCE __attribute__((weak, visibility("default")))

/** What the calls without an object use. */
HEDDLE_OMP_ONCE heddle_omp_t heddle_omp_default = HEDDLE_OMP_INITIALIZER;
HEDDLE_OMP_ONCE uint64_t heddle_omp_ids_ = 0;

/* Where this thread was when it last called. */
typedef struct heddle_omp_memory {
    const heddle_omp_t *omp;
    uint64_t id; /* of the object then; 0: it has not called */
    const heddle_omp_region_t *region;
    heddle_omp_seat_t *seat;
    int index;
} heddle_omp_memory_t;

static __thread heddle_omp_memory_t heddle_omp_memory_;

/* ------------------------------------------------------------------------------------------------
 * Which region is this?
 * ---------------------------------------------------------------------------------------------- */

/* Steps of the way from the outermost region to this one: a team's size, and who in it opened the
 * next one. */
static inline int heddle_omp_step_(int i) {
    return i % 2 == 0 ? omp_get_team_size(i / 2 + 1) : omp_get_ancestor_thread_num(i / 2 + 1);
}

static inline int heddle_omp_is_here_(const heddle_omp_region_t *r) {
    int same = r->level == omp_get_level() && r->n == omp_get_num_threads() &&
               r->league == omp_get_team_num() && r->teams == omp_get_num_teams();
    for (int i = 0; r->level > 1 && same && i < 2 * r->level - 1; i++) {
        same = r->path[i] == heddle_omp_step_(i);
    }
    return same;
}

static inline void heddle_omp_drop_(heddle_omp_region_t *r) {
    for (int i = 0; r->seat && i < r->n; i++) {
        if (r->seat[i].firsts) {
            (void)heddle_leave(r->seat[i].firsts);
        }
        if (r->seat[i].ep) {
            (void)heddle_leave(r->seat[i].ep);
        }
    }
    if (r->group) {
        (void)heddle_group_destroy(r->group);
    }
    free(r->seat);
    free(r->path);
    free(r);
}

/* Whether this region is to have those of other processes in its team. */
static inline int heddle_omp_is_wide_(const heddle_omp_t *omp) {
    return omp->oob.n_oob_eps > 0 && omp_get_level() == 1 && omp_get_num_teams() == 1;
}

/* NULL: there is no memory. Takes the group over only if there is. */
static inline heddle_omp_region_t *heddle_omp_record_(heddle_group_t *group) {
    heddle_omp_region_t *r = (heddle_omp_region_t *)calloc(1, sizeof(*r));
    if (!r) {
        return NULL;
    }
    r->level = omp_get_level();
    r->league = omp_get_team_num();
    r->teams = omp_get_num_teams();
    r->n = omp_get_num_threads();
    int steps = r->level > 0 ? 2 * r->level - 1 : 0;
    r->path = (int *)calloc((size_t)steps + 1, sizeof(*r->path));
    r->seat = (heddle_omp_seat_t *)calloc((size_t)r->n, sizeof(*r->seat));
    if (!r->path || !r->seat) {
        heddle_omp_drop_(r);
        return NULL;
    }
    for (int i = 0; i < steps; i++) {
        r->path[i] = heddle_omp_step_(i);
    }
    r->group = group;
    return r;
}

/* Under the lock. First of all the group: other processes wait in its exchange, and once it is
 * there, they learn that it ends. */
static inline ucc_status_t heddle_omp_make_(heddle_omp_t *omp, heddle_omp_region_t **out) {
    int wide = heddle_omp_is_wide_(omp);
    heddle_group_t *group;
    heddle_group_params_t params;
    if (wide && omp->failure != UCC_OK) {
        return omp->failure;
    }
    memset(&params, 0, sizeof(params));
    params.endpoints = (uint32_t)omp_get_num_threads();
    params.oob = wide ? &omp->oob : NULL;
    ucc_status_t status = heddle_group_create(&params, &group);
    if (status == UCC_OK) {
        heddle_omp_region_t *r = heddle_omp_record_(group);
        if (r) {
            r->next = omp->regions;
            omp->regions = *out = r;
            return UCC_OK;
        }
        fprintf(stderr, "[heddle ERROR] OpenMP region of %d threads: no memory\n",
                omp_get_num_threads());
        (void)heddle_group_destroy(group);
        status = UCC_ERR_NO_MEMORY;
    }
    omp->failure = wide ? status : omp->failure;
    return status;
}

/* Of this module's counter, which has its address to itself. */
static inline uint64_t heddle_omp_new_id_(void) {
    enum { NUMBER_BITS = 16 };
    uint64_t n = __atomic_add_fetch(&heddle_omp_ids_, 1, __ATOMIC_RELAXED); /* relaxed: a number */
    return ((uint64_t)(uintptr_t)&heddle_omp_ids_ << NUMBER_BITS) + n;
}

/* Under the lock. */
static inline ucc_status_t heddle_omp_find_(heddle_omp_t *omp, heddle_omp_region_t **out) {
    if (!omp->id) {
        __atomic_store_n(&omp->id, heddle_omp_new_id_(), __ATOMIC_RELAXED); /* relaxed: a number */
    }
    for (*out = omp->regions; *out; *out = (*out)->next) {
        if (heddle_omp_is_here_(*out)) {
            return UCC_OK;
        }
    }
    return heddle_omp_make_(omp, out);
}

/* The first time at this place. */
static inline ucc_status_t heddle_omp_come_(heddle_omp_t *omp) {
    heddle_omp_memory_t *m = &heddle_omp_memory_;
    heddle_omp_region_t *region;
    pthread_mutex_lock(&omp->lock);
    ucc_status_t status = heddle_omp_find_(omp, &region);
    if (status == UCC_OK) {
        m->omp = omp;
        m->region = region;
        m->index = omp_get_thread_num();
        m->seat = &region->seat[m->index];
    }
    if (status == UCC_OK && !m->seat->ep) { /* it does not wait for anybody */
        status = heddle_join(region->group, (uint32_t)m->index, &m->seat->ep);
        m->seat->wide = heddle_ep_size(m->seat->ep) != (uint32_t)region->n;
    }
    m->id = status == UCC_OK ? omp->id : 0;
    pthread_mutex_unlock(&omp->lock);
    return status;
}

static inline ucc_status_t heddle_omp_sit_(heddle_omp_t *omp, heddle_omp_seat_t **seat) {
    const heddle_omp_memory_t *m = &heddle_omp_memory_;
    ucc_status_t status = UCC_OK;
    /* relaxed: it has changed only if heddle_omp_free was called, outside of regions */
    uint64_t id = __atomic_load_n(&omp->id, __ATOMIC_RELAXED);
    if (!id || m->id != id || m->omp != omp || m->index != omp_get_thread_num() ||
        !heddle_omp_is_here_(m->region)) {
        status = heddle_omp_come_(omp);
    }
    *seat = m->seat;
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * Endpoints
 * ---------------------------------------------------------------------------------------------- */

/** The calling thread's endpoint in the innermost parallel region, for all calls of
 *  <heddle/heddle.h>; outside of regions one of a team of one. It is kept: not to be given to
 *  heddle_leave(). Does not wait for the others. @param [in]  omp  regions of the one thread that
 *  opens them @param [out] ep   until the region ends */
static inline ucc_status_t heddle_omp_ep_in(heddle_omp_t *omp, heddle_ep_t **ep) {
    heddle_omp_seat_t *seat;
    ucc_status_t status = heddle_omp_sit_(omp, &seat);
    *ep = status == UCC_OK ? seat->ep : NULL;
    return status;
}

/** The same, where one thread at a time opens parallel regions. */
static inline ucc_status_t heddle_omp_ep(heddle_ep_t **ep) {
    return heddle_omp_ep_in(&heddle_omp_default, ep);
}

/* Whether a region may be open: the caller's, or one around it. Under the lock. */
static inline int heddle_omp_in_use_(const heddle_omp_t *omp) {
    const heddle_omp_region_t *r = omp->regions;
    while (r && (r->level == 0 || r->level > omp_get_level())) {
        r = r->next;
    }
    return r && omp_in_parallel();
}

/** Gives back all that is kept, outside of parallel regions, with all operations complete. What
 *  comes next makes new groups. Also the way on after a group was aborted. &heddle_omp_default: of
 *  the calls without an object. In a region, whose threads may be in calls, it says so and gives
 *  back nothing. After heddle_omp_across() the regions that come next span processes as before: all
 *  processes call this, then. */
static inline void heddle_omp_free(heddle_omp_t *omp) {
    pthread_mutex_lock(&omp->lock);
    if (heddle_omp_in_use_(omp)) {
        fprintf(stderr,
                "[heddle ERROR] OpenMP thread %d of %d: heddle_omp_free in a parallel region: its "
                "threads may be in calls\n",
                omp_get_thread_num(), omp_get_num_threads());
        pthread_mutex_unlock(&omp->lock);
        return;
    }
    for (heddle_omp_region_t *next, *r = omp->regions; r; r = next) {
        next = r->next;
        heddle_omp_drop_(r);
    }
    omp->regions = NULL;
    omp->failure = UCC_OK;
    __atomic_store_n(&omp->id, 0, __ATOMIC_RELAXED); /* relaxed: no region is open */
    pthread_mutex_unlock(&omp->lock);
}

/** From now on the outermost parallel regions span processes: their teams have the threads of this
 *  process's region and of those that the others open, numbered by process; nested regions, those
 *  in a league of several teams, and the calls outside of regions stay what they are. All processes
 *  call this, and then open regions in the same order, of any numbers of threads: the first call in
 *  a region of a new size meets the others by the exchange, and waits for them. Where a size comes
 *  again in one process, it does in all. If such a team can't be made, or fails, calls fail in all
 *  processes, until all call heddle_omp_free(). Outside of parallel regions; gives back what is
 *  kept, as that does. The exchange is used by the thread of a region that comes first, whichever
 *  that is, one at a time: that of <heddle/bootstrap_mpi.h> needs MPI_THREAD_SERIALIZED, or
 *  MPI_THREAD_MULTIPLE if the program calls MPI meanwhile. @param [in]  omp  as there @param [in]
 *  oob  an exchange among the processes (UCC's: <heddle/bootstrap.h> and <heddle/bootstrap_mpi.h>
 *  have some);
 *                    copied, but in use until the next call of this, after heddle_omp_free() too:
 *                    before the exchange ends, heddle_omp_across(omp, NULL). NULL: regions stay
 *                    inside the process again
 *  @return UCC_ERR_INVALID_PARAM: in a parallel region, or oob is not valid */
static inline ucc_status_t heddle_omp_across(heddle_omp_t *omp, const ucc_oob_coll_t *oob) {
    if (omp_in_parallel() ||
        (oob && (oob->n_oob_eps == 0 || oob->oob_ep >= oob->n_oob_eps ||
                 (oob->n_oob_eps > 1 && (!oob->allgather || !oob->req_test || !oob->req_free))))) {
        fprintf(stderr, "[heddle ERROR] heddle_omp_across: %s\n",
                omp_in_parallel() ? "called in a parallel region" : "oob is not valid");
        return UCC_ERR_INVALID_PARAM;
    }
    heddle_omp_free(omp);
    pthread_mutex_lock(&omp->lock);
    memset(&omp->oob, 0, sizeof(omp->oob));
    if (oob) {
        omp->oob = *oob;
    }
    pthread_mutex_unlock(&omp->lock);
    return UCC_OK;
}

/* ------------------------------------------------------------------------------------------------
 * Collectives: as those of <heddle/heddle.h>, by every thread of the innermost parallel region
 * ---------------------------------------------------------------------------------------------- */

/* Two threads at one place: each is of a region that it takes for the other's. */
static inline ucc_status_t heddle_omp_clash_(const heddle_omp_seat_t *seat) {
    fprintf(stderr,
            "[heddle ERROR] OpenMP thread %d of %d: another one is in a call in its place: threads "
            "that open parallel regions at the same time need a heddle_omp_t each\n",
            omp_get_thread_num(), omp_get_num_threads());
    (void)heddle_team_abort(heddle_ep_team(seat->ep));
    return UCC_ERR_INVALID_PARAM;
}

static inline ucc_status_t heddle_omp_begin_(heddle_omp_seat_t **seat) {
    ucc_status_t status = heddle_omp_sit_(&heddle_omp_default, seat);
    if (status != UCC_OK) {
        return status;
    }
    /* relaxed, here and in heddle_omp_end_: to find a mistake; what comes after a region is ordered
     * by OpenMP */
    if (__atomic_load_n(&(*seat)->busy, __ATOMIC_RELAXED)) {
        return heddle_omp_clash_(*seat);
    }
    __atomic_store_n(&(*seat)->busy, 1, __ATOMIC_RELAXED);
    return UCC_OK;
}

static inline ucc_status_t heddle_omp_end_(heddle_omp_seat_t *seat, ucc_status_t status) {
    __atomic_store_n(&seat->busy, 0, __ATOMIC_RELAXED);
    return status;
}

/** Nobody returns before everybody has called. */
static inline ucc_status_t heddle_omp_barrier(void) {
    heddle_omp_seat_t *seat;
    ucc_status_t status = heddle_omp_begin_(&seat);
    return status == UCC_OK ? heddle_omp_end_(seat, heddle_barrier(seat->ep)) : status;
}

/** x: count elements of each thread's own; combined elementwise, the result replaces them
 * everywhere. */
static inline ucc_status_t heddle_omp_allreduce(void *x, uint64_t count, ucc_datatype_t dt,
                                                ucc_reduction_op_t op) {
    heddle_omp_seat_t *seat;
    ucc_status_t status = heddle_omp_begin_(&seat);
    return status == UCC_OK ? heddle_omp_end_(seat, heddle_allreduce(seat->ep, HEDDLE_IN_PLACE, x,
                                                                     count, dt, op))
                            : status;
}

/* In a team that spans processes, each one's thread 0 gets an endpoint of a team of these. Every
 * thread calls; all that comes after the first time is free. If it fails at one, nobody waits for
 * that. */
static inline ucc_status_t heddle_omp_split_(heddle_omp_seat_t *seat) {
    if (seat->split) {
        return UCC_OK;
    }
    seat->split = 1;
    ucc_status_t status =
        heddle_split(seat->ep, omp_get_thread_num() == 0 ? 0 : -1, 0, &seat->firsts);
    if (status != UCC_OK) {
        (void)heddle_team_abort(heddle_ep_team(seat->ep));
    }
    return status;
}

/* The first process's thread 0 gets the result, and hands it to those of the others. Each step is
 * everybody's, also after one that has failed: the others may not know of that. */
static inline ucc_status_t heddle_omp_to_firsts_(heddle_omp_seat_t *seat, const void *mine,
                                                 void *shared, uint64_t count, ucc_datatype_t dt,
                                                 ucc_reduction_op_t op) {
    ucc_status_t status = heddle_omp_split_(seat);
    ucc_status_t reduced = heddle_reduce(seat->ep, mine, shared, count, dt, op, 0);
    status = status == UCC_OK ? reduced : status;
    if (seat->firsts) {
        ucc_status_t handed = heddle_bcast(seat->firsts, shared, count, dt, 0);
        status = status == UCC_OK ? handed : status;
    }
    return status;
}

/* Thread 0 gets the result, in each process. Few elements cross in both directions at once: faster
 * than one direction after the other. */
static inline ucc_status_t heddle_omp_to_first_(heddle_omp_seat_t *seat, const void *mine,
                                                void *shared, uint64_t count, ucc_datatype_t dt,
                                                ucc_reduction_op_t op) {
    enum { FEW = 64, LARGEST = 32 };
    uint64_t unused[FEW * LARGEST / sizeof(uint64_t)];
    if (count > FEW || (dt & UCC_DATATYPE_CLASS_MASK) != UCC_DATATYPE_PREDEFINED) {
        return seat->wide ? heddle_omp_to_firsts_(seat, mine, shared, count, dt, op)
                          : heddle_reduce(seat->ep, mine, shared, count, dt, op, 0);
    }
    int first = omp_get_thread_num() == 0;
    return heddle_allreduce(seat->ep, mine, first ? shared : (void *)unused, count, dt, op);
}

/* Nobody returns before thread 0 has called, which has it all. */
static inline ucc_status_t heddle_omp_await_first_(const heddle_omp_seat_t *seat) {
    char said = 0; /* a bcast takes less time than a fanout; but it has one root, in one process */
    return seat->wide ? heddle_barrier(seat->ep) : heddle_bcast(seat->ep, &said, 1, UCC_DT_INT8, 0);
}

/* Thread 0 alone uses shared, and the others' mine must not be marked: what not all would refuse by
 * themselves. All pass the same, so all refuse it here, and nobody waits for those who have. */
static inline int heddle_omp_is_reducible_(const void *mine, const void *shared, uint64_t count) {
    if (mine != HEDDLE_IN_PLACE && (shared || !count)) {
        return 1;
    }
    fprintf(stderr, "[heddle ERROR] OpenMP thread %d of %d: heddle_omp_reduce: %s\n",
            omp_get_thread_num(), omp_get_num_threads(),
            mine == HEDDLE_IN_PLACE ? "mine must not be HEDDLE_IN_PLACE" : "shared is NULL");
    return 0;
}

/** What `reduction(op : shared[:count])` is for: mine, count elements of each thread's own,
 *  combined elementwise into an array that all threads share, and read as soon as they return.
 *  Unlike there, what was in it before is no operand. Where the region spans processes, each one's
 *  threads share an array, and all arrays get the same. mine: not written; must not overlap
 *  shared. */
static inline ucc_status_t heddle_omp_reduce(const void *mine, void *shared, uint64_t count,
                                             ucc_datatype_t dt, ucc_reduction_op_t op) {
    heddle_omp_seat_t *seat;
    ucc_status_t status = heddle_omp_is_reducible_(mine, shared, count) ? heddle_omp_begin_(&seat)
                                                                        : UCC_ERR_INVALID_PARAM;
    if (status != UCC_OK) {
        return status;
    }
    status = heddle_omp_to_first_(seat, mine, shared, count, dt, op);
    if (status == UCC_OK || seat->wide) {
        ucc_status_t awaited = heddle_omp_await_first_(seat);
        status = status == UCC_OK ? awaited : status;
    }
    return heddle_omp_end_(seat, status);
}

/** x: count elements; root's replace everybody's. root: an endpoint's number (inside a process
 * omp_get_thread_num()). */
static inline ucc_status_t heddle_omp_bcast(void *x, uint64_t count, ucc_datatype_t dt,
                                            uint32_t root) {
    heddle_omp_seat_t *seat;
    ucc_status_t status = heddle_omp_begin_(&seat);
    return status == UCC_OK ? heddle_omp_end_(seat, heddle_bcast(seat->ep, x, count, dt, root))
                            : status;
}

/** x at endpoint i becomes x[0] op ... op x[i]: heddle_scan() in place. */
static inline ucc_status_t heddle_omp_scan(void *x, uint64_t count, ucc_datatype_t dt,
                                           ucc_reduction_op_t op) {
    heddle_omp_seat_t *seat;
    ucc_status_t status = heddle_omp_begin_(&seat);
    return status == UCC_OK
               ? heddle_omp_end_(seat, heddle_scan(seat->ep, HEDDLE_IN_PLACE, x, count, dt, op))
               : status;
}

/** dst: heddle_ep_size(ep) * count elements, ep being heddle_omp_ep()'s, each thread's own array;
 *  block i is endpoint i's src. Inside a process that is omp_get_num_threads() * count, block i
 *  thread i's; after heddle_omp_across() it is more. */
static inline ucc_status_t heddle_omp_allgather(const void *src, void *dst, uint64_t count,
                                                ucc_datatype_t dt) {
    heddle_omp_seat_t *seat;
    ucc_status_t status = heddle_omp_begin_(&seat);
    return status == UCC_OK ? heddle_omp_end_(seat, heddle_allgather(seat->ep, src, dst, count, dt))
                            : status;
}

#ifdef __cplusplus
}
#endif

#endif
