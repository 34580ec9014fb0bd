/* transpose.c: a matrix whose rows are spread over the PEs is transposed: every PE cuts its rows
 * into a square for each PE, transposes the squares, and all exchange them by one alltoall.
 */
#include "verify.h"

enum { SIDE = 48 }; /* rows of a PE */

static double element(int row, int column) {
    return row * 10000.0 + column;
}

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    size_t square = (size_t)SIDE * SIDE;
    double *rows = shmem_malloc(square * (size_t)n * sizeof(double));
    double *squares = shmem_malloc(square * (size_t)n * sizeof(double));
    VERIFY(rows && squares);
    for (int pe = 0; pe < n; pe++) {
        for (int i = 0; i < SIDE; i++) {
            for (int j = 0; j < SIDE; j++) { /* of this PE's row i, column j of the square for pe */
                rows[(size_t)pe * square + (size_t)(j * SIDE + i)] =
                    element(me * SIDE + i, pe * SIDE + j);
            }
        }
    }
    VERIFY(shmem_alltoall(SHMEM_TEAM_WORLD, squares, rows, square) == 0);
    for (int pe = 0; pe < n; pe++) {
        for (int i = 0; i < SIDE; i++) {
            for (int j = 0; j < SIDE; j++) {
                VERIFY(squares[(size_t)pe * square + (size_t)(i * SIDE + j)] ==
                       element(pe * SIDE + j, me * SIDE + i));
            }
        }
    }
    shmem_free(squares);
    shmem_free(rows);
    verified("transpose");
    return 0;
}
