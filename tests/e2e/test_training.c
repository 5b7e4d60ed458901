/* What a run computes: AdamW, clipping and schedule by their formulas from the run's own dumps, start values, data,
 * mixed precision. */
#include "check.h"
#include "run.h"

#include "train/weights.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- dumps ---- */

/* All tensors of a dumped file behind one another, by the order in which params_0000 has them. */
struct values {
    int64_t count;
    double *items;
};

static struct values read_values(const char *directory, const char *name) {
    char path[400];
    struct aorta_safetensors file;
    struct values values = {0};
    snprintf(path, sizeof path, "%s/%s.safetensors", directory, name);
    check_ok(aorta_safetensors_read(path, &file));
    for (size_t i = 0; i < file.count; i++) values.count += aorta_tensor_elements(&file.tensors[i]);
    values.items = calloc((size_t)values.count + 1, sizeof *values.items);
    assert_non_null(values.items);
    int64_t next = 0;
    for (size_t i = 0; i < file.count; i++) {
        for (int64_t e = 0; e < aorta_tensor_elements(&file.tensors[i]); e++) {
            float value;
            memcpy(&value, (const char *)file.tensors[i].data + (size_t)e * sizeof value, sizeof value);
            values.items[next++] = (double)value;
        }
    }
    aorta_safetensors_free(&file);
    return values;
}

static double norm_of(const struct values *values) {
    double sum = 0;
    for (int64_t i = 0; i < values->count; i++) sum += values->items[i] * values->items[i];
    return sqrt(sum);
}

static double distance(const struct values *a, const struct values *b) {
    double sum = 0;
    assert_int_equal(a->count, b->count);
    for (int64_t i = 0; i < a->count; i++) sum += pow(a->items[i] - b->items[i], 2);
    return sqrt(sum);
}

/* ---- the optimizer: three steps recomputed from the dumped gradients ---- */

struct optimizer {
    const char *words;
    double lr, weight_decay, beta1, beta2, eps, clip; /* clip 0: none */
};

/* A large eps makes the step depend on the scale of the gradients, and so on clipping. */
static const struct optimizer optimizers[] = {
    {"", 1e-3, 1e-2, 0.9, 0.98, 1e-8, 1},
    {"optimizer.lr=1e-2", 1e-2, 1e-2, 0.9, 0.98, 1e-8, 1},
    {"optimizer.weight_decay=5", 1e-3, 5, 0.9, 0.98, 1e-8, 1},
    {"optimizer.betas=[0.5,0.75]", 1e-3, 1e-2, 0.5, 0.75, 1e-8, 1},
    {"optimizer.lr=0.1 optimizer.eps=1e-2", 0.1, 1e-2, 0.9, 0.98, 1e-2, 1},
    {"optimizer.lr=0.1 optimizer.eps=1e-2 training.grad_clip_norm=0.01", 0.1, 1e-2, 0.9, 0.98, 1e-2, 0.01},
    {"optimizer.lr=0.1 optimizer.eps=1e-2 training.grad_clip_norm=null", 0.1, 1e-2, 0.9, 0.98, 1e-2, 0},
};

/* torch.optim.AdamW after torch.nn.utils.clip_grad_norm_. */
static void adamw(const struct optimizer *o, int step, double lr, double norm, const struct values *gradients,
                  struct values *p, double *m, double *v) {
    double factor = o->clip > 0 ? fmin(1, o->clip / (norm + 1e-6)) : 1;
    for (int64_t i = 0; i < p->count; i++) {
        double g = factor * gradients->items[i];
        p->items[i] -= lr * o->weight_decay * p->items[i];
        m[i] = o->beta1 * m[i] + (1 - o->beta1) * g;
        v[i] = o->beta2 * v[i] + (1 - o->beta2) * g * g;
        double corrected = m[i] / (1 - pow(o->beta1, step + 1)), square = v[i] / (1 - pow(o->beta2, step + 1));
        p->items[i] -= lr * corrected / (sqrt(square) + o->eps);
    }
}

