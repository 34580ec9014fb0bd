/* watch.h: who is still there. UCX gives no bound on how long it takes to notice that a process is
 * gone (net.h's requests may stay under way for ever), so each process keeps idle TCP connections
 * to some others, on which the kernel answers: a process that computes or is stopped is there, one
 * that was killed is gone at once, one whose host is gone is so after a time that is configured. On
 * the same connections goes what must be told when something has failed, since UCX may not get it
 * through any more.
 *
 *     hd_watch_t *w = hd_watch_open(&params);
 *     hd_watch_address(w, &bytes)              goes to the others by whatever way
 *     hd_watch_keep(w, identity, address, ...) connects, or waits for the other's connection
 *     hd_watch_look(w)                         now and then, by whoever waits;
 *                                              hd_watch_descriptor is readable then
 *     hd_watch_tell(w, bytes, n, whom)         to all that are connected; they get it in `heard`,
 *                                              in the order in which it was told
 *     hd_watch_drop(w, identity)               says goodbye: the end of the connection is no death
 *
 * A connection is open when both sides have proved that they know a key of the one that accepts it,
 * which is in its address, and so known only to those who formed a team with it. What comes from
 * others is closed, and never looked at. Identities are random, but no secrets. No thread; no call
 * waits. Any thread may call anything at any time; `lost` and `heard` are called by it, under the
 * watch's lock, and must not call the watch.
 *
 * Processes of one host meet at the loopback address, and nothing else listens until a process of
 * another host is kept.
 */
#ifndef HD_NET_WATCH_H
#define HD_NET_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucc/api/ucc.h>

typedef struct hd_watch hd_watch_t;

enum {
    HD_WATCH_WORDS = 64,    /* most bytes that are told at once */
    HD_WATCH_MAIL = 232,    /* and of what is sent to one alone */
    HD_WATCH_ADDRESS = 512, /* most bytes of an address */
    HD_WATCH_LINES = 16     /* most network addresses in it */
};

typedef enum hd_watch_loss {
    HD_WATCH_LEFT,     /* it has said goodbye */
    HD_WATCH_DEAD,     /* the kernel of its host has said that it is gone */
    HD_WATCH_SILENT,   /* it, its host, or a link to it: there is no sign of it any more */
    HD_WATCH_UNREACHED /* there never was one */
} hd_watch_loss_t;

/* To whom words are told: to nobody; to all whose connections are open; to those, too, that connect
 * later, if fewer than about a thousand others have been told meanwhile; or whenever that is. */
typedef enum hd_watch_relay {
    HD_WATCH_NOBODY,
    HD_WATCH_THOSE_HERE,
    HD_WATCH_ALL,
    HD_WATCH_EVER
} hd_watch_relay_t;

typedef struct hd_watch_params {
    uint64_t identity[2]; /* of this process */
    uint64_t host;        /* those with the same number reach each other by the loopback address */
    double lost_after;    /* seconds without a sign of the other host; 0: 4 s */
    const char *devices;  /* names of network devices to be reached by, with commas; "": all */
    /* The process is gone, as far as this one knows. */
    void (*lost)(void *arg, const uint64_t identity[2], hd_watch_loss_t how);
    /* It has told this: whom is it told on to? */
    hd_watch_relay_t (*heard)(void *arg, const uint64_t identity[2], const void *words,
                              size_t bytes);
    /* It has sent this, to this process alone. NULL: nothing is taken. */
    void (*mail)(void *arg, const void *bytes, size_t n);
    /* A descriptor of hd_watch_also's is ready. */
    void (*asked)(void *arg);
    void *arg;
} hd_watch_params_t;

/* One in a process at a time. NULL: no socket (logged). */
hd_watch_t *hd_watch_open(const hd_watch_params_t *params);
/* Says goodbye to all. */
void hd_watch_close(hd_watch_t *watch);
/* In the child of a fork, before fork() returns there: closes what was inherited, without a
 * word. */
void hd_watch_abandon(hd_watch_t *watch);
const void *hd_watch_address(const hd_watch_t *watch, size_t *bytes);
/* Connects to that process, or, if it is the other's part to do so, remembers that it is waited
 * for: it is lost as soon as its host says so, also if there was no connection. One that was silent
 * is asked anew. Several times for one process: as many drops. UCC_ERR_INVALID_PARAM: the address
 * is malformed (logged). */
ucc_status_t hd_watch_keep(hd_watch_t *watch, const uint64_t identity[2], const void *address,
                           size_t bytes, bool connects);
void hd_watch_drop(hd_watch_t *watch, const uint64_t identity[2]);
/* Nothing will come of waiting for a connection to it: there is one, or it is gone, or can't be
 * reached. */
bool hd_watch_is_settled(hd_watch_t *watch, const uint64_t identity[2]);
/* Takes what has come since the last look. Another thread that looks is not waited for. False:
 * nothing had come, or another thread looks. */
