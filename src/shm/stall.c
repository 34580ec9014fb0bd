/* stall.c: what is said of endpoints that are waited for too long: who they are and what they do, as far
 * as shared memory tells.
 *
 * Who may call: whoever waits, for a wait of its own. Nothing here is on a path that is taken before STALL
 * seconds have passed without a result. Peers may go on at any moment, so what is read of them is read
 * atomically, and may be old when it is printed; nothing is decided by it.
 */
#include "shm/shm.h"

/* Endpoint e's member of the main board; NULL: e has not joined. */
static hd_member_t *member_of(const hd_group_t *group, uint32_t e) {
    /* acquire: pairs with the release in hd_board_add_member */
    return __atomic_load_n(&group->board->member[e], __ATOMIC_ACQUIRE);
}

static bool is_absent(const void *arg, uint32_t e) {
    return !member_of(arg, e);
}

void hd_group_stalled(const hd_group_t *group, hd_stall_t *stall, uint64_t now, uint32_t me) {
    hd_text_t text = {0};
    if (!hd_stall_is_due(stall, now, group->stall)) {
        return;
    }
    if (hd_text_numbers(&text, group->n, is_absent, group) == 0) {
        hd_text_add(&text, "the last endpoint to finish joining");
    }
    hd_stall_line("team of %u: endpoint %u has waited %.1f s for %s to join", group->n, me,
                  hd_stall_seconds(stall, now), text.line);
}
