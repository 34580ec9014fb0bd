/* meet.h: where endpoints of one process find each other without a registry or name service, for
 * forming teams (never on a collective's path): a process-wide table of meetings, and one of
 * notices.
 *
 * A MEETING is known by its kind, the object it belongs to (a parent group, a set of contexts, or
 * nothing), a number and the fingerprint of a list of members; participants with equal keys join
 * the oldest such meeting that they have not joined yet. It leaves the table when `size`
 * participants have come, and is freed when all of them have released it. If a participant gives up
 * before, the meeting has failed: all who are in it learn that, and so does who comes while one of
 * them is. After that a new meeting of the same key can be made, but for a SPLIT or a SHRINK, whose
 * keys are used once: who comes later learns it, too.
 *
 * Ids are unique among the teams that are formed at once. So whoever comes to an open meeting of
 * its id with another size, another kind or a number that is taken contradicts it: that fails the
 * meeting, too.
 *
 * A NOTICE is what one endpoint has to say to those who know its serial number (they heard of it in
 * an out-of-band exchange): that it is still at work, or that it has failed. It lives with the
 * endpoint that put it up; who comes later than that finds nothing, and knows so.
 */
#ifndef HD_THREADS_MEET_H
#define HD_THREADS_MEET_H

#include "threads/threads.h"

#include <stdbool.h>
#include <stdint.h>

/* ID and LABELS differ in how numbers come about: one meeting must not mix them. */
typedef enum hd_meet_kind {
    HD_MEET_ID,
    HD_MEET_LABELS,
    HD_MEET_LIST,
    HD_MEET_SPLIT,
    HD_MEET_SHRINK /* as SPLIT; all members are of one process */
} hd_meet_kind_t;

/* 128 bits that stand for a list: two lists with the same ones are the same list. */
typedef struct hd_fingerprint {
    uint64_t word[2];
} hd_fingerprint_t;

hd_fingerprint_t hd_fingerprint(const uint64_t *list, uint32_t n);
/* The same, entry by entry. */
hd_fingerprint_t hd_fingerprint_begin(uint32_t n);
void hd_fingerprint_add(hd_fingerprint_t *f, uint64_t entry);

typedef struct hd_meet_key {
    hd_meet_kind_t kind;
    uint64_t scope; /* serial number of the object it belongs to; 0: the process */
    uint64_t id;
    hd_fingerprint_t list; /* of the members */
} hd_meet_key_t;

typedef struct hd_meeting hd_meeting_t;

enum { HD_MEET_ANY = UINT32_MAX }; /* me: take the next free number */

/* Joins as participant *me of `size`; with HD_MEET_ANY, *me becomes the order of arrival. label and
 * included can be asked for by all once the meeting is complete. An error has been logged: no
 * memory for a meeting, and *out is NULL; or a contradiction, or the meeting has failed, and *out
 * is that meeting, to which there is no reference. */
ucc_status_t hd_meet(const hd_meet_key_t *key, uint32_t size, uint32_t *me, uint64_t label,
                     bool included, hd_meeting_t **out);
bool hd_meeting_is_complete(const hd_meeting_t *meeting);
/* UCC_OK, or why nothing will come of it: the first cause. */
ucc_status_t hd_meeting_failed(const hd_meeting_t *meeting);
/* By a participant that can't go on. */
void hd_meeting_fail(hd_meeting_t *meeting, ucc_status_t why);
uint64_t hd_meeting_label(const hd_meeting_t *meeting, uint32_t i);
bool hd_meeting_included(const hd_meeting_t *meeting, uint32_t i);
/* Has participant i come? Also of a meeting that is not complete. */
bool hd_meeting_has_come(const hd_meeting_t *meeting, uint32_t i);
/* What this meeting is about: made by the first caller; dropped, if given, when the meeting is
 * freed. NULL if make is NULL, or returned NULL. */
void *hd_meeting_object(hd_meeting_t *meeting, void *(*make)(void *arg), void *arg,
                        void (*drop)(void *object));
/* The same for what the participants have to find out before that. */
void *hd_meeting_prelude(hd_meeting_t *meeting, void *(*make)(void *arg), void *arg,
                         void (*drop)(void *object));
/* The same for memory that the meeting's process shares with others. */
void *hd_meeting_memory(hd_meeting_t *meeting, void *(*make)(void *arg), void *arg,
                        void (*drop)(void *object));
/* early: this participant only had to be counted, and does not wait for the rest. */
void hd_meeting_release(hd_meeting_t *meeting, bool early);
/* The object of this serial number is gone: nobody comes to its meetings any more. Frees those that
 * were only kept for who may still come. */
void hd_meetings_end(uint64_t scope);

typedef struct hd_notice {
    uint64_t serial;     /* 0: not up */
    ucc_status_t status; /* UCC_INPROGRESS, or why the endpoint has failed */
    struct hd_notice *next;
} hd_notice_t;

/* Called by the endpoint itself. take_down may be called at any time, also of a notice that is not
 * up. */
void hd_notice_put_up(hd_notice_t *notice);
void hd_notice_change(hd_notice_t *notice, ucc_status_t status);
void hd_notice_take_down(hd_notice_t *notice);
/* Called by anybody: returns the status of that notice; UCC_ERR_NOT_FOUND if it is not up any more
 * (or was never in this process). */
ucc_status_t hd_notice_read(uint64_t serial);

#endif
