/* Remedies of compute as findings. The gain of each remedy comes from a replay with shorter kernels. */
#include "base/parallel.h"
#include "verdict/causes.h"
#include "verdict/verdict_internal.h"

#include <math.h>
#include <stdlib.h>

static const double WORTH = 0.005; /* of the kernels: remedies that save less are not replayed */
static const double SHOWN = 0.01;  /* of the step: remedies that gain less have no finding */

struct aorta_remedy_gains {
    struct aorta_arena memory;
    const struct aorta_trace_analysis *analysis;
    const struct aorta_trace_graph *built;
    struct aorta_remedies *ranks;     /* of each rank of the analysis */
    struct aorta_work_scale **scales; /* of each rank, by row of its trace's work[] */
    size_t rank_count;
    enum aorta_framework framework; /* of the first rank; stored, as finding it reads all names */
    struct aorta_replay replay;
    struct aorta_graph scaled;          /* with the remedies measured last; at the end: remedies with a finding */
    double step_ns;                     /* without remedies */
    double gain_ns[AORTA_REMEDY_COUNT]; /* alone */
    double then_ns[AORTA_REMEDY_COUNT]; /* after all earlier remedies of the table */
    const struct aorta_gains *found;
    double behind_ns[AORTA_REMEDY_COUNT]; /* remedies hidden by the host: gain after all causes are removed */
    double joint_ns[AORTA_REMEDY_COUNT];  /* … and gain together with one cause, the partner; 0: no partner */
    enum aorta_removal partner[AORTA_REMEDY_COUNT];
    double unequal_ns[AORTA_REMEDY_COUNT]; /* part of the gain that equal kernels on all ranks would save, too */
    double busy_ns;                        /* of the device, per step */
    bool collectives;                      /* the steps have collectives */
    bool with_attention; /* 16 bits gain much more with fused attention, which does not exist in fp32 */
    double paired_ns;    /* gain of 16 bits with fused attention */
    double together_ns;  /* the step with all remedies in `set` */
    double without_ns;   /* the step with remedies that have a finding, without all causes; infinite: no such remedy */
    uint32_t set;        /* remedies that are replayed */
};

/* ---- ranks ---- */

static aorta_status make_rank(void *user, size_t rank) {
    const struct aorta_remedy_gains *measured = user;
    return aorta_remedies_make(measured->analysis, rank, &measured->ranks[rank]);
}

static aorta_status make_ranks(struct aorta_remedy_gains *measured) {
    const size_t count = measured->analysis->rank_count;
    measured->ranks = aorta_arena_alloc(&measured->memory, (count + 1) * sizeof *measured->ranks);
    measured->scales = aorta_arena_alloc(&measured->memory, (count + 1) * sizeof(struct aorta_work_scale *));
    measured->rank_count = measured->memory.failed ? 0 : count;
    for (size_t i = 0; i < measured->rank_count; i++) { /* allocated together, to limit gaps in the heap */
        const size_t work = measured->analysis->ranks[i].trace->work_count + 1;
        measured->scales[i] = aorta_arena_raw(&measured->memory, work * sizeof **measured->scales);
    }
    AORTA_TRY(aorta_arena_check(&measured->memory, "the remedies"));
    return aorta_parallel(count, make_rank, measured);
}

static void free_ranks(struct aorta_remedy_gains *measured) {
    for (size_t i = 0; i < measured->rank_count; i++) aorta_remedies_free(&measured->ranks[i]);
    aorta_arena_free(&measured->memory);
    aorta_replay_free(&measured->replay);
    aorta_graph_scaled_free(&measured->scaled);
}

static bool is_worth(const struct aorta_remedy_gains *measured, enum aorta_remedy remedy) {
    double saved_ns = 0, all_ns = 0;
    for (size_t i = 0; i < measured->rank_count; i++) {
        saved_ns += measured->ranks[i].rows[remedy].alone_ns;
        all_ns += measured->ranks[i].kernels_ns;
    }
    return saved_ns > WORTH * all_ns && !aorta_remedy_rules[remedy].upper;
}

/* ---- the step ---- */

