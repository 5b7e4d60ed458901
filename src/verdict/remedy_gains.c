/* Remedies of compute as findings: what the step gains by each, by the replay of kernels that take less. */
#include "verdict/gains.h"

#include "base/parallel.h"
#include "replay/replay.h"
#include "replay/scaled.h"
#include "roofline/remedies.h"

#include "timeline/framework.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double WORTH = 0.005; /* of the kernels: what saves less is not replayed */
static const double SHOWN = 0.01;  /* of the step: what gains less has no row */

struct aorta_remedy_gains {
    const struct aorta_trace_analysis *analysis;
    const struct aorta_trace_graph *built;
    struct aorta_remedies *ranks;     /* of each rank of the analysis */
    struct aorta_work_scale **scales; /* of each rank, by row of its trace's work[] */
    size_t rank_count;
    enum aorta_framework framework; /* of the first rank; all names are read for it */
    struct aorta_replay replay;
    struct aorta_graph scaled;            /* of the remedies measured last: its memory serves all of them */
    double step_ns;                       /* as recorded */
    double gain_ns[AORTA_REMEDY_COUNT];   /* alone */
    double then_ns[AORTA_REMEDY_COUNT];   /* after those before it */
    double behind_ns[AORTA_REMEDY_COUNT]; /* of what the host hides: once all causes are gone */
    bool with_attention;            /* 16 bits gain much more with attention in one kernel, which fp32 has not … */
    double paired_ns;               /* … by so much */
    double together_ns, without_ns; /* the step with all of them; without all causes, too */
    uint32_t set;                   /* those that are worth it */
};

/* ---- ranks ---- */

static aorta_status make_rank(void *user, size_t rank) {
    const struct aorta_remedy_gains *measured = user;
    return aorta_remedies_make(measured->analysis, rank, &measured->ranks[rank]);
}

static aorta_status make_ranks(struct aorta_remedy_gains *measured) {
    const size_t count = measured->analysis->rank_count;
    measured->ranks = calloc(count + 1, sizeof *measured->ranks);
    measured->scales = calloc(count + 1, sizeof *measured->scales);
    if (!measured->ranks || !measured->scales) return AORTA_ERROR(AORTA_MEMORY, "no memory for the remedies");
    measured->rank_count = count;
    for (size_t i = 0; i < count; i++) { /* beside each other, not between what is freed after them */
        const size_t work = measured->analysis->ranks[i].trace->work_count + 1;
        measured->scales[i] = malloc(work * sizeof **measured->scales);
        if (!measured->scales[i]) return AORTA_ERROR(AORTA_MEMORY, "no memory for the remedies");
    }
    return aorta_parallel(count, make_rank, measured);
}

static void free_ranks(struct aorta_remedy_gains *measured) {
    for (size_t i = 0; i < measured->rank_count; i++) {
        aorta_remedies_free(&measured->ranks[i]);
        free(measured->scales[i]);
    }
    free(measured->ranks);
    free(measured->scales);
    aorta_replay_free(&measured->replay);
    aorta_graph_scaled_free(&measured->scaled);
}

static bool is_worth(const struct aorta_remedy_gains *measured, enum aorta_remedy remedy) {
    double saved_ns = 0, all_ns = 0;
    for (size_t i = 0; i < measured->rank_count; i++) {
        saved_ns += measured->ranks[i].rows[remedy].alone_ns;
        all_ns += measured->ranks[i].kernels_ns;
    }
    return saved_ns > WORTH * all_ns && !aorta_remedy_is_upper(remedy);
}

/* ---- the step ---- */

/* Returns what is saved, mean over ranks. */
static struct aorta_remedies_applied fill_scales(struct aorta_remedy_gains *measured, uint32_t set) {
    const double ranks = measured->rank_count ? (double)measured->rank_count : 1;
    struct aorta_remedies_applied mean = {0};
    for (size_t i = 0; i < measured->rank_count; i++) {
        const size_t count = measured->analysis->ranks[i].trace->work_count;
        for (size_t j = 0; j < count; j++) measured->scales[i][j] = (struct aorta_work_scale){1, false, 0};
        const struct aorta_remedies_applied own = aorta_remedies_apply(&measured->ranks[i], set, measured->scales[i]);
        mean.saved_ns += own.saved_ns / ranks;
        mean.gone += own.gone / ranks;
        mean.added += own.added / ranks;
    }
    return mean;
}

