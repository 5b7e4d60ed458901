/* The declarations that hipRTC has built in, for a clang with HIP mode but without ROCm's headers: enough to compile
 * our kernels for AMD's processors and see that nothing is missing. */
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))

struct hip_index {
    unsigned x, y, z;
};
#define threadIdx                                                                                                      \
    (hip_index{__builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(), __builtin_amdgcn_workitem_id_z()})
#define blockIdx                                                                                                       \
    (hip_index{__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(), __builtin_amdgcn_workgroup_id_z()})
#define blockDim                                                                                                       \
    (hip_index{__builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(),                               \
               __builtin_amdgcn_workgroup_size_z()})
#define gridDim                                                                                                        \
    (hip_index{__builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x(),                                   \
               __builtin_amdgcn_grid_size_y() / __builtin_amdgcn_workgroup_size_y(), 1})

extern "C" __device__ double exp(double x);
extern "C" __device__ double log1p(double x);
extern "C" __device__ double pow(double x, double y);
extern "C" __device__ double sqrt(double x);
extern "C" __device__ float sqrtf(float x);
extern "C" __device__ float log2f(float x);
extern "C" __device__ float rintf(float x);
extern "C" __device__ float fmaxf(float x, float y);

static __device__ __forceinline__ void __syncthreads() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
static __device__ __forceinline__ unsigned atomicAdd(unsigned *to, unsigned value) {
    return __atomic_fetch_add(to, value, __ATOMIC_RELAXED);
}
static __device__ __forceinline__ unsigned long long atomicAdd(unsigned long long *to, unsigned long long value) {
    return __atomic_fetch_add(to, value, __ATOMIC_RELAXED);
}
static __device__ __forceinline__ unsigned long long atomicMax(unsigned long long *to, unsigned long long value) {
    return __atomic_fetch_max(to, value, __ATOMIC_RELAXED);
}
static __device__ __forceinline__ void __threadfence_system() {
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "");
}
static __device__ __forceinline__ int atomicExch(int *to, int value) {
    return __atomic_exchange_n(to, value, __ATOMIC_RELAXED);
}
