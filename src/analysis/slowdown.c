/* Slow kernels: matrix products during a collective, and kernels of one rank.
 *
 * Compares the same matrix product alone and during a collective. Two runs are the same product if their kernel
 * function and FLOPs are equal. Where FLOPs are not known, the dims of the inputs must be equal, or else the grid.
 * Products of one kernel and grid can still differ in depth. */
#include "analysis/analysis_internal.h"
#include "base/sort.h"
#include "base/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST_SAMPLES = 8 };      /* minimum runs of each kind per shape */
static const double DIFFER = 1.5; /* maximum ratio of the 90th to the 10th percentile alone, within one product */

/* The identity of a product. */
struct product {
    const char *function;
    const char *alike; /* dims or grid; "": known by its flops */
    double flops;
    bool by_grid;
};

struct aorta_shape {
    struct product of;
    struct aorta_product_slowdown slowdown;
    size_t alone, beside; /* runs */
    double beside_ns;     /* its time during collectives */
};

/* One execution of a shape. */
struct run {
    struct product of;
    double ns, moving_ns; /* the latter: during collectives of which all ranks had arrived */
    enum aorta_beside beside;
};

/* Sums over runs during collectives, of shapes whose time alone is known. */
struct loss {
    double lost_ns, moving_ns, squares;
    size_t runs;
};

static bool is_arithmetic(const struct aorta_range *range) {
    const struct aorta_range_info *info = &range->info;
    return info->kind == AORTA_RANGE_COMPUTE && (info->flops > 0 || info->alike) && range->end_ns > range->start_ns;
}

static struct product product_of(const struct aorta_range *range) {
    const struct aorta_range_info *info = &range->info;
    return (struct product){info->function, info->alike && !(info->flops > 0) ? info->alike : "", info->flops,
                            info->by_grid};
}

/* Also orders shapes and runs, which begin with their product. */
static AORTA_ORDER(product_order, struct product, AORTA_TEXT(function) AORTA_UP(flops) AORTA_TEXT(alike));

/* The time of collectives. With `arrivals` (one per range) only the time after all ranks had arrived. */
static void collective_time(const struct aorta_profile *profile, const struct aorta_arrival *arrivals,
                            struct aorta_intervals *comm) {
    for (size_t i = 0; i < profile->range_count; i++) {
        const struct aorta_range *range = &profile->ranges[i];
        if (range->info.kind != AORTA_RANGE_COLLECTIVE) continue;
        const bool waits = arrivals && arrivals[i].until_ns > range->start_ns;
        const int64_t start_ns = waits ? arrivals[i].until_ns : range->start_ns;
        aorta_intervals_add(comm, start_ns, range->end_ns);
    }
    aorta_intervals_normalise(comm);
}

/* ---- one product ---- */

enum aorta_beside aorta_beside_of(const struct aorta_intervals *comm, int64_t start_ns, int64_t end_ns) {
    int64_t beside_ns = aorta_intervals_within(comm, start_ns, end_ns);
    if (!beside_ns) return AORTA_BESIDE_ALONE;
    return beside_ns < end_ns - start_ns - beside_ns ? AORTA_BESIDE_NEITHER : AORTA_BESIDE_COLLECTIVE;
}

static double median(const double *sorted, size_t count) {
    return count ? aorta_percentile_sorted(sorted, count, 50) : NAN;
}

/* Whether runs are of one product, by their sorted times alone. `counted`: their flops are known. */
static bool is_one_product(const double *ns, size_t count, bool counted) {
    if (counted || !count) return true;
    return aorta_percentile_sorted(ns, count, 90) <= DIFFER * aorta_percentile_sorted(ns, count, 10);
}

struct aorta_product_slowdown aorta_product_slowdown_of(const double *alone_ns, size_t alone, const double *beside_ns,
                                                        size_t beside, bool counted) {
    struct aorta_product_slowdown slowdown = {
        .alone_p50_ns = median(alone_ns, alone), .beside_p50_ns = median(beside_ns, beside), .ratio = NAN};
    if (alone < FEWEST_SAMPLES || beside < FEWEST_SAMPLES || !(slowdown.alone_p50_ns > 0)) return slowdown;
    if (!is_one_product(alone_ns, alone, counted)) return slowdown;
    slowdown.ratio = slowdown.beside_p50_ns / slowdown.alone_p50_ns;
    if (aorta_percentile_sorted(beside_ns, beside, 25) > slowdown.alone_p50_ns) slowdown.lost = 1 - 1 / slowdown.ratio;
    return slowdown;
}

