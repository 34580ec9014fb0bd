/* ask.h: a process asks others for whom they and their job wait, as heddle_info --job does
 * (threads/asker.h has the words).
 */
#ifndef HD_NET_ASK_H
#define HD_NET_ASK_H

#include "threads/asker.h"

#include <stdio.h>
#include <ucc/api/ucc.h>

/* job.c: asks the process, and prints what it and those that it can reach answer, and a verdict.
 * Waits for some seconds at most. An error has been logged. */
ucc_status_t hd_job_print(FILE *out, uint32_t pid);

#endif
