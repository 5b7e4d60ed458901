/* All GPUs of the machine by the vendor's management library (NVML, else ROCm SMI): their state and the processes that
 * compute on them. Nothing is created on a device. ROCm SMI's rows have not run. */
#ifndef AORTA_DEVICE_GPUS_H
#define AORTA_DEVICE_GPUS_H

#include "device/metrics.h"

enum { AORTA_GPU_PROCESSES_MOST = 64 }; /* of one device that are stored */

struct aorta_gpu_process {
    int64_t pid; /* as this process would name it, where the driver knows how; in a container perhaps the host's */
    double memory_bytes; /* NaN: not known */
    double sm_share;     /* of the multiprocessors' time, the most since the last reading (0 to 1); NaN: not known */
};

struct aorta_gpu_state {
    struct aorta_device_metrics metrics;
    bool processes_known;
    size_t process_count;
    struct aorta_gpu_process processes[AORTA_GPU_PROCESSES_MOST];
};

struct aorta_gpus;

/* AORTA_UNSUPPORTED: neither library is installed, or it lists no device; the message names the searched places. */
AORTA_MUST_USE aorta_status aorta_gpus_open(struct aorta_gpus **gpus);
void aorta_gpus_close(struct aorta_gpus *gpus);         /* NULL is fine */
size_t aorta_gpus_count(const struct aorta_gpus *gpus); /* NULL: 0 */
void aorta_gpus_read(struct aorta_gpus *gpus, size_t index, struct aorta_gpu_state *state);

#endif
