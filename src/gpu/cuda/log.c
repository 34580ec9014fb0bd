/* log.c: the log of libheddle_cuda, which is libheddle's: lines are handed over to a function of
 * libheddle's that heddle_cuda_open is given. It stands in for core/log.c, with the same functions;
 * any thread may call them from then on.
 */
#include "core/log.h"
#include "gpu/cuda/cuda.h"

#include <stdarg.h>
#include <stdio.h>

static void (*log_line)(int level, const char *function, const char *line);

atomic_int hd_log_threshold = HD_LOG_TRACE; /* libheddle's decides */

int hd_log_init(void) {
    return HD_LOG_TRACE;
}

void hd_log_line(hd_log_level_t level, const char *function, const char *format, ...) {
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    log_line((int)level, function, line);
}

void hd_cuda_log_to(void (*line)(int level, const char *function, const char *line)) {
    log_line = line;
}
