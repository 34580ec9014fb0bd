/* addresses.c: fuzz target of what processes tell each other of themselves before they have a
 * network: how they can be reached (src/net/address.c), how they can be watched
 * (src/net/watch_address.c), and the accounts and slices of which a process's address is put
 * together (src/form/roll.c).
 *
 * The first byte of an input says which. An address' checksum is put right in one of the modes, or
 * nothing would get beyond it.
 */
#include "fuzz.h"

#include "net/internal.h"
#include "net/watch.h"
#include "form/roll.h"

enum { ADDRESS, ADDRESS_CHECKED, WATCH, ROLL, MODES };
enum { MOST_MEMBERS = 12 };

/* Of its size, for sanitizers. */
static uint8_t *copy_of(const uint8_t *from, size_t bytes) {
    uint8_t *to = malloc(bytes ? bytes : 1);
    CHECK(to);
    if (bytes) {
        memcpy(to, from, bytes);
    }
    return to;
}

static void parse_address(const uint8_t *bytes, size_t n, bool right) {
    hd_net_reach_t reach;
    uint8_t *address = copy_of(bytes, n);
    if (right) {
        fuzz_check_address(address, n);
    }
    if (hd_net_address_parse(address, n, &reach)) {
        const uint8_t *end = address + n, *watch = reach.watch;
        CHECK(reach.lanes > 0 && reach.lanes <= HD_NET_MOST_LANES);
        for (uint32_t l = 0; l < reach.lanes; l++) {
            const uint8_t *begin = reach.lane[l];
            CHECK(begin > address && begin < end && (begin - address) % 8 == 0);
            CHECK(l == 0 || begin > (const uint8_t *)reach.lane[l - 1]);
            const uint8_t *far = reach.far[l];
            CHECK(far >= begin && far < end && (far - address) % 8 == 0);
        }
        CHECK(watch > address && watch <= end && reach.watch_bytes <= (size_t)(end - watch));
    }
    free(address);
}

static void parse_watch(const uint8_t *bytes, size_t n) {
    hd_watch_record_t record;
    uint8_t *address = copy_of(bytes, n);
    if (hd_watch_parse(&record, address, n)) {
        CHECK(record.n <= HD_WATCH_LINES && record.port != 0 && n <= HD_WATCH_ADDRESS);
        for (uint32_t i = 0; i < record.n; i++) {
            CHECK(record.line[i].family == 4 || record.line[i].family == 6);
        }
    }
    free(address);
}

typedef struct exchange {
    input_t *in;
    hd_roll_t *roll;
} exchange_t;

static uint8_t my_address[48];

/* Accounts, then slices. Mine is true, the others' are what the input says. */
static ucc_status_t allgather(void *mine, void *all, size_t bytes, void *arg, void **request) {
    const exchange_t *e = arg;
    const hd_roll_t *roll = e->roll;
    *request = NULL;
    if (all == roll->slices) {
        next_bytes(e->in, all, roll->oob.n_oob_eps * bytes);
        return UCC_OK;
    }
    CHECK(mine == &roll->account && all == roll->told && roll->trouble == UCC_OK);
    for (uint32_t i = 0; roll->room == 2048 && i < roll->oob.n_oob_eps; i++) {
        bool ours = roll->span->process_of[i] == roll->span->mine, odd = next_byte(e->in) % 8 == 0;
        roll->told[i] = (hd_account_t){.bytes = ours ? sizeof(my_address) : 40};
        if (odd && i != roll->mine.number) {
            /* too many, or few: what is allowed between takes time */
            roll->told[i].bytes = (uint32_t)next_number(e->in, 4) & 0xfff00fff;
            roll->told[i].status = (int32_t)(int8_t)next_byte(e->in);
        } else if (!ours) {
            roll->told[i].bytes = 1 + next_byte(e->in) % 4;
        }
    }
    return UCC_OK;
}

static ucc_status_t done(void *request) {
    (void)request;
    return UCC_OK;
}

/* Which member is where; then the exchanges. */
static void call_roll(input_t *in) {
    static hd_net_t net; /* one that is not open: it has an address */
    uint32_t n = 2 + next_byte(in) % (MOST_MEMBERS - 1);
    hd_roll_t roll = {.mine.number = next_byte(in) % n};
    exchange_t e = {in, &roll};
    ucc_oob_coll_t oob = {.allgather = allgather,
                          .req_test = done,
                          .req_free = done,
                          .coll_info = &e,
                          .n_oob_eps = n};
    net.address = net.far_address = (hd_net_address_t){my_address, sizeof(my_address)};
    CHECK(hd_roll_begin(&roll, &oob, "member", NULL) == UCC_OK);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t where = next_byte(in) % 4;
        roll.all[i] = (hd_record_t){.process = {where, where / 2}, .number = i};
    }
    hd_roll_take(&roll);
    CHECK(roll.trouble == UCC_OK);
    roll.net = &net;
    roll.step = HD_ROLL_ACCOUNTS; /* as if it had been opened */
    CHECK(hd_roll_give(&roll, &roll.account, roll.told, sizeof(roll.account)) == UCC_OK);
    ucc_status_t status = hd_roll_call(&roll);
    CHECK(status != UCC_INPROGRESS && (roll.step == HD_ROLL_OVER) == (status == UCC_OK));
    if (status == UCC_OK) {
        hd_net_process_t *process = hd_roll_processes(&roll);
        for (uint32_t p = 0; process && p < roll.span->processes; p++) {
            hd_net_reach_t reach;
            CHECK(process[p].bytes == roll.told[hd_span_endpoint(roll.span, p, 0)].bytes);
            hd_net_address_parse(process[p].address, process[p].bytes, &reach);
        }
        hd_free(process);
    }
    roll.net = NULL;
    hd_roll_end(&roll);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input_t in = {data, size};
    setenv("HEDDLE_LOG_LEVEL", "fatal", 0);
    switch (next_byte(&in) % MODES) {
    case ADDRESS:
        parse_address(in.at, in.left, false);
        break;
    case ADDRESS_CHECKED:
        parse_address(in.at, in.left, true);
        break;
    case WATCH:
        parse_watch(in.at, in.left);
        break;
    default:
        call_roll(&in);
        break;
    }
    return 0;
}
