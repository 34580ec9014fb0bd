/* coroutines.cpp: C++20's coroutines as endpoints; a collective is something that they co_await.
 *
 * A thousand coroutines are run by a few threads, each of which resumes whatever is ready and
 * progresses its context when nothing is. A coroutine that awaits is not on any thread; whichever
 * thread sees its collective complete makes it ready again, and whichever is free goes on with it.
 *
 * usage: coroutines [coroutines [collectives [threads]]]      (default 1000, 100 and 2)
 */
#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <heddle/heddle.h>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

void check(ucc_status_t status, const char *what) {
    if (status != UCC_OK) {
        throw std::runtime_error(std::string(what) + ": " + ucc_status_string(status));
    }
}

/* Coroutines that can go on. */
class ready_queue {
  public:
    void push(std::coroutine_handle<> coroutine) {
        std::lock_guard guard(lock_);
        ready_.push_back(coroutine);
    }
    std::coroutine_handle<> pop() { /* null: none */
        std::lock_guard guard(lock_);
        if (ready_.empty()) {
            return nullptr;
        }
        auto first = ready_.front();
        ready_.pop_front();
        return first;
    }

  private:
    std::mutex lock_;
    std::deque<std::coroutine_handle<>> ready_;
};

/* co_await collective(ep, args, ready): posts it, and goes on when it is complete. Throws if it
 * failed. */
class collective {
  public:
    collective(heddle_ep_t *ep, const ucc_coll_args_t &args, ready_queue &ready)
        : ep_(ep), args_(args), ready_(ready) {
    }
    collective(const collective &) = delete;
    collective &operator=(const collective &) = delete;

    bool await_ready() const noexcept {
        return false;
    }
    void await_suspend(std::coroutine_handle<> coroutine) {
        coroutine_ = coroutine;
        args_.mask |= UCC_COLL_ARGS_FIELD_CB;
        args_.cb = {&collective::completed, this};
        check(ucc_collective_init(&args_, &request_, heddle_ep_team(ep_)), "ucc_collective_init");
        ucc_coll_req_h request = request_;
        /* From here on the coroutine may run on another thread, and this object be gone. */
        if (ucc_status_t status = ucc_collective_post(request); status != UCC_OK) {
            ucc_collective_finalize(request); /* no callback comes */
            check(status, "ucc_collective_post");
        }
    }
    void await_resume() const {
        check(status_, "a collective");
    }

  private:
    static void completed(void *data, ucc_status_t status) {
        auto *me = static_cast<collective *>(data);
        me->status_ = status;
        ucc_collective_finalize(me->request_); /* here, since nobody may while its callback runs */
        me->ready_.push(me->coroutine_);
    }

    heddle_ep_t *ep_;
    ucc_coll_args_t args_;
    ready_queue &ready_;
    ucc_coll_req_h request_ = nullptr;
    ucc_status_t status_ = UCC_OK;
    std::coroutine_handle<> coroutine_;
};

/* A coroutine that nobody awaits: it starts suspended, and frees itself. */
struct endpoint_task {
    struct promise_type {
        endpoint_task get_return_object() {
            return {std::coroutine_handle<promise_type>::from_promise(*this)};
        }
        std::suspend_always initial_suspend() noexcept {
            return {};
        }
        std::suspend_never final_suspend() noexcept {
            return {};
        }
        void return_void() {
        }
        void unhandled_exception() {
            std::terminate();
        }
    };
    std::coroutine_handle<> handle;
};

struct program {
    ready_queue ready;
    std::atomic<uint32_t> left{0}, wrong{0};
    uint32_t collectives = 100;
};

ucc_coll_buffer_info_t one(uint64_t *number) {
    return {number, 1, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST};
}

/* What an endpoint does reads as if it had a thread. */
endpoint_task work(program &p, heddle_ep_t *ep) {
    uint64_t n = heddle_ep_size(ep), me = heddle_ep_index(ep);
    for (uint32_t round = 0; round < p.collectives; round++) {
        ucc_coll_args_t args = {};
        uint64_t in = me + round, out = 0, right = 0;
        switch (round % 3) {
        case 0:
            args.coll_type = UCC_COLL_TYPE_ALLREDUCE;
            args.op = UCC_OP_SUM;
            args.src.info = one(&in);
            args.dst.info = one(&out);
            right = n * (n - 1) / 2 + n * round;
            break;
        case 1:
            args.coll_type = UCC_COLL_TYPE_BCAST;
            args.root = round % n;
            args.src.info = one(&in);
            break;
        default:
            args.coll_type = UCC_COLL_TYPE_BARRIER;
        }
        co_await collective(ep, args, p.ready);
        if (round % 3 == 0) {
            p.wrong += out != right;
        } else if (round % 3 == 1) {
            p.wrong += in != round % n + round;
        }
    }
    p.left--;
}

void drive(program &p, heddle_ep_t *any_of_my_context) {
    while (p.left != 0) {
        if (auto coroutine = p.ready.pop()) {
            coroutine.resume();
        } else {
            check(heddle_progress(any_of_my_context), "heddle_progress");
        }
    }
}

int run(uint32_t n, uint32_t collectives, uint32_t threads) {
    heddle_group_params_t params = {};
    params.endpoints = n;
    params.contexts = threads;
    params.thread_mode = UCC_THREAD_MULTIPLE; /* coroutines go from thread to thread */
    heddle_group_t *group = nullptr;
    check(heddle_group_create(&params, &group), "heddle_group_create");
    program p;
    p.left = n;
    p.collectives = collectives;
    std::vector<heddle_ep_t *> eps(n);
    for (uint32_t i = 0; i < n; i++) {
        check(heddle_join(group, i, &eps[i]), "heddle_join");
        p.ready.push(work(p, eps[i]).handle);
    }
    check(heddle_group_destroy(group), "heddle_group_destroy");

    auto began = std::chrono::steady_clock::now();
    std::vector<std::thread> drivers;
    for (uint32_t i = 0; i < threads; i++) { /* endpoint e has context e * threads / n */
        heddle_ep_t *ep = eps[(static_cast<uint64_t>(i) * n + threads - 1) / threads];
        drivers.emplace_back([&p, ep] { drive(p, ep); });
    }
    for (auto &driver : drivers) {
        driver.join();
    }
    std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - began;
    for (auto *ep : eps) {
        check(heddle_leave(ep), "heddle_leave");
    }
    std::printf(
        "%u coroutines on %u threads, %u collectives each: %.2f us per endpoint and collective\n",
        n, threads, collectives, took.count() / n / collectives);
    std::puts(p.wrong == 0 ? "verified" : "WRONG");
    return p.wrong == 0 ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
    int n = argc > 1 ? std::atoi(argv[1]) : 1000;
    int collectives = argc > 2 ? std::atoi(argv[2]) : 100;
    int threads = argc > 3 ? std::atoi(argv[3]) : n < 2 ? 1 : 2;
    if (n < 1 || collectives < 1 || threads < 1 || threads > n) {
        std::fprintf(stderr, "usage: coroutines [coroutines [collectives [threads]]]\n");
        return 2;
    }
    try {
        return run(static_cast<uint32_t>(n), static_cast<uint32_t>(collectives),
                   static_cast<uint32_t>(threads));
    } catch (const std::exception &e) {
        std::fprintf(stderr, "coroutines: %s\n", e.what());
        return 2;
    }
}
