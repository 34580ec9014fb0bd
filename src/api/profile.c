/* profile.c: heddle_profile_measure. */
#include "api/api.h"
#include "shm/profile.h"

#include <errno.h>
#include <math.h>
#include <string.h>

ucc_status_t heddle_profile_measure(const char *path, double seconds) {
    hd_profile_t profile;
    if (!path || !(seconds > 0) || !isfinite(seconds)) {
        hd_error("heddle_profile_measure: %s",
                 path ? "seconds is not positive and finite" : "path is NULL");
        return UCC_ERR_INVALID_PARAM;
    }
    memset(&profile, 0, sizeof(profile));
    hd_profile_machine(profile.machine, sizeof(profile.machine));
    if (!hd_profile_measure(&profile, seconds)) {
        hd_error("heddle_profile_measure: needs two cores that threads can be held on, and some "
                 "memory (HEDDLE_LOG_LEVEL=debug says what there is not)");
        return UCC_ERR_NOT_SUPPORTED;
    }
    if (!hd_profile_write(path, &profile)) {
        hd_error("heddle_profile_measure: path: %s: %s", path, strerror(errno));
        return UCC_ERR_NO_RESOURCE;
    }
    return UCC_OK;
}
