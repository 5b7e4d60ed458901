/* Differences between CUDA and HIP. Numbers are from cuda.h and hip_runtime_api.h; tests/device/signatures.cc compares
 * them with the headers. */
#include "device/gpu.h"
#include "device/gpu/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SYMBOLS(table) .symbols = (table), .symbol_count = sizeof(table) / sizeof *(table)

/* ---- CUDA ---- */

static const struct aorta_symbol cuda_symbols[] = {
#define DRIVER(member, cuda, hip, ...) {#cuda, offsetof(struct gpu_api, member), true},
#define CUDA(member, symbol, required, ...) {#symbol, offsetof(struct gpu_api, member), required},
#include "device/gpu/vendor.def"
};
static const struct aorta_symbol hip_symbols[] = {
#define DRIVER(member, cuda, hip, ...) {#hip, offsetof(struct gpu_api, member), true},
#define HIP(member, symbol, required, ...) {#symbol, offsetof(struct gpu_api, member), required},
#include "device/gpu/vendor.def"
};
static const struct aorta_symbol nvrtc_symbols[] = {
#define COMPILER(member, nvrtc, hiprtc, ...) {#nvrtc, offsetof(struct gpu_compiler_api, member), true},
#include "device/gpu/vendor.def"
};
static const struct aorta_symbol hiprtc_symbols[] = {
#define COMPILER(member, nvrtc, hiprtc, ...) {#hiprtc, offsetof(struct gpu_compiler_api, member), true},
#include "device/gpu/vendor.def"
};

static int cuda_copy(const struct gpu_api *api, void *to, const void *from, size_t bytes, void *stream) {
    return api->cuda_copy(to, (void *)(uintptr_t)from, bytes, stream);
}

static const char *cuda_error_name(const struct gpu_api *api, int error) {
    const char *name = NULL;
    return api->cuda_error_name(error, &name) || !name ? "unknown error" : name;
}

static const char *cuda_error_text(const struct gpu_api *api, int error) {
    const char *text = NULL;
    return api->cuda_error_text(error, &text) || !text ? "no description" : text;
}

static int cuda_architecture(const struct gpu_device *device, struct aorta_gpu_properties *properties) {
    const struct gpu_api *api = &device->driver.api;
    int result = api->device_attribute(&properties->major, aorta_gpu_cuda.attribute.major, device->handle);
    if (!result) result = api->device_attribute(&properties->minor, aorta_gpu_cuda.attribute.minor, device->handle);
    if (!result) {
        snprintf(properties->architecture, sizeof properties->architecture, "sm_%d%d", properties->major,
                 properties->minor);
    }
    return result;
}

/* Code is compiled on the machine it runs on, so from Hopper on ('a' architectures) it may use all the device has. */
static void cuda_architecture_option(const struct aorta_gpu_properties *properties, char *text, size_t size) {
    snprintf(text, size, "--gpu-architecture=%s%s", properties->architecture, properties->major >= 9 ? "a" : "");
}

static const char *const cuda_driver_names[] = {"libcuda.so.1", "libcuda.so", NULL};
static const char *const nvrtc_names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL};

const struct gpu_vendor aorta_gpu_cuda = {
    .kind = AORTA_DEVICE_CUDA,
    .driver = {.purpose = "CUDA driver",
               .names = cuda_driver_names,
               .install = "it comes with the NVIDIA driver (in a container: with --gpus all)",
               SYMBOLS(cuda_symbols)},
    .compiler = {.purpose = "compiler of GPU kernels",
                 .names = nvrtc_names,
                 .install = "it comes with the CUDA toolkit (apt install libnvrtc12, or pip install nvidia-cuda-nvrtc "
                            "and its folder in AORTA_LIBRARY_PATH)",
                 SYMBOLS(nvrtc_symbols)},
    .visible = {"CUDA_VISIBLE_DEVICES"},
    .blocking = {"CUDA_LAUNCH_BLOCKING"},
    .oldest_driver = 11040,
    .oldest_driver_text = "CUDA 11.4",
    .priority_flag = 8,
    .priority_driver = 11070,
    .attribute = {.multiprocessors = 16,
                  .warp_size = 10,
                  .shared_bytes = 97,
                  .major = 75,
                  .minor = 76,
                  .unified_addressing = 41,
                  .timer_khz = -1},
    .timer_khz = 1000000, /* %globaltimer counts ns */
    .shared_opt_in = 48 * 1024,
    .shared_attribute = 8, /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
    .compiler_name = "NVRTC",
    .compiles_side_by_side = true,
    .copy = cuda_copy,
    .error_name = cuda_error_name,
    .error_text = cuda_error_text,
    .limited_stream = aorta_gpu_cuda_limited_stream,
    .architecture = cuda_architecture,
    .architecture_option = cuda_architecture_option,
};

