/* A screenful for a terminal: the ranks' figures, the largest rows of each table, then the verdict. */
#include "base/lines.h"
#include "report/trace_report.h"
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
enum { TABLE_WIDTH = 96, KERNEL_COLUMNS = 48, COLLECTIVE_COLUMNS = 36, SYNC_COLUMNS = 66, NAME_SIZE = 512 };

/* Of the names, in a table that gives them `columns` in its usual width; 0: no terminal. */
static int name_columns(int columns, int width) {
    return width > TABLE_WIDTH ? columns + width - TABLE_WIDTH : width ? columns : 0;
}

static void begin_titles(struct aorta_text *out, const char *title, int columns) {
    aorta_text_row_begin(out, title, columns ? columns + 2 : 0);
}

static void begin_row(struct aorta_text *out, const char *name, int columns) {
    if (columns) aorta_text_puts(out, "  ");
    aorta_text_row_begin(out, name, columns);
}

/* Short on a terminal, else as the file has it. */
static const char *kernel_name(const char *whole, int columns, char name[NAME_SIZE]) {
    return columns ? aorta_kernel_short_name(whole, name, NAME_SIZE) : whole;
}

static double ms(int64_t ns) {
    return (double)ns / 1e6;
}

static void percent(struct aorta_text *out, double ratio) {
    if (isnan(ratio))
        aorta_text_puts(out, "      -");
    else
        aorta_text_printf(out, " %5.1f%%", 100 * ratio);
}