static void check_optimizer(const struct optimizer *o, int ranks) {
    struct e2e_run run;
    char words[512], dump[128];
    snprintf(dump, sizeof dump, "%s/dump%d_%d", e2e_workspace(), ranks, (int)(o - optimizers));
    snprintf(words, sizeof words,
             "training.max_steps=3 scheduler.warmup_steps=2 scheduler.total_steps=0 training.dump_dir=%s %s", dump,
             o->words);
    e2e_train_well(&run, ranks, 3, words);

    struct values p = read_values(dump, "params_0000"), start = read_values(dump, "params_0000");
    double *m = calloc((size_t)p.count + 1, sizeof *m), *v = calloc((size_t)p.count + 1, sizeof *v);
    assert_true(m && v);
    for (int step = 0; step < 3; step++) {
        char name[32];
        snprintf(name, sizeof name, "grads_%04d", step);
        struct values gradients = read_values(dump, name);
        double norm = norm_of(&gradients), lr = o->lr * (step == 0 ? 0.5 : 1);
        const json_t *line = e2e_line(&run, 0, (size_t)step);
        assert_true(fabs(e2e_number(line, "grad_norm") - norm) < 1e-5 * norm); /* before clipping */
        assert_true(fabs(e2e_number(line, "lr") - lr) < 1e-6 * lr);
        adamw(o, step, lr, norm, &gradients, &p, m, v);
        free(gradients.items);
    }
    struct values end = read_values(dump, "params_0003");
    double error = distance(&p, &end) / distance(&start, &end);
    if (!(error < 2e-4)) fail_msg("%s: parameters moved otherwise, by %.3g", o->words, error);
    free(m), free(v), free(p.items), free(start.items), free(end.items);
    e2e_free(&run);
}

/* ---- markers ---- */

/* The step, its parts in each micro-batch, and its end; in order. */
static void check_markers(const char *words) {
    static const char *const tags[] = {"step", "forward", "backward", "forward", "backward", "optimizer", "end"};
    struct e2e_run run;
    e2e_train_well(&run, 2, 4, words);
    const json_t *markers = e2e_get(e2e_line(&run, 1, 3), "profile.markers");
    double last = 0;
    assert_int_equal(json_array_size(markers), sizeof tags / sizeof *tags);
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        const json_t *marker = json_array_get(markers, i);
        assert_string_equal(json_string_value(json_object_get(marker, "tag")), tags[i]);
        assert_true(e2e_number(marker, "time_ms") >= last);
        last = e2e_number(marker, "time_ms");
    }
    assert_true(fabs(last - e2e_number(e2e_line(&run, 1, 3), "profile.total_ms")) < 1e-3);
    e2e_free(&run);
}

static void test_markers(void **state) {
    (void)state;
    check_markers("training.max_steps=4 training.batch_size=2 training.gradient_accumulation=2");
    check_markers("training.max_steps=4 training.batch_size=2 training.gradient_accumulation=2 distributed.mode=ddp "
                  "compile.enabled=true");
}

static void test_optimizer(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) check_optimizer(&optimizers[i], 1);
    check_optimizer(&optimizers[5], 2); /* clipping over shards */
}

/* ---- schedule ---- */

static void test_schedule(void **state) {
    (void)state;
    static const struct { int warmup, total; } schedules[] = {{3, 8}, {0, 4}, {4, 0}, {0, -1}, {20, 30}, {5, 3}};
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        struct e2e_run run;
        char words[256];
        int warmup = schedules[i].warmup, total = schedules[i].total;
        snprintf(words, sizeof words,
                 "training.max_steps=10 optimizer.lr=0.004 scheduler.warmup_steps=%d scheduler.total_steps=%d", warmup,
                 total);
        e2e_train_well(&run, 1, 10, words);
        for (int step = 0; step < 10; step++) {
            double expected = 0.004;
            if (step < warmup)
                expected = 0.004 * (step + 1) / warmup;
            else if (total > 0)
                expected = step < total ? 0.004 * (total - step) / (total - warmup) : 0;
            double lr = e2e_number(e2e_line(&run, 0, (size_t)step), "lr");
            if (fabs(lr - expected) > 1e-9) fail_msg("%s: step %d: lr %.9g, not %.9g", words, step, lr, expected);
        }
        e2e_free(&run);
    }
}

