/* profile.h: what a machine is good at, and what follows from that for plans.
 *
 * Large blocks go from one member's buffers to another's either by who has them (pushed: stores to
 * lines that another core holds) or by who gets them (pulled: loads of such lines). Which is faster
 * depends on how a machine's cores take lines from each other: measured so far, Xeons push
 * allgathers up to twice as fast as they pull them, and EPYCs pull in 0.6 to 0.9 of the time. So do
 * the ways between processes (far.c): by windows, of which some machines want longer pieces than
 * others, or by the kernel; and the instructions that copy (core/copy.h). So a PROFILE has the
 * times of all, by size, and CROSSOVERS follow from it: from which block on data are pulled, or
 * copied by the kernel, how long windows' pieces are, and by which stores how much is copied.
 * docs/performance.md has the figures.
 *
 * A profile comes from a table of machines that were measured; or, for another machine, is measured
 * when a process's first team needs it (45 ms), and kept in a file of the user's cache folder. Both
 * ways bring the same bytes: a profile that is wrong costs time, and nothing else.
 *
 * profile.c finds it; profile_measure.c measures one; profile_file.c reads and writes files. Any
 * thread may call.
 */
#ifndef HD_SHM_PROFILE_H
#define HD_SHM_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <ucc/api/ucc_status.h>

/* Bytes of a block from which it is pulled. 0: never; it is so where there is no profile. */
typedef struct hd_crossovers {
    size_t each;   /* alltoall(v): of what one member gives to one other */
    size_t same;   /* allgather(v): of what one member gives to all */
    size_t kernel; /* of what two processes give each other, from which the kernel copies it */
    size_t piece;  /* most bytes of a window: HD_FAR_SHORT or HD_FAR_LONG */
    /* Of what a core copies, by string instructions: from so many bytes on, below so many. Both
     * HD_NEVER: of nothing. Both 0: not known, and its caches tell (thresholds.c). */
    size_t string, string_end;
    size_t streaming; /* bytes from which stores go past the caches; 0: when those are outgrown */
    bool in_order;    /* then line after line, not several pages at once */
} hd_crossovers_t;

/* What is measured, by two threads on two cores, each with sources that it has just written and
 * results that it reads, to move a block from each to the other (EACH, FAR, COPIED), or to both
 * (SAME). FAR is done as if they did not reach each other's buffers. What is COPIED is pulled, by
 * the stores of core/copy.h; plain ones are those of all others. */
typedef enum hd_profile_row {
    HD_EACH_PUSHED,
    HD_EACH_PULLED,
    HD_SAME_PUSHED,
    HD_SAME_PULLED,
    HD_FAR_BY_SHORT, /* windows, of HD_FAR_SHORT ... */
    HD_FAR_BY_LONG,  /* ... and HD_FAR_LONG bytes */
    HD_FAR_BY_KERNEL,
    HD_COPIED_PLAINLY,
    HD_COPIED_BY_STRING,
    HD_COPIED_BY_STREAMING,
    HD_COPIED_BY_PAGES,
    HD_PROFILE_ROWS
} hd_profile_row_t;
enum {
    HD_PROFILE_SIZES = 4, /* each four times the one before: see hd_profile_size */
    HD_PROFILE_TEXT = 128,
    HD_FAR_SHORT = 32 * 1024,
    HD_FAR_LONG = 128 * 1024
};

typedef struct hd_profile {
    char machine[HD_PROFILE_TEXT]; /* which ones it is for: see hd_profile_machine */
    const char *origin;            /* for people: where it is from; a constant */
    /* UINT32_MAX: the kernel does not do that */
    uint32_t ns[HD_PROFILE_ROWS][HD_PROFILE_SIZES];
} hd_profile_t;

#define HD_NEVER SIZE_MAX

/* Bytes of the i-th block that is measured: from 4, 16 and 32 KiB on. */
static inline size_t hd_profile_size(hd_profile_row_t row, uint32_t i) {
    size_t first = row >= HD_COPIED_PLAINLY ? 32768 : row >= HD_FAR_BY_SHORT ? 16384 : 4096;
    return first << 2 * i;
}

/* This machine, as far as it matters: maker, family and model of the processor, sizes of a core's
 * caches: "GenuineIntel 6 85, L1 32K, L2 1024K". */
void hd_profile_machine(char *text, size_t size);

/* Which one is wanted. All zero: this machine's. */
typedef struct hd_profile_choice {
    const hd_profile_t *profile; /* NULL: this process's machine's, found when it is needed: */
    bool again;                  /* by measuring it, whatever is known */
    hd_profile_t *owned;         /* what a file says; else NULL */
} hd_profile_choice_t;

/* What HEDDLE_PROFILE says: "auto", "measure", "none", a machine of the table by its name, or a
 * file's path, which has a slash. UCC_ERR_INVALID_PARAM: it is none of these, or the file can't be
 * read (logged); *out is all zero then. */
ucc_status_t hd_profile_parse(const char *text, hd_profile_choice_t *out);
void hd_profile_forget(hd_profile_choice_t *choice);
/* This machine's comes from the table, the file or a measurement: the first call takes the time,
 * and does not fail. A machine that can't be measured has none, of all zeros. */
const hd_profile_t *hd_profile_of(const hd_profile_choice_t *choice);

/* What follows: sizes from which one way takes the least time in all, if that is worth the
 * difference. Without times, what was best on the machine of the first measurements. */
hd_crossovers_t hd_profile_crossovers(const hd_profile_t *profile);

void hd_profile_print(const hd_profile_t *profile, FILE *out);

/* profile_measure.c, in so many seconds. False: there are no two cores, or no threads or memory
 * (logged at level debug). */
bool hd_profile_measure(hd_profile_t *out, double seconds);

/* profile_file.c: reads one for this machine; "": for any. False: it can't be read, or is not
 * such a file; *why says so, a constant. */
bool hd_profile_read(const char *path, const char *machine, hd_profile_t *out, const char **why);
/* The file is there as a whole, or as it was. False: see errno. */
bool hd_profile_write(const char *path, const hd_profile_t *profile);
/* Calls measure unless the user's cache folder has a profile of out->machine, and keeps it there.
 * Where several processes come at once, one of them measures. */
bool hd_profile_keep(hd_profile_t *out, bool (*measure)(hd_profile_t *out));

#endif
