// drafts_cxx.cpp: a C++ program written to the later draft compiles and runs; sets of values are or-ed without
// casts.
#include <heddle/drafts.h>

#include <cstdio>
#include <cstring>

namespace {

int errors;

void expect(bool condition, const char *what) {
    if (!condition) {
        std::fprintf(stderr, "drafts_cxx: not true: %s\n", what);
        errors++;
    }
}

// Of one participant: nothing has to be gathered, and the library does not ask.
void reduce(ucc_lib_h lib) {
    ucc_context_params_t wanted = {};
    ucc_team_params_t params = {};
    ucc_context_h context = nullptr;
    ucc_team_h team = nullptr;
    ucc_coll_req_h request = nullptr;
    ucc_status_t status;
    double source[3] = {1.0, 2.0, 3.0}, result[3] = {};
    wanted.mask = UCC_CONTEXT_TYPE;
    wanted.ctx_type = UCC_CONTEXT_SHARED;
    expect(ucc_context_create(lib, &wanted, nullptr, &context) == UCC_OK, "ucc_context_create");
    params.oob_collective.participants = 1;
    params.mem_params.constraints = UCC_MEM_ALIGN32 | UCC_MEM_SYMMETRIC;
    expect(ucc_team_create_post(&context, 1, params, &team) == UCC_OK, "ucc_team_create_post");
    while ((status = ucc_team_create_test(team)) == UCC_INPROGRESS) {
        ucc_context_progress(context);
    }
    expect(status == UCC_OK, "ucc_team_create_test");

    ucc_coll_op_args_t args = {};
    args.coll_type = UCC_ALLREDUCE;
    args.ext_args.buffer_info.src_buffer = source;
    args.ext_args.buffer_info.dst_buffer = result;
    args.ext_args.reduction_info = {UCC_DT_FLOAT64, UCC_OP_SUM, 3};
    expect(ucc_collective_init(&args, &request, team) == UCC_OK, "ucc_collective_init");
    expect(ucc_collective_post(request) == UCC_OK, "ucc_collective_post");
    while ((status = ucc_collective_test(request)) == UCC_INPROGRESS) {
        ucc_context_progress(context);
    }
    expect(status == UCC_OK && std::memcmp(source, result, sizeof(source)) == 0, "the sum");
    expect(ucc_collective_finalize(request) == UCC_OK, "ucc_collective_finalize");
    expect(ucc_team_destroy(team) == UCC_OK, "ucc_team_destroy");
    expect(ucc_context_destroy(context) == UCC_OK, "ucc_context_destroy");
}

} // namespace

int main() {
    ucc_lib_params_t params = {};
    ucc_lib_attrib_t attribs = {};
    ucc_lib_h lib = nullptr;
    params.mask = UCC_THREAD_MODE | UCC_COLL_TYPES | UCC_REDUCTION_TYPES;
    params.thread_mode = UCC_LIB_THREAD_MULTIPLE;
    params.coll_types = UCC_ALLREDUCE | UCC_BARRIER;
    params.reduction_op_types = UCC_OP_SUM | UCC_OP_MAX;
    expect(ucc_init(&params, nullptr, &lib) == UCC_OK, "ucc_init");
    expect(ucc_lib_get_attribs(lib, &attribs) == UCC_OK, "ucc_lib_get_attribs");
    expect(attribs.provided_coll_types == (UCC_ALLREDUCE | UCC_BARRIER), "coll_types");
    expect(attribs.provided_reduction_types == (UCC_OP_SUM | UCC_OP_MAX), "reduction_op_types");
    reduce(lib);
    expect(ucc_finalize(lib) == UCC_OK, "ucc_finalize");
    return errors != 0;
}
