/* process.c: a process's net, as far as failures need it, and what drives it. */
#include "failures.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t MS = 1000000;

sim_process_t *sim_process;
uint32_t sim_n, sim_hosts;
bool sim_talks;

typedef struct address {
    uint64_t token[2];
    hd_watch_record_t record;
} address_t;

/* --- what the files call of the rest of the library ------------------------------------------- */

bool hd_clock_counts_cycles = false;
uint64_t hd_ticks_per_us = 1000;
atomic_int hd_log_threshold = HD_LOG_INFO;

int hd_log_init(void) {
    return 0;
}
void hd_log_line(hd_log_level_t level, const char *function, const char *format, ...) {
    static const char loss[] = "the ways to another process are cut";
    va_list args;
    (void)level, (void)function;
    sim_last_loss = strncmp(format, loss, sizeof(loss) - 1) == 0 ? sim_now : sim_last_loss;
    if (sim_talks) {
        printf("%9.3f %4u: ", (double)sim_now / 1e9 - 1000, sim_self ? sim_self->number : 0);
        va_start(args, format);
        vprintf(format, args);
        va_end(args);
        printf("\n");
    }
}
void *hd_alloc(size_t align, size_t bytes) {
    size_t whole = (bytes + align - 1) / align * align;
    void *block = aligned_alloc(align < sizeof(void *) ? sizeof(void *) : align, whole);
    return block ? memset(block, 0, whole) : NULL;
}
void hd_free(void *block) {
    free(block);
}
void hd_lock_wait(hd_lock_t *lock) {
    (void)lock;
    abort(); /* one thread */
}
bool hd_descriptors_reserve(uint32_t more) {
    (void)more;
    return true;
}
void hd_fork_guard(pthread_mutex_t *mutex) {
    (void)mutex;
}
bool hd_config_bool(const hd_config_t *config, hd_cfg_id_t id) {
    (void)config, (void)id;
    return true;
}
double hd_config_double(const hd_config_t *config, hd_cfg_id_t id) {
    (void)config, (void)id;
    return 4;
}
const char *hd_config_string(const hd_config_t *config, hd_cfg_id_t id) {
    (void)config, (void)id;
    return "";
}
void hd_net_match_aborted(hd_net_lane_t *lane, uint64_t wire, ucc_status_t why) {
    (void)lane, (void)wire, (void)why;
}
void hd_net_let_go(hd_net_t *net) {
    (void)net;
}
void hd_net_probe(hd_net_t *net) {
    (void)net;
}
bool hd_net_is_deaf(hd_net_t *net, uint64_t now) {
    (void)net, (void)now;
    return false;
}
void hd_ask_clear(hd_net_t *net) {
    (void)net;
}
void hd_ask_open(hd_net_t *net, bool listens) {
    (void)net, (void)listens;
}
void hd_ask_close(hd_net_t *net) {
    (void)net;
}
void hd_ask_hear(hd_net_t *net, uint64_t ask, const uint64_t from[2]) {
    (void)net, (void)ask, (void)from;
}
void hd_ask_asked(void *net) {
    (void)net;
}
void hd_ask_mail(void *net, const void *bytes, size_t n) {
    (void)net, (void)bytes, (void)n;
}
bool hd_ucx_progress(const hd_ucx_port_t *port) {
    (void)port;
    return false;
}
ucc_status_t hd_ucx_connect(const hd_ucx_port_t *port, bool far, const void *address,
                            hd_ucx_link_t *link) {
    (void)port, (void)far, (void)address, (void)link;
    return UCC_ERR_NO_RESOURCE;
}
void *hd_ucx_disconnect(hd_ucx_link_t *link, bool force) {
    (void)link, (void)force;
    return NULL;
}
bool hd_ucx_is_over(void *closing) {
    (void)closing;
    return true;
}
void hd_ucx_forget(void *closing) {
    (void)closing;
}
bool hd_net_address_parse(const void *address, size_t bytes, hd_net_reach_t *reach) {
    const address_t *it = address;
    *reach = (hd_net_reach_t){.lanes = 1, .watch = &it->record, .watch_bytes = sizeof(it->record)};
    memcpy(reach->token, it->token, sizeof(reach->token));
    return bytes == sizeof(*it);
}
uint64_t hd_watch_host(void) {
    return sim_self->host + 1;
}
void hd_watch_describe(hd_watch_record_t *record, uint64_t host, const char *devices) {
    (void)devices;
    *record = (hd_watch_record_t){.host = host, .n = 1};
    memcpy(record->line[0].bytes, &sim_self->number, sizeof(sim_self->number));
}
bool hd_watch_parse(hd_watch_record_t *record, const void *address, size_t bytes) {
    memcpy(record, address, sizeof(*record));
    return bytes == sizeof(*record);
}
void hd_watch_name(const hd_watch_record_t *record, uint64_t host, char name[HD_WATCH_NAME]) {
    snprintf(name, HD_WATCH_NAME, "host %llu, from %llu", (unsigned long long)record->host,
             (unsigned long long)host);
}
void hd_watch_tune(int fd, bool between_hosts, double lost_after) {
    (void)fd, (void)between_hosts, (void)lost_after;
}

/* --- driving it ------------------------------------------------------------------------------- */

static void turn(sim_process_t *p) {
    hd_net_lane_t *lane = &p->net->lane[0];
    sim_self = p;
    for (uint32_t i = 0; i < 64 && hd_watch_look(p->net->watch); i++) {
    }
    (void)hd_net_lane_take(lane);
    sim_self = NULL;
}

