/* match.c: fuzz target of what becomes of messages whose headers are in order: which team, leg and
 * place they find, what is parked, and what peers are told (src/net/match.c, leg.c, flow.c, team.c,
 * lane.c, swap.c and the algorithms).
 *
 * An input is a program: each byte an instruction, with operands. It starts legs of a team of a few
 * processes, of which this is one, gives its parts of swaps, lets messages come that fit them or do
 * not, lets sends and receives end or fail, cancels, and pumps. Whatever comes: no memory is
 * touched that is not the leg's, every rendezvous is ended once, what a swap has brought is what
 * was sent for it, and stays as it is until the swap is over, and at the end all legs can be
 * brought to an end, the teams too, whatever is still under way for swaps, and nothing is left.
 */
#include "fake_ucx.h"
#include "fuzz.h"

#include "net/internal.h"

enum { MOST_PROCESSES = 12, LEGS = 4, MOST_BYTES = 48, TEAMS = 2 };
enum { SWAPS = 0 }; /* which of the teams has swaps, if it is small enough */
enum { START, MESSAGE, RAW, TURN, END, DECIDE, CANCEL, ABORT, SWAP, GIVE, OVER, LOSE };
/* What a byte means, modulo their number. */
static const uint8_t instruction[] = {START, MESSAGE, RAW,  TURN, END, DECIDE, CANCEL, ABORT,
                                      START, MESSAGE, SWAP, TURN, END, GIVE,   OVER,   ABORT,
                                      START, MESSAGE, SWAP, TURN, END, DECIDE, CANCEL, GIVE,
                                      START, MESSAGE, SWAP, TURN, END, GIVE,   OVER,   LOSE};

typedef struct case_leg {
    hd_leg_t leg; /* first */
    bool started, over, cancelled;
    hd_net_data_t *data; /* of its size, for sanitizers, as is all memory of a leg's */
    hd_net_piece_t *piece;
    uint8_t *bytes, *result;
    void *scratch;
} case_leg_t;

static hd_net_t *net;
static hd_net_team_t *team[TEAMS];
static case_leg_t legs[LEGS];
static uint32_t n, me;

/* The numbers that this process has come to, one after the other: those before `first` are over. */
static struct {
    uint64_t first, next;
    bool leg[HD_SWAP_SLOTS]; /* it is no swap: there was a leg of it before */
    uint8_t needed[HD_SWAP_SLOTS];
    bool changed; /* some message has been: what comes need not be what its header says */
    uint64_t
        seen[HD_SWAP_SLOTS]; /* what had come when all parts were there, hashed; 0: they were not */
} swaps;

static void on_failed(void *arg, ucc_status_t why) {
    CHECK(why < 0);
    (*(uint32_t *)arg)++;
}

static void on_swapped(void *arg) {
    CHECK(arg);
}

/* --- legs --- */

static ucc_status_t combine(hd_leg_t *leg, uint32_t k, const void *const *operand, void *dst,
                            size_t first, size_t count, bool last) {
    uint8_t *to = dst;
    (void)first;
    (void)last;
    for (size_t i = 0; i < count * leg->call.element; i++) {
        uint8_t x = 0;
        for (uint32_t j = 0; j < k; j++) {
            x ^= ((const uint8_t *)operand[j])[i];
        }
        to[i] = x;
    }
    return UCC_OK;
}

static bool step(hd_leg_t *leg) {
    case_leg_t *l = (case_leg_t *)(void *)leg;
    ucc_status_t status = l->cancelled ? hd_leg_cancel(leg, UCC_ERR_TIMED_OUT) : hd_leg_go(leg);
    CHECK(!l->over);
    l->over = status != UCC_INPROGRESS;
    return l->over;
}

static void *memory(size_t bytes) {
    void *at = aligned_alloc(HD_LINE, (bytes + HD_LINE) / HD_LINE * HD_LINE);
    CHECK(at);
    memset(at, 0x33, bytes);
    return at;
}

static void forget(case_leg_t *l) {
    free(l->data);
    free(l->piece);
    free(l->bytes);
    free(l->result);
    free(l->scratch);
    *l = (case_leg_t){0};
}

/* Keys and segments of few values, so that they meet. */
static hd_net_key_t next_key(input_t *in) {
    uint8_t what = next_byte(in);
    return (hd_net_key_t){.class = what % HD_NET_N_CLASSES,
                          .number = what / 8 % 4 == 3 ? next_number(in, 8) : what / 8 % 4,
                          .ordinal = what / 32 % 2,
                          .subset = what / 64 % 2};
}