static aorta_status scale_graph(const struct aorta_remedy_gains *measured, struct aorta_graph *scaled) {
    return aorta_graph_scale(measured->built, (const struct aorta_work_scale *const *)measured->scales, scaled);
}

static aorta_status step_with(struct aorta_remedy_gains *measured, uint32_t set, uint32_t removed, double *step_ns) {
    (void)fill_scales(measured, set);
    AORTA_TRY(scale_graph(measured, &measured->scaled));
    aorta_status status = aorta_replay_run(&measured->scaled, removed, &measured->replay);
    *step_ns = measured->replay.step_ns;
    return status;
}

static double less(double before_ns, double after_ns) {
    return after_ns < before_ns ? before_ns - after_ns : 0;
}

/* Most remedies gain by themselves; what is hidden gains together with what hides it. */
static double row_gain_ns(const struct aorta_remedy_gains *measured, enum aorta_remedy remedy) {
    const double paired_ns = remedy == AORTA_REMEDY_BF16 ? measured->paired_ns : 0;
    return fmax(fmax(measured->gain_ns[remedy], measured->behind_ns[remedy]), paired_ns);
}

static const uint32_t EVERYTHING = (UINT32_C(1) << AORTA_REMOVAL_COUNT) - 1;

/* Kernels that get much shorter, while the step waits for something else. */
static aorta_status measure_hidden(struct aorta_remedy_gains *measured) {
    static const double MUCH = 0.05;
    double without_ns = 0, with_ns;
    for (int i = 0; i < AORTA_REMEDY_COUNT; i++) {
        const uint32_t bit = aorta_remedy_bit((enum aorta_remedy)i);
        const double saved_ns = measured->rank_count ? measured->ranks[0].rows[i].alone_ns : 0;
        if (!(measured->set & bit) || measured->gain_ns[i] >= SHOWN * measured->step_ns) continue;
        if (saved_ns < MUCH * measured->step_ns) continue;
        if (!(without_ns > 0)) AORTA_TRY(step_with(measured, 0, EVERYTHING, &without_ns));
        AORTA_TRY(step_with(measured, bit, EVERYTHING, &with_ns));
        measured->behind_ns[i] = less(without_ns, with_ns);
    }
    return NULL;
}

/* What a remedy is taken together with. */
static uint32_t partners(const struct aorta_remedy_gains *measured, enum aorta_remedy remedy) {
    return remedy == AORTA_REMEDY_BF16 && measured->with_attention ? aorta_remedy_bit(AORTA_REMEDY_ATTENTION) : 0;
}

/* Those that have a row. */
static uint32_t said(const struct aorta_remedy_gains *measured) {
    uint32_t set = 0;
    for (int i = 0; i < AORTA_REMEDY_COUNT; i++)
        if (row_gain_ns(measured, (enum aorta_remedy)i) >= SHOWN * measured->step_ns)
            set |= aorta_remedy_bit((enum aorta_remedy)i) | partners(measured, (enum aorta_remedy)i);
    return set;
}

static aorta_status measure_steps(struct aorta_remedy_gains *measured) {
    double alone_ns, before_ns = measured->step_ns;
    uint32_t set = 0;
    measured->together_ns = measured->without_ns = before_ns;
    for (int i = 0; i < AORTA_REMEDY_COUNT; i++) {
        const uint32_t bit = aorta_remedy_bit((enum aorta_remedy)i);
        if (!(measured->set & bit)) continue;
        const uint32_t together = bit | partners(measured, (enum aorta_remedy)i);
        set |= together;
        AORTA_TRY(step_with(measured, bit, 0, &alone_ns));
        measured->gain_ns[i] = less(measured->step_ns, alone_ns);
        if (together != bit) AORTA_TRY(step_with(measured, together, 0, &alone_ns));
        if (together != bit) measured->paired_ns = less(measured->step_ns, alone_ns);
        if (set != bit) AORTA_TRY(step_with(measured, set, 0, &alone_ns));
        measured->then_ns[i] = less(before_ns, alone_ns);
        before_ns -= measured->then_ns[i];
    }
    measured->together_ns = before_ns;
    AORTA_TRY(measure_hidden(measured));
    set = said(measured);
    return set ? step_with(measured, set, EVERYTHING, &measured->without_ns) : NULL;
}

