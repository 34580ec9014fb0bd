/* moves.cu: see move.h. */
#include "gpu/kernel/device.h"

HD_LIST_MOVES(HD_MOVE_KERNEL)

HD_GLOBAL hd_word(const __grid_constant__ hd_gpu_word_t args) {
    const hd_gpu_place_t at = hd_here();
    hd_body_word(&at, &args);
}
