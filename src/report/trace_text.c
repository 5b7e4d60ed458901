/* A screenful for a terminal: the ranks' figures, the largest rows of each table, then the verdict. */
#include "base/lines.h"
#include "report/trace_report.h"
#include "report/trace_tables_internal.h"
#include "timeline/links.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    RANKS_SHOWN = 16,
    KERNELS_SHOWN = 5,
    COLLECTIVES_SHOWN = 4,
    LANES_SHOWN = 5,
    SYNCS_SHOWN = 3,
    DIFFERENCES_SHOWN = 4
};
/* Tables are 96 columns wide; of a wider terminal the names get the rest. */
enum {
    TABLE_WIDTH = 96,
    KERNEL_COLUMNS = 48,
    COLLECTIVE_COLUMNS = 36,
    SYNC_COLUMNS = 66,
    BY_COLUMNS = 55,
    NAME_SIZE = 512
};

/* Of the names, in a table that gives them `columns` in its usual width; 0: no terminal. */
static int name_columns(int columns, int width) {
    return width > TABLE_WIDTH ? columns + width - TABLE_WIDTH : width ? columns : 0;
}

static double ms(int64_t ns) {
    return (double)ns / 1e6;
}

static void rank_lines(const struct aorta_trace_analysis *analysis, struct aorta_text *out) {
    const struct aorta_table_view view = {.most = RANKS_SHOWN};
    aorta_table_text(&aorta_table_ranks, &(struct aorta_trace_of){analysis, NULL, NULL}, &view, out);
    if (analysis->rank_count > RANKS_SHOWN)
        aorta_text_printf(out, "  … and %zu more ranks (--json has all)\n", analysis->rank_count - RANKS_SHOWN);
}

static void idle_line(const struct aorta_trace_analysis *analysis, struct aorta_text *out) {
    struct aorta_idle sum = {0};
    bool no_waits = false;
    for (size_t i = 0; i < analysis->rank_count; i++) {
        aorta_idle_add(&sum, &analysis->ranks[i].idle);
        const struct aorta_trace *trace = analysis->ranks[i].trace;
        no_waits = no_waits || (trace->no_waits && !trace->no_launches);
    }
    double ranks = (double)analysis->rank_count;
    static const enum aorta_idle_cause order[] = {AORTA_IDLE_HOST_LAUNCH, AORTA_IDLE_HOST_SYNC, AORTA_IDLE_DATA_WAIT,
                                                  AORTA_IDLE_LAUNCH_LATENCY, AORTA_IDLE_UNKNOWN};
    aorta_text_puts(out, analysis->rank_count > 1 ? "idle (mean of the ranks):" : "idle:");
    const char *separator = " ";
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        if (!sum.ns[order[i]]) continue;
        const bool either = no_waits && order[i] == AORTA_IDLE_HOST_LAUNCH;
        aorta_text_printf(out, "%s%s%s %.3f ms", separator, aorta_idle_words[order[i]].says, either ? " or waited" : "",
                          ms(sum.ns[order[i]]) / ranks);
        separator = ", ";
    }
    if (separator[0] == ' ') aorta_text_puts(out, " none");
}

/* ---- tables of the rank with most device time ---- */

static const struct aorta_trace_rank *busiest(const struct aorta_trace_analysis *analysis) {
    const struct aorta_trace_rank *best = &analysis->ranks[0];
    for (size_t i = 1; i < analysis->rank_count; i++)
        if (analysis->ranks[i].figures.busy_ns > best->figures.busy_ns) best = &analysis->ranks[i];
    return best;
}

/* What a size takes is known without the waiting, and sizes differ within a kind or the link is known. */
static bool sizes_say_more(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank) {
    bool several = rank->collective_size_count > rank->collective_count;
    for (size_t i = 0; i < rank->collective_size_count; i++)
        if (rank->collective_sizes[i].waits_known &&
            (several || aorta_trace_link_of(analysis, rank, &rank->collective_sizes[i]) > 0))
            return true;
    return false;
}

/* ---- calls that wait for the device ---- */

static const char *period(const struct aorta_trace_analysis *analysis) {
    return analysis->stepped ? "a step" : "in all";
}

static size_t sync_calls(const struct aorta_trace_rank *rank) {
    size_t count = 0;
    for (size_t i = 0; i < rank->sync_count; i++) count += rank->syncs[i].times.count;
    return count;
}

/* They matter from a hundredth of the recording on. */
static bool syncs_matter(const struct aorta_trace_rank *rank) {
    int64_t total_ns = 0;
    for (size_t i = 0; i < rank->sync_count; i++) total_ns += rank->syncs[i].times.total_ns;
    return 100 * total_ns >= rank->figures.span_ns && total_ns > 0;
}