static void prepare(case_leg_t *l, input_t *in) {
    static const uint8_t algorithms[] = {
        HD_NET_DIRECT,   HD_NET_DISSEMINATION,     HD_NET_TREE,   HD_NET_CHAIN,
        HD_NET_BRUCK,    HD_NET_SCATTER_ALLGATHER, HD_NET_RING,   HD_NET_PAIRWISE,
        HD_NET_EXCHANGE, HD_NET_REDUCE_ALLGATHER,  HD_NET_NOTHING};
    size_t count = next_byte(in) % (MOST_BYTES + 1);
    hd_net_call_t *call = &l->leg.call;
    *call = (hd_net_call_t){.type = next_byte(in) % HD_SCAN,
                            .n = n,
                            .me = me,
                            .root = next_byte(in) % n,
                            .signature = 7,
                            .count = count,
                            .element = 1,
                            .combine = combine};
    l->data = malloc(2 * n * sizeof(*l->data));
    l->piece = malloc(2 * n * sizeof(*l->piece));
    l->bytes = malloc(2 * n * count + 1);
    l->result = malloc(count + 1);
    CHECK(l->data && l->piece && l->bytes && l->result);
    memset(l->bytes, 0x11, 2 * n * count + 1);
    for (uint32_t i = 0; i < 2 * n; i++) {
        l->piece[i] = (hd_net_piece_t){l->bytes + i * count, count};
        l->data[i] = (hd_net_data_t){&l->piece[i], count > 0, count};
    }
    call->give = l->data;
    call->take = l->data + n;
    call->operand = l->bytes;
    call->result = l->result;
    uint8_t *choice = l->leg.team->choice;
    memset(choice, algorithms[next_byte(in) % sizeof(algorithms)], HD_NET_FAMILIES);
    l->leg.plan = hd_net_plan_of(l->leg.team, call, hd_coll[call->type].vector ? 0 : count);
    size_t scratch = hd_net_scratch(call, &l->leg.plan);
    l->scratch = scratch ? memory(scratch) : NULL;
    call->scratch = l->scratch;
}

static bool has_swaps(const hd_net_team_t *t) {
    return t == team[SWAPS] && n <= HD_SWAP_PROCESSES;
}

/* Two legs of one name do not exist, and no leg of a number that is a swap. */
static bool is_taken(const case_leg_t *mine) {
    if (has_swaps(mine->leg.team) && mine->leg.key.class == HD_NET_NUMBERED &&
        mine->leg.key.number < swaps.next) {
        return true;
    }
    for (uint32_t i = 0; i < LEGS; i++) {
        const case_leg_t *l = &legs[i];
        if (l != mine && l->started && l->leg.team == mine->leg.team &&
            l->leg.segment == mine->leg.segment &&
            memcmp(&l->leg.key.number, &mine->leg.key.number, 3 * sizeof(uint64_t)) == 0 &&
            l->leg.key.class == mine->leg.key.class) {
            return true;
        }
    }
    return false;
}

static void start(input_t *in) {
    case_leg_t *l = &legs[next_byte(in) % LEGS];
    if (l->started && !l->over) {
        return;
    }
    forget(l);
    l->leg.team = team[next_byte(in) % TEAMS];
    l->leg.key = next_key(in);
    l->leg.segment = next_byte(in) % 2;
    l->leg.step = step;
    if (!is_taken(l)) {
        prepare(l, in);
        l->started = true;
        hd_leg_start(&l->leg);
    }
}

/* --- messages --- */

