/* Messages to people, on stderr: "[rank 0] warning: …". Owned by a command and passed down; no global logger. */
#ifndef AORTA_BASE_LOG_H
#define AORTA_BASE_LOG_H

#include "base/status.h"

#include <stdio.h>

enum aorta_log_level { AORTA_LOG_DEBUG, AORTA_LOG_INFO, AORTA_LOG_WARNING, AORTA_LOG_ERROR };

struct aorta_log {
    enum aorta_log_level level; /* messages below it are dropped */
    int rank;                   /* -1: no rank is named */
    FILE *stream;               /* NULL: stderr */
};

void aorta_log(const struct aorta_log *log, enum aorta_log_level level, const char *format, ...) AORTA_PRINTF(3, 4);

#endif
