/* Real traces, cut by cut_operations, beside what it counts in them in another way. */
#include "check.h"
#include "trace/open.h"
#include "verdict/remedies.h"
#include "verdict/roofline.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

/* Operations of one name: kernels, their time, arithmetic and bytes. */
struct counted {
    const char *operation;
    size_t kernels;
    int64_t ns;
    double flops, bytes;
};

static const struct sample {
    const char *file, *device;
    struct counted rows[8];
} samples[] = {
    {"h100_qwen.json.gz",
     "NVIDIA H100 SXM",
     {{"aten::_flash_attention_forward", 24, 2722705, 246184673280, 1758461952},
      {"aten::add", 145, 2607512, 0, 5278892296},
      {"aten::addmm", 72, 2266292, 1350498779136, 2788687872},
      {"aten::mm", 96, 6588415, 4164037902336, 6290472960},
      {"aten::mul", 220, 6752901, 0, 12538336208},
      {"aten::neg", 48, 587328, 0, 879230976},
      {"aten::pow", 49, 1300795, 0, 3590193152},
      {"aten::silu", 24, 925115, 0, 2417885184}}},
    {"mi300_resnet.json.gz",
     "AMD MI300X",
     {{"aten::addmm", 3, 16597, 30720000, 3162720},
      {"aten::div", 3, 17716, 0, 3010584},
      {"aten::miopen_convolution", 597, 4744217, 210546524160, 636710016},
      {"aten::mm", 6, 44474, 61440000, 6325440},
      {"aten::mul", 186, 460451, 0, 140275632}}},
};

static struct counted count(const struct aorta_trace *trace, const char *operation) {
    struct counted sum = {.operation = operation};
    for (size_t i = 0; i < trace->work_count; i++) {
        const struct aorta_trace_work *work = &trace->work[i];
        if (work->shape == AORTA_TRACE_NONE) continue;
        const struct aorta_trace_shape *shape = &trace->shapes[work->shape];
        if (strcmp(aorta_trace_text(trace, shape->op), operation) != 0) continue;
        sum.kernels++;
        sum.ns += work->end_ns - work->start_ns;
        if (!work->leads) continue;
        sum.flops += shape->amount.flops;
        sum.bytes += shape->amount.bytes;
    }
    return sum;
}

static bool near(double a, double b) {
    return fabs(a - b) <= 1e-12 * fabs(b);
}

static void check_counts(const struct sample *sample, const struct aorta_trace *trace) {
    for (size_t i = 0; i < sizeof sample->rows / sizeof *sample->rows && sample->rows[i].operation; i++) {
        const struct counted *expected = &sample->rows[i], found = count(trace, expected->operation);
        if (found.kernels == expected->kernels && found.ns == expected->ns && near(found.flops, expected->flops) &&
            near(found.bytes, expected->bytes))
            continue;
        fail_msg("%s, %s: %zu kernels, %lld ns, %.0f flops, %.0f bytes; expected %zu, %lld, %.0f, %.0f", sample->file,
                 expected->operation, found.kernels, (long long)found.ns, found.flops, found.bytes, expected->kernels,
                 (long long)expected->ns, expected->flops, expected->bytes);
    }
}

/* Nothing is faster than its device. */
static void check_shares(const struct sample *sample, const struct aorta_roofline *roofline) {
    assert_string_equal(roofline->peaks.device, sample->device);
    for (int i = 0; i < AORTA_WORK_CLASS_COUNT; i++) {
        const struct aorta_roofline_class *class = &roofline->classes[i];
        if (!class->covered_ns) continue;
        assert_true(aorta_roofline_share(class) > 0 && aorta_roofline_share(class) < 1);
        assert_true(aorta_roofline_covered(class) <= 1);
        assert_true(class->bound_ns <= (double)class->covered_ns);
    }
    for (size_t i = 0; i < roofline->row_count; i++) assert_true(roofline->rows[i].bound_ns < roofline->rows[i].ns);
    assert_int_equal(roofline->row_count, AORTA_ROOFLINE_ROWS);
}

/* No remedy saves less than nothing, or more than the time that it touches, also after those before it. */
static void check_remedies(const struct aorta_trace_analysis *analysis) {
    const struct aorta_trace *trace = analysis->ranks[0].trace;
    struct aorta_work_scale *scales = calloc(trace->work_count + 1, sizeof *scales);
    struct aorta_remedies remedies;
    check_ok(aorta_remedies_make(analysis, 0, &remedies));
    double saved_ns = 0;
    assert_null(remedies.lacks);
    uint32_t set = 0;
    for (int i = 0; i < AORTA_REMEDY_COUNT; i++) {
        const struct aorta_remedy_row *row = &remedies.rows[i];
        assert_true(row->alone_ns >= 0 && row->alone_ns <= row->touched_ns + 1e-3);
        assert_true(row->touched_ns <= remedies.kernels_ns + 1);
        if (aorta_remedy_rules[i].upper || row->alone_ns <= 0) continue;
        set |= aorta_remedy_bit((enum aorta_remedy)i);
        const double before_ns = saved_ns;
        saved_ns = aorta_remedies_apply(&remedies, set, scales).saved_ns;
        assert_true(saved_ns >= before_ns - 1e-3);
    }
    assert_true(saved_ns >= 0 && saved_ns < remedies.kernels_ns);
    aorta_remedies_free(&remedies);
    free(scales);
}

static void real_traces(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        char path[PATH_MAX];
        const char *paths[] = {path};
        struct aorta_trace_list list = {0};
        struct aorta_trace_analysis analysis;
        struct aorta_roofline roofline;
        snprintf(path, sizeof path, "%s/%s", TEST_DATA, samples[i].file);
        check_ok(aorta_trace_open_inputs(paths, 1, NULL, &list));
        check_ok(aorta_trace_analyze(&list, NULL, &analysis));
        check_ok(aorta_roofline_of_trace(&analysis, 0, &roofline));
        check_counts(&samples[i], list.items[0]);
        check_shares(&samples[i], &roofline);
        check_remedies(&analysis);
        aorta_roofline_free(&roofline);
        aorta_trace_analysis_free(&analysis);
        aorta_trace_list_free(&list);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(real_traces)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
