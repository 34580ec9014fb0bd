/* wire.h: what goes over a connection of the TCP bootstrap, written and parsed here and nowhere
 * else. Knows no sockets: whoever reads asks where the next bytes belong (hd_wire_space), puts them
 * there, and tells (hd_wire_took); what comes out are events. So all parsing can be fuzzed in
 * memory (tests/fuzz/bootstrap.c).
 *
 * The handshake, in messages of fixed size. K is the job's key, H = hello, C = challenge:
 *
 *     a -> b   hello      magic, version, size, rank of a, rank of b, nonce, job
 *     b -> a   challenge  magic, version, size, nonce
 *     a -> b   proof      HMAC(K, "proof", H, C)
 *     b -> a   verdict    code, version, size, fan-out, ..., job, HMAC(K, "verdict", H, C, fields)
 *
 * b is rank 0, where all processes meet, or a's parent in the tree (tree.c).
 *
 * Both nonces are in every HMAC, so nothing can be replayed, and each kind has a label of its own,
 * so nothing can be reflected. Nothing that a peer says counts before its HMAC was right: what is
 * wrong with a hello is told in the verdict. The handshake is the same in all versions: versions
 * tell what follows.
 *
 * Then frames, under S = HMAC(K, "session", H, C):
 *
 *     header of 32 bytes, HMAC(S, sender, 'h', number, header)
 *     payload of up to 64 KiB, HMAC(S, sender, 'p', number, payload); neither if it is empty
 *
 * number counts the frames of a direction, and is not sent. A header's fields are used after its
 * HMAC was right, and checked all the same. DATA carries the next piece of a transfer: the blocks
 * of a subtree to its parent, or all blocks from there. The receiver knows beforehand how large the
 * transfer must be, and where it belongs.
 *
 * Forming, after the handshake with rank 0:
 *
 *     rank -> 0   LISTENS  a port, by all that have children; they accept them there
 *     0 -> rank   PARENT   where its parent listens, by when all have come; shakes hands there
 *     rank -> 0   LINKED   it has; neither if rank 0 is its parent
 *     0 -> rank   START    all have
 *
 * Then connections with rank 0 are closed, but for those of its children.
 *
 * All numbers are little-endian.
 */
#ifndef HD_BOOTSTRAP_WIRE_H
#define HD_BOOTSTRAP_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ucc/api/ucc_status.h>

enum {
    HD_WIRE_VERSION = 2,
    HD_WIRE_MAC = 32,
    HD_WIRE_NONCE = 32,
    HD_WIRE_JOB = 40, /* bytes of a job's name, NULs behind it */
    HD_WIRE_HELLO = 56 + HD_WIRE_JOB,
    HD_WIRE_CHALLENGE = 48,
    HD_WIRE_PROOF = HD_WIRE_MAC,
    HD_WIRE_VERDICT_FIELDS = 24 + HD_WIRE_JOB,
    HD_WIRE_VERDICT = HD_WIRE_VERDICT_FIELDS + HD_WIRE_MAC,
    HD_WIRE_HEADER = 32,
    HD_WIRE_HEAD = HD_WIRE_HEADER + HD_WIRE_MAC, /* what a frame begins with */
    HD_WIRE_PIECE = 64 * 1024,                   /* the largest payload */
    HD_WIRE_FAIL = 256,                          /* the largest payload of a FAIL */
    HD_WIRE_TEXT = HD_WIRE_FAIL - 4 + 1,         /* its text, with a NUL */
    HD_WIRE_MOST_PROCESSES = 65536
};

typedef enum hd_wire_verdict {
    HD_WIRE_ACCEPTED,
    HD_WIRE_WRONG_VERSION,
    HD_WIRE_WRONG_SIZE,
    HD_WIRE_WRONG_RANK, /* not below the size */
    HD_WIRE_TAKEN,      /* another process has this rank */
    HD_WIRE_OTHER_JOB,
    HD_WIRE_NOT_HERE, /* this is not the process that was looked for, or it is nobody's parent */
    HD_WIRE_N_VERDICTS
} hd_wire_verdict_t;

typedef enum hd_wire_kind {
    HD_WIRE_START = 1, /* by rank 0, as the next */
    HD_WIRE_DATA = 2,
    HD_WIRE_ABORT = 3, /* a status and a text: the sender has failed, and with it the bootstrap */
    HD_WIRE_PARENT = 4,
    HD_WIRE_LISTENS = 5, /* to rank 0, as the next */
    HD_WIRE_LINKED = 6
} hd_wire_kind_t;

/* What the bytes that were taken have completed. */
typedef enum hd_wire_event {
    HD_WIRE_MORE,       /* nothing yet */
    HD_WIRE_GREETED,    /* accepting: a hello; answer by a challenge */
    HD_WIRE_PROVEN,     /* accepting: the peer knows the key; answer by a verdict */
    HD_WIRE_CHALLENGED, /* others: answer by a proof */
    HD_WIRE_JUDGED,     /* others: the peer knows the key, and peer.verdict is its answer */
    HD_WIRE_ADDRESSED,  /* others: peer.at is where the parent listens */
    HD_WIRE_STARTED,    /* others: all are there */
    HD_WIRE_LISTENING,  /* accepting: the peer does, at peer.port */
    HD_WIRE_HAS_LINKED, /* accepting: the peer has a connection with its parent */
    HD_WIRE_RECEIVED,   /* the transfer that was expected is complete */
    HD_WIRE_UNEQUAL,    /* the peer's blocks have another size: peer.block */
    HD_WIRE_ABORTED,    /* the peer has failed: peer.status, peer.text */
    HD_WIRE_BAD         /* `why` says what is wrong; nothing more is read */
} hd_wire_event_t;

