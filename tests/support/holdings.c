/* holdings.c: see holdings.h. */
#include "holdings.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Is the socket with this inode in one of the kernel's tables? */
static bool is_internet(unsigned long wanted) {
    static const char *const tables[] = {"/proc/self/net/tcp", "/proc/self/net/tcp6",
                                         "/proc/self/net/udp", "/proc/self/net/udp6"};
    char line[512];
    unsigned long inode;
    bool found = false;
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]) && !found; i++) {
        FILE *file = fopen(tables[i], "re");
        while (file && !found && fgets(line, sizeof(line), file)) {
            found = sscanf(line, " %*d: %*s %*s %*x %*s %*s %*s %*d %*d %lu", &inode) == 1 &&
                    inode == wanted;
        }
        if (file) {
            fclose(file);
        }
    }
    return found;
}

static void count_descriptors(holdings_t *h) {
    char target[64];
    DIR *folder = opendir("/proc/self/fd");
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        ssize_t n = readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1);
        unsigned long inode;
        target[n > 0 ? n : 0] = 0;
        h->descriptors += n > 0;
        if (sscanf(target, "socket:[%lu]", &inode) == 1) {
            h->sockets++;
            h->internet += is_internet(inode);
        }
    }
    if (folder) {
        closedir(folder);
        h->descriptors--; /* the folder's own */
    }
}

holdings_t holdings_now(void) {
    holdings_t h = {0};
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof(line), maps)) {
        h.memfds += strstr(line, "/memfd:") != NULL;
        h.ucx += strstr(line, "/libucp") || strstr(line, "/libuct") || strstr(line, "/libucs");
    }
    if (maps) {
        fclose(maps);
    }
    count_descriptors(&h);
    return h;
}
