/* The ledger: runs rules in the table's order. Each rule starts from the results of the previous rules. */
#include "base/sort.h"
#include "base/statistics.h"
#include "verdict/remedy_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct aorta_remedy_rule aorta_remedy_rules[AORTA_REMEDY_COUNT] = {
#define REMEDY(name, key, cause, rule, needs, least, upper, ours, change)                                              \
    {key, cause, change, rule, AORTA_NEEDS_##needs, least, upper, ours},
#include "verdict/remedies.def"
#undef REMEDY
};

/* The key of a cause selects all remedies of the cause that are not upper bounds. */
uint32_t aorta_remedy_find(const char *text) {
    uint32_t set = 0;
    for (int i = 0; i < AORTA_REMEDY_COUNT; i++) {
        const struct aorta_remedy_rule *rule = &aorta_remedy_rules[i];
        if (!strcmp(rule->key, text)) return aorta_remedy_bit((enum aorta_remedy)i);
        if (!strcmp(rule->cause, text) && !rule->upper) set |= aorta_remedy_bit((enum aorta_remedy)i);
    }
    return set;
}

/* ---- claims ---- */

void aorta_remedy_claim(struct remedy_model *model, const struct leaf *leaf, double new_ns, uint32_t gone) {
    const size_t number = aorta_leaf_number(model, leaf);
    const double saved_ns = model->now_ns[number] - fmax(new_ns, 0);
    const uint32_t left = aorta_leaf_work(leaf) - model->gone[number];
    if (!(saved_ns > 0)) return;
    if (gone > left) gone = left;
    model->now_ns[number] -= saved_ns;
    model->gone[number] += gone;
    const bool again = model->gained_ns[number] > 0; /* the same remedy has changed this operation before */
    model->gained_ns[number] += saved_ns;
    if (!leaf->counted) return;
    model->row->alone_ns += saved_ns;
    if (model->rough) model->row->rough_ns += saved_ns;
    model->row->touched_ns += again ? 0 : leaf->ns;
    model->row->operations += !again;
    model->row->gone += gone;
}

void aorta_remedy_claim_together(struct remedy_model *model, const size_t *leaves, size_t count, double ns,
                                 uint32_t stay) {
    double now_ns = 0;
    for (size_t i = 0; i < count; i++) now_ns += model->now_ns[leaves[i]];
    for (size_t i = 0; i < count && ns < now_ns; i++) {
        const struct leaf *leaf = &model->leaves[leaves[i]];
        const uint32_t work = aorta_leaf_work(leaf), stays = i ? 0 : stay < work ? stay : work;
        aorta_remedy_claim(model, leaf, aorta_leaf_now_ns(model, leaf) * ns / now_ns, work - stays);
    }
}

void aorta_remedy_cost(struct remedy_model *model, const struct leaf *leaf, double more_ns) {
    model->now_ns[aorta_leaf_number(model, leaf)] += more_ns;
    model->gained_ns[aorta_leaf_number(model, leaf)] -= more_ns;
    if (leaf->counted) model->row->alone_ns -= more_ns;
}

/* A remedy that costs more than it saves is not applied. */
static void undo(struct remedy_model *model) {
    for (size_t i = 0; i < model->leaf_count; i++) model->now_ns[i] += model->gained_ns[i];
    memcpy(model->gone, model->gone_before, model->leaf_count * sizeof *model->gone);
    memset(model->added, 0, model->leaf_count);
    memset(model->gained_ns, 0, model->leaf_count * sizeof *model->gained_ns);
    model->halved = false;
    *model->row = (struct aorta_remedy_row){0};
}

double aorta_remedy_least(const struct remedy_model *model, double flops, enum leaf_math math, double bytes) {
    return fmax(flops / model->best[math], bytes / model->stream);
}

static void forget(struct remedy_model *model) {
    for (size_t i = 0; i < model->leaf_count; i++) model->now_ns[i] = model->leaves[i].ns;
    memset(model->gone, 0, model->leaf_count * sizeof *model->gone);
    memset(model->added, 0, model->leaf_count);
    memset(model->stays, 0, model->leaf_count * sizeof *model->stays);
    model->attention_fused = model->halved = false;
}

