/* tbb.cpp: oneTBB's tasks as endpoints; a task that waits for a collective is suspended, and
 * resumed by its completion.
 *
 * No worker is blocked by a thousand tasks that wait: tbb::task::suspend() takes the task off its
 * thread, with its stack. While all are suspended somebody has to progress: a task that enqueues
 * itself again and again, behind everything that is ready.
 *
 * usage: tbb [tasks [collectives [threads]]]      (default 1000, 100 and 2)
 */
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <heddle/heddle.h>
#include <stdexcept>
#include <string>
#include <vector>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

namespace {

namespace tbb = oneapi::tbb;

void check(ucc_status_t status, const char *what) {
    if (status != UCC_OK) {
        throw std::runtime_error(std::string(what) + ": " + ucc_status_string(status));
    }
}

/* Lives on the stack of the task that waits. */
struct waiting {
    ucc_coll_req_h request;
    tbb::task::suspend_point task;
    ucc_status_t status;
};

void completed(void *data, ucc_status_t status) {
    auto *w = static_cast<waiting *>(data);
    auto task = w->task;
    w->status = status;
    ucc_collective_finalize(w->request); /* here, since nobody may while its callback runs */
    tbb::task::resume(task);             /* *w may be gone */
}

/* Returns when the collective is complete; the calling thread does other tasks meanwhile. */
void await(heddle_ep_t *ep, ucc_coll_args_t args) {
    waiting w = {};
    args.mask |= UCC_COLL_ARGS_FIELD_CB;
    args.cb = {completed, &w};
    check(ucc_collective_init(&args, &w.request, heddle_ep_team(ep)), "ucc_collective_init");
    tbb::task::suspend([&w](tbb::task::suspend_point here) {
        ucc_coll_req_h request = w.request;
        waiting *mine = &w;
        w.task = here;
        ucc_status_t status = ucc_collective_post(request);
        if (status != UCC_OK) { /* no callback comes */
            mine->status = status;
            ucc_collective_finalize(request);
            tbb::task::resume(here);
        }
    });
    check(w.status, "a collective");
}

/* Sums, and now and then a barrier. Returns how many results were wrong. */
uint32_t work(heddle_ep_t *ep, uint32_t collectives) {
    uint64_t n = heddle_ep_size(ep), me = heddle_ep_index(ep);
    uint32_t wrong = 0;
    for (uint32_t round = 0; round < collectives; round++) {
        ucc_coll_args_t args = {};
        uint64_t in = me + round, out = 0;
        args.coll_type = round % 3 == 2 ? UCC_COLL_TYPE_BARRIER : UCC_COLL_TYPE_ALLREDUCE;
        args.op = UCC_OP_SUM;
        args.src.info = {&in, 1, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST};
        args.dst.info = {&out, 1, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST};
        await(ep, args);
        wrong += round % 3 != 2 && out != n * (n - 1) / 2 + n * round;
    }
    return wrong;
}

int run(uint32_t n, uint32_t collectives, int threads) {
    heddle_group_params_t params = {};
    params.endpoints = n;
    params.contexts = 1;
    params.thread_mode = UCC_THREAD_MULTIPLE; /* tasks go from thread to thread */
    heddle_group_t *group = nullptr;
    check(heddle_group_create(&params, &group), "heddle_group_create");
    std::vector<heddle_ep_t *> eps(n);
    for (uint32_t i = 0; i < n; i++) {
        check(heddle_join(group, i, &eps[i]), "heddle_join");
    }
    check(heddle_group_destroy(group), "heddle_group_destroy");

    tbb::global_control workers(tbb::global_control::max_allowed_parallelism,
                                static_cast<size_t>(threads));
    tbb::task_arena arena(threads);
    std::atomic<uint32_t> left{n}, wrong{0};
    auto began = std::chrono::steady_clock::now();
    arena.execute([&] {
        tbb::task_group group_of_tasks;
        for (heddle_ep_t *ep : eps) {
            group_of_tasks.run([&, ep] {
                wrong += work(ep, collectives);
                left--;
            });
        }
        std::function<void()> progress = [&] {
            check(heddle_progress(eps[0]), "heddle_progress");
            if (left != 0) {
                arena.enqueue(group_of_tasks.defer(progress));
            }
        };
        arena.enqueue(group_of_tasks.defer(progress));
        group_of_tasks.wait();
    });
    std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - began;
    for (auto *ep : eps) {
        check(heddle_leave(ep), "heddle_leave");
    }
    std::printf(
        "%u TBB tasks on %d threads, %u collectives each: %.2f us per endpoint and collective\n", n,
        threads, collectives, took.count() / n / collectives);
    std::puts(wrong == 0 ? "verified" : "WRONG");
    return wrong == 0 ? 0 : 1;
}

/* A task that waits keeps its stack, which is two mappings: it, and what guards it. A process may
 * have so many, and needs some itself; oneTBB does not look whether it got a stack.
 */
void check_stacks(int tasks) {
    constexpr long others = 1000;
    const char *path = "/proc/sys/vm/max_map_count";
    long maps;
    if (std::ifstream(path) >> maps && tasks > (maps - others) / 2) {
        throw std::runtime_error(std::to_string(tasks) + " tasks have too many stacks: " + path +
                                 " is " + std::to_string(maps) + ", enough for " +
                                 std::to_string((maps - others) / 2));
    }
}

} // namespace

int main(int argc, char **argv) {
    int n = argc > 1 ? std::atoi(argv[1]) : 1000;
    int collectives = argc > 2 ? std::atoi(argv[2]) : 100;
    int threads = argc > 3 ? std::atoi(argv[3]) : 2;
    if (n < 1 || collectives < 1 || threads < 1) {
        std::fprintf(stderr, "usage: tbb [tasks [collectives [threads]]]\n");
        return 2;
    }
    try {
        check_stacks(n);
        return run(static_cast<uint32_t>(n), static_cast<uint32_t>(collectives), threads);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "tbb: %s\n", e.what());
        return 2;
    }
}
