/* The loops are compiled for several instruction sets. Other tests use the best one; here all are compared with the
 * plainest, kernel by kernel, in plain memory. */
#include "ops/cpu/cpu.h"
#include "rig.h"

#include <math.h>
#include <stdlib.h>

enum { FLOATS = 6144, OUTPUTS = 4 };

/* A kernel's inputs, equal for every level, and the outputs of one level. */
struct memory {
    float in[4][FLOATS], out[OUTPUTS][FLOATS], scratch[8 * FLOATS];
};

static struct memory *memory_make(enum aorta_dtype dtype) {
    struct memory *memory = calloc(1, sizeof *memory);
    assert_non_null(memory);
    uint64_t random = 88172645463325252u;
    for (int i = 0; i < 4 * FLOATS; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        float value = (float)(random >> 40) * 0x1p-23f - 1.0f;
        if (dtype == AORTA_F32)
            memory->in[i / FLOATS][i % FLOATS] = value;
        else
            aorta_cpu_ops_list(&(int){0})[0]->from_float((uint16_t *)(void *)memory->in[i / FLOATS] + i % FLOATS,
                                                         &value, dtype, 1);
    }
    memcpy(memory->out[2], memory->in[2], sizeof memory->out[2]);
    return memory;
}

typedef aorta_status (*run_function)(const struct aorta_cpu_ops *ops, enum aorta_dtype dtype, struct memory *memory);

static const struct aorta_norm norm = {.rows = 13, .width = 131, .eps = 1e-5f, .dropout = 0.2f, .rng = {.seed = 3}};

static aorta_status norm_forward(const struct aorta_cpu_ops *ops, enum aorta_dtype dtype, struct memory *m) {
    struct aorta_norm_args args = {.shape = norm,
                                   .x = m->in[0],
                                   .residual = m->in[1],
                                   .gamma = m->in[2],
                                   .beta = m->in[3],
                                   .sum = m->out[0],
                                   .y = m->out[1],
                                   .mean = m->scratch,
                                   .rstd = m->out[3]};
    args.shape.dtype = dtype;
    return ops->norm_forward(&args);
}

static aorta_status norm_backward(const struct aorta_cpu_ops *ops, enum aorta_dtype dtype, struct memory *m) {
    for (int64_t i = 0; i < norm.rows; i++) m->scratch[i] = 0.1f, m->scratch[64 + i] = 1.5f;
    struct aorta_norm_backward_args args = {.shape = norm,
                                            .dy = m->in[0],
                                            .dy_extra = m->in[1],
                                            .sum = m->in[2],
                                            .gamma = m->in[3],
                                            .mean = m->scratch,
                                            .rstd = m->scratch + 64,
                                            .dsum = m->out[0],
                                            .dx = m->out[1],
                                            .dgamma = m->out[3],
                                            .dbeta = m->out[3] + norm.width};
    args.shape.dtype = dtype;
    return ops->norm_backward(&args);
}

static const struct aorta_attention attention = {
    .batch = 2, .positions = 17, .heads = 3, .head_dim = 11, .dropout = 0.1f, .rng = {.seed = 4}};

static aorta_status attention_forward(const struct aorta_cpu_ops *ops, enum aorta_dtype dtype, struct memory *m) {
    struct aorta_attention_args args = {
        .shape = attention, .qkv = m->in[0], .out = m->out[0], .saved = m->out[1], .scratch = m->scratch};
    args.shape.dtype = dtype;
    return ops->attention_forward(&args);
}

static aorta_status attention_backward(const struct aorta_cpu_ops *ops, enum aorta_dtype dtype, struct memory *m) {
    struct aorta_attention_args args = {.shape = attention,
                                        .qkv = m->in[0],
                                        .saved_in = m->in[1],
                                        .dout = m->in[2],
                                        .dqkv = m->out[0],
                                        .scratch = m->scratch};
    args.shape.dtype = dtype;
    return ops->attention_backward(&args);
}

static aorta_status embedding(const struct aorta_cpu_ops *ops, enum aorta_dtype dtype, struct memory *m) {
    static const int64_t ids[12] = {0, 3, 3, 7, 1, 2, 0, 0, 6, 5, 4, 3};
    struct aorta_embedding_args args = {.shape = {dtype, 4, 3, 8, 150},
                                        .ids = ids,
                                        .table = m->in[0],
                                        .dy = m->in[1],
                                        .y = m->out[0],
                                        .dtable = m->out[3]};
    AORTA_TRY(ops->embedding_forward(&args));
    return ops->embedding_backward(&args);
}

