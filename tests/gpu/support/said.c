/* said.c: see said.h. */
#include "said.h"

#include "core/log.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { LINES = 64, LINE = 512 };

static char line[LINES][LINE];
static _Atomic unsigned n_lines;

static void keep(hd_log_level_t level, const char *text, void *arg) {
    (void)level, (void)arg;
    unsigned i = atomic_fetch_add(&n_lines, 1) % LINES;
    snprintf(line[i], LINE, "%s", text);
}

void said_listen(void) {
    hd_log_capture(keep, NULL);
}

void said_forget(void) {
    memset(line, 0, sizeof(line));
    atomic_store(&n_lines, 0);
}

unsigned said_lines(void) {
    return atomic_load(&n_lines);
}

const char *said_line(unsigned i) {
    return i < LINES ? line[i] : "";
}

bool was_said(const char *words) {
    for (unsigned i = 0; i < LINES; i++) {
        if (strstr(line[i], words) != NULL) {
            return true;
        }
    }
    return false;
}
