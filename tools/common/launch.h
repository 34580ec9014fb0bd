/* launch.h: processes that a tool starts itself, on this host. */
#ifndef HEDDLE_TOOLS_LAUNCH_H_
#define HEDDLE_TOOLS_LAUNCH_H_

#include <heddle/bootstrap.h>
#include <stdbool.h>

/** Starts n processes, copies of the caller, which has one thread and has not used the library.
 *  True in each of them, with what it needs to find the others (heddle_bootstrap_tcp): a loopback
 *  address and a key that were drawn for them. They end with the caller, where this returns false
 *  when all have ended, with the status of the first that failed (the others have a few seconds
 *  then), or 0; or at once with 1, told. */
bool launch_processes(const char *program, uint32_t n, heddle_bootstrap_params_t *params,
                      int *exit_status);

#endif