/* Of a leg that there is, or like one; some byte of it may be changed. */
static void message(input_t *in) {
    const case_leg_t *l = &legs[next_byte(in) % LEGS];
    uint8_t header[HD_WIRE_BYTES], how = next_byte(in), data[2 * MOST_BYTES * MOST_PROCESSES];
    hd_wire_t wire = {.kind = how % 16 == 0 ? HD_WIRE_CREDIT : HD_WIRE_DATA,
                      .step = next_byte(in) % 8,
                      .source = next_byte(in) % n,
                      .signature = 7,
                      .team = team[0]->wire};
    if (l->started) {
        wire.team = l->leg.team->wire;
        wire.class = l->leg.key.class;
        wire.number = l->leg.key.number;
        wire.ordinal = l->leg.key.ordinal;
        wire.subset = l->leg.key.subset;
        wire.segment = l->leg.segment;
        wire.bytes = l->leg.call.count;
    }
    if (how & 16) {
        hd_net_key_t key = next_key(in);
        wire.class = key.class;
        wire.number = key.number;
        wire.ordinal = key.ordinal;
        wire.subset = key.subset;
    }
    if (how & 32) {
        wire.bytes = next_number(in, 2) % sizeof(data);
        wire.taken = (uint32_t)next_number(in, 4);
        wire.floor = next_number(in, 8);
        wire.flags = next_byte(in) % 4;
        wire.wanted = wire.number - next_byte(in);
    }
    wire.bytes = wire.kind == HD_WIRE_DATA ? wire.bytes : 0;
    hd_wire_write(&wire, header);
    if (how & 64) {
        header[next_byte(in) % sizeof(header)] ^= next_byte(in);
    }
    memset(data, how, sizeof(data));
    fake_ucx_put(header, sizeof(header), data, wire.bytes, how & 128 && wire.bytes);
}

static void raw(input_t *in) {
    uint8_t header[HD_WIRE_BYTES + 8];
    size_t bytes = next_byte(in), more = next_byte(in) % 9;
    uint8_t data[256] = {0};
    next_bytes(in, header, sizeof(header));
    fake_ucx_put(header, HD_WIRE_BYTES + more - (more ? 4 : 0), data, bytes, bytes & 1);
}

static void abort_team(input_t *in) {
    uint8_t header[HD_WIRE_BYTES];
    hd_wire_t wire = {.kind = HD_WIRE_ABORT,
                      .class = HD_NET_NUMBERED,
                      .source = next_byte(in) % n,
                      .status = (ucc_status_t)(-1 - next_byte(in) % 32),
                      .team = team[next_byte(in) % TEAMS]->wire};
    hd_wire_write(&wire, header);
    fake_ucx_put(header, sizeof(header), NULL, 0, false);
}

/* --- swaps --- */

/* Of a part of exchange k: what travels of that number says which. */
static uint8_t byte_of_part(uint64_t k, uint32_t source, size_t i) {
    return (uint8_t)((k % (1u << HD_WIRE_SWAP_BITS)) * 31 + source * 7 + i);
}

/* One byte of it may be changed, and its length. */
static void swap_comes(input_t *in) {
    uint8_t message[HD_WIRE_SWAP_BYTES], data[2 * HD_SWAP_LONG], how = next_byte(in);
    hd_wire_swap_t wire = {.team = team[how % TEAMS]->wire,
                           .number = swaps.first + (uint64_t)(next_byte(in) % 64) - 16,
                           .source = next_byte(in) % n % HD_SWAP_PROCESSES,
                           .signature = how & 2 ? 8 : 7,
                           .bytes =
                               how & 4 ? (uint32_t)next_number(in, 2) % (HD_SWAP_LONG + 9) : 8};
    wire.number = how & 8 ? next_number(in, 3) : wire.number;
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = byte_of_part(wire.number, wire.source, i);
    }
    memset(message, 0, sizeof(message));
    size_t bytes = hd_wire_write_swap(&wire, data, message);
    swaps.changed = swaps.changed || how & (16 | 32);
    if (how & 16) {
        message[next_byte(in) % bytes] ^= next_byte(in);
    }
    size_t behind = wire.bytes > HD_SWAP_BYTES ? wire.bytes : 0;
    bytes = how & 32 ? next_byte(in) % sizeof(message) : bytes;
    fake_ucx_put(message, bytes, data, how & 64 ? behind + 1 : behind, how & 128 && how & 64);
}

static bool has_leg(uint64_t k) {
    for (uint32_t i = 0; i < LEGS; i++) {
        const hd_net_key_t *key = &legs[i].leg.key;
        if (legs[i].started && legs[i].leg.team == team[SWAPS] && key->class == HD_NET_NUMBERED &&
            key->number == k) {
            return true;
        }
    }
    return false;
}