/* Returns the savings, mean over ranks. */
static struct aorta_remedies_applied fill_scales(struct aorta_remedy_gains *measured, uint32_t set) {
    const double ranks = measured->rank_count ? (double)measured->rank_count : 1;
    struct aorta_remedies_applied mean = {0};
    for (size_t i = 0; i < measured->rank_count; i++) {
        const size_t count = measured->analysis->ranks[i].trace->work_count;
        for (size_t j = 0; j < count; j++) measured->scales[i][j] = (struct aorta_work_scale){.left = 1};
        const struct aorta_remedies_applied own = aorta_remedies_apply(&measured->ranks[i], set, measured->scales[i]);
        measured->memory.failed |= measured->ranks[i].memory.failed;
        mean.saved_ns += own.saved_ns / ranks;
        mean.gone += own.gone / ranks;
        mean.added += own.added / ranks;
    }
    return mean;
}

static void scale_graph(const struct aorta_remedy_gains *measured, struct aorta_graph *scaled) {
    aorta_graph_scale(measured->built, (const struct aorta_work_scale *const *)measured->scales, scaled);
}

static double step_with(struct aorta_remedy_gains *measured, uint32_t set, uint32_t removed) {
    (void)fill_scales(measured, set);
    scale_graph(measured, &measured->scaled);
    aorta_replay_run(&measured->scaled, removed, &measured->replay);
    return measured->replay.step_ns;
}

static double less(double before_ns, double after_ns) {
    return after_ns < before_ns ? before_ns - after_ns : 0;
}

/* Most remedies gain alone. A hidden remedy gains only together with the fix of the cause that hides it. */
static double row_gain_ns(const struct aorta_remedy_gains *measured, enum aorta_remedy remedy) {
    const double paired_ns = remedy == AORTA_REMEDY_BF16 ? measured->paired_ns : 0;
    return fmax(fmax(measured->gain_ns[remedy], measured->behind_ns[remedy]), paired_ns);
}

static const double PART = 0.02; /* of the step: remedies are measured together with causes that gain at least this */

/* The remedy and the removal of the straggler may shorten the same kernels of the late rank. */
static void measure_unequal(struct aorta_remedy_gains *measured, enum aorta_remedy remedy) {
    const double equal_ns = measured->found->gain_ns[AORTA_WITHOUT_STRAGGLER];
    if (equal_ns < PART * measured->step_ns || measured->gain_ns[remedy] < SHOWN * measured->step_ns) return;
    const double with_ns = step_with(measured, aorta_remedy_bit(remedy), aorta_removal_bit(AORTA_WITHOUT_STRAGGLER));
    measured->unequal_ns[remedy] = equal_ns + measured->gain_ns[remedy] - less(measured->step_ns, with_ns);
}

static const uint32_t EVERYTHING = (UINT32_C(1) << AORTA_REMOVAL_COUNT) - 1;

/* The cause with the largest joint gain, if most of the joint gain is the remedy's. */
static void find_partner(struct aorta_remedy_gains *measured, enum aorta_remedy remedy) {
    for (int i = 0; i < AORTA_REMOVAL_COUNT; i++) { /* late launches may gain only if kernels are shorter */
        if (i != AORTA_WITHOUT_HOST_LAUNCH && measured->found->gain_ns[i] < PART * measured->step_ns) continue;
        const double with_ns = step_with(measured, aorta_remedy_bit(remedy), aorta_removal_bit((enum aorta_removal)i));
        const double joint_ns = less(measured->step_ns, with_ns);
        const bool mostly_own = joint_ns - measured->found->gain_ns[i] >= 0.5 * joint_ns;
        if (!mostly_own || joint_ns <= measured->joint_ns[remedy]) continue;
        measured->joint_ns[remedy] = joint_ns;
        measured->partner[remedy] = (enum aorta_removal)i;
    }
}

/* Remedies that make kernels much shorter while the step waits for something else. */
static void measure_hidden(struct aorta_remedy_gains *measured) {
    static const double MUCH = 0.05, LITTLE = 0.1; /* of the step; of what the kernels save */
    double without_ns = 0;
    for (int i = 0; i < AORTA_REMEDY_COUNT; i++) {
        const uint32_t bit = aorta_remedy_bit((enum aorta_remedy)i);
        const double saved_ns = measured->rank_count ? measured->ranks[0].rows[i].alone_ns : 0;
        if (!(measured->set & bit) || measured->gain_ns[i] >= fmax(SHOWN * measured->step_ns, LITTLE * saved_ns))
            continue;
        if (saved_ns < MUCH * measured->step_ns) continue;
        if (!(without_ns > 0)) without_ns = step_with(measured, 0, EVERYTHING);
        measured->behind_ns[i] = less(without_ns, step_with(measured, bit, EVERYTHING));
        find_partner(measured, (enum aorta_remedy)i);
    }
}