/* The rank that waits most often: others may wait longer, for that one. */
static const struct aorta_trace_rank *rank_of_syncs(const struct aorta_trace_analysis *analysis) {
    const struct aorta_trace_rank *best = NULL;
    for (size_t i = 0; i < analysis->rank_count; i++)
        if (syncs_matter(&analysis->ranks[i]) && (!best || sync_calls(&analysis->ranks[i]) > sync_calls(best)))
            best = &analysis->ranks[i];
    return best;
}

/* The rank's own tables, and with several ranks those that compare them. */
static void table_lines(const struct aorta_trace_analysis *analysis, const struct aorta_result_table *table,
                        const struct aorta_trace_rank *rank, const char *title, int columns, size_t most, int width,
                        struct aorta_text *out) {
    const struct aorta_table_view view = {.title = title,
                                          .columns = name_columns(columns, width),
                                          .most = most,
                                          .whole = aorta_trace_beyond_steps(analysis),
                                          .shorten = aorta_kernel_short_name};
    aorta_table_text(table, &(struct aorta_trace_of){analysis, rank, NULL}, &view, out);
}

static void sync_lines(const struct aorta_trace_analysis *analysis, int width, struct aorta_text *out) {
    const struct aorta_trace_rank *rank = rank_of_syncs(analysis);
    if (!rank) return;
    char whose[32] = "", title[80];
    if (analysis->rank_count > 1) snprintf(whose, sizeof whose, " of rank %d", rank->rank);
    snprintf(title, sizeof title, "calls%s that wait for the device, %s", whose, period(analysis));
    table_lines(analysis, &aorta_table_synchronisations, rank, title, SYNC_COLUMNS, SYNCS_SHOWN, width, out);
}

static void difference_lines(const struct aorta_trace_analysis *analysis, int width, struct aorta_text *out) {
    char title[64];
    snprintf(title, sizeof title, "kernels that differ between ranks, %s", period(analysis));
    table_lines(analysis, &aorta_table_differences, NULL, title, KERNEL_COLUMNS, DIFFERENCES_SHOWN, width, out);
}

/* A sentence, composed in `text`, on as many lines as it takes. */
static void put_sentence(struct aorta_text *text, int width, struct aorta_text *out) {
    const struct aorta_lines lines = {.width = width, .indent = 2};
    out->failed |= text->failed;
    aorta_text_lines(out, text->data ? text->data : "", &lines);
    aorta_text_clear(text);
}

static void lane_line(const struct aorta_trace_rank *rank, const struct aorta_trace_lane_row *lanes, size_t count,
                      bool queues, bool whole, struct aorta_text *out) {
    aorta_text_printf(out, "%s, ms busy%s:", aorta_counted((long long)count, queues ? "queue" : "stream").text,
                      whole ? " in the whole recording" : "");
    for (size_t i = 0; i < count && i < LANES_SHOWN; i++) {
        int64_t id = queues ? rank->trace->queues[lanes[i].row].id : rank->trace->streams[lanes[i].row].id;
        aorta_text_printf(out, "%s %.3f on %lld", i ? "," : "", ms(lanes[i].busy_ns), (long long)id);
        if (queues) aorta_text_printf(out, " (%s)", aorta_counted((long long)lanes[i].others, "stream").text);
    }
    if (count > LANES_SHOWN) aorta_text_printf(out, ", and %zu more (--json has all)", count - LANES_SHOWN);
}

static void alignment_line(const struct aorta_trace_analysis *analysis, struct aorta_text *out) {
    const struct aorta_alignment *alignment = &analysis->alignment;
    if (analysis->rank_count < 2) return;
    if (!analysis->common_clock) {
        aorta_text_puts(out, "clocks: each step of a rank has one of its own, or the ranks' differ: waits are known of "
                             "each step alone");
        return;
    }
    if (!alignment->shared_count) {
        if (alignment->mismatch_ns < 0)
            aorta_text_puts(out,
                            "clocks: the ranks share no collective that identifies itself, so their waits for each "
                            "other are not known");
        else
            aorta_text_printf(out,
                              "clocks: the ranks' collectives do not match, their ends lie %.1f us apart: a rank lost "
                              "records, or the files are of different runs. Waits for each other are not known; record "
                              "again",
                              (double)alignment->mismatch_ns / 1e3);
        return;
    }
    aorta_text_printf(out,
                      analysis->measured ? "clocks: one for all ranks; of %s half end within %.1f us"
                                         : "clocks: aligned on the ends of %s, half of them within %.1f us",
                      aorta_counted((long long)alignment->shared_count, "collective").text,
                      (double)alignment->residual_ns / 1e3);
    int late = aorta_alignment_straggler(alignment);
    if (late >= 0)
        aorta_text_printf(out, "; rank %d came last %s, by %.3f ms in all", analysis->ranks[late].rank,
                          aorta_counted((long long)alignment->clocks[late].late, "time").text,
                          ms(alignment->clocks[late].late_ns));
}

