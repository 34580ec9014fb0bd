/* holdings.h: what this process has of the system, as the kernel lists it. */
#ifndef TESTS_HOLDINGS_H_
#define TESTS_HOLDINGS_H_

#include <stdint.h>

typedef struct holdings {
    uint32_t descriptors;
    uint32_t sockets;  /* of the descriptors */
    uint32_t internet; /* of the sockets: TCP and UDP, also of version 6 */
    uint32_t memfds;   /* mappings of files without a name */
    uint32_t ucx;      /* mappings of UCX's libraries */
} holdings_t;

holdings_t holdings_now(void);

#endif
