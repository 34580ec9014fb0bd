/* deaf.c: whether this process still hears by shared memory. UCX's queues there have one reader and
 * many writers; one that is killed between taking a place in a queue and filling it blocks that
 * queue for good, and nobody notices: the reader waits, and the writers do not. So when a process
 * of this host has died, this one sends itself a message by the same kind of way, from a worker
 * that is made for that: a PROBE to each lane. One that does not come, though both ends have
 * looked for it again and again, tells that the lane is deaf. Nobody else takes part in that, so
 * however slow other processes are, nobody takes himself for deaf who is not.
 *
 * A process that is deaf can't be helped: it goes, and the others stay. A process that has run out
 * of descriptors can ask, too: those for the worker are held from the beginning, until the worker,
 * or a way to a peer, needs them.
 *
 * All of it in lane 0, under its lock, but for what each lane notes of itself.
 */
#include "net/internal.h"

#include "core/descriptors.h"

#include <fcntl.h>
#include <unistd.h>

enum { ENOUGH_LOOKS = 20, PROGRESSES = 8 };
static const uint64_t long_enough = 1000000000, again_after = 500000000; /* ns */

static hd_ucx_arrival_t ignore(hd_ucx_port_t *port, const void *header, size_t header_bytes,
                               void *data, size_t bytes, bool rendezvous) {
    (void)port, (void)header, (void)header_bytes, (void)data, (void)bytes, (void)rendezvous;
    return HD_UCX_DONE;
}

/* A ping that could not be sent says nothing of its lane: it is not known whether that hears. */
static void give_up(hd_net_ping_t *ping, const char *why) {
    hd_info("a process can't reach itself to see whether it hears: %s", why);
    ping->broken = true;
    ping->net->probing = false;
}

static void on_sent(hd_ucx_request_t *ucx, ucc_status_t status) {
    hd_net_ping_t *ping = (hd_net_ping_t *)ucx;
    ping->under_way = false;
    if (status != UCC_OK) {
        give_up(ping, ucc_status_string(status));
    }
}

static void on_lost(hd_ucx_link_t *link, const char *why) {
    give_up((hd_net_ping_t *)(void *)((char *)link - offsetof(hd_net_ping_t, link)), why);
}

void hd_net_hold(hd_net_t *net) {
    (void)hd_descriptors_reserve(2 * HD_UCX_DESCRIPTORS);
    net->n_held = 0;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && net->n_held < HD_UCX_DESCRIPTORS) {
        net->held[net->n_held++] = fd;
        fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    }
    if (fd >= 0) {
        close(fd);
    } else { /* what is left is needed more elsewhere */
        hd_net_let_go(net);
    }
}

void hd_net_let_go(hd_net_t *net) {
    while (net->n_held > 0) {
        close(net->held[--net->n_held]);
    }
}

/* False: something is lacking, which may be there later. */
static bool open_prober(hd_net_t *net) {
    hd_net_reach_t reach;
    bool fresh = !net->prober.worker, open = true;
    net->prober.arrive = ignore;
    if (fresh) {
        hd_net_let_go(net);
        if (!hd_descriptors_reserve(HD_UCX_DESCRIPTORS) || /* or a line would say so each time */
            hd_ucx_listen(net->context, &net->prober) != UCC_OK) {
            hd_net_hold(net);
            return false;
        }
    }
    (void)hd_net_address_parse(net->address.bytes, net->address.n, &reach); /* made here */
    for (uint32_t l = 0; l < net->lanes; l++) {
        hd_net_ping_t *probe = &net->probe[l];
        if (fresh) {
            *probe =
                (hd_net_ping_t){.ucx = {.done = on_sent}, .net = net, .link = {.lost = on_lost}};
        }
        if (!probe->link.ep && !probe->broken) {
            open =
                hd_ucx_connect(&net->prober, false, reach.lane[l], &probe->link) == UCC_OK && open;
        }
    }
    return open;
}

static void send(hd_net_t *net, hd_net_ping_t *probe) {
    const hd_wire_t wire = {.kind = HD_WIRE_PROBE,
                            .class = HD_NET_NUMBERED,
                            .team = net->token[0],
                            .number = net->n_probes};
    hd_wire_write(&wire, probe->header);
    probe->under_way = true;
    ucc_status_t status = hd_ucx_send(&probe->link, probe->header, sizeof(probe->header), NULL, 0,
                                      HD_UCX_EAGER, &probe->ucx);
    if (status != UCC_INPROGRESS) {
        on_sent(&probe->ucx, status);
    }
}

void hd_net_probe(hd_net_t *net) {
    net->probe_again = 0;
    if (!net->shares || hd_net_is_given_up(net)) {
        return;
    }
    if (!open_prober(net)) {
        net->probe_again = hd_clock_ns() + again_after;
        return;
    }
    for (uint32_t l = 0; l < net->lanes; l++) {
        const hd_net_ping_t *probe = &net->probe[l];
        if (probe->broken || !probe->link.ep || (probe->under_way && !net->probing)) {
            return;
        }
    }
    net->probed_at = hd_clock_ns();
    net->probe_looks = 0;
    for (uint32_t l = 0; l < net->lanes; l++) {
        /* relaxed: a count */
        atomic_store_explicit(&net->lane[l].listened, 0, memory_order_relaxed);
    }
    if (net->probing) {
        return; /* what is on its way shows it, too */
    }
    net->probing = true;
    net->n_probes++;
    for (uint32_t l = 0; l < net->lanes; l++) {
        send(net, &net->probe[l]);
    }
}

/* Has the ping of the last round come to the lane? */
static bool has_heard(const hd_net_t *net, const hd_net_lane_t *lane) {
    /* relaxed: a number */
    return atomic_load_explicit(&lane->probed, memory_order_relaxed) == net->n_probes;
}

bool hd_net_is_deaf(hd_net_t *net, uint64_t now) {
    bool all = true, deaf = false;
    if (net->probe_again && now > net->probe_again) {
        hd_net_probe(net);
    }
    if (!net->probing) {
        return false;
    }
    for (uint32_t i = 0; i < PROGRESSES && hd_ucx_progress(&net->prober); i++) {
    }
    net->probe_looks++;
    for (uint32_t l = 0; l < net->lanes && net->probing; l++) {
        const hd_net_lane_t *lane = &net->lane[l];
        if (!has_heard(net, lane)) {
            all = false;
            /* relaxed: a count */
            deaf = deaf ||
                   (now - net->probed_at > long_enough && net->probe_looks > ENOUGH_LOOKS &&
                    atomic_load_explicit(&lane->listened, memory_order_relaxed) > ENOUGH_LOOKS);
        }
    }
    net->probing = net->probing && !all && !deaf;
    return deaf;
}

bool hd_net_close_prober(hd_net_t *net) {
    enum { MOST = 1000 };
    bool clean = true;
    net->probing = false;
    hd_net_let_go(net);
    if (!net->prober.worker) {
        return true;
    }
    for (uint32_t l = 0; l < net->lanes; l++) {
        hd_net_ping_t *probe = &net->probe[l];
        void *closing = probe->link.ep ? hd_ucx_disconnect(&probe->link, true) : NULL;
        for (uint32_t i = 0; i < MOST && closing; i++) {
            (void)hd_ucx_progress(&net->prober);
            closing = hd_ucx_is_over(closing) ? NULL : closing;
        }
        clean = clean && !closing && !probe->under_way;
        if (closing) {
            hd_ucx_forget(closing);
        }
    }
    clean = clean && hd_ucx_hang_up(&net->prober);
    net->prober.worker = NULL;
    return clean;
}
