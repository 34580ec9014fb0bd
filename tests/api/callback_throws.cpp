// callback_throws.cpp: an exception that leaves a datatype's callback reaches whoever called the library;
// its team has failed, and another team's reductions go on.
#include <heddle/heddle.h>

#include <cstdio>
#include <stdexcept>

namespace {

enum { N = 2 };
bool throws;
int errors;

void expect(bool condition, const char *what) {
    if (!condition) {
        std::fprintf(stderr, "callback_throws: not true: %s\n", what);
        errors++;
    }
}

ucc_status_t add(const ucc_reduce_cb_params_t *params) {
    if (throws) {
        throw std::runtime_error("a reduction that fails");
    }
    for (size_t i = 0; i < params->count; i++) {
        static_cast<int *>(params->dst)[i] =
            static_cast<int *>(params->src1)[i] + static_cast<int *>(params->src2)[i];
    }
    return UCC_OK;
}

// One driver for all endpoints, on one context. Returns how many exceptions came out.
int reduce(ucc_datatype_t dt, ucc_status_t status[N]) {
    heddle_group_params_t params = {};
    heddle_group_t *group = nullptr;
    heddle_ep_t *ep[N];
    ucc_coll_req_h request[N];
    int source[N], result[N], caught = 0;
    params.endpoints = N;
    params.contexts = 1;
    expect(heddle_group_create(&params, &group) == UCC_OK, "heddle_group_create");
    for (int i = 0; i < N; i++) {
        expect(heddle_join(group, static_cast<uint32_t>(i), &ep[i]) == UCC_OK, "heddle_join");
    }
    for (int i = 0; i < N; i++) {
        ucc_coll_args_t args = {};
        source[i] = i + 1;
        args.coll_type = UCC_COLL_TYPE_ALLREDUCE;
        args.src.info = {&source[i], 1, dt, UCC_MEMORY_TYPE_HOST};
        args.dst.info = {&result[i], 1, dt, UCC_MEMORY_TYPE_HOST};
        expect(ucc_collective_init(&args, &request[i], heddle_ep_team(ep[i])) == UCC_OK, "init");
        try {
            (void)ucc_collective_post(request[i]);
        } catch (const std::runtime_error &) {
            caught++;
        }
    }
    for (int i = 0; i < N; i++) {
        while (ucc_collective_test(request[i]) == UCC_INPROGRESS) {
            try {
                ucc_context_progress(heddle_ep_context(ep[i]));
            } catch (const std::runtime_error &) {
                caught++;
            }
        }
        status[i] = ucc_collective_test(request[i]);
        expect(status[i] != UCC_OK || result[i] == 3, "the sum");
        expect(ucc_collective_finalize(request[i]) == UCC_OK, "finalize");
    }
    for (int i = 0; i < N; i++) {
        expect(heddle_leave(ep[i]) == UCC_OK, "heddle_leave");
    }
    heddle_group_destroy(group);
    return caught;
}

} // namespace

int main() {
    ucc_generic_dt_ops_t ops = {};
    ucc_datatype_t dt;
    ucc_status_t status[N];
    ops.mask = UCC_GENERIC_DT_OPS_FIELD_FLAGS;
    ops.flags = UCC_GENERIC_DT_OPS_FLAG_CONTIG | UCC_GENERIC_DT_OPS_FLAG_REDUCE;
    ops.contig_size = sizeof(int);
    ops.reduce.cb = add;
    expect(ucc_dt_create_generic(&ops, nullptr, &dt) == UCC_OK, "ucc_dt_create_generic");
    throws = true;
    expect(reduce(dt, status) == 1, "one exception comes out");
    expect(status[0] == UCC_ERR_NO_MESSAGE && status[1] == UCC_ERR_NO_MESSAGE, "the team failed");
    throws = false;
    expect(reduce(dt, status) == 0, "no exception");
    expect(status[0] == UCC_OK && status[1] == UCC_OK, "another team works");
    ucc_dt_destroy(dt);
    return errors != 0;
}
