/* Matrices as the device's own engine copies their tiles (CUDA driver API, "Tensor Map Object Management"). */
#include "device/gpu/driver.h"

/* Numbers of cuda.h; tests/device/signatures.cc compares them. */
enum { BFLOAT16 = 9, NOT_INTERLEAVED = 0, SWIZZLE_128_BYTES = 3, PROMOTE_256_BYTES = 3, ZEROS_OUTSIDE = 0 };

bool aorta_gpu_has_tiles(const struct aorta_device *base) {
    const struct gpu_device *device = (const struct gpu_device *)base;
    return device->driver.api.cuda_tiles && device->properties.major >= 9;
}

aorta_status aorta_gpu_describe_tiles(struct aorta_device *base, const struct aorta_gpu_matrix *matrix, void *map) {
    struct gpu_device *device = gpu_device(base);
    const uint64_t sizes[] = {(uint64_t)matrix->columns, (uint64_t)matrix->rows};
    const uint64_t strides[] = {(uint64_t)matrix->columns * 2};
    const uint32_t box[] = {matrix->box_columns, matrix->box_rows}, steps[] = {1, 1};
    AORTA_TRY(aorta_gpu_make_current(base));
    const int result =
        device->driver.api.cuda_tiles(map, BFLOAT16, 2, (void *)(uintptr_t)matrix->memory, sizes, strides, box, steps,
                                      NOT_INTERLEAVED, SWIZZLE_128_BYTES, PROMOTE_256_BYTES, ZEROS_OUTSIDE);
    if (!result) return NULL;
    return aorta_gpu_error(device, result, "tiles of %u x %u of a matrix [%lld, %lld] at %p", matrix->box_rows,
                           matrix->box_columns, (long long)matrix->rows, (long long)matrix->columns, matrix->memory);
}
