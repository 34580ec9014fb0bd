/* drafts.c: what the inline calls of drafts.h are made of, and the drafts' spellings of calls of
 * 1.x.
 *
 * A draft's call becomes a call of 1.x here: sets and numbers are translated, sizes in bytes become
 * counts, endpoints' labels their numbers. What the draft's arguments get wrong is logged by the
 * draft's names; everything else is found by whoever finds it in a call of 1.x.
 */
#define HEDDLE_DRAFT_KEEP_1X
#include <heddle/drafts.h>

#include "api/api.h"
#include "core/dtype.h"

#include <sched.h>
#include <string.h>

/* --- the same calls by other names ------------------------------------------------------------ */

ucc_status_t ucc_lib_get_attribs(ucc_lib_h lib, ucc_lib_attrib_t *attr) {
    return ucc_lib_get_attr(lib, attr);
}

ucc_status_t ucc_context_get_attribs(ucc_context_h context, ucc_context_attrib_t *attr) {
    return ucc_context_get_attr(context, attr);
}

ucc_status_t ucc_team_get_attribs(ucc_team_h team, ucc_team_attrib_t *attr) {
    return ucc_team_get_attr(team, attr);
}

ucc_status_t ucc_get_team_attribs(ucc_team_h team, ucc_team_attrib_t *attr) {
    return ucc_team_get_attr(team, attr);
}

ucc_status_t ucc_get_team_size(ucc_team_h team, uint32_t *size) {
    return ucc_team_get_size(team, size);
}

ucc_status_t ucc_get_team_my_ep(ucc_team_h team, uint64_t *ep) {
    return ucc_team_get_my_ep(team, ep);
}

ucc_status_t ucc_get_team_all_eps(ucc_team_h team, uint64_t **eps, uint64_t *num_eps) {
    return ucc_team_get_all_eps(team, eps, num_eps);
}

/* --- values ----------------------------------------------------------------------------------- */

/* By the number in the drafts' lists. */
static const uint8_t types[] = {HD_BARRIER,  HD_BCAST,     HD_ALLREDUCE, HD_REDUCE,
                                HD_ALLTOALL, HD_ALLGATHER, HD_GATHER,    HD_SCATTER,
                                HD_MCAST,    HD_FANIN,     HD_FANOUT};
static const ucc_reduction_op_t ops[] = {UCC_OP_MAX,  UCC_OP_MIN,    UCC_OP_SUM,   UCC_OP_PROD,
                                         UCC_OP_BAND, UCC_OP_BOR,    UCC_OP_BXOR,  UCC_OP_LAND,
                                         UCC_OP_LOR,  UCC_OP_LXOR,   UCC_OP_BAND,  UCC_OP_BOR,
                                         UCC_OP_BXOR, UCC_OP_MAXLOC, UCC_OP_MINLOC};
enum { N_TYPES = sizeof(types) / sizeof(types[0]), N_OPS = sizeof(ops) / sizeof(ops[0]) };
/* 1.x reports these where a program has asked for none in particular; mcast is not among them. */
enum { ALL_OF_1X = (1 << 16) - 1 };

_Static_assert(UCC_BIT(N_TYPES) == UCC_COLL_LAST, "one entry for each of the drafts' collectives");
_Static_assert(UCC_BIT(N_OPS) == UCC_OP_LAST_PREDEFINED, "and for each operation");
_Static_assert((int)UCC_DT_LAST_PREDEFINED == 13 &&
                   UCC_PREDEFINED_DT(HEDDLE_DRAFT_DT_FLOAT64) == UCC_DT_FLOAT64 &&
                   UCC_PREDEFINED_DT(HEDDLE_DRAFT_DT_UINT8) == UCC_DT_UINT8,
               "datatypes have the same numbers");

uint64_t heddle_draft_types_to_1x(uint64_t set) {
    uint64_t result = 0;
    for (int i = 0; i < N_TYPES; i++) {
        result |= set >> i & 1 ? (uint64_t)hd_coll[types[i]].bit : 0;
    }
    return result;
}