/* Bits of `but`: they are given nothing, or nothing is needed of them. */
static void give_to_all(uint64_t k, uint8_t how, uint8_t needed, uint8_t but) {
    uint8_t others = (uint8_t)(((1u << n) - 1) & ~(1u << me));
    hd_net_swap_t *swap = hd_net_swap_of(team[SWAPS], k);
    *swap = (hd_net_swap_t){.k = k,
                            .signature = how & 2 ? 8 : 7,
                            .to = others & (uint8_t)~but,
                            .from = others & needed,
                            .same = how & 8};
    uint32_t most = (uint32_t)hd_net_swap_most(n);
    for (uint32_t i = 0; i < n; i++) {
        swap->bytes[i] = how & 4 ? (how * 4 + (swap->same ? 0 : i * 1001)) % (most + 1) : 8;
    }
    CHECK(!hd_net_swap_is_long(swap) || hd_net_swap_reserve(team[SWAPS]) == UCC_OK);
    for (uint32_t i = 0; i < n; i++) {
        memset(hd_net_swap_room(team[SWAPS], k, i, hd_net_swap_is_long(swap)), 0x77,
               swap->bytes[swap->same ? 0 : i]);
    }
    swaps.needed[k % HD_SWAP_SLOTS] = swap->from;
    (void)hd_net_swap(team[SWAPS], k, how / 32);
}

/* As the board's window has it. */
static void give(input_t *in) {
    uint8_t how = next_byte(in);
    uint64_t k = swaps.next;
    if (!has_swaps(team[SWAPS]) || k >= swaps.first + HD_SWAP_SLOTS / 2) {
        return;
    }
    swaps.next++;
    swaps.leg[k % HD_SWAP_SLOTS] = has_leg(k);
    swaps.seen[k % HD_SWAP_SLOTS] = 0;
    if (!swaps.leg[k % HD_SWAP_SLOTS]) {
        give_to_all(k, how, how & 128 ? next_byte(in) : UINT8_MAX, how & 64 ? next_byte(in) : 0);
    }
}

/* What the others have brought. */
static uint64_t look_at_swap(uint64_t k) {
    uint64_t hash = 1;
    for (uint32_t i = 0; i < n; i++) {
        if (!(swaps.needed[k % HD_SWAP_SLOTS] >> i & 1)) {
            continue;
        }
        CHECK(hd_net_swap_has_part(team[SWAPS], k, i));
        const uint8_t *part = hd_net_swap_part(team[SWAPS], k, i);
        size_t bytes = 0;
        while (bytes <= HD_SWAP_LONG && !hd_net_swap_fits(team[SWAPS], k, i, 7, bytes) &&
               !hd_net_swap_fits(team[SWAPS], k, i, 8, bytes)) {
            /* of a changed message, the signature may be another: nobody looks at it then */
            bytes++;
        }
        for (size_t b = 0; bytes <= HD_SWAP_LONG && b < bytes; b++) {
            CHECK(swaps.changed || part[b] == byte_of_part(k, i, b));
            hash = (hash ^ part[b]) * UINT64_C(0x100000001b3);
        }
    }
    return hash | 1;
}

static void look_at_swaps(void) {
    for (uint64_t k = swaps.first; has_swaps(team[SWAPS]) && k < swaps.next; k++) {
        uint64_t *seen = &swaps.seen[k % HD_SWAP_SLOTS];
        if (*seen == 0 && !swaps.leg[k % HD_SWAP_SLOTS] && hd_net_swap_is_there(team[SWAPS], k)) {
            *seen = look_at_swap(k);
        }
    }
}

/* The first one, if it may be. */
static void end_swap(void) {
    uint64_t k = swaps.first, seen = swaps.seen[k % HD_SWAP_SLOTS];
    if (k == swaps.next || (!seen && !swaps.leg[k % HD_SWAP_SLOTS])) {
        return;
    }
    if (seen) {
        CHECK(look_at_swap(k) == seen);
        hd_net_swap_over(team[SWAPS], k);
    }
    swaps.first++;
}

/* --- losses --- */

/* A process is gone since long ago. */
static void lose(input_t *in) {
    hd_peer_t *peer = team[0]->peer[next_byte(in) % n];
    if (!peer) {
        return;
    }
    hd_peer_lose(peer, "says the input");
    atomic_store(&peer->lost_at, 0);
    net->lane[0].mourned = 0;
    hd_net_pump(net); /* which sees it */
    for (uint32_t i = 0; i <= HD_NET_QUIET_TURNS; i++) {
        hd_net_pump(net);
    }
    net->lane[0].mourned = 0;
}

/* --- a run --- */