/* ---- findings ---- */

static enum aorta_cause cause_named(const char *name) {
    int cause = 0;
    while (cause + 1 < AORTA_CAUSE_COUNT && strcmp(aorta_cause_name((enum aorta_cause)cause), name) != 0) cause++;
    return (enum aorta_cause)cause;
}

/* The rank whose kernels it would shorten most. */
static size_t largest_rank(const struct aorta_remedy_gains *measured, enum aorta_remedy remedy) {
    size_t most = 0;
    for (size_t i = 1; i < measured->rank_count; i++)
        if (measured->ranks[i].rows[remedy].alone_ns > measured->ranks[most].rows[remedy].alone_ns) most = i;
    return most;
}

/* In the words of who made the kernels: our key, JAX, CuPy, what torch.compile has made already; else PyTorch. */
static const char *const words_of_xla[AORTA_REMEDY_COUNT] = {
    [AORTA_REMEDY_ATTENTION] =
        "jax.nn.dot_product_attention(implementation=\"cudnn\"), is_causal=True instead of a mask",
    [AORTA_REMEDY_TF32] = "jax.config.update(\"jax_default_matmul_precision\", \"tensorfloat32\")",
    [AORTA_REMEDY_BF16] = "parameters and activations in jnp.bfloat16 (flax: dtype=jnp.bfloat16), sums in fp32",
    [AORTA_REMEDY_ALIGNMENT] = "pad the sizes to multiples of 8 elements in 16 bits (64 is better)",
    [AORTA_REMEDY_LAYOUT] =
        "images and convolutions in NHWC (dimension_numbers of jax.lax.conv_general_dilated; flax's own)",
    [AORTA_REMEDY_FUSION] = "one jax.jit around what is called piece by piece",
    [AORTA_REMEDY_OPTIMIZER] = "the optimizer within the jitted step (optax), its arguments donated (donate_argnums)"};
static const char *const words_of_cupy[AORTA_REMEDY_COUNT] = {
    [AORTA_REMEDY_TF32] = "CUPY_TF32=1 in the environment",
    [AORTA_REMEDY_BF16] = "arrays in float16 where the range allows, sums in fp32",
    [AORTA_REMEDY_ALIGNMENT] = "pad the sizes to multiples of 8 elements in 16 bits",
    [AORTA_REMEDY_FUSION] = "@cupy.fuse() around the expression, or one ElementwiseKernel or ReductionKernel"};
static const char *const words_of_triton[AORTA_REMEDY_COUNT] = {
    [AORTA_REMEDY_FUSION] =
        "what stands between two products in one @triton.jit function, or at the end of the product's own",
    [AORTA_REMEDY_LIBRARY] = "@triton.autotune with more configurations (blocks, warps, stages)",
    [AORTA_REMEDY_ATTENTION] = "a fused attention kernel (Triton's tutorial has one; flash-attn)"};
static const char *const words_of_compiled[AORTA_REMEDY_COUNT] = {
    [AORTA_REMEDY_FUSION] =
        "compile these parts, too: torch.compile left them out (TORCH_LOGS=graph_breaks says why; fullgraph=True)",
    [AORTA_REMEDY_LIBRARY] =
        "torch.compile(mode=\"max-autotune\"); torch.backends.cudnn.benchmark = True (fixed shapes)"};
