/* wire.h: the header that every message among processes begins with, written and parsed in this one
 * place.
 *
 * 72 bytes, little-endian, whatever the machine. DATA carries one message of a leg; CREDIT carries
 * nothing but what every header does: how far its sender has come with what its receiver sent it;
 * ABORT says that the team has failed.
 *
 * A SWAP (swap.c) is shorter, so that it travels in one line: 16 bytes, and up to 48 of data right
 * behind them, as a header that is all there is of the message; more data comes behind the header,
 * as others' does.
 */
#ifndef HD_NET_WIRE_H
#define HD_NET_WIRE_H

#include "net/net.h"

enum { HD_WIRE_VERSION = 1, HD_WIRE_BYTES = 72 };

typedef enum hd_wire_kind {
    HD_WIRE_DATA = 1,
    HD_WIRE_CREDIT,
    HD_WIRE_ABORT,
    HD_WIRE_PROBE, /* to itself (deaf.c) */
    HD_WIRE_LEFT,  /* the sender has left the team, after the exchange of this number */
    HD_WIRE_END
} hd_wire_kind_t;

enum {
    HD_WIRE_FORCED =
        1, /* a rendezvous by our choice, not by UCX's: its bytes are not counted as taken */
    HD_WIRE_WANTED = 2, /* the receiver is to say so as soon as its floor is above `wanted` */
    HD_WIRE_FLAGS = 3
};

typedef struct hd_wire {
    uint8_t kind, class, flags; /* hd_wire_kind_t, hd_net_class_t */
    uint16_t step;              /* of the leg's algorithm */
    ucc_status_t status;        /* of an ABORT: an error */
    uint32_t source;            /* the sender's number in the team */
    uint32_t segment, signature;
    uint32_t
        taken; /* bytes that came eagerly from the receiver and were taken by legs, modulo 2^32 */
    uint64_t team;   /* wire id */
    uint64_t number; /* of a CREDIT: 0 */
    uint64_t ordinal, subset;
    uint64_t bytes;  /* of data */
    uint64_t floor;  /* of the sender: it has consumed all numbered exchanges below */
    uint64_t wanted; /* with HD_WIRE_WANTED; within 32,767 of `number` */
} hd_wire_t;

void hd_wire_write(const hd_wire_t *wire, uint8_t header[HD_WIRE_BYTES]);
/* NULL: a header that hd_wire_write could have written, and *wire is what it says. Else what is
 * wrong with it, in words. n: bytes of the header; data: bytes that came with it. Reads nothing
 * beyond. */
const char *hd_wire_parse(const void *header, size_t n, size_t data, hd_wire_t *wire);

enum { HD_WIRE_SWAP_HEAD = 16, HD_WIRE_SWAP_BYTES = HD_WIRE_SWAP_HEAD + HD_SWAP_BYTES };
_Static_assert((int)HD_WIRE_SWAP_BYTES < (int)HD_WIRE_BYTES, "told from all others by its length");

typedef struct hd_wire_swap {
    uint64_t team;   /* wire id */
    uint64_t number; /* as parsed: its lowest HD_WIRE_SWAP_BITS bits */
    uint32_t source, signature;
    uint32_t bytes; /* of data */
} hd_wire_swap_t;

enum { HD_WIRE_SWAP_BITS = 20 };

/* Returns how long the header is; data: swap->bytes of it, which are in the header if they are at
 * most HD_SWAP_BYTES. */
size_t hd_wire_write_swap(const hd_wire_swap_t *swap, const void *data,
                          uint8_t header[HD_WIRE_SWAP_BYTES]);
/* As hd_wire_parse; its data follows the head, or is what came with the header. */
const char *hd_wire_parse_swap(const void *header, size_t n, size_t data, hd_wire_swap_t *swap);

#endif
