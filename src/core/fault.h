/* fault.h: memory that may vanish while it is read or written, because it is another process's: a
 * thread that touches it then gets SIGBUS, which ends the process. Work that is run here ends by
 * that alone.
 *
 *     hd_fault_add(base, bytes);     when it is mapped
 *     if (hd_fault_catches()) {
 *         hd_fault_enter(&mask);
 *         if (!hd_fault_run(work, arg)) { ... what it has done so far is done }
 *         hd_fault_leave(&mask);
 *     }
 *
 * There is one handler of SIGBUS for the process, installed by who first maps such memory. It
 * calls the one before it, as if there were no other, for everything that is not a fault in such
 * memory of a thread that runs such work. A program that installs its own later on has ours no
 * more.
 */
#ifndef HD_CORE_FAULT_H
#define HD_CORE_FAULT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* Installs the handler, once; false: it can't be had. */
bool hd_fault_install(void);
/* Is the handler there, and nobody else's in its place? A call of the system. */
bool hd_fault_catches(void);
/* Memory that may vanish, from when it is mapped until it no longer is: faults elsewhere are the
 * program's. False: there is no room to note it. */
bool hd_fault_add(const void *base, size_t bytes);
void hd_fault_remove(const void *base);
/* Around work: the thread must not block the signal. */
void hd_fault_enter(sigset_t *mask);
void hd_fault_leave(const sigset_t *mask);
/* Runs work, which holds no locks where it touches such memory, nor calls anything there that could
 * mind being left in the middle. False: a page that it touched was not there. */
bool hd_fault_run(void (*work)(void *arg), void *arg);

#endif