/* Remedies that are applied together with this remedy. */
static uint32_t partners(const struct aorta_remedy_gains *measured, enum aorta_remedy remedy) {
    return remedy == AORTA_REMEDY_BF16 && measured->with_attention ? aorta_remedy_bit(AORTA_REMEDY_ATTENTION) : 0;
}

/* Remedies with a finding. */
static uint32_t said(const struct aorta_remedy_gains *measured) {
    uint32_t set = 0;
    for (int i = 0; i < AORTA_REMEDY_COUNT; i++)
        if (row_gain_ns(measured, (enum aorta_remedy)i) >= SHOWN * measured->step_ns)
            set |= aorta_remedy_bit((enum aorta_remedy)i) | partners(measured, (enum aorta_remedy)i);
    return set;
}

static void measure_steps(struct aorta_remedy_gains *measured) {
    double before_ns = measured->step_ns;
    uint32_t set = 0;
    for (int i = 0; i < AORTA_REMEDY_COUNT; i++) {
        const uint32_t bit = aorta_remedy_bit((enum aorta_remedy)i);
        if (!(measured->set & bit)) continue;
        const uint32_t together = bit | partners(measured, (enum aorta_remedy)i);
        set |= together;
        double alone_ns = step_with(measured, bit, 0);
        measured->gain_ns[i] = less(measured->step_ns, alone_ns);
        measure_unequal(measured, (enum aorta_remedy)i);
        if (together != bit) alone_ns = step_with(measured, together, 0);
        if (together != bit) measured->paired_ns = less(measured->step_ns, alone_ns);
        if (set != bit) alone_ns = step_with(measured, set, 0);
        measured->then_ns[i] = less(before_ns, alone_ns);
        before_ns -= measured->then_ns[i];
    }
    measured->together_ns = before_ns;
    measure_hidden(measured);
    set = said(measured);
    measured->without_ns = set ? step_with(measured, set, EVERYTHING) : INFINITY;
}

/* ---- findings ---- */

/* The rank whose kernels the remedy shortens most. */
static size_t largest_rank(const struct aorta_remedy_gains *measured, enum aorta_remedy remedy) {
    size_t most = 0;
    for (size_t i = 1; i < measured->rank_count; i++)
        if (measured->ranks[i].rows[remedy].alone_ns > measured->ranks[most].rows[remedy].alone_ns) most = i;
    return most;
}

static void set(struct aorta_finding *finding, enum aorta_fact_key key, double value) {
    (void)aorta_facts_set(&finding->facts, key, value);
}

/* Sets the time of all kernels of a rank, of which the changed operations are a part. */
static void set_kernels(const struct aorta_remedy_gains *measured, size_t rank, struct aorta_finding *finding) {
    static const double BESIDE = 1.05;
    const double kernels_ns = measured->ranks[rank].kernels_ns;
    struct aorta_fact *all = aorta_facts_set(&finding->facts, AORTA_FACT_KERNELS, kernels_ns / 1e6);
    if (kernels_ns > BESIDE * measured->busy_ns) all->text = " of work on several streams";
    if (measured->rank_count > 1) all->place.rank = measured->analysis->ranks[rank].rank;
}

/* Facts about the changed operations, and the operation that gains most. */
static void add_touched(const struct aorta_remedy_gains *measured, size_t most, enum aorta_remedy remedy,
                        struct aorta_finding *finding) {
    const struct aorta_remedies *rank = &measured->ranks[most];
    const struct aorta_remedy_row *row = &rank->rows[remedy];
    if (!row->largest.name) return;
    set(finding, AORTA_FACT_OPERATIONS, row->operations);
    set(finding, AORTA_FACT_TOUCHED, row->touched_ns / 1e6);
    set_kernels(measured, most, finding);
    struct aorta_fact *fact =
        aorta_facts_set_named(&finding->facts, AORTA_FACT_OPERATION, row->largest.ns / 1e6, row->largest.name);
    fact->place.shape = aorta_facts_text(&finding->facts, row->largest.dims);
    fact->place.count = row->largest.runs;
    if (row->memory_bytes > 0) set(finding, AORTA_FACT_MEMORY, row->memory_bytes / 1073741824.0);
}

