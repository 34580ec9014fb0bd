/* heddle.h: what threads need and UCC 1.x lacks.
 *
 * Everything here works together with <ucc/api/ucc.h>: an endpoint of a heddle group has an
 * ordinary ucc_team_h and ucc_context_h, and every call below that takes a team takes any team of
 * this library.
 *
 * The shortest program:
 *
 *     static void work(heddle_ep_t *ep, void *arg) {
 *         double x = 1.0;
 *         heddle_allreduce(ep, HEDDLE_IN_PLACE, &x, 1, UCC_DT_FLOAT64, UCC_OP_SUM);
 *     }
 *     int main(void) { return heddle_run(4, work, NULL) == UCC_OK ? 0 : 1; }
 *
 * An endpoint (what MPI calls a rank) is one participant of a team: a thread or a task, not a
 * process. Endpoint numbers run from 0 to size - 1. Counts are in elements unless a name says
 * bytes. All calls return UCC_OK or a negative ucc_status_t, and a failing call has logged one line
 * that names the culprit. "The drafts" are the two drafts of the UCC API from which UCC 1.x came.
 *
 * After a fork, endpoints that the child inherited fail there with UCC_ERR_NOT_SUPPORTED; the child
 * may make groups of its own.
 *
 * A call may use up to 48 KiB of the caller's stack: give tasks stacks of at least 64 KiB.
 */
#ifndef HEDDLE_H_
#define HEDDLE_H_

#include <heddle/heddle_dt.h>
#include <heddle/heddle_version.h>
#include <stdbool.h>
#include <stdio.h>
#include <ucc/api/ucc.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* ------------------------------------------------------------------------------------------------
 * Values
 * ---------------------------------------------------------------------------------------------- */

/** Is passed as a source (or, for scatter, as the destination at the root), and says that the data
 *  is already where the operation's in-place rule expects it (UCC_COLL_ARGS_FLAG_IN_PLACE). */
#define HEDDLE_IN_PLACE ((void *)(intptr_t)-1)

/** After heddle_team_abort(), the status of every operation on the team that was outstanding or is
 *  started later. */
#define HEDDLE_ERR_ABORTED ((ucc_status_t)-40)

/** The drafts' multicast: means the same as UCC_COLL_TYPE_BCAST, and has the same argument
 *  fields. */
#define UCC_COLL_TYPE_MCAST ((ucc_coll_type_t)UCC_BIT(16))

/** Prefix reductions, which UCC lacks. The fields of ucc_coll_args_t are those of
 *  UCC_COLL_TYPE_ALLREDUCE; heddle_scan() and heddle_exscan() say what is computed. */
#define UCC_COLL_TYPE_SCAN   ((ucc_coll_type_t)UCC_BIT(17))
#define UCC_COLL_TYPE_EXSCAN ((ucc_coll_type_t)UCC_BIT(18))

/** Buffer flags of the drafts, or-ed into ucc_coll_args_t::flags (with UCC_COLL_ARGS_FIELD_FLAGS).
 *  With SYMMETRIC and READY, the buffer in which a bcast, allgather or alltoall delivers must have
 *  the same offset in every endpoint's part of the symmetric memory: peers write there before they
 *  have seen this endpoint's call. Different offsets end with UCC_ERR_INVALID_PARAM, but by then
 *  the memory at the others' offset may have been overwritten. In a team of several processes these
 *  flags change nothing, unless all parts of the memory are mapped in all of them (HEDDLE_NODE=y,
 *  parts in heaps). */
#define HEDDLE_COLL_FLAG_SYMMETRIC         UCC_BIT(40) /**< buffers lie in symmetric memory */
#define HEDDLE_COLL_FLAG_PERSISTENT_BUFFER UCC_BIT(41) /**< buffers outlive the team */
#define HEDDLE_COLL_FLAG_READY             UCC_BIT(42) /**< peers may touch them before the post */

/** The drafts' constraints on memory, a bit mask: for heddle_team_params_t::memory and
 *  heddle_group_params_t::symmetric_constraints. */
#define HEDDLE_MEM_SYMMETRIC  UCC_BIT(0) /**< same length on every endpoint of the team */
#define HEDDLE_MEM_PERSISTENT UCC_BIT(1) /**< stays valid until the team is destroyed */
#define HEDDLE_MEM_ALIGN32    UCC_BIT(2) /**< address is a multiple of 32 bytes */
#define HEDDLE_MEM_ALIGN64    UCC_BIT(3) /**< address is a multiple of 64 bytes */
#define HEDDLE_MEM_ALIGN128   UCC_BIT(4) /**< address is a multiple of 128 bytes */

/** The drafts' hints about memory, a bit mask, for heddle_team_params_t::memory. They are accepted
 *  and reported; no behaviour depends on them. */
#define HEDDLE_MEM_REMOTE_ATOMICS  UCC_BIT(0)
#define HEDDLE_MEM_REMOTE_COUNTERS UCC_BIT(1)

/** Where an endpoint runs. A field is -1 when unknown; all -1 means "no hint". Numbers are hwloc
 *  logical indices. */
typedef struct heddle_locality {
    int32_t package; /**< socket */
    int32_t numa;    /**< NUMA node */
    int32_t l3;      /**< last-level cache */
    int32_t core;    /**< physical core */
} heddle_locality_t;

#define HEDDLE_LOCALITY_NONE                                                                       \
    { -1, -1, -1, -1 }

/* ------------------------------------------------------------------------------------------------
 * Groups: teams of threads and tasks without any out-of-band exchange
 * ---------------------------------------------------------------------------------------------- */

/** A team being formed by the threads or tasks of this process; opaque. */
typedef struct heddle_group heddle_group_t;

/** One endpoint of a group; opaque. One thread at a time may use it (any thread: a task may
 *  migrate). In a group with UCC_THREAD_MULTIPLE, several threads may use it at once. */
typedef struct heddle_ep heddle_ep_t;