typedef enum hd_wire_stage {
    HD_WIRE_AT_HELLO,
    HD_WIRE_AT_CHALLENGE,
    HD_WIRE_AT_PROOF,
    HD_WIRE_AT_VERDICT,
    HD_WIRE_AT_HEAD,
    HD_WIRE_AT_PAYLOAD,
    HD_WIRE_AT_PAYLOAD_MAC,
    HD_WIRE_AT_END /* after something bad */
} hd_wire_stage_t;

#define HD_WIRE_ALL UINT64_MAX

/* Where a process listens. */
typedef struct hd_place {
    uint16_t family;  /* 4 or 6: of IP */
    uint16_t port;    /* not 0 */
    uint8_t host[16]; /* in network order; zeros behind the 4 bytes of IPv4 */
} hd_place_t;

/* Memory that goes over a connection in pieces. */
typedef struct hd_transfer {
    uint64_t round; /* how-manieth exchange */
    uint64_t block; /* bytes of a process */
    uint64_t total; /* bytes of this transfer */
    uint64_t at;    /* so many of them are over */
    uint64_t ready; /* of one that is sent: so many can be; HD_WIRE_ALL: all of them, even if 0 */
    uint8_t *base;  /* not written where the transfer is sent */
    bool open;      /* not over yet; one of 0 bytes is a frame without payload */
} hd_transfer_t;

typedef struct hd_wire {
    /* --- the owner's, not changed after hd_wire_open --- */
    const uint8_t *key;
    size_t key_bytes;
    bool accepting; /* this is the end that has been connected to */
    uint32_t version, size, rank;
    uint32_t to;      /* not accepting: the rank that is looked for */
    const char *job;  /* shorter than HD_WIRE_JOB */
    uint32_t fanout;  /* accepting: for the verdict, as the next */
    bool listens_all; /* at all of its host's addresses; so shall others */
    /* --- of the peer, when an event says so --- */
    struct {
        uint32_t version, size, rank, to;
        uint32_t verdict; /* hd_wire_verdict_t */
        uint32_t fanout;  /* at least 1 */
        bool listens_all;
        char job[HD_WIRE_JOB]; /* printable ASCII */
        hd_place_t at;
        uint16_t port;
        uint64_t block;
        ucc_status_t status;
        char text[HD_WIRE_TEXT]; /* printable ASCII */
    } peer;
    const char *why;         /* of HD_WIRE_BAD */
    hd_transfer_t expecting; /* set by the owner between transfers; open: DATA is welcome */
    /* --- wire.c's --- */
    hd_wire_stage_t stage;
    size_t want, got; /* of the stage: bytes, and those that are here */
    uint32_t kind;    /* of the frame being read */
    size_t payload;
    uint32_t kinds;                   /* a bit for each kind that comes once, and has come */
    uint64_t numbers_in, numbers_out; /* frames so far */
    uint8_t hello[HD_WIRE_HELLO], challenge[HD_WIRE_CHALLENGE];
    uint8_t session[HD_WIRE_MAC];
    uint8_t in[HD_WIRE_FAIL]; /* what is being read, payloads of DATA apart */
    uint8_t mac[HD_WIRE_MAC]; /* of a payload being read */
} hd_wire_t;

/* key must outlive the wire; so must what the owner sets as job. */
void hd_wire_open(hd_wire_t *w, bool accepting, const void *key, size_t key_bytes, uint32_t size,
                  uint32_t rank);
/* Wipes what was derived from the key. */
void hd_wire_close(hd_wire_t *w);

/* Where the next bytes belong, and how many of them there are, at most; 0 after something bad. */
uint8_t *hd_wire_space(hd_wire_t *w, size_t *bytes);
/* n of them are there. */
hd_wire_event_t hd_wire_took(hd_wire_t *w, size_t n);

/* Each writes one message. The nonces are drawn here. */
void hd_wire_write_hello(hd_wire_t *w, uint8_t out[HD_WIRE_HELLO]);
void hd_wire_write_challenge(hd_wire_t *w, uint8_t out[HD_WIRE_CHALLENGE]);
void hd_wire_write_proof(const hd_wire_t *w, uint8_t out[HD_WIRE_PROOF]);
void hd_wire_write_verdict(hd_wire_t *w, hd_wire_verdict_t code, uint8_t out[HD_WIRE_VERDICT]);

/* Frames without payload. */
void hd_wire_write_start(hd_wire_t *w, uint8_t out[HD_WIRE_HEAD]);
void hd_wire_write_parent(hd_wire_t *w, const hd_place_t *at, uint8_t out[HD_WIRE_HEAD]);
void hd_wire_write_listens(hd_wire_t *w, uint16_t port, uint8_t out[HD_WIRE_HEAD]);
void hd_wire_write_linked(hd_wire_t *w, uint8_t out[HD_WIRE_HEAD]);
/* Whether something of the transfer can be sent now. */
bool hd_wire_has_piece(const hd_transfer_t *transfer);
/* The next piece of a transfer: its head, which bytes follow, and the HMAC behind them. The caller
 * moves transfer->at on by *bytes. */
void hd_wire_write_piece(hd_wire_t *w, const hd_transfer_t *transfer, uint8_t head[HD_WIRE_HEAD],
                         size_t *bytes, uint8_t mac[HD_WIRE_MAC]);
/* Returns the bytes of it: HD_WIRE_HEAD + HD_WIRE_FAIL + HD_WIRE_MAC at most. Long texts are cut.
 */
size_t hd_wire_write_abort(hd_wire_t *w, ucc_status_t status, const char *text, uint8_t *out);

#endif