/* ---- measuring ---- */

static AORTA_ORDER(run_order, struct run, AORTA_THEN(product_order) AORTA_UP(beside) AORTA_UP(ns));

static size_t collect_runs(const struct aorta_rank_step *step, struct run *runs, struct aorta_arena *memory) {
    struct aorta_intervals comm = {0}, moving = {0};
    const struct aorta_profile *profile = step->iteration.profile;
    size_t count = 0;
    collective_time(profile, NULL, &comm);
    collective_time(profile, step->arrivals, &moving);
    AORTA_EACH (const struct aorta_range, range, profile->ranges, profile->range_count) {
        if (!is_arithmetic(range)) continue;
        runs[count++] =
            (struct run){.of = product_of(range),
                         .ns = (double)(range->end_ns - range->start_ns),
                         .moving_ns = (double)aorta_intervals_within(&moving, range->start_ns, range->end_ns),
                         .beside = aorta_beside_of(&comm, range->start_ns, range->end_ns)};
    }
    aorta_intervals_end(&comm, memory);
    aorta_intervals_end(&moving, memory);
    return count;
}

/* Adds the loss of the runs of one shape, sorted: first the `alone` runs without a collective. Other runs count if such
 * collectives cover at least half of their time. A collective costs a run at most the time that they share; any further
 * delay has another cause. */
static void add_loss(const struct run *runs, size_t count, size_t alone, double alone_ns, struct loss *loss) {
    if (alone < FEWEST_SAMPLES) return;
    for (size_t i = alone; i < count; i++) {
        const double moving_ns = runs[i].moving_ns;
        if (2 * moving_ns < runs[i].ns) continue;
        const double lost_ns = fmax(-moving_ns, fmin(moving_ns, runs[i].ns - alone_ns));
        loss->lost_ns += lost_ns;
        loss->squares += lost_ns * lost_ns;
        loss->moving_ns += moving_ns;
        loss->runs++;
    }
}

/* Scaled by the share of products, as nothing is known of the remaining compute. 0 if the loss is not significant. */
static double lost_per_ns(const struct loss *loss, double products_share) {
    if (loss->runs < FEWEST_SAMPLES || !(loss->moving_ns > 0)) return NAN;
    const double error_ns = sqrt(fmax(0, loss->squares - loss->lost_ns * loss->lost_ns / (double)loss->runs));
    return loss->lost_ns > 2 * error_ns ? products_share * loss->lost_ns / loss->moving_ns : 0;
}

/* runs[0 .. count): one shape, those alone first, then those during collectives, each part sorted by time. */
static struct aorta_shape shape_of(const struct run *runs, size_t count, double *scratch, struct loss *loss) {
    struct aorta_shape shape = {.of = runs[0].of};
    for (size_t i = 0; i < count; i++) {
        scratch[i] = runs[i].ns;
        shape.alone += runs[i].beside == AORTA_BESIDE_ALONE;
        shape.beside += runs[i].beside == AORTA_BESIDE_COLLECTIVE;
        if (runs[i].beside == AORTA_BESIDE_COLLECTIVE) shape.beside_ns += runs[i].ns;
    }
    const bool counted = shape.of.flops > 0;
    shape.slowdown = aorta_product_slowdown_of(scratch, shape.alone, scratch + shape.alone, shape.beside, counted);
    if (is_one_product(scratch, shape.alone, counted))
        add_loss(runs, count, shape.alone, shape.slowdown.alone_p50_ns, loss);
    return shape;
}

static const char *missing_reason(const struct aorta_slowdown *slowdown) {
    if (slowdown->samples_alone + slowdown->samples_beside == 0) return "no GEMM of known shape or grid was recorded";
    if (slowdown->samples_beside == 0) return "no GEMM ran during a collective";
    if (slowdown->samples_alone == 0) return "no GEMM ran without a concurrent collective";
    return "no GEMM shape ran at least 8 times alone, each time as long, and 8 times during a collective";
}

/* The share of products in the steps' compute; at most 1, as products may run concurrently. */
static double share_of_products(const struct aorta_rank_step *steps, size_t count, const struct run *runs,
                                size_t run_count) {
    double products_ns = 0, compute_ns = 0;
    for (size_t i = 0; i < count; i++) compute_ns += (double)steps[i].iteration.profile->overlap.compute_ns;
    for (size_t i = 0; i < run_count; i++) products_ns += runs[i].ns;
    return products_ns < compute_ns ? products_ns / compute_ns : 1;
}