/** How a group is made. Zero everywhere but `endpoints` is a good choice. */
typedef struct heddle_group_params {
    /** Number of endpoints that this process contributes, 1 to 16,777,216. */
    uint32_t endpoints;
    /** Contexts the endpoints share: 0 gives every endpoint its own; m gives endpoint i the context
     *  i * m / endpoints. Endpoints driven by one OS thread do best on one context: one progress
     *  call then drives all of them. */
    uint32_t contexts;
    /** UCC_THREAD_MULTIPLE allows several threads on one endpoint or one context at once. Endpoints
     *  that share a context but are driven by different threads need it. */
    ucc_thread_mode_t thread_mode;
    /** Ordering, synchronization and number of outstanding operations, as in ucc_team_params_t. */
    ucc_post_ordering_t ordering;
    ucc_coll_sync_type_t sync_type;
    uint64_t outstanding_colls;
    /** Bytes of symmetric memory that the library allocates for each endpoint (0: none), and the
     *  drafts' constraints on it. See heddle_team_memory(). UCC_ERR_NOT_SUPPORTED with an `oob` of
     *  several processes, unless they share memory (HEDDLE_NODE). */
    size_t symmetric_bytes;
    uint64_t symmetric_constraints;
    /** NULL, or an allgather among processes for hybrid programs: called by one thread of each
     *  process (the one that calls heddle_group_create), oob->n_oob_eps processes in all. */
    const ucc_oob_coll_t *oob;
    /** Nonzero: a thread of the library progresses all contexts of the group, so that operations go
     *  on and callbacks come while no thread of the program is in a call. Callbacks are called from
     *  that thread, too; thread_mode becomes UCC_THREAD_MULTIPLE. It is not pinned, sleeps a
     *  millisecond at most while there is nothing to do, and ends with the group. */
    uint32_t progress_thread;
} heddle_group_params_t;

/** Starts forming a team. Any one thread calls it; every endpoint then calls heddle_join(). O(1)
 *  memory per endpoint while forming. Without an oob it never blocks. With one, what is refused at
 *  one process is an error at all, unless its oob itself is wrong: then the others wait for it.
 *  @param [in]  params  copied; NULL, or endpoints out of their range, is UCC_ERR_INVALID_PARAM
 *  @param [out] group   to be given to heddle_join() and, after all joins have returned,
 *                       heddle_group_destroy() */
ucc_status_t heddle_group_create(const heddle_group_params_t *params, heddle_group_t **group);

/** Drops the creator's reference. Endpoints that have joined stay valid until they leave. If not
 *  all have joined, no more can, and the operations of those that have fail with UCC_ERR_NOT_FOUND.
 *  UCC_ERR_INVALID_PARAM after all have left, while one of the group's contexts drives a schedule
 *  (<heddle/schedule.h>). */
ucc_status_t heddle_group_destroy(heddle_group_t *group);

/** Makes the caller endpoint `index` of the group, 0 <= index < endpoints; each index joins once.
 *  Never blocks, and does not wait for the others: a collective that is started early waits for
 *  them.
 *  @param [out] ep  released by heddle_leave() */
ucc_status_t heddle_join(heddle_group_t *group, uint32_t index, heddle_ep_t **ep);

/** heddle_join() with a hint where the endpoint will run, for callers that join on behalf of others
 *  or are not pinned. NULL means no hint: the calling thread's affinity decides. */
ucc_status_t heddle_join_at(heddle_group_t *group, uint32_t index, const heddle_locality_t *where,
                            heddle_ep_t **ep);

/** Gives up the endpoint. This is local, and never waits for a peer; but after a failure the last
 *  endpoint of a process takes back what the team has on the network yet, for 1.5 seconds at most.
 *      All operations that the endpoint started must be complete, and schedules that its own
 *  context drives must be over, else UCC_ERR_INVALID_PARAM. Requests that were not freed are freed.
 *  The others may still finish the collectives in which it took part; what they start beyond these
 *  fails with UCC_ERR_NOT_FOUND, and the team with it.
 *      Teams that the program has made from the endpoint's own by calls of <ucc/api/ucc.h> live on,
 *  and its context with them, until the last of them is destroyed. So does the group, and its
 *  progress thread: whoever destroys the last of its teams when all have left waits for that thread
 *  to end, and should hold no lock then that its callbacks want.
 *      To leave twice is UCC_ERR_INVALID_PARAM, which is detected as long as somebody holds the
 *  group. It is not detected for an endpoint of a sub-team, whose memory is used again for the next
 *  sub-team: leave that once. */
ucc_status_t heddle_leave(heddle_ep_t *ep);

/** Makes sub-teams: every endpoint of ep's team calls, with a color and a key. Those of equal color
 *  form a team. They are numbered by key, and by their numbers in ep's team where keys are equal.
 *      The call begins with a heddle_allgather(): it blocks as that does, and is in order with the
 *  team's other collectives. One thread that drives several endpoints gathers the colors itself, by
 *  heddle_iallgather(), and calls heddle_subset(). The call uses 40 bytes per endpoint of the team
 *  while it runs.
 *  @param [in]  color  0 or more; if negative, the caller is in no sub-team, and *sub is NULL
 *  @param [out] sub    for every call that takes a heddle_ep_t, heddle_split() and the blocking
 *                      collectives included. It has ep's thread mode, ordering and context, and no
 *                      symmetric memory. Released by heddle_leave(), before or after ep, since
 *                      neither needs the other. An abort or failure of one team does not touch the
 *                      other. */
ucc_status_t heddle_split(heddle_ep_t *ep, int64_t color, int64_t key, heddle_ep_t **sub);

/** Makes a sub-team of the endpoints of ep's team that are listed by number. Only they call, each
 *  with the same list; member i of the list becomes endpoint i. Like heddle_join(), it never blocks
 *  and does not wait for the others. The same list given again makes another team.
 *  @param [in]  list  n endpoint numbers, the caller's among them, none twice; copied
 *  @param [out] sub   as in heddle_split() */
ucc_status_t heddle_subset(heddle_ep_t *ep, const uint32_t *list, uint32_t n, heddle_ep_t **sub);

/** heddle_team_shrink() for endpoints: makes a team of those that are left of ep's team, which has
 *  lost a process. Never blocks: what fails while the team forms is reported by its first
 *  operations.
 *  @param [out] sub   as in heddle_split() */
ucc_status_t heddle_shrink(heddle_ep_t *ep, heddle_ep_t **sub);

/** heddle_team_agree() for endpoints. */
ucc_status_t heddle_agree(heddle_ep_t *ep, uint64_t *bits, uint64_t *failed, uint64_t *n_failed);

/** Starts n threads, spread and pinned by topology, hands each its endpoint, and returns when all
 *  have returned; then the endpoints have left. n == 0 means one thread per available core.
 *      Threads are placed among the processors that the process may use. With more threads than
 *  processors no thread is pinned. A thread whose processor is found busy is not pinned either,
 *  since another program may have pinned its own there. HEDDLE_PIN changes this: "always" pins them
 *  all the same, with "none" threads inherit the caller's affinity, and a list such as 0,2,8-11
 *  gives the numbers of the processors to use.
 *      A thread that ends in work (pthread_exit, cancellation) has left, too, with the endpoints of
 *  sub-teams that were made from its own, and their execution engines are gone. The result is then
 *  UCC_ERR_NO_MESSAGE, or what failed before.
 *  @return the first failure, in the order in which endpoints leave: of starting a thread, of a
 *          collective of heddle.h that was refused or failed in its call, or of a team made here or
 *          from one of these endpoints; failures that work has read by heddle_ep_failure() don't
 *          count */