static ucc_status_t next_status(input_t *in) {
    static const ucc_status_t status[] = {
        UCC_OK, UCC_OK, UCC_INPROGRESS, UCC_INPROGRESS, UCC_ERR_IO_ERROR, UCC_ERR_NO_MEMORY,
        UCC_OK, UCC_OK};
    return status[next_byte(in) % 8];
}

static void run(input_t *in) {
    while (in->left > 0) {
        case_leg_t *l;
        ucc_status_t status;
        switch (instruction[next_byte(in) % sizeof(instruction)]) {
        case START:
            start(in);
            break;
        case MESSAGE:
            message(in);
            break;
        case RAW:
            raw(in);
            break;
        case END:
            status = next_status(in);
            fake_ucx_end(next_byte(in), status == UCC_INPROGRESS ? UCC_OK : status);
            break;
        case DECIDE:
            fake_ucx_decide(next_status(in));
            break;
        case CANCEL:
            l = &legs[next_byte(in) % LEGS];
            l->cancelled = true;
            break;
        case ABORT:
            abort_team(in);
            break;
        case SWAP:
            swap_comes(in);
            break;
        case GIVE:
            give(in);
            break;
        case LOSE:
            lose(in);
            break;
        case OVER:
            look_at_swaps();
            end_swap();
            break;
        default:
            hd_net_pump(net);
            break;
        }
    }
}

static void make_teams(uint32_t *failed) {
    hd_net_process_t process[MOST_PROCESSES];
    size_t bytes;
    const void *address = hd_net_address(net, false, &bytes);
    for (uint32_t i = 0; i < n; i++) {
        process[i] = (hd_net_process_t){.identity = {i + 1, 5}, .address = address, .bytes = bytes};
    }
    for (uint32_t t = 0; t < TEAMS; t++) {
        hd_net_team_params_t params = {.wire = 100 + t,
                                       .n = n,
                                       .me = me,
                                       .process = process,
                                       .swaps = t == SWAPS && n <= HD_SWAP_PROCESSES,
                                       .failed = on_failed,
                                       .swapped = on_swapped,
                                       .arg = &failed[t]};
        CHECK(hd_net_team_create(net, &params, &team[t]) == UCC_OK);
    }
}

/* All legs can be ended, whatever has happened. What is under way for no leg may outlive the teams.
 */
static void end_all(const uint32_t *failed) {
    fake_ucx_decide(UCC_OK);
    for (uint32_t i = 0; i < LEGS; i++) {
        legs[i].cancelled = true;
    }
    for (uint32_t turns = 0, left = LEGS; left > 0; turns++) {
        CHECK(turns < 10000);
        hd_net_pump(net);
        left = 0;
        for (uint32_t i = 0; i < LEGS; i++) {
            left += legs[i].started && !legs[i].over;
        }
        if (left > 0) {
            (void)fake_ucx_end(turns, UCC_OK);
        }
    }
    for (uint32_t t = 0; t < TEAMS; t++) {
        CHECK(failed[t] <= 1);
        hd_net_team_destroy(team[t]);
    }
    while (fake_ucx_end(0, UCC_OK)) {
    }
    hd_net_pump(net);
    hd_park_clear(&net->lane[0]);
    CHECK(fake_ucx_kept() == 0 && net->lane[0].n_early + net->lane[0].n_early_aborts == 0 &&
          !net->lane[0].legs);
    for (uint32_t i = 0; i < LEGS; i++) {
        forget(&legs[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input_t in = {data, size};
    uint32_t failed[TEAMS] = {0};
    if (!net) {
        hd_config_t *config;
        setenv("HEDDLE_LOG_LEVEL", "fatal", 0);
        CHECK(hd_config_read(HD_CFG_SCOPE_LIB, NULL, NULL, &config) == UCC_OK);
        CHECK(hd_config_modify(config, NULL, "NET_LANES", "1") == UCC_OK);
        CHECK(hd_config_modify(config, NULL, "NET_WATCH", "n") == UCC_OK);
        CHECK(hd_net_open(config, false, &net) == UCC_OK);
        hd_config_release(config);
    }
    fake_ucx_renew(net);
    n = 2 + next_byte(&in) % (MOST_PROCESSES - 1);
    me = next_byte(&in) % n;
    swaps.first = swaps.next = 1;
    swaps.changed = false;
    make_teams(failed);
    fake_ucx_decide(UCC_OK);
    run(&in);
    end_all(failed);
    return 0;
}