static void measure_shapes(const struct run *runs, size_t count, double *scratch, double products_share,
                           struct aorta_shapes *shapes, struct aorta_slowdown *slowdown) {
    double weight = 0;
    struct loss loss = {0};
    slowdown->ratio = 0;
    for (size_t i = 0, same; i < count; i += same) {
        for (same = 1; i + same < count && !product_order(&runs[i + same], &runs[i]);) same++;
        const struct aorta_shape shape = shape_of(runs + i, same, scratch, &loss);
        slowdown->samples_alone += shape.alone;
        slowdown->samples_beside += shape.beside;
        if (shape.alone + shape.beside) shapes->items[shapes->count++] = shape;
        if (isnan(shape.slowdown.ratio)) continue;
        slowdown->shapes++;
        slowdown->by_grid += shape.of.by_grid;
        slowdown->ratio += shape.slowdown.ratio * shape.beside_ns;
        weight += shape.beside_ns;
    }
    slowdown->lost_per_ns = lost_per_ns(&loss, products_share);
    slowdown->ratio = weight > 0 ? slowdown->ratio / weight : NAN;
    if (!(weight > 0)) slowdown->reason = missing_reason(slowdown);
}

void aorta_shapes_measure(const struct aorta_rank_step *steps, size_t count, struct aorta_arena *memory,
                          struct aorta_shapes *shapes, struct aorta_slowdown *slowdown) {
    *shapes = (struct aorta_shapes){0};
    *slowdown = (struct aorta_slowdown){0};
    size_t limit = 0, used = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < steps[i].iteration.profile->range_count; j++)
            limit += is_arithmetic(&steps[i].iteration.profile->ranges[j]);
    struct aorta_arena scratch = {0};
    struct run *runs = aorta_arena_raw(&scratch, limit * sizeof *runs);
    double *times = aorta_arena_raw(&scratch, limit * sizeof *times);
    shapes->items = aorta_arena_raw(memory, limit * sizeof *shapes->items);
    for (size_t i = 0; times && i < count; i++) used += collect_runs(&steps[i], runs + used, &scratch);
    if (!scratch.failed && shapes->items) {
        qsort(runs, used, sizeof *runs, run_order);
        measure_shapes(runs, used, times, share_of_products(steps, count, runs, used), shapes, slowdown);
    }
    aorta_arena_end(&scratch, memory);
}

/* ---- contention in one iteration ---- */

/* Stretches of arithmetic during a collective. */
struct pieces {
    struct piece {
        int64_t start_ns, end_ns;
        double lost;
    } * items;
    size_t count, capacity;
};

/* The share of this range's time during collectives that they cost (aorta_product_slowdown.lost); 0: none, or unknown.
 */
static double lost_of(const struct aorta_shapes *shapes, const struct aorta_range *range) {
    if (!is_arithmetic(range)) return 0;
    const struct product key = product_of(range);
    const struct aorta_shape *found =
        shapes->count ? bsearch(&key, shapes->items, shapes->count, sizeof *found, product_order) : NULL;
    return found ? found->slowdown.lost : 0;
}

/* Sums the lost time. Where pieces overlap, the one that began first counts. */
static int64_t sum_pieces(struct piece *pieces, size_t count) {
    int64_t covered_ns = INT64_MIN, sum = 0;
    qsort(pieces, count, sizeof *pieces, aorta_by_int64);
    for (size_t i = 0; i < count; i++) {
        int64_t from = pieces[i].start_ns > covered_ns ? pieces[i].start_ns : covered_ns;
        if (from >= pieces[i].end_ns) continue;
        sum += llround((double)(pieces[i].end_ns - from) * pieces[i].lost);
        covered_ns = pieces[i].end_ns;
    }
    return sum;
}

/* Adds the stretches of the range during collectives. */
static void cut_pieces(const struct aorta_range *range, double lost, const struct aorta_intervals *comm,
                       struct pieces *pieces, struct aorta_arena *memory) {
    for (size_t i = aorta_intervals_first_after(comm, range->start_ns); i < comm->count; i++) {
        if (comm->items[i].start_ns >= range->end_ns) break;
        int64_t from = comm->items[i].start_ns > range->start_ns ? comm->items[i].start_ns : range->start_ns;
        int64_t to = comm->items[i].end_ns < range->end_ns ? comm->items[i].end_ns : range->end_ns;
        const struct piece piece = {from, to, lost};
        aorta_arena_append(memory, &pieces->items, &pieces->capacity, &pieces->count, &piece, sizeof piece);
    }
}

