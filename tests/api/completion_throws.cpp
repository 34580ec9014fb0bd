// completion_throws.cpp: an exception that leaves a completion callback reaches whoever called the library;
// what finished in the same round is completed all the same.
#include <heddle/heddle.h>

#include <cstdio>
#include <stdexcept>

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

} // namespace

int main() {
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
    int caught = count_exceptions([&] { ucc_context_progress(heddle_ep_context(ep[0])); });
    expect(caught == 1, "the exception comes out of the call");
    expect(called == N - 1, "all callbacks were called");
    for (int i = 0; i < N; i++) {
        expect(ucc_collective_test(request[i]) == UCC_OK, "the operation is complete");
        expect(ucc_collective_finalize(request[i]) == UCC_OK, "finalize");
        expect(heddle_leave(ep[i]) == UCC_OK, "heddle_leave");
    }
    heddle_group_destroy(group);
    return errors != 0;
}
