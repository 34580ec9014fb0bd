/* devices.c: which network devices this host has, as UCX names them: interfaces ("eth0"), and ports
 * of InfiniBand devices ("mlx5_0:1"). Called when the net is opened.
 */
#include "net/internal.h"

#include <glob.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

enum { NAMES = 8192 }; /* bytes of all names */

/* Is it in the list? */
static bool is_named(const char *list, const char *name, size_t n) {
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',') {
        if (strcspn(at, ",") == n && strncmp(at, name, n) == 0) {
            return true;
        }
    }
    return false;
}

static void add(char list[NAMES], const char *name) {
    size_t used = strlen(list), n = strlen(name);
    if (used + n + 2 <= NAMES && !is_named(list, name, n)) {
        snprintf(list + used, NAMES - used, "%s%s", used ? "," : "", name);
    }
}

/* Those that are up and have an address. */
static void add_interfaces(char list[NAMES]) {
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0) {
        return;
    }
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
        if ((i->ifa_flags & IFF_UP) && (family == AF_INET || family == AF_INET6)) {
            add(list, i->ifa_name);
        }
    }
    freeifaddrs(all);
}

/* "/sys/class/infiniband/mlx5_0/ports/1" is mlx5_0:1. */
static void add_ports(char list[NAMES]) {
    glob_t found;
    if (glob("/sys/class/infiniband/*/ports/*", 0, NULL, &found) != 0) {
        return;
    }
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char device[64], port[16], name[96];
        if (sscanf(found.gl_pathv[i], "/sys/class/infiniband/%63[^/]/ports/%15s", device, port) ==
            2) {
            snprintf(name, sizeof(name), "%s:%s", device, port);
            add(list, name);
        }
    }
    globfree(&found);
}

static void list_devices(char list[NAMES]) {
    list[0] = 0;
    add_ports(list); /* before interfaces, of which containers' hosts have hundreds */
    add_interfaces(list);
}

bool hd_net_has_device(const char *name) {
    char list[NAMES];
    list_devices(list);
    return is_named(list, name, strlen(name));
}

ucc_status_t hd_net_check_devices(const char *variable, const char *devices) {
    char list[NAMES];
    if (strcmp(devices, "all") == 0) {
        return UCC_OK;
    }
    list_devices(list);
    const char *at = devices;
    do {
        size_t n = strcspn(at, ",");
        if (!is_named(list, at, n)) {
            hd_error("%s=%s: there is no network device \"%.*s\" that is up; there are %s",
                     variable, devices, (int)n, at, *list ? list : "none");
            return UCC_ERR_INVALID_PARAM;
        }
        at += n;
    } while (*at++);
    return UCC_OK;
}