static void wake_now(void *arg, uint64_t number) {
    sim_process_t *p = arg;
    (void)number;
    p->wakes = false;
    if (!p->dead && !p->computes) {
        turn(p);
    }
}

void sim_wake(sim_process_t *p) {
    if (!p->wakes && !p->dead && !p->computes) {
        p->wakes = true;
        sim_at(sim_now + 10000 + sim_below(MS), wake_now, p, 0);
    }
}

static void tick(void *arg, uint64_t number) {
    sim_process_t *p = arg;
    if (p->dead) {
        return;
    }
    if (!p->computes) {
        turn(p);
        if (atomic_load(&p->net->has_losses)) {
            sim_self = p;
            hd_net_judge(p->net, sim_now);
            sim_self = NULL;
        }
    }
    sim_at(sim_now + 45 * MS + sim_below(10 * MS), tick, p, number);
}

void sim_compute(sim_process_t *p, bool computes) {
    p->computes = computes;
    if (!computes) {
        sim_wake(p);
    }
}

void sim_token(uint32_t number, uint64_t token[2]) {
    token[0] = (number + UINT64_C(1)) * UINT64_C(0x9E3779B97F4A7C15);
    token[1] = number + 1;
}

bool sim_given_up(const sim_process_t *p) {
    return hd_net_is_given_up(p->net);
}

bool sim_takes_for_dead(const sim_process_t *p, uint32_t other) {
    uint64_t token[2];
    sim_token(other, token);
    return hd_net_is_dead(p->net, token);
}

void sim_break_way(sim_process_t *p, uint32_t other) {
    uint64_t token[2];
    sim_token(other, token);
    hd_peer_t *peer = hd_peer_find(p->net, token);
    if (peer) {
        sim_self = p;
        hd_peer_lose(peer, "UCX says so");
        sim_self = NULL;
    }
}

/* --- opening, and closing --------------------------------------------------------------------- */

static void open_net(sim_process_t *p) {
    static char worker; /* there is one */
    hd_net_t *net = p->net = hd_alloc(HD_LINE_PAIR, sizeof(*net));
    if (!net) {
        fprintf(stderr, "no memory\n");
        exit(2);
    }
    sim_token(p->number, net->token);
    net->grace_ns = 200 * MS;
    net->silent_ns = 4000 * MS;
    net->lanes = 1;
    net->lane[0].net = net;
    net->lane[0].port.worker = (struct ucp_worker *)(void *)&worker;
    sim_self = p;
    (void)hd_gossip_meet(net, net->token);
    hd_net_watch_open(net, NULL);
    size_t bytes;
    const void *address = hd_watch_address(net->watch, &bytes);
    p->record = (hd_watch_record_t){.magic = 0};
    memcpy(&p->record, address, bytes);
    sim_self = NULL;
}

/* A team of all: see team_make.c. */
static void make_team(sim_process_t *p) {
    hd_net_team_t *team = hd_alloc(HD_LINE_PAIR, sizeof(*team) + sizeof(team->lane[0]));
    hd_peer_t **peer = hd_alloc(HD_LINE, sim_n * sizeof(*peer));
    hd_net_team_peer_t *of_lane = hd_alloc(HD_LINE, sim_n * sizeof(*of_lane));
    if (!team || !peer || !of_lane) {
        fprintf(stderr, "no memory\n");
        exit(2);
    }
    team->net = p->net;
    team->n = sim_n;
    team->me = p->number;
    team->peer = peer;
    team->lane[0].peer = of_lane;
    p->net->table[0] = team;
    sim_self = p;
    for (uint32_t i = sim_n; i-- > 0;) {
        address_t address = {.record = sim_process[i].record};
        sim_token(i, address.token);
        hd_net_process_t process = {
            .identity = {i + 1, 0}, .address = &address, .bytes = sizeof(address)};
        peer[i] = i == p->number ? NULL : hd_peer_of(p->net, &process);
    }
    for (uint32_t by = 1; by < sim_n; by *= 2) {
        hd_net_watch_keep(p->net, peer[(p->number + sim_n - by) % sim_n]);
        hd_net_watch_keep(p->net, peer[(p->number + by) % sim_n]);
    }
    sim_self = NULL;
    sim_at(sim_now + sim_below(50 * MS), tick, p, 0);
}

void sim_open(uint32_t processes, uint32_t hosts) {
    sim_n = processes;
    sim_hosts = hosts;
    sim_process = calloc(processes, sizeof(*sim_process));
    if (!sim_process) {
        fprintf(stderr, "no memory\n");
        exit(2);
    }
    for (uint32_t i = 0; i < processes; i++) {
        sim_process[i].number = i;
        sim_process[i].host = (uint32_t)((uint64_t)i * hosts / processes);
        open_net(&sim_process[i]);
    }
    for (uint32_t i = 0; i < processes; i++) {
        make_team(&sim_process[i]);
    }
}

void sim_close(void) {
    for (uint32_t i = 0; i < sim_n; i++) {
        sim_process_t *p = &sim_process[i];
        sim_self = p;
        (void)hd_net_lane_take(&p->net->lane[0]);
        hd_watch_abandon(p->net->watch);
        hd_net_team_t *team = p->net->table[0];
        hd_free(team->lane[0].peer);
        hd_free(team->peer);
        hd_free(team);
        hd_peer_free_all(p->net);
        hd_gossip_clear(p->net);
        hd_cuts_clear(p->net);
        hd_free(p->net);
    }
    sim_self = NULL;
    free(sim_process);
}
