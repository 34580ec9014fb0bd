/* launcher.c: what the environment says of a process's place in its job. */
#include "bootstrap/bootstrap.h"

#include "core/log.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct places {
    const char *rank, *size, *or_size; /* or_size: where size is not set; NULL: nothing */
    const char *job, *step;            /* the job's name, and what comes behind it; NULL: nothing */
} places_t;

/* In the order in which they count: what is set by hand, then what is nearest to the process. A
 * program that mpiexec starts within an allocation of SLURM sees SLURM's variables, too. */
static const places_t launchers[] = {
    {"HEDDLE_BOOTSTRAP_RANK", "HEDDLE_BOOTSTRAP_SIZE", NULL, NULL, NULL},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL, "PMIX_NAMESPACE", NULL},
    {"PMI_RANK", "PMI_SIZE", NULL, "PMI_JOBID", NULL},
    {"PMIX_RANK", "PMIX_SIZE", "SLURM_NTASKS", "PMIX_NAMESPACE", NULL},
    {"SLURM_PROCID", "SLURM_NTASKS", NULL, "SLURM_JOB_ID", "SLURM_STEP_ID"},
};

enum {
    N_LAUNCHERS = sizeof(launchers) / sizeof(launchers[0]),
    FIRST_PORT = 20000,
    PORTS = 10000,
    MOST_DIGITS = 19
};

bool hd_launcher_number(const char *text, uint64_t most, uint64_t *value) {
    size_t length = strlen(text);
    if (length == 0 || length > MOST_DIGITS) {
        return false;
    }
    *value = 0;
    for (size_t i = 0; i < length; i++) {
        if (!isdigit((unsigned char)text[i])) {
            return false;
        }
        *value = *value * 10 + (uint64_t)(text[i] - '0');
    }
    return *value <= most;
}

/* NULL, and a line that says so, unless it is set to a number. */
static ucc_status_t read_number(const char *name, const char *beside, uint32_t *out) {
    const char *text = getenv(name);
    uint64_t value;
    if (!text) {
        hd_error("heddle_bootstrap_env: %s is set, but %s is not", beside, name);
        return UCC_ERR_INVALID_PARAM;
    }
    if (!hd_launcher_number(text, UINT32_MAX, &value)) {
        hd_error("heddle_bootstrap_env: %s=%s is no number", name, text);
        return UCC_ERR_INVALID_PARAM;
    }
    *out = (uint32_t)value;
    return UCC_OK;
}

/* SLURM's number of tasks is also in the environment of programs that srun has not started: it
 * alone says nothing. */
static bool counts(const places_t *p) {
    return getenv(p->rank) || (strncmp(p->size, "SLURM_", 6) != 0 && getenv(p->size));
}

/* NULL: none. */
static const places_t *nearest(void) {
    for (const places_t *p = launchers; p < launchers + N_LAUNCHERS; p++) {
        if (counts(p)) {
            return p;
        }
    }
    return NULL;
}

bool hd_launcher_job(char *out, size_t size) {
    const places_t *p = nearest();
    const char *job = p && p->job ? getenv(p->job) : NULL;
    const char *step = job && p->step ? getenv(p->step) : NULL;
    snprintf(out, size, "%s%s%s", job ? job : "", step ? "." : "", step ? step : "");
    return p && p != launchers;
}

ucc_status_t hd_launcher_place(uint32_t *rank, uint32_t *size) {
    const places_t *p = nearest();
    if (!p) {
        hd_error(
            "heddle_bootstrap_env: no launcher tells rank and size: none of "
            "HEDDLE_BOOTSTRAP_RANK, OMPI_COMM_WORLD_RANK, PMI_RANK, PMIX_RANK and SLURM_PROCID "
            "is set");
        return UCC_ERR_NOT_FOUND;
    }
    const char *size_name =
        p->or_size && !getenv(p->size) && getenv(p->or_size) ? p->or_size : p->size;
    ucc_status_t status = read_number(p->rank, size_name, rank);
    if (status == UCC_OK && !getenv(size_name) && getenv("PMIX_NAMESPACE")) {
        *size = 0; /* of PMIx, whose launchers need not set a variable */
        return UCC_OK;
    }
    if (status == UCC_OK) {
        status = read_number(size_name, p->rank, size);
    }
    if (status == UCC_OK && *rank >= *size) {
        hd_error("heddle_bootstrap_env: %s=%u is not below %s=%u", p->rank, *rank, size_name,
                 *size);
        status = UCC_ERR_INVALID_PARAM;
    }
    return status;
}

/* --- SLURM's address -------------------------------------------------------------------------- */

bool hd_launcher_first_host(const char *list, char *out, size_t size) {
    size_t used = 0;
    while (*list && *list != ',') {
        size_t length = 1;
        const char *from = list;
        if (*list == '[') { /* the first of the numbers in brackets */
            const char *end = strchr(list, ']');
            from = list + 1;
            length = strspn(from, "0123456789");
            if (!end || length == 0 || !strchr("-,]", from[length])) {
                return false;
            }
            list = end + 1;
        } else if (isalnum((unsigned char)*list) || strchr("-._", *list)) {
            list++;
        } else {
            return false;
        }
        if (used + length >= size) {
            return false;
        }
        memcpy(out + used, from, length);
        used += length;
    }
    out[used] = '\0';
    return used > 0;
}

bool hd_launcher_address(char *out, size_t size) {
    const char *list = getenv("SLURM_STEP_NODELIST"), *job = getenv("SLURM_JOB_ID");
    const char *step = getenv("SLURM_STEP_ID");
    char host[256];
    uint64_t job_number, step_number = 0;
    list = list ? list : getenv("SLURM_JOB_NODELIST");
    if (!list || !job || !getenv("SLURM_PROCID")) {
        return false;
    }
    if (!hd_launcher_first_host(list, host, sizeof(host))) {
        hd_warn("SLURM's node list '%s' begins with no host name", list);
        return false;
    }
    if (!hd_launcher_number(job, UINT64_MAX, &job_number) ||
        (step && !hd_launcher_number(step, UINT64_MAX, &step_number))) {
        hd_warn("SLURM_JOB_ID=%s or SLURM_STEP_ID=%s is no number", job, step ? step : "");
        return false;
    }
    /* Steps of one job that run at once have different ports. */
    uint64_t port = FIRST_PORT + (job_number * 31 + step_number) % PORTS;
    return snprintf(out, size, "%s:%llu", host, (unsigned long long)port) < (int)size;
}