uint64_t heddle_draft_types_from_1x(uint64_t set) {
    uint64_t result = 0;
    set |= (set & ALL_OF_1X) == ALL_OF_1X ? (uint64_t)UCC_COLL_TYPE_MCAST : 0;
    for (int i = 0; i < N_TYPES; i++) {
        result |= set & (uint64_t)hd_coll[types[i]].bit ? UCC_BIT(i) : 0;
    }
    return result;
}

uint64_t heddle_draft_ops_to_1x(uint64_t set) {
    uint64_t result = 0;
    for (int i = 0; i < N_OPS; i++) {
        result |= set >> i & 1 ? UCC_BIT(ops[i]) : 0;
    }
    return result;
}

uint64_t heddle_draft_ops_from_1x(uint64_t set) {
    uint64_t result = 0;
    for (int i = 0; i < N_OPS; i++) {
        result |= set >> ops[i] & 1 ? UCC_BIT(i) : 0;
    }
    return result;
}

/* --- libraries, contexts, teams --------------------------------------------------------------- */

ucc_status_t heddle_draft_config(const char *env_prefix, const char *filename,
                                 heddle_draft_lib_config_t **config) {
    if (!env_prefix || !*env_prefix) {
        return ucc_lib_config_read(NULL, filename, config);
    }
    /* the '_' behind it may be the program's, too */
    const char *behind = env_prefix[strlen(env_prefix) - 1] == '_' ? "" : "_";
    return hd_lib_config_read("UCC_", env_prefix, behind, filename, config);
}

ucc_status_t heddle_draft_context(ucc_lib_h lib, const ucc_context_params_t *params,
                                  const heddle_draft_context_config_t *config,
                                  ucc_context_h *context) {
    return hd_api_new_context(lib, params, (ucc_context_config_h)(uintptr_t)config, true, context);
}

/* Without an allgather of its own, a team is made of all contexts that know each other by one. */
static ucc_status_t take_all_contexts(ucc_context_h context, ucc_team_params_t *params) {
    if (context->peers.n == 0) {
        hd_error("ucc_team_create_post: the team's oob has no participants, and the context was "
                 "created without one: nobody can tell who takes part");
        return UCC_ERR_INVALID_PARAM;
    }
    if (params->ep != 0 && params->ep != context->rank) {
        hd_error("ucc_team_create_post: ep is %llu; without an oob of the team, endpoints are "
                 "numbered as their contexts are, and this one is %u",
                 (unsigned long long)params->ep, context->rank);
        return UCC_ERR_INVALID_PARAM;
    }
    params->mask &= ~(uint64_t)UCC_TEAM_PARAM_FIELD_EP;
    params->mask |= UCC_TEAM_PARAM_FIELD_EP_MAP;
    params->ep_map = (ucc_ep_map_t){.type = UCC_EP_MAP_FULL, .ep_num = context->peers.n};
    return UCC_OK;
}

ucc_status_t heddle_draft_team(ucc_context_h *contexts, uint32_t n_contexts,
                               const ucc_team_params_t *params, const heddle_team_params_t *extra,
                               ucc_team_h *team) {
    static const char caller[] = "ucc_team_create_post";
    ucc_team_params_t p = *params;
    heddle_team_params_t e = *extra;
    if (!hd_api_pointer(contexts, "contexts", caller) ||
        (n_contexts > 0 && !hd_api_context(contexts[0], caller))) {
        return UCC_ERR_INVALID_PARAM;
    }
    if (n_contexts > 0) {
        ucc_thread_mode_t most = contexts[0]->lib->params.thread_mode;
        if ((e.mask & HEDDLE_TEAM_PARAM_FIELD_THREAD_MODE) &&
            (unsigned)e.thread_mode <= UCC_THREAD_MULTIPLE && e.thread_mode > most) {
            e.thread_mode = most; /* the draft allows it: who calls is the library's to say */
        }
        ucc_status_t status =
            p.mask & UCC_TEAM_PARAM_FIELD_OOB ? UCC_OK : take_all_contexts(contexts[0], &p);
        if (status != UCC_OK) {
            return status;
        }
    }
    return hd_api_create_team(contexts, n_contexts, &p, &e, true, team, caller);
}

