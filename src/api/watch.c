/* watch.c: waits that the library does not do itself, to which HEDDLE_STALL and HEDDLE_TIMEOUT go
 * as well. Called a few times in a long wait, so the configuration is read each time.
 */
#include "core/config.h"
#include "core/log.h"
#include "threads/stall.h"

#include <heddle/heddle.h>
#include <math.h>

static ucc_status_t time_out(const char *who, const char *whom) {
    hd_error("time-out: %s has waited in vain for %s", who, whom ? whom : "others");
    return UCC_ERR_TIMED_OUT;
}

ucc_status_t heddle_watch_wait(const char *who, const char *whom, double waited, double *next) {
    if (!who || !next || !(waited >= 0 && waited < INFINITY)) {
        hd_error("heddle_watch_wait: %s", !who    ? "who is NULL"
                                          : !next ? "next is NULL"
                                                  : "waited is no number of seconds");
        return UCC_ERR_INVALID_PARAM;
    }
    hd_config_t *config;
    ucc_status_t status = hd_config_read(HD_CFG_SCOPE_LIB, NULL, NULL, &config);
    if (status != UCC_OK) {
        return status;
    }
    double stall = hd_config_double(config, HD_CFG_LIB_STALL);
    double timeout = hd_config_double(config, HD_CFG_LIB_TIMEOUT);
    hd_config_release(config);
    if (timeout > 0 && waited >= timeout) {
        return time_out(who, whom);
    }
    if (whom && stall > 0 && *next > 0 && waited >= *next) {
        hd_stall_line("%s has waited %.1f s for %s", who, waited, whom);
    }
    double due = stall > 0 ? stall : INFINITY;
    while (due <= waited) {
        due *= 2;
    }
    *next = timeout > 0 && timeout < due ? timeout : due;
    return UCC_INPROGRESS;
}