ucc_status_t heddle_run(uint32_t n, void (*work)(heddle_ep_t *ep, void *arg), void *arg);

/** The status of the first call of a collective of heddle.h (blocking, not blocking, or on a
 *  stream) that has failed at this endpoint since the last call of this function; if none has, the
 *  status with which its team has failed since then; UCC_OK if neither has. A failure is returned
 *  once: neither this function nor heddle_run() returns it again. The endpoint's thread calls. */
ucc_status_t heddle_ep_failure(heddle_ep_t *ep);

/** The endpoint's number in the team, the team's size, and its UCC handles (owned by the endpoint:
 *  do not destroy them). NULL gives 0 or NULL. */
uint32_t heddle_ep_index(const heddle_ep_t *ep);
uint32_t heddle_ep_size(const heddle_ep_t *ep);
ucc_team_h heddle_ep_team(const heddle_ep_t *ep);
ucc_context_h heddle_ep_context(const heddle_ep_t *ep);

/* ------------------------------------------------------------------------------------------------
 * Blocking collectives. They use no heap but at an endpoint's first calls, and no system call but
 * the wait's own yield or sleep, and, among processes, those by which the kernel copies large data.
 * Buffers are in memory of the host, here and in the nonblocking calls: the library does not ask
 * whose memory it is. For memory of devices there are heddle_*_on() and UCC's calls.
 *
 * `count` is per endpoint: the elements that each endpoint sends to, or receives from, one peer.
 * Arrays of counts and displacements have one uint64_t per endpoint, in elements; displacements may
 * be NULL for densely packed blocks. Arguments that have no meaning at an endpoint (dst of reduce
 * away from the root) are ignored there. Semantics are UCC's, and MPI's where UCC says nothing.
 * ---------------------------------------------------------------------------------------------- */

/** No endpoint returns before all have called. */
ucc_status_t heddle_barrier(heddle_ep_t *ep);
/** The root returns after all have called; the others return at once. */
ucc_status_t heddle_fanin(heddle_ep_t *ep, uint32_t root);
/** No endpoint returns before the root has called. */
ucc_status_t heddle_fanout(heddle_ep_t *ep, uint32_t root);
/** buffer has count elements; it is read at the root and written elsewhere. */
ucc_status_t heddle_bcast(heddle_ep_t *ep, void *buffer, uint64_t count, ucc_datatype_t dt,
                          uint32_t root);
/** The drafts' multicast; means the same as heddle_bcast(). */
ucc_status_t heddle_mcast(heddle_ep_t *ep, void *buffer, uint64_t count, ucc_datatype_t dt,
                          uint32_t root);
/** dst at the root = src[0] op src[1] op ... op src[size-1], elementwise. The order in which
 *  operands are combined depends on endpoint numbers alone: eight consecutive ones first, then
 *  eight such blocks. */
ucc_status_t heddle_reduce(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                           ucc_datatype_t dt, ucc_reduction_op_t op, uint32_t root);
/** The same with the result everywhere. */
ucc_status_t heddle_allreduce(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                              ucc_datatype_t dt, ucc_reduction_op_t op);
/** Prefixes: dst at endpoint i = src[0] op src[1] op ... op src[i], elementwise, strictly from the
 *  left, each step rounded in the datatype (unlike heddle_allreduce(), which combines blocks of
 *  eight). So the bits depend on the sources and their order alone; endpoint 0's result is its
 *  source, bit for bit. Datatypes and operations are those of heddle_allreduce(), but UCC_OP_AVG is
 *  UCC_ERR_NOT_SUPPORTED. In place, dst holds the source. For small data, endpoint i waits only for
 *  those before it. */
ucc_status_t heddle_scan(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                         ucc_datatype_t dt, ucc_reduction_op_t op);
/** heddle_scan() without the endpoint's own source: dst at endpoint i = src[0] op ... op src[i-1].
 *  Endpoint 0's dst is ignored; in place, it keeps its source. */
ucc_status_t heddle_exscan(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                           ucc_datatype_t dt, ucc_reduction_op_t op);
/** src has size * count elements; endpoint i receives block i of the reduction. In place, dst holds
 *  all size * count elements, and the result lands at block i of it. */
ucc_status_t heddle_reduce_scatter(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                                   ucc_datatype_t dt, ucc_reduction_op_t op);
/** Blocks of different sizes: counts[i] elements go to endpoint i. */
ucc_status_t heddle_reduce_scatterv(heddle_ep_t *ep, const void *src, void *dst,
                                    const uint64_t *counts, ucc_datatype_t dt,
                                    ucc_reduction_op_t op);
/** dst has size * count elements; block i comes from endpoint i. In place, the endpoint's own block
 *  is already in dst. */
ucc_status_t heddle_allgather(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                              ucc_datatype_t dt);
/** src holds `count` elements, which equals counts[own index]. */
ucc_status_t heddle_allgatherv(heddle_ep_t *ep, const void *src, uint64_t count, void *dst,
                               const uint64_t *counts, const uint64_t *displacements,
                               ucc_datatype_t dt);
/** dst matters at the root only. */
ucc_status_t heddle_gather(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                           ucc_datatype_t dt, uint32_t root);
ucc_status_t heddle_gatherv(heddle_ep_t *ep, const void *src, uint64_t count, void *dst,
                            const uint64_t *counts, const uint64_t *displacements,
                            ucc_datatype_t dt, uint32_t root);
/** src matters at the root only. In place, dst at the root is HEDDLE_IN_PLACE, and its own block
 *  stays. */
ucc_status_t heddle_scatter(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                            ucc_datatype_t dt, uint32_t root);
ucc_status_t heddle_scatterv(heddle_ep_t *ep, const void *src, const uint64_t *counts,
                             const uint64_t *displacements, void *dst, uint64_t count,
                             ucc_datatype_t dt, uint32_t root);
/** src and dst have size * count elements; endpoint i's block j goes to block i of endpoint j's
 *  dst. */
ucc_status_t heddle_alltoall(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                             ucc_datatype_t dt);
ucc_status_t heddle_alltoallv(heddle_ep_t *ep, const void *src, const uint64_t *src_counts,
                              const uint64_t *src_displacements, void *dst,
                              const uint64_t *dst_counts, const uint64_t *dst_displacements,
                              ucc_datatype_t dt);

