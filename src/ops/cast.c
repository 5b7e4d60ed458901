#include "ops/check.h"
#include "ops/cpu/cpu.h"
#include "ops/gpu/gpu.h"

static aorta_status cast(const void *args) {
    return aorta_cpu_ops()->cast(args);
}

static aorta_status fill(const void *args) {
    return aorta_cpu_ops()->fill(args);
}

static aorta_status add(const void *args) {
    return aorta_cpu_ops()->add(args);
}

static const struct aorta_kernel cast_kernel = {"cast", cast, aorta_ops_gpu_cast};
static const struct aorta_kernel fill_kernel = {"fill", fill, aorta_ops_gpu_fill};
static const struct aorta_kernel add_kernel = {"add", add, aorta_ops_gpu_add};

aorta_status aorta_cast(struct aorta_stream *stream, void *to, enum aorta_dtype to_dtype, const void *from,
                        enum aorta_dtype from_dtype, int64_t count, float scale) {
    AORTA_TRY(aorta_check_dtype(cast_kernel.name, to_dtype));
    AORTA_TRY(aorta_check_dtype(cast_kernel.name, from_dtype));
    AORTA_TRY(aorta_check_size(cast_kernel.name, "count", count, 0));
    if (count == 0) return NULL;
    AORTA_TRY(
        aorta_check_pointers(cast_kernel.name, (const struct aorta_named_pointer[]){{"to", to}, {"from", from}, {0}}));
    const struct aorta_cast_args args = {
        .from = from, .to = to, .count = count, .to_dtype = to_dtype, .from_dtype = from_dtype, .scale = scale};
    return aorta_launch(stream, &cast_kernel, &args, sizeof args);
}

aorta_status aorta_fill(struct aorta_stream *stream, void *to, enum aorta_dtype dtype, int64_t count, float value) {
    AORTA_TRY(aorta_check_dtype(fill_kernel.name, dtype));
    AORTA_TRY(aorta_check_size(fill_kernel.name, "count", count, 0));
    if (count == 0) return NULL;
    AORTA_TRY(aorta_check_pointer(fill_kernel.name, "to", to));
    const struct aorta_fill_args args = {.to = to, .dtype = dtype, .count = count, .value = value};
    return aorta_launch(stream, &fill_kernel, &args, sizeof args);
}

aorta_status aorta_add(struct aorta_stream *stream, void *to, const void *from, enum aorta_dtype dtype, int64_t count,
                       float scale) {
    AORTA_TRY(aorta_check_dtype(add_kernel.name, dtype));
    AORTA_TRY(aorta_check_size(add_kernel.name, "count", count, 0));
    if (count == 0) return NULL;
    AORTA_TRY(
        aorta_check_pointers(add_kernel.name, (const struct aorta_named_pointer[]){{"to", to}, {"from", from}, {0}}));
    const struct aorta_cast_args args = {
        .from = from, .to = to, .count = count, .to_dtype = dtype, .from_dtype = dtype, .scale = scale};
    return aorta_launch(stream, &add_kernel, &args, sizeof args);
}