static aorta_status optimizer(const struct aorta_cpu_ops *ops, enum aorta_dtype dtype, struct memory *m) {
    static const struct aorta_step_state state = {
        .lr = 1e-2f, .finite = 1, .grad_factor = 0.5f, .bias_correction1 = 0.1f, .bias_correction2 = 0.02f};
    if (dtype != AORTA_F32) return NULL; /* always fp32 but for the copy, which the casts' tests hold */
    struct aorta_square_sum_args sum = {.gradient = m->in[0], .count = 2011, .square_sum = m->out[3]};
    AORTA_TRY(ops->square_sum(&sum));
    struct aorta_adamw_args args = {
        2011,           0.9f,          0.98f, 1e-8f, 0.1f, &state, dtype, .parameter = m->out[2], .gradient = m->in[0],
        .m = m->out[0], .v = m->out[1]};
    return ops->adamw(&args);
}

static aorta_status linear(const struct aorta_cpu_ops *ops, enum aorta_dtype dtype, struct memory *m) {
    const struct aorta_linear shape = {dtype, 5, 1, 1100};
    ops->column_sums(&shape, m->in[1], m->out[3], true);
    return NULL;
}

static aorta_status casts(const struct aorta_cpu_ops *ops, enum aorta_dtype dtype, struct memory *m) {
    struct aorta_cast_args args = {
        .from = m->in[0], .to = m->out[2], .count = 3001, .to_dtype = dtype, .from_dtype = dtype, .scale = 0.5f};
    AORTA_TRY(ops->add(&args));
    args.to = m->out[0];
    AORTA_TRY(ops->cast(&args));
    const struct aorta_fill_args fill = {m->out[1], dtype, 1025, 0.25f};
    return ops->fill(&fill);
}

static const struct {
    const char *name;
    run_function run;
} kernels[] = {{"norm_forward", norm_forward},
               {"norm_backward", norm_backward},
               {"attention_forward", attention_forward},
               {"attention_backward", attention_backward},
               {"embedding", embedding},
               {"optimizer", optimizer},
               {"linear", linear},
               {"casts", casts}};

/* The last output is fp32 in every mode. */
static double output(const struct aorta_cpu_ops *ops, const struct memory *memory, int which, int index,
                     enum aorta_dtype dtype) {
    if (dtype == AORTA_F32 || which == OUTPUTS - 1) return (double)memory->out[which][index];
    float value;
    ops->to_float(&value, (const uint16_t *)(const void *)memory->out[which] + index, dtype, 1);
    return (double)value;
}

static void levels_agree(void **state) {
    (void)state;
    int levels;
    const struct aorta_cpu_ops *const *ops = aorta_cpu_ops_list(&levels);
    const struct aorta_cpu_ops *plain = ops[levels - 1];
    assert_string_equal(plain->isa, "generic");
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
        for (int t = 0; t < 3; t++)
            for (int level = 0; level < levels - 1; level++) {
                const enum aorta_dtype dtype = rig_dtypes[t];
                struct memory *got = memory_make(dtype), *expected = memory_make(dtype);
                check_ok(kernels[k].run(ops[level], dtype, got));
                check_ok(kernels[k].run(plain, dtype, expected));
                for (int which = 0; which < OUTPUTS; which++)
                    for (int i = 0; i < FLOATS; i++) {
                        double a = output(plain, got, which, i, dtype), b = output(plain, expected, which, i, dtype);
                        char name[96];
                        snprintf(name, sizeof name, "%s, %s, %s, output %d", kernels[k].name, ops[level]->isa,
                                 aorta_dtype_name(dtype), which);
                        /* sums in another order may fall on the other side of one rounding */
                        double relative = which == OUTPUTS - 1 ? 1e-5 : 2.0 * rig_unit(dtype) + 1e-5;
                        if (!(fabs(a - b) <= relative * fabs(b) + 1e-5)) rig_close_to(name, &a, &b, 1, relative, 1e-5);
                    }
                free(got);
                free(expected);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(levels_agree)};
    return cmocka_run_group_tests_name("ops: instruction sets", tests, NULL, NULL);
}