static void rank_lines(const struct aorta_trace_analysis *analysis, struct aorta_text *out) {
    aorta_text_puts(out,
                    "rank      span      busy   compute      comm    memcpy      idle   overlap   exposed   hidden "
                    "(ms)\n");
    for (size_t i = 0; i < analysis->rank_count && i < RANKS_SHOWN; i++) {
        const struct aorta_trace_figures *f = &analysis->ranks[i].figures;
        aorta_text_printf(out, "%4d %9.3f %9.3f %9.3f %9.3f %9.3f %9.3f %9.3f %9.3f ", analysis->ranks[i].rank,
                          ms(f->span_ns), ms(f->busy_ns), ms(f->compute_ns), ms(f->comm_ns), ms(f->memcpy_ns),
                          ms(f->idle_ns), ms(f->overlap_ns), ms(f->exposed_comm_ns));
        percent(out, f->overlap_ratio);
        aorta_text_puts(out, "\n");
    }
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
    const struct {
        const char *name;
        int64_t ns;
    } parts[] = {{no_waits ? "host launched late or waited" : "host launched late", sum.ns[AORTA_IDLE_HOST_LAUNCH]},
                 {"host waited for the device", sum.ns[AORTA_IDLE_HOST_SYNC]},
                 {"waiting for data", sum.ns[AORTA_IDLE_DATA_WAIT]},
                 {"launched but not started", sum.ns[AORTA_IDLE_LAUNCH_LATENCY]},
                 {"launch not recorded", sum.ns[AORTA_IDLE_UNKNOWN]}};
    aorta_text_puts(out, analysis->rank_count > 1 ? "idle (mean of the ranks):" : "idle:");
    const char *separator = " ";
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (!parts[i].ns) continue;
        aorta_text_printf(out, "%s%s %.3f ms", separator, parts[i].name, ms(parts[i].ns) / ranks);
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

static void kernel_lines(const struct aorta_trace_rank *rank, int width, struct aorta_text *out) {
    static const char title[] = "kernels and copies";
    char buffer[NAME_SIZE];
    const int columns = name_columns(KERNEL_COLUMNS, width);
    begin_titles(out, title, columns);
    aorta_text_printf(out, "%7s %9s %6s %9s %9s", "count", "total ms", "share", "p50 us", "p95 us");
    aorta_text_row_end(out, title, columns);
    for (size_t i = 0; i < rank->kernel_count && i < KERNELS_SHOWN; i++) {
        const struct aorta_trace_kernel_row *row = &rank->kernels[i];
        const char *name = kernel_name(aorta_trace_text(rank->trace, row->name), columns, buffer);
        begin_row(out, name, columns);
        aorta_text_printf(out, "%7zu %9.3f %5.1f%% %9.2f %9.2f", row->times.count, ms(row->times.total_ns),
                          100 * row->share, row->times.p50_ns / 1e3, row->times.p95_ns / 1e3);
        aorta_text_row_end(out, name, columns);
    }
}

static void number(struct aorta_text *out, double value, int decimals) {
    if (isnan(value))
        aorta_text_puts(out, "         -");
    else
        aorta_text_printf(out, " %9.*f", decimals, value);
}

static const char *collective_name(const struct aorta_trace_analysis *analysis,
                                   const struct aorta_trace_collective_row *row, char name[NAME_SIZE]) {
    const char *group = row->group == AORTA_TRACE_NONE ? "" : analysis->groups[row->group].description;
    if (row->group != AORTA_TRACE_NONE && !group[0]) group = analysis->groups[row->group].name;
    snprintf(name, NAME_SIZE, "%s%s%s", aorta_collective_name(row->kind), group[0] ? " in " : "", group);
    return name;
}

static void collective_lines(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank,
                             int width, struct aorta_text *out) {
    if (!rank->collective_count) return;
    char name[NAME_SIZE];
    const int columns = name_columns(COLLECTIVE_COLUMNS, width);
    begin_titles(out, "collectives", columns);
    aorta_text_printf(out, "%7s %9s %9s %9s %9s %9s", "count", "MB each", "total ms", "exposed", "waited", "GB/s bus");
    aorta_text_row_end(out, "collectives", columns);
    for (size_t i = 0; i < rank->collective_count && i < COLLECTIVES_SHOWN; i++) {
        const struct aorta_trace_collective_row *row = &rank->collectives[i];
        begin_row(out, collective_name(analysis, row, name), columns);
        aorta_text_printf(out, "%7zu", row->times.count);
        number(out, row->bytes >= 0 ? (double)row->bytes / 1e6 / (double)row->times.count : NAN, 3);
        aorta_text_printf(out, " %9.3f %9.3f", ms(row->times.total_ns), ms(row->blamed_ns));
        number(out, row->waits_known ? ms(row->wait_ns) : NAN, 3);
        number(out, isnan(row->transfer_busbw_gbps) ? row->busbw_gbps : row->transfer_busbw_gbps, 2);
        aorta_text_row_end(out, name, columns);
    }
}

/* ---- collectives by size ---- */

static const char *size_name(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank,
                             const struct aorta_trace_collective_row *row, char name[NAME_SIZE]) {
    collective_name(analysis, row, name);
    size_t length = strlen(name);
    if (row->dtype != AORTA_TRACE_NONE)
        snprintf(name + length, NAME_SIZE - length, ", %s", aorta_trace_text(rank->trace, row->dtype));
    return name;
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

static void size_lines(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank, int width,
                       struct aorta_text *out) {
    if (!sizes_say_more(analysis, rank)) return;
    char name[NAME_SIZE];
    const int columns = name_columns(COLLECTIVE_COLUMNS, width);
    begin_titles(out, "collectives by size", columns);
    aorta_text_printf(out, "%7s %9s %9s %9s %9s %9s", "count", "MB each", "channels", "transfer", "GB/s bus",
                      "of link");
    aorta_text_row_end(out, "collectives by size", columns);
    for (size_t i = 0; i < rank->collective_size_count && i < COLLECTIVES_SHOWN; i++) {
        const struct aorta_trace_collective_row *row = &rank->collective_sizes[i];
        double link_gbps = aorta_trace_link_of(analysis, rank, row);
        begin_row(out, size_name(analysis, rank, row, name), columns);
        aorta_text_printf(out, "%7zu", row->times.count);
        number(out, row->bytes_each >= 0 ? (double)row->bytes_each / 1e6 : NAN, 3);
        number(out, row->channels >= 0 ? (double)row->channels : NAN, 0);
        number(out, row->waits_known ? ms(row->transfer_ns) : NAN, 3);
        number(out, row->transfer_busbw_gbps, 2);
        aorta_text_puts(out, "   ");
        percent(out, link_gbps > 0 ? row->transfer_busbw_gbps / link_gbps : NAN);
        aorta_text_row_end(out, name, columns);
    }
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

static void sync_lines(const struct aorta_trace_analysis *analysis, int width, struct aorta_text *out) {
    const struct aorta_trace_rank *rank = rank_of_syncs(analysis);
    if (!rank) return;
    char name[NAME_SIZE], whose[32] = "", title[80];
    if (analysis->rank_count > 1) snprintf(whose, sizeof whose, " of rank %d", rank->rank);
    snprintf(title, sizeof title, "calls%s that wait for the device, %s", whose, period(analysis));
    const int columns = name_columns(SYNC_COLUMNS, width);
    begin_titles(out, title, columns);
    aorta_text_printf(out, "%7s %9s %9s", "count", "ms", "p95 us");
    aorta_text_row_end(out, title, columns);
    for (size_t i = 0; i < rank->sync_count && i < SYNCS_SHOWN; i++) {
        const struct aorta_trace_sync_row *row = &rank->syncs[i];
        begin_row(out, aorta_trace_sync_name(rank->trace, row, name, sizeof name), columns);
        aorta_text_printf(out, "%7.1f %9.3f %9.2f", (double)row->times.count / (double)rank->steps,
                          ms(row->times.total_ns) / (double)rank->steps, row->times.p95_ns / 1e3);
        aorta_text_row_end(out, name, columns);
    }
}

/* ---- kernels that differ ---- */

static void difference_lines(const struct aorta_trace_analysis *analysis, int width, struct aorta_text *out) {
    if (!analysis->difference_count) return;
    char buffer[NAME_SIZE], title[64];
    snprintf(title, sizeof title, "kernels that differ between ranks, %s", period(analysis));
    const int columns = name_columns(KERNEL_COLUMNS, width);
    begin_titles(out, title, columns);
    aorta_text_printf(out, "%7s %9s %9s %9s %9s", "rank", "count", "ms", "others", "ms");
    aorta_text_row_end(out, title, columns);
    for (size_t i = 0; i < analysis->difference_count && i < DIFFERENCES_SHOWN; i++) {
        const struct aorta_trace_difference *row = &analysis->differences[i];
        const char *name = kernel_name(row->name, columns, buffer);
        begin_row(out, name, columns);
        aorta_text_printf(out, "%7d %9.1f %9.3f %9.1f %9.3f", analysis->ranks[row->rank].rank, row->count,
                          row->ns / 1e6, row->others_count, row->others_ns / 1e6);
        aorta_text_row_end(out, name, columns);
    }
}

/* A sentence, composed in `text`, on as many lines as it takes. */
static void put_sentence(struct aorta_text *text, int width, struct aorta_text *out) {
    const struct aorta_lines lines = {.width = width, .indent = 2};
    out->failed |= text->failed;
    aorta_text_lines(out, text->data ? text->data : "", &lines);
    aorta_text_clear(text);
}

static void lane_line(const struct aorta_trace_rank *rank, const struct aorta_trace_lane_row *lanes, size_t count,
                      bool queues, struct aorta_text *out) {
    aorta_text_printf(out, "%s, ms busy:", aorta_counted((long long)count, queues ? "queue" : "stream").text);
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
    if (!alignment->shared_count) {
        if (alignment->mismatch_ns < 0)
            aorta_text_puts(out,
                            "clocks: the ranks share no collective that identifies itself, so their waits for each "
                            "other are not known\n");
        else
            aorta_text_printf(out,
                              "clocks: the ranks' collectives do not match, their ends lie %.1f us apart: a rank lost "
                              "records, or the files are of different runs. Waits for each other are not known; record "
                              "again\n",
                              (double)alignment->mismatch_ns / 1e3);
        return;
    }
    aorta_text_printf(out, "clocks: aligned on the ends of %s, half of them within %.1f us",
                      aorta_counted((long long)alignment->shared_count, "collective").text,
                      (double)alignment->residual_ns / 1e3);
    int late = aorta_alignment_straggler(alignment);
    if (late >= 0)
        aorta_text_printf(out, "; rank %d came last %s, by %.3f ms in all", analysis->ranks[late].rank,
                          aorta_counted((long long)alignment->clocks[late].late, "time").text,
                          ms(alignment->clocks[late].late_ns));
}

static void warning_lines(const struct aorta_trace_analysis *analysis, int width, struct aorta_text *sentence,
                          struct aorta_text *out) {
    const struct aorta_trace *last = NULL;
    for (size_t i = 0; i < analysis->rank_count; i++) {
        const struct aorta_trace *trace = analysis->ranks[i].trace;
        if (trace == last) continue;
        last = trace;
        for (int reason = 0; reason < AORTA_REASON_COUNT; reason++) {
            if (!trace->warnings[reason].count) continue;
            aorta_text_printf(sentence, "note: %s: %lld × %s", trace->path, (long long)trace->warnings[reason].count,
                              aorta_trace_reason_text((enum aorta_trace_reason)reason));
            if (trace->warnings[reason].offset >= 0)
                aorta_text_printf(sentence, " (first at byte %lld)", (long long)trace->warnings[reason].offset);
            put_sentence(sentence, width, out);
        }
    }
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
    const char *sentence = analysis->stepped ? sentences[analysis->ranks[0].trace->steps_by] : NULL;
    if (sentence) aorta_text_puts(out, sentence);
}

void aorta_trace_report_text(const struct aorta_trace_report *report, int width, struct aorta_text *out) {
    const struct aorta_trace_analysis *analysis = report->analysis;
    const struct aorta_trace_rank *rank = busiest(analysis);
    struct aorta_text sentence = {0};
    rank_lines(analysis, out);
    idle_line(analysis, &sentence);
    put_sentence(&sentence, width, out);
    alignment_line(analysis, &sentence);
    if (sentence.length) put_sentence(&sentence, width, out);
    step_line(analysis, out);
    if (analysis->rank_count > 1) aorta_text_printf(out, "\nrank %d, the busiest:\n", rank->rank);
    kernel_lines(rank, width, out);
    collective_lines(analysis, rank, width, out);
    size_lines(analysis, rank, width, out);
    lane_line(rank, rank->streams, rank->stream_count, false, &sentence);
    put_sentence(&sentence, width, out);
    if (rank->queue_count) {
        lane_line(rank, rank->queues, rank->queue_count, true, &sentence);
        put_sentence(&sentence, width, out);
    }
    sync_lines(analysis, width, out);
    difference_lines(analysis, width, out);
    warning_lines(analysis, width, &sentence, out);
    outside_line(analysis, width, &sentence, out);
    aorta_text_puts(out, "\n");
    aorta_verdict_text(report->verdict, width, out);
    aorta_text_free(&sentence);
}
