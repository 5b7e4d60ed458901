#include "base/lines.h"
#include "base/printable.h"
#include "base/sort.h"
#include "report/phrases.h"
#include "report/verdict_text.h"
#include "verdict/causes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double SHOWN = 0.02; /* of the step: a finding with a block */
static const double LEAST = 0.01; /* of the step: a finding that is counted */
static const double PART = 0.05;  /* of exposed communication: a part that is named */
static const double MUCH = 0.1;   /* of the step: a part with unknown gains that is named */

struct build {
    const struct aorta_verdict *verdict;
    struct aorta_view_options options;
    struct aorta_verdict_view *view;
};

/* Moves the text into the view's arena, and removes control characters of names from files. */
static const char *take(struct build *build, struct aorta_text *text) {
    char *copy = aorta_text_move(text, &build->view->arena);
    if (copy) aorta_make_printable(copy, strlen(copy), false);
    return copy ? copy : "";
}

static void add_row(struct build *build, const char *name, struct aorta_text *text) {
    struct aorta_verdict_view *view = build->view;
    const bool wanted = text->length && view->row_count < AORTA_VIEW_ROWS;
    const char *words = take(build, text);
    if (!wanted) return;
    view->rows[view->row_count].name = name;
    view->rows[view->row_count++].text = words;
}

/* ---- rows ---- */

static const char *device(const struct aorta_verdict *verdict) {
    return verdict->on_cpu ? "device" : "GPU";
}

/* Busy time of the GPU in the step, without collectives that wait for other ranks. */
static double busy_of(const struct aorta_verdict *verdict) {
    return verdict->comm_ms > 0 ? verdict->compute_ms : verdict->step_ms_mean - verdict->idle_ms;
}

static void put_busy(const struct aorta_verdict *verdict, double step_ms, struct aorta_text *out) {
    if (verdict->host_only) return;
    aorta_text_printf(out, "; %s %s %s", device(verdict), verdict->comm_ms > 0 ? "computing" : "busy",
                      aorta_measured(fmin(busy_of(verdict), step_ms)).text);
}

static void add_step(struct build *build) {
    static const double MORE = 1.005; /* times the mean */
    const struct aorta_verdict *verdict = build->verdict;
    const struct aorta_verdict_replay *replay = &verdict->replay;
    struct aorta_text text = {0};
    if (aorta_verdict_is_unrecorded(verdict)) {
        const double *range = replay->unrecorded_range_ms;
        const struct aorta_brief step = aorta_estimated(replay->unrecorded_ms, range);
        const bool sure = strlen(step.text) == strlen(aorta_measured(replay->unrecorded_ms).text);
        aorta_text_printf(&text, "%s ms without the profiler (%s to %s); %s recorded", step.text,
                          (sure ? aorta_measured(range[0]) : aorta_about(range[0])).text,
                          (sure ? aorta_measured(range[1]) : aorta_about(range[1])).text,
                          aorta_measured(replay->measured_ms).text);
        put_busy(verdict, replay->unrecorded_ms, &text);
    } else {
        const double step_ms = replay->known ? aorta_verdict_gained_ms(verdict) : verdict->step_ms_mean;
        aorta_text_printf(&text, "%s ms", aorta_measured(step_ms).text);
        if (verdict->whole) aorta_text_puts(&text, " in all");
        if (verdict->together_ms >= MORE * step_ms)
            aorta_text_printf(&text, " (mean of %zu devices; %s together)", verdict->rank_count,
                              aorta_measured(verdict->together_ms).text);
        if (verdict->whole && !verdict->asked) aorta_text_puts(&text, ", as the recording marks no steps");
        if (verdict->iterations > 1 && !verdict->whole)
            aorta_text_printf(&text, " (p50 %s)", aorta_measured(verdict->step_ms_p50).text);
        put_busy(verdict, step_ms, &text);
    }
    add_row(build, "step", &text);
}