/* The rule starts from the results of all rules since forget(). */
static void run_rule(struct remedy_model *model, enum aorta_remedy remedy, struct aorta_remedy_row *row) {
    const struct aorta_remedy_rule *rule = &aorta_remedy_rules[remedy];
    memset(model->gained_ns, 0, model->leaf_count * sizeof *model->gained_ns);
    *row = (struct aorta_remedy_row){0};
    model->row = row;
    model->rough = false;
    memcpy(model->gone_before, model->gone, model->leaf_count * sizeof *model->gone);
    /* Our own runs have only remedies with a key. */
    const bool applies = model->own ? model->rates && rule->ours : model->rates || rule->needs == AORTA_NEEDS_TIMES;
    /* In our own runs, rules skip operations without shapes. */
    const bool lacks = rule->needs == AORTA_NEEDS_SHAPES && !model->shapes && !model->own;
    if (applies && !lacks) rule->apply(model);
    if (row->alone_ns < 0) undo(model);
    row->alone_ns /= model->steps;
    row->rough_ns /= model->steps;
    row->touched_ns /= model->steps;
    row->operations /= model->steps;
    row->gone /= model->steps;
    row->memory_bytes /= model->steps;
}

/* ---- the largest operation ---- */

/* Operations with the same name and inputs. */
struct alike {
    size_t leaf; /* the first */
    double ns, gained_ns, runs;
};

int aorta_remedy_compare(const struct remedy_model *model, size_t left, size_t right) {
    const struct leaf *a = &model->leaves[left], *b = &model->leaves[right];
    const int names = a->name == b->name ? 0 : strcmp(a->name, b->name);
    if (names) return names;
    return (a->inputs > b->inputs) - (a->inputs < b->inputs);
}

static int by_likeness(const void *left, const void *right, void *user) {
    const size_t a = *(const size_t *)left, b = *(const size_t *)right;
    const int order = aorta_remedy_compare(user, a, b);
    return order ? order : (a > b) - (a < b);
}

void aorta_remedy_order_alike(const struct remedy_model *model, size_t *leaves, size_t count) {
    qsort_r(leaves, count, sizeof *leaves, by_likeness, (void *)(uintptr_t)model);
}

static struct alike largest_group(const struct remedy_model *model, const size_t *order, size_t count) {
    struct alike best = {0}, own = {0};
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || aorta_remedy_compare(model, order[i - 1], order[i])) own = (struct alike){.leaf = order[i]};
        own.ns += model->leaves[order[i]].ns;
        own.gained_ns += model->gained_ns[order[i]];
        own.runs++;
        if (own.gained_ns > best.gained_ns) best = own;
    }
    return best;
}

static const char *dims_of(const struct remedy_model *model, const struct leaf *leaf) {
    const struct aorta_trace *trace = model->trace;
    if (leaf->operation == AORTA_TRACE_NONE) return NULL;
    const uint32_t inputs = trace->operations[leaf->operation].inputs;
    if (inputs == AORTA_TRACE_NONE || trace->inputs[inputs].dims == AORTA_TRACE_NONE) return NULL;
    return aorta_trace_text(trace, trace->inputs[inputs].dims);
}

static void find_largest(const struct remedy_model *model, struct aorta_remedy_row *row) {
    size_t *order = model->order, count = 0;
    for (size_t i = 0; i < model->leaf_count; i++)
        if (model->gained_ns[i] > 0 && model->leaves[i].counted) order[count++] = i;
    aorta_remedy_order_alike(model, order, count);
    if (!count) return;
    const struct alike largest = largest_group(model, order, count);
    row->largest.name = model->leaves[largest.leaf].name;
    row->largest.dims = dims_of(model, &model->leaves[largest.leaf]);
    row->largest.runs = largest.runs / model->steps;
    row->largest.ns = largest.ns / model->steps;
}

/* ---- rates that the run itself reaches ---- */

static const double BEYOND_CACHES = 100e6; /* bytes: operations that move more do not fit into caches */
static const double LARGE_FLOPS = 2e10;
/* Shares of the peaks: USUAL if the run has too few operations to measure a rate, MOST as a limit. */
static const double STREAM_USUAL = 0.85, STREAM_MOST = 0.92;
static const double PRODUCT_USUAL = 0.72, PRODUCT_MOST = 0.8;
/* Share of the streaming rate that compiler-generated fused kernels reach (2.7 to 3.0 of 4.4 TB/s on an H200). */
static const double GENERATED = 0.67;