/* ---- start values ---- */

/* Every rank draws from a seed of its own: with synchronisation all have rank 0's values, without they stay apart. */
static void test_sync_module_states(void **state) {
    (void)state;
    static const char own_seed[] = "training.seed=$RANK ";
    static const char *const strategies[] = {"", "distributed.mode=ddp ", "fsdp.param_init_device=device "};
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        struct e2e_run same, synchronised, apart;
        char words[256];
        snprintf(words, sizeof words, "%straining.seed=0", strategies[i]);
        e2e_train_well(&same, 2, 6, words);
        snprintf(words, sizeof words, "%s%s", strategies[i], own_seed);
        e2e_train_well(&synchronised, 2, 6, words);
        snprintf(words, sizeof words, "%s%sfsdp.sync_module_states=false", strategies[i], own_seed);
        e2e_train_well(&apart, 2, 6, words);
        for (size_t step = 0; step < 6; step++) {
            assert_true(e2e_mean_loss(&same, step) == e2e_mean_loss(&synchronised, step));
            assert_true(e2e_mean_loss(&same, step) != e2e_mean_loss(&apart, step));
        }
        e2e_free(&apart);
        e2e_free(&synchronised);
        e2e_free(&same);
    }
}

/* A run that starts from another's dump goes on from its values; its own seed does not matter. */
static void test_init_from(void **state) {
    (void)state;
    struct e2e_run first, second, other;
    char words[512];
    snprintf(words, sizeof words, "training.dump_dir=%s/start training.dump_steps=[0] training.seed=3",
             e2e_workspace());
    e2e_train_well(&first, 1, 6, words);
    snprintf(words, sizeof words, "training.init_from=%s/start/params_0000.safetensors training.seed=8",
             e2e_workspace());
    e2e_train_well(&second, 1, 6, words);
    e2e_train_well(&other, 1, 6, "training.seed=8");
    for (size_t step = 0; step < 6; step++) assert_true(e2e_mean_loss(&first, step) == e2e_mean_loss(&second, step));
    assert_true(e2e_mean_loss(&first, 0) != e2e_mean_loss(&other, 0));
    e2e_free(&other);
    e2e_free(&second);
    for (int ranks = 2; ranks <= 4; ranks += 2) { /* cut into shards, also where a rank gets nothing of a tensor */
        struct e2e_run sharded;
        char more[600];
        snprintf(more, sizeof more, "%s training.batch_size=%d fsdp.param_init_device=meta", words, 4 / ranks);
        e2e_train_well(&sharded, ranks, 6, more);
        assert_true(fabs(e2e_mean_loss(&first, 0) - e2e_mean_loss(&sharded, 0)) < 1e-6);
        e2e_free(&sharded);
    }
    e2e_free(&first);
}

/* ---- dumps ---- */

