/* bootstrap.h: the processes of a job, and the exchange among them.
 *
 *   WIRE       what goes over a connection (wire.h)
 *   CONN       a connection: its socket, its wire, and what is still to be sent (conn.c)
 *   DOOR       a socket that listens, and whoever comes there (door.c)
 *   TREE       who has conns with whom (tree.c)
 *   BOOTSTRAP  this process's part: its conns to its parent and its children
 *
 * Forming (root.c at rank 0, join.c at the others) blocks. All come to rank 0, and have a conn with
 * it until all have found their parents. So rank 0 knows who is missing, and whoever fails reaches
 * all. What forming begins, an exchange (exchange.c) goes on with along the tree, without blocking.
 * Nothing here is shared by threads.
 *
 * Failure. The first cause is the bootstrap's for good (hd_bootstrap_fail): it is logged, and told
 * to all whom a conn still reaches, by an ABORT between two frames; they tell it on. Telling takes
 * HD_TELL_SECONDS at most, then conns are closed, which tells as well.
 */
#ifndef HD_BOOTSTRAP_BOOTSTRAP_H
#define HD_BOOTSTRAP_BOOTSTRAP_H

#include "bootstrap/kvs.h"
#include "bootstrap/wire.h"
#include "core/fork.h"

#include <heddle/bootstrap.h>
#include <poll.h>

/* Seconds. */
#define HD_HANDSHAKE_SECONDS 5.0
#define HD_TELL_SECONDS      1.0
/* By so much who waits for a result, or for rank 0, waits longer than who waits for others' blocks,
 * or for their coming: these know who is missing. */
#define HD_GRACE_SECONDS   0.5
#define HD_DEFAULT_SECONDS 60.0

enum { HD_NAME_BYTES = 96, HD_LARGEST_KEY = 4096, HD_DEFAULT_FANOUT = 4 };

/* --- connections (conn.c) --------------------------------------------------------------------- */

typedef struct hd_conn {
    int fd;    /* non-blocking and close-on-exec; -1: closed */
    bool told; /* an ABORT has been begun: nothing follows */
    /* forming: the peer has found its parent; during an exchange: what it sends is here */
    bool have;
    uint32_t stranger;        /* at a door: 1 + its place among the strangers; 0: none */
    double deadline;          /* of a stranger */
    char name[HD_NAME_BYTES]; /* whom log lines speak of */
    hd_wire_t wire;
    hd_transfer_t giving; /* open: its pieces are sent one after the other */
    /* The message that is being sent: head, payload (in the transfer's memory) and the HMAC behind
     * it. */
    uint8_t head[HD_WIRE_HEAD + HD_WIRE_FAIL + HD_WIRE_MAC];
    const uint8_t *payload;
    uint8_t mac[HD_WIRE_MAC];
    size_t head_bytes, payload_bytes, mac_bytes;
    size_t sent; /* of all three; their sum: nothing is being sent */
} hd_conn_t;

/* What a read of a socket has brought. */
typedef struct hd_read {
    hd_wire_event_t event; /* HD_WIRE_MORE: no more for now */
    bool closed;           /* with HD_WIRE_BAD: the other end has closed, or the connection broke */
} hd_read_t;

/* Takes over the descriptor, and sets its options. NULL: no memory; fd is closed then. */
hd_conn_t *hd_conn_create(int fd, bool accepting, const heddle_bootstrap_t *b, const char *name);
void hd_conn_destroy(hd_conn_t *conn);
/* The descriptor only: what is under way is lost. */
void hd_conn_close(hd_conn_t *conn);
/* Sends no more. The descriptor stays open: to close one with bytes unread could cost the peer what
 * was sent last. */
void hd_conn_end(hd_conn_t *conn);
/* Reads until an event; a bounded number of bytes at a time. */
hd_read_t hd_conn_read(hd_conn_t *conn);
/* A message of n bytes, which conn->head holds. Nothing may be being sent. */
void hd_conn_send_head(hd_conn_t *conn, size_t n);
/* The same, at once: forming sends less than any socket holds. False: the connection is broken. */
bool hd_conn_send_small(hd_conn_t *conn, size_t n);
/* Writes what the socket takes. False: it is broken; hd_conn_last_words tells what that means. */
bool hd_conn_write(hd_conn_t *conn);
hd_read_t hd_conn_last_words(hd_conn_t *conn);
/* Whether there is something to write. */
bool hd_conn_busy(const hd_conn_t *conn);
/* After the frame that is being sent, an ABORT, and nothing more. */
void hd_conn_tell(hd_conn_t *conn, ucc_status_t status, const char *text);

/* --- the tree (tree.c) ------------------------------------------------------------------------ */

/* Ranks that follow each other. */
typedef struct hd_range {
    uint32_t first, n;
} hd_range_t;

