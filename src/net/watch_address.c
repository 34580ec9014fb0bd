/* watch_address.c: the sockets of watch.c: where a process can be reached, listening there, and
 * connecting to another. An address is plain bytes that come from other processes: parsed in one
 * place, with every length checked.
 */
#include "net/watch.h"

#include "core/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAGIC = 0x48445754, VERSION = 6, HEAD = 40, LINE = 24, BACKLOG = 256 };

_Static_assert(sizeof(hd_watch_record_t) == HEAD + HD_WATCH_LINES * LINE &&
                   sizeof(hd_watch_record_t) <= HD_WATCH_ADDRESS,
               "a record is laid out as it travels");

static bool is_link_local(const struct sockaddr_in6 *a) {
    return IN6_IS_ADDR_LINKLOCAL(&a->sin6_addr);
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

uint64_t hd_watch_host(void) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    char boot[64] = "";
    struct stat space;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    size_t n = file ? fread(boot, 1, sizeof(boot), file) : 0;
    bool known = n > 0 && stat("/proc/thread-self/ns/net", &space) == 0;
    if (file) {
        fclose(file);
    }
    if (known) {
        return mix(mix(hash, boot, n), &space.st_ino, sizeof(space.st_ino));
    }
    /* Else all hosts without these would be one: this process has a host of its own, then. */
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    pid_t pid = getpid();
    if (getrandom(&hash, sizeof(hash), GRND_NONBLOCK) != (ssize_t)sizeof(hash)) {
        hash = mix(mix(hash, &now, sizeof(now)), &pid, sizeof(pid));
    }
    return hash;
}

/* Is it in the list? */
static bool is_named(const char *devices, const char *name) {
    size_t n = strlen(name);
    for (const char *at = devices; *at; at += strcspn(at, ","), at += *at == ',') {
        if (strncmp(at, name, n) == 0 && (at[n] == ',' || at[n] == 0)) {
            return true;
        }
    }
    return *devices == 0;
}

static void add_line(hd_watch_record_t *record, uint16_t family, const void *bytes, size_t n) {
    record->line[record->n].family = family;
    memcpy(record->line[record->n++].bytes, bytes, n);
}

void hd_watch_describe(hd_watch_record_t *record, uint64_t host, const char *devices) {
    struct ifaddrs *all = NULL;
    *record = (hd_watch_record_t){.magic = MAGIC, .version = VERSION, .host = host};
    if (getifaddrs(&all) != 0) {
        return;
    }
    for (const struct ifaddrs *i = all; i && record->n < HD_WATCH_LINES; i = i->ifa_next) {
        if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK) ||
            !is_named(devices, i->ifa_name)) {
            continue;
        }
        if (i->ifa_addr->sa_family == AF_INET) {
            const struct sockaddr_in *a = (const struct sockaddr_in *)(const void *)i->ifa_addr;
            add_line(record, 4, &a->sin_addr, sizeof(a->sin_addr));
        } else if (i->ifa_addr->sa_family == AF_INET6) {
            const struct sockaddr_in6 *a = (const struct sockaddr_in6 *)(const void *)i->ifa_addr;
            if (!is_link_local(a)) {
                add_line(record, 6, &a->sin6_addr, sizeof(a->sin6_addr));
            }
        }
    }
    freeifaddrs(all);
}

bool hd_watch_parse(hd_watch_record_t *record, const void *address, size_t bytes) {
    *record = (hd_watch_record_t){.magic = 0};
    if (bytes < HEAD || bytes > sizeof(*record)) {
        return false;
    }
    memcpy(record, address, HEAD);
    if (record->magic != MAGIC || record->version != VERSION || record->n > HD_WATCH_LINES ||
        bytes < HEAD + (size_t)record->n * LINE) {
        return false;
    }
    memcpy(record->line, (const uint8_t *)address + HEAD, (size_t)record->n * LINE);
    for (uint32_t i = 0; i < record->n; i++) {
        if (record->line[i].family != 4 && record->line[i].family != 6) {
            return false;
        }
    }
    return record->port != 0;
}

void hd_watch_name(const hd_watch_record_t *record, uint64_t host, char name[HD_WATCH_NAME]) {
    char text[INET6_ADDRSTRLEN] = "";
    bool is_6 = record->n > 0 && record->line[0].family == 6;
    if (record->host == host) {
        snprintf(name, HD_WATCH_NAME, "127.0.0.1:%u", record->port);
    } else if (record->n > 0 &&
               inet_ntop(is_6 ? AF_INET6 : AF_INET, record->line[0].bytes, text, sizeof(text))) {
        snprintf(name, HD_WATCH_NAME, is_6 ? "[%s]:%u" : "%s:%u", text, record->wide);
    } else {
        snprintf(name, HD_WATCH_NAME, "a host without an address");
    }
}

/* --- sockets ---------------------------------------------------------------------------------- */

/* Inside a host no link breaks, and a process that reads nothing for long is not lost. */
void hd_watch_tune(int fd, bool between_hosts, double lost_after) {
    double seconds = lost_after > 0 ? lost_after : 4;
    int one = 1, idle = 1, probes = 3, ms = (int)((seconds < 1e6 ? seconds : 1e6) * 1000);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (!between_hosts) {
        return;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle, sizeof(idle));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
    /* also while data is unacknowledged, when keepalive is silent */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
}

void hd_watch_abort(int fd) {
    const struct linger none = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
}

static bool ask(int fd, struct tcp_info *info) {
    socklen_t size = sizeof(*info);
    *info = (struct tcp_info){0};
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &size) == 0;
}

