/* probe.c: errors of which nobody says which device they are about: a call that has to do with
 * several devices has failed, and each of them is tried. Called instead of hd_cuda_check, after
 * such a call of the driver.
 */
#include "gpu/cuda/cuda.h"

/* An error that its context keeps comes again from any call there. */
static bool still_works(int device, const char *call) {
    hd_cuda_scope_t scope;
    if (device < 0 || hd_cuda_lost(device) || hd_cuda_enter_relaxed(device, &scope) != UCC_OK) {
        return device < 0 || !hd_cuda_lost(device);
    }
    CUevent probe;
    CUresult result = hd_cu.EventCreate(&probe, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS) {
        hd_cuda_check_freed(device, hd_cu.EventDestroy(probe), "cuEventDestroy");
    } else if (hd_cuda_loses_device(result)) {
        (void)hd_cuda_check(device, result, call);
    }
    hd_cuda_leave(&scope);
    return !hd_cuda_lost(device);
}

ucc_status_t hd_cuda_check_among(int device, int other, int another, CUresult result,
                                 const char *call) {
    if (!hd_cuda_loses_device(result)) {
        return hd_cuda_check(device, result, call);
    }
    other = other == device ? -1 : other;
    another = another == device || another == other ? -1 : another;
    bool others_work = still_works(other, call);
    others_work = still_works(another, call) && others_work;
    /* if it is this one as well, its next call says so */
    return others_work ? hd_cuda_check(device, result, call) : UCC_ERR_IO_ERROR;
}

ucc_status_t hd_cuda_check_all(CUresult result, const char *call) {
    bool lost = false;
    for (uint32_t i = 0; i < hd_cuda.devices && hd_cuda_loses_device(result); i++) {
        /* acquire: pairs with the release in hd_cuda_use */
        bool used = atomic_load_explicit(&hd_cuda.device[i].ready, memory_order_acquire);
        lost = (used && !still_works((int)i, call)) || lost;
    }
    return lost ? UCC_ERR_IO_ERROR : hd_cuda_check(-1, result, call);
}
