/* asker.h: those who ask a process for whom it and its job wait (heddle_info --job): how they and
 * the process speak to each other, and their connections. net/ask.c answers for teams that use the
 * network, form/told.c for those that share memory; net/job.c asks both, and checks all that it
 * gets.
 *
 * A process listens at abstract sockets of its pid, one for each of the two. Who asks sends a
 * question, and gets another one back, which says which version answers; then mails. A mail brings
 * a piece of what process `by` says; put together, that is lines, each of a letter, a space, and
 *
 *     P number of pid host            who says it: its number among the processes of its largest
 *                                     team
 *     K token number pid host gone    a process that it knows: number is -1 if it is in no team of
 *       clause                        its own; gone is 1 if nothing will come of it; the clause,
 *                                     what is known of it, may be missing
 *     N token number pid host gone    the same of a process beside it, which can be asked by
 *       clause                        itself, at the same kind of socket: nobody hands the
 *                                     question on
 *     W token                         it waits for that process
 *     T text                          for people
 *
 * Only the process's own user, or root, is answered. What an asker says is one question; whoever
 * says anything else is not heard any more.
 */
#ifndef HD_THREADS_ASKER_H
#define HD_THREADS_ASKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* Which of its teams a process is asked for. */
typedef enum hd_ask_of { HD_ASK_NET, HD_ASK_NODE, HD_ASK_KINDS } hd_ask_kind_t;

struct sockaddr_un;
/* Writes where that process listens; returns the bytes of the address. */
uint32_t hd_ask_address(struct sockaddr_un *at, hd_ask_kind_t of, uint32_t pid);

/* --- connections ------------------------------------------------------------------------------ */

enum { HD_ASKERS = 4 };

typedef struct hd_queued hd_queued_t;

/* A connection of heddle_info --job. */
typedef struct hd_asker {
    int fd;          /* -1: none */
    uint32_t events; /* of epoll's: for which it is to be looked at */
    uint64_t ask;    /* names its question; 0: it has not asked yet */
    uint64_t since;  /* ns */
    hd_queued_t *first, *last;
    uint32_t n; /* queued */
} hd_asker_t;

/* All of a process's, of one kind. One thread at a time. */
typedef struct hd_askers {
    int listener; /* -1: none */
    hd_asker_t asker[HD_ASKERS];
    /* From now on hd_askers_look is worth it when that descriptor has one of these events; 0: not
     * any more. NULL: the owner looks at `listener`, and at each asker's `fd` and `events`. */
    void (*also)(void *arg, int fd, uint32_t events);
    /* Answers its question, by hd_askers_hand. */
    void (*answer)(void *arg, hd_asker_t *asker);
    void *arg;
} hd_askers_t;

/* Nobody asks, and nobody can. */
void hd_askers_clear(hd_askers_t *askers);
/* From now on they can. Else the reason has been logged, at level info. */
void hd_askers_open(hd_askers_t *askers, hd_ask_kind_t of);
/* Takes what has come, and sends what is queued. Never waits. */
void hd_askers_look(hd_askers_t *askers);
/* Sends the mail when its asker takes it. The asker may be gone afterwards. */
void hd_askers_hand(hd_askers_t *askers, hd_asker_t *asker, const hd_mail_t *mail);
void hd_askers_close(hd_askers_t *askers);
/* In the child of a fork, instead: its parent's are as they were. */
void hd_askers_abandon(hd_askers_t *askers);

/* --- what is said ----------------------------------------------------------------------------- */

/* Lines, which go out as mails. */
typedef struct hd_report {
    hd_mail_t mail; /* ask and by are set by its owner */
    void (*deliver)(void *to, const hd_mail_t *mail);
    void *to;
} hd_report_t;

/* A line, or several; of one that is too long, what fits. */
void hd_report_say(hd_report_t *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The rest of it. */
void hd_report_end(hd_report_t *report);

#endif