/* The earlier remedy of another cause with the largest gain, which saves the same time; COUNT: none has a finding. */
static int shared_with(const struct aorta_remedy_gains *measured, enum aorta_remedy remedy) {
    const char *own = aorta_remedy_rules[remedy].cause;
    double most_ns = 0;
    int most = AORTA_REMEDY_COUNT;
    for (int i = 0; i < (int)remedy; i++) {
        if (measured->gain_ns[i] < SHOWN * measured->step_ns || measured->gain_ns[i] <= most_ns) continue;
        if (strcmp(aorta_remedy_rules[i].cause, own) == 0) continue; /* an alternative, not a second fix */
        most_ns = measured->gain_ns[i];
        most = i;
    }
    return most;
}

static void add_relations(const struct aorta_remedy_gains *measured, enum aorta_remedy remedy,
                          const struct aorta_remedy_row *row, struct aorta_finding *finding) {
    const double gain_ns = measured->gain_ns[remedy], then_ns = measured->then_ns[remedy];
    static const double MUCH = 0.25;
    const double unequal_ns = measured->unequal_ns[remedy];
    const bool paired = partners(measured, remedy) != 0;
    if (paired) aorta_facts_flag(&finding->facts, AORTA_FACT_WITH_ATTENTION);
    finding->only_after = measured->behind_ns[remedy] > 0;
    finding->joint_ms = measured->joint_ns[remedy] / 1e6;
    finding->partner = AORTA_CAUSE_COUNT;
    if (finding->joint_ms > 0) finding->partner = aorta_cause_named(aorta_removal_cause(measured->partner[remedy]));
    const double lesser_ns = fmin(gain_ns, measured->found->gain_ns[AORTA_WITHOUT_STRAGGLER]);
    if (unequal_ns > MUCH * lesser_ns)
        aorta_gains_share(finding, AORTA_CAUSE_STRAGGLER, fmin(unequal_ns, lesser_ns) / 1e6);
    if (!paired && !finding->only_after && then_ns < 0.95 * gain_ns) {
        const int other = then_ns < 0.5 * gain_ns ? shared_with(measured, remedy) : AORTA_REMEDY_COUNT;
        if (other < AORTA_REMEDY_COUNT)
            aorta_gains_share(finding, aorta_cause_named(aorta_remedy_rules[other].cause),
                              fmin(gain_ns - then_ns, measured->gain_ns[other]) / 1e6);
    }
    set(finding, AORTA_FACT_KERNEL_GAIN, row->alone_ns / 1e6);
    if (!finding->only_after && gain_ns < 0.8 * row->alone_ns) {
        aorta_facts_set(&finding->facts, AORTA_FACT_WAITS_FOR_HOST, 1)->text =
            measured->collectives ? " or a collective" : NULL;
    } else if (row->gone > 0 && gain_ns > 1.25 * row->alone_ns + 0.01 * measured->step_ns) {
        const double more_ms = (gain_ns - row->alone_ns) / 1e6;
        set(finding, AORTA_FACT_LAUNCH_GAIN, more_ms);
        aorta_gains_share(finding, AORTA_CAUSE_HOST_LAUNCH, more_ms);
    }
}