static void test_dumped_files(void **state) {
    (void)state;
    struct e2e_run run;
    char words[512];
    snprintf(
        words, sizeof words,
        "training.dump_dir=%s/some training.dump_steps=[1,5] training.gradient_accumulation=2 dataset.vocab_size=5",
        e2e_workspace());
    e2e_train_well(&run, 2, 6, words);
    static const char *const there[] = {"params_0001", "grads_0001",        "params_0005",       "grads_0005",
                                        "params_0006", "batch_0001_rank00", "batch_0001_rank01", "batch_0005_rank01"};
    static const char *const absent[] = {"params_0000", "grads_0000", "params_0002", "batch_0002_rank00"};
    char path[400];
    for (size_t i = 0; i < sizeof there / sizeof *there; i++) {
        snprintf(path, sizeof path, "%s/some/%s.safetensors", e2e_workspace(), there[i]);
        if (access(path, F_OK) != 0) fail_msg("no %s", path);
    }
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        snprintf(path, sizeof path, "%s/some/%s.safetensors", e2e_workspace(), absent[i]);
        if (access(path, F_OK) == 0) fail_msg("%s exists", path);
    }
    struct aorta_safetensors file;
    snprintf(path, sizeof path, "%s/some/batch_0005_rank01.safetensors", e2e_workspace());
    check_ok(aorta_safetensors_read(path, &file));
    const struct aorta_tensor *dense = aorta_safetensors_find(&file, "dense"),
                              *ids = aorta_safetensors_find(&file, "categorical");
    assert_true(dense && ids && ids->dtype == AORTA_I64);
    assert_int_equal(dense->shape[0], 8); /* two micro-batches of four */
    assert_int_equal(dense->shape[1], 7);
    assert_int_equal(dense->shape[2], 3);
    assert_int_equal(dense->shape[3], 10);
    int64_t largest = 0;
    for (int64_t i = 0; i < aorta_tensor_elements(ids); i++) {
        int64_t id;
        memcpy(&id, (const char *)ids->data + (size_t)i * sizeof id, sizeof id);
        if (id > largest) largest = id;
    }
    assert_int_equal(largest, 4); /* dataset.vocab_size */
    aorta_safetensors_free(&file);
    e2e_free(&run);
}

/* ---- mixed precision ---- */

enum { LONG = 20 };

static void check_precision(int ranks, const char *words, bool scaled) {
    struct e2e_run exact, rounded;
    char all[256];
    e2e_train_well(&exact, ranks, LONG, "training.max_steps=20");
    snprintf(all, sizeof all, "training.max_steps=20 %s", words);
    e2e_train_well(&rounded, ranks, LONG, all);
    for (size_t step = 0; step < LONG; step++) {
        double a = e2e_mean_loss(&exact, step), b = e2e_mean_loss(&rounded, step);
        if (!(fabs(a - b) <= 0.01 * a))
            fail_msg("%d ranks, %s: step %zu: %.6g, in fp32 %.6g", ranks, words, step, b, a);
        const json_t *line = e2e_line(&rounded, 0, step), *scale = json_object_get(line, "loss_scale");
        assert_int_equal(scale != NULL, scaled);
        if (scaled) assert_true(json_number_value(scale) == 65536);
        assert_true(json_is_false(e2e_get(line, "skipped")));
    }
    assert_true(e2e_mean_loss(&exact, 0) != e2e_mean_loss(&rounded, 0));
    e2e_free(&rounded);
    e2e_free(&exact);
}

static void test_mixed_precision(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++) {
        check_precision(ranks, "training.mixed_precision=bf16", false);
        check_precision(ranks, "training.mixed_precision=fp16", true);
        check_precision(ranks, "training.mixed_precision=bf16 distributed.mode=ddp", false);
        check_precision(ranks, "training.mixed_precision=fp16 compile.enabled=true", true);
    }
}

/* Start values whose last layer is far too large, so that its gradient overflows in fp16. */
static void make_overflowing_start(void) {
    struct e2e_run run;
    char words[512], path[128];
    struct aorta_safetensors file;
    snprintf(words, sizeof words, "training.dump_dir=%s/large training.dump_steps=[0] training.max_steps=1",
             e2e_workspace());
    e2e_train_well(&run, 1, 1, words);
    e2e_free(&run);
    snprintf(path, sizeof path, "%s/large/params_0000.safetensors", e2e_workspace());
    check_ok(aorta_safetensors_read(path, &file));
    const struct aorta_tensor *weight = aorta_safetensors_find(&file, "scorer.3.weight");
    assert_non_null(weight);
    for (int64_t i = 0; i < aorta_tensor_elements(weight); i++) {
        float value;
        char *place = (char *)(uintptr_t)weight->data + (size_t)i * sizeof value;
        memcpy(&value, place, sizeof value);
        value *= 1000;
        memcpy(place, &value, sizeof value);
    }
    check_ok(aorta_safetensors_write(path, file.tensors, file.count));
    aorta_safetensors_free(&file);
}