/* ---- HIP ---- */

enum { HIP_COPY_ANY = 4 }; /* hipMemcpyDefault */

static int hip_copy(const struct gpu_api *api, void *to, const void *from, size_t bytes, void *stream) {
    return api->hip_copy(to, from, bytes, HIP_COPY_ANY, stream);
}

static const char *hip_error_name(const struct gpu_api *api, int error) {
    const char *name = api->hip_error_name(error);
    return name ? name : "unknown error";
}

static const char *hip_error_text(const struct gpu_api *api, int error) {
    const char *text = api->hip_error_text(error);
    return text ? text : "no description";
}

/* hipDeviceProp_t has grown from version to version and has two layouts (ROCm 5 and 6), so the name of the architecture
 * in it ("gfx90a:sramecc+:xnack-") is found by its pattern. */
static int hip_architecture(const struct gpu_device *device, struct aorta_gpu_properties *properties) {
    enum { BYTES = 16384 }; /* of ROCm 6.4: 1472 */
    char *raw = calloc(1, BYTES);
    if (!raw) return GPU_OUT_OF_MEMORY;
    const struct gpu_api *api = &device->driver.api;
    int (*ask)(void *, int) = api->hip_properties_r0600 ? api->hip_properties_r0600 : api->hip_properties;
    int result = ask(raw, device->handle);
    const char *found = result ? NULL : memmem(raw, BYTES - 64, "gfx", 3);
    if (found) snprintf(properties->architecture, sizeof properties->architecture, "%s", found);
    free(raw);
    /* "gfx90a" is 9.0, "gfx942" 9.4, "gfx1100" 11.0: minor and stepping are a digit each. */
    size_t length = strcspn(properties->architecture, ":");
    if (length < 6) return result;
    char minor[] = {properties->architecture[length - 2], '\0'};
    properties->minor = (int)strtol(minor, NULL, 16);
    char major[sizeof properties->architecture];
    snprintf(major, sizeof major, "%.*s", (int)(length - 5), properties->architecture + 3);
    properties->major = (int)strtol(major, NULL, 10);
    return result;
}

static void hip_architecture_option(const struct aorta_gpu_properties *properties, char *text, size_t size) {
    snprintf(text, size, "--offload-arch=%s", properties->architecture);
}

static const char *const hip_driver_names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                               "libamdhip64.so", NULL};
/* Before ROCm 5.3 the compiler is in the driver's library. */
static const char *const hiprtc_names[] = {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5",
                                           "libhiprtc.so",   "libamdhip64.so", NULL};

const struct gpu_vendor aorta_gpu_hip = {
    .kind = AORTA_DEVICE_HIP,
    .driver = {.purpose = "HIP runtime",
               .names = hip_driver_names,
               .install = "it comes with ROCm (amdgpu-install --usecase=hip)",
               SYMBOLS(hip_symbols)},
    .compiler = {.purpose = "compiler of GPU kernels",
                 .names = hiprtc_names,
                 .install = "it comes with ROCm (amdgpu-install --usecase=hip)",
                 SYMBOLS(hiprtc_symbols)},
    .visible = {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"},
    .blocking = {"HIP_LAUNCH_BLOCKING", "AMD_SERIALIZE_KERNEL"},
    .oldest_driver = 50300000,
    .oldest_driver_text = "ROCm 5.3",
    .attribute = {.multiprocessors = 63,
                  .warp_size = 87,
                  .shared_bytes = 74,
                  .major = -1,
                  .minor = -1,
                  .unified_addressing = -1,
                  .timer_khz = 10017},
    .timer_khz = 100000, /* the constant counter of CDNA runs at 100 MHz */
    .shared_opt_in = 0,
    .compiler_name = "hipRTC",
    .copy = hip_copy,
    .error_name = hip_error_name,
    .error_text = hip_error_text,
    .limited_stream = aorta_gpu_hip_limited_stream,
    .architecture = hip_architecture,
    .architecture_option = hip_architecture_option,
};

const struct gpu_vendor *aorta_gpu_vendor(enum aorta_device_kind kind) {
    static const struct gpu_vendor *const vendors[] = {
        [AORTA_DEVICE_CPU] = NULL,
        [AORTA_DEVICE_CUDA] = &aorta_gpu_cuda,
        [AORTA_DEVICE_HIP] = &aorta_gpu_hip,
    };
    return vendors[kind];
}
