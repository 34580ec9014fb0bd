/* address.c: where rank 0 is. */
#include "bootstrap/bootstrap.h"

#include "core/log.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

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
    if (!hd_address_split(address, host, sizeof(host), port, sizeof(port))) {
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
