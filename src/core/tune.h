/* tune.h: TUNE, the text by which UCC's clients choose algorithms, read as UCC reads it.
 *
 * Entries stand between '#'. An entry is a list of qualifiers between ':', each of which is,
 * whichever fits first: types of collectives, types of memory, a score, ranges of bytes, sizes of
 * teams in [], or @ and an algorithm.
 */
#ifndef HD_CORE_TUNE_H
#define HD_CORE_TUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A piece of a text; nothing ends it but its length. */
typedef struct hd_piece {
    const char *at;
    size_t length;
} hd_piece_t;

typedef struct hd_tune {
    hd_piece_t text;     /* the entry */
    hd_piece_t wrong;    /* its first qualifier that is none; empty: they all are */
    uint64_t coll_types; /* ucc_coll_type_t, or-ed; 0: it names none, and means all */
    uint32_t mem_types;  /* bits by ucc_memory_type_t; likewise */
    /* its ranges have the 0 bytes for which UCC takes a message whose size nobody knows alone */
    bool takes_size;
    bool takes_team;      /* and its sizes of teams the given one */
    bool disables;        /* score 0 */
    hd_piece_t algorithm; /* without '@'; empty: it names none */
} hd_tune_t;

/* Takes the entry at *at, and moves on. False: there is none. */
bool hd_tune_next(const char **at, uint32_t team_size, hd_tune_t *tune);
/* In any case of letters. */
bool hd_piece_is(hd_piece_t piece, const char *word);

#endif
