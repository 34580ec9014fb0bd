/* pmi2.c: PMI-2, which srun --mpi=pmi2 speaks (kvs.h). Its fence has no time-out: the launcher ends
 * a job whose processes do not come.
 */
#include "bootstrap/kvs.h"

#include "core/log.h"

#include <stdlib.h>
#include <string.h>

enum { INIT, FINALIZE, JOB, PUT, FENCE, GET, CALLS, NOBODY = -1 };

static const char *const names[CALLS] = {"PMI2_Init",    "PMI2_Finalize",  "PMI2_Job_GetId",
                                         "PMI2_KVS_Put", "PMI2_KVS_Fence", "PMI2_KVS_Get"};

/* Of the process; the library stays. */
static struct {
    int (*init)(int *spawned, int *size, int *rank, int *program);
    int (*finalize)(void);
    int (*job)(char *job, int bytes);
    int (*put)(const char *key, const char *value);
    int (*fence)(void);
    int (*get)(const char *job, int source, const char *key, char *value, int bytes, int *length);
} pmi2;

_Static_assert(sizeof(pmi2) == CALLS * sizeof(void *), "in the order of their names");

static ucc_status_t refused(int call, int error) {
    hd_error("heddle_bootstrap_env: %s, by which the launcher's processes find each other, has "
             "failed: %d",
             names[call], error);
    return UCC_ERR_IO_ERROR;
}

static bool load(void) {
    void *found[CALLS];
    if (!hd_library_load("libpmi2.so.0", names, found, CALLS)) {
        return false;
    }
    memcpy(&pmi2, found, sizeof(pmi2));
    return true;
}

static ucc_status_t pmi2_open(hd_kvs_place_t *place) {
    int spawned, size = 0, rank = 0, program;
    const char *hosts = getenv("SLURM_STEP_NUM_NODES");
    if (!load()) {
        return UCC_ERR_NOT_SUPPORTED;
    }
    int error = pmi2.init(&spawned, &size, &rank, &program);
    if (error != 0) {
        return refused(INIT, error);
    }
    *place = (hd_kvs_place_t){(uint32_t)rank, (uint32_t)size, hosts && strcmp(hosts, "1") == 0};
    return UCC_OK;
}

static void pmi2_close(void) {
    pmi2.finalize();
}

static ucc_status_t look_up(const char *name, char text[HD_KVS_TEXT]) {
    char job[256];
    int length = 0, error = pmi2.job(job, sizeof(job));
    if (error != 0) {
        return refused(JOB, error);
    }
    error = pmi2.get(job, NOBODY, name, text, HD_KVS_TEXT, &length);
    text[HD_KVS_TEXT - 1] = '\0';
    return error == 0 && length > 0 ? UCC_OK : refused(GET, error);
}

static ucc_status_t pmi2_share(uint32_t rank, const char *name, char text[HD_KVS_TEXT],
                               double seconds) {
    (void)seconds;
    int error = rank == 0 ? pmi2.put(name, text) : 0;
    if (error != 0) {
        return refused(PUT, error);
    }
    error = pmi2.fence();
    if (error != 0) {
        return refused(FENCE, error);
    }
    return rank == 0 ? UCC_OK : look_up(name, text);
}

const hd_kvs_calls_t hd_pmi2_calls = {.name = "PMI-2",
                                      .variable = "PMI_FD",
                                      .open = pmi2_open,
                                      .share = pmi2_share,
                                      .close = pmi2_close};