/* The sorted samples' rate at `place`, 0 … 1; NaN: fewer than `least` samples. */
static double at_place(double *samples, size_t count, size_t least, double place) {
    if (count < least) return NAN;
    aorta_sort_double(samples, count);
    return aorta_percentile_sorted(samples, count, 100 * place);
}

static double find_stream(const struct remedy_model *model, double *samples) {
    const double memory = model->peaks.gbytes_per_s;
    size_t count = 0;
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count) {
        const bool streams = leaf->kind == LEAF_STREAM || leaf->kind == LEAF_COPY || leaf->kind == LEAF_OPTIMIZER;
        if (!streams || aorta_leaf_work(leaf) != 1 || !(leaf->bytes > BEYOND_CACHES) || !(leaf->ns > 0)) continue;
        if (leaf->bytes / leaf->ns < memory) samples[count++] = leaf->bytes / leaf->ns;
    }
    const double found = at_place(samples, count, 8, 0.9);
    return isnan(found) ? STREAM_USUAL * memory : fmin(found, STREAM_MOST * memory);
}

static double find_best(const struct remedy_model *model, enum leaf_math math, double *samples) {
    size_t count = 0;
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count)
        if (leaf->kind == LEAF_PRODUCT && leaf->math == math && leaf->flops > LARGE_FLOPS && leaf->ns > 0 &&
            aorta_remedy_aligned(leaf))
            samples[count++] = leaf->flops / leaf->ns;
    const double found = at_place(samples, count, 3, 0.5);
    return isnan(found) ? PRODUCT_USUAL * model->peak[math] : fmin(found, PRODUCT_MOST * model->peak[math]);
}

static void find_rates(struct remedy_model *model) {
    enum aorta_arithmetic arithmetic[MATH_COUNT] = {AORTA_ARITHMETIC_UNKNOWN, AORTA_IN_FP32, AORTA_IN_TF32,
                                                    AORTA_IN_BF16, AORTA_IN_FP8};
    double *samples = model->gained_ns; /* unused so far, as no remedy runs yet */
    for (int i = 0; i < MATH_COUNT; i++) {
        const bool known = arithmetic[i] != AORTA_ARITHMETIC_UNKNOWN;
        if (i == MATH_HALF && isnan(model->peaks.tflops[AORTA_IN_BF16]))
            arithmetic[i] = AORTA_IN_FP16; /* before Ampere */
        model->peak[i] = known ? 1e3 * model->peaks.tflops[arithmetic[i]] : NAN;
        model->best[i] = known ? find_best(model, (enum leaf_math)i, samples) : NAN;
    }
    model->rates = !isnan(model->peak[MATH_HALF]);
    model->stream = model->rates ? find_stream(model, samples) : 1; /* without rates only ratios matter */
    model->fused = GENERATED * model->stream;
}

/* ---- all remedies ---- */

static void run_all(struct aorta_remedies *remedies) {
    struct remedy_model *model = remedies->model;
    for (int i = 0; i < AORTA_REMEDY_COUNT; i++) {
        struct aorta_remedy_row *row = &remedies->rows[i];
        forget(model);
        run_rule(model, (enum aorta_remedy)i, row);
        if (row->alone_ns > 0) find_largest(model, row);
    }
}

