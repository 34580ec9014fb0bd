/* shape.c: trees, and cutting data into parts.
 *
 * The tree of radix R over n ranks, numbered from its root: written to base R, a number's parent
 * has its lowest digit that is not 0 cleared. So the numbers below v are v + 1, ... up to the next
 * number with so few digits, without gaps:
 *
 *     R = 3, n = 11:   0 -> 9 1 3 2 6     3 -> 4 5    6 -> 7 8    9 -> 10
 */
#include "net/internal.h"

#include <string.h>

/* Numbers of v's tree: from v on, without regard to n. */
static uint64_t reach(uint32_t v, uint32_t n, uint32_t radix) {
    uint64_t d = 1;
    while (v ? v % (d * radix) == 0 : d < n) {
        d *= radix;
    }
    return d;
}

hd_net_node_t hd_net_tree(const hd_net_call_t *call, uint32_t root, uint32_t radix) {
    uint32_t v = (call->me + call->n - root) % call->n;
    uint64_t d = reach(v, call->n, radix);
    return (hd_net_node_t){.n = call->n,
                           .root = root,
                           .radix = radix,
                           .v = v,
                           .parent = v ? (uint32_t)(v - v % (d * radix)) : 0,
                           .span = (uint32_t)(v + d < call->n ? d : call->n - v),
                           .reach = d};
}

bool hd_net_next_child(const hd_net_node_t *node, hd_net_child_t *child) {
    if (child->step == 0) { /* the first: the farthest, which have most below them */
        child->step = node->reach / node->radix;
        child->digit = 0;
    }
    while (child->step > 0) {
        child->v = node->v + ++child->digit * child->step;
        if (child->digit < node->radix && child->v < node->n) {
            child->span =
                (uint32_t)(child->v + child->step < node->n ? child->step : node->n - child->v);
            return true;
        }
        child->step /= node->radix;
        child->digit = 0;
    }
    return false;
}

/* --- data ------------------------------------------------------------------------------------- */

void hd_net_pack(const hd_net_data_t *data, void *to) {
    char *at = to;
    for (uint32_t i = 0; i < data->n; i++) {
        if (data->piece[i].bytes) {
            memcpy(at, data->piece[i].at, data->piece[i].bytes);
            at += data->piece[i].bytes;
        }
    }
}

void hd_net_unpack(const hd_net_data_t *data, const void *from) {
    const char *at = from;
    for (uint32_t i = 0; i < data->n; i++) {
        if (data->piece[i].bytes) {
            memcpy(data->piece[i].at, at, data->piece[i].bytes);
            at += data->piece[i].bytes;
        }
    }
}

size_t hd_net_parts_bytes(uint32_t parts, uint32_t pieces) {
    return parts * sizeof(hd_net_data_t) + ((size_t)parts + pieces) * sizeof(hd_net_piece_t);
}

hd_net_data_t *hd_net_cut(const hd_net_data_t *data, uint32_t parts, void *memory) {
    hd_net_data_t *part = memory;
    hd_net_piece_t *piece = (hd_net_piece_t *)(void *)(part + parts);
    uint32_t from = 0;
    size_t used = 0; /* bytes of piece `from` */
    for (uint32_t i = 0; i < parts; i++) {
        size_t left = hd_net_part(data->bytes, parts, i + 1) - hd_net_part(data->bytes, parts, i);
        part[i] = (hd_net_data_t){piece, 0, left};
        while (left) {
            const hd_net_piece_t *whole = &data->piece[from];
            size_t mine = whole->bytes - used < left ? whole->bytes - used : left;
            if (mine) {
                *piece++ = (hd_net_piece_t){(char *)whole->at + used, mine};
                part[i].n++;
            }
            used += mine;
            left -= mine;
            if (used == whole->bytes) {
                from++;
                used = 0;
            }
        }
    }
    return part;
}
