/* cases.h: from "a gatherv of 5 endpoints to root 3, with gaps" to filled buffers, UCC arguments,
 * and a verdict.
 *
 *     prepared_t *p = case_prepare(&c);
 *     ... run p->args on all endpoints, which fills p->statuses ...
 *     ok = case_check(p);             // says on stderr what differs
 *     case_free(p);
 *
 * The arguments are as hostile as clients': everything that has no meaning for a collective at an
 * endpoint, or lies outside a mask, is garbage. All buffers stand between guard bytes, and what
 * must not change (sources, gaps, guards) is compared too.
 */
#ifndef TESTS_CASES_H_
#define TESTS_CASES_H_

#include "../reference.h"
#include "driver.h"

#include <stdatomic.h>

typedef enum in_place {
    IN_PLACE_NO,
    IN_PLACE_WHERE_MEANT, /* the flag is set where it means something: rooted types at the root */
    IN_PLACE_EVERYWHERE,  /* and on the others too, as some clients do */
    IN_PLACES
} in_place_t;

/* How the blocks of v types lie; plain types ignore it. */
typedef enum layout {
    LAYOUT_EQUAL,    /* dense, all counts equal */
    LAYOUT_RANDOM,   /* dense, counts from 0 to 2 * count */
    LAYOUT_ZEROS,    /* dense, every other count or so is zero */
    LAYOUT_GAPS,     /* random counts, unused elements between blocks */
    LAYOUT_SHUFFLED, /* the same, and blocks lie in random order */
    LAYOUTS
} layout_t;

typedef struct coll_case {
    ucc_coll_type_t type;
    uint32_t size, root;
    uint64_t count; /* elements per block; about that with random layouts */
    const reference_dt_t *dt;
    ucc_reduction_op_t op;
    in_place_t in_place;
    layout_t layout;
    bool counts64, displacements64;
    bool tagged;
    uint16_t tag;
    uint64_t seed;
    /* n is 0: all of the team. Else size is n, and root counts members. */
    job_set_t set;
    uint32_t times; /* 0, or a persistent request is posted so often */
    bool keeps;     /* case_restore may be called */
    bool placement; /* the bits are to be those of one process, wherever endpoints are */
    /* By endpoint of the team: numbers of processes, of which `process` is mine; NULL: all are
     * mine. */
    const uint32_t *process_of;
    uint32_t process;
    const uint32_t *host; /* by process: where it lives; NULL: all on one host */
    bool by_nodes;        /* the team was formed so that each of its nodes shares memory (NODE) */
    uint32_t turned; /* so many endpoints had the opposite numbers when nodes were found; or 0 */
} coll_case_t;

/* A buffer between guards. `data` is what the library sees, or NULL if this endpoint has none; all
 * of `memory` is compared with `wanted` afterwards. `given`: as it was, where it may be asked for
 * again. */
typedef struct region {
    unsigned char *memory, *wanted, *given, *data;
    size_t memory_bytes, offset; /* data == memory + offset */
    uint64_t elements;
    void *mirror; /* NULL, or where the library sees it instead of in memory: see case_memory_t */
    ucc_memory_type_t type; /* as the arguments say */
} region_t;

/* Other memory than the host's, of as many bytes as regions have, where the library gets to see
 * them. The library's results are brought from there before they are compared. */
typedef struct case_memory {
    /* May this case have it at all? If not, it is not run. */
    bool (*takes)(const coll_case_t *c);
    /* For a buffer of an endpoint. NULL, where that may be: it stays where it is. type: what the
     * arguments say of it. */
    void *(*take)(uint32_t endpoint, size_t bytes, bool may_stay, uint64_t *random,
                  ucc_memory_type_t *type);
    void (*put)(void *mirror);
    void (*to)(void *mirror, const void *memory, size_t bytes);
    void (*from)(void *memory, const void *mirror, size_t bytes);
    /* When neither cases nor worlds are left: how much was wrong with it beside what cases have
     * seen, since it was last asked, and how much is left that should not be. */
    uint64_t (*wrong)(void);
} case_memory_t;

extern const case_memory_t *case_memory; /* NULL: all memory is the host's */

struct blocks;

typedef struct prepared {
    coll_case_t c;
    char name[256];
    _Atomic bool wrong;     /* found before the last post */
    uint32_t *process_of;   /* [size] of the members; NULL: all are mine */
    uint32_t *node_of;      /* [size] likewise: by which reductions are grouped */
    ucc_coll_args_t *args;  /* [size] */
    ucc_status_t *statuses; /* [size], filled by whoever runs it */
    region_t *src, *dst;    /* [size] */
    struct blocks *blocks;
    void **arrays; /* counts and displacements handed to the library */
    uint32_t n_arrays;
    uint64_t random; /* state of its random numbers */
} prepared_t;

bool coll_is_rooted(ucc_coll_type_t type);
bool coll_is_reduction(ucc_coll_type_t type);
/* scan and exscan: reductions, too. */
bool coll_is_scan(ucc_coll_type_t type);
bool coll_is_v(ucc_coll_type_t type);
bool coll_moves_data(ucc_coll_type_t type);
/* Does one endpoint's buffer hold a block for everybody, so that it is `size` blocks long? */
bool coll_has_blocks(ucc_coll_type_t type);

/* The 16 types, MCAST, SCAN and EXSCAN, by number. */
#define COLL_TYPES 19
ucc_coll_type_t coll_type_at(uint32_t i);

prepared_t *case_prepare(const coll_case_t *c);
/* The job of it; p must outlive the job. */
job_t case_job(prepared_t *p);
/* Of what this process has; and of one endpoint's, which is its own. */
bool case_check(const prepared_t *p);
bool case_check_member(const prepared_t *p, uint32_t member);
/* The buffers of this process are what they were before. */
void case_restore(prepared_t *p);
bool case_is_mine(const prepared_t *p, uint32_t member);
void case_free(prepared_t *p);

/* About how many bytes of user data the case touches. */
uint64_t case_bytes(const coll_case_t *c);

/* case_args.c: fills p->args once the buffers exist. */
void case_make_args(prepared_t *p);

#endif