struct aorta_remedies_applied aorta_remedies_apply(struct aorta_remedies *remedies, uint32_t set,
                                                   struct aorta_work_scale *scales) {
    struct remedy_model *model = remedies->model;
    struct aorta_remedies_applied applied = {0};
    model->remedies = remedies; /* the caller may have moved the struct */
    model->memory = &remedies->memory;
    forget(model);
    for (int i = 0; i < AORTA_REMEDY_COUNT; i++) {
        struct aorta_remedy_row row;
        if (!(set & aorta_remedy_bit((enum aorta_remedy)i))) continue;
        run_rule(model, (enum aorta_remedy)i, &row);
        applied.saved_ns += row.alone_ns;
    }
    for (size_t i = 0; i < model->leaf_count; i++) {
        const struct leaf *leaf = &model->leaves[i];
        const float left = leaf->ns > 0 ? (float)(model->now_ns[i] / leaf->ns) : 1;
        const uint32_t gone = model->gone[i];
        applied.gone += leaf->counted ? gone / model->steps : 0;
        applied.added += leaf->counted && left > 0 ? model->added[i] / model->steps : 0;
        /* The last `gone` kernels of an operation are removed. */
        const uint32_t work = aorta_leaf_work(leaf), stay = work - gone;
        for (uint32_t j = 0, row = leaf->first_work; j < work; j++, row = model->next_work[row])
            scales[row] =
                (struct aorta_work_scale){.left = left, .gone = j >= stay, .added = j == 0 ? model->added[i] : 0};
    }
    if (model->own && set & aorta_remedy_bit(AORTA_REMEDY_BF16)) aorta_remedy_own_gathers(model, scales);
    return applied;
}

/* The inputs of products and fused attention may lack tensors that the kernels read (weights of experts, caches). Their
 * bytes therefore count only if their arithmetic is known. */
static bool is_sized(const struct leaf *leaf) {
    const bool multiplies = leaf->kernels_any & (AORTA_KERNEL_PRODUCT | AORTA_KERNEL_FUSED_ATTENTION);
    return !isnan(leaf->flops) || (!isnan(leaf->bytes) && !multiplies);
}

/* The least time of an operation at these rates, at most its recorded time. */
static double bound_ns(const struct leaf *leaf, double rate, double bandwidth) {
    if (!is_sized(leaf)) return leaf->ns;
    const double arithmetic = leaf->flops > 0 && leaf->math != MATH_NONE ? leaf->flops / rate : 0;
    const double bound = fmax(arithmetic, leaf->bytes / bandwidth); /* NaN counts as 0 */
    return bound > 0 && bound < leaf->ns ? bound : leaf->ns;
}

/* Its arithmetic is in 16 bits or fewer. */
static bool is_narrow(const struct leaf *leaf) {
    return leaf->math == MATH_HALF || leaf->math == MATH_FP8 || leaf->kernels_any & AORTA_KERNEL_HALF ||
           leaf->kernels_any & AORTA_KERNEL_FP8;
}

static void add_bounds(struct aorta_remedies *remedies) {
    const struct remedy_model *model = remedies->model;
    if (isnan(model->peak[MATH_HALF])) remedies->at_peak_ns = remedies->at_reached_ns = NAN;
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count) {
        if (!leaf->counted || leaf->kind == LEAF_TRANSFER) continue;
        remedies->bounded_ns += leaf->ns / model->steps;
        if (is_sized(leaf)) remedies->sized_ns += leaf->ns / model->steps;
        remedies->halved_ns += is_narrow(leaf) ? leaf->ns / model->steps : 0;
        remedies->at_peak_ns += bound_ns(leaf, model->peak[leaf->math], model->peaks.gbytes_per_s) / model->steps;
        const bool fused = leaf->kind == LEAF_ATTENTION; /* the rate of products does not apply */
        remedies->at_reached_ns +=
            (fused ? leaf->ns : bound_ns(leaf, model->best[leaf->math], model->stream)) / model->steps;
    }
}

static void reserve(struct remedy_model *model) {
    const struct aorta_trace *trace = model->trace;
    const size_t texts = aorta_trace_text_count(trace) + 1;
    model->next_work = aorta_arena_alloc(model->memory, (trace->work_count + 1) * sizeof *model->next_work);
    model->inputs = aorta_arena_alloc(model->memory, ((model->own ? trace->shape_count : trace->input_count) + 1) *
                                                         sizeof(struct aorta_inputs *));
    model->op_bits = aorta_arena_alloc(model->memory, texts * sizeof *model->op_bits);
    model->kernel_bits = aorta_arena_alloc(model->memory, texts * sizeof *model->kernel_bits);
}

