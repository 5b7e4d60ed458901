/* The roofline as rows: JSON, CSV and the columns of the page. */
#include "verdict/roofline.h"

#include <math.h>

static double ms_a_step(const struct aorta_roofline *roofline, double ns) {
    return ns / 1e6 / (double)roofline->steps;
}

static const char *arithmetic_name(int arithmetic) {
    return aorta_arithmetic_name((enum aorta_arithmetic)arithmetic);
}

static const char *class_name(int class) {
    return aorta_work_class_name((enum aorta_work_class) class);
}

static const char *bound_name(enum aorta_bound bound) {
    static const char *const names[] = {NULL, "arithmetic", "memory"};
    return names[bound];
}

/* ---- peaks ---- */

struct peak_values {
    const char *device, *source, *clock;
    double tflops[AORTA_ARITHMETIC_COUNT], gbytes_per_s;
};

#define AT(member) offsetof(struct peak_values, member)
const struct aorta_row aorta_roofline_peak_rows[] = {
    {"device", AORTA_ROW_TEXT, AT(device), .help = "as the table of devices calls it"},
    {"source", AORTA_ROW_TEXT, AT(source), .help = "where the rates are from"},
    {"clock", AORTA_ROW_TEXT, AT(clock), .help = "`boost`: the vendor's rates; absent where they were measured",
     .omit = true},
    {"tflops", AORTA_ROW_NUMBER, AT(tflops), "TFLOP/s", .help = "by type, without sparsity", .name = arithmetic_name,
     .names = AORTA_ARITHMETIC_COUNT},
    {"gbytes_per_s", AORTA_ROW_NUMBER, AT(gbytes_per_s), "GB/s", .help = "of the device's memory"},
    {0}};
#undef AT

static void write_peaks(const struct aorta_peaks *peaks, struct aorta_json *json) {
    struct peak_values values = {.device = peaks->device,
                                 .source = peaks->source,
                                 .clock = peaks->boost_clock ? "boost" : NULL,
                                 .gbytes_per_s = peaks->gbytes_per_s};
    for (int i = 0; i < AORTA_ARITHMETIC_COUNT; i++) values.tflops[i] = peaks->tflops[i];
    if (!peaks->reason) {
        aorta_rows_object("peaks", aorta_roofline_peak_rows, &values, 0, json);
        return;
    }
    aorta_json_key_null(json, "peaks");
    aorta_json_key_string(json, "peaks_reason", peaks->reason);
}

/* ---- all kernels ---- */

struct head_values {
    bool lower_bound;
    int64_t steps;
    double mfu, covered;
    const char *reason;
};

#define AT(member) offsetof(struct head_values, member)
const struct aorta_row aorta_roofline_head_rows[] = {
    {"rates_are_lower_bounds", AORTA_ROW_BOOL, AT(lower_bound), .help = "times of ranges contain gaps"},
    {"steps", AORTA_ROW_INT, AT(steps), .help = "that figures are means of"},
    {"mfu", AORTA_ROW_NUMBER, AT(mfu), "share", .help = "arithmetic of the step at the peak of each type, of the step"},
    {"mfu_covered_share", AORTA_ROW_NUMBER, AT(covered), "share",
     .help = "of the time of products, convolutions and attention whose arithmetic is known"},
    {"mfu_reason", AORTA_ROW_TEXT, AT(reason), .help = "why it is null", .omit = true},
    {0}};
#undef AT

static void write_head(const struct aorta_roofline *roofline, struct aorta_json *json) {
    struct head_values values = {.lower_bound = roofline->lower_bound, .steps = (int64_t)roofline->steps};
    values.mfu = aorta_roofline_mfu(roofline, &values.covered);
    const bool few = !isnan(values.covered) && !aorta_roofline_share_rated(values.covered);
    if (few) values.mfu = NAN;
    if (few && !roofline->peaks.reason)
        values.reason = "the recording has the shapes of less than a fifth of their time";
    else if (isnan(values.mfu))
        values.reason =
            roofline->peaks.reason ? roofline->peaks.reason : "no product, convolution or attention of known shape ran";
    aorta_rows_json(aorta_roofline_head_rows, &values, 0, json);
}