static void add_all_fixes(struct build *build) {
    const struct aorta_verdict *verdict = build->verdict;
    const struct aorta_verdict_replay *replay = &verdict->replay;
    struct aorta_text text = {0};
    if (!aorta_verdict_gains_matter(verdict) || aorta_verdict_gain_count(verdict) < 2) return;
    /* The path says nothing about compute if most of it is unexplained. */
    const bool unexplained = replay->left.unexplained_ms > 0.5 * replay->floor_ms;
    const double part_ms = fmin(replay->left.compute_ms, replay->floor_ms);
    /* The path through several ranks may have more compute than any single rank. */
    const bool crosses = verdict->rank_count > 1 && part_ms > busy_of(verdict);
    aorta_text_printf(&text, "%s ms", aorta_about(replay->floor_ms).text);
    if (replay->bounded)
        aorta_text_puts(&text, " at best");
    else if (!unexplained && !crosses && part_ms >= SHOWN * replay->floor_ms)
        aorta_text_printf(&text, ", %s of it compute", aorta_about(fmin(part_ms, busy_of(verdict))).text);
    aorta_text_puts(&text, "; gains overlap and do not add up");
    add_row(build, "all fixes", &text);
}

static bool is_of_collectives(enum aorta_cause cause) {
    return cause == AORTA_CAUSE_STRAGGLER || cause == AORTA_CAUSE_SLOW_COLLECTIVE ||
           cause == AORTA_CAUSE_SERIALIZED_STREAMS || cause == AORTA_CAUSE_EXPOSED_COLLECTIVE ||
           cause == AORTA_CAUSE_PIPELINE_BUBBLE;
}

static void put_part(const struct aorta_verdict *verdict, const struct aorta_finding *finding, struct aorta_text *out) {
    const char *kind = aorta_verdict_kind_name(verdict, finding->collective);
    const bool changes = aorta_facts_has(&finding->facts, AORTA_FACT_LATE_CHANGES);
    aorta_text_printf(out, "%s ", aorta_measured(finding->cost_ms).text);
    if (finding->cause == AORTA_CAUSE_STRAGGLER && finding->rank >= 0 && !changes)
        aorta_text_printf(out, "waiting for late rank %d", finding->rank);
    else if (finding->cause == AORTA_CAUSE_STRAGGLER)
        aorta_text_puts(out, "waiting for late ranks");
    else if (finding->cause == AORTA_CAUSE_PIPELINE_BUBBLE)
        aorta_text_puts(out, "waiting for other stages");
    else
        aorta_text_printf(out, "%s%s%s", finding->cause == AORTA_CAUSE_SLOW_COLLECTIVE ? "slow " : "", kind,
                          finding->cause == AORTA_CAUSE_SERIALIZED_STREAMS ? " queued before compute" : "");
}

static AORTA_POINTER_ORDER(by_cost, struct aorta_finding, AORTA_DOWN(cost_ms));

/* "; exposed: 38 waiting for late rank 0, 4.9 all_gather, 1.4 other" */
static void put_exposed(struct build *build, struct aorta_text *out) {
    const struct aorta_verdict *verdict = build->verdict;
    const struct aorta_finding **parts =
        aorta_arena_alloc(&build->view->arena, (verdict->finding_count + 1) * sizeof *parts);
    double other_ms = verdict->exposed_ms;
    size_t count = 0, shown = 0;
    if (!parts) return;
    for (size_t i = 0; i < verdict->finding_count; i++)
        if (is_of_collectives(verdict->findings[i].cause)) parts[count++] = &verdict->findings[i];
    qsort(parts, count, sizeof *parts, by_cost);
    aorta_text_puts(out, "; exposed: ");
    for (; shown < count && parts[shown]->cost_ms >= PART * verdict->exposed_ms; shown++) {
        if (shown) aorta_text_puts(out, ", ");
        put_part(verdict, parts[shown], out);
        other_ms -= parts[shown]->cost_ms;
    }
    if (!shown)
        aorta_text_puts(out, aorta_measured(verdict->exposed_ms).text);
    else if (other_ms >= PART * verdict->exposed_ms)
        aorta_text_printf(out, ", %s other", aorta_measured(other_ms).text);
}

static void put_slowdown(const struct aorta_slowdown *found, struct aorta_text *out) {
    static const double MATTERS = 1.1;
    if (found->ratio >= MATTERS)
        aorta_text_printf(out, "; GEMMs %.0f%% slower during communication", 100 * (found->ratio - 1));
}