static const char *const words_of_amd[AORTA_REMEDY_COUNT] = {
    [AORTA_REMEDY_TF32] =
        "torch.set_float32_matmul_precision(\"high\") with HIPBLASLT_ALLOW_TF32=1 in the environment (MI300 series)",
    [AORTA_REMEDY_LAYOUT] =
        "model.to(memory_format=torch.channels_last), the input too, PYTORCH_MIOPEN_SUGGEST_NHWC=1 in the environment",
    [AORTA_REMEDY_LIBRARY] =
        "PYTORCH_TUNABLEOP_ENABLED=1 in the environment; torch.backends.cudnn.benchmark = True (fixed shapes)"};

static const char *advice_of(const struct aorta_remedy_gains *measured, enum aorta_remedy remedy) {
    static const char *const *const others[] = {[AORTA_FRAMEWORK_XLA] = words_of_xla,
                                                [AORTA_FRAMEWORK_CUPY] = words_of_cupy,
                                                [AORTA_FRAMEWORK_TRITON] = words_of_triton,
                                                [AORTA_FRAMEWORK_COMPILED] = words_of_compiled};
    const enum aorta_framework framework = measured->framework;
    const char *own = measured->analysis->measured ? aorta_remedy_own_key(remedy) : NULL;
    if (own) return own;
    if (measured->ranks[0].amd && framework != AORTA_FRAMEWORK_XLA && words_of_amd[remedy]) return words_of_amd[remedy];
    if (measured->ranks[0].no_bf16 && remedy == AORTA_REMEDY_BF16 && !aorta_framework_has_own_words(framework))
        return "torch.autocast(\"cuda\", dtype=torch.float16) around forward and loss, with torch.amp.GradScaler; "
               "transformers: fp16=True (this card has no bf16)";
    const char *words = others[framework] ? others[framework][remedy] : NULL;
    return words ? words : aorta_remedy_advice(remedy);
}

static aorta_status say(const struct aorta_remedy_gains *measured, enum aorta_remedy remedy,
                        const struct aorta_verdict *verdict, struct aorta_finding *finding) {
    const struct aorta_remedy_row *row = &measured->ranks[largest_rank(measured, remedy)].rows[remedy];
    struct aorta_text text = {0};
    aorta_text_printf(&text, "%s: %s", aorta_remedy_change(remedy), row->evidence ? row->evidence : "");
    if (partners(measured, remedy))
        aorta_text_printf(&text,
                          "; with attention in one kernel, which there is for 16 bits only (remedy attention): alone "
                          "it saves %s ms",
                          aorta_brief(measured->gain_ns[remedy] / 1e6).text);
    else if (measured->behind_ns[remedy] > 0)
        aorta_text_printf(&text, "; alone it saves %s ms: the rest only together with what the step waits for now",
                          aorta_brief(measured->gain_ns[remedy] / 1e6).text);
    else if (measured->then_ns[remedy] < 0.5 * measured->gain_ns[remedy])
        aorta_text_printf(&text, "; either this or the remedies before it, after which it saves %s ms more",
                          aorta_brief(measured->then_ns[remedy] / 1e6).text);
    else if (measured->then_ns[remedy] < 0.95 * measured->gain_ns[remedy])
        aorta_text_printf(&text, "; %s ms of it after the others", aorta_brief(measured->then_ns[remedy] / 1e6).text);
    if (remedy == AORTA_REMEDY_TF32 && measured->gain_ns[AORTA_REMEDY_BF16] >= SHOWN * measured->step_ns)
        aorta_text_printf(&text, "; in 16 bits %s ms instead",
                          aorta_brief(measured->gain_ns[AORTA_REMEDY_BF16] / 1e6).text);
    if (!(measured->behind_ns[remedy] > 0) && measured->gain_ns[remedy] < 0.8 * row->alone_ns)
        aorta_text_printf(&text, "; kernels save %s ms, but then the step waits for %s",
                          aorta_brief(row->alone_ns / 1e6).text,
                          verdict->comm_ms > 0 ? "the host or a collective" : "the host");
    else if (measured->gain_ns[remedy] > 1.25 * row->alone_ns + 0.01 * measured->step_ns)
        aorta_text_printf(&text,
                          "; kernels save %s ms of it, launches that are not made the rest, which late launches "
                          "counts, too",
                          aorta_brief(row->alone_ns / 1e6).text);
    struct aorta_text advice = {0};
    aorta_text_puts(&advice, advice_of(measured, remedy));
    if (partners(measured, remedy))
        aorta_text_printf(&advice, "; with it %s", advice_of(measured, AORTA_REMEDY_ATTENTION));
    aorta_status status = aorta_text_take(&advice, &finding->advice);
    if (!status) return aorta_text_take(&text, &finding->evidence);
    aorta_text_free(&text);
    return status;
}

