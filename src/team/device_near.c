/* device_near.c: which GPU the endpoints of a team should use (gpu/near.h). */
#include "team/device.h"

#include "gpu/near.h"
#include "team/span.h"

/* Endpoints of processes of this host that come before this one. Where those run, this process does not know. */
static uint32_t endpoints_before(const ucc_team_h team) {
    const hd_crossing_t *crossing = team->crossing;
    uint32_t before = 0;
    for (uint32_t p = 0; crossing && p < crossing->span->mine; p++) {
        bool beside = hd_net_team_is_beside(crossing->team, p);
        before += beside ? hd_span_count(crossing->span, p) : 0;
    }
    return before;
}

ucc_status_t hd_device_share_out(ucc_team_h team, hd_gpu_places_t *gpus, uint8_t *device) {
    const hd_group_t *group = team->group;
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
        hd_gpu_share_out(gpus, group->locality, group->n, endpoints_before(team), device);
    }
    return status;
}
