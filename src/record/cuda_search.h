/* Finds out from outside whether a program uses CUDA at all, to explain why nothing was recorded. */
#ifndef AORTA_RECORD_CUDA_SEARCH_H
#define AORTA_RECORD_CUDA_SEARCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct aorta_cuda_search { /* zero-initialise */
    pid_t driver_pid;      /* a process that had the driver's library loaded; 0: none was seen */
    bool dropped;          /* its environment lacked the variable looked for */
    int looks;
};

/* Looks at `root` and its descendants (through /proc): whether one has libcuda.so.1, and this variable. Costs some
 * milliseconds at most. */
void aorta_cuda_search_look(struct aorta_cuda_search *search, pid_t root, const char *variable);

#endif