int64_t aorta_shapes_contention(const struct aorta_shapes *shapes, const struct aorta_rank_step *step,
                                struct aorta_arena *memory) {
    const struct aorta_profile *profile = step->iteration.profile;
    struct aorta_arena scratch = {0};
    struct aorta_intervals comm = {0};
    collective_time(profile, NULL, &comm);
    struct pieces pieces = {0};
    for (size_t i = 0; !scratch.failed && i < profile->range_count; i++) {
        const double lost = lost_of(shapes, &profile->ranges[i]);
        if (lost > 0) cut_pieces(&profile->ranges[i], lost, &comm, &pieces, &scratch);
    }
    const int64_t contention_ns = pieces.items ? sum_pieces(pieces.items, pieces.count) : 0;
    aorta_intervals_end(&comm, memory);
    aorta_arena_end(&scratch, memory);
    return contention_ns;
}

/* ---- kernels that only one rank runs, or that are slower on one rank than on the other ranks ----
 *
 * Collectives slow down concurrent kernels, and these differ between ranks. So only runs without a concurrent
 * collective are measured, if a rank has any. A difference below 1% of the rank's step is noise. So is a
 * difference that fewer than three quarters of its steps show. */

static const double MATTERS = 0.01;

/* One name on one rank. */
struct use {
    const char *name;
    uint32_t rank, text;
    double count, ns;               /* a step */
    double alone, alone_ns, all_ns; /* runs without a concurrent collective, their time, and the time of all runs */
};

static AORTA_ORDER(use_order, struct use, AORTA_TEXT(name) AORTA_UP(rank));

/* ---- kernels of each rank ---- */

struct study {
    struct aorta_trace_analysis *analysis;
    const struct aorta_trace_busy *busy;
    double *step_ns; /* by rank: mean length of counted steps */
    struct use *uses;
    size_t count;
    struct aorta_arena memory;
    double *times, *counts; /* of the current name on all ranks, ascending */
    double *values;         /* scratch: one per window */
};

static bool is_compared(const struct aorta_trace_work *work) {
    return work->kind == AORTA_TRACE_KERNEL && work->class == AORTA_KERNEL_COMPUTE;
}

static void add_window(const struct study *study, size_t place, const struct aorta_trace_window *window,
                       struct use *by_text) {
    const struct aorta_trace_rank *rank = &study->analysis->ranks[place];
    for (size_t i = 0; i < window->profile.range_count; i++) {
        const struct aorta_trace_work *work = &rank->work[window->work[i]];
        if (!is_compared(work) || work->start_ns < window->start_ns) continue;
        struct use *use = &by_text[work->name];
        double ns = (double)(work->end_ns - work->start_ns);
        use->count++;
        use->ns += ns;
        if (aorta_beside_of(&study->busy[place].comm, work->start_ns, work->end_ns) != AORTA_BESIDE_ALONE) continue;
        use->alone++;
        use->alone_ns += ns;
    }
    study->step_ns[place] += (double)(window->end_ns - window->start_ns);
}

static void collect_rank(struct study *study, size_t place) {
    const struct aorta_trace_rank *rank = &study->analysis->ranks[place];
    const size_t texts = aorta_trace_text_count(rank->trace);
    struct aorta_arena scratch = {0};
    struct use *by_text = aorta_arena_alloc(&scratch, texts * sizeof *by_text);
    for (size_t i = 0; by_text && i < rank->window_count; i++)
        if (aorta_trace_window_counts(study->analysis, &rank->windows[i]))
            add_window(study, place, &rank->windows[i], by_text);
    const double steps = (double)rank->steps;
    study->step_ns[place] /= steps;
    for (size_t i = 0; by_text && i < texts; i++) {
        if (by_text[i].count <= 0) continue;
        struct use use = by_text[i];
        use.name = aorta_trace_text(rank->trace, (uint32_t)i);
        use.rank = (uint32_t)place;
        use.text = (uint32_t)i;
        use.all_ns = use.alone > 0 ? use.alone_ns / use.alone * use.count / steps : use.ns / steps;
        use.count /= steps;
        use.ns /= steps;
        study->uses[study->count++] = use;
    }
    aorta_arena_end(&scratch, &study->memory);
}

/* ---- one name on all ranks ---- */

