/* Sums of work by class and by operation, and what they say. */
#include "roofline/roofline.h"

#include "base/array.h"
#include "base/hash.h"
#include "roofline/roofline_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- operations ---- */

struct aorta_roofline_group {
    const char *operation, *dims, *kernel; /* kernel: the one that ran longest */
    enum aorta_work_class class;
    enum aorta_arithmetic arithmetic;
    size_t runs;
    int64_t ns, longest_ns;
    double flops, bytes, arithmetic_ns, memory_ns, bound_ns;
};

static uint64_t hash_of_work(const char *operation, const char *dims, int class, int arithmetic) {
    const uint64_t texts = aorta_hash_add((uintptr_t)operation, (uintptr_t)dims);
    return aorta_hash_add(aorta_hash_add(texts, (uint64_t) class), (uint64_t)arithmetic);
}

static uint64_t hash_of(const void *of, uint32_t number) {
    const struct aorta_roofline_group *group = &((const struct aorta_roofline_build *)of)->groups[number];
    return hash_of_work(group->operation, group->dims, group->class, group->arithmetic);
}

static bool is_of(const void *of, uint32_t number, const void *key) {
    const struct aorta_roofline_group *group = &((const struct aorta_roofline_build *)of)->groups[number];
    const struct aorta_roofline_work *work = key;
    return group->operation == work->operation && group->dims == work->dims && group->class == work->class &&
           group->arithmetic == work->arithmetic;
}

/* In order of arrival, so that sums do not depend on where texts lie in memory. */
static aorta_status group_of(struct aorta_roofline_build *build, const struct aorta_roofline_work *work,
                             struct aorta_roofline_group **group) {
    AORTA_TRY(aorta_array_reserve(&build->groups, &build->group_capacity, build->group_count + 1, sizeof **group,
                                  "operations of a roofline"));
    if (!aorta_table_reserve(&build->table, build->group_count + 1, hash_of, build))
        return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu operations of a roofline", build->group_count + 1);
    const uint64_t hash = hash_of_work(work->operation, work->dims, work->class, work->arithmetic);
    uint32_t *slot = aorta_table_slot(&build->table, hash, is_of, build, work);
    if (!*slot) {
        build->groups[build->group_count++] = (struct aorta_roofline_group){
            .operation = work->operation, .dims = work->dims, .class = work->class, .arithmetic = work->arithmetic};
        *slot = (uint32_t)build->group_count;
    }
    *group = &build->groups[*slot - 1];
    return NULL;
}

/* ns of work at so many TFLOP/s or TB/s: none takes no time, whatever the peak. */
static double time_at(double amount, double per_ps) {
    return amount > 0 ? amount / per_ps / 1e3 : 0;
}

static double peak_of(const struct aorta_peaks *peaks, enum aorta_arithmetic arithmetic) {
    return arithmetic == AORTA_ARITHMETIC_UNKNOWN ? NAN : peaks->tflops[arithmetic];
}

/* NaN where one of the two is not known. */
static double longer(double a, double b) {
    return isnan(a) || isnan(b) ? NAN : fmax(a, b);
}

static void add_to_group(const struct aorta_peaks *peaks, struct aorta_roofline_group *group,
                         const struct aorta_roofline_work *work) {
    const int64_t ns = work->end_ns - work->start_ns;
    const double arithmetic_ns = time_at(work->flops, peak_of(peaks, work->arithmetic));
    const double memory_ns = time_at(work->bytes, peaks->gbytes_per_s / 1e3);
    group->runs += work->runs;
    group->ns += ns;
    group->flops += work->flops;
    group->bytes += work->bytes;
    group->arithmetic_ns += arithmetic_ns;
    group->memory_ns += memory_ns;
    group->bound_ns += longer(arithmetic_ns, memory_ns);
    if (group->kernel && ns <= group->longest_ns) return;
    group->kernel = work->kernel;
    group->longest_ns = ns;
}

/* ---- building ---- */

void aorta_roofline_build_begin(struct aorta_roofline_build *build, struct aorta_roofline *roofline) {
    *build = (struct aorta_roofline_build){.roofline = roofline};
}

aorta_status aorta_roofline_build_amount(struct aorta_roofline_build *build, const struct aorta_roofline_work *work) {
    struct aorta_roofline_group *group;
    AORTA_TRY(group_of(build, work, &group));
    add_to_group(&build->roofline->peaks, group, work);
    return NULL;
}

aorta_status aorta_roofline_build_work(struct aorta_roofline_build *build, const struct aorta_roofline_work *work) {
    struct aorta_roofline_class *class = &build->roofline->classes[work->class];
    class->kernels++;
    aorta_intervals_add(&build->all[work->class], work->start_ns, work->end_ns);
    if (!work->covered) return NULL;
    aorta_intervals_add(&build->covered[work->class], work->start_ns, work->end_ns);
    return aorta_roofline_build_amount(build, work);
}

