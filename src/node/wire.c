/* wire.c: messages between processes of one machine (wire.h). Keeps nothing. */
#include "node/wire.h"

#include <stdint.h>
#include <string.h>

hd_node_message_t hd_node_write(hd_node_kind_t kind) {
    return (hd_node_message_t){
        .magic = HD_NODE_MAGIC, .version = HD_NODE_VERSION, .kind = (uint16_t)kind};
}

static bool is_null(const uint64_t name[2]) {
    return (name[0] | name[1]) == 0;
}

/* Of a fetch: how its peer fails is not the peer's to say. */
static bool is_failure(uint32_t state) {
    return state >= HD_NODE_UNEXPECTED && state < HD_NODE_STATES;
}

/* Fields that a kind does not use are 0. */
static bool is_of_request(const hd_node_message_t *m, bool has_word) {
    return m->number != 0 && !is_null(m->name) && is_null(m->from) && m->holds == 0 &&
           (m->word != 0) == has_word;
}

static bool is_bare(const hd_node_message_t *m) {
    return (m->holds | m->number | m->word) == 0 && is_null(m->name) && is_null(m->from);
}

static const char *fault_in_fields(const hd_node_message_t *m) {
    bool fine = false;
    switch ((hd_node_kind_t)m->kind) {
    case HD_NODE_HELLO:
        fine = m->code == 0 && m->holds == 0 && m->number == 0 && !is_null(m->name) &&
               !is_null(m->from);
        break;
    case HD_NODE_VERDICT:
        fine = m->code < HD_NODE_VERDICTS && m->holds <= 1 && m->number == 0 && is_null(m->name) &&
               is_null(m->from);
        break;
    case HD_NODE_HOLD:
    case HD_NODE_RELEASE:
        fine = m->code == 0 && is_bare(m);
        break;
    case HD_NODE_BYE:
        fine = m->code < HD_NODE_BYES && is_bare(m);
        break;
    case HD_NODE_FETCH:
    case HD_NODE_CANCEL:
        fine = m->code == 0 && is_of_request(m, false);
        break;
    case HD_NODE_SEGMENT:
        fine = m->code == 0 && is_of_request(m, true) && m->word <= INT64_MAX;
        break;
    case HD_NODE_REFUSE:
        fine = is_failure(m->code) && is_of_request(m, false);
        break;
    case HD_NODE_TAKEN:
        fine = (m->code == HD_NODE_DONE || is_failure(m->code)) && is_of_request(m, false);
        break;
    case HD_NODE_KINDS:
        break;
    }
    return fine ? NULL : "has sent a message that is malformed";
}

static bool may_come(hd_node_stage_t stage, uint32_t kind) {
    switch (stage) {
    case HD_NODE_AT_HELLO:
        return kind == HD_NODE_HELLO;
    case HD_NODE_AT_VERDICT:
        return kind == HD_NODE_VERDICT;
    case HD_NODE_AT_OPEN:
        return kind > HD_NODE_VERDICT && kind < HD_NODE_KINDS;
    case HD_NODE_AT_END:
        break;
    }
    return false;
}

const char *hd_node_parse(hd_node_stage_t stage, const void *bytes, size_t n, uint32_t descriptors,
                          bool lost, hd_node_message_t *message) {
    if (n != sizeof(*message)) {
        return "has sent a message of another size";
    }
    memcpy(message, bytes, sizeof(*message));
    if (message->magic != HD_NODE_MAGIC) {
        return "does not speak this protocol";
    }
    if (!may_come(stage, message->kind)) {
        return "has sent a message that does not belong there";
    }
    if (stage == HD_NODE_AT_OPEN && message->version != HD_NODE_VERSION) {
        return "has changed its version";
    }
    /* Of a SEGMENT whose descriptor was lost, the rest says whose it was. */
    if (descriptors + lost != (message->kind == HD_NODE_SEGMENT)) {
        return "has sent descriptors that do not belong to its message, or none";
    }
    return fault_in_fields(message);
}
