/* near.c: proposes to each endpoint of a team which GPU to use (gpu/near.h). */
#include "device/internal.h"

#include "gpu/near.h"
#include "span/span.h"

/* Counts the endpoints of the team's processes on this host. Where other processes' endpoints run,
 * this one does not know. */
static hd_gpu_crowd_t crowd_of(const ucc_team_h team) {
    const hd_crossing_t *crossing = team->crossing;
    hd_gpu_crowd_t crowd = {.all = 0};
    for (uint32_t p = 0; crossing && p < crossing->span->processes; p++) {
        bool here = p == crossing->span->mine || hd_net_team_is_beside(crossing->team, p);
        uint32_t endpoints = here ? hd_span_count(crossing->span, p) : 0;
        crowd.before += p < crossing->span->mine ? endpoints : 0;
        crowd.all += endpoints;
    }
    return crowd;
}

ucc_status_t hd_device_share_out(ucc_team_h team, hd_gpu_places_t *gpus, uint8_t *device) {
    hd_group_t *group = team->group;
    if (!hd_group_is_complete(group) && !hd_group_is_sealed(group)) {
        return UCC_INPROGRESS;
    }
    hd_devices_t *devices = hd_team_devices(team);
    if (!devices || devices->driver->devices == 0) {
        hd_error("endpoint %u: there is no GPU to propose", team->ep);
        return UCC_ERR_NOT_FOUND;
    }
    ucc_status_t status = hd_gpu_locate(devices->driver, gpus);
    if (status == UCC_OK) {
        status = hd_gpu_share_out(gpus, group->locality, group->n, crowd_of(team), device);
    }
    return status;
}