static void add_overlap(struct build *build) {
    const struct aorta_verdict *verdict = build->verdict;
    struct aorta_text text = {0};
    if (isnan(verdict->overlap_ratio) && verdict->host_collectives.name) {
        aorta_text_printf(&text, "%s on the host for %s ms, %s of it without other operations",
                          verdict->host_collectives.name, aorta_measured(verdict->host_collectives.ran_ms).text,
                          aorta_measured(verdict->host_collectives.alone_ms).text);
    } else if (isnan(verdict->overlap_ratio)) {
        bool on_host = false;
        for (size_t i = 0; i < verdict->finding_count; i++)
            on_host |= verdict->findings[i].cause == AORTA_CAUSE_HOST_COLLECTIVE;
        aorta_text_puts(&text, on_host ? "collectives on the host" : "no collectives");
    } else {
        const double hidden_ms = fmax(verdict->comm_ms - verdict->exposed_ms, 0);
        if (aorta_verdict_is_unrecorded(verdict)) aorta_text_puts(&text, "as recorded: ");
        aorta_text_printf(&text, "%s%s of %s ms hidden", verdict->coarse || verdict->gaps ? "at most " : "",
                          aorta_measured(hidden_ms).text, aorta_measured(verdict->comm_ms).text);
        if (verdict->exposed_ms > 0.005 * verdict->comm_ms) put_exposed(build, &text);
        put_slowdown(&verdict->slowdown, &text);
    }
    add_row(build, "overlap", &text);
}

int aorta_model_length(const char *name) {
    for (const char *at = strchr(name, ' '); at; at = strchr(at + 1, ' ')) {
        const size_t digits = strspn(at + 1, "0123456789");
        if (digits && strncmp(at + 1 + digits, "GB", 2) == 0) return (int)(at - name);
    }
    return (int)strlen(name);
}

static const double HALF = 0.5; /* of the work is outside the steps: the program has other loops */

static void add_basis(struct build *build) {
    static const double LEFT_OUT = 0.2; /* … as other loops, or a last step without an end */
    const struct aorta_verdict *verdict = build->verdict;
    const char *name = verdict->roofline_count ? verdict->rooflines[0].device_name : NULL;
    struct aorta_text text = {0};
    if (verdict->whole)
        aorta_text_printf(&text, "whole recording of %s", aorta_counted((long long)verdict->rank_count, "rank").text);
    else
        aorta_text_printf(&text, "%s of %s", aorta_counted((long long)verdict->iterations, "step").text,
                          aorta_counted((long long)verdict->rank_count, "rank").text);
    if (verdict->warmup && !verdict->whole) aorta_text_printf(&text, " after %zu of warm-up", verdict->warmup);
    if (verdict->unled) aorta_text_puts(&text, ", without the first, whose start is not recorded");
    if (verdict->drained) aorta_text_puts(&text, verdict->unled ? ", and" : ",");
    if (verdict->drained) aorta_text_puts(&text, " without the last, in which queued work of earlier steps ends");
    if (verdict->outside > LEFT_OUT && verdict->outside <= HALF)
        aorta_text_printf(&text, ", %.0f%% of the %s's work", 100 * (1 - verdict->outside), device(verdict));
    if (name) aorta_text_printf(&text, ", %.*s", aorta_model_length(name), name);
    if (verdict->outside > HALF) aorta_text_puts(&text, "; --whole analyzes all work");
    if (verdict->simulated) aorta_text_puts(&text, "; simulated: collectives are copies on one rank");
    add_row(build, "basis", &text);
}

static void add_text(struct build *build, const char *name, const char *words) {
    struct aorta_text text = {0};
    if (!words) return;
    aorta_text_puts(&text, words);
    add_row(build, name, &text);
}

static void add_reason(struct build *build) {
    const char *reason = build->verdict->replay.reason;
    struct aorta_text text = {0};
    if (reason) aorta_text_printf(&text, "unknown, as %s", reason);
    add_row(build, "gains", &text);
}

/* Without peak rates few findings show that kernels are slow. */
static void add_missing_peaks(struct build *build) {
    const struct aorta_verdict *verdict = build->verdict;
    AORTA_EACH (const struct aorta_finding, finding, verdict->findings, verdict->finding_count) {
        const struct aorta_fact *why = aorta_facts_find(&finding->facts, AORTA_FACT_NO_PEAKS);
        struct aorta_text text = {0};
        if (aorta_facts_has(&finding->facts, AORTA_FACT_WHOLE_GRAPHS))
            add_text(build, "missing",
                     "the kernels of graphs: gains within them are unknown (nsys --cuda-graph-trace=node)");
        if (!why || finding->share < MUCH) continue;
        aorta_text_printf(&text, "peak rates (%s): gains that need them are unknown", why->text);
        add_row(build, "missing", &text);
    }
}