/* Overflow: the step is skipped on every rank, the scale halves until it fits, and then training goes on. */
static void check_overflow(int ranks, const char *more) {
    struct e2e_run run;
    char words[700], path[256];
    snprintf(path, sizeof path, "%s/skipped_%d_%zu", e2e_workspace(), ranks, strlen(more));
    snprintf(words, sizeof words,
             "training.init_from=%s/large/params_0000.safetensors training.mixed_precision=fp16 training.max_steps=15 "
             "training.dump_dir=%s training.dump_steps=[0,1] %s",
             e2e_workspace(), path, more);
    e2e_train_well(&run, ranks, 15, words);
    double scale = 65536;
    int skipped = 0;
    for (size_t step = 0; step < 15; step++) {
        const json_t *line = e2e_line(&run, ranks - 1, step);
        bool skip = json_is_true(e2e_get(line, "skipped"));
        assert_int_equal(json_is_null(e2e_get(line, "grad_norm")), skip);
        if (skip) scale /= 2, skipped++;
        assert_true(e2e_number(line, "loss_scale") == scale);
    }
    assert_in_range(skipped, 1, 13); /* at least two updates went through once the scale fitted */
    assert_true(json_is_true(e2e_get(e2e_line(&run, 0, 0), "skipped")));
    e2e_expect_output(&run, 0, "step 0: a gradient is not finite; the update is skipped and the loss scale halved");
    struct values before = read_values(path, "params_0000"), after = read_values(path, "params_0001");
    assert_true(distance(&before, &after) == 0);
    free(before.items), free(after.items);
    e2e_free(&run);
}

static void test_overflow(void **state) {
    (void)state;
    make_overflowing_start();
    check_overflow(1, "");
    check_overflow(2, "");
    check_overflow(2, "distributed.mode=ddp");
}

/* What no library measures on a CPU is null, and why; keys that nobody asked for are missing. */
static void test_device_metrics(void **state) {
    (void)state;
    struct e2e_run plain, asked;
    e2e_train_well(&plain, 1, 6, "");
    e2e_train_well(&asked, 2, 6, "--device-metrics --enable-rocm-metrics");
    for (int rank = 0; rank < 2; rank++) {
        const json_t *line = e2e_line(&asked, rank, 5);
        assert_true(json_is_null(e2e_get(line, "device_metrics")));
        assert_true(json_is_null(e2e_get(line, "rocm_smi_output")));
        assert_string_equal(json_string_value(e2e_get(line, "null_reasons.device_metrics")),
                            "not measured on the cpu device");
        assert_string_equal(json_string_value(e2e_get(line, "null_reasons.rocm_smi_output")),
                            "ROCm SMI reads AMD GPUs; this run is on the cpu device");
    }
    e2e_expect_output(&asked, 0, "--enable-rocm-metrics: ROCm SMI reads AMD GPUs");
    assert_null(json_object_get(e2e_line(&plain, 0, 5), "device_metrics"));
    assert_null(json_object_get(e2e_line(&plain, 0, 5), "rocm_smi_output"));
    e2e_free(&asked);
    e2e_free(&plain);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_markers),         cmocka_unit_test(test_optimizer),
        cmocka_unit_test(test_schedule),        cmocka_unit_test(test_sync_module_states),
        cmocka_unit_test(test_init_from),       cmocka_unit_test(test_dumped_files),
        cmocka_unit_test(test_mixed_precision), cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_device_metrics),
    };
    return cmocka_run_group_tests(tests, e2e_open, e2e_close);
}
