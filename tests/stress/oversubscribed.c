/* oversubscribed.c: 64 threads on two processors, each an endpoint, in the loops that any client
 * of UCC writes: post, then test and progress until done. 10,000 barriers
 * end, and allreduces are right.
 */
#include "stress.h"

#include "../support/driver.h"

#include <sched.h>

enum { THREADS = 64, PROCESSORS = 2, BARRIERS = 10000, ALLREDUCES = 2000 };

typedef struct run {
    world_t *world;
    uint64_t barriers, allreduces;
} run_t;

static void collective(const run_t *run, uint32_t index, ucc_coll_args_t *args) {
    ucc_coll_req_h request;
    must(ucc_collective_init(args, &request, run->world->teams[index]), "init");
    must(ucc_collective_post(request), "post");
    ucc_status_t status;
    while ((status = ucc_collective_test(request)) == UCC_INPROGRESS) {
        ucc_context_progress(world_context(run->world, index));
    }
    stress_expect(status, UCC_OK, "status");
    must(ucc_collective_finalize(request), "finalize");
}

static void barriers(void *arg, uint32_t index) {
    const run_t *run = arg;
    for (uint64_t i = 0; i < run->barriers; i++) {
        ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_BARRIER};
        collective(run, index, &args);
    }
}

static void allreduces(void *arg, uint32_t index) {
    const run_t *run = arg;
    for (uint64_t i = 0; i < run->allreduces; i++) {
        int64_t mine = (int64_t)(index * 31 + i), sum = 0, wanted = 0;
        ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_ALLREDUCE, .op = UCC_OP_SUM};
        args.src.info = (ucc_coll_buffer_info_t){&mine, 1, UCC_DT_INT64, UCC_MEMORY_TYPE_HOST};
        args.dst.info = (ucc_coll_buffer_info_t){&sum, 1, UCC_DT_INT64, UCC_MEMORY_TYPE_HOST};
        collective(run, index, &args);
        for (uint32_t e = 0; e < THREADS; e++) {
            wanted += (int64_t)(e * 31 + i);
        }
        if (sum != wanted) {
            stress_error("allreduce %llu: %lld instead of %lld", (unsigned long long)i,
                         (long long)sum, (long long)wanted);
        }
    }
}

/* The first two processors that we may use; threads inherit it. */
static void restrict_processors(void) {
    cpu_set_t allowed, two;
    CPU_ZERO(&two);
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
        return;
    }
    for (size_t i = 0, n = 0; i < CPU_SETSIZE && n < PROCESSORS; i++) {
        if (CPU_ISSET(i, &allowed)) {
            CPU_SET(i, &two);
            n++;
        }
    }
    sched_setaffinity(0, sizeof(two), &two);
}

int main(int argc, char **argv) {
    stress_begin(argc, argv);
    restrict_processors();
    run_t run = {.barriers = stress_scaled(BARRIERS), .allreduces = stress_scaled(ALLREDUCES)};
    run.world = world_create(&(world_params_t){.size = THREADS, .form = WORLD_OOB});
    stress_phase("barriers", 200);
    double t0 = test_now();
    driver_threads(THREADS, barriers, &run);
    double t1 = test_now();
    stress_phase("allreduces", 100);
    driver_threads(THREADS, allreduces, &run);
    double t2 = test_now();
    stress_phase("the end", 60);
    world_destroy(run.world);
    printf("oversubscribed: %d threads on %d processors: %llu barriers, %.1f us each; %llu "
           "allreduces, %.1f us each\n",
           THREADS, PROCESSORS, (unsigned long long)run.barriers,
           (t1 - t0) * 1e6 / (double)run.barriers, (unsigned long long)run.allreduces,
           (t2 - t1) * 1e6 / (double)run.allreduces);
    return stress_end();
}