/* What the file would have to hold, beside compute's own evidence. */
static aorta_status say_lacking(const struct aorta_remedy_gains *measured, struct aorta_verdict *verdict) {
    const char *lacks = NULL;
    if (aorta_framework_has_own_words(measured->framework)) return NULL;
    for (size_t i = 0; i < measured->rank_count && !lacks; i++)
        for (int j = 0; j < AORTA_REMEDY_COUNT && !lacks; j++) lacks = measured->ranks[i].rows[j].lacks;
    const char *unknown = measured->rank_count && !verdict->host_only ? measured->ranks[0].unknown : NULL;
    for (size_t i = 0; (lacks || unknown) && i < verdict->finding_count; i++) {
        struct aorta_finding *compute = &verdict->findings[i];
        if (compute->cause != AORTA_CAUSE_COMPUTE || !compute->evidence) continue;
        struct aorta_text text = {0};
        if (unknown)
            aorta_text_printf(&text, "%s; what faster kernels are worth is not known: %s", compute->evidence, unknown);
        else
            aorta_text_printf(&text, "%s; what else it is worth shows with %s (PyTorch's profiler: record_shapes=True)",
                              compute->evidence, lacks);
        AORTA_TRY(aorta_text_take(&text, &compute->evidence));
    }
    return NULL;
}

/* Of a step whose compute no remedy makes a twentieth less: how near it is to what the card can do. */
/* Of a step whose products are in 16 bits nobody says that these would make it faster. */
static void mark_narrow(const struct aorta_remedy_gains *measured, struct aorta_verdict *verdict) {
    static const double MUCH = 0.3;
    const struct aorta_remedies *first = &measured->ranks[0];
    if (!measured->rank_count || first->halved_ns < MUCH * first->bounded_ns) return;
    for (size_t i = 0; i < verdict->finding_count; i++)
        if (verdict->findings[i].cause == AORTA_CAUSE_COMPUTE) verdict->findings[i].circumstances |= AORTA_NARROW;
}

static aorta_status say_bounds(const struct aorta_remedy_gains *measured, struct aorta_verdict *verdict) {
    static const double LITTLE = 0.05, MOST_KNOWN = 0.6;
    const struct aorta_remedies *first = &measured->ranks[0];
    if (!measured->rank_count || first->rows[AORTA_REMEDY_LIBRARY].lacks || !(first->at_peak_ns > 0)) return NULL;
    if (first->sized_ns < MOST_KNOWN * first->bounded_ns) return NULL;
    if (measured->step_ns - measured->together_ns >= LITTLE * measured->step_ns) return NULL;
    for (size_t i = 0; i < verdict->finding_count; i++) {
        struct aorta_finding *compute = &verdict->findings[i];
        if (compute->cause != AORTA_CAUSE_COMPUTE || !compute->evidence) continue;
        struct aorta_text text = {0};
        aorta_text_printf(&text,
                          "%s; its operations, %s ms one after the other, would take %s ms at the card's peak rates, "
                          "and %s ms at those that the run's own reach",
                          compute->evidence, aorta_brief(first->bounded_ns / 1e6).text,
                          aorta_brief(first->at_peak_ns / 1e6).text, aorta_brief(first->at_reached_ns / 1e6).text);
        if (first->rows[AORTA_REMEDY_FP8].alone_ns > LITTLE * measured->step_ns)
            aorta_text_printf(&text, "; in fp8 they would take at most %s ms less",
                              aorta_brief(first->rows[AORTA_REMEDY_FP8].alone_ns / 1e6).text);
        AORTA_TRY(aorta_text_take(&text, &compute->evidence));
    }
    return NULL;
}

/* What follows from names is an upper bound: of twins of the same programs with sizes, fused chains bring half of it
 * at least. */
