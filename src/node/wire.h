/* wire.h: what processes of one machine say to each other at their doors: written and checked here
 * and nowhere else. Knows no sockets, so that all of it can be fuzzed in memory
 * (tests/fuzz/node.c).
 *
 * A connection is a SOCK_SEQPACKET socket: the kernel keeps messages whole and apart, and a
 * descriptor stays with the message that it belongs to. All messages have the same size and form:
 *
 *     connector -> acceptor   HELLO     whose door is meant (a secret), and whose this process is
 *     acceptor -> connector   VERDICT   the connection is open, or why not
 *
 *     both ways, when it is open, and by the connector behind its HELLO:
 *     HOLD, RELEASE    the sender uses this connection; not any more
 *     BYE              the sender closes it: its end says nothing of the process
 *     FETCH            asks for the segment of that name; `number` tells this request from others
 *     CANCEL           takes that request back, if it has not been answered
 *     SEGMENT          the answer, with a descriptor
 *     REFUSE           the answer, with a reason
 *     TAKEN            the requester has the segment, or could not take it: why
 *
 * The form of HELLO and VERDICT is the same in all versions: versions tell what follows. Numbers
 * are in the machine's order.
 */
#ifndef HD_NODE_WIRE_H
#define HD_NODE_WIRE_H

#include "node/node.h"

enum { HD_NODE_MAGIC = 0x656e6f64, HD_NODE_VERSION = 2, HD_NODE_MESSAGE = 64 };

typedef enum hd_node_kind {
    HD_NODE_HELLO = 1,
    HD_NODE_VERDICT,
    HD_NODE_HOLD,
    HD_NODE_RELEASE,
    HD_NODE_BYE,
    HD_NODE_FETCH,
    HD_NODE_CANCEL,
    HD_NODE_SEGMENT,
    HD_NODE_REFUSE,
    HD_NODE_TAKEN,
    HD_NODE_KINDS
} hd_node_kind_t;

/* The code of a VERDICT. */
typedef enum hd_node_verdict {
    HD_NODE_WELCOME,
    HD_NODE_OTHER_VERSION,
    HD_NODE_OTHER_LAYOUT,
    HD_NODE_STARVED, /* the process has no memory for a connection */
    HD_NODE_CROSSED, /* there is a connection of the two, or the other one is on its way */
    HD_NODE_VERDICTS
} hd_node_verdict_t;

/* The code of a BYE. */
typedef enum hd_node_bye {
    HD_NODE_NOT_HELD, /* neither needs it */
    HD_NODE_LEAVES,   /* the sender's door is closed */
    HD_NODE_NO_ROOM,  /* the sender needs its descriptor */
    HD_NODE_BYES
} hd_node_bye_t;

typedef struct hd_node_message {
    uint32_t magic;
    uint16_t version, kind;
    uint32_t code;    /* VERDICT: hd_node_verdict_t. BYE: hd_node_bye_t.
                      * REFUSE, TAKEN: hd_node_state_t */
    uint32_t holds;   /* VERDICT: 1: as if a HOLD came with it */
    uint64_t number;  /* FETCH, CANCEL, SEGMENT, REFUSE, TAKEN; not 0 */
    uint64_t word;    /* HELLO, VERDICT: the layout. SEGMENT: its bytes */
    uint64_t name[2]; /* HELLO: the acceptor's door. FETCH and its like: the segment's name */
    uint64_t from[2]; /* HELLO: the connector's door */
} hd_node_message_t;

_Static_assert(sizeof(hd_node_message_t) == HD_NODE_MESSAGE, "without padding");

typedef enum hd_node_stage {
    HD_NODE_AT_HELLO,   /* accepted: a stranger's */
    HD_NODE_AT_VERDICT, /* connected: not answered */
    HD_NODE_AT_OPEN,
    HD_NODE_AT_END
} hd_node_stage_t;

/* Writes a message of that kind; the caller fills in what it says. */
hd_node_message_t hd_node_write(hd_node_kind_t kind);

/* Checks a message of n bytes, with so many descriptors, some of which may have been `lost` on the
 * way. NULL: it is in order, may come at this stage, and is in *message. Else: what is wrong. */
const char *hd_node_parse(hd_node_stage_t stage, const void *bytes, size_t n, uint32_t descriptors,
                          bool lost, hd_node_message_t *message);

#endif
