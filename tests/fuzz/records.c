/* records.c: fuzz target of the records by which endpoints form a team (src/form/oob.c, span.c,
 * roll.c): what an out-of-band exchange brings is what others said.
 *
 * One endpoint is real; what it gives comes back at its place. The others' records are like its
 * own, changed as the input says. Whatever they say: forming ends, or goes on waiting, and the team
 * can be destroyed.
 */
#include "fuzz.h"

#include "form/internal.h"

enum { MOST_ENDPOINTS = 9, TESTS = 40 };

static ucc_lib_h lib;
static ucc_context_h context;

typedef struct exchange {
    input_t *in;
    uint32_t n, me, round;
    ucc_status_t status;
} exchange_t;

/* A word or two of a record: of the same number of bytes. */
static void change(uint8_t *record, size_t bytes, input_t *in) {
    for (uint32_t times = next_byte(in) % 4; times > 0; times--) {
        size_t at = next_byte(in) % bytes;
        record[at] = next_byte(in);
    }
}

static void change_record(hd_record_t *r, input_t *in, uint32_t i) {
    uint8_t what = next_byte(in);
    r->number = what & 1 ? i : next_byte(in);
    if (what & 2) { /* of another process */
        r->process[0] = 1 + what / 64;
        r->process[1] = 2;
    }
    if (what & 4) {
        r->serial = next_number(in, 8);
    }
    r->label = what & 8 ? r->label : i;
    if (what & 16) {
        change((uint8_t *)r, sizeof(*r), in);
    }
}

/* Too many bytes of an address, or few: what is allowed between takes time. */
static void change_account(uint8_t *at, input_t *in) {
    hd_account_t account;
    change(at, sizeof(account), in);
    memcpy(&account, at, sizeof(account));
    account.bytes &= 0xfff00fff;
    memcpy(at, &account, sizeof(account));
}

static ucc_status_t allgather(void *mine, void *all, size_t bytes, void *arg, void **request) {
    exchange_t *e = arg;
    uint8_t *to = all;
    for (uint32_t i = 0; i < e->n; i++, to += bytes) {
        memcpy(to, mine, bytes);
        if (i != e->me && bytes == sizeof(hd_record_t)) {
            change_record((hd_record_t *)(void *)to, e->in, i);
        } else if (i != e->me && bytes == sizeof(hd_account_t)) {
            change_account(to, e->in);
        } else if (i != e->me) {
            change(to, bytes, e->in);
        }
    }
    /* The third brings addresses, which another target reads; the greeting that follows would take
     * seconds to end. */
    e->status = ++e->round == 3 ? UCC_ERR_NO_MESSAGE : UCC_OK;
    *request = e;
    return UCC_OK;
}

static ucc_status_t test(void *request) {
    return ((exchange_t *)request)->status;
}

static ucc_status_t done(void *request) {
    (void)request;
    return UCC_OK;
}

static void open_all(void) {
    ucc_lib_params_t params = {.mask = UCC_LIB_PARAM_FIELD_THREAD_MODE,
                               .thread_mode = UCC_THREAD_SINGLE};
    ucc_context_params_t none = {0};
    ucc_lib_config_h lib_config;
    ucc_context_config_h context_config;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 0);
    setenv("HEDDLE_NET_WATCH", "n", 1);
    CHECK(ucc_lib_config_read(NULL, NULL, &lib_config) == UCC_OK);
    CHECK(ucc_init(&params, lib_config, &lib) == UCC_OK);
    ucc_lib_config_release(lib_config);
    CHECK(ucc_context_config_read(lib, NULL, &context_config) == UCC_OK);
    CHECK(ucc_context_create(lib, &none, context_config, &context) == UCC_OK);
    ucc_context_config_release(context_config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input_t in = {data, size};
    if (!lib) {
        open_all();
    }
    exchange_t e = {.in = &in, .n = 2 + next_byte(&in) % (MOST_ENDPOINTS - 1)};
    e.me = next_byte(&in) % e.n;
    ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_OOB | UCC_TEAM_PARAM_FIELD_EP |
                                        UCC_TEAM_PARAM_FIELD_EP_RANGE,
                                .ep = e.me,
                                .ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG,
                                .oob = {.allgather = allgather,
                                        .req_test = test,
                                        .req_free = done,
                                        .coll_info = &e,
                                        .n_oob_eps = e.n,
                                        .oob_ep = e.me}};
    if (next_byte(&in) & 1) {
        params.ep_range = UCC_COLLECTIVE_EP_RANGE_NONCONTIG;
    }
    ucc_team_h team;
    if (ucc_team_create_post(&context, 1, &params, &team) == UCC_OK) {
        ucc_status_t status = UCC_INPROGRESS;
        for (uint32_t i = 0; i < TESTS && status == UCC_INPROGRESS; i++) {
            status = ucc_team_create_test(team);
        }
        while ((status = ucc_team_destroy(team)) == UCC_INPROGRESS) {
        }
        CHECK(status == UCC_OK);
    }
    return 0;
}