static double least_share(const struct aorta_remedy_gains *measured, enum aorta_remedy remedy) {
    static const double ROUGH = 0.5;
    const double share = aorta_remedy_least_share(remedy);
    const bool rough = aorta_remedy_row_is_rough(&measured->ranks[largest_rank(measured, remedy)].rows[remedy]);
    return rough ? fmin(share, ROUGH) : share;
}

static aorta_status add_findings(const struct aorta_remedy_gains *measured, struct aorta_verdict *verdict) {
    for (int i = 0; i < AORTA_REMEDY_COUNT; i++) {
        const double gain_ns = row_gain_ns(measured, (enum aorta_remedy)i);
        if (!(gain_ns >= SHOWN * measured->step_ns)) continue;
        struct aorta_finding *finding = &verdict->findings[verdict->finding_count++];
        *finding = (struct aorta_finding){.cause = cause_named(aorta_remedy_cause((enum aorta_remedy)i)),
                                          .remedy = aorta_remedy_key((enum aorta_remedy)i),
                                          .rank = -1,
                                          .gain_ms = gain_ns / 1e6,
                                          .then_ms = measured->then_ns[i] / 1e6,
                                          .gain_share = gain_ns / measured->step_ns};
        finding->alone_ms = measured->gain_ns[i] / 1e6;
        finding->gain_range_ms[0] = finding->gain_ms * least_share(measured, (enum aorta_remedy)i);
        finding->gain_range_ms[1] = finding->gain_ms;
        AORTA_TRY(say(measured, (enum aorta_remedy)i, verdict, finding));
    }
    return NULL;
}

/* Attention that is written out in fp32 has no better form there, and in 16 bits its softmax stays in fp32: only both
 * together gain. */
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

static aorta_status walk_left(struct aorta_remedy_gains *gains, struct aorta_verdict *verdict) {
    struct aorta_graph scaled = {0};
    (void)fill_scales(gains, said(gains));
    AORTA_TRY(scale_graph(gains, &scaled));
    aorta_status status =
        aorta_verdict_walk_left(gains->built, &scaled, verdict->replay.floor_ms, &verdict->replay.left);
    aorta_graph_scaled_free(&scaled);
    return status;
}

aorta_status aorta_remedy_gains_add(struct aorta_remedy_gains *gains, const struct aorta_trace_graph *built,
                                    double step_ns, struct aorta_verdict *verdict) {
    gains->built = built;
    gains->step_ns = step_ns;
    AORTA_TRY(measure_steps(gains));
    AORTA_TRY(add_findings(gains, verdict));
    if (!gains->analysis->measured) AORTA_TRY(say_lacking(gains, verdict));
    AORTA_TRY(say_bounds(gains, verdict));
    mark_narrow(gains, verdict);
    if (gains->without_ns / 1e6 >= verdict->replay.floor_ms) return NULL;
    verdict->replay.floor_ms = gains->without_ns / 1e6;
    return walk_left(gains, verdict);
}

aorta_status aorta_verdict_apply_remedies(const struct aorta_trace_analysis *analysis, struct aorta_trace_graph *built,
                                          uint32_t set, struct aorta_remedies_worth *worth) {
    struct aorta_remedy_gains measured = {.analysis = analysis, .built = built};
    struct aorta_graph scaled = {0};
    aorta_status status = make_ranks(&measured);
    *worth = (struct aorta_remedies_worth){.unknown = measured.rank_count ? measured.ranks[0].unknown : NULL};
    for (int i = 0; measured.rank_count && i < AORTA_REMEDY_COUNT; i++)
        worth->lacks[i] = measured.ranks[0].rows[i].lacks;
    if (!status) status = aorta_replay_run(&built->graph, 0, &measured.replay);
    if (!status) {
        worth->before_ns = measured.replay.step_ns;
        worth->mean = fill_scales(&measured, set);
        status = scale_graph(&measured, &scaled);
    }
    if (!status) {
        aorta_graph_scaled_free(&built->graph);
        built->graph = scaled;
    }
    free_ranks(&measured);
    return status;
}