/* One line for all blocks whose gains follow only from names and times. */
static void add_missing_sizes(struct build *build) {
    const struct aorta_verdict *verdict = build->verdict;
    const struct aorta_fact *unsized = NULL;
    struct aorta_text text = {0};
    for (size_t i = 0; i < verdict->finding_count && !unsized; i++)
        if (aorta_finding_shown_ms(&verdict->findings[i]) >= SHOWN * aorta_verdict_gained_ms(verdict))
            unsized = aorta_facts_find(&verdict->findings[i].facts, AORTA_FACT_UNSIZED);
    if (!unsized || verdict->incomplete || verdict->captures) return;
    aorta_text_puts(&text, "sizes of operations");
    if (unsized->text) aorta_text_printf(&text, " (%s)", unsized->text);
    aorta_text_puts(&text, ": gains of compute are estimated from times");
    add_row(build, "missing", &text);
}

static void add_missing(struct build *build) {
    const struct aorta_verdict *verdict = build->verdict;
    struct aorta_text text = {0};
    if (verdict->cut_off)
        aorta_text_puts(&text, "all of the file after the break, where the GPU's work may be");
    else if (verdict->host_only && verdict->gpu_operation && !verdict->coverage.unanswered)
        aorta_text_printf(&text, "the GPU, which %s uses: ProfilerActivity.CUDA", verdict->gpu_operation);
    else if (verdict->host_only)
        aorta_text_puts(&text, verdict->coverage.unanswered
                                   ? "kernels, though launches are recorded: stop other profilers, or update the driver"
                                   : "the GPU; if the program uses one: ProfilerActivity.CUDA");
    else if (!verdict->incomplete && !(verdict->comm_ms > 0) && aorta_verdict_find(verdict, AORTA_CAUSE_COPY) &&
             !aorta_verdict_find(verdict, AORTA_CAUSE_COMPUTE))
        aorta_text_puts(&text, "kernels: only copies and fills are recorded");
    add_row(build, "missing", &text);
    add_missing_peaks(build);
    add_missing_sizes(build);
    if (!verdict->ranks_missing || verdict->exposed_ms < MUCH * verdict->step_ms_mean) return;
    aorta_text_printf(&text, "files of %d of %zu ranks; exposed collectives may wait for these ranks",
                      verdict->ranks_missing, verdict->rank_count + (size_t)verdict->ranks_missing);
    add_row(build, "missing", &text);
}

static void add_spread(struct build *build) {
    const struct aorta_verdict *verdict = build->verdict;
    struct aorta_text text = {0};
    if (!aorta_verdict_steps_differ(verdict)) return;
    aorta_text_printf(&text, "%s to %s ms (p10 to p90)", aorta_measured(verdict->step_ms_p10).text,
                      aorta_measured(verdict->step_ms_p90).text);
    if (aorta_verdict_work_differs(verdict))
        aorta_text_puts(&text, ", as their work differs");
    else if (aorta_verdict_copies_differ(verdict))
        aorta_text_puts(&text, ", as their copies differ");
    else if (!verdict->disturbed && !verdict->undisturbed)
        aorta_text_puts(&text, "; rerun on an idle machine");
    aorta_text_printf(&text, "; gains below %s ms are uncertain",
                      aorta_about((verdict->step_ms_p90 - verdict->step_ms_p10) / 2).text);
    add_row(build, "spread", &text);
}

/* The largest kernels, if no fix gains much. */
static void add_kernels(struct build *build) {
    enum { COUNT = 3 };
    static const enum aorta_fact_key keys[COUNT] = {AORTA_FACT_KERNEL, AORTA_FACT_KERNEL_2, AORTA_FACT_KERNEL_3};
    const char *names[COUNT];
    const struct aorta_verdict *verdict = build->verdict;
    const double step_ms = aorta_verdict_spent_ms(verdict);
    const bool little = aorta_finding_most_ms(&verdict->findings[0]) < MUCH * aorta_verdict_gained_ms(verdict);
    if (build->view->block_count && !(aorta_verdict_is_bound(verdict) && little)) return;
    AORTA_EACH (const struct aorta_finding, finding, verdict->findings, verdict->finding_count) {
        if (finding->cause != AORTA_CAUSE_COMPUTE) continue;
        for (size_t j = 0; j < COUNT; j++) {
            const struct aorta_fact *fact = aorta_facts_find(&finding->facts, keys[j]);
            names[j] = fact ? fact->place.name : NULL;
        }
        for (size_t j = 0; j < COUNT; j++) {
            const struct aorta_fact *fact = aorta_facts_find(&finding->facts, keys[j]);
            struct aorta_text text = {0};
            char name[512];
            if (!fact || fact->value < LEAST * step_ms) continue;
            const char *shown = build->options.full_names
                                    ? names[j]
                                    : aorta_name_apart(names[j], names, COUNT, aorta_name_for_line, name, sizeof name);
            aorta_text_printf(&text, "%s, %s ms (%.0f%%)", shown, aorta_measured(fact->value).text,
                              100 * fact->value / step_ms);
            add_row(build, "next", &text);
        }
    }
}

