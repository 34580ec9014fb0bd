/* probe.c: see probe.h. */
#include "probe.h"
#include "deadline.h"
#include "world.h"

#include <stdlib.h>
#include <unistd.h>

/* Ends at once: what a team that was not formed leaves behind is no subject here. */
static int make_team(const process_t *process, void *arg) {
    (void)arg;
    ucc_team_h team;
    ucc_lib_h lib = world_lib(UCC_THREAD_SINGLE);
    ucc_context_h context = world_new_context(lib, UCC_CONTEXT_EXCLUSIVE, NULL);
    ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_OOB};
    params.oob = process_oob(process, 0, process->endpoint[0]);
    ucc_status_t status = ucc_team_create_post(&context, 1, &params, &team);
    deadline_t deadline = deadline_start("the probe's team");
    while (status == UCC_OK && (status = ucc_team_create_test(team)) == UCC_INPROGRESS) {
        deadline_poll(&deadline);
        status = UCC_OK;
    }
    _exit(status == UCC_ERR_NOT_SUPPORTED ? PROCESS_SKIPS : 0);
}

bool probe_network(void) {
    shape_t shape = shape_even(2, 1);
    bool said = getenv("HEDDLE_LOG_LEVEL") != NULL;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 0);
    outcome_t outcome = processes_run(&shape, 60, make_team, NULL);
    if (!said) {
        unsetenv("HEDDLE_LOG_LEVEL");
    }
    return outcome.status[0] != PROCESS_SKIPS << 8;
}

typedef struct setting {
    const char *name, *value;
} setting_t;

static int set(const process_t *process, void *arg) {
    const setting_t *setting = arg;
    (void)process;
    ucc_lib_config_h config;
    must(ucc_lib_config_read(NULL, NULL, &config), "ucc_lib_config_read");
    ucc_status_t status = ucc_lib_config_modify(config, setting->name, setting->value);
    ucc_lib_config_release(config);
    return status == UCC_OK ? 0 : PROCESS_SKIPS;
}

bool probe_setting(const char *name, const char *value) {
    shape_t shape = shape_even(1, 1);
    setting_t setting = {name, value};
    bool said = getenv("HEDDLE_LOG_LEVEL") != NULL;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 0);
    outcome_t outcome = processes_run(&shape, 60, set, &setting);
    if (!said) {
        unsetenv("HEDDLE_LOG_LEVEL");
    }
    return outcome.ok;
}
