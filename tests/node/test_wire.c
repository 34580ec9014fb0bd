/* test_wire.c: which messages are in order, and when. tests/fuzz/node.c has the rest. */
#include "node/wire.h"

#include <criterion/criterion.h>
#include <string.h>

/* A message of that kind that is in order. */
static hd_node_message_t proper(hd_node_kind_t kind) {
    hd_node_message_t m = hd_node_write(kind);
    if (kind == HD_NODE_HELLO) {
        m.name[0] = m.from[0] = 1;
    } else if (kind >= HD_NODE_FETCH) {
        m.name[1] = m.number = 1;
    }
    m.word = kind == HD_NODE_SEGMENT ? 1 : 0;
    m.code = kind == HD_NODE_REFUSE ? HD_NODE_WITHDRAWN : kind == HD_NODE_TAKEN ? HD_NODE_DONE : 0;
    return m;
}

static hd_node_stage_t stage_of(hd_node_kind_t kind) {
    return kind == HD_NODE_HELLO     ? HD_NODE_AT_HELLO
           : kind == HD_NODE_VERDICT ? HD_NODE_AT_VERDICT
                                     : HD_NODE_AT_OPEN;
}

static const char *parse(hd_node_stage_t stage, const hd_node_message_t *m) {
    hd_node_message_t got;
    return hd_node_parse(stage, m, sizeof(*m), m->kind == HD_NODE_SEGMENT, false, &got);
}

Test(wire, each_kind_may_come_at_one_stage) {
    for (uint32_t kind = 1; kind < HD_NODE_KINDS; kind++) {
        hd_node_message_t m = proper(kind);
        for (hd_node_stage_t stage = HD_NODE_AT_HELLO; stage <= HD_NODE_AT_END; stage++) {
            cr_expect_eq(parse(stage, &m) == NULL, stage == stage_of(kind), "kind %u at %d", kind,
                         stage);
        }
    }
    hd_node_message_t m = proper(HD_NODE_HOLD);
    m.kind = HD_NODE_KINDS;
    cr_expect(parse(HD_NODE_AT_OPEN, &m));
    m.kind = 0;
    cr_expect(parse(HD_NODE_AT_OPEN, &m));
}

Test(wire, another_size_or_magic_is_refused) {
    hd_node_message_t m = proper(HD_NODE_HOLD), got;
    uint8_t bytes[HD_NODE_MESSAGE + 1] = {0};
    memcpy(bytes, &m, sizeof(m));
    cr_expect_null(hd_node_parse(HD_NODE_AT_OPEN, bytes, HD_NODE_MESSAGE, 0, false, &got));
    const size_t wrong[] = {0, 1, HD_NODE_MESSAGE - 1, HD_NODE_MESSAGE + 1, SIZE_MAX};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        cr_expect(hd_node_parse(HD_NODE_AT_OPEN, bytes, wrong[i], 0, false, &got));
    }
    m.magic++;
    cr_expect(parse(HD_NODE_AT_OPEN, &m));
}

Test(wire, a_greeting_may_be_of_another_version_and_nothing_else) {
    for (uint32_t kind = 1; kind < HD_NODE_KINDS; kind++) {
        hd_node_message_t m = proper(kind);
        m.version++;
        cr_expect_eq(parse(stage_of(kind), &m) == NULL, kind <= HD_NODE_VERDICT, "kind %u", kind);
    }
}

Test(wire, a_segment_has_one_descriptor_which_may_be_lost_and_others_have_none) {
    for (uint32_t kind = 1; kind < HD_NODE_KINDS; kind++) {
        hd_node_message_t m = proper(kind), got;
        bool is = kind == HD_NODE_SEGMENT;
        for (uint32_t n = 0; n < 4; n++) {
            for (int lost = 0; lost < 2; lost++) {
                bool fine = is ? (n == 1) != lost && n <= 1 : n == 0 && !lost;
                cr_expect_eq(!hd_node_parse(stage_of(kind), &m, sizeof(m), n, lost, &got), fine,
                             "kind %u, %u descriptors, lost %d", kind, n, lost);
            }
        }
    }
}

/* Each bit of which nothing else depends: fields that a kind does not use are null. */
Test(wire, fields_are_checked) {
    hd_node_message_t m;
#define REFUSED(_kind, _change)                                                                    \
    m = proper(_kind);                                                                             \
    cr_expect_null(parse(stage_of(_kind), &m));                                                    \
    m._change;                                                                                     \
    cr_expect(parse(stage_of(_kind), &m), #_kind " with " #_change)
    REFUSED(HD_NODE_HELLO, name[0] = 0);
    REFUSED(HD_NODE_HELLO, from[0] = 0);
    REFUSED(HD_NODE_HELLO, code = 1);
    REFUSED(HD_NODE_HELLO, number = 1);
    REFUSED(HD_NODE_HELLO, holds = 1);
    REFUSED(HD_NODE_VERDICT, code = HD_NODE_VERDICTS);
    REFUSED(HD_NODE_VERDICT, holds = 2);
    REFUSED(HD_NODE_VERDICT, name[0] = 1);
    REFUSED(HD_NODE_VERDICT, from[1] = 1);
    REFUSED(HD_NODE_VERDICT, number = 1);
    REFUSED(HD_NODE_HOLD, code = 1);
    REFUSED(HD_NODE_HOLD, word = 1);
    REFUSED(HD_NODE_RELEASE, name[1] = 1);
    REFUSED(HD_NODE_RELEASE, from[1] = 1);
    REFUSED(HD_NODE_BYE, code = HD_NODE_BYES);
    REFUSED(HD_NODE_BYE, number = 1);
    REFUSED(HD_NODE_BYE, holds = 1);
    REFUSED(HD_NODE_FETCH, number = 0);
    REFUSED(HD_NODE_FETCH, name[1] = 0);
    REFUSED(HD_NODE_FETCH, code = 1);
    REFUSED(HD_NODE_FETCH, word = 1);
    REFUSED(HD_NODE_CANCEL, from[0] = 1);
    REFUSED(HD_NODE_CANCEL, holds = 1);
    REFUSED(HD_NODE_SEGMENT, word = 0);
    REFUSED(HD_NODE_SEGMENT, word = (uint64_t)INT64_MAX + 1);
    REFUSED(HD_NODE_SEGMENT, number = 0);
    REFUSED(HD_NODE_SEGMENT, code = 1);
    REFUSED(HD_NODE_REFUSE, code = HD_NODE_DONE);
    REFUSED(HD_NODE_REFUSE, code = HD_NODE_PENDING);
    REFUSED(HD_NODE_REFUSE, code = HD_NODE_DIED);
    REFUSED(HD_NODE_REFUSE, code = HD_NODE_STATES);
    REFUSED(HD_NODE_TAKEN, code = HD_NODE_PENDING);
    REFUSED(HD_NODE_TAKEN, code = HD_NODE_STATES);
    REFUSED(HD_NODE_TAKEN, name[1] = 0);
#undef REFUSED
}