void aorta_roofline_build_flops(struct aorta_roofline_build *build, enum aorta_arithmetic arithmetic, double flops) {
    build->roofline->loose_ns += time_at(flops, peak_of(&build->roofline->peaks, arithmetic));
}

void aorta_roofline_build_step(struct aorta_roofline_build *build, int64_t step_ns) {
    build->roofline->steps++;
    build->roofline->step_ns += step_ns;
    for (int i = 0; i < AORTA_WORK_CLASS_COUNT; i++) {
        build->roofline->classes[i].ns += aorta_intervals_length(&build->all[i]);
        build->roofline->classes[i].covered_ns += aorta_intervals_length(&build->covered[i]);
        aorta_intervals_clear(&build->all[i]);
        aorta_intervals_clear(&build->covered[i]);
    }
}

/* Single precision that is faster than its peak was computed in TF32: kernels do not always say so. */
static void recognise_tf32(const struct aorta_peaks *peaks, struct aorta_roofline_row *row) {
    if (row->arithmetic != AORTA_IN_FP32 || !(row->arithmetic_ns > (double)row->ns)) return;
    const double faster_ns = time_at(row->flops, peaks->tflops[AORTA_IN_TF32]);
    if (isnan(faster_ns)) return;
    row->arithmetic = AORTA_IN_TF32;
    row->arithmetic_ns = faster_ns;
    row->bound_ns = longer(faster_ns, row->memory_ns);
}

static struct aorta_roofline_row row_of(const struct aorta_peaks *peaks, const struct aorta_roofline_group *group) {
    struct aorta_roofline_row row = {.class = group->class,
                                     .arithmetic = group->arithmetic,
                                     .runs = group->runs,
                                     .ns = group->ns,
                                     .flops = group->flops,
                                     .bytes = group->bytes,
                                     .arithmetic_ns = group->arithmetic_ns,
                                     .memory_ns = group->memory_ns,
                                     .bound_ns = group->bound_ns};
    recognise_tf32(peaks, &row);
    return row;
}

static void add_to_class(struct aorta_roofline_class *class, const struct aorta_roofline_row *row) {
    class->flops += row->flops;
    class->bytes += row->bytes;
    class->arithmetic_ns += row->arithmetic_ns;
    class->memory_ns += row->memory_ns;
    class->bound_ns += row->bound_ns;
}

static void find_types(struct aorta_roofline_build *build, double flops[][AORTA_ARITHMETIC_COUNT + 1]) {
    for (int i = 0; i < AORTA_WORK_CLASS_COUNT; i++) {
        enum aorta_arithmetic *most = &build->roofline->classes[i].arithmetic;
        *most = AORTA_ARITHMETIC_UNKNOWN;
        for (int j = 0; j < AORTA_ARITHMETIC_COUNT; j++)
            if (flops[i][j] > 0 && (*most == AORTA_ARITHMETIC_UNKNOWN || flops[i][j] > flops[i][*most]))
                *most = (enum aorta_arithmetic)j;
    }
}

static double lost_ns(const struct aorta_roofline_row *row) {
    return isnan(row->bound_ns) ? 0 : (double)row->ns - row->bound_ns;
}

static char *copy_text(const char *text, bool *failed) {
    char *copy = text ? strdup(text) : NULL;
    *failed |= text && !copy;
    return copy;
}

static void free_row(struct aorta_roofline_row *row) {
    free(row->operation);
    free(row->dims);
    free(row->kernel);
}

/* Rows are in order of what they lose. */
static aorta_status keep_row(struct aorta_roofline *roofline, struct aorta_roofline_row row,
                             const struct aorta_roofline_group *group) {
    size_t place = roofline->row_count;
    if (!(lost_ns(&row) > 0)) return NULL;
    while (place > 0 && lost_ns(&roofline->rows[place - 1]) < lost_ns(&row)) place--;
    if (place == AORTA_ROOFLINE_ROWS) return NULL;
    if (roofline->row_count == AORTA_ROOFLINE_ROWS) free_row(&roofline->rows[--roofline->row_count]);
    bool failed = false;
    row.operation = copy_text(group->operation, &failed);
    row.dims = copy_text(group->dims, &failed);
    row.kernel = copy_text(group->kernel, &failed);
    memmove(&roofline->rows[place + 1], &roofline->rows[place], (roofline->row_count++ - place) * sizeof row);
    roofline->rows[place] = row;
    return failed ? AORTA_ERROR(AORTA_MEMORY, "no memory for the roofline") : NULL;
}