/* ---- blocks ---- */

static double step_of(const struct aorta_verdict *verdict, bool gains) {
    return gains ? aorta_verdict_gained_ms(verdict) : aorta_verdict_spent_ms(verdict);
}

/* The cost of a finding. For remedies: the time of the operations that they change. */
static double cost_of(const struct aorta_finding *finding) {
    const bool remedy = aorta_facts_has(&finding->facts, AORTA_FACT_GAIN_UNKNOWN);
    return remedy ? aorta_facts_find(&finding->facts, AORTA_FACT_TOUCHED)->value : finding->cost_ms;
}

static const char *figure(struct build *build, const struct aorta_finding *finding, bool gains) {
    struct aorta_text text = {0};
    double range_ms[2];
    const double gain_ms = aorta_finding_most_ms(finding);
    if (!gains)
        aorta_text_puts(&text, aorta_measured(cost_of(finding)).text);
    else if (aorta_finding_is_range(finding, range_ms))
        aorta_text_puts(&text, aorta_about_range(range_ms[0], range_ms[1]).text);
    else if (aorta_finding_is_bound(finding))
        aorta_text_printf(&text, "up to %s", aorta_about(gain_ms).text);
    else
        aorta_text_puts(&text, aorta_about(gain_ms).text);
    return take(build, &text);
}

static bool is_within_spread(const struct aorta_verdict *verdict, const struct aorta_finding *finding) {
    return aorta_verdict_steps_differ(verdict) &&
           aorta_finding_shown_ms(finding) < (verdict->step_ms_p90 - verdict->step_ms_p10) / 2;
}

static void add_fix(struct build *build, struct aorta_view_block *block, struct aorta_text *text) {
    const bool wanted = text->length && block->fix_count < AORTA_VIEW_LINES;
    const char *words = take(build, text);
    if (wanted) block->fix[block->fix_count++] = words;
}

/* A pair gains only with both fixes: "and capture the step: …". */
static void add_second_fix(struct build *build, struct aorta_view_block *block) {
    const struct aorta_finding *pair = block->finding;
    const struct aorta_finding *second = aorta_verdict_find(build->verdict, pair->partner);
    struct aorta_text text = {0}, also = {0};
    if (!(pair->joint_ms > 0) || !second || !second->fix_count) return;
    aorta_text_puts(&text, "and ");
    aorta_fix_text(second, 0, &text, &also);
    add_fix(build, block, &text);
    aorta_text_free(&also);
}

static void add_fixes(struct build *build, struct aorta_view_block *block) {
    const struct aorta_finding *finding = block->finding;
    for (int i = 0; i < finding->fix_count; i++) {
        struct aorta_text text = {0}, also = {0};
        if (i) aorta_text_puts(&text, "or ");
        aorta_fix_text(finding, i, &text, &also);
        add_fix(build, block, &text);
        add_fix(build, block, &also);
    }
    struct aorta_text text = {0};
    if (finding->all_set) aorta_finding_advice(finding, &text);
    add_fix(build, block, &text);
}

static const char *first_phrase(struct build *build, const struct aorta_finding *finding,
                                const char *const *templates) {
    struct aorta_text text = {0};
    aorta_phrase_first(build->verdict, finding, templates, build->options.full_names, &text);
    return take(build, &text);
}

