#include "hwq/operations.h"

struct hwq_block hwq_block(struct hwq_graph *g, uint64_t id, int64_t width) {
    return (struct hwq_block){.qkv = hwq_layer(g, id, width, 3 * width, false),
                              .out = hwq_layer(g, id + 2, width, width, false),
                              .up = hwq_layer(g, id + 4, width, 4 * width, false),
                              .down = hwq_layer(g, id + 6, 4 * width, width, false),
                              .norm1 = hwq_norm(g, id + 8, width, false),
                              .norm2 = hwq_norm(g, id + 10, width, false)};
}

struct hwq_tensor hwq_block_rest(struct hwq_graph *g, int s, const struct hwq_block *block, struct hwq_tensor context,
                                 struct hwq_tensor x) {
    struct hwq_norm_saved saved1 = {0}, saved2 = {0};
    const struct hwq_tensor out = hwq_linear(g, s, &block->out, context);
    const struct hwq_tensor y1 = hwq_norm_forward(g, s, &block->norm1, out, x, &saved1);
    const struct hwq_tensor inner = hwq_linear(g, s, &block->up, y1);
    const struct hwq_tensor active = hwq_gelu(g, s, inner);
    const struct hwq_tensor mlp = hwq_linear(g, s, &block->down, active);
    return hwq_norm_forward(g, s, &block->norm2, mlp, y1, &saved2);
}

aorta_status hwq_check_heads(const struct aorta_hwq *hwq, int64_t heads, int64_t width) {
    if (width % heads == 0 && width / heads <= 128) return NULL;
    return AORTA_ERROR(AORTA_USAGE, "%s: %lld heads of a width of %lld; heads must divide it, into 128 at most",
                       hwq->workload->name, (long long)heads, (long long)width);
}
