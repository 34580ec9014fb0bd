/* image_moves.c: see move.h, and moves.cu, which makes the same kernels for devices. */
#include "gpu/kernel/host.h"

HD_LIST_MOVES(HD_HOST_MOVE)

HD_HOST_KERNEL(word)
void hd_thread_word(const hd_gpu_place_t *at, const void *args) {
    hd_body_word(at, (const hd_gpu_word_t *)args);
}
HD_HOST_BLOCK(word, HD_GPU_WORD)
