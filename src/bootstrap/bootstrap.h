/* bootstrap.h: the processes of a job, and the exchange among them.
 *
 *   WIRE       what goes over a connection (wire.h)
 *   CONN       a connection: its socket, its wire, and what is still to be sent (conn.c)
 *   BOOTSTRAP  this process's part: rank 0 has a conn to every other rank, the others have one to
 *              rank 0
 *
 * Forming (root.c at rank 0, join.c at the others) blocks; what it begins, an exchange (exchange.c)
 * goes on with, without blocking. Nothing here is shared by threads.
 *
 * Failure. The first cause is the bootstrap's for good (hd_bootstrap_fail): it is logged, and told
 * to all whom a conn still reaches, by an ABORT between two frames. Rank 0 tells all others; they
 * tell rank 0. Telling takes HD_TELL_SECONDS at most, then conns are closed, which tells as well.
 */
#ifndef HD_BOOTSTRAP_BOOTSTRAP_H
#define HD_BOOTSTRAP_BOOTSTRAP_H

#include "bootstrap/wire.h"
#include "core/fork.h"

#include <heddle/bootstrap.h>
#include <poll.h>

/* Seconds. */
#define HD_HANDSHAKE_SECONDS 5.0
#define HD_TELL_SECONDS      1.0
/* By so much the others wait longer than rank 0, which knows better who is missing. */
#define HD_GRACE_SECONDS   0.5
#define HD_DEFAULT_SECONDS 60.0

enum { HD_NAME_BYTES = 96, HD_LARGEST_KEY = 4096 };

/* --- connections (conn.c) --------------------------------------------------------------------- */

typedef struct hd_conn {
    int fd;    /* non-blocking and close-on-exec; -1: closed */
    bool told; /* an ABORT has been begun: nothing follows */
    bool have; /* during an exchange: the peer's blocks are here */
    double deadline;
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

/* Takes over the descriptor, and sets its options. rank: of this process. NULL: no memory (logged);
 * fd is closed then. */
hd_conn_t *hd_conn_create(int fd, bool accepting, const heddle_bootstrap_t *b, uint32_t rank,
                          const char *name);
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
/* Writes what the socket takes. False: it is broken; hd_conn_last_words tells what that means. */
bool hd_conn_write(hd_conn_t *conn);
hd_read_t hd_conn_last_words(hd_conn_t *conn);
/* Whether there is something to write. */
bool hd_conn_busy(const hd_conn_t *conn);
/* After the frame that is being sent, an ABORT, and nothing more. */
void hd_conn_tell(hd_conn_t *conn, ucc_status_t status, const char *text);

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
    hd_conn_t **peer;     /* rank 0: by rank, peer[0] is NULL; others: peer[0] is rank 0 */
    uint32_t n_peers;     /* size, or 1 */
    struct pollfd *polls; /* one per peer */
    bool inherited;       /* this is a copy in the child of a fork */
    ucc_status_t failure; /* the first; UCC_OK: none */
    char failure_text[HD_WIRE_TEXT];
    double tell_until;
    /* the exchange (exchange.c) */
    hd_exchange_state_t exchange;
    ucc_status_t outcome;
    bool spreading; /* rank 0: all blocks are here, and go out */
    uint64_t round;
    uint32_t missing; /* peers whose blocks are not here */
    double deadline;
};

/* --- time and failure (failure.c) ------------------------------------------------------------- */

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
/* "3, 7, 8 and 12 more": ranks without a conn (forming), or whose blocks are missing. */
void hd_bootstrap_name_missing(const heddle_bootstrap_t *b, bool forming, char *out, size_t size);

/* --- forming ---------------------------------------------------------------------------------- */

/* By rank 0. listener: a socket that listens, or -1 to make one for the address. root.c */
ucc_status_t hd_root_form(heddle_bootstrap_t *b, const char *address, int listener);
/* By all others. join.c */
ucc_status_t hd_join(heddle_bootstrap_t *b, const char *address);
/* By a rank 0 that finds its address in use: whether rank 0 of the same job listens there (which
 * fails by this). join.c */
bool hd_join_finds_twin(heddle_bootstrap_t *b, const char *address);

/* --- where things come from ------------------------------------------------------------------- */

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
/* Rank and size of this process as its launcher says. launcher.c */
ucc_status_t hd_launcher_place(uint32_t *rank, uint32_t *size);
/* Where a step of SLURM has no address: "host:port" of its first host; false: this is none.
 * launcher.c */
bool hd_launcher_address(char *out, size_t size);
/* The first host of a node list such as "rack[3-5,9]-n[01-16],login". False: malformed. launcher.c
 */
bool hd_launcher_first_host(const char *list, char *out, size_t size);
/* A decimal number of at most `most`, and nothing else. launcher.c */
bool hd_launcher_number(const char *text, uint64_t most, uint64_t *value);

/* exchange.c: the functions of the ucc_oob_coll_t */
ucc_status_t hd_exchange_allgather(void *src, void *dst, size_t bytes, void *bootstrap,
                                   void **request);
ucc_status_t hd_exchange_test(void *request);
ucc_status_t hd_exchange_free(void *request);

#endif