typedef struct hd_tree {
    uint32_t depth;    /* of rank 0: 0 */
    uint32_t parent;   /* of rank 0: 0 */
    hd_range_t own;    /* a process's subtree: itself first */
    uint32_t children; /* at most as many as the fan-out */
} hd_tree_t;

hd_tree_t hd_tree_place(uint32_t rank, uint32_t size, uint32_t fanout);
/* The subtree of the i-th child, which is its first. */
hd_range_t hd_tree_child(const hd_tree_t *tree, uint32_t i);
/* The child in whose subtree a rank of this process's is, which is not its own. */
uint32_t hd_tree_towards(const hd_tree_t *tree, uint32_t rank);

/* --- the bootstrap (bootstrap.c) -------------------------------------------------------------- */

typedef enum hd_exchange_state {
    HD_EXCHANGE_NONE,    /* no request */
    HD_EXCHANGE_OPEN,    /* blocks are on their way */
    HD_EXCHANGE_TELLING, /* failed; the others are being told */
    HD_EXCHANGE_OVER     /* `outcome` is its status; to be freed */
} hd_exchange_state_t;

struct heddle_bootstrap {
    hd_fork_hook_t
        fork_hook; /* must stay first: the child of a fork closes its copies of the descriptors */
    uint32_t rank, size;
    double timeout, exchange_timeout; /* seconds; negative: none */
    uint8_t *key;
    size_t key_bytes;
    char job[HD_WIRE_JOB];
    bool by_launcher; /* has rank and size from it */
    uint32_t fanout;  /* of the tree; rank 0 says it */
    bool listens_all; /* at all addresses of the host, as rank 0 does */
    hd_tree_t tree;
    hd_conn_t **peer; /* [0]: the parent (rank 0: NULL), then the children. While forming: at rank 0
                       * by rank, at others with rank 0 behind the children, if it is no parent */
    uint32_t n_peers;
    struct pollfd *polls; /* one per peer */
    bool inherited;       /* this is a copy in the child of a fork */
    ucc_status_t failure; /* the first; UCC_OK: none */
    char failure_text[HD_WIRE_TEXT];
    double tell_until;
    /* the exchange (exchange.c) */
    hd_exchange_state_t exchange;
    ucc_status_t outcome;
    uint64_t round;
    uint64_t block;   /* bytes */
    uint32_t missing; /* children whose subtrees' blocks are not here */
    double deadline;  /* of forming, or of an exchange */
};

/* --- time, peers and failure (failure.c) ------------------------------------------------------ */

/* Room for n conns. False: the bootstrap has failed. */
bool hd_bootstrap_make_peers(heddle_bootstrap_t *b, uint32_t n);

/* Seconds of a clock that only goes forward. */
double hd_seconds(void);
/* `seconds` from now; negative: never, which is a time too. */
double hd_deadline(double seconds);
/* For poll: milliseconds until then, rounded up; at most a second, so that whoever waits looks at
 * the clock. */
int hd_milliseconds_until(double deadline);