static void reserve_ledger(struct remedy_model *model) {
    const size_t leaves = model->leaf_count + 1;
    model->now_ns = aorta_arena_alloc(model->memory, leaves * sizeof *model->now_ns);
    model->gained_ns = aorta_arena_alloc(model->memory, leaves * sizeof *model->gained_ns);
    model->gone = aorta_arena_alloc(model->memory, leaves * sizeof *model->gone);
    model->gone_before = aorta_arena_alloc(model->memory, leaves * sizeof *model->gone_before);
    model->added = aorta_arena_alloc(model->memory, leaves);
    model->stays = aorta_arena_alloc(model->memory, leaves * sizeof *model->stays);
    model->order = aorta_arena_alloc(model->memory, leaves * sizeof *model->order);
}

static bool has_shapes(const struct aorta_trace *trace) {
    for (size_t i = 0; i < trace->input_count; i++)
        if (trace->inputs[i].types != AORTA_TRACE_NONE) return true;
    return false;
}

static void add_plain(struct aorta_remedies *remedies) {
    static const char *const before_tf32[] = {"maxwell_", "pascal_", "volta_", "turing_", NULL};
    const struct remedy_model *model = remedies->model;
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count) {
        if (!aorta_leaf_multiplies(leaf) || !leaf->counted || leaf->math != MATH_FP32) continue;
        remedies->plain.ns += leaf->ns / model->steps;
        remedies->plain.operations += 1 / model->steps;
        remedies->plain.before_tf32 |= aorta_has_any(leaf->kernel, before_tf32);
    }
}

static void make(const struct aorta_trace_analysis *analysis, size_t rank, struct aorta_remedies *remedies) {
    static const double MUCH = 0.1;
    struct remedy_model *model = remedies->model;
    model->remedies = remedies;
    model->memory = &remedies->memory;
    model->rank = &analysis->ranks[rank];
    model->trace = model->rank->trace;
    model->steps = model->rank->steps ? (double)model->rank->steps : 1;
    model->own = model->trace->measured != NULL;
    model->shapes = has_shapes(model->trace);
    model->operations = aorta_trace_has_operations(model->trace);
    if (!model->own && !model->shapes) remedies->lacks = model->operations ? "shapes" : "operations";
    aorta_rank_peaks(analysis, rank, &model->peaks);
    remedies->no_bf16 = isnan(model->peaks.tflops[AORTA_IN_BF16]);
    remedies->amd = model->peaks.device && !strncmp(model->peaks.device, "AMD", 3);
    reserve(model);
    if (!remedies->memory.failed) aorta_remedy_leaves(model, analysis);
    reserve_ledger(model);
    if (remedies->memory.failed) return;
    double convolutions_ns = 0;
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count) {
        const double ns = leaf->counted ? leaf->ns / model->steps : 0;
        remedies->looks_up |= aorta_remedy_looks_up(leaf);
        remedies->norms_batches |= leaf->kernels_any & (AORTA_KERNEL_BATCH_NORM | AORTA_KERNEL_PLANE_NORM);
        remedies->kernels_ns += ns;
        convolutions_ns += leaf->kind == LEAF_CONVOLUTION ? ns : 0;
    }
    remedies->convolves = convolutions_ns > MUCH * remedies->kernels_ns;
    find_rates(model);
    if (!model->rates)
        remedies->unknown = model->peaks.reason ? model->peaks.reason : "the device's rate in 16 bits is not known";
    add_bounds(remedies);
    if (remedies->unknown) add_plain(remedies);
    run_all(remedies);
}

aorta_status aorta_remedies_make(const struct aorta_trace_analysis *analysis, size_t rank,
                                 struct aorta_remedies *remedies) {
    *remedies = (struct aorta_remedies){0};
    remedies->model = aorta_arena_alloc(&remedies->memory, sizeof *remedies->model);
    if (remedies->model) make(analysis, rank, remedies);
    aorta_status status = aorta_arena_check(&remedies->memory, "the remedies");
    if (status) aorta_remedies_free(remedies);
    return status;
}

bool aorta_remedy_row_is_rough(const struct aorta_remedy_row *row) {
    return row->rough_ns > 0.5 * row->alone_ns;
}

void aorta_remedies_settle(struct aorta_remedies *remedies) {
    aorta_arena_free(&remedies->memory);
    remedies->model = NULL;
}

void aorta_remedies_free(struct aorta_remedies *remedies) {
    aorta_remedies_settle(remedies);
    *remedies = (struct aorta_remedies){0};
}
