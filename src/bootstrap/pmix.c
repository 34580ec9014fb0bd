/* pmix.c: PMIx, which mpirun of Open MPI, prterun and srun --mpi=pmix speak (kvs.h). The types are
 * those of the PMIx standard, versions 3 to 5; tests/bootstrap compares them with pmix.h.
 */
#include "bootstrap/kvs.h"
#include "bootstrap/pmix.h"

#include "core/log.h"

#include <stdlib.h>
#include <string.h>

enum { INIT, FINALIZE, PUT, COMMIT, FENCE, GET, CALLS };

static const char *const names[CALLS] = {"PMIx_Init",   "PMIx_Finalize", "PMIx_Put",
                                         "PMIx_Commit", "PMIx_Fence",    "PMIx_Get"};

/* Of the process; the library stays. */
static struct {
    int (*init)(hd_pmix_proc_t *me, hd_pmix_info_t *info, size_t n);
    int (*finalize)(const hd_pmix_info_t *info, size_t n);
    int (*put)(uint8_t scope, const char *key, hd_pmix_value_t *value);
    int (*commit)(void);
    int (*fence)(const hd_pmix_proc_t *procs, size_t n, const hd_pmix_info_t *info, size_t n_info);
    int (*get)(const hd_pmix_proc_t *proc, const char *key, const hd_pmix_info_t *info, size_t n,
               hd_pmix_value_t **value);
} pmix;
static hd_pmix_proc_t me;
_Static_assert(sizeof(pmix) == CALLS * sizeof(void *), "in the order of their names");

static ucc_status_t refused(int call, int error) {
    hd_error("heddle_bootstrap_env: %s, by which the launcher's processes find each other, has "
             "failed: %d",
             names[call], error);
    return error == HD_PMIX_TIMED_OUT ? UCC_ERR_TIMED_OUT : UCC_ERR_IO_ERROR;
}

static bool load(void) {
    void *found[CALLS];
    if (!hd_library_load("libpmix.so.2", names, found, CALLS)) {
        return false;
    }
    memcpy(&pmix, found, sizeof(pmix));
    return true;
}

/* As PMIX_VALUE_RELEASE. */
static void release(hd_pmix_value_t *value) {
    if (value->type == HD_PMIX_STRING) {
        free(value->data.string);
    }
    free(value);
}

/* A number that the launcher knows of the job; 0: it does not. */
static uint32_t number_of_job(const char *what) {
    hd_pmix_proc_t job = me;
    hd_pmix_value_t *value = NULL;
    uint32_t number = 0;
    job.rank = HD_PMIX_WILDCARD;
    if (pmix.get(&job, what, NULL, 0, &value) == 0 && value) {
        number = value->type == HD_PMIX_UINT32 ? value->data.number : 0;
        release(value);
    }
    return number;
}

static ucc_status_t pmix_open(hd_kvs_place_t *place) {
    if (!load()) {
        return UCC_ERR_NOT_SUPPORTED;
    }
    int error = pmix.init(&me, NULL, 0);
    if (error != 0) {
        return refused(INIT, error);
    }
    place->rank = me.rank;
    place->size = number_of_job("pmix.job.size");
    place->one_host = place->size > 0 && number_of_job("pmix.local.size") == place->size;
    return UCC_OK;
}

static void pmix_close(void) {
    pmix.finalize(NULL, 0);
}

static ucc_status_t publish(const char *name, char *text) {
    hd_pmix_value_t value = {.type = HD_PMIX_STRING, .data.string = text};
    int error = pmix.put(HD_PMIX_GLOBAL, name, &value);
    if (error != 0) {
        return refused(PUT, error);
    }
    error = pmix.commit();
    return error == 0 ? UCC_OK : refused(COMMIT, error);
}

static ucc_status_t look_up(const char *name, char text[HD_KVS_TEXT],
                            const hd_pmix_info_t *patience) {
    hd_pmix_proc_t root = me;
    hd_pmix_value_t *value = NULL;
    root.rank = 0;
    int error = pmix.get(&root, name, patience, 1, &value);
    if (error != 0 || !value) {
        return refused(GET, error);
    }
    bool fits = value->type == HD_PMIX_STRING && strlen(value->data.string) < HD_KVS_TEXT;
    if (fits) {
        strcpy(text, value->data.string);
    } else {
        hd_error("heddle_bootstrap_env: PMIx_Get gave something else than rank 0 has put");
    }
    release(value);
    return fits ? UCC_OK : UCC_ERR_IO_ERROR;
}

static ucc_status_t pmix_share(uint32_t rank, const char *name, char text[HD_KVS_TEXT],
                               double seconds) {
    hd_pmix_info_t patience = {.key = "pmix.timeout", .value.type = HD_PMIX_INT};
    patience.value.data.integer = seconds < 0 || seconds > 1e6 ? 0 : 1 + (int)seconds;
    ucc_status_t status = rank == 0 ? publish(name, text) : UCC_OK;
    if (status != UCC_OK) {
        return status;
    }
    int error = pmix.fence(NULL, 0, &patience, 1);
    if (error != 0) {
        return refused(FENCE, error);
    }
    return rank == 0 ? UCC_OK : look_up(name, text, &patience);
}

const hd_kvs_calls_t hd_pmix_calls = {.name = "PMIx",
                                      .variable = "PMIX_NAMESPACE",
                                      .open = pmix_open,
                                      .share = pmix_share,
                                      .close = pmix_close};
