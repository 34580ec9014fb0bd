/* ask.h: how a process is asked for whom it and its job wait, and how they answer: what ask.c says
 * and job.c (heddle_info --job) reads. Each of the two checks all that it gets.
 *
 * The process listens at an abstract socket of its pid. Who asks sends a question, and gets another
 * one back, which says which version answers; then mails. A mail brings a piece of what process
 * `by` says; put together, that is lines, each of a letter, a space, and
 *
 *     P number of pid host            who says it: its number among the processes of its largest
 *                                     team
 *     K token number pid host gone    a process that it knows: number is -1 if it is in no team of
 *       clause                        its own; gone is 1 if nothing will come of it; the clause,
 *                                     what is known of it, may be missing
 *     W token                         it waits for that process
 *     T text                          for people
 */
#ifndef HD_NET_ASK_H
#define HD_NET_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <ucc/api/ucc.h>

enum { HD_ASK_MAGIC = 0x48644153, HD_ASK_VERSION = 1, HD_MAIL_TEXT = 200 };

typedef struct hd_question {
    uint32_t magic, version;
} hd_question_t;

typedef struct hd_mail {
    uint64_t ask;   /* which question it answers */
    uint64_t by[2]; /* token of the process whose words these are */
    uint32_t bytes; /* of the text */
    uint32_t last;  /* 1: no more comes of it */
    char text[HD_MAIL_TEXT];
} hd_mail_t;

static inline size_t hd_mail_bytes(const hd_mail_t *mail) {
    return offsetof(hd_mail_t, text) + mail->bytes;
}

/* The name of that process's socket, as an abstract one; returns its length. */
static inline int hd_ask_name(char *name, size_t room, uint32_t pid) {
    return snprintf(name, room, "heddle/ask/%u", pid);
}

/* job.c: asks the process, and prints what it and those that it can reach answer, and a verdict.
 * Waits for some seconds at most. An error has been logged. */
ucc_status_t hd_job_print(FILE *out, uint32_t pid);

#endif