ucc_status_t heddle_draft_team_given(ucc_team_h team, heddle_team_params_t *extra,
                                     ucc_oob_coll_t *oob) {
    const struct hd_region *region = &team->group->region[hd_group_member(team->group, team->ep)];
    *extra = (heddle_team_params_t){
        .thread_mode = team->thread_mode,
        .memory = {region->address, region->bytes, team->given.hints, team->given.constraints}};
    *oob = team->given.oob;
    return UCC_OK;
}

/* The number of the endpoint with this label, or UINT64_MAX. */
static uint64_t number_of(ucc_team_h team, uint64_t label) {
    const uint64_t *labels = team->group->labels;
    if (__builtin_expect(label < team->n && labels[label] == label, 1)) {
        return label;
    }
    for (uint32_t i = 0; i < team->n; i++) {
        if (labels[i] == label) {
            return i;
        }
    }
    return UINT64_MAX;
}

/* The handle of all who take no part in a team split from theirs: may be tested and destroyed, or
 * just be forgotten, since a draft's program sees no team there. */
static struct ucc_team no_team = {.magic = HD_TEAM_MAGIC, .state = HD_TEAM_EXCLUDED};

ucc_status_t heddle_draft_team_of_parent(uint64_t my_ep, bool included, ucc_team_h parent,
                                         ucc_team_h *team) {
    ucc_status_t status = ucc_team_create_from_parent(my_ep, included ? 1 : 0, parent, team);
    if (status == UCC_OK && !included) {
        /* has been counted; the others wait for nothing more than to hear of it, which takes two
         * seconds at most (form/split.c) */
        do {
            status = ucc_team_destroy(*team);
        } while (status == UCC_INPROGRESS && sched_yield() == 0);
        *team = &no_team;
    }
    return status;
}

typedef struct eps_list {
    ucc_team_h parent;
    const uint64_t *eps;
} eps_list_t;

static uint64_t entry(const void *list, uint32_t i) {
    const eps_list_t *of = list;
    return number_of(of->parent, of->eps[i]);
}

static ucc_status_t make_team_of_eps(ucc_team_h parent, const uint64_t *eps, uint64_t n,
                                     ucc_team_h *team) {
    if (n > parent->n) {
        hd_error("ucc_create_team_from_eps: num_eps is %llu, of %u endpoints",
                 (unsigned long long)n, parent->n);
        return UCC_ERR_INVALID_PARAM;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (number_of(parent, eps[i]) == UINT64_MAX) {
            hd_error("ucc_create_team_from_eps: ep[%u] is %llu, which is no endpoint of the team",
                     i, (unsigned long long)eps[i]);
            return UCC_ERR_INVALID_PARAM;
        }
    }
    return hd_team_from_list(parent, &(hd_list_t){entry, &(eps_list_t){parent, eps}, (uint32_t)n},
                             team);
}

ucc_status_t heddle_draft_team_of_eps(ucc_team_h parent, uint64_t **eps, uint64_t num_eps,
                                      ucc_team_h *team) {
    static const char caller[] = "ucc_create_team_from_eps";
    if (!hd_api_active_team(parent, caller) || !hd_api_pointer(eps, "ep", caller) ||
        !hd_api_pointer(*eps, "*ep", caller) || !hd_api_pointer(team, "new_team", caller)) {
        return UCC_ERR_INVALID_PARAM;
    }
    return make_team_of_eps(parent, *eps, num_eps, team);
}

/* --- collectives ------------------------------------------------------------------------------ */

typedef heddle_draft_coll_buffer_info_t buffers_t;