/* Send and receive between two endpoints are out of scope. An exchange at the edges of a grid is a
 * bcast over an active set of two (ucc_coll_args_t::active_set) whose root is the sender;
 * operations on one set match in the order of their posts: examples/teams/neighbours.c. */

/** Any collective on any team, blocking: init, post, wait, finalize. */
ucc_status_t heddle_collective(ucc_coll_args_t *args, ucc_team_h team);

/* ------------------------------------------------------------------------------------------------
 * Nonblocking collectives: each starts what the blocking call of the same name does, and returns.
 *
 * Operations of one endpoint, blocking and nonblocking, match those of its peers in the order of
 * the calls. Buffers and arrays of counts and displacements are not copied. Until the request is
 * complete, the caller must neither change nor free them (it may read those that the operation only
 * reads). Any number of operations may be outstanding.
 *
 * *request is an ordinary UCC request: for ucc_collective_test(), and for every call of the section
 * "Waiting, tags, abort". None of these frees it: heddle_request_free() (or
 * ucc_collective_finalize()) does, once it is complete, and heddle_leave() frees those that were
 * forgotten. A call that fails sets *request to NULL.
 *
 * A thread must make progress: an operation that did not complete inside its call goes on only
 * while some thread waits, tests or progresses on its context (heddle_wait(), heddle_test(),
 * heddle_progress(), ucc_context_progress(), or any blocking call of the endpoint). A program waits
 * for ever if it only hands callbacks (ucc_coll_args_t::cb) to its runtime, such as
 * omp_fulfill_event() of a detached OpenMP task, and then lets all threads sleep in that runtime.
 * Either let a thread or a task call heddle_progress() until all callbacks have come, or give the
 * group a progress_thread.
 * ---------------------------------------------------------------------------------------------- */

ucc_status_t heddle_ibarrier(heddle_ep_t *ep, ucc_coll_req_h *request);
ucc_status_t heddle_ifanin(heddle_ep_t *ep, uint32_t root, ucc_coll_req_h *request);
ucc_status_t heddle_ifanout(heddle_ep_t *ep, uint32_t root, ucc_coll_req_h *request);
ucc_status_t heddle_ibcast(heddle_ep_t *ep, void *buffer, uint64_t count, ucc_datatype_t dt,
                           uint32_t root, ucc_coll_req_h *request);
ucc_status_t heddle_imcast(heddle_ep_t *ep, void *buffer, uint64_t count, ucc_datatype_t dt,
                           uint32_t root, ucc_coll_req_h *request);
ucc_status_t heddle_ireduce(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                            ucc_datatype_t dt, ucc_reduction_op_t op, uint32_t root,
                            ucc_coll_req_h *request);
ucc_status_t heddle_iallreduce(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                               ucc_datatype_t dt, ucc_reduction_op_t op, ucc_coll_req_h *request);
ucc_status_t heddle_iscan(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                          ucc_datatype_t dt, ucc_reduction_op_t op, ucc_coll_req_h *request);
ucc_status_t heddle_iexscan(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                            ucc_datatype_t dt, ucc_reduction_op_t op, ucc_coll_req_h *request);
ucc_status_t heddle_ireduce_scatter(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                                    ucc_datatype_t dt, ucc_reduction_op_t op,
                                    ucc_coll_req_h *request);
ucc_status_t heddle_ireduce_scatterv(heddle_ep_t *ep, const void *src, void *dst,
                                     const uint64_t *counts, ucc_datatype_t dt,
                                     ucc_reduction_op_t op, ucc_coll_req_h *request);
ucc_status_t heddle_iallgather(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                               ucc_datatype_t dt, ucc_coll_req_h *request);
ucc_status_t heddle_iallgatherv(heddle_ep_t *ep, const void *src, uint64_t count, void *dst,
                                const uint64_t *counts, const uint64_t *displacements,
                                ucc_datatype_t dt, ucc_coll_req_h *request);
ucc_status_t heddle_igather(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                            ucc_datatype_t dt, uint32_t root, ucc_coll_req_h *request);
ucc_status_t heddle_igatherv(heddle_ep_t *ep, const void *src, uint64_t count, void *dst,
                             const uint64_t *counts, const uint64_t *displacements,
                             ucc_datatype_t dt, uint32_t root, ucc_coll_req_h *request);
ucc_status_t heddle_iscatter(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                             ucc_datatype_t dt, uint32_t root, ucc_coll_req_h *request);
ucc_status_t heddle_iscatterv(heddle_ep_t *ep, const void *src, const uint64_t *counts,
                              const uint64_t *displacements, void *dst, uint64_t count,
                              ucc_datatype_t dt, uint32_t root, ucc_coll_req_h *request);
ucc_status_t heddle_ialltoall(heddle_ep_t *ep, const void *src, void *dst, uint64_t count,
                              ucc_datatype_t dt, ucc_coll_req_h *request);
ucc_status_t heddle_ialltoallv(heddle_ep_t *ep, const void *src, const uint64_t *src_counts,
                               const uint64_t *src_displacements, void *dst,
                               const uint64_t *dst_counts, const uint64_t *dst_displacements,
                               ucc_datatype_t dt, ucc_coll_req_h *request);

/* ------------------------------------------------------------------------------------------------
 * Collectives in the order of streams, on memory of devices.
 *
 * stream is a cudaStream_t or CUstream, in whose order the endpoint takes part: what was enqueued
 * there before is done before the collective touches the endpoint's buffers, and what is enqueued
 * there later comes after the collective. Streams of different endpoints may be on different
 * devices. A call returns when everything is enqueued: threads wait for each other, but no thread
 * waits for a device. So an error of a device is seen where the stream is synchronized.
 *
 * Arguments are those of the blocking calls. The library asks the driver where the buffers are. At
 * every endpoint at least one buffer must be in a device's or managed memory; the rest may be
 * pinned. Memory of the host that is not pinned is UCC_ERR_NOT_SUPPORTED. Arrays of counts and
 * displacements are in memory of the host, and may be freed when the call returns.
 *
 * In a team that spans processes a call returns when the network has done its part. A thread waits
 * for the other processes, and for its stream to come to the call (if the endpoint sends anything,
 * or no endpoint has data), but not for its device to get the results.
 *
 * On a stream that is being captured, the collective becomes part of the graph: the streams of all
 * endpoints must be part of the same capture, and devices must reach each other's memory. Each
 * launch of the graph then carries it out once more. In a team that spans processes it can't be
 * captured: UCC_ERR_NOT_SUPPORTED at every endpoint, because the team fails.
 *
 * One thread that drives several endpoints posts for each of them (heddle_post_on()), and then
 * waits for all.
 * ---------------------------------------------------------------------------------------------- */