static aorta_status finish(struct aorta_roofline_build *build) {
    struct aorta_roofline *roofline = build->roofline;
    double flops[AORTA_WORK_CLASS_COUNT][AORTA_ARITHMETIC_COUNT + 1] = {{0}};
    for (size_t i = 0; i < build->group_count; i++) {
        const struct aorta_roofline_row row = row_of(&roofline->peaks, &build->groups[i]);
        add_to_class(&roofline->classes[row.class], &row);
        flops[row.class][row.arithmetic] += row.flops;
        AORTA_TRY(keep_row(roofline, row, &build->groups[i]));
    }
    find_types(build, flops);
    return NULL;
}

aorta_status aorta_roofline_build_end(struct aorta_roofline_build *build, aorta_status status) {
    if (!status) status = finish(build);
    for (int i = 0; i < AORTA_WORK_CLASS_COUNT; i++) {
        aorta_intervals_free(&build->all[i]);
        aorta_intervals_free(&build->covered[i]);
    }
    free(build->groups);
    aorta_table_free(&build->table);
    if (status) aorta_roofline_free(build->roofline);
    return status;
}

void aorta_roofline_free(struct aorta_roofline *roofline) {
    for (size_t i = 0; i < roofline->row_count; i++) free_row(&roofline->rows[i]);
    free(roofline->device_name);
    memset(roofline, 0, sizeof *roofline);
}

/* ---- several ranks ---- */

void aorta_roofline_join(const struct aorta_roofline *ranks, size_t count, struct aorta_roofline *joined) {
    memset(joined, 0, sizeof *joined);
    if (!count) return;
    joined->peaks = ranks[0].peaks;
    for (int i = 0; i < AORTA_WORK_CLASS_COUNT; i++) joined->classes[i].arithmetic = ranks[0].classes[i].arithmetic;
    for (size_t i = 0; i < count; i++) {
        joined->lower_bound |= ranks[i].lower_bound;
        joined->steps += ranks[i].steps;
        joined->step_ns += ranks[i].step_ns;
        joined->loose_ns += ranks[i].loose_ns;
        for (int j = 0; j < AORTA_WORK_CLASS_COUNT; j++) {
            struct aorta_roofline_class *sum = &joined->classes[j];
            const struct aorta_roofline_class *one = &ranks[i].classes[j];
            sum->kernels += one->kernels;
            sum->ns += one->ns;
            sum->covered_ns += one->covered_ns;
            sum->flops += one->flops;
            sum->bytes += one->bytes;
            sum->arithmetic_ns += one->arithmetic_ns;
            sum->memory_ns += one->memory_ns;
            sum->bound_ns += one->bound_ns;
        }
    }
}

/* ---- figures ---- */

static double per_ns(double amount, int64_t ns) {
    return ns > 0 && amount > 0 ? amount / (double)ns : NAN;
}

double aorta_roofline_tflops(const struct aorta_roofline_class *class) {
    return per_ns(class->flops, class->covered_ns) / 1e3;
}

double aorta_roofline_gbytes_per_s(const struct aorta_roofline_class *class) {
    return per_ns(class->bytes, class->covered_ns);
}

enum aorta_bound aorta_roofline_bound(const struct aorta_roofline_class *class) {
    if (!(class->bound_ns > 0)) return AORTA_BOUND_NOT_KNOWN;
    return class->arithmetic_ns >= class->memory_ns ? AORTA_BOUND_ARITHMETIC : AORTA_BOUND_MEMORY;
}

double aorta_roofline_share(const struct aorta_roofline_class *class) {
    if (aorta_roofline_bound(class) == AORTA_BOUND_NOT_KNOWN) return NAN;
    return per_ns(fmax(class->arithmetic_ns, class->memory_ns), class->covered_ns);
}

double aorta_roofline_covered(const struct aorta_roofline_class *class) {
    return class->ns ? (double)class->covered_ns / (double)class->ns : NAN;
}

double aorta_roofline_mfu(const struct aorta_roofline *roofline, double *covered) {
    double arithmetic_ns = roofline->loose_ns;
    int64_t ns = 0, covered_ns = 0;
    for (int i = 0; i < AORTA_WORK_CLASS_COUNT; i++) {
        const struct aorta_roofline_class *class = &roofline->classes[i];
        arithmetic_ns += class->arithmetic_ns;
        if (i != AORTA_WORK_GEMM && i != AORTA_WORK_CONVOLUTION && i != AORTA_WORK_ATTENTION) continue;
        ns += class->ns;
        covered_ns += class->covered_ns;
    }
    *covered = ns ? (double)covered_ns / (double)ns : NAN;
    return per_ns(arithmetic_ns, roofline->step_ns);
}