static ucc_status_t bad(ucc_team_h team, const char *field, uint64_t value, const char *what) {
    hd_error("ucc_collective_init at endpoint %u: %s is %llu, %s", team->ep, field,
             (unsigned long long)value, what);
    return UCC_ERR_INVALID_PARAM;
}

/* The drafts' own, or one that only 1.x and heddle_dt.h have a name for, which is a number of
 * theirs. A field of 32 bits has no room for users' datatypes. */
static bool is_datatype(heddle_draft_datatype_t dt) {
    uint64_t number = (uint32_t)dt;
    return number < UCC_DT_LAST_PREDEFINED ||
           (number >= UCC_PREDEFINED_DT(UCC_DT_LAST_PREDEFINED) && !hd_dt_is_generic(number) &&
            hd_dt_valid(number));
}

static ucc_datatype_t datatype_of(heddle_draft_datatype_t dt) {
    uint64_t number = (uint32_t)dt;
    return number < UCC_DT_LAST_PREDEFINED ? UCC_PREDEFINED_DT(number) : number;
}

/* Bytes that are too many for whole elements. A division would be most of what a draft's call
 * costs. */
static uint64_t left_over(uint64_t bytes, heddle_draft_datatype_t dt) {
    static const uint8_t shift[] = {0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 1, 2, 3};
    return (uint32_t)dt < sizeof(shift) ? bytes & ((1u << shift[dt]) - 1)
                                        : bytes % hd_dt_size(datatype_of(dt));
}

static ucc_status_t check_datatypes(ucc_team_h team, const buffers_t *b) {
    if (!is_datatype(b->src_datatype)) {
        return bad(team, "buffer_info.src_datatype", b->src_datatype, "which is no datatype");
    }
    if (!is_datatype(b->dst_datatype)) {
        return bad(team, "buffer_info.dst_datatype", b->dst_datatype, "which is no datatype");
    }
    return UCC_OK;
}

/* Blocks of one size move as bytes: all agree on them, whatever the datatypes at both ends are
 * called. */
static ucc_coll_buffer_info_t bytes_at(void *buffer, uint64_t bytes) {
    return (ucc_coll_buffer_info_t){buffer, bytes, UCC_DT_INT8, UCC_MEMORY_TYPE_HOST};
}

static ucc_status_t take_blocks(ucc_team_h team, const hd_coll_t *coll, const buffers_t *b,
                                ucc_coll_args_t *args) {
    uint64_t all, size = b->size;
    if (left_over(size, b->src_datatype) || left_over(size, b->dst_datatype) ||
        __builtin_mul_overflow(size, (uint64_t)team->n, &all)) {
        return bad(team, "buffer_info.size", size,
                   "in bytes: no multiple of src_datatype's and dst_datatype's, or too large");
    }
    if (coll->bcast) {
        bool is_root = args->root == team->ep;
        void *first = is_root ? b->src_buffer : b->dst_buffer;
        void *second = is_root ? b->dst_buffer : b->src_buffer;
        args->src.info = bytes_at(first ? first : second, size);
        return UCC_OK;
    }
    args->src.info = bytes_at(b->src_buffer, coll->source == HD_BLOCKS ? all : size);
    args->dst.info = bytes_at(b->dst_buffer, coll->result == HD_BLOCKS ? all : size);
    return UCC_OK;
}

static uint64_t count_at(const uint32_t *counts, uint32_t i, uint64_t flags) {
    return flags & UCC_COLL_ARGS_FLAG_COUNT_64BIT ? ((const uint64_t *)(const void *)counts)[i]
                                                  : counts[i];
}

static ucc_coll_buffer_info_v_t vector_at(void *buffer, uint32_t *counts, uint32_t *displacements,
                                          heddle_draft_datatype_t dt) {
    return (ucc_coll_buffer_info_v_t){buffer, (ucc_count_t *)(void *)counts,
                                      (ucc_aint_t *)(void *)displacements, datatype_of(dt),
                                      UCC_MEMORY_TYPE_HOST};
}

