/* What `aorta trace run` tells the injected library, by environment variables: only these reach every child. */
#ifndef AORTA_TRACE_INJECT_SETTINGS_H
#define AORTA_TRACE_INJECT_SETTINGS_H

#define AORTA_INJECT_DIRECTORY "AORTA_TRACE_SPOOL"      /* where the files go; without it nothing is recorded */
#define AORTA_INJECT_CUPTI "AORTA_TRACE_CUPTI"          /* libcupti to take when the process has none loaded */
#define AORTA_INJECT_DELAY "AORTA_TRACE_DELAY_MS"       /* after CUDA's start before recording begins (0) */
#define AORTA_INJECT_DURATION "AORTA_TRACE_DURATION_MS" /* how long to record (0: to the end) */
#define AORTA_INJECT_LIMIT "AORTA_TRACE_LIMIT_MB"       /* of each file (2048) */
#define AORTA_INJECT_FLUSH "AORTA_TRACE_FLUSH_MS"       /* between two looks for records (200) */
#define AORTA_INJECT_NVTX "AORTA_TRACE_NVTX"            /* 1: ranges of NVTX too */

#endif
