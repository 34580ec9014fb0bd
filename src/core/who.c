/* who.c: see who.h. No state. */
#include "core/who.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void hd_who_clean(hd_who_t *who) {
    who->host[HD_WHO_HOST - 1] = '\0';
    for (char *c = who->host; *c; c++) {
        *c = (char)(*c > ' ' && *c <= '~' ? *c : '?');
    }
    if (!*who->host) {
        strcpy(who->host, "?");
    }
}

hd_who_t hd_who_am_i(void) {
    hd_who_t who = {.pid = (uint32_t)getpid()};
    struct stat space;
    if (stat("/proc/thread-self/ns/pid", &space) == 0) {
        who.space = (uint32_t)space.st_ino;
    }
    (void)gethostname(who.host, sizeof(who.host) - 1);
    hd_who_clean(&who);
    return who;
}