/* ---- classes of kernels ---- */

struct class_values {
    int class;
    double kernels, ms, tflops, gbytes_per_s, share, bound_ms, covered;
    const char *bound, *reason;
};

#define AT(member) offsetof(struct class_values, member)
const struct aorta_row aorta_roofline_class_rows[] = {
    {"kernels", AORTA_ROW_NUMBER, AT(kernels), .heading = "kernels per step", .help = "a step"},
    {"ms", AORTA_ROW_NUMBER, AT(ms), "ms", .heading = "ms per step", .help = "a step: the union of their times"},
    {"tflops", AORTA_ROW_NUMBER, AT(tflops), "TFLOP/s", .heading = "TFLOP/s", .help = "of those with known shapes"},
    {"gbytes_per_s", AORTA_ROW_NUMBER, AT(gbytes_per_s), "GB/s", .heading = "GB/s", .help = "likewise"},
    {"share_of_peak", AORTA_ROW_NUMBER, AT(share), "share", .heading = "of peak",
     .help = "of the peak that bounds them"},
    {"bound", AORTA_ROW_TEXT, AT(bound), .heading = "limited by", .help = "`arithmetic` or `memory`"},
    {"bound_ms", AORTA_ROW_NUMBER, AT(bound_ms), "ms", .heading = "ms at the peak", .help = "a step, at the peaks"},
    {"covered_share", AORTA_ROW_NUMBER, AT(covered), "share", .help = "of their time with known shapes"},
    {"reason", AORTA_ROW_TEXT, AT(reason), .help = "why figures are null", .omit = true},
    {0}};
static const struct aorta_row named_class_rows[] = {{"class", AORTA_ROW_CHOICE, AT(class), .heading = "class",
                                                     .help = "one of", .name = class_name,
                                                     .names = AORTA_WORK_CLASS_COUNT},
                                                    {NULL, AORTA_ROW_PART, 0, .part = aorta_roofline_class_rows},
                                                    {0}};
#undef AT

static const char *class_reason(const struct aorta_roofline *roofline, const struct aorta_roofline_class *class) {
    if (!class->covered_ns) return "the recording has no shapes of these kernels";
    if (!aorta_roofline_rated(class)) return "the recording has the shapes of less than a fifth of their time";
    return roofline->peaks.reason;
}

static enum aorta_line fill_class(const void *of, size_t index, void *values) {
    if (index >= AORTA_WORK_CLASS_COUNT) return AORTA_LINE_END;
    const struct aorta_roofline *roofline = of;
    const struct aorta_roofline_class *class = &roofline->classes[index];
    const bool rated = aorta_roofline_rated(class);
    if (!class->kernels) return AORTA_LINE_SKIP;
    *(struct class_values *)values =
        (struct class_values){.class = (int)index,
                              .kernels = (double)class->kernels / (double)roofline->steps,
                              .ms = ms_a_step(roofline, (double)class->ns),
                              .tflops = rated ? aorta_roofline_tflops(class) : NAN,
                              .gbytes_per_s = rated ? aorta_roofline_gbytes_per_s(class) : NAN,
                              .share = rated ? aorta_roofline_share(class) : NAN,
                              .bound = rated ? bound_name(aorta_roofline_bound(class)) : NULL,
                              .bound_ms = rated ? ms_a_step(roofline, class->bound_ns) : NAN,
                              .covered = aorta_roofline_covered(class),
                              .reason = class_reason(roofline, class)};
    return AORTA_LINE;
}

/* ---- operations ---- */

struct loss_values {
    const char *operation, *dims, *kernel, *arithmetic, *bound;
    int class;
    double runs, ms, tflops, gbytes_per_s, share, lost_ms;
};