/* Whether the previous block names the same worst operation or gap. */
static bool is_same_place(const struct aorta_finding *before, const struct aorta_finding *finding) {
    static const struct {
        enum aorta_fact_key key;
        double alike;
    } rows[] = {{AORTA_FACT_GAP, 0.1}, {AORTA_FACT_EXPOSED_WORST, 0}, {AORTA_FACT_OPERATION, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct aorta_fact *place = aorta_facts_find(&finding->facts, rows[i].key);
        const struct aorta_fact *other = aorta_facts_find(&before->facts, rows[i].key);
        if (place && place->place.name && other && other->place.name &&
            strcmp(other->place.name, place->place.name) == 0 &&
            fabs(other->value - place->value) <= rows[i].alike * place->value)
            return true;
    }
    return false;
}

/* Whether another finding has a stall or wait of this length. */
static bool is_gained(const struct aorta_verdict *verdict, const struct aorta_finding *finding,
                      const struct aorta_fact *gap) {
    static const enum aorta_fact_key keys[] = {AORTA_FACT_PAUSE, AORTA_FACT_COPY_WAIT, AORTA_FACT_ALLOCATION};
    static const double ALIKE = 0.1;
    for (size_t i = 0; i < verdict->finding_count; i++) {
        for (size_t j = 0; j < sizeof keys / sizeof *keys; j++) {
            const struct aorta_fact *other = aorta_facts_find(&verdict->findings[i].facts, keys[j]);
            if (&verdict->findings[i] != finding && other && fabs(other->value - gap->value) <= ALIKE * gap->value)
                return true;
        }
    }
    return false;
}

/* A gap longer than the finding's total gain belongs to several causes. */
static bool is_beyond(const struct aorta_verdict *verdict, const struct aorta_finding *finding,
                      const struct aorta_fact *gap) {
    const struct aorta_verdict_replay *replay = &verdict->replay;
    const double recording = replay->unrecorded_ms > 0 ? fmax(replay->measured_ms / replay->unrecorded_ms, 1) : 1;
    double range_ms[2];
    aorta_finding_shown_range(finding, range_ms);
    return replay->known && aorta_finding_gains(finding) &&
           gap->value > recording * range_ms[1] * (double)verdict->iterations * (double)verdict->rank_count;
}

/* The worst place, unless an earlier block names it, or it belongs to another finding. */
static const char *worst_of(struct build *build, const struct aorta_finding *finding) {
    const struct aorta_fact *gap = aorta_facts_find(&finding->facts, AORTA_FACT_GAP);
    if (gap && (is_gained(build->verdict, finding, gap) || is_beyond(build->verdict, finding, gap))) return "";
    for (int i = 0; i < build->view->block_count; i++)
        if (is_same_place(build->view->blocks[i].finding, finding)) return "";
    return first_phrase(build, finding, aorta_cause_row(finding->cause)->worst);
}

static const char *suffix(struct build *build, const struct aorta_finding *finding) {
    const char *const templates[AORTA_TEMPLATES] = {aorta_cause_row(finding->cause)->suffix};
    return first_phrase(build, finding, templates);
}

/* A smaller variant of a larger remedy: TF32 if 16 bits gain more, and fp32 if TF32 gains more. */
static bool is_alternative(const struct aorta_verdict *verdict, size_t index) {
    const struct aorta_finding *finding = &verdict->findings[index];
    if (!finding->remedy || finding->cause != AORTA_CAUSE_PRECISION) return false;
    const bool lesser =
        !strcmp(finding->remedy, "precision=tf32") ||
        (!strcmp(finding->remedy, "precision=fp32") && aorta_facts_has(&finding->facts, AORTA_FACT_ALL_FP64));
    if (!lesser && !(finding->then_ms < 0.5 * finding->gain_ms)) return false;
    for (size_t i = 0; i < verdict->finding_count; i++) {
        const struct aorta_finding *other = &verdict->findings[i];
        const double more_ms = aorta_finding_shown_ms(other) - aorta_finding_shown_ms(finding);
        if (!other->remedy || other->cause != finding->cause) continue;
        if (more_ms > 0 || (i < index && !(more_ms < 0))) return true;
    }
    return false;
}

/* "or torch.set_float32_matmul_precision("high") (0.27 to 0.55 ms)" */
static void add_alternatives(struct build *build, struct aorta_view_block *block) {
    const struct aorta_verdict *verdict = build->verdict;
    if (block->finding->cause != AORTA_CAUSE_PRECISION || !block->finding->remedy) return;
    for (size_t i = 0; i < verdict->finding_count; i++) {
        const struct aorta_finding *other = &verdict->findings[i];
        struct aorta_text text = {0};
        if (other == block->finding || !is_alternative(verdict, i) || !other->fix_count) continue;
        if (aorta_finding_shown_ms(other) > aorta_finding_shown_ms(block->finding))
            continue; /* not an alternative, but a larger block */
        aorta_text_puts(&text, "or ");
        aorta_fix_text(other, 0, &text, NULL);
        if (aorta_finding_gains(other)) aorta_text_printf(&text, " (saves %s ms)", figure(build, other, true));
        add_fix(build, block, &text);
    }
}

/* A gap of the device that deserves a block: a long one, or a good part of the step in several steps. */
static bool is_long_gap(const struct aorta_verdict *verdict, const struct aorta_finding *finding,
                        const struct aorta_fact *gap) {
    static const double LONG_MS = 1, SHORT_MS = 0.1;
    const bool recurs = aorta_facts_has(&finding->facts, AORTA_FACT_RECURS);
    return gap->value >= LONG_MS || (recurs && gap->value >= fmax(SHORT_MS, MUCH * step_of(verdict, false)));
}

/* A large cost on the device whose gain the replay cannot compute. Idle time due to the host without a gain is only a
 * symptom. So are the microseconds before each kernel that is launched late. */
static bool has_only_cost(const struct aorta_verdict *verdict, const struct aorta_finding *finding) {
    static const enum aorta_cause causes[] = {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_CAUSE_SLOW_COLLECTIVE,
                                              AORTA_CAUSE_SERIALIZED_STREAMS, AORTA_CAUSE_LAUNCH_LATENCY,
                                              AORTA_CAUSE_COPY};
    const struct aorta_fact *gap = aorta_facts_find(&finding->facts, AORTA_FACT_GAP);
    if (finding->share < MUCH || finding->alone_ms >= SHOWN * aorta_verdict_gained_ms(verdict)) return false;
    if (finding->cause == AORTA_CAUSE_LAUNCH_LATENCY &&
        (!gap || !is_long_gap(verdict, finding, gap) || is_gained(verdict, finding, gap)))
        return false;
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++)
        if (finding->cause == causes[i]) return true;
    return false;
}

