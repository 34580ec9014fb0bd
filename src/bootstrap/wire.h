/* wire.h: what goes over a connection of the TCP bootstrap, written and parsed here and nowhere
 * else. Knows no sockets: whoever reads asks where the next bytes belong (hd_wire_space), puts them
 * there, and tells (hd_wire_took); what comes out are events. So all parsing can be fuzzed in
 * memory (tests/fuzz/bootstrap.c).
 *
 * The handshake, in messages of fixed size. K is the job's key, H = hello, C = challenge:
 *
 *     rank -> 0   hello      magic, version, size, rank, nonce
 *     0 -> rank   challenge  magic, version, size, nonce
 *     rank -> 0   proof      HMAC(K, "proof", H, C)
 *     0 -> rank   verdict    code, version, size, HMAC(K, "verdict", H, C, the fields)
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
 * HMAC was right, and checked all the same. DATA carries the next piece of a transfer: a rank's
 * block to rank 0, or all blocks from it. The receiver knows beforehand how large each piece must
 * be, and where it belongs.
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
    HD_WIRE_VERSION = 1,
    HD_WIRE_MAC = 32,
    HD_WIRE_NONCE = 32,
    HD_WIRE_HELLO = 56,
    HD_WIRE_CHALLENGE = 48,
    HD_WIRE_PROOF = HD_WIRE_MAC,
    HD_WIRE_VERDICT_FIELDS = 16,
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
    HD_WIRE_N_VERDICTS
} hd_wire_verdict_t;

typedef enum hd_wire_kind {
    HD_WIRE_START = 1, /* 0 -> rank: all are there */
    HD_WIRE_DATA = 2,
    HD_WIRE_ABORT = 3 /* a status and a text: the sender has failed, and with it the bootstrap */
} hd_wire_kind_t;

/* What the bytes that were taken have completed. */
typedef enum hd_wire_event {
    HD_WIRE_MORE,       /* nothing yet */
    HD_WIRE_GREETED,    /* rank 0: a hello; answer by a challenge */
    HD_WIRE_PROVEN,     /* rank 0: the peer knows the key; answer by a verdict */
    HD_WIRE_CHALLENGED, /* others: answer by a proof */
    HD_WIRE_JUDGED,     /* others: rank 0 knows the key, and peer.verdict is its answer */
    HD_WIRE_STARTED,    /* others: all are there */
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

/* Memory that goes over a connection in pieces. */
typedef struct hd_transfer {
    uint64_t round; /* how-manieth exchange */
    uint64_t block; /* bytes of a process */
    uint64_t total; /* bytes of this transfer */
    uint64_t at;    /* so many of them are over */
    uint8_t *base;  /* not written where the transfer is sent */
    bool open;      /* not over yet; one of 0 bytes is a frame without payload */
} hd_transfer_t;

typedef struct hd_wire {
    /* --- the owner's, not changed after hd_wire_open --- */
    const uint8_t *key;
    size_t key_bytes;
    bool accepting; /* this is rank 0's end */
    uint32_t version, size, rank;
    /* --- of the peer, when an event says so --- */
    struct {
        uint32_t version, size, rank;
        uint32_t verdict; /* hd_wire_verdict_t */
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
    bool started;
    uint64_t numbers_in, numbers_out; /* frames so far */
    uint8_t hello[HD_WIRE_HELLO], challenge[HD_WIRE_CHALLENGE];
    uint8_t session[HD_WIRE_MAC];
    uint8_t in[HD_WIRE_FAIL]; /* what is being read, payloads of DATA apart */
    uint8_t mac[HD_WIRE_MAC]; /* of a payload being read */
} hd_wire_t;

/* key must outlive the wire. Others than rank 0 draw their nonce here. */
void hd_wire_open(hd_wire_t *w, bool accepting, const void *key, size_t key_bytes, uint32_t size,
                  uint32_t rank);
/* Wipes what was derived from the key. */
void hd_wire_close(hd_wire_t *w);

/* Where the next bytes belong, and how many of them there are, at most; 0 after something bad. */
uint8_t *hd_wire_space(hd_wire_t *w, size_t *bytes);
/* n of them are there. */
hd_wire_event_t hd_wire_took(hd_wire_t *w, size_t n);

/* Each writes one message. rank 0 draws its nonce for the challenge. */
void hd_wire_write_hello(hd_wire_t *w, uint8_t out[HD_WIRE_HELLO]);
void hd_wire_write_challenge(hd_wire_t *w, uint8_t out[HD_WIRE_CHALLENGE]);
void hd_wire_write_proof(const hd_wire_t *w, uint8_t out[HD_WIRE_PROOF]);
void hd_wire_write_verdict(hd_wire_t *w, hd_wire_verdict_t code, uint8_t out[HD_WIRE_VERDICT]);

/* A frame without payload. */
void hd_wire_write_start(hd_wire_t *w, uint8_t out[HD_WIRE_HEAD]);
/* The next piece of a transfer: its head, which bytes follow, and the HMAC behind them. The caller
 * moves transfer->at on by *bytes. */
void hd_wire_write_piece(hd_wire_t *w, const hd_transfer_t *transfer, uint8_t head[HD_WIRE_HEAD],
                         size_t *bytes, uint8_t mac[HD_WIRE_MAC]);
/* Returns the bytes of it: HD_WIRE_HEAD + HD_WIRE_FAIL + HD_WIRE_MAC at most. Long texts are cut.
 */
size_t hd_wire_write_abort(hd_wire_t *w, ucc_status_t status, const char *text, uint8_t *out);

#endif