static void add_facts(const struct aorta_remedy_gains *measured, enum aorta_remedy remedy,
                      struct aorta_finding *finding) {
    enum { MANY_GROUPS = 24 };
    const size_t most = largest_rank(measured, remedy);
    const struct aorta_remedies *rank = &measured->ranks[most];
    const struct aorta_remedy_row *row = &rank->rows[remedy];
    add_touched(measured, most, remedy, finding);
    add_relations(measured, remedy, row, finding);
    if (aorta_remedy_row_is_rough(row) && rank->lacks) {
        struct aorta_fact *unsized = aorta_facts_set(&finding->facts, AORTA_FACT_UNSIZED, 1);
        const bool kineto = measured->analysis->ranks[0].trace->format == AORTA_TRACE_KINETO;
        if (kineto && aorta_framework_is_torch(measured->framework)) unsized->text = "record_shapes=True";
    }
    if (remedy == AORTA_REMEDY_OPTIMIZER && row->operations - row->gone >= MANY_GROUPS) /* each keeps a kernel */
        set(finding, AORTA_FACT_PARAMETER_GROUPS, row->operations - row->gone);
    if (remedy == AORTA_REMEDY_ATTENTION && rank->fallback) aorta_facts_flag(&finding->facts, AORTA_FACT_FALLBACK);
    const bool batched =
        row->largest.name && strstr(row->largest.name, "bmm"); /* of activations, not of a vocabulary */
    if (remedy == AORTA_REMEDY_ALIGNMENT && rank->looks_up && !batched)
        aorta_facts_flag(&finding->facts, AORTA_FACT_VOCABULARY);
    if (measured->ranks[0].amd) aorta_facts_flag(&finding->facts, AORTA_FACT_AMD);
    if (rank->norms_batches && rank->convolves) aorta_facts_flag(&finding->facts, AORTA_FACT_BATCH_NORMS);
    if (rank->norms_batches || rank->convolves) aorta_facts_flag(&finding->facts, AORTA_FACT_CONVOLVES);
    if (!measured->analysis->ranks[0].trains) aorta_facts_flag(&finding->facts, AORTA_FACT_NO_GRADIENTS);
    if (remedy == AORTA_REMEDY_INDEXING && row->largest.name && strstr(row->largest.name, "embedding"))
        aorta_facts_flag(&finding->facts, AORTA_FACT_EMBEDS);
    if (remedy == AORTA_REMEDY_WEIGHTS && rank->widens) aorta_facts_flag(&finding->facts, AORTA_FACT_WIDENS);
    if (remedy == AORTA_REMEDY_CACHE && rank->reorders) aorta_facts_flag(&finding->facts, AORTA_FACT_REORDERS);
    if (remedy == AORTA_REMEDY_LAYOUT && aorta_trace_has_text(measured->analysis->ranks[0].trace, "cudnn"))
        aorta_facts_flag(&finding->facts, AORTA_FACT_CUDNN);
    if (measured->ranks[0].all_fp64) aorta_facts_flag(&finding->facts, AORTA_FACT_ALL_FP64);
    if (measured->ranks[0].no_bf16) aorta_facts_flag(&finding->facts, AORTA_FACT_NO_BF16);
}

/* If rates are unknown, fp32 products are a finding without a gain, unless the program uses no framework. */
static void add_plain(const struct aorta_remedy_gains *measured, struct aorta_verdict *verdict) {
    static const double MUCH = 0.1;
    const struct aorta_remedies *first = &measured->ranks[0];
    const bool native =
        measured->framework == AORTA_FRAMEWORK_OTHER || measured->framework == AORTA_FRAMEWORK_DIRECTIVES;
    if (native || first->plain.ns < MUCH * measured->step_ns) return;
    struct aorta_finding *finding = aorta_gains_new_finding(verdict, AORTA_CAUSE_PRECISION);
    finding->remedy = first->plain.before_tf32 ? "precision=bf16" : "precision=tf32";
    if (first->plain.before_tf32) aorta_facts_flag(&finding->facts, AORTA_FACT_NO_BF16);
    set(finding, AORTA_FACT_OPERATIONS, first->plain.operations);
    set(finding, AORTA_FACT_TOUCHED, first->plain.ns / 1e6);
    set_kernels(measured, 0, finding);
    aorta_facts_flag(&finding->facts, AORTA_FACT_GAIN_UNKNOWN);
}

/* Sets the reason why no remedy can be computed, or the data that the file lacks for more remedies. */
static void add_lacks(const struct aorta_remedy_gains *measured, struct aorta_verdict *verdict,
                      struct aorta_finding *compute) {
    const char *lacks = NULL;
    for (size_t i = 0; i < measured->rank_count && !lacks; i++) lacks = measured->ranks[i].lacks;
    const char *unknown = measured->rank_count && !verdict->host_only ? measured->ranks[0].unknown : NULL;
    if (unknown) aorta_facts_set(&compute->facts, AORTA_FACT_NO_PEAKS, 1)->text = unknown;
    if (unknown)
        add_plain(measured, verdict);
    else if (lacks && aorta_framework_is_torch(measured->framework))
        aorta_facts_set(&compute->facts, AORTA_FACT_LACKS, 1)->text = lacks;
}

