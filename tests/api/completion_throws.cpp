// completion_throws.cpp: an exception that leaves a completion callback reaches whoever called the library;
// what finished in the same round is completed all the same, and an execution engine goes on.
#include <heddle/heddle.h>

#include <cstdio>
#include <stdexcept>

extern "C" { // threads/stall.h
void hd_stall_help(bool helps);
bool hd_stall_is_helping(void);
}

namespace {

enum { N = 4 };
int errors, called;

void expect(bool condition, const char *what) {
    if (!condition) {
        std::fprintf(stderr, "completion_throws: not true: %s\n", what);
        errors++;
    }
}

// All but the last operation, whose post finds that everybody has come.
void count_and_throw(void *, ucc_status_t status) {
    expect(status == UCC_OK, "the status that a callback is given");
    if (called++ == 0) {
        throw std::runtime_error("a callback that fails");
    }
}

// Calls until nothing is thrown any more; returns how many exceptions came out.
template <typename Call> int count_exceptions(Call call) {
    for (int caught = 0;; caught++) {
        try {
            call();
            return caught;
        } catch (const std::runtime_error &) {
        }
    }
}

// On one context, by one driver.
void throw_among_several() {
    heddle_group_params_t params = {};
    heddle_group_t *group = nullptr;
    heddle_ep_t *ep[N];
    ucc_coll_req_h request[N];
    params.endpoints = N;
    params.contexts = 1;
    expect(heddle_group_create(&params, &group) == UCC_OK, "heddle_group_create");
    for (int i = 0; i < N; i++) {
        expect(heddle_join(group, static_cast<uint32_t>(i), &ep[i]) == UCC_OK, "heddle_join");
    }
    for (int i = 0; i < N; i++) {
        ucc_coll_args_t args = {};
        args.coll_type = UCC_COLL_TYPE_BARRIER;
        if (i < N - 1) {
            args.mask = UCC_COLL_ARGS_FIELD_CB;
            args.cb = {count_and_throw, nullptr};
        }
        expect(ucc_collective_init(&args, &request[i], heddle_ep_team(ep[i])) == UCC_OK, "init");
        expect(ucc_collective_post(request[i]) == UCC_OK, "post");
    }
    hd_stall_help(true); // as if for another thread
    int caught = count_exceptions([&] { ucc_context_progress(heddle_ep_context(ep[0])); });
    expect(caught == 1, "the exception comes out of the call");
    expect(!hd_stall_is_helping(), "what the caller does from now on, it does for itself");
    expect(called == N - 1, "all callbacks were called");
    for (int i = 0; i < N; i++) {
        expect(ucc_collective_test(request[i]) == UCC_OK, "the operation is complete");
        expect(ucc_collective_finalize(request[i]) == UCC_OK, "finalize");
        expect(heddle_leave(ep[i]) == UCC_OK, "heddle_leave");
    }
    heddle_group_destroy(group);
}

void throw_once(void *data, ucc_status_t) {
    bool *thrown = static_cast<bool *>(data);
    expect(!hd_stall_is_helping(), "a callback waits for itself");
    if (!*thrown) {
        *thrown = true;
        throw std::runtime_error("a callback that fails");
    }
}

// In a team of one a collective is over inside its start.
void throw_in_a_start() {
    enum { OPERATIONS = 3 };
    heddle_group_params_t params = {};
    heddle_group_t *group = nullptr;
    heddle_ep_t *ep;
    ucc_ee_params_t ee_params = {};
    ucc_ee_h ee;
    ucc_coll_req_h request[OPERATIONS];
    ucc_ev_t event = {};
    bool thrown = false;
    params.endpoints = 1;
    expect(heddle_group_create(&params, &group) == UCC_OK, "heddle_group_create");
    expect(heddle_join(group, 0, &ep) == UCC_OK, "heddle_join");
    ee_params.ee_type = UCC_EE_CPU_THREAD;
    expect(ucc_ee_create(heddle_ep_team(ep), &ee_params, &ee) == UCC_OK, "ucc_ee_create");
    event.ev_type = UCC_EVENT_COMPUTE_COMPLETE;
    for (int i = 0; i < OPERATIONS; i++) {
        ucc_coll_args_t args = {};
        args.coll_type = UCC_COLL_TYPE_BARRIER;
        args.mask = UCC_COLL_ARGS_FIELD_CB;
        args.cb = {throw_once, &thrown};
        expect(ucc_collective_init(&args, &request[i], heddle_ep_team(ep)) == UCC_OK, "init");
        event.req = request[i];
        expect(ucc_collective_triggered_post(ee, &event) == UCC_OK, "triggered post");
        expect(ucc_ee_set_event(ee, &event) == UCC_OK, "ucc_ee_set_event");
    }
    int caught = 0;
    hd_stall_help(true);
    for (int i = 0; i < 100; i++) {
        caught += count_exceptions([&] { ucc_context_progress(heddle_ep_context(ep)); });
        if (i == 0) {
            hd_stall_help(true);
        }
    }
    expect(hd_stall_is_helping(), "who returns from callbacks goes on helping");
    hd_stall_help(false);
    expect(caught == 1, "the exception comes out of the call");
    for (int i = 0; i < OPERATIONS; i++) {
        expect(ucc_collective_test(request[i]) == UCC_OK, "the triggered operation is complete");
    }
    expect(ucc_ee_destroy(ee) == UCC_OK, "ucc_ee_destroy");
    for (int i = 0; i < OPERATIONS; i++) {
        expect(ucc_collective_finalize(request[i]) == UCC_OK, "finalize");
    }
    expect(heddle_leave(ep) == UCC_OK, "heddle_leave");
    heddle_group_destroy(group);
}

} // namespace

int main() {
    throw_among_several();
    throw_in_a_start();
    return errors != 0;
}
