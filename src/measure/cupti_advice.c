#include "measure/cupti_advice.h"

#include "measure/cupti_abi.h"

#include <stddef.h>

static const struct {
    uint32_t result;
    const char *advice;
} advices[] = {
    {AORTA_CUPTI_INSUFFICIENT_PRIVILEGES,
     "the driver lets only administrators profile. Run as root or with CAP_SYS_ADMIN (docker: --cap-add=SYS_ADMIN), or "
     "load the nvidia module with NVreg_RestrictProfilingToAdminUsers=0"},
    {AORTA_CUPTI_MULTIPLE_SUBSCRIBERS,
     "another profiler has CUPTI in this process. Run without Nsight Systems, Nsight Compute, DCGM profiling or what "
     "CUDA_INJECTION64_PATH injects, or without --kernel-timing"},
    {AORTA_CUPTI_OLD_PROFILER_API, "the old cudaProfiler interface is in use in this process; end that first"},
    {AORTA_CUPTI_NOT_COMPATIBLE,
     "it does not suit this driver or another tracer; use the CUPTI of the driver's CUDA version"},
    {AORTA_CUPTI_NOT_INITIALIZED, "it could not initialise; use the CUPTI of the driver's CUDA version"},
    {AORTA_CUPTI_VIRTUALIZED, "this virtual GPU does not allow tracing"},
    {AORTA_CUPTI_VIRTUALIZED_PRIVILEGES,
     "this virtual GPU does not allow tracing; its host must allow profiling for this machine (vGPU plugin parameter "
     "enable_profiling)"},
    {AORTA_CUPTI_CONFIDENTIAL_COMPUTING, "this GPU runs in confidential computing mode, which does not allow tracing"},
    {AORTA_CUPTI_MIG_DEVICE, "this slice of a GPU (MIG) does not allow tracing"},
    {AORTA_CUPTI_WSL_DEVICE, "tracing is not available under WSL with this driver"},
};

const char *aorta_cupti_advice(uint32_t result) {
    for (size_t i = 0; i < sizeof advices / sizeof advices[0]; i++)
        if (advices[i].result == result) return advices[i].advice;
    return NULL;
}
