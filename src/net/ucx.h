/* ucx.h: all that we know of UCX. It is loaded when it is first needed, and called through a table
 * of pointers that only ucx.c sees; no other file includes a header of it. In a build without them,
 * hd_ucx_load says so.
 *
 * A worker, its endpoints and requests belong to a lane: whoever calls holds the lane's lock, and
 * the functions that UCX calls back are called by whoever makes progress, under it.
 */
#ifndef HD_NET_UCX_H
#define HD_NET_UCX_H

#include "net/net.h"

struct ucp_context;
struct ucp_worker;
struct ucp_ep;

enum { HD_UCX_DESCRIPTORS = 32 }; /* that must be free for a context or a worker to be opened */

/* Whom a context is for: all processes; those of this host, which meet in its shared memory and at
 * its loopback device alone; those of other hosts. */
typedef enum hd_ucx_whom { HD_UCX_ALL, HD_UCX_NEAR, HD_UCX_FAR } hd_ucx_whom_t;

typedef struct hd_ucx_options {
    const char *tls;     /* "": UCX's choice */
    const char *devices; /* "all": UCX's choice; else names of network devices, with commas */
    bool shm;            /* processes of a host may use its shared memory */
    bool survive;        /* what is under way with a lost process ends */
    bool shared;         /* there are several lanes, which several threads may hold at once */
    hd_ucx_whom_t whom;
} hd_ucx_options_t;

/* What becomes of a message that has arrived. */
typedef enum hd_ucx_arrival {
    HD_UCX_DONE, /* nothing of it is needed any more: to its sender, it was received */
    HD_UCX_KEPT  /* a rendezvous, which hd_ucx_receive or hd_ucx_release ends later */
} hd_ucx_arrival_t;

typedef struct hd_ucx_port hd_ucx_port_t;
typedef struct hd_ucx_link hd_ucx_link_t;
typedef struct hd_ucx_request hd_ucx_request_t;

/* Where messages come in: part of a lane. */
struct hd_ucx_port {
    struct ucp_worker *worker; /* NULL: closed */
    /* For processes of other hosts, once there are any, if the first one is for this host alone;
     * and a descriptor to sleep on both. NULL: the first one is for all. */
    struct ucp_worker *far;
    int both;
    /* data: the message's, or, if `rendezvous`, what names it in hd_ucx_receive. */
    hd_ucx_arrival_t (*arrive)(hd_ucx_port_t *port, const void *header, size_t header_bytes,
                               void *data, size_t bytes, bool rendezvous);
};

/* A way to one other port. */
struct hd_ucx_link {
    struct ucp_ep *ep; /* NULL: not connected */
    void (*lost)(hd_ucx_link_t *link,
                 const char *why); /* the other end can't be reached any more */
};

/* What is under way; part of whatever its owner knows of it. */
struct hd_ucx_request {
    /* UCX touches no buffer of this request any more. */
    void (*done)(hd_ucx_request_t *request, ucc_status_t status);
};

/* Loads UCX, once in a process. Any thread, one at a time. An error is logged. */
ucc_status_t hd_ucx_load(const char *library);

ucc_status_t hd_ucx_open(const hd_ucx_options_t *options, struct ucp_context **context);
/* May there be one context for this host, and another one for others? Not if the user has chosen
 * devices, or transports without TCP, which alone listens. */
bool hd_ucx_parts(const hd_ucx_options_t *options);
/* May it use shared memory among the processes of a host? */
bool hd_ucx_shares(const hd_ucx_options_t *options);
void hd_ucx_close(struct ucp_context *context);

/* port->arrive is set. */
ucc_status_t hd_ucx_listen(struct ucp_context *context, hd_ucx_port_t *port);
/* It is open: messages of other hosts come, too, by that context. */
ucc_status_t hd_ucx_listen_far(struct ucp_context *context, hd_ucx_port_t *port);
/* False: UCX could not do it without ending the process, and keeps it. */
bool hd_ucx_hang_up(hd_ucx_port_t *port);
/* UCX keeps the workers, or they are the parent's of this process: what is ours of it ends. */
void hd_ucx_abandon(hd_ucx_port_t *port);
/* Copied to new memory: hd_free. far: of port->far. */
ucc_status_t hd_ucx_address(const hd_ucx_port_t *port, bool far, void **address, size_t *bytes);
/* Did anything happen? */
bool hd_ucx_progress(const hd_ucx_port_t *port);
/* A descriptor that will be readable if something happens from now on; -1: something has, or it
 * can't be told. */
int hd_ucx_arm(const hd_ucx_port_t *port);

/* link->lost is set. The address was checked to be whole; UCX believes it. far: it is another
 * host's. */
ucc_status_t hd_ucx_connect(const hd_ucx_port_t *port, bool far, const void *address,
                            hd_ucx_link_t *link);
/* Hands over what is under way, or, with force, drops it. NULL: done; else ask hd_ucx_is_over,
 * which gives it back when it says true. */
void *hd_ucx_disconnect(hd_ucx_link_t *link, bool force);
bool hd_ucx_is_over(void *closing);
/* Instead, before its port hangs up: nobody asks any more. UCX ends the process over one that is
 * left. */
void hd_ucx_forget(void *closing);

/* What UCX has selected for it, a line each; nothing if it is not connected. */
void hd_ucx_describe(const hd_ucx_link_t *link, FILE *out, const char *indent);

/* How data goes: as UCX thinks best; stays here until the receiver asks for it; at once. */
typedef enum hd_ucx_way { HD_UCX_EITHER, HD_UCX_RENDEZVOUS, HD_UCX_EAGER } hd_ucx_way_t;

/* UCC_INPROGRESS: request->done will be called, or was; header, pieces and data stay until then.
 * Else it was done at once, and request->done is not called. */
ucc_status_t hd_ucx_send(const hd_ucx_link_t *link, const void *header, size_t header_bytes,
                         const hd_net_piece_t *piece, size_t n, hd_ucx_way_t way,
                         hd_ucx_request_t *request);
/* The same for a rendezvous that was kept, or, inside its arrival, is being kept. */
ucc_status_t hd_ucx_receive(const hd_ucx_port_t *port, void *data, const hd_net_piece_t *piece,
                            size_t n, hd_ucx_request_t *request);
/* The sender's request ends, as if all had been received. */
void hd_ucx_release(const hd_ucx_port_t *port, void *data);

#endif
