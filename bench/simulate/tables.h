/* tables.h: what is printed of timed runs. */
#ifndef HD_BENCH_SIMULATE_TABLES_H
#define HD_BENCH_SIMULATE_TABLES_H

#include "simulate.h"

int table_of_plans(void);
int tables_of_scaling(void);

#endif
