/* fake_ucx.c: see fake_ucx.h. One thread, one lane. */
#include "fake_ucx.h"

#include "fuzz.h"
#include "net/internal.h"

#include <stdio.h>

enum { MOST = 4096 };

typedef struct rendezvous {
    size_t bytes;
    bool arriving, ended;
} rendezvous_t;

static struct {
    uint8_t *header, *data;
    size_t header_bytes, bytes;
    bool rendezvous;
} coming[MOST];
static uint32_t n_coming, n_kept, n_under_way;
static struct {
    hd_ucx_request_t *request;
    const hd_ucx_link_t *link; /* of a send, until it is cut */
    const void *header;
    size_t header_bytes, n;
    const hd_net_piece_t *piece; /* n of them */
} under_way[MOST];
static ucc_status_t decision;

/* A sanitizer looks at all of it. */
static void look_at(const void *at, size_t bytes) {
    static uint8_t sink[4096];
    for (size_t some; bytes > 0; bytes -= some, at = (const uint8_t *)at + some) {
        some = bytes < sizeof(sink) ? bytes : sizeof(sink);
        memcpy(sink, at, some);
        __asm__ volatile(""
                         :
                         : "r"(sink)
                         : "memory"); /* else nobody reads it, and no compiler fills it */
    }
}

static void look_at_send(const void *header, size_t header_bytes, const hd_net_piece_t *piece,
                         size_t n) {
    look_at(header, header_bytes);
    for (size_t p = 0; p < n; p++) {
        look_at(piece[p].at, piece[p].bytes);
    }
}

static void *copy_of(const void *from, size_t bytes) {
    void *to = malloc(bytes ? bytes : 1); /* of its size, for sanitizers */
    CHECK(to);
    if (bytes) {
        memcpy(to, from, bytes);
    }
    return to;
}

void fake_ucx_put(const void *header, size_t header_bytes, const void *data, size_t bytes,
                  bool rendezvous) {
    if (n_coming == MOST) {
        return;
    }
    coming[n_coming].header = copy_of(header, header_bytes);
    coming[n_coming].header_bytes = header_bytes;
    coming[n_coming].data = rendezvous ? NULL : copy_of(data, bytes);
    coming[n_coming].bytes = bytes;
    coming[n_coming].rendezvous = rendezvous;
    n_coming++;
}

void fake_ucx_decide(ucc_status_t status) {
    decision = status;
}

bool fake_ucx_end(uint32_t i, ucc_status_t status) {
    if (n_under_way == 0) {
        return false;
    }
    i %= n_under_way;
    hd_ucx_request_t *request = under_way[i].request;
    if (under_way[i].link) {
        look_at_send(under_way[i].header, under_way[i].header_bytes, under_way[i].piece,
                     under_way[i].n);
    }
    under_way[i] = under_way[--n_under_way];
    request->done(request, status);
    return true;
}

uint32_t fake_ucx_kept(void) {
    return n_kept;
}

static ucc_status_t decide(hd_ucx_request_t *request) {
    if (decision == UCC_INPROGRESS && n_under_way < MOST) {
        memset(&under_way[n_under_way], 0, sizeof(under_way[0]));
        under_way[n_under_way++].request = request;
        return UCC_INPROGRESS;
    }
    return decision == UCC_INPROGRESS ? UCC_OK : decision;
}

void fake_ucx_renew(hd_net_t *net) {
    atomic_store(&net->has_losses, false);
    net->n_gone = 0;
    hd_cuts_clear(net);
    atomic_store(&net->given_up, false);
    hd_gossip_clear(net);
    for (hd_peer_t **at = &net->peers; *at;) { /* new ones of processes whose ways broke */
        hd_peer_t *peer = *at;
        if (peer->breaks == 0) {
            at = &peer->next;
            continue;
        }
        *at = peer->next;
        hd_free(peer->address);
        hd_free(peer);
    }
    for (hd_peer_t *peer = net->peers; peer; peer = peer->next) {
        hd_peer_link_t *link = &peer->link[0];
        atomic_store(&peer->lost, false);
        atomic_store(&peer->left, false);
        peer->asked = false;
        link->seen = link->noticed = 0;
        link->closing = NULL;
        link->broken = false;
    }
}

/* --- ucx.h --- */

ucc_status_t hd_ucx_load(const char *library) {
    (void)library;
    return UCC_OK;
}

ucc_status_t hd_ucx_open(const hd_ucx_options_t *options, struct ucp_context **context) {
    (void)options;
    *context = NULL;
    return UCC_OK;
}

bool hd_ucx_shares(const hd_ucx_options_t *options) {
    (void)options;
    return false;
}

bool hd_ucx_parts(const hd_ucx_options_t *options) {
    (void)options;
    return false;
}

void hd_ucx_close(struct ucp_context *context) {
    (void)context;
}

