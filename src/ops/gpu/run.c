#include "ops/gpu/gpu.h"
#include "ops/random.h"

aorta_status aorta_ops_gpu_run(struct aorta_stream *stream, enum aorta_ops_entry entry, struct aorta_gpu_grid grid,
                               const void *args, size_t bytes) {
    return aorta_gpu_launch(stream, &aorta_ops_entries[entry], grid, args, bytes);
}

aorta_status aorta_ops_gpu_run_typed(struct aorta_stream *stream, enum aorta_ops_entry entry, enum aorta_dtype dtype,
                                     struct aorta_gpu_grid grid, const void *args, size_t bytes) {
    return aorta_gpu_launch(stream, &aorta_ops_entries[(int)entry + (int)dtype], grid, args, bytes);
}

struct aorta_rng aorta_ops_gpu_key(struct aorta_rng rng) {
    uint32_t key[2];
    aorta_dropout_key(&rng, key);
    rng.seed = key[0] | (uint64_t)key[1] << 32;
    return rng;
}
