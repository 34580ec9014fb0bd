/* tables.h: what is printed of timed runs. */
#ifndef HD_BENCH_SIMULATE_TABLES_H
#define HD_BENCH_SIMULATE_TABLES_H

#include "simulate.h"

int table_of_plans(void);
int tables_of_scaling(void);
/* fit.c: of what bench_measure_legs has printed into a file. */
int table_of_fit(const char *file);

#endif