bool hd_watch_look(hd_watch_t *watch);
/* For poll(): readable if a look is worth it. */
int hd_watch_descriptor(const hd_watch_t *watch);
/* At most HD_WATCH_WORDS. */
void hd_watch_tell(hd_watch_t *watch, const void *words, size_t bytes, hd_watch_relay_t whom);
/* Sends to that process alone, if there is a connection to it: when all words have been told. What
 * it does not take for long, or is left when the connection ends, is dropped. False: it was. */
bool hd_watch_send(hd_watch_t *watch, const uint64_t identity[2], const void *bytes, size_t n);
/* hd_watch_descriptor is readable, too, if that descriptor has one of these events (of epoll's); 0:
 * not any more. */
void hd_watch_also(hd_watch_t *watch, int descriptor, uint32_t events);
/* What the kernel knows of the process by the connection to it, for people. MUTE: its host has not
 * answered for so many seconds. UNCONNECTED: there has been no connection for so long. NO_SIGN: it
 * is not kept, or nothing is known. */
typedef enum hd_watch_sign {
    HD_WATCH_NO_SIGN,
    HD_WATCH_ANSWERS,
    HD_WATCH_MUTE,
    HD_WATCH_UNCONNECTED
} hd_watch_sign_t;
hd_watch_sign_t hd_watch_sign(hd_watch_t *watch, const uint64_t identity[2], double *seconds);
/* Of kept processes: how many are connected. For tests and for heddle_info. */
uint32_t hd_watch_connected(hd_watch_t *watch);
/* Is there a connection to that process? */
bool hd_watch_hears(hd_watch_t *watch, const uint64_t identity[2]);
/* Is there a connection to a process of that host, or has its kernel at least taken one? */
bool hd_watch_reaches(hd_watch_t *watch, uint64_t host);

/* --- proof.c ---------------------------------------------------------------------------------- */

/* What is proved: that who knows the key is this side of this connection, and no other. All of it
 * has to be set, as its bytes count. */
typedef struct hd_watch_proven {
    uint32_t version, accepts; /* of the frames; 1: the acceptor proves it */
    uint64_t connector[2], acceptor[2];
    uint64_t connector_nonce[2], acceptor_nonce[2];
} hd_watch_proven_t;

void hd_watch_prove(const uint64_t key[2], const hd_watch_proven_t *proven, uint64_t proof[2]);

/* --- watch_address.c -------------------------------------------------------------------------- */

/* An address: the host's number, the key that who connects has to know, and the port on its
 * loopback address; the port on its network addresses, which are told apart from the loopback one,
 * and those addresses. */
typedef struct hd_watch_record {
    uint32_t magic, version;
    uint64_t host, key[2];
    uint16_t port, n;
    uint16_t wide, unused; /* wide: port for other hosts; 0: they can't come here */
    struct {
        uint16_t family; /* 4 or 6 */
        uint16_t unused[3];
        uint8_t bytes[16];
    } line[HD_WATCH_LINES];
} hd_watch_record_t;

/* Tells hosts apart that share no loopback address: machines, and network namespaces of one. */
uint64_t hd_watch_host(void);
/* Of this host, by these devices; n may be 0. */
void hd_watch_describe(hd_watch_record_t *record, uint64_t host, const char *devices);
/* False: malformed, or of another version. Bytes that the record has no use for are not looked
 * at. */
bool hd_watch_parse(hd_watch_record_t *record, const void *address, size_t bytes);
/* Where its process is, for lines in the log: by its first address, and the port at which that
 * listens. */
enum { HD_WATCH_NAME = 64 };
void hd_watch_name(const hd_watch_record_t *record, uint64_t host, char name[HD_WATCH_NAME]);
/* Begins to connect to the record's attempt-th address, as seen from this host; a descriptor, or
 * -1: no such attempt is left, or, with errno ECONNREFUSED, on this host nobody listens at it. */
int hd_watch_connect(const hd_watch_record_t *record, uint64_t host, uint32_t *attempt);
/* A socket with a port of its own; -1: none (errno). wide: for other hosts, which nobody can reach
 * before hd_watch_listen; else listening, at the loopback address. */
int hd_watch_bind(bool wide, uint16_t *port);
bool hd_watch_listen(int descriptor);
/* Has this connection come to one of the record's addresses, or to the loopback one? */
bool hd_watch_is_ours(const hd_watch_record_t *record, int descriptor);
/* Returns what hd_watch_connect leaves in *attempt when it goes to where this connection comes
 * from. 0: that is none of the record's addresses. */
uint32_t hd_watch_attempt_from(const hd_watch_record_t *record, int descriptor);
/* No delay; between hosts, the kernel finds out by itself that the other is silent for so many
 * seconds (0: 4). */
void hd_watch_tune(int descriptor, bool between_hosts, double lost_after);
/* When it is closed, the other end gets no sign but a reset, as after a time-out of the kernel's.
 */
void hd_watch_abort(int descriptor);
/* Seconds since the other host has answered, of a connection between hosts that is otherwise idle;
 * below 0: not known. */
double hd_watch_silence(int descriptor);
/* Has it been silent for longer than so many seconds, and did not answer what it was sent lately,
 * either? The kernel sends what is under way ever more seldom. */
bool hd_watch_has_ceased(int descriptor, double seconds);

#endif
