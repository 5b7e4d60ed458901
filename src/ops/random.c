/* Keys of dropout masks. */
#include "ops/random.h"
#include "ops/gpu/gpu.h"

static void make_key(const struct aorta_rng *rng, uint32_t key[2]) {
    struct aorta_philox words = aorta_philox4x32_10((struct aorta_philox){{rng->site, rng->rank, rng->micro, 0}},
                                                    (uint32_t)rng->seed, (uint32_t)(rng->seed >> 32));
    key[0] = words.word[0];
    key[1] = words.word[1];
}

struct aorta_dropout aorta_dropout_begin(float probability, const struct aorta_rng *rng) {
    struct aorta_dropout dropout = {.threshold = (int32_t)(probability * 65536.0f + 0.5f), .scale = 1.0f};
    if (dropout.threshold == 0) return dropout;
    make_key(rng, dropout.key);
    dropout.step = rng->state ? (uint64_t)rng->state->step : 0;
    dropout.scale = dropout.threshold < 65536 ? 65536.0f / (float)(65536 - dropout.threshold) : 0.0f;
    return dropout;
}

struct aorta_rng aorta_ops_gpu_key(struct aorta_rng rng) {
    uint32_t key[2];
    make_key(&rng, key);
    rng.seed = key[0] | (uint64_t)key[1] << 32;
    return rng;
}