static ucc_coll_buffer_info_v_t source_vector(const buffers_t *b) {
    return vector_at(b->src_buffer, b->scounts, b->src_displacements, b->src_datatype);
}

static ucc_coll_buffer_info_v_t result_vector(const buffers_t *b) {
    return vector_at(b->dst_buffer, b->dst_counts, b->dst_displacements, b->dst_datatype);
}

/* In 1.x, displacements from NULL are addresses. The drafts' have no room for any. */
static bool lacks_base(ucc_team_h team, const ucc_coll_buffer_info_v_t *v, uint64_t flags) {
    for (uint32_t i = 0; !v->buffer && v->counts && i < team->n; i++) {
        if (count_at((const uint32_t *)(const void *)v->counts, i, flags) != 0) {
            return true;
        }
    }
    return false;
}

static bool has_vectors(const hd_coll_t *coll, const buffers_t *b) {
    return (coll->source == HD_BLOCKS && b->scounts) ||
           (coll->result == HD_BLOCKS && b->dst_counts);
}

/* My block, which the other side's counts describe. */
static ucc_coll_buffer_info_t block_at(ucc_team_h team, void *buffer, const uint32_t *counts,
                                       heddle_draft_datatype_t dt, uint64_t flags) {
    return (ucc_coll_buffer_info_t){buffer, count_at(counts, team->ep, flags), datatype_of(dt),
                                    UCC_MEMORY_TYPE_HOST};
}

/* Blocks of different sizes: the v type of the same collective. */
static ucc_status_t take_vectors(ucc_team_h team, const hd_coll_t *coll, const buffers_t *b,
                                 ucc_coll_args_t *args) {
    bool src, dst, in_place = (args->flags & UCC_COLL_ARGS_FLAG_IN_PLACE) != 0;
    hd_coll_buffers(coll, args->root == team->ep, team->ep, in_place, &src, &dst);
    args->coll_type = hd_coll[coll->vector_type].bit;
    if (coll->source == HD_BLOCKS) {
        args->src.info_v = source_vector(b);
        if (src && lacks_base(team, &args->src.info_v, args->flags)) {
            return bad(team, "buffer_info.src_buffer", 0, "and its blocks are not empty");
        }
    } else {
        args->src.info = block_at(team, b->src_buffer, b->dst_counts, b->src_datatype, args->flags);
    }
    if (coll->result == HD_BLOCKS) {
        args->dst.info_v = result_vector(b);
        if (dst && lacks_base(team, &args->dst.info_v, args->flags)) {
            return bad(team, "buffer_info.dst_buffer", 0, "and its blocks are not empty");
        }
    } else {
        args->dst.info = block_at(team, b->dst_buffer, b->scounts, b->dst_datatype, args->flags);
    }
    return UCC_OK;
}

static ucc_status_t take_reduction(ucc_team_h team, uint32_t draft,
                                   const heddle_draft_coll_ext_op_args_t *ext,
                                   ucc_coll_args_t *args) {
    const heddle_draft_reduction_info_t *r = &ext->reduction_info;
    uint64_t op = (uint32_t)r->op, number = op;
    if (draft == 2) { /* a bit, and one only */
        number = op && !(op & (op - 1)) ? (uint64_t)__builtin_ctzll(op) : N_OPS;
    }
    if (number >= N_OPS) {
        return bad(team, "reduction_info.op", op, "which is no operation");
    }
    if (!is_datatype(r->dt)) {
        return bad(team, "reduction_info.dt", r->dt, "which is no datatype");
    }
    if (r->count == 0 && ext->buffer_info.size != 0) { /* for a call of 0 elements both are */
        return bad(team, "reduction_info.count", 0,
                   "and buffer_info.size, which is for no reduction, not");
    }
    args->op = ops[number];
    args->src.info = (ucc_coll_buffer_info_t){ext->buffer_info.src_buffer, r->count,
                                              datatype_of(r->dt), UCC_MEMORY_TYPE_HOST};
    args->dst.info = args->src.info;
    args->dst.info.buffer = ext->buffer_info.dst_buffer;
    return UCC_OK;
}