/** Any collective. With tags (ucc_coll_args_t::tag), calls on several streams may come in any
 *  order.
 *  @return UCC_OK when everything is enqueued, or what has failed before */
ucc_status_t heddle_collective_on(ucc_coll_args_t *args, ucc_team_h team, void *stream);

/** Posts a request of ucc_collective_init() on a stream. The request is complete when everything is
 *  enqueued; until then the caller may not enqueue anything else on the stream. cudaStreamPerThread
 *  is UCC_ERR_NOT_SUPPORTED. On an error nothing is posted. */
ucc_status_t heddle_post_on(ucc_coll_req_h request, void *stream);

/** A barrier among streams: each goes on when all have come to the call. */
ucc_status_t heddle_barrier_on(heddle_ep_t *ep, void *stream);
/** The same as heddle_barrier_on(): streams of endpoints other than the root wait, too. */
ucc_status_t heddle_fanin_on(heddle_ep_t *ep, void *stream, uint32_t root);
ucc_status_t heddle_fanout_on(heddle_ep_t *ep, void *stream, uint32_t root);
/** Each of these means the same as the call without _on. */
ucc_status_t heddle_bcast_on(heddle_ep_t *ep, void *stream, void *buffer, uint64_t count,
                             ucc_datatype_t dt, uint32_t root);
ucc_status_t heddle_mcast_on(heddle_ep_t *ep, void *stream, void *buffer, uint64_t count,
                             ucc_datatype_t dt, uint32_t root);
ucc_status_t heddle_reduce_on(heddle_ep_t *ep, void *stream, const void *src, void *dst,
                              uint64_t count, ucc_datatype_t dt, ucc_reduction_op_t op,
                              uint32_t root);
ucc_status_t heddle_allreduce_on(heddle_ep_t *ep, void *stream, const void *src, void *dst,
                                 uint64_t count, ucc_datatype_t dt, ucc_reduction_op_t op);
ucc_status_t heddle_scan_on(heddle_ep_t *ep, void *stream, const void *src, void *dst,
                            uint64_t count, ucc_datatype_t dt, ucc_reduction_op_t op);
ucc_status_t heddle_exscan_on(heddle_ep_t *ep, void *stream, const void *src, void *dst,
                              uint64_t count, ucc_datatype_t dt, ucc_reduction_op_t op);
ucc_status_t heddle_reduce_scatter_on(heddle_ep_t *ep, void *stream, const void *src, void *dst,
                                      uint64_t count, ucc_datatype_t dt, ucc_reduction_op_t op);
ucc_status_t heddle_reduce_scatterv_on(heddle_ep_t *ep, void *stream, const void *src, void *dst,
                                       const uint64_t *counts, ucc_datatype_t dt,
                                       ucc_reduction_op_t op);
ucc_status_t heddle_allgather_on(heddle_ep_t *ep, void *stream, const void *src, void *dst,
                                 uint64_t count, ucc_datatype_t dt);
ucc_status_t heddle_allgatherv_on(heddle_ep_t *ep, void *stream, const void *src, uint64_t count,
                                  void *dst, const uint64_t *counts, const uint64_t *displacements,
                                  ucc_datatype_t dt);
ucc_status_t heddle_gather_on(heddle_ep_t *ep, void *stream, const void *src, void *dst,
                              uint64_t count, ucc_datatype_t dt, uint32_t root);
ucc_status_t heddle_gatherv_on(heddle_ep_t *ep, void *stream, const void *src, uint64_t count,
                               void *dst, const uint64_t *counts, const uint64_t *displacements,
                               ucc_datatype_t dt, uint32_t root);
ucc_status_t heddle_scatter_on(heddle_ep_t *ep, void *stream, const void *src, void *dst,
                               uint64_t count, ucc_datatype_t dt, uint32_t root);
ucc_status_t heddle_scatterv_on(heddle_ep_t *ep, void *stream, const void *src,
                                const uint64_t *counts, const uint64_t *displacements, void *dst,
                                uint64_t count, ucc_datatype_t dt, uint32_t root);
ucc_status_t heddle_alltoall_on(heddle_ep_t *ep, void *stream, const void *src, void *dst,
                                uint64_t count, ucc_datatype_t dt);
ucc_status_t heddle_alltoallv_on(heddle_ep_t *ep, void *stream, const void *src,
                                 const uint64_t *src_counts, const uint64_t *src_displacements,
                                 void *dst, const uint64_t *dst_counts,
                                 const uint64_t *dst_displacements, ucc_datatype_t dt);

/** Proposes the GPU that endpoint ep, of this process, should use: *device is a number of the
 *  driver's, as for cudaSetDevice(). Buffers may be anywhere all the same.
 *      The GPU is one of those nearest to where the endpoint runs (heddle_join_at(), or what its
 *  thread is bound to). Endpoints that have the same ones nearest share them out by their numbers,
 *  so that endpoints of one GPU are neighbours in number: reductions combine neighbours first. No
 *  GPU gets more than its share: before one is idle, an endpoint gets one that is farther off. If
 *  nothing is known, all GPUs are shared out.
 *      Ask the team with all endpoints that use GPUs, since each sub-team would share them out
 *  anew. Any endpoint may ask for any of its process; the answer remains the same. Loads the
 *  driver, as HEDDLE_GPU says.
 *  @return UCC_INPROGRESS: not all endpoints have joined (after a first barrier, they have);
 *          UCC_ERR_NOT_FOUND: there is no GPU; UCC_ERR_NOT_SUPPORTED: ep lives in another
 *          process */
ucc_status_t heddle_team_gpu(ucc_team_h team, uint64_t ep, int *device);

/* ------------------------------------------------------------------------------------------------
 * Waiting, tags, abort
 * ---------------------------------------------------------------------------------------------- */

/** Waits for a posted request: spins, yields, then sleeps. Meanwhile it does whatever work of the
 *  request's context can be done, so the caller needs no progress call.
 *      In a group with UCC_THREAD_MULTIPLE, a wait that lasts looks after the group's other
 *  contexts, too. In other groups contexts have no locks, and only the caller knows which thread is
 *  in which. There a thread that drives endpoints on several contexts must wait for the requests of
 *  all by heddle_wait_all(), or give its endpoints one context (heddle_group_params_t::contexts).
 *  Otherwise the request may depend on an operation that nobody progresses, at the latest on the
 *  fifth that is outstanding.
 *  @param [in] timeout  seconds; negative waits for ever; 0 is one progress and a test
 *  @return the request's final status; UCC_INPROGRESS when the timeout came first (the request goes
 *          on); UCC_ERR_INVALID_PARAM for NULL or a request that was never posted */
ucc_status_t heddle_wait(ucc_coll_req_h request, double timeout);

