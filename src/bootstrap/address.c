/* address.c: where processes are. */
#include "bootstrap/bootstrap.h"

#include "core/log.h"

#include <netdb.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool copy(const char *from, size_t length, char *to, size_t size) {
    if (length >= size) {
        return false;
    }
    memcpy(to, from, length);
    to[length] = '\0';
    return true;
}

bool hd_address_split(const char *address, char *host, size_t host_size, char *port,
                      size_t port_size) {
    const char *colon = strrchr(address, ':');
    uint64_t number;
    if (!colon || !hd_launcher_number(colon + 1, 65535, &number) ||
        !copy(colon + 1, strlen(colon + 1), port, port_size)) {
        return false;
    }
    size_t length = (size_t)(colon - address);
    if (length == 0) {
        return copy("127.0.0.1", 9, host, host_size);
    }
    if (address[0] == '[') {
        return length > 2 && colon[-1] == ']' && copy(address + 1, length - 2, host, host_size);
    }
    /* Two colons without brackets: which of them begins the port? */
    return !memchr(address, ':', length) && copy(address, length, host, host_size);
}

ucc_status_t hd_address_resolve(const char *address, bool quiet, struct addrinfo **list) {
    char host[256], port[16];
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    *list = NULL;
    if (!hd_address_split(address, host, sizeof(host), port, sizeof(port)) ||
        strtoul(port, NULL, 10) == 0) {
        hd_error(
            "the address of rank 0, '%s', is not of the form host:port, [IPv6 address]:port or "
            ":port",
            address);
        return UCC_ERR_INVALID_PARAM;
    }
    int error = getaddrinfo(host, port, &hints, list);
    if (error == 0) {
        return UCC_OK;
    }
    if (!quiet) {
        hd_error("the address of rank 0, '%s', is not to be found: %s", address,
                 gai_strerror(error));
    }
    return error == EAI_MEMORY ? UCC_ERR_NO_MEMORY : UCC_ERR_NOT_FOUND;
}

void hd_address_name(const struct sockaddr *address, uint32_t bytes, char *out, size_t size) {
    char host[64], port[8];
    if (getnameinfo(address, bytes, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        snprintf(out, size, "an unknown address");
    } else {
        snprintf(out, size, address->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
    }
}

/* --- processes that listen -------------------------------------------------------------------- */

int hd_address_listen(const struct sockaddr *at, uint32_t bytes, uint32_t backlog) {
    int fd = socket(at->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int yes = 1;
    if (fd < 0) {
        return -1;
    }
    /* A port that a job before this one has left is free. */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(fd, at, bytes) == 0 && listen(fd, (int)backlog) == 0) {
        return fd;
    }
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

bool hd_address_is_all(int listener) {
    struct sockaddr_storage at = {0};
    socklen_t bytes = sizeof(at);
    if (getsockname(listener, (struct sockaddr *)&at, &bytes) != 0) {
        return false;
    }
    return at.ss_family == AF_INET6
               ? IN6_IS_ADDR_UNSPECIFIED(&((struct sockaddr_in6 *)&at)->sin6_addr)
               : ((struct sockaddr_in *)&at)->sin_addr.s_addr == htonl(INADDR_ANY);
}

/* IPv4 within IPv6, as a socket for both sees it, is IPv4. */
static hd_place_t place_of(const struct sockaddr_storage *at, uint16_t port) {
    hd_place_t place = {.port = port};
    if (at->ss_family == AF_INET) {
        place.family = 4;
        memcpy(place.host, &((const struct sockaddr_in *)at)->sin_addr, 4);
    } else if (at->ss_family == AF_INET6) {
        const struct in6_addr *host = &((const struct sockaddr_in6 *)at)->sin6_addr;
        bool within = IN6_IS_ADDR_V4MAPPED(host);
        place.family = within ? 4 : 6;
        memcpy(place.host, host->s6_addr + (within ? 12 : 0), within ? 4 : 16);
    }
    return place;
}

hd_place_t hd_address_place(const hd_conn_t *peer, uint16_t port) {
    struct sockaddr_storage at = {0};
    socklen_t bytes = sizeof(at);
    if (getpeername(peer->fd, (struct sockaddr *)&at, &bytes) != 0) {
        at.ss_family = AF_UNSPEC;
    }
    return place_of(&at, port);
}

static bool is_loopback(const hd_place_t *place) {
    static const uint8_t loopback[16] = {[15] = 1};
    return place->family == 4 ? place->host[0] == 127 : memcmp(place->host, loopback, 16) == 0;
}

/* A process that rank 0 sees at a loopback address is on its host, and there others find it where
 * they have found rank 0. */
void hd_address_reach(const hd_place_t *place, const hd_conn_t *root, char *out, size_t size) {
    hd_place_t at = *place, seen = hd_address_place(root, place->port);
    if (is_loopback(place) && seen.family != 0) {
        at = seen;
    }
    char host[INET6_ADDRSTRLEN + 1 + IF_NAMESIZE] = "", device[IF_NAMESIZE];
    struct sockaddr_in6 mine = {0};
    socklen_t bytes = sizeof(mine);
    inet_ntop(at.family == 4 ? AF_INET : AF_INET6, at.host, host, INET6_ADDRSTRLEN);
    if (at.family == 6 && IN6_IS_ADDR_LINKLOCAL((struct in6_addr *)at.host) &&
        getsockname(root->fd, (struct sockaddr *)&mine, &bytes) == 0 &&
        if_indextoname(mine.sin6_scope_id, device)) {
        snprintf(host + strlen(host), sizeof(host) - strlen(host), "%%%s", device);
    }
    snprintf(out, size, at.family == 6 ? "[%s]:%u" : "%s:%u", host, at.port);
}
