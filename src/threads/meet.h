/* meet.h: where endpoints of one process find each other without a registry or name service: a
 * process-wide table of meetings, for forming teams (never on a collective's path).
 *
 * A meeting is known by its kind, the object it belongs to (a parent group, a set of contexts, or
 * nothing), a number and a list of members; participants with equal keys join the oldest such
 * meeting that they have not joined yet. It leaves the table when `size` participants have come,
 * and is freed when all of them have released it.
 */
#ifndef HD_THREADS_MEET_H
#define HD_THREADS_MEET_H

#include <stdbool.h>
#include <stdint.h>

/* ID and LABELS differ in how numbers come about: one meeting must not mix them. */
typedef enum hd_meet_kind {
    HD_MEET_ID,
    HD_MEET_LABELS,
    HD_MEET_LIST,
    HD_MEET_SPLIT
} hd_meet_kind_t;

typedef struct hd_meet_key {
    hd_meet_kind_t kind;
    uint64_t scope; /* serial number of the object it belongs to; 0: the process */
    uint64_t id;
    const uint64_t *list; /* may be NULL; copied */
    uint32_t n_list;
} hd_meet_key_t;

typedef struct hd_meeting hd_meeting_t;

enum { HD_MEET_ANY = UINT32_MAX }; /* me: take the next free number */

/* Joins as participant *me of `size`; with HD_MEET_ANY, *me becomes the order of arrival. label and
 * included can be asked for by all once the meeting is complete. NULL: out of memory. */
hd_meeting_t *hd_meet(const hd_meet_key_t *key, uint32_t size, uint32_t *me, uint64_t label,
                      bool included);
bool hd_meeting_is_complete(hd_meeting_t *meeting);
uint64_t hd_meeting_label(const hd_meeting_t *meeting, uint32_t i);
bool hd_meeting_included(const hd_meeting_t *meeting, uint32_t i);
/* What this meeting is about: made by the first caller, under the table's lock; dropped, if given,
 * when the meeting is freed. NULL if make returned NULL. */
void *hd_meeting_object(hd_meeting_t *meeting, void *(*make)(void *arg), void *arg,
                        void (*drop)(void *object));
/* early: this participant only had to be counted, and does not wait for the rest. */
void hd_meeting_release(hd_meeting_t *meeting, bool early);

#endif