/** Progresses the request's context once, and returns the request's status then: UCC_INPROGRESS, or
 *  how it ended. The same as heddle_wait() with timeout 0. */
ucc_status_t heddle_test(ucc_coll_req_h request);

/** Waits until every request is complete, and progresses the contexts of all of them. One thread
 *  may wait here for endpoints on several contexts, if it is the one that drives them.
 *  @param [in] requests  n of them; NULL entries are skipped; none is freed
 *  @param [in] timeout   seconds, as in heddle_wait()
 *  @return UCC_OK; the status of the first in the array that failed; UCC_INPROGRESS when the
 *          timeout came first; UCC_ERR_INVALID_PARAM, at once, if one is no request or was never
 *          posted */
ucc_status_t heddle_wait_all(const ucc_coll_req_h *requests, size_t n, double timeout);

/** Waits until one of the requests is complete, in the same way. Freeing it with
 *  heddle_request_free(&requests[index]) takes it out of the next call.
 *  @param [out] index  the first in the array that is complete; n when the timeout came first, or
 *                      when all entries are NULL (UCC_OK then)
 *  @return how that request ended, UCC_INPROGRESS when the timeout came first */
ucc_status_t heddle_wait_any(const ucc_coll_req_h *requests, size_t n, size_t *index,
                             double timeout);

/** Frees the request by ucc_collective_finalize(), and sets *request to NULL. A request in progress
 *  is UCC_ERR_INVALID_PARAM and stays; NULL is UCC_OK. */
ucc_status_t heddle_request_free(ucc_coll_req_h *request);

/** Does what can be done now for everything outstanding on the endpoint's context, without
 *  blocking. The same as ucc_context_progress(heddle_ep_context(ep)). Callbacks are called from
 *  here. */
ucc_status_t heddle_progress(heddle_ep_t *ep);

/** ucc_collective_init() with a 64-bit tag in place of ucc_coll_args_t::tag (whose mask bit is then
 *  ignored). Operations of one team match by tag; those with equal tags match in the order of their
 *  posts. Tags whose highest bit is set are reserved for registered algorithms (schedule.h). */
ucc_status_t heddle_collective_init_tagged(ucc_coll_args_t *args, uint64_t tag,
                                           ucc_coll_req_h *request, ucc_team_h team);

/** Ends everything outstanding on the team, at every endpoint of this process, with
 *  HEDDLE_ERR_ABORTED; later operations fail with the same status. When a request reports it, no
 *  thread touches that request's buffers any more. Any endpoint may call, from any thread, once or
 *  often. The team must still be destroyed by every endpoint. */
ucc_status_t heddle_team_abort(ucc_team_h team);

/** Makes a team of those that are left of a team of several processes, when one process has been
 *  lost (the team's operations then fail with UCC_ERR_IO_ERROR), or after heddle_team_abort().
 *  Every endpoint of every process that is left calls; no exchange is needed. Endpoints are
 *  numbered in the order of their old numbers; ordering, synchronization, thread mode and contexts
 *  are the old team's. The old team must still be destroyed, before or after.
 *      Further processes may be lost meanwhile, and some processes may not know of a loss yet. Then
 *  forming the team fails, or its first operations do, with UCC_ERR_IO_ERROR at some endpoints or
 *  all. Where the new team has not formed, destroy it and shrink the old one again; where it has,
 *  shrink the new one. All of them meet. A process that the others have given
 *  up (because a link broke, or it did not react) is left alone, with its own endpoints.
 *      Endpoints may also agree after each attempt whether all have the new team. Then forming it
 *  fails with UCC_ERR_NOT_FOUND where it would wait for who has failed to form it, and agrees.
 *  @param [in]  team  created by any way; UCC_ERR_NOT_SUPPORTED if all its endpoints live in this
 *                     process
 *  @param [out] left  to be driven by ucc_team_create_test(), as any new team */
ucc_status_t heddle_team_shrink(ucc_team_h team, ucc_team_h *left);

/** The endpoints of the team whose processes are gone, or were given up, as this process knows now;
 *  others may know more, or less. Looks for news first; never blocks.
 *  @param [out] failed    their numbers, ascending; room for as many as the team has endpoints, or
 *                         NULL
 *  @param [out] n_failed  how many they are; 0 in a team inside one process */
ucc_status_t heddle_team_failed(ucc_team_h team, uint64_t *failed, uint64_t *n_failed);

/** An agreement of the endpoints of a team that are left; opaque. */
typedef struct heddle_agreement heddle_agreement_t;

/** Begins an agreement: all endpoints of the team that are left get the same bits, and the same set
 *  of endpoints that have failed, also if processes die meanwhile. It is what MPI's proposal for
 *  user-level failure mitigation (ULFM) calls MPIX_Comm_agree, with the set; and it works on a team
 *  that has failed, or was aborted, which stays as it is.
 *      Every endpoint of every process that is left calls; the k-th calls of all belong together.
 *  The bits are the AND of those of all endpoints that are not in the set; some of these may have
 *  died since. Who has returned, even if it died at once, has returned what all others do. Parts of
 *  a network that have given up each other decide apart; with NET_QUORUM no more than half of a
 *  team decides nothing (UCC_ERR_NO_RESOURCE). A process that was given up is such a part.
 *      Each process of the team must be watched by connections (NET_WATCH), and of any two hosts
 *  one be open to them (NET_WATCH_DEVICES), else UCC_ERR_NOT_SUPPORTED. A process that has left the
 *  team counts as failed; if it is only some endpoints of a process, its others get
 *  UCC_ERR_NOT_FOUND. In a team inside one process it is an allreduce, which fails if the team is
 *  aborted; there nobody is lost.
 *  @param [out] agreement  to be driven by heddle_agree_test(), released by heddle_agree_free() */
ucc_status_t heddle_agree_post(ucc_team_h team, uint64_t bits, heddle_agreement_t **agreement);

/** Drives an agreement, and the endpoint's contexts; one thread may drive those of several
 *  endpoints in turn, and has to drive all that an endpoint has under way. Again after its end, it
 *  returns the same.
 *  @param [out] bits, n_failed  may be NULL; as `failed`, written with UCC_OK alone
 *  @param [out] failed          as in heddle_team_failed()
 *  @return UCC_INPROGRESS; UCC_OK; or, without a decision at this endpoint, UCC_ERR_NO_MEMORY,
 *          UCC_ERR_TIMED_OUT (HEDDLE_TIMEOUT), or what stands above: the others may have decided */
ucc_status_t heddle_agree_test(heddle_agreement_t *agreement, uint64_t *bits, uint64_t *failed,
                               uint64_t *n_failed);