/* Records and logs the first cause, and queues an ABORT for every peer that can still be told. */
void hd_bootstrap_fail(heddle_bootstrap_t *b, ucc_status_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What a peer's event means where nothing but an ABORT may come; also for its end. */
void hd_bootstrap_lost(heddle_bootstrap_t *b, hd_conn_t *conn, hd_read_t read);
/* Writes what is still to be told. True when there is no more, or its time is over: nothing is sent
 * any more. */
bool hd_bootstrap_told(heddle_bootstrap_t *b);
/* The same, waiting. */
void hd_bootstrap_tell_all(heddle_bootstrap_t *b);
/* "3, 7, 8 and 12 more" */
typedef struct hd_names {
    char text[96];
    size_t used;
    uint32_t named, more;
} hd_names_t;
void hd_names_add(hd_names_t *names, uint32_t rank);
/* "": none */
const char *hd_names_text(hd_names_t *names);
/* For lines: what to do about an errno that says that too many files are open; "" if not. */
const char *hd_files_hint(int error);

/* --- forming ---------------------------------------------------------------------------------- */

typedef struct hd_door {
    heddle_bootstrap_t *b;
    int listener;               /* -1: nobody comes; its owner's */
    int epoll;                  /* of the listener, the strangers, and the peers that are watched */
    uint32_t expected, present; /* processes that are to come by the listener, and have come */
    uint32_t listening, linked; /* at rank 0: processes that have said so */
    bool addressed, started;    /* at others: what rank 0 has said */
    hd_conn_t **stranger;
    uint32_t strangers, most_strangers;
    double patience;      /* seconds for a stranger to prove that it knows the key */
    uint32_t turned_away; /* strangers that did not know the key */
    uint32_t other_jobs;  /* processes of other jobs, sent away */
    bool full;            /* nobody is accepted for a moment */
} hd_door_t;

/* To be closed, also after an error, which is the bootstrap's. door.c */
ucc_status_t hd_door_open(hd_door_t *door, heddle_bootstrap_t *b, int listener, uint32_t expected);
/* A peer that has not come by the door. */
void hd_door_watch(hd_door_t *door, hd_conn_t *conn);
/* Waits until something comes, or until then, and serves it. */
void hd_door_wait(hd_door_t *door, double until);
void hd_door_close(hd_door_t *door);
/* Of a listener, for as many processes. */
uint32_t hd_door_backlog(uint32_t expected);

/* A conn with the process that listens at an address, which has accepted this one; tries again
 * until it has, or the deadline. watched: tells of failures meanwhile; NULL: nobody. NULL: why not
 * is the bootstrap's failure. connect.c */
hd_conn_t *hd_connect(heddle_bootstrap_t *b, uint32_t to, const char *address, hd_conn_t *watched,
                      double deadline);
/* By a rank 0 that finds its address in use: what a rank 0 that listens there says to it;
 * HD_WIRE_N_VERDICTS: there is none. connect.c */
hd_wire_verdict_t hd_connect_to_twin(heddle_bootstrap_t *b, const char *address,
                                     char job[HD_WIRE_JOB]);

/* By rank 0. listener: a socket that listens, or -1 to make one for the address. root.c */
ucc_status_t hd_root_form(heddle_bootstrap_t *b, const char *address, int listener);
/* By all others. join.c */
ucc_status_t hd_join(heddle_bootstrap_t *b, const char *address);

/* --- where things come from ------------------------------------------------------------------- */

/* The job's name: short ones as they are, of long ones the beginning and a digest. key.c */
void hd_job_name(heddle_bootstrap_t *b, const char *job);
/* Whether params or the environment have a key. key.c */
bool hd_key_is_given(const heddle_bootstrap_params_t *params);
/* A copy, into b->key. from: for lines. key.c */
ucc_status_t hd_key_keep(heddle_bootstrap_t *b, const void *key, size_t bytes, const char *from);
/* The job's key, from params or the environment, into b->key. key.c */
ucc_status_t hd_key_load(heddle_bootstrap_t *b, const heddle_bootstrap_params_t *params);
/* host and port of "host:port"; host is 127.0.0.1 if there is none. address.c */
bool hd_address_split(const char *address, char *host, size_t host_size, char *port,
                      size_t port_size);
/* Logged. list: for freeaddrinfo. address.c */
struct addrinfo;
ucc_status_t hd_address_resolve(const char *address, bool quiet, struct addrinfo **list);
/* "host:port" of a socket's address. address.c */
struct sockaddr;
void hd_address_name(const struct sockaddr *address, uint32_t bytes, char *out, size_t size);
/* A non-blocking socket that listens there; -1: errno. address.c */
int hd_address_listen(const struct sockaddr *at, uint32_t bytes, uint32_t backlog);
/* Where a peer is, and a port of its; family 0: its address is of another kind. address.c */
hd_place_t hd_address_place(const hd_conn_t *peer, uint16_t port);
/* "host:port" of a place, which rank 0 has seen; `root` is this process's conn with it. address.c
 */
void hd_address_reach(const hd_place_t *place, const hd_conn_t *root, char *out, size_t size);
/* Whether a listening socket does so at all addresses of its host. address.c */
bool hd_address_is_all(int listener);
/* Rank and size of this process as its launcher says; size 0: that is to be asked (hd_kvs_size).
 * launcher.c */
ucc_status_t hd_launcher_place(uint32_t *rank, uint32_t *size);
/* What the launcher calls the job; "": nothing. False: rank and size are not a launcher's, but set
 * by hand. launcher.c */
bool hd_launcher_job(char *out, size_t size);
/* Where a step of SLURM has no address: "host:port" of its first host; false: this is none.
 * launcher.c */
bool hd_launcher_address(char *out, size_t size);
/* The first host of a node list such as "rack[3-5,9]-n[01-16],login". False: malformed. launcher.c
 */
bool hd_launcher_first_host(const char *list, char *out, size_t size);
/* A decimal number of at most `most`, and nothing else. launcher.c */
bool hd_launcher_number(const char *text, uint64_t most, uint64_t *value);

/* Whether the launcher keeps texts for its processes (kvs.h); only then may the others be called.
 * kvs.c */
bool hd_kvs_is_there(void);
/* How many processes the launcher has started. kvs.c */
ucc_status_t hd_kvs_size(uint32_t *size);
/* What is missing: a key, unless b has one, and unless has_address an address, where rank 0's
 * *listener (its to close, also after an error) listens. Called by all. kvs.c */
ucc_status_t hd_kvs_meet(heddle_bootstrap_t *b, bool has_address, int *listener,
                         char address[HD_KVS_TEXT]);

/* exchange.c: the functions of the ucc_oob_coll_t */
ucc_status_t hd_exchange_allgather(void *src, void *dst, size_t bytes, void *bootstrap,
                                   void **request);
ucc_status_t hd_exchange_test(void *request);
ucc_status_t hd_exchange_free(void *request);

#endif