/* Kernels of one stream overlap by microseconds where the program allows it (programmatic launches, XLA's streams). */
static bool is_shown(const struct aorta_trace_rank *rank, enum aorta_trace_reason reason) {
    static const double much = 0.02; /* of the time that the device is busy */
    int64_t overlapped_ns = 0;
    for (size_t i = 0; i < rank->stream_count; i++) overlapped_ns += rank->streams[i].overlapped_ns;
    return reason != AORTA_REASON_SAME_STREAM_OVERLAP || (double)overlapped_ns >= much * (double)rank->figures.busy_ns;
}

/* Of the trace that the rank is the first of. */
static bool is_first_of_trace(const struct aorta_trace_analysis *analysis, size_t rank) {
    return !rank || analysis->ranks[rank].trace != analysis->ranks[rank - 1].trace;
}

/* The same in several files is one note, by the file that has it first. */
static void warning_line(const struct aorta_trace_analysis *analysis, enum aorta_trace_reason reason,
                         struct aorta_text *sentence) {
    const struct aorta_trace *first = NULL;
    int64_t count = 0;
    size_t files = 0;
    for (size_t i = 0; i < analysis->rank_count; i++) {
        const struct aorta_trace *trace = analysis->ranks[i].trace;
        if (!is_first_of_trace(analysis, i) || !trace->warnings[reason].count) continue;
        if (!is_shown(&analysis->ranks[i], reason)) continue;
        if (!first) first = trace;
        count += trace->warnings[reason].count;
        files++;
    }
    if (!first) return;
    aorta_text_printf(sentence, "note: %s", first->path);
    if (files > 1) aorta_text_printf(sentence, " and %s", aorta_counted((long long)files - 1, "more file").text);
    aorta_text_printf(sentence, ": %lld × %s", (long long)count, aorta_trace_reason_text(reason));
    if (first->warnings[reason].offset >= 0)
        aorta_text_printf(sentence, " (first at byte %lld)", (long long)first->warnings[reason].offset);
}

static void warning_lines(const struct aorta_trace_analysis *analysis, int width, struct aorta_text *sentence,
                          struct aorta_text *out) {
    for (int reason = 0; reason < AORTA_REASON_COUNT; reason++) {
        warning_line(analysis, (enum aorta_trace_reason)reason, sentence);
        if (sentence->length) put_sentence(sentence, width, out);
    }
}

static void possible_line(const struct aorta_trace_rank *rank, int width, struct aorta_text *sentence,
                          struct aorta_text *out) {
    if (aorta_trace_possible_collectives(rank, sentence)) put_sentence(sentence, width, out);
}

static void outside_line(const struct aorta_trace_analysis *analysis, int width, struct aorta_text *sentence,
                         struct aorta_text *out) {
    if (!analysis->ranks_outside) return;
    aorta_text_printf(sentence, "note: left out, with nothing in a marked step: %s",
                      aorta_counted((long long)analysis->ranks_outside, "rank").text);
    put_sentence(sentence, width, out);
}

static void step_line(const struct aorta_trace_analysis *analysis, struct aorta_text *out) {
    static const char *const sentences[AORTA_STEP_SOURCE_COUNT] = {
        [AORTA_STEPS_BY_RANGE] = "steps: each begins with a range that --step-range matches\n",
        [AORTA_STEPS_BY_OPTIMIZER] = "steps: no ProfilerStep is marked; each ends with a range Optimizer.step\n",
        [AORTA_STEPS_APART] = "steps: iterations measured one by one; the time between them is left out\n",
        [AORTA_STEPS_BY_ENGINE] = "steps: no ProfilerStep is marked; each begins with a range of the engine\n",
    };
    if (analysis->ranks[0].trace->host_only)
        aorta_text_puts(out,
                        "host alone: no work of a device is in the file. Operations stand for it, each with its own "
                        "time, threads for streams\n");
    const char *sentence = analysis->stepped ? sentences[analysis->ranks[0].trace->steps_by] : NULL;
    if (sentence) aorta_text_puts(out, sentence);
}

