/* way.c: by which way large data of another process of the node come to this one, for people. It
 * decides nothing: near.c, far.c and pull.c do, and what kept them from a better way is asked
 * there. */
#include "shm/internal.h"
#include "shm/reach.h"

bool hd_group_way(const hd_group_t *group, uint32_t process, hd_text_t *text) {
    uint32_t number, mapping = 0;
    while (mapping < group->mapping.n &&
           !(hd_who_number(group, mapping, &number) && number == process)) {
        mapping++;
    }
    if (mapping == group->mapping.n || !hd_group_spans_processes(group)) {
        return false;
    }
    if (group->outside) {
        hd_text_add(text, "far: windows (the team has processes of other hosts)");
        return true;
    }
    hd_reach_say_blocks(group->reach, mapping, text);
    hd_reach_say(group->reach, mapping, text);
    hd_text_add(text, "; ");
    hd_pull_say(group, group->mapping.number, text);
    hd_reach_say_none(group->reach, text);
    return true;
}