/* If products already use 16 bits, advice must not suggest 16 bits. */
static void mark_narrow(const struct aorta_remedy_gains *measured, struct aorta_finding *compute) {
    static const double MUCH = 0.3;
    const struct aorta_remedies *first = &measured->ranks[0];
    if (measured->rank_count && first->halved_ns >= MUCH * first->bounded_ns)
        aorta_facts_flag(&compute->facts, AORTA_FACT_NARROW);
}

/* If all remedies together gain less than 5% of the step: the time at the card's rates. */
static void add_bounds(const struct aorta_remedy_gains *measured, struct aorta_finding *compute) {
    static const double LITTLE = 0.05, MOST_KNOWN = 0.6;
    const struct aorta_remedies *first = &measured->ranks[0];
    if (!measured->rank_count || first->lacks || !(first->at_peak_ns > 0)) return;
    if (first->sized_ns < MOST_KNOWN * first->bounded_ns) return;
    if (measured->step_ns - measured->together_ns >= LITTLE * measured->step_ns) return;
    set(compute, AORTA_FACT_BOUNDED, first->bounded_ns / 1e6);
    set(compute, AORTA_FACT_AT_PEAK, first->at_peak_ns / 1e6);
    set(compute, AORTA_FACT_AT_REACHED, first->at_reached_ns / 1e6);
    if (first->rows[AORTA_REMEDY_FP8].alone_ns > LITTLE * measured->step_ns)
        set(compute, AORTA_FACT_FP8_GAIN, first->rows[AORTA_REMEDY_FP8].alone_ns / 1e6);
}

/* A gain that follows from names alone is an upper bound. Fusion and layouts gain at least half of it, other remedies
 * most of it (docs/results.md, worse and better programs). */
static double least_share(const struct aorta_remedy_gains *measured, enum aorta_remedy remedy) {
    const bool moves = remedy == AORTA_REMEDY_FUSION || remedy == AORTA_REMEDY_LAYOUT;
    const double named = moves ? 0.5 : 0.7;
    const double share = aorta_remedy_rules[remedy].least;
    const bool rough = aorta_remedy_row_is_rough(&measured->ranks[largest_rank(measured, remedy)].rows[remedy]);
    return rough ? fmin(share, named) : share;
}

/* Names alone show which launches of an optimizer disappear. Only the saved kernel time is uncertain. */
static double least_gain_ns(const struct aorta_remedy_gains *measured, enum aorta_remedy remedy, double gain_ns) {
    const double kernels_ns = measured->ranks[largest_rank(measured, remedy)].rows[remedy].alone_ns;
    const double uncertain_ns = remedy == AORTA_REMEDY_OPTIMIZER ? fmin(gain_ns, kernels_ns) : gain_ns;
    return gain_ns - uncertain_ns * (1 - least_share(measured, remedy));
}

static void add_findings(const struct aorta_remedy_gains *measured, struct aorta_verdict *verdict) {
    for (int i = 0; i < AORTA_REMEDY_COUNT; i++) {
        const double gain_ns = row_gain_ns(measured, (enum aorta_remedy)i);
        if (!(gain_ns >= SHOWN * measured->step_ns)) continue;
        struct aorta_finding *finding =
            aorta_gains_new_finding(verdict, aorta_cause_named(aorta_remedy_rules[i].cause));
        finding->remedy = aorta_remedy_rules[i].key;
        finding->gain_ms = gain_ns / 1e6;
        finding->gain_share = gain_ns / measured->step_ns;
        finding->alone_ms = measured->gain_ns[i] / 1e6;
        finding->then_ms = measured->then_ns[i] / 1e6;
        finding->gain_range_ms[0] = least_gain_ns(measured, (enum aorta_remedy)i, gain_ns) / 1e6;
        finding->gain_range_ms[1] = finding->gain_ms;
        add_facts(measured, (enum aorta_remedy)i, finding);
    }
}

/* Unfused attention in fp32 has no fused form, and in 16 bits its softmax stays in fp32. Only 16 bits with fused
 * attention gain. */