static void sort_uses(const struct study *study, const struct use *uses, size_t count) {
    const size_t ranks = study->analysis->rank_count;
    for (size_t i = 0; i < ranks; i++) {
        study->times[i] = i < count ? uses[i].all_ns : 0;
        study->counts[i] = i < count ? uses[i].count : 0;
    }
    aorta_sort_double(study->times, ranks);
    aorta_sort_double(study->counts, ranks);
}

/* The time of this kernel that three quarters of the rank's steps reach. */
static double most_steps_ns(const struct study *study, const struct use *use) {
    const struct aorta_trace_rank *rank = &study->analysis->ranks[use->rank];
    double scale = use->ns > 0 ? use->all_ns / use->ns : 1;
    size_t count = 0;
    for (const struct aorta_trace_window *window = NULL; (window = aorta_step_after(study->analysis, rank, window));) {
        double ns = 0;
        for (size_t j = 0; j < window->profile.range_count; j++) {
            const struct aorta_trace_work *work = &rank->work[window->work[j]];
            if (is_compared(work) && work->name == use->text && work->start_ns >= window->start_ns)
                ns += (double)(work->end_ns - work->start_ns) * scale;
        }
        study->values[count++] = ns;
    }
    aorta_sort_double(study->values, count);
    return aorta_percentile_sorted(study->values, count, 25);
}

static void compare_uses(struct study *study, const struct use *uses, size_t count) {
    struct aorta_trace_analysis *analysis = study->analysis;
    sort_uses(study, uses, count);
    for (size_t i = 0; i < count; i++) {
        double others_ns = aorta_lower_median_without(study->times, analysis->rank_count, uses[i].all_ns),
               excess_ns = uses[i].all_ns - others_ns;
        double matters_ns = MATTERS * study->step_ns[uses[i].rank];
        if (excess_ns <= matters_ns || most_steps_ns(study, &uses[i]) - others_ns <= matters_ns) continue;
        analysis->differences[analysis->difference_count++] = (struct aorta_trace_difference){
            .name = uses[i].name,
            .rank = uses[i].rank,
            .count = uses[i].count,
            .ns = uses[i].ns,
            .others_count = aorta_lower_median_without(study->counts, analysis->rank_count, uses[i].count),
            .others_ns = others_ns,
            .excess_ns = excess_ns,
        };
    }
}

static AORTA_ORDER(largest_first, struct aorta_trace_difference, AORTA_DOWN(excess_ns) AORTA_TEXT(name) AORTA_UP(rank));

static void study_make(struct study *study) {
    struct aorta_trace_analysis *analysis = study->analysis;
    struct aorta_arena *memory = &study->memory;
    size_t most = 0, limit = 0;
    for (size_t i = 0; i < analysis->rank_count; i++) {
        if (analysis->ranks[i].window_count > most) most = analysis->ranks[i].window_count;
        limit += analysis->ranks[i].kernel_count;
    }
    study->step_ns = aorta_arena_alloc(memory, analysis->rank_count * sizeof *study->step_ns);
    study->values = aorta_arena_raw(memory, most * sizeof *study->values);
    study->times = aorta_arena_raw(memory, analysis->rank_count * sizeof *study->times);
    study->counts = aorta_arena_raw(memory, analysis->rank_count * sizeof *study->counts);
    study->uses = aorta_arena_raw(memory, limit * sizeof *study->uses);
    for (size_t i = 0; study->uses && i < analysis->rank_count; i++) collect_rank(study, i);
    analysis->differences = aorta_arena_alloc(&analysis->memory, study->count * sizeof *analysis->differences);
    memory->failed |= analysis->memory.failed;
}

void aorta_trace_differences_make(struct aorta_trace_analysis *analysis, const struct aorta_trace_busy *busy) {
    if (analysis->rank_count < 2) return;
    struct study study = {.analysis = analysis, .busy = busy};
    study_make(&study);
    if (study.memory.failed) study.count = 0;
    if (study.count) qsort(study.uses, study.count, sizeof *study.uses, use_order);
    for (size_t i = 0, same; i < study.count; i += same) {
        for (same = 1; i + same < study.count && strcmp(study.uses[i].name, study.uses[i + same].name) == 0;) same++;
        compare_uses(&study, study.uses + i, same);
    }
    if (analysis->difference_count)
        qsort(analysis->differences, analysis->difference_count, sizeof *analysis->differences, largest_first);
    aorta_arena_end(&study.memory, &analysis->memory);
}
