/* processes.c: fuzz target of the records by which processes form a group (src/form/processes.c,
 * roll.c): what its exchange brings is what others said.
 *
 * One process is real; what it gives comes back at its place. What the others say is like its own,
 * changed as the input says, in all four exchanges. Whatever they say: there is a group, or an
 * error, and nothing else is left.
 */
#include "fuzz.h"

#include "core/mem.h"
#include "form/internal.h"

enum { MOST_PROCESSES = 6, ACCOUNT = sizeof(hd_account_t) };

static ucc_lib_h lib;

typedef struct exchange {
    input_t *in;
    uint32_t n, me, round;
} exchange_t;

/* A byte or some. */
static void change(uint8_t *record, size_t bytes, input_t *in) {
    for (uint32_t times = 1 + next_byte(in) % 3; times > 0; times--) {
        size_t at = next_number(in, 2) % bytes;
        record[at] = next_byte(in);
    }
}

static void change_record(hd_record_t *record, input_t *in, uint32_t i, uint8_t how) {
    if (how & 1) {
        change((uint8_t *)record, sizeof(*record), in);
    }
    record->label = 1 + how / 2 % 4;
    if (how & 8) { /* too many in all: what is allowed between takes time */
        record->label = (how & 4 ? UINT64_MAX : UINT32_MAX) / 2 + next_byte(in);
    }
    if (!(how & 16)) { /* else maybe this one twice */
        record->process[0] = 1 + i;
        record->process[1] = 2;
    }
}

static void change_account(uint8_t *at, input_t *in, uint8_t how) {
    hd_account_t account;
    memcpy(&account, at, sizeof(account));
    if (how & 1) {
        account.status = (int32_t)(int8_t)next_byte(in);
    }
    if (how & 2) { /* too many, or few: likewise */
        account.bytes = (uint32_t)next_number(in, 4) & 0xfff00fff;
    }
    memcpy(at, &account, sizeof(account));
}

static void change_address(uint8_t *address, size_t bytes, input_t *in, uint32_t i, uint8_t how) {
    if (how & 1) {
        change(address, bytes, in);
    }
    if (bytes >= AT_ADDRESS_TOKEN + 1) {
        address[AT_ADDRESS_TOKEN] ^= (uint8_t)(how & 2 ? 0 : i + 1);
    }
    if (!(how & 4)) {
        fuzz_check_address(address, bytes);
    }
}

static ucc_status_t allgather(void *mine, void *all, size_t bytes, void *arg, void **request) {
    exchange_t *e = arg;
    uint8_t *to = all;
    e->round++;
    for (uint32_t i = 0; i < e->n; i++, to += bytes) {
        uint8_t how = i == e->me ? 0 : next_byte(e->in);
        memcpy(to, mine, bytes);
        if (i == e->me) {
            continue;
        }
        if (bytes == sizeof(hd_record_t) && e->round == 1) {
            change_record((hd_record_t *)(void *)to, e->in, i, how);
        } else if (bytes == ACCOUNT && how >= 192) {
            change_account(to, e->in, how);
        } else if (bytes != ACCOUNT) {
            change_address(to, bytes, e->in, i, how);
        }
    }
    *request = e;
    return next_byte(e->in) == 255 ? UCC_ERR_NO_MESSAGE : UCC_OK;
}

static ucc_status_t test(void *request) {
    return next_byte(((exchange_t *)request)->in) == 255 ? UCC_ERR_IO_ERROR : UCC_OK;
}

static ucc_status_t done(void *request) {
    (void)request;
    return UCC_OK;
}

static void open_all(void) {
    ucc_lib_params_t params = {.mask = UCC_LIB_PARAM_FIELD_THREAD_MODE,
                               .thread_mode = UCC_THREAD_SINGLE};
    ucc_lib_config_h config;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 0);
    setenv("HEDDLE_NET_WATCH", "n", 1);
    setenv("HEDDLE_NET_LANES", "1", 1);
    CHECK(ucc_lib_config_read(NULL, NULL, &config) == UCC_OK);
    CHECK(ucc_init(&params, config, &lib) == UCC_OK);
    ucc_lib_config_release(config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input_t in = {data, size};
    if (!lib) {
        open_all();
    }
    exchange_t e = {.in = &in, .n = 2 + next_byte(&in) % (MOST_PROCESSES - 1)};
    e.me = next_byte(&in) % e.n;
    ucc_oob_coll_t oob = {.allgather = allgather,
                          .req_test = test,
                          .req_free = done,
                          .coll_info = &e,
                          .n_oob_eps = e.n,
                          .oob_ep = e.me};
    heddle_group_params_t params = {.endpoints = 1 + next_byte(&in) % 3};
    hd_group_t *group = NULL;
    ucc_status_t status = hd_team_join_processes(lib, &oob, &params, &group);
    CHECK((status == UCC_OK) == (group != NULL));
    if (group) {
        CHECK(e.round >= 4 && hd_group_crossing(group));
        hd_home_unpin(&group->home);
    }
    CHECK(!hd_net_opened());
    return 0;
}