/* Flags for which the draft has the fields. */
static const uint64_t known_flags =
    UCC_COLL_ARGS_FLAG_IN_PLACE | UCC_COLL_ARGS_FLAG_PERSISTENT | UCC_COLL_ARGS_FLAG_COUNT_64BIT |
    UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT | UCC_COLL_ARGS_FLAG_CONTIG_SRC_BUFFER |
    UCC_COLL_ARGS_FLAG_CONTIG_DST_BUFFER | UCC_COLL_ARGS_HINT_OPTIMIZE_OVERLAP_CPU |
    UCC_COLL_ARGS_HINT_OPTIMIZE_OVERLAP_GPU | UCC_COLL_ARGS_HINT_OPTIMIZE_LATENCY |
    HEDDLE_COLL_FLAG_SYMMETRIC | HEDDLE_COLL_FLAG_PERSISTENT_BUFFER | HEDDLE_COLL_FLAG_READY;

static ucc_status_t take_data(ucc_team_h team, uint32_t draft, const hd_coll_t *coll,
                              const heddle_draft_coll_ext_op_args_t *ext, ucc_coll_args_t *args) {
    const buffers_t *b = &ext->buffer_info;
    if (b->flags & ~known_flags) {
        return bad(team, "buffer_info.flags", b->flags,
                   "with flags that the draft has no field for");
    }
    args->mask = UCC_COLL_ARGS_FIELD_FLAGS;
    args->flags = b->flags;
    args->error_type = ext->error_type;
    if (coll->reducing) {
        return take_reduction(team, draft, ext, args);
    }
    ucc_status_t status = check_datatypes(team, b);
    if (status == UCC_OK && has_vectors(coll, b)) {
        return take_vectors(team, coll, b, args);
    }
    return status == UCC_OK ? take_blocks(team, coll, b, args) : status;
}

/* What the call is in 1.x. */
static ucc_status_t translate(uint32_t draft, const heddle_draft_coll_op_args_t *a, ucc_team_h team,
                              ucc_coll_args_t *args) {
    uint64_t type = (uint32_t)a->coll_type;
    if (type == 0 || type & (type - 1) || type >= UCC_COLL_LAST) {
        return bad(team, "coll_type", type, "which is no collective");
    }
    const hd_coll_t *coll = &hd_coll[types[__builtin_ctzll(type)]];
    args->mask = args->flags = 0;
    args->error_type = UCC_ERR_TYPE_LOCAL;
    args->op = UCC_OP_SUM;
    args->coll_type = coll->bit;
    args->root = coll->rooted ? number_of(team, a->ext_args.root) : 0;
    return coll->moves_data ? take_data(team, draft, coll, &a->ext_args, args) : UCC_OK;
}

ucc_status_t heddle_draft_start(uint32_t draft, const heddle_draft_coll_op_args_t *a, bool post,
                                ucc_coll_req_h *request, ucc_team_h team) {
    static const char caller[] = "ucc_collective_init";
    ucc_coll_args_t args;
    if (!hd_api_active_team(team, caller)) {
        return UCC_ERR_INVALID_PARAM;
    }
    if (__builtin_expect(!a || !request, 0)) {
        (void)hd_api_pointer(a ? (const void *)request : NULL, a ? "request" : "coll_args", caller);
        return UCC_ERR_INVALID_PARAM;
    }
    ucc_status_t status = translate(draft, a, team, &args);
    if (status == UCC_OK) {
        status = hd_team_is_unordered(team)
                     ? heddle_collective_init_tagged(&args, a->ext_args.tag, request, team)
                     : ucc_collective_init(&args, request, team);
    }
    if (status == UCC_OK && post) {
        status = ucc_collective_post(*request);
        if (status != UCC_OK) {
            ucc_collective_finalize(*request);
            *request = NULL;
        }
    }
    return status;
}
