/* fatbin.c: the modules for devices, as bytes. HD_GPU_FATBINS is the folder where nvcc's output
 * lies; a build without it has none.
 */
#include "gpu/kernel.h"

#if defined(HD_GPU_FATBINS)

/* An assembler's directive, because a C array of so many numbers takes long to compile. */
#define FATBIN(_name)                                                                              \
    extern const char hd_fatbin_##_name[], hd_fatbin_##_name##_end[];                              \
    __asm__(".pushsection .rodata\n"                                                               \
            ".balign 64\n"                                                                         \
            ".global hd_fatbin_" #_name "\n"                                                       \
            ".hidden hd_fatbin_" #_name "\n"                                                       \
            "hd_fatbin_" #_name ":\n"                                                              \
            ".incbin \"" HD_GPU_FATBINS "/" #_name ".fatbin\"\n"                                   \
            ".global hd_fatbin_" #_name "_end\n"                                                   \
            ".hidden hd_fatbin_" #_name "_end\n"                                                   \
            "hd_fatbin_" #_name "_end:\n"                                                          \
            ".byte 0\n"                                                                            \
            ".popsection\n");
#define IMAGE(_name)                                                                               \
    { hd_fatbin_##_name, (size_t)(hd_fatbin_##_name##_end - hd_fatbin_##_name) }

FATBIN(floats)
FATBIN(halves)
FATBIN(integers)
FATBIN(small)
FATBIN(pairs)
FATBIN(moves)

bool hd_gpu_images(hd_gpu_image_t image[HD_GPU_MODULES]) {
    image[HD_GPU_MODULE_FLOATS] = (hd_gpu_image_t)IMAGE(floats);
    image[HD_GPU_MODULE_HALVES] = (hd_gpu_image_t)IMAGE(halves);
    image[HD_GPU_MODULE_INTEGERS] = (hd_gpu_image_t)IMAGE(integers);
    image[HD_GPU_MODULE_SMALL] = (hd_gpu_image_t)IMAGE(small);
    image[HD_GPU_MODULE_PAIRS] = (hd_gpu_image_t)IMAGE(pairs);
    image[HD_GPU_MODULE_MOVES] = (hd_gpu_image_t)IMAGE(moves);
    return true;
}

#else

bool hd_gpu_images(hd_gpu_image_t image[HD_GPU_MODULES]) {
    (void)image;
    return false;
}

#endif