/** UCC_ERR_INVALID_PARAM while it is in progress, as the others need this endpoint; the team can't
 *  be destroyed until then, either. */
ucc_status_t heddle_agree_free(heddle_agreement_t *agreement);

/** All of that in one call, which blocks. *bits has the endpoint's bits, and is given the agreed
 *  ones; failed and n_failed as in heddle_agree_test(). */
ucc_status_t heddle_team_agree(ucc_team_h team, uint64_t *bits, uint64_t *failed,
                               uint64_t *n_failed);

/* ------------------------------------------------------------------------------------------------
 * Teams: what the drafts had and 1.x dropped
 * ---------------------------------------------------------------------------------------------- */

enum heddle_team_params_field {
    HEDDLE_TEAM_PARAM_FIELD_THREAD_MODE = UCC_BIT(0),
    HEDDLE_TEAM_PARAM_FIELD_LOCALITY = UCC_BIT(1),
    HEDDLE_TEAM_PARAM_FIELD_MEMORY = UCC_BIT(2)
};

/** What ucc_team_params_t lacks; fields outside the mask are not read. */
typedef struct heddle_team_params {
    uint64_t mask;
    /** The draft's per-team thread mode: SINGLE promises that one thread at a time uses this
     *  endpoint even if the library was initialised with UCC_THREAD_MULTIPLE; MULTIPLE on a library
     *  with less is UCC_ERR_INVALID_PARAM. */
    ucc_thread_mode_t thread_mode;
    /** Where this endpoint will run. */
    heddle_locality_t locality;
    /** The drafts' memory per team: this endpoint's buffer (address NULL: the library allocates
     *  `bytes` and owns it), hints and constraints (a constraint that `address` breaks is an
     *  error). */
    struct {
        void *address;
        size_t bytes;
        uint64_t hints;
        uint64_t constraints;
    } memory;
} heddle_team_params_t;

/** ucc_team_create_post() with the fields above; `extra` may be NULL. */
ucc_status_t heddle_team_create_post(ucc_context_h *contexts, uint32_t n_contexts,
                                     const ucc_team_params_t *params,
                                     const heddle_team_params_t *extra, ucc_team_h *team);

/** The thread mode in force on this team handle. */
ucc_status_t heddle_team_get_thread_mode(ucc_team_h team, ucc_thread_mode_t *mode);

/** Endpoint ep's part of the team's memory (heddle_team_params_t::memory,
 *  heddle_group_params_t::symmetric_bytes). The pointer is valid in the whole process while
 *  endpoint ep holds its team. UCC_ERR_NOT_FOUND if that endpoint attached none, or as long as not
 *  all have joined (but the caller's own part is known at once).
 *      Of an endpoint of another process: where processes share memory (HEDDLE_NODE) and the part
 *  lies in a heap (symmetric_bytes, or heddle_alloc()), where this process has it mapped; a call
 *  may take some milliseconds. It stays memory as long as the caller holds its team, even if
 *  the other process dies. Elsewhere UCC_ERR_NOT_SUPPORTED; UCC_ERR_NO_RESOURCE if it can't be
 *  mapped. */
ucc_status_t heddle_team_memory(ucc_team_h team, uint64_t ep, void **address, size_t *bytes);

/* ------------------------------------------------------------------------------------------------
 * Memory for buffers
 *
 * Processes of one machine share a team's memory (HEDDLE_NODE), and reach each other's buffers if
 * these lie in memory from here. A large collective is then done as among threads, without copies
 * on the way, if all buffers of all its endpoints do. Where the buffers of one do not, or between
 * threads of one process, this memory is as good as any other.
 * ---------------------------------------------------------------------------------------------- */

/** Flags of heddle_alloc(), or-ed. */
#define HEDDLE_ALLOC_NEAR  UCC_BIT(0) /**< NULL rather than memory that others can't reach */
#define HEDDLE_ALLOC_TOUCH UCC_BIT(1) /**< all of it is zeroed, and so placed, by this call */

/** Memory for buffers. Its pages are placed on the NUMA node of the thread that touches them first,
 *  and are huge ones where the system gives these. What is in it is not said, unless
 *  HEDDLE_ALLOC_TOUCH is given. Any thread; before any team exists, too.
 *      Unless HEDDLE_NODE=n, or with HEDDLE_ALLOC_NEAR, it comes from a heap that other processes
 *  of this user can map when they meet it in a collective; if there is none (no memfd, descriptor
 *  or address space), and otherwise, it is private memory. The first collectives with buffers in a
 *  heap that a peer has not mapped yet take the other way.
 *      In the child of a fork, memory of a heap is the parent's: both see what either writes.
 *  @param [in]  bytes  0 counts as 1
 *  @param [in]  flags  HEDDLE_ALLOC_*; others are an error
 *  @return at a multiple of 128 bytes, of a page if `bytes` is at least one, of 2 MiB if it is at
 *          least that; NULL (logged): no memory, or none as the flags ask for. Released by
 *          heddle_free() */
void *heddle_alloc(size_t bytes, uint64_t flags);

/** heddle_alloc() for buffers of this endpoint's collectives: from a heap if endpoints of its team
 *  live in other processes of its node, else private memory. */
void *heddle_alloc_like(const heddle_ep_t *ep, size_t bytes, uint64_t flags);

/** Gives memory of heddle_alloc() back; NULL is nothing. Collectives that use it are over: else
 *  their result is not said, as whoever gets the memory next shares it with them. */
void heddle_free(void *memory);

/* ------------------------------------------------------------------------------------------------
 * Seeing inside
 * ---------------------------------------------------------------------------------------------- */

typedef enum {
    HEDDLE_INFO_BUILD = UCC_BIT(0),    /**< version, compiler, kernels chosen on this CPU */
    HEDDLE_INFO_TOPOLOGY = UCC_BIT(1), /**< the machine, or HEDDLE_TOPOLOGY */
    HEDDLE_INFO_TREES = UCC_BIT(2),    /**< trees for `endpoints` endpoints placed by topology */
    HEDDLE_INFO_CONFIG = UCC_BIT(3), /**< every variable: meaning, default, the value that a program
                                            started now would get, and where that comes from */
    HEDDLE_INFO_PLANS = UCC_BIT(4),  /**< which regime and protocol runs per collective and size */
    HEDDLE_INFO_NET =
        UCC_BIT(5), /**< which algorithm runs across `endpoints` processes (0: two) per
                                            collective and size; opens no network */
    HEDDLE_INFO_GPUS = UCC_BIT(
        6), /**< GPUs: those that HEDDLE_GPU names, or that the program uses; heddle_team_gpu() for
                         `endpoints` endpoints placed by topology, and which way their calls on devices take */
    HEDDLE_INFO_PROFILE = UCC_BIT(7), /**< the machine's profile: how its cores exchange large data,
                                         where that is known from, and what follows */
    HEDDLE_INFO_ALL = 0xff
} heddle_info_flags_t;