static bool needs_attention(struct aorta_remedy_gains *found) {
    static const double MUCH = 1.25;
    const uint32_t half = aorta_remedy_bit(AORTA_REMEDY_BF16), attention = aorta_remedy_bit(AORTA_REMEDY_ATTENTION);
    if (!found->rank_count || !found->ranks[0].wide_attention) return false;
    const double apart_ns = fill_scales(found, half).saved_ns + fill_scales(found, attention).saved_ns;
    return fill_scales(found, half | attention).saved_ns > MUCH * apart_ns;
}

aorta_status aorta_remedy_gains_find(const struct aorta_trace_analysis *analysis, struct aorta_remedy_gains **gains) {
    struct aorta_remedy_gains *found = calloc(1, sizeof *found);
    *gains = found;
    if (!found) return AORTA_ERROR(AORTA_MEMORY, "no memory for the remedies");
    found->analysis = analysis;
    if (analysis->rank_count) found->framework = aorta_trace_framework(analysis->ranks[0].trace);
    AORTA_TRY(make_ranks(found));
    for (int i = 0; i < AORTA_REMEDY_COUNT; i++)
        if (is_worth(found, (enum aorta_remedy)i)) found->set |= aorta_remedy_bit((enum aorta_remedy)i);
    found->with_attention = needs_attention(found);
    if (found->with_attention) found->set |= aorta_remedy_bit(AORTA_REMEDY_BF16);
    for (size_t i = 0; i < found->rank_count && !found->set; i++) aorta_remedies_settle(&found->ranks[i]);
    return NULL;
}

void aorta_remedy_gains_free(struct aorta_remedy_gains *gains) {
    if (gains) free_ranks(gains);
    free(gains);
}

void aorta_remedy_gains_add(struct aorta_remedy_gains *gains, const struct aorta_trace_graph *built,
                            const struct aorta_gains *found, struct aorta_verdict *verdict) {
    gains->built = built;
    gains->found = found;
    gains->step_ns = found->replayed_ns;
    gains->collectives = verdict->comm_ms > 0;
    gains->busy_ns = 1e6 * (verdict->step_ms_mean - verdict->idle_ms);
    measure_steps(gains);
    verdict->arena->failed |= gains->memory.failed || gains->replay.memory.failed;
    add_findings(gains, verdict);
    struct aorta_finding *compute = aorta_verdict_find(verdict, AORTA_CAUSE_COMPUTE);
    if (compute && !gains->analysis->measured) add_lacks(gains, verdict, compute);
    if (compute) add_bounds(gains, compute);
    if (compute) mark_narrow(gains, compute);
    if (gains->without_ns / 1e6 >= verdict->replay.floor_ms || verdict->arena->failed) return;
    verdict->replay.floor_ms = gains->without_ns / 1e6;
    aorta_verdict_walk_left(built, &gains->scaled, verdict->replay.floor_ms, &verdict->replay.left, verdict->arena);
}

aorta_status aorta_verdict_apply_remedies(const struct aorta_trace_analysis *analysis, struct aorta_trace_graph *built,
                                          uint32_t set, struct aorta_remedies_worth *worth) {
    struct aorta_remedy_gains measured = {.analysis = analysis, .built = built};
    struct aorta_graph scaled = {0};
    aorta_status status = make_ranks(&measured);
    *worth = (struct aorta_remedies_worth){.least = 1};
    if (measured.rank_count) worth->unknown = measured.ranks[0].unknown;
    if (measured.rank_count) worth->lacks = measured.ranks[0].lacks;
    for (int i = 0; measured.rank_count && i < AORTA_REMEDY_COUNT; i++)
        if (set & aorta_remedy_bit((enum aorta_remedy)i) && measured.ranks[0].rows[i].alone_ns > 0)
            worth->least = fmin(worth->least, least_share(&measured, (enum aorta_remedy)i));
    if (!status) {
        aorta_replay_run(&built->graph, 0, &measured.replay);
        worth->before_ns = measured.replay.step_ns;
        worth->mean = fill_scales(&measured, set);
        if (worth->mean.saved_ns > 0) worth->unknown = NULL; /* times were sufficient */
        scale_graph(&measured, &scaled);
        measured.memory.failed |= measured.replay.memory.failed || scaled.failed;
        status = aorta_arena_check(&measured.memory, "the step with remedies");
    }
    if (status) {
        aorta_graph_scaled_free(&scaled);
    } else {
        aorta_graph_scaled_free(&built->graph);
        built->graph = scaled;
    }
    free_ranks(&measured);
    return status;
}