/* Share of the step that decides whether the finding has a block; 0: it has none. */
static double weight(const struct aorta_verdict *verdict, size_t index, bool *gains) {
    const struct aorta_finding *finding = &verdict->findings[index];
    *gains = verdict->replay.known && aorta_finding_gains(finding);
    if (is_alternative(verdict, index)) return 0;
    const double gained = *gains ? aorta_finding_shown_ms(finding) / step_of(verdict, true) : 0;
    if (*gains && (gained >= SHOWN || !has_only_cost(verdict, finding))) return gained;
    *gains = false;
    if (aorta_facts_has(&finding->facts, AORTA_FACT_GAIN_UNKNOWN)) return cost_of(finding) / step_of(verdict, false);
    const bool no_fix =
        aorta_facts_has(&finding->facts, AORTA_FACT_OWN_WORK) || aorta_facts_has(&finding->facts, AORTA_FACT_HOST_STEP);
    if (verdict->replay.known && !no_fix && !has_only_cost(verdict, finding)) return 0;
    return finding->cause == AORTA_CAUSE_COMPUTE ? 0 : finding->share;
}

static bool is_large(const struct build *build, double share) {
    return share >= (build->options.all ? LEAST : SHOWN);
}

/* Whether the cause has a block: "shares" refers only to these. */
static bool has_block(const struct build *build, enum aorta_cause cause) {
    const struct aorta_verdict *verdict = build->verdict;
    for (size_t i = 0; i < verdict->finding_count; i++) {
        const struct aorta_finding *finding = &verdict->findings[i];
        const bool second = finding->joint_ms > 0 && finding->partner == cause;
        bool gains;
        if ((finding->cause == cause || second) && is_large(build, weight(verdict, i, &gains))) return true;
    }
    return false;
}

static void put_partner(const struct aorta_verdict *verdict, const struct aorta_finding *finding,
                        struct aorta_text *out) {
    if (finding->joint_ms > 0) return; /* the name contains both causes */
    static const double LITTLE = 0.01; /* of the gain */
    const double alone_ms = finding->alone_ms > LITTLE * finding->gain_ms ? finding->alone_ms : 0;
    aorta_text_printf(out, "alone %s ms, this much only with ", aorta_about(alone_ms).text);
    const bool of_no_kind = finding->partner < AORTA_CAUSE_COUNT && aorta_cause_has_kind(finding->partner) &&
                            !aorta_verdict_find(verdict, finding->partner);
    if (finding->partner == AORTA_CAUSE_COUNT || of_no_kind)
        aorta_text_puts(out, "the other fixes");
    else
        aorta_cause_display(verdict, finding->partner, out);
}