#define AT(member) offsetof(struct loss_values, member)
static const struct aorta_row loss_rows[] = {
    {"operation", AORTA_ROW_TEXT, AT(operation), .heading = "operation", .help = "of the framework, or ours"},
    {"dims", AORTA_ROW_TEXT, AT(dims), .heading = "shape", .help = "null in our own runs"},
    {"kernel", AORTA_ROW_KERNEL, AT(kernel), .heading = "kernel", .help = "the longest of it; in our own runs the tag"},
    {"class", AORTA_ROW_CHOICE, AT(class), .help = "one of", .name = class_name, .names = AORTA_WORK_CLASS_COUNT},
    {"arithmetic", AORTA_ROW_TEXT, AT(arithmetic), .help = "of its products"},
    {"runs", AORTA_ROW_NUMBER, AT(runs), .heading = "runs per step", .help = "a step"},
    {"ms", AORTA_ROW_NUMBER, AT(ms), "ms", .heading = "ms per step", .help = "a step"},
    {"tflops", AORTA_ROW_NUMBER, AT(tflops), "TFLOP/s", .heading = "TFLOP/s", .help = "while it ran"},
    {"gbytes_per_s", AORTA_ROW_NUMBER, AT(gbytes_per_s), "GB/s", .heading = "GB/s", .help = "likewise"},
    {"share_of_peak", AORTA_ROW_NUMBER, AT(share), "share", .heading = "of its bound", .help = "of its bound"},
    {"bound", AORTA_ROW_TEXT, AT(bound), .heading = "bound", .help = "`arithmetic` or `memory`"},
    {"lost_ms", AORTA_ROW_NUMBER, AT(lost_ms), "ms", .heading = "ms above the bound",
     .help = "a step, against its bound"},
    {0}};
#undef AT

static double rate(double amount, int64_t ns) {
    return ns && amount > 0 ? amount / (double)ns : NAN;
}

static enum aorta_line fill_loss(const void *of, size_t index, void *values) {
    if (index >= ((const struct aorta_roofline *)of)->row_count) return AORTA_LINE_END;
    const struct aorta_roofline *roofline = of;
    const struct aorta_roofline_row *row = &roofline->rows[index];
    const bool typed = row->arithmetic != AORTA_ARITHMETIC_UNKNOWN;
    *(struct loss_values *)values =
        (struct loss_values){.operation = row->operation,
                             .dims = row->dims,
                             .kernel = row->kernel,
                             .arithmetic = typed ? aorta_arithmetic_name(row->arithmetic) : NULL,
                             .bound = row->arithmetic_ns >= row->memory_ns ? "arithmetic" : "memory",
                             .class = (int)row->class,
                             .runs = (double)row->runs / (double)roofline->steps,
                             .ms = ms_a_step(roofline, (double)row->ns),
                             .tflops = rate(row->flops, row->ns) / 1e3,
                             .gbytes_per_s = rate(row->bytes, row->ns),
                             .share = rate(row->bound_ns, row->ns),
                             .lost_ms = ms_a_step(roofline, (double)row->ns - row->bound_ns)};
    return AORTA_LINE;
}

static const struct aorta_result_table classes = {
    "roofline_classes",       "Compute by class of kernel",        .help = "kernels by what they do",
    .rows = named_class_rows, .size = sizeof(struct class_values), .fill = fill_class};
static const struct aorta_result_table losses = {"largest_losses",
                                                 "Operations that lose most against their bound",
                                                 .help = "the ten operations and shapes that lose most",
                                                 .rows = loss_rows,
                                                 .size = sizeof(struct loss_values),
                                                 .fill = fill_loss};
const struct aorta_result_table *const aorta_roofline_tables[] = {&classes, &losses, NULL};

/* ---- JSON ---- */

void aorta_roofline_write(const struct aorta_roofline *roofline, struct aorta_json *json) {
    if (!roofline) {
        aorta_json_key_null(json, "roofline");
        return;
    }
    aorta_json_key_object(json, "roofline");
    aorta_json_key_string(json, "device", roofline->device_name);
    write_peaks(&roofline->peaks, json);
    write_head(roofline, json);
    aorta_json_key_object(json, "classes");
    for (size_t i = 0; i < AORTA_WORK_CLASS_COUNT; i++) {
        struct class_values values;
        if (fill_class(roofline, i, &values) == AORTA_LINE)
            aorta_rows_object(class_name((int)i), aorta_roofline_class_rows, &values, 0, json);
    }
    aorta_json_object_end(json);
    aorta_table_json(&losses, roofline, json);
    aorta_json_object_end(json);
}
