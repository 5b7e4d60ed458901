/* The vendors' functions that the driver calls: one table that CUDA and HIP both fill.
 *
 * A row of vendor.def is a member, with each vendor's symbol for it. The two vendors' functions are equal up to the
 * types of handles (void * here) and of addresses (CUdeviceptr is as wide as a pointer). tests/device/signatures.cc
 * compares the members with the vendors' headers. */
#ifndef AORTA_DEVICE_GPU_API_H
#define AORTA_DEVICE_GPU_API_H

#include <stdint.h>

/* Every function returns 0 for success, and these where they matter; the numbers are the same for both vendors. */
enum {
    GPU_INVALID_VALUE = 1,
    GPU_OUT_OF_MEMORY = 2,
    GPU_STUB_LIBRARY = 34, /* CUDA: the stub that programs are linked with on machines without a driver */
    GPU_NO_DEVICE = 100,
    GPU_NOT_READY = 600,
    GPU_PEER_ALREADY_ENABLED = 704,
};

/* Flags, the same for both vendors. */
enum {
    GPU_STREAM_NON_BLOCKING = 1, /* not ordered by the default stream */
    GPU_EVENT_NO_TIMING = 2,
    GPU_HOST_PORTABLE = 1, /* page-locked for every device */
    GPU_HOST_MAPPED = 2,
    GPU_CAPTURE_RELAXED = 2, /* the capturing thread may allocate and load meanwhile */
};

struct gpu_api {
#define DRIVER(member, cuda, hip, result, parameters) result(*member) parameters;
#define CUDA(member, symbol, required, result, parameters) result(*member) parameters;
#define HIP(member, symbol, required, result, parameters) result(*member) parameters;
#include "device/gpu/vendor.def"
};

/* NVRTC and hipRTC. */
struct gpu_compiler_api {
#define COMPILER(member, nvrtc, hiprtc, result, parameters) result(*member) parameters;
#include "device/gpu/vendor.def"
};

#endif
