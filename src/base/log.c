#include "base/log.h"
#include "base/printable.h"

#include <stdarg.h>

/* INFO needs none. */
static const char *const labels[] = {
    [AORTA_LOG_DEBUG] = "debug", [AORTA_LOG_INFO] = NULL, [AORTA_LOG_WARNING] = "warning", [AORTA_LOG_ERROR] = "error"};

void aorta_log(const struct aorta_log *log, enum aorta_log_level level, const char *format, ...) {
    if (level < log->level) return;
    /* one write per message, so that the lines of several ranks do not run into each other */
    char line[2048];
    size_t length = 0;
    if (log->rank >= 0) length += (size_t)snprintf(line, sizeof line, "[rank %d] ", log->rank);
    if (labels[level]) {
        length += (size_t)snprintf(line + length, sizeof line - length, "%s: ", labels[level]);
    }
    va_list args;
    va_start(args, format);
    int written = vsnprintf(line + length, sizeof line - length - 1, format, args);
    va_end(args);
    if (written < 0) return;
    length += (size_t)written;
    if (length > sizeof line - 2) length = sizeof line - 2; /* a longer message is cut */
    aorta_make_printable(line, length, true);
    line[length] = '\n';
    fwrite(line, 1, length + 1, log->stream ? log->stream : stderr);
}
