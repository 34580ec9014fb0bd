/* mpp/shmem.h: the deprecated name of shmem.h. */
#include "../shmem.h"