/** Measures this machine's profile, which says how its cores exchange large data, with two threads
 *  on two cores, and writes it to a file. HEDDLE_PROFILE=PATH then has teams use it; without it
 *  the library has its own, built in or measured in 45 ms (docs/performance.md). The machine should
 *  be quiet meanwhile.
 *  @param [in]  path     of the file, which is replaced as a whole; with a slash, HEDDLE_PROFILE
 *                        takes it for a path
 *  @param [in]  seconds  the time to take, about; a second is enough on a quiet machine
 *  @return UCC_ERR_INVALID_PARAM: path is NULL, or seconds is not positive and finite;
 *          UCC_ERR_NOT_SUPPORTED: there are no two cores, or no memory or threads; also where
 *          HEDDLE_TOPOLOGY describes another machine; UCC_ERR_NO_RESOURCE: the file can't be
 *          written */
ucc_status_t heddle_profile_measure(const char *path, double seconds);

/** HEDDLE_VERSION and HEDDLE_VERSION_STRING of the library that the program runs on, which may be
 *  newer than the headers that it was compiled with. */
unsigned heddle_version(void);
const char *heddle_version_string(void);

/** For headers: returns the process's only object of this name. The first caller makes it, and it
 *  is never destroyed. Modules that are loaded with names of their own (dlopen's RTLD_LOCAL) share
 *  it; dlclose no longer unloads them, since the object may hold what they have put into it.
 *  @param [in]  name  copied
 *  @param [in]  make  a function of the caller's module, called once, while other callers wait; it
 *                     may return NULL, and is then called again by the next caller. No exception
 *                     may leave it, and it must not call heddle_process_object() itself
 *  @return what make returned; NULL also if there is no memory, or if name or make is NULL */
void *heddle_process_object(const char *name, void *(*make)(void));

/** The line that says why a call failed: the last one of level ERROR that the calling thread has
 *  logged since heddle_forget_error(), without the prefix "[heddle ERROR] ", cut to some hundred
 *  characters. "" if there is none, or if errors are not logged (HEDDLE_LOG_LEVEL). Valid until the
 *  thread's next error. */
const char *heddle_last_error(void);
void heddle_forget_error(void);

/** Reports a wait that the library does not know of, such as one of threads for each other before
 *  they join: HEDDLE_STALL and HEDDLE_TIMEOUT then apply to it as to the library's own. Call it
 *  when the wait begins, and again each time that the wait has lasted for *next seconds.
 *  @param [in]     who     who waits, and for what: "barrier of the second stage, thread 3"
 *  @param [in]     whom    whom it waits for; NULL: another caller reports this wait, so no stall
 *                          line is due here
 *  @param [in]     waited  for how many seconds
 *  @param [in,out] next    0 when the wait begins; then the seconds of waiting after which to call
 *                          again, which may be infinite. When they have passed, a line is logged:
 *                          "stall: WHO has waited 10.0 s for WHOM"
 *  @return UCC_INPROGRESS: wait on; UCC_ERR_TIMED_OUT: the wait must end, and a line has been
 *          logged; UCC_ERR_INVALID_PARAM: who or next is NULL, or waited is negative or not finite;
 *          UCC_ERR_NO_MEMORY */
ucc_status_t heddle_watch_wait(const char *who, const char *whom, double waited, double *next);

/** Prints by which ways large data of the other processes of a team come to this one, and why not
 *  by a better one, a line for processes of which the same is to be said: near, in one copy as
 *  among threads, where all buffers lie in heaps (heddle_alloc()); far, by the kernel or by windows
 *  of memory that the processes share; or by the network. Of a team in one process nothing.
 *  @return UCC_ERR_INVALID_PARAM: stream is NULL, or the team is not active */
ucc_status_t heddle_team_print_ways(FILE *stream, ucc_team_h team);

/** Prints what this process knows of a team: which endpoints live in which process,
 *  heddle_team_print_ways(), and for each other process the transports that UCX has selected for
 *  each lane, and for what. A connection over which nothing has been sent is not there yet, and one
 *  may still change until the first messages have come.
 *  @return UCC_ERR_INVALID_PARAM: stream is NULL, or the team is not active */
ucc_status_t heddle_team_print(FILE *stream, ucc_team_h team);

/** What teams that span processes have made this process send and receive since it began (or since
 *  it was forked). Messages are those of collectives; their bytes are data, without headers.
 *  Credits are further messages, which tell how far this process has come, or that a team has
 *  failed. */
typedef struct heddle_net_traffic {
    uint64_t messages_sent;
    uint64_t bytes_sent;
    uint64_t credits_sent;
    uint64_t messages_received;
    uint64_t bytes_received;
} heddle_net_traffic_t;

/** May be called by any thread, at any time. What other threads send and receive meanwhile may be
 *  counted in part.
 *  @param [out] traffic  all 0 as long as there was no second process
 *  @return UCC_ERR_INVALID_PARAM: traffic is NULL */
ucc_status_t heddle_net_traffic(heddle_net_traffic_t *traffic);

/** Prints what `flags` (heddle_info_flags_t) ask for; endpoints == 0 means one per processor. */
ucc_status_t heddle_info_print(FILE *stream, uint64_t flags, uint32_t endpoints);

/** Asks a running process of this host, and all processes of its job that it knows or can reach,
 *  for whom they wait, and prints what they answer, and a verdict if there is one (docs/hangs.md).
 *  Waits 3 seconds at most; those that do not answer are listed. The process must belong to the
 *  caller's user, unless that is root. An error has been logged, and nothing is printed then.
 *  @return UCC_ERR_INVALID_PARAM: stream is NULL, pid is 0, or the process has another version
 *  @return UCC_ERR_NOT_FOUND: there is no such process
 *  @return UCC_ERR_NOT_SUPPORTED: it has no teams of several processes, or can't be asked
 *  @return UCC_ERR_NO_RESOURCE: it belongs to another user, or takes no more questions
 *  @return UCC_ERR_TIMED_OUT: it is stopped; or, of one whose teams use the network, none of
 *          its threads waits for other processes */
ucc_status_t heddle_job_print(FILE *stream, uint32_t pid);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

/* Names of the drafts, ucc_team_get_size() and its like among them, without which 1.x does; define
 * HEDDLE_NO_DRAFTS where they are in the way. */
#ifndef HEDDLE_NO_DRAFTS
#include <heddle/drafts_names.h>
#endif
#endif
