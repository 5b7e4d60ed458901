// Holds the driver's declarations (api.h and the .def rows) against the vendors' own headers: a wrong signature does
// not compile. C++ because its templates can take function types apart; nothing here runs. See check_signatures.
//
// A parameter agrees when both are pointers (an address of CUDA's, an integer as wide as one, counts as one) or numbers
// of one size and kind.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#ifdef CHECK_CUDA
#include <cuda.h>
#include <nvrtc.h>
#endif
#ifdef CHECK_HIP
#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>
#endif

#ifdef CHECK_RSMI
#include <rocm_smi/rocm_smi.h>
#endif

#include "device/gpu/api.h"
// In C++ status.h's names of enumerators and macros are the same; only declarations are read.
#include "device/gpu/management.h"

template <class T> constexpr bool is_address = std::is_pointer_v<T>;
#ifdef CHECK_CUDA
template <> constexpr bool is_address<CUdeviceptr> = true;
#endif

template <class T> constexpr bool is_number = std::is_integral_v<T> || std::is_enum_v<T>;

template <class Ours, class Theirs> constexpr bool agrees() {
    if constexpr (std::is_pointer_v<Ours>) return is_address<Theirs> && sizeof(Ours) == sizeof(Theirs);
    if constexpr (std::is_enum_v<Theirs>) return std::is_integral_v<Ours> && sizeof(Ours) == sizeof(Theirs);
    return is_number<Ours> && is_number<Theirs> && sizeof(Ours) == sizeof(Theirs) &&
           std::is_signed_v<Ours> == std::is_signed_v<Theirs>;
}

template <class R1, class... A1, class R2, class... A2> constexpr bool same(R1 (*)(A1...), R2 (*)(A2...)) {
    if constexpr (sizeof...(A1) != sizeof...(A2)) {
        return false;
    } else {
        return agrees<R1, R2>() && (agrees<A1, A2>() && ...);
    }
}

#define CHECK(table, member, symbol)                                                                                   \
    static_assert(same(decltype(table::member){}, decltype(+symbol){}),                                                \
                  #table "." #member " is not declared as " #symbol " is");

// Numbers that vendor.c and api.h repeat.
#ifdef CHECK_CUDA
#define DRIVER(member, cuda, hip, ...) CHECK(gpu_api, member, cuda)
#define CUDA(member, symbol, required, ...) CHECK(gpu_api, member, symbol)
#define COMPILER(member, nvrtc, hiprtc, ...) CHECK(gpu_compiler_api, member, nvrtc)
#include "device/gpu/vendor.def"
static_assert(GPU_INVALID_VALUE == CUDA_ERROR_INVALID_VALUE && GPU_OUT_OF_MEMORY == CUDA_ERROR_OUT_OF_MEMORY &&
              GPU_STUB_LIBRARY == CUDA_ERROR_STUB_LIBRARY && GPU_NO_DEVICE == CUDA_ERROR_NO_DEVICE && GPU_NOT_READY == CUDA_ERROR_NOT_READY &&
              GPU_PEER_ALREADY_ENABLED == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
static_assert(GPU_STREAM_NON_BLOCKING == CU_STREAM_NON_BLOCKING && GPU_EVENT_NO_TIMING == CU_EVENT_DISABLE_TIMING &&
              GPU_HOST_PORTABLE == CU_MEMHOSTALLOC_PORTABLE && GPU_HOST_MAPPED == CU_MEMHOSTALLOC_DEVICEMAP &&
              GPU_CAPTURE_RELAXED == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT == 16 && CU_DEVICE_ATTRIBUTE_WARP_SIZE == 10 &&
              CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK == 1 &&
              CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR == 39 &&
              CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN == 97 && CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE == 38 &&
              CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR == 75 &&
              CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR == 76 && CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING == 41 &&
              CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES == 8);
#endif

#if defined(CHECK_CUDA) && CUDA_VERSION >= 12040 // as limit.c repeats them
static_assert(offsetof(CUdevResource, sm) + offsetof(CUdevSmResource, smCount) == 96 && sizeof(CUdevResource) <= 512 &&
              CU_DEV_RESOURCE_TYPE_SM == 1 && CU_GREEN_CTX_DEFAULT_STREAM == 1);
#endif
#if defined(CHECK_CUDA) && CUDA_VERSION >= 13000
static_assert(offsetof(CUdevResource, sm) + offsetof(CUdevSmResource, minSmPartitionSize) == 100 &&
              offsetof(CUdevResource, sm) + offsetof(CUdevSmResource, smCoscheduledAlignment) == 104);
#endif

#ifdef CHECK_HIP
#if HIP_VERSION_MAJOR < 6
// ROCm 6's own name of a struct of its own layout; its headers map hipGetDeviceProperties to it.
extern "C" hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_t *properties, int device);
#endif
// Two are overloaded in C++; what is meant is the declaration that C sees.
constexpr auto c_hipMalloc = static_cast<hipError_t (*)(void **, size_t)>(hipMalloc);
constexpr auto c_hipHostMalloc = static_cast<hipError_t (*)(void **, size_t, unsigned)>(hipHostMalloc);
#define hipMalloc c_hipMalloc
#define hipHostMalloc c_hipHostMalloc
#define DRIVER(member, cuda, hip, ...) CHECK(gpu_api, member, hip)
#define HIP(member, symbol, required, ...) CHECK(gpu_api, member, symbol)
#define COMPILER(member, nvrtc, hiprtc, ...) CHECK(gpu_compiler_api, member, hiprtc)
#include "device/gpu/vendor.def"
static_assert(GPU_INVALID_VALUE == hipErrorInvalidValue && GPU_OUT_OF_MEMORY == hipErrorOutOfMemory &&
              GPU_NO_DEVICE == hipErrorNoDevice && GPU_NOT_READY == hipErrorNotReady &&
              GPU_PEER_ALREADY_ENABLED == hipErrorPeerAccessAlreadyEnabled);
static_assert(GPU_STREAM_NON_BLOCKING == hipStreamNonBlocking && GPU_EVENT_NO_TIMING == hipEventDisableTiming &&
              GPU_HOST_PORTABLE == hipHostMallocPortable && GPU_HOST_MAPPED == hipHostMallocMapped &&
              GPU_CAPTURE_RELAXED == hipStreamCaptureModeRelaxed);
static_assert(hipMemcpyDefault == 4 && hipDeviceAttributeMultiprocessorCount == 63 &&
              hipDeviceAttributeWarpSize == 87 && hipDeviceAttributeMaxThreadsPerBlock == 56 &&
              hipDeviceAttributeMaxThreadsPerMultiProcessor == 57 && hipDeviceAttributeMaxSharedMemoryPerBlock == 74 &&
              hipDeviceAttributeL2CacheSize == 19);
#endif

#ifdef CHECK_RSMI
extern "C" rsmi_status_t rsmi_dev_current_socket_power_get(uint32_t index, uint64_t *microwatts); // from ROCm 6 on
#define ROW(member, symbol, required, ...) CHECK(rsmi_api, member, symbol)
#include "device/gpu/rsmi.def"
#undef ROW
static_assert(RSMI_CLK_TYPE_SYS == 0 && RSMI_CLK_TYPE_MEM == 4 && RSMI_TEMP_CURRENT == 0 && RSMI_TEMP_TYPE_EDGE == 0 &&
              RSMI_TEMP_TYPE_JUNCTION == 1 && RSMI_MEM_TYPE_VRAM == 0 && RSMI_IOLINK_TYPE_XGMI == 2);
#endif