ucc_status_t hd_ucx_listen(struct ucp_context *context, hd_ucx_port_t *port) {
    (void)context;
    port->worker = (struct ucp_worker *)(void *)port;
    return UCC_OK;
}

ucc_status_t hd_ucx_listen_far(struct ucp_context *context, hd_ucx_port_t *port) {
    (void)context, (void)port;
    return UCC_ERR_NOT_SUPPORTED;
}

bool hd_ucx_hang_up(hd_ucx_port_t *port) {
    hd_ucx_abandon(port);
    return true;
}

void hd_ucx_abandon(hd_ucx_port_t *port) {
    port->worker = NULL;
}

ucc_status_t hd_ucx_address(const hd_ucx_port_t *port, bool far, void **address, size_t *bytes) {
    (void)port, (void)far;
    *bytes = 24;
    *address = hd_alloc(HD_LINE, *bytes);
    return *address ? UCC_OK : UCC_ERR_NO_MEMORY;
}

static void arrive(hd_ucx_port_t *port, uint32_t i) {
    rendezvous_t *r = NULL;
    void *data = coming[i].data;
    if (coming[i].rendezvous) {
        r = malloc(sizeof(*r));
        CHECK(r);
        *r = (rendezvous_t){.bytes = coming[i].bytes, .arriving = true};
        data = r;
    }
    hd_ucx_arrival_t end = port->arrive(port, coming[i].header, coming[i].header_bytes, data,
                                        coming[i].bytes, coming[i].rendezvous);
    CHECK(r || end == HD_UCX_DONE);
    CHECK(!r || !r->ended || end == HD_UCX_KEPT);
    if (r && (end == HD_UCX_DONE || r->ended)) {
        free(r);
    } else if (r) {
        r->arriving = false;
        n_kept++;
    }
    free(coming[i].header);
    free(coming[i].data);
}

bool hd_ucx_progress(const hd_ucx_port_t *port) {
    uint32_t n = n_coming;
    for (uint32_t i = 0; i < n; i++) {
        arrive((hd_ucx_port_t *)(uintptr_t)port, i);
    }
    n_coming = 0;
    return n > 0;
}

int hd_ucx_arm(const hd_ucx_port_t *port) {
    (void)port;
    return -1;
}

ucc_status_t hd_ucx_connect(const hd_ucx_port_t *port, bool far, const void *address,
                            hd_ucx_link_t *link) {
    (void)far, (void)address;
    link->ep = (struct ucp_ep *)(uintptr_t)port;
    return UCC_OK;
}

void *hd_ucx_disconnect(hd_ucx_link_t *link, bool force) {
    (void)force;
    for (uint32_t i = 0; i < n_under_way; i++) { /* ends, but nobody reads it any more */
        under_way[i].link = under_way[i].link == link ? NULL : under_way[i].link;
    }
    link->ep = NULL;
    return NULL;
}

bool hd_ucx_is_over(void *closing) {
    (void)closing;
    return true;
}
void hd_ucx_forget(void *closing) {
    (void)closing;
}

void hd_ucx_describe(const hd_ucx_link_t *link, FILE *out, const char *indent) {
    (void)link;
    (void)out;
    (void)indent;
}

ucc_status_t hd_ucx_send(const hd_ucx_link_t *link, const void *header, size_t header_bytes,
                         const hd_net_piece_t *piece, size_t n, hd_ucx_way_t way,
                         hd_ucx_request_t *request) {
    (void)way;
    CHECK(link->ep);
    look_at_send(header, header_bytes, piece, n);
    ucc_status_t status = decide(request);
    if (status == UCC_INPROGRESS) { /* UCX may read until the end */
        under_way[n_under_way - 1].link = link;
        under_way[n_under_way - 1].header = header;
        under_way[n_under_way - 1].header_bytes = header_bytes;
        under_way[n_under_way - 1].piece = piece;
        under_way[n_under_way - 1].n = n;
    }
    return status;
}

static void end_rendezvous(rendezvous_t *r) {
    CHECK(!r->ended);
    r->ended = true;
    if (!r->arriving) {
        n_kept--;
        free(r);
    }
}

ucc_status_t hd_ucx_receive(const hd_ucx_port_t *port, void *data, const hd_net_piece_t *piece,
                            size_t n, hd_ucx_request_t *request) {
    size_t bytes = 0;
    (void)port;
    for (size_t p = 0; p < n; p++) {
        if (piece[p].bytes) {
            memset(piece[p].at, 0x5a, piece[p].bytes);
        }
        bytes += piece[p].bytes;
    }
    CHECK(bytes == ((rendezvous_t *)data)->bytes);
    end_rendezvous(data);
    return decide(request);
}

void hd_ucx_release(const hd_ucx_port_t *port, void *data) {
    (void)port;
    end_rendezvous(data);
}
