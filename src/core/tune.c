/* tune.c: see tune.h. No memory is taken, and nothing is logged. */
#include "core/tune.h"

#include "core/coll.h"

#include <string.h>
#include <strings.h>
#include <ucc/api/ucc.h>

bool hd_piece_is(hd_piece_t piece, const char *word) {
    return strlen(word) == piece.length && strncasecmp(piece.at, word, piece.length) == 0;
}

/* As strtok: delimiters in a row are one. */
static bool take(hd_piece_t *rest, char delimiter, hd_piece_t *piece) {
    while (rest->length && *rest->at == delimiter) {
        rest->at++;
        rest->length--;
    }
    const char *end = rest->length ? memchr(rest->at, delimiter, rest->length) : NULL;
    *piece = (hd_piece_t){rest->at, end ? (size_t)(end - rest->at) : rest->length};
    rest->at += piece->length;
    rest->length -= piece->length;
    return piece->length > 0;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_number(hd_piece_t piece) {
    for (size_t i = 0; i < piece.length; i++) {
        if (!is_digit(piece.at[i])) {
            return false;
        }
    }
    return piece.length > 0;
}

/* Of digits; what is larger than any size is the largest. */
static uint64_t number_of(hd_piece_t piece) {
    uint64_t value = 0;
    for (size_t i = 0; i < piece.length && is_digit(piece.at[i]); i++) {
        if (value > UINT32_MAX) {
            return UINT64_MAX;
        }
        value = 10 * value + (uint64_t)(piece.at[i] - '0');
    }
    return value;
}

/* --- qualifiers: each says whether the piece is one ------------------------------------------- */

enum { UCC_TYPES = 16 }; /* the others are ours, and in no tune of UCC's */

static bool take_coll_types(hd_piece_t piece, hd_tune_t *tune) {
    hd_piece_t name;
    uint64_t types = 0;
    while (take(&piece, ',', &name)) {
        uint8_t type = 0;
        while (type < UCC_TYPES && !hd_piece_is(name, hd_type_name(type))) {
            type++;
        }
        if (type == UCC_TYPES) {
            return false;
        }
        types |= (uint64_t)1 << type;
    }
    tune->coll_types = types;
    return true;
}

static bool take_mem_types(hd_piece_t piece, hd_tune_t *tune) {
    static const struct {
        const char *name;
        ucc_memory_type_t type;
    } names[] = {{"host", UCC_MEMORY_TYPE_HOST},
                 {"cuda", UCC_MEMORY_TYPE_CUDA},
                 {"CudaManaged", UCC_MEMORY_TYPE_CUDA_MANAGED},
                 {"rocm", UCC_MEMORY_TYPE_ROCM},
                 {"RocmManaged", UCC_MEMORY_TYPE_ROCM_MANAGED}};
    enum { N = sizeof(names) / sizeof(names[0]) };
    hd_piece_t name;
    uint32_t types = 0;
    while (take(&piece, ',', &name)) {
        size_t i = 0;
        while (i < N && !hd_piece_is(name, names[i].name)) {
            i++;
        }
        if (i == N) {
            return false;
        }
        types |= 1u << names[i].type;
    }
    tune->mem_types = types;
    return true;
}

static bool take_score(hd_piece_t piece, hd_tune_t *tune) {
    if (!is_number(piece) && !hd_piece_is(piece, "inf")) {
        return false;
    }
    tune->disables = is_number(piece) && number_of(piece) == 0;
    return true;
}

/* 4096, 4k, 4KB, inf */
static bool is_bytes(hd_piece_t piece) {
    size_t digits = 0;
    if (hd_piece_is(piece, "inf")) {
        return true;
    }
    while (digits < piece.length && is_digit(piece.at[digits])) {
        digits++;
    }
    hd_piece_t unit = {piece.at + digits, piece.length - digits};
    bool has_unit = unit.length > 0 && memchr("bBkKmMgGtT", unit.at[0], 10);
    return digits > 0 && (unit.length == 0 || (has_unit && unit.length == 1) ||
                          (has_unit && unit.length == 2 && (unit.at[1] | 0x20) == 'b'));
}

static bool take_sizes(hd_piece_t piece, hd_tune_t *tune) {
    hd_piece_t range, from, to, more;
    bool takes = false;
    while (take(&piece, ',', &range)) {
        if (!take(&range, '-', &from) || !take(&range, '-', &to) || take(&range, '-', &more) ||
            !is_bytes(from) || !is_bytes(to)) {
            return false;
        }
        takes |= is_digit(from.at[0]) && number_of(from) == 0 &&
                 (!is_digit(to.at[0]) || number_of(to) > 0);
    }
    tune->takes_size = takes;
    return true;
}

static bool take_team_sizes(hd_piece_t piece, uint32_t team_size, hd_tune_t *tune) {
    hd_piece_t range, from, to, more;
    bool takes = false;
    if (piece.length < 2 || piece.at[0] != '[' || piece.at[piece.length - 1] != ']') {
        return false;
    }
    piece = (hd_piece_t){piece.at + 1, piece.length - 2};
    while (take(&piece, ',', &range)) {
        if (!take(&range, '-', &from) || !is_number(from)) {
            return false;
        }
        if (!take(&range, '-', &to)) {
            to = from;
        }
        bool open = hd_piece_is(to, "inf");
        if ((!open && (!is_number(to) || number_of(to) < number_of(from))) ||
            take(&range, '-', &more)) {
            return false;
        }
        takes |= team_size >= number_of(from) && (open || team_size <= number_of(to));
    }
    tune->takes_team = takes;
    return true;
}

static bool take_algorithm(hd_piece_t piece, hd_tune_t *tune) {
    if (piece.at[0] != '@') {
        return false;
    }
    tune->algorithm = (hd_piece_t){piece.at + 1, piece.length - 1};
    return true;
}

/* --- entries ---------------------------------------------------------------------------------- */

bool hd_tune_next(const char **at, uint32_t team_size, hd_tune_t *tune) {
    hd_piece_t rest = {*at, strlen(*at)}, qualifier;
    bool scored = false, sized = false, teamed = false, named = false;
    *tune = (hd_tune_t){.takes_size = true, .takes_team = true};
    if (!take(&rest, '#', &tune->text)) {
        return false;
    }
    *at = rest.at;
    rest = tune->text;
    while (take(&rest, ':', &qualifier)) {
        if ((!tune->coll_types && take_coll_types(qualifier, tune)) ||
            (!tune->mem_types && take_mem_types(qualifier, tune)) ||
            (!scored && (scored = take_score(qualifier, tune))) ||
            (!sized && (sized = take_sizes(qualifier, tune))) ||
            (!teamed && (teamed = take_team_sizes(qualifier, team_size, tune))) ||
            (!named && (named = take_algorithm(qualifier, tune)))) {
            continue;
        }
        tune->wrong = qualifier;
        break;
    }
    return true;
}
