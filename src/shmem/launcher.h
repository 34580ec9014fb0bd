/* launcher.h: what libheddle_shmem exports besides OpenSHMEM, for shmemrun and for the start of
 * programs (run/). */
#ifndef SHMEM_LAUNCHER_H_
#define SHMEM_LAUNCHER_H_

#pragma GCC visibility push(default)

/** shmemrun's main. */
int heddle_shmem_launch(int argc, char **argv);

/** A program has been executed instead of handed to shmemrun: makes the process shmemrun, which
 *  runs it as one PE. stack is what the kernel gives a process: the number of its arguments, and
 *  then those; NULL: not known, and a line says what to do. */
_Noreturn void heddle_shmem_execute(void **stack);

#pragma GCC visibility pop
#endif