static const char *mark(struct build *build, const struct aorta_finding *finding, bool gains) {
    const struct aorta_verdict *verdict = build->verdict;
    struct aorta_text text = {0};
    if (gains && finding->only_after) {
        put_partner(verdict, finding, &text);
    } else if (gains && finding->share_count && finding->shares[0].cause != finding->cause &&
               has_block(build, finding->shares[0].cause)) {
        if (finding->displaced) aorta_text_printf(&text, "alone %s ms; ", aorta_about(finding->alone_ms).text);
        aorta_text_printf(&text, "shares %s ms with ", aorta_about(finding->shares[0].ms).text);
        aorta_cause_display(verdict, finding->shares[0].cause, &text);
    }
    if (gains && is_within_spread(verdict, finding))
        aorta_text_printf(&text, "%swithin the spread of the steps", text.length ? "; " : "");
    return take(build, &text);
}

static void add_block(struct build *build, const struct aorta_finding *finding, bool gains) {
    const struct aorta_verdict *verdict = build->verdict;
    struct aorta_view_block block = {.finding = finding, .gains = gains, .key = aorta_cause_name(finding->cause)};
    struct aorta_text name = {0};
    block.share = fmin((gains ? aorta_finding_most_ms(finding) : cost_of(finding)) / step_of(verdict, gains), 1);
    block.figure = figure(build, finding, gains);
    aorta_finding_name(verdict, finding, &name);
    block.name = take(build, &name);
    block.mark = mark(build, finding, gains);
    block.suffix = suffix(build, finding);
    block.measured = first_phrase(build, finding, aorta_cause_row(finding->cause)->measured);
    block.worst = worst_of(build, finding);
    add_fixes(build, &block);
    add_alternatives(build, &block);
    add_second_fix(build, &block);
    build->view->blocks[build->view->block_count++] = block;
}

static void add_blocks(struct build *build) {
    enum { MOST = 8 };
    const struct aorta_verdict *verdict = build->verdict;
    const int most = build->options.all ? AORTA_VIEW_BLOCKS : MOST;
    struct aorta_text names = {0}, line = {0};
    int count = 0;
    bool small = true;
    for (size_t i = 0; i < verdict->finding_count; i++) {
        bool gains;
        const double share = weight(verdict, i, &gains);
        if (is_large(build, share) && build->view->block_count < most) {
            add_block(build, &verdict->findings[i], gains);
        } else if (share >= LEAST) {
            aorta_text_puts(&names, count++ ? ", " : "");
            aorta_finding_name(verdict, &verdict->findings[i], &names);
            small &= share < SHOWN;
        }
    }
    if (count)
        aorta_text_printf(&line, "%s%s: %s", aorta_counted(count, small ? "minor finding" : "more finding").text,
                          small ? " below 2%" : "", names.data ? names.data : "");
    aorta_text_end(&names, &line);
    build->view->minor = take(build, &line);
    build->view->minor_count = count;
}

/* If late launches may be the profiler's unknown cost, gains refer to the recorded step. */
static const char *name_figures(const struct aorta_verdict *verdict, const struct aorta_verdict_view *view) {
    static const double NOTED = 0.05;
    const struct aorta_finding *launches = aorta_verdict_find(verdict, AORTA_CAUSE_HOST_LAUNCH);
    if (!view->block_count || !view->blocks[0].gains) return "cost";
    return launches && launches->share >= NOTED && verdict->replay.unrecorded_reason ? "gain alone, as recorded"
                                                                                     : "gain alone";
}

/* ---- all of it ---- */

void aorta_verdict_view_make(const struct aorta_verdict *verdict, const struct aorta_view_options *options,
                             struct aorta_verdict_view *view) {
    *view = (struct aorta_verdict_view){.minor = ""};
    struct build build = {verdict, options ? *options : (struct aorta_view_options){0}, view};
    struct aorta_text headline = {0};
    const bool answers = !verdict->incomplete && !verdict->captures; /* otherwise the headline says what to record */
    aorta_verdict_headline(verdict, &headline);
    if (verdict->outside > HALF)
        aorta_text_printf(&headline, "; steps are %.0f%% of the work", 100 * (1 - verdict->outside));
    view->headline = take(&build, &headline);
    if (verdict->finding_count) {
        add_step(&build);
        if (answers) add_all_fixes(&build);
        add_overlap(&build);
        add_basis(&build);
        add_missing(&build);
        if (answers && !verdict->host_only) add_reason(&build);
        add_spread(&build);
        add_text(&build, "machine", verdict->disturbed);
        add_text(&build, "clocks", verdict->clocks);
    }
    if (answers && !verdict->host_only) add_blocks(&build);
    view->figures = name_figures(verdict, view);
    if (answers && verdict->finding_count) add_kernels(&build);
}