static double silence_of(const struct tcp_info *info) {
    uint32_t ack = info->tcpi_last_ack_recv, data = info->tcpi_last_data_recv;
    return (double)(ack < data ? ack : data) * 1e-3;
}

double hd_watch_silence(int fd) {
    struct tcp_info info;
    return ask(fd, &info) ? silence_of(&info) : -1;
}

bool hd_watch_has_ceased(int fd, double seconds) {
    enum { ANSWER_MS = 250, LATELY_MS = 1000 };
    struct tcp_info info;
    return ask(fd, &info) && silence_of(&info) > seconds && info.tcpi_unacked > 0 &&
           info.tcpi_last_data_sent >= ANSWER_MS && info.tcpi_last_data_sent <= LATELY_MS;
}

static int bind_to(int family, const struct sockaddr *at, socklen_t bytes, uint16_t *port) {
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), off = 0;
    struct sockaddr_storage bound;
    socklen_t size = sizeof(bound);
    if (fd < 0) {
        return -1;
    }
    if (family == AF_INET6) { /* IPv4, too */
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    }
    if (bind(fd, at, bytes) != 0 || getsockname(fd, (struct sockaddr *)&bound, &size) != 0) {
        int why = errno;
        close(fd);
        errno = why;
        return -1;
    }
    *port = bound.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&bound)->sin6_port)
                                        : ntohs(((struct sockaddr_in *)&bound)->sin_port);
    return fd;
}

bool hd_watch_listen(int fd) {
    return listen(fd, BACKLOG) == 0;
}

int hd_watch_bind(bool wide, uint16_t *port) {
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    struct sockaddr_in four = {.sin_family = AF_INET};
    int fd = wide ? bind_to(AF_INET6, (const struct sockaddr *)&six, sizeof(six), port) : -1;
    if (fd < 0) {
        four.sin_addr.s_addr = htonl(wide ? INADDR_ANY : INADDR_LOOPBACK);
        fd = bind_to(AF_INET, (const struct sockaddr *)&four, sizeof(four), port);
    }
    if (fd >= 0 && !wide && !hd_watch_listen(fd)) {
        int why = errno;
        close(fd);
        errno = why;
        return -1;
    }
    return fd;
}

typedef struct place {
    uint16_t family; /* 4 or 6 */
    uint8_t bytes[16];
} place_t;

static place_t place_of(const struct sockaddr_storage *address) {
    const struct sockaddr_storage at = *address;
    place_t place = {.family = 4};
    if (at.ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)&at;
        place.family = IN6_IS_ADDR_V4MAPPED(&six->sin6_addr) ? 4 : 6;
        memcpy(place.bytes, six->sin6_addr.s6_addr + (place.family == 4 ? 12 : 0),
               place.family == 4 ? 4 : 16);
    } else {
        memcpy(place.bytes, &((const struct sockaddr_in *)(const void *)&at)->sin_addr, 4);
    }
    return place;
}

/* Returns which of the record's addresses that is, from 1. 0: none. */
static uint32_t number_of(const hd_watch_record_t *record, const place_t *place) {
    uint32_t i = 0;
    while (i < record->n &&
           (record->line[i].family != place->family ||
            memcmp(record->line[i].bytes, place->bytes, sizeof(place->bytes)) != 0)) {
        i++;
    }
    return i < record->n ? i + 1 : 0;
}

bool hd_watch_is_ours(const hd_watch_record_t *record, int fd) {
    struct sockaddr_storage at;
    socklen_t size = sizeof(at);
    if (getsockname(fd, (struct sockaddr *)&at, &size) != 0) {
        return false;
    }
    const place_t place = place_of(&at);
    return (place.family == 4 && place.bytes[0] == IN_LOOPBACKNET) || number_of(record, &place);
}

uint32_t hd_watch_attempt_from(const hd_watch_record_t *record, int fd) {
    struct sockaddr_storage at;
    socklen_t size = sizeof(at);
    if (getpeername(fd, (struct sockaddr *)&at, &size) != 0) {
        return 0;
    }
    const place_t place = place_of(&at);
    return number_of(record, &place);
}

static int connect_to(int family, const struct sockaddr *to, socklen_t bytes) {
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, to, bytes) != 0 && errno != EINPROGRESS) {
        int why = errno;
        close(fd);
        errno = why;
        return -1;
    }
    return fd;
}

static int connect_line(const hd_watch_record_t *record, uint32_t i) {
    if (record->line[i].family == 4) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(record->wide)};
        memcpy(&to.sin_addr, record->line[i].bytes, sizeof(to.sin_addr));
        return connect_to(AF_INET, (const struct sockaddr *)&to, sizeof(to));
    }
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(record->wide)};
    memcpy(&to.sin6_addr, record->line[i].bytes, sizeof(to.sin6_addr));
    return connect_to(AF_INET6, (const struct sockaddr *)&to, sizeof(to));
}

int hd_watch_connect(const hd_watch_record_t *record, uint64_t host, uint32_t *attempt) {
    int fd = -1;
    errno = 0;
    if (record->host == host) { /* a process listens at other addresses for other hosts only */
        struct sockaddr_in to = {.sin_family = AF_INET,
                                 .sin_port = htons(record->port),
                                 .sin_addr = {htonl(INADDR_LOOPBACK)}};
        return (*attempt)++ ? -1 : connect_to(AF_INET, (const struct sockaddr *)&to, sizeof(to));
    }
    while (fd < 0 && record->wide && *attempt < record->n) {
        fd = connect_line(record, (*attempt)++);
    }
    return fd;
}
