/* machine.h: descriptions of machines with devices (HEDDLE_TOPOLOGY), for tests on machines that
 * have none. */
#ifndef TESTS_MACHINE_H_
#define TESTS_MACHINE_H_

/* Packages with a NUMA node and so many cores each, as many as there are strings; package p has the
 * devices on the PCI buses that the digits of bus[p] name: "12" is 0000:01:00.0 and 0000:02:00.0,
 * where emulated GPUs 0 and 1 are. Emulated GPUs that no string names are nowhere. The text stays
 * until the next call. */
const char *machine_describe(const char *const *bus, unsigned packages, unsigned cores);

#endif