/* What lies before the first step that counts, where it is more than a little. */
static void startup_line(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank, int width,
                         struct aorta_text *sentence, struct aorta_text *out) {
    static const double much = 0.05; /* of the rank's span */
    size_t first = 0;
    while (first < rank->window_count && !aorta_trace_window_counts(analysis, &rank->windows[first])) first++;
    if (!analysis->stepped || first == rank->window_count) return;
    const int64_t before_ns = rank->windows[first].start_ns - rank->figures.start_ns;
    if ((double)before_ns < much * (double)rank->figures.span_ns) return;
    aorta_text_printf(sentence, "left out of the steps: the first %.3f of %.3f ms", ms(before_ns),
                      ms(rank->figures.span_ns));
    if (analysis->warmup)
        aorta_text_printf(sentence, ", %s in them", aorta_counted((long long)analysis->warmup, "warm-up step").text);
    aorta_text_puts(
        sentence, ": start-up, compilation, autotuning; the figures above are of all of it, what is of a step and the "
                  "verdict are of the steps");
    put_sentence(sentence, width, out);
}

/* Of a step, of those that the verdict is of, where steps are known. */
static void work_lines(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank, int width,
                       struct aorta_text *out) {
    const bool stepped = analysis->stepped;
    char title[48];
    snprintf(title, sizeof title, "operations, their own time%s", stepped ? ", a step" : "");
    table_lines(analysis, stepped ? &aorta_table_work_by_step : &aorta_table_work, rank,
                rank->trace->host_only ? title : NULL, KERNEL_COLUMNS, KERNELS_SHOWN, width, out);
    table_lines(analysis, stepped ? &aorta_table_collectives_by_step : &aorta_table_collectives, rank, NULL,
                COLLECTIVE_COLUMNS, COLLECTIVES_SHOWN, width, out);
    if (sizes_say_more(analysis, rank))
        table_lines(analysis, stepped ? &aorta_table_collective_sizes_by_step : &aorta_table_collective_sizes, rank,
                    NULL, COLLECTIVE_COLUMNS, COLLECTIVES_SHOWN, width, out);
}

void aorta_trace_report_text(const struct aorta_trace_report *report, const struct aorta_verdict_style *style,
                             struct aorta_text *out) {
    const int width = style ? style->width : 0;
    const struct aorta_trace_analysis *analysis = report->analysis;
    const struct aorta_trace_rank *rank = busiest(analysis);
    const bool whole = aorta_trace_beyond_steps(analysis);
    struct aorta_text sentence = {0};
    rank_lines(analysis, out);
    if (!analysis->ranks[0].trace->host_only) {
        idle_line(analysis, &sentence);
        put_sentence(&sentence, width, out);
    }
    alignment_line(analysis, &sentence);
    if (sentence.length) put_sentence(&sentence, width, out);
    step_line(analysis, out);
    if (!analysis->measured) startup_line(analysis, rank, width, &sentence, out);
    if (analysis->rank_count > 1) aorta_text_printf(out, "\nrank %d, the busiest:\n", rank->rank);
    work_lines(analysis, rank, width, out);
    lane_line(rank, rank->streams, rank->stream_count, false, whole, &sentence);
    put_sentence(&sentence, width, out);
    if (rank->queue_count) {
        lane_line(rank, rank->queues, rank->queue_count, true, whole, &sentence);
        put_sentence(&sentence, width, out);
    }
    sync_lines(analysis, width, out);
    difference_lines(analysis, width, out);
    warning_lines(analysis, width, &sentence, out);
    possible_line(rank, width, &sentence, out);
    outside_line(analysis, width, &sentence, out);
    aorta_text_puts(out, "\n");
    aorta_text_free(&sentence);
    aorta_verdict_text(report->verdict, style, out);
}

void aorta_trace_report_verdict(const struct aorta_trace_report *report, const struct aorta_verdict_style *style,
                                struct aorta_text *out) {
    struct aorta_text sentence = {0};
    possible_line(busiest(report->analysis), style ? style->width : 0, &sentence, out);
    aorta_text_free(&sentence);
    aorta_verdict_text(report->verdict, style, out);
}

aorta_status aorta_trace_report_by(const struct aorta_trace_report *report, int width, struct aorta_text *out) {
    const struct aorta_trace_analysis *analysis = report->analysis;
    const struct aorta_trace_of of = {analysis, busiest(analysis), NULL};
    const struct aorta_table_view view = {.columns = name_columns(BY_COLUMNS, width),
                                          .most = report->top,
                                          .whole = aorta_trace_beyond_steps(analysis),
                                          .shorten = aorta_kernel_short_name};
    if (analysis->rank_count > 1) aorta_text_printf(out, "rank %d, the busiest:\n", of.rank->rank);
    if (report->of.within) aorta_text_printf(out, "work within \"%s\" alone:\n", report->of.within);
    bool first = true;
    for (int i = 0; i < AORTA_BY_COUNT; i++)
        if (report->by & 1u << i) {
            if (!first || analysis->rank_count > 1) aorta_text_puts(out, "\n");
            first = false;
            AORTA_TRY(
                aorta_trace_by_text(&of, (enum aorta_by)i, &(struct trace_by){report->path, report->of}, &view, out));
        }
    return NULL;
}
