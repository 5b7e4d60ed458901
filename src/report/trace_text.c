/* A screenful for a terminal: titled tables, the verdict, then notes. */
#include "analysis/analysis.h"
#include "base/lines.h"
#include "base/printable.h"
#include "report/phrases.h"
#include "report/trace_report.h"
#include "report/trace_tables.h"
#include "report/verdict_text.h"

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
enum { LABEL = 9, TITLE_SIZE = 96 };

/* The report that is written, its style and its output. */
struct page {
    const struct aorta_trace_analysis *analysis;
    const struct aorta_trace_rank *rank; /* of the tables of one rank */
    const struct aorta_verdict_style *style;
    struct aorta_text *out;
};

static double ms(int64_t ns) {
    return (double)ns / 1e6;
}

/* "label    text", wrapped; frees the text. */
static void put_row(const struct page *page, const char *label, struct aorta_text *text) {
    const struct aorta_lines lines = {
        .width = aorta_verdict_width(page->style), .taken = 2 + LABEL, .indent = 2 + LABEL};
    if (text->length) {
        aorta_text_printf(page->out, "  %-*s", LABEL, label);
        aorta_text_lines(page->out, text->data, &lines);
    }
    aorta_text_end(text, page->out);
}

static void put_ranks(const struct page *page) {
    const struct aorta_trace_analysis *analysis = page->analysis;
    const struct aorta_table_view view = {
        .title = analysis->chosen ? "Chosen steps, ms" : "Whole recording, ms", .most = RANKS_SHOWN, .more = "--json"};
    aorta_table_text(&aorta_table_ranks, &(struct aorta_trace_of){.analysis = analysis}, &view, page->out);
}

static void put_idle(const struct page *page) {
    static const enum aorta_idle_cause order[] = {AORTA_IDLE_HOST_LAUNCH, AORTA_IDLE_HOST_SYNC, AORTA_IDLE_DATA_WAIT,
                                                  AORTA_IDLE_LAUNCH_LATENCY, AORTA_IDLE_UNKNOWN};
    const struct aorta_trace_analysis *analysis = page->analysis;
    const double ranks = (double)analysis->rank_count;
    struct aorta_idle sum = {0};
    struct aorta_text text = {0};
    bool no_waits = false;
    for (size_t i = 0; i < analysis->rank_count; i++) {
        aorta_idle_add(&sum, &analysis->ranks[i].idle);
        const struct aorta_trace *trace = analysis->ranks[i].trace;
        no_waits = no_waits || (trace->no_waits && !trace->no_launches);
    }
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        if (!sum.ns[order[i]]) continue;
        const bool either = no_waits && order[i] == AORTA_IDLE_HOST_LAUNCH;
        aorta_text_printf(&text, "%s%.3f %s%s", text.length ? ", " : "", ms(sum.ns[order[i]]) / ranks,
                          aorta_idle_words[order[i]].when, either ? " or after host waits" : "");
    }
    if (text.length && analysis->rank_count > 1) aorta_text_puts(&text, " (mean of the ranks)");
    put_row(page, "idle", &text);
}

/* ---- tables of the rank with most device time ---- */

static const struct aorta_trace_rank *busiest(const struct aorta_trace_analysis *analysis) {
    const struct aorta_trace_rank *best = &analysis->ranks[0];
    for (size_t i = 1; i < analysis->rank_count; i++)
        if (analysis->ranks[i].figures.busy_ns > best->figures.busy_ns) best = &analysis->ranks[i];
    return best;
}

/* Whether the table by size is useful: transfers are known without waiting, and kinds have several sizes or the link is
 * known. */
static bool sizes_say_more(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank) {
    bool several = rank->collective_size_count > rank->collective_count;
    for (size_t i = 0; i < rank->collective_size_count; i++)
        if (rank->collective_sizes[i].waits_known &&
            (several || aorta_trace_link_of(analysis, rank, &rank->collective_sizes[i]) > 0))
            return true;
    return false;
}

/* ---- calls that wait for the device ---- */

static size_t sync_calls(const struct aorta_trace_rank *rank) {
    size_t count = 0;
    for (size_t i = 0; i < rank->sync_count; i++) count += rank->syncs[i].times.count;
    return count;
}

/* Waits below 1% of the recording are not shown. */
static bool syncs_matter(const struct aorta_trace_rank *rank) {
    int64_t total_ns = 0;
    for (size_t i = 0; i < rank->sync_count; i++) total_ns += rank->syncs[i].times.total_ns;
    return 100 * total_ns >= rank->figures.span_ns && total_ns > 0;
}

/* The rank with the most synchronisations. A rank that waits longer in fewer calls may be waiting for this rank. */
static const struct aorta_trace_rank *rank_of_syncs(const struct aorta_trace_analysis *analysis) {
    const struct aorta_trace_rank *best = NULL;
    for (size_t i = 0; i < analysis->rank_count; i++)
        if (syncs_matter(&analysis->ranks[i]) && (!best || sync_calls(&analysis->ranks[i]) > sync_calls(best)))
            best = &analysis->ranks[i];
    return best;
}

/* "Per step, ms, rank 3 (the busiest)". `why`: the reason for this rank; NULL: the table is of all ranks. */
static const char *scope(const struct page *page, bool step, const char *why, char title[TITLE_SIZE]) {
    char rank[64] = "";
    if (why && page->analysis->rank_count > 1) snprintf(rank, sizeof rank, ", rank %d (%s)", page->rank->rank, why);
    snprintf(title, TITLE_SIZE, "\n%s, ms%s", step ? "Per step" : "Whole recording", rank);
    return title;
}

/* `step_columns`: NULL if the table is not per step. */
static void put_table(const struct page *page, const struct aorta_result_table *table,
                      const struct aorta_column *step_columns, const char *name, const char *title, size_t most,
                      const char *more) {
    const bool whole = page->style->view.full_names;
    const struct aorta_table_view view = {.title = title,
                                          .name = name,
                                          .most = most,
                                          .columns = step_columns,
                                          .shorten = whole ? NULL : aorta_name_for_line,
                                          .width = whole ? 0 : aorta_verdict_width(page->style),
                                          .more = more};
    aorta_table_text(table, &(struct aorta_trace_of){page->analysis, page->rank, NULL, step_columns != NULL}, &view,
                     page->out);
}

static void put_syncs(const struct page *page) {
    struct page own = *page;
    char title[TITLE_SIZE];
    own.rank = rank_of_syncs(page->analysis);
    if (!own.rank) return;
    put_table(&own, &aorta_table_synchronisations, NULL, "calls that wait for the GPU",
              scope(&own, page->analysis->stepped, "most such calls", title), SYNCS_SHOWN, "--json");
}

static void put_differences(const struct page *page) {
    char title[TITLE_SIZE];
    put_table(page, &aorta_table_differences, NULL, "kernels that differ between ranks",
              scope(page, page->analysis->stepped, NULL, title), DIFFERENCES_SHOWN, "--json");
}

static void put_lanes(const struct page *page, bool queues) {
    const struct aorta_trace_rank *rank = page->rank;
    const struct aorta_trace_lane_row *lanes = queues ? rank->queues : rank->streams;
    const size_t count = queues ? rank->queue_count : rank->stream_count;
    struct aorta_text text = {0};
    for (size_t i = 0; i < count && i < LANES_SHOWN; i++) {
        const int64_t id = queues ? rank->trace->queues[lanes[i].row].id : rank->trace->streams[lanes[i].row].id;
        aorta_text_printf(&text, "%s%lld: %.3f", i ? ", " : "", (long long)id, ms(lanes[i].busy_ns));
        if (queues) aorta_text_printf(&text, " (%s)", aorta_counted((long long)lanes[i].others, "stream").text);
    }
    if (count > LANES_SHOWN) aorta_text_printf(&text, ", and %zu more (--json has all)", count - LANES_SHOWN);
    put_row(page, queues ? "queues" : "streams", &text);
}

static void put_clocks(const struct page *page) {
    const struct aorta_trace_analysis *analysis = page->analysis;
    const struct aorta_alignment *alignment = &analysis->alignment;
    const int late = aorta_alignment_straggler(alignment);
    struct aorta_text text = {0};
    if (analysis->rank_count < 2) return;
    if (!analysis->common_clock) {
        aorta_text_puts(&text, "each step has its own, or the ranks differ: waits are known within a step only");
    } else if (!alignment->shared_count && alignment->mismatch_ns < 0) {
        aorta_text_puts(&text, "no shared collective identifies itself: waits for other ranks are not known");
    } else if (!alignment->shared_count) {
        aorta_text_printf(&text,
                          "collectives of the ranks do not match (ends %.1f us apart): lost records or different runs; "
                          "record again",
                          (double)alignment->mismatch_ns / 1e3);
    } else {
        aorta_text_printf(&text, "%s, %.1f us (median) at the ends of %s",
                          analysis->measured ? "one for all ranks" : "aligned", (double)alignment->residual_ns / 1e3,
                          aorta_counted((long long)alignment->shared_count, "collective").text);
        if (late >= 0)
            aorta_text_printf(&text, "; rank %d came last %s, by %.3f ms in all", analysis->ranks[late].rank,
                              aorta_counted((long long)alignment->clocks[late].late, "time").text,
                              ms(alignment->clocks[late].late_ns));
    }
    put_row(page, "clocks", &text);
}

/* Names the devices whose clock was ahead of their host. */
static void put_device_clocks(const struct page *page) {
    const struct aorta_trace_analysis *analysis = page->analysis;
    struct aorta_text text = {0};
    size_t count = 0;
    int64_t most_ns = 0;
    int rank = 0;
    for (size_t i = 0; i < analysis->rank_count; i++) {
        const int64_t ns = aorta_trace_device_ahead(analysis->ranks[i].trace, analysis->ranks[i].device);
        count += ns > 0;
        if (ns > most_ns) {
            most_ns = ns;
            rank = analysis->ranks[i].rank;
        }
    }
    if (count == 1)
        aorta_text_printf(&text, "corrected: the device clock of rank %d was %.1f us ahead of its host", rank,
                          (double)most_ns / 1e3);
    else if (count)
        aorta_text_printf(&text,
                          "corrected: the device clocks of %zu ranks were up to %.1f us (rank %d) ahead of their hosts",
                          count, (double)most_ns / 1e3, rank);
    put_row(page, analysis->rank_count > 1 ? "" : "clocks", &text);
}

/* ---- notes ---- */

/* Kernels of one stream overlap by microseconds where the program allows it (programmatic launches, XLA's streams). The
 * shortest kernels of a clock that counts microseconds have none. */
static bool is_shown(const struct aorta_trace_rank *rank, enum aorta_trace_reason reason) {
    static const double much = 0.02; /* of the time that the device is busy */
    int64_t overlapped_ns = 0;
    if (reason == AORTA_REASON_ZERO_DURATION)
        return 2 * (size_t)rank->trace->warnings[reason].count > rank->trace->work_count;
    for (size_t i = 0; i < rank->stream_count; i++) overlapped_ns += rank->streams[i].overlapped_ns;
    return reason != AORTA_REASON_SAME_STREAM_OVERLAP || (double)overlapped_ns >= much * (double)rank->figures.busy_ns;
}

/* The name without folders; a long name loses its middle. */
static void put_file(const struct page *page, const char *path, struct aorta_text *out) {
    enum { LONG = 44, HALF = 20 };
    const char *slash = strrchr(path, '/'), *name = slash && slash[1] ? slash + 1 : path;
    const size_t length = strlen(name);
    if (length <= LONG || page->style->view.full_names)
        aorta_text_puts(out, name);
    else
        aorta_text_printf(out, "%.*s…%s", HALF, name, name + length - HALF);
}

/* One note for all files with the warning. It names the first file. */
static void put_warning(const struct page *page, enum aorta_trace_reason reason) {
    const struct aorta_trace_analysis *analysis = page->analysis;
    const struct aorta_trace *first = NULL, *last = NULL;
    struct aorta_text text = {0};
    int64_t count = 0;
    size_t files = 0;
    for (size_t i = 0; i < analysis->rank_count; i++) {
        const struct aorta_trace *trace = analysis->ranks[i].trace;
        if ((i && trace == analysis->ranks[i - 1].trace) || !trace->warnings[reason].count) continue;
        if (!is_shown(&analysis->ranks[i], reason)) continue;
        files += !last || strcmp(last->path, trace->path) != 0; /* the ranks of a merged file follow each other */
        if (!first) first = trace;
        last = trace;
        count += trace->warnings[reason].count;
    }
    if (!first) return;
    const char *about = first->warnings[reason].about, *words = aorta_trace_warning_text(first, reason);
    if (about) {
        put_file(page, about, &text);
        if (count > 1) aorta_text_printf(&text, " and %lld more", (long long)count - 1);
        aorta_text_printf(&text, ": %s", words);
    } else {
        if (reason != AORTA_REASON_FAILED_LAUNCH) aorta_text_printf(&text, "%lld × ", (long long)count);
        aorta_text_printf(&text, "%s (", words);
        put_file(page, first->path, &text);
        if (files > 1) aorta_text_printf(&text, " and %s", aorta_counted((long long)files - 1, "more file").text);
        aorta_text_puts(&text, ")");
    }
    put_row(page, "note", &text);
}

static void put_notes(const struct page *page) {
    struct aorta_text text = {0};
    for (int reason = 0; reason < AORTA_REASON_COUNT; reason++) put_warning(page, (enum aorta_trace_reason)reason);
    if (page->analysis->devices_idle)
        aorta_text_printf(&text, "%s without kernels: left out",
                          aorta_counted((long long)page->analysis->devices_idle, "device").text);
    put_row(page, "note", &text);
    if (page->analysis->ranks_outside)
        aorta_text_printf(&text, "%s without work in a marked step: left out",
                          aorta_counted((long long)page->analysis->ranks_outside, "rank").text);
    put_row(page, "note", &text);
}

/* A warning that changes how the verdict is read. */
static void put_possible(const struct page *page) {
    struct aorta_text text = {0};
    aorta_trace_possible_collectives(page->rank, &text);
    put_row(page, "note", &text);
}

/* ---- what the tables are of ---- */

static void put_steps(const struct page *page) {
    static const char *const sentences[AORTA_STEP_SOURCE_COUNT] = {
        [AORTA_STEPS_BY_RANGE] = "each begins with a range that --step-range matches",
        [AORTA_STEPS_BY_OPTIMIZER] = "each ends with a range Optimizer.step, as no ProfilerStep is marked",
        [AORTA_STEPS_APART] = "iterations measured one by one, without the time between them",
        [AORTA_STEPS_BY_REPETITION] = "found by repeating kernels, as none are marked; each may be a layer or "
                                      "several iterations",
        [AORTA_STEPS_BY_ENGINE] = "each begins with a range of the engine, as no ProfilerStep is marked",
    };
    const struct aorta_trace *trace = page->analysis->ranks[0].trace;
    const char *sentence = page->analysis->stepped ? sentences[trace->steps_by] : NULL;
    struct aorta_text text = {0}, device = {0};
    if (trace->host_only)
        aorta_text_puts(&device,
                        "no work of it is recorded: the tables show operations of the host, and threads as streams");
    put_row(page, "device", &device);
    if (sentence) aorta_text_puts(&text, sentence);
    if (page->analysis->trend_ns[0] > 0)
        aorta_text_printf(&text, "%sget shorter from %s to %s ms", text.length ? "; they " : "",
                          aorta_measured(page->analysis->trend_ns[0] / 1e6).text,
                          aorta_measured(page->analysis->trend_ns[1] / 1e6).text);
    put_row(page, "steps", &text);
}

/* The time before the first step that counts, unless it is short. */
static void put_startup(const struct page *page) {
    static const double much = 0.05, noted = 0.01; /* of the rank's span */
    const struct aorta_trace_analysis *analysis = page->analysis;
    const struct aorta_trace_rank *rank = page->rank;
    struct aorta_text text = {0};
    size_t first = 0;
    while (first < rank->window_count && !aorta_trace_window_counts(analysis, &rank->windows[first])) first++;
    if (!analysis->stepped || analysis->measured || first == rank->window_count) return;
    const struct aorta_trace_window *window = &rank->windows[first];
    const int64_t before_ns = window->start_ns - window->profile.overlap.lead_ns - rank->figures.start_ns;
    const double span_ns = (double)rank->figures.span_ns;
    if ((double)before_ns >= much * span_ns) {
        aorta_text_printf(&text, "the first %.3f of %.3f ms", ms(before_ns), ms(rank->figures.span_ns));
        if (analysis->warmup)
            aorta_text_printf(&text, " (%s)", aorta_counted((long long)analysis->warmup, "warm-up step").text);
        aorta_text_puts(&text, " are not in the steps below");
    } else if ((double)-before_ns >= noted * span_ns) {
        aorta_text_printf(&text, "the first step begins %.3f ms before the GPU's first work, where the span begins",
                          ms(-before_ns));
    }
    put_row(page, "start-up", &text);
}

static void put_work(const struct page *page) {
    const bool stepped = page->analysis->stepped, host = page->rank->trace->host_only;
    char title[TITLE_SIZE];
    put_table(page, &aorta_table_work, stepped ? trace_work_step_columns : NULL,
              host ? "operations, their own time" : "kernels and copies", scope(page, stepped, "the busiest", title),
              KERNELS_SHOWN, "--by kernel");
    put_table(page, &aorta_table_collectives, stepped ? trace_collective_step_columns : NULL, "collectives",
              scope(page, stepped, "the busiest", title), COLLECTIVES_SHOWN, "--json");
    if (sizes_say_more(page->analysis, page->rank))
        put_table(page, &aorta_table_collective_sizes, stepped ? trace_size_step_columns : NULL, "collectives by size",
                  scope(page, stepped, "the busiest", title), COLLECTIVES_SHOWN, "--json");
}

static struct page page_of(const struct aorta_trace_report *report, const struct aorta_verdict_style *style,
                           struct aorta_text *out) {
    static const struct aorta_verdict_style plain = {0};
    return (struct page){report->analysis, busiest(report->analysis), style ? style : &plain, out};
}

/* Removes escape sequences in file names before colors are added. */
static void clean(struct aorta_text *out, size_t from) {
    if (out->length > from) aorta_make_printable(out->data + from, out->length - from, true);
}

void aorta_trace_report_text(const struct aorta_trace_report *report, const struct aorta_verdict_style *style,
                             struct aorta_text *out) {
    const struct page page = page_of(report, style, out);
    const size_t begin = out->length;
    put_ranks(&page);
    if (!report->analysis->ranks[0].trace->host_only) put_idle(&page);
    put_lanes(&page, false);
    put_lanes(&page, true);
    put_clocks(&page);
    put_device_clocks(&page);
    put_steps(&page);
    put_startup(&page);
    put_work(&page);
    put_syncs(&page);
    put_differences(&page);
    aorta_text_puts(out, "\n");
    clean(out, begin);
    aorta_verdict_text(report->verdict, style, out);
    const size_t end = out->length;
    aorta_text_puts(out, "\n");
    put_possible(&page);
    put_notes(&page);
    clean(out, end);
}

void aorta_trace_report_verdict(const struct aorta_trace_report *report, const struct aorta_verdict_style *style,
                                struct aorta_text *out) {
    const struct page page = page_of(report, style, out);
    aorta_verdict_text(report->verdict, style, out);
    const size_t end = out->length;
    if (!style || !style->answer) put_possible(&page);
    clean(out, end);
}

void aorta_trace_report_by(const struct aorta_trace_report *report, const struct aorta_verdict_style *style,
                           struct aorta_text *out) {
    const struct aorta_trace_analysis *analysis = report->analysis;
    const struct aorta_trace_rank *rank = busiest(analysis);
    const bool whole_names = style && style->view.full_names;
    const struct aorta_table_view view = {.most = report->top,
                                          .whole = aorta_trace_beyond_steps(analysis),
                                          .shorten = whole_names ? NULL : aorta_name_for_line,
                                          .width = whole_names ? 0 : aorta_verdict_width(style)};
    const size_t begin = out->length;
    if (analysis->rank_count > 1) aorta_text_printf(out, "rank %d, the busiest\n", rank->rank);
    if (report->of.within) aorta_text_printf(out, "work within \"%s\" alone\n", report->of.within);
    bool first = true;
    for (int i = 0; i < AORTA_BY_COUNT; i++)
        if (report->by & 1u << i) {
            if (!first || analysis->rank_count > 1) aorta_text_puts(out, "\n");
            first = false;
            trace_by_text(report, rank, (enum aorta_by)i, &view, out);
        }
    clean(out, begin);
}

/* The analysis as JSON; docs/metrics-format.md lists the keys. Milliseconds with six decimals are exact nanoseconds. */

/* Limits only tables with one line per step or collective, which the page shows in its own way. All other tables are
 * short. */
static void write_tables(const struct aorta_result_table *const *tables, const struct aorta_trace_of *of,
                         size_t most_lines, struct aorta_json *json) {
    for (; *tables; tables++) aorta_table_json_some(*tables, of, (*tables)->section ? 0 : most_lines, json);
}

/* ---- ranks ---- */

/* The name that the roofline found, since files may lack the device's name. */
static const char *device_name(const struct aorta_verdict *verdict, size_t place) {
    return place < verdict->roofline_count ? verdict->rooflines[place].device_name : NULL;
}

struct rank_values {
    int64_t rank, device, ahead_ns;
    const char *file, *format, *device_name;
    struct aorta_trace_figures figures;
};

#define AT(member) offsetof(struct rank_values, member)
const struct aorta_row aorta_trace_rank_rows[] = {
    {"rank", AORTA_ROW_INT, AT(rank), .help = "of the job"},
    {"file", AORTA_ROW_TEXT, AT(file), .help = "its recording"},
    {"format", AORTA_ROW_TEXT, AT(format), .help = "of the file"},
    {"device", AORTA_ROW_INT, AT(device), .help = "the file's number"},
    {"device_name", AORTA_ROW_TEXT, AT(device_name), .help = "null: the file does not say"},
    {"device_ahead_ns", AORTA_ROW_INT, AT(ahead_ns), "ns",
     .help = "its clock was so much ahead of the host's: its times are corrected"},
    {NULL, AORTA_ROW_PART, AT(figures), .part = aorta_trace_figure_rows},
    {0}};
#undef AT

#define AT(member) offsetof(struct aorta_align_clock, member)
const struct aorta_row aorta_trace_clock_rows[] = {
    {"shift_ns", AORTA_ROW_INT, AT(shift_ns), "ns", .help = "taken from its times, so that the ranks' clocks agree"},
    {"residual_ns", AORTA_ROW_NATURAL, AT(residual_ns), "ns",
     .help = "half of its collectives end within that of the other ranks'"},
    {"shared_collectives", AORTA_ROW_INT, AT(shared), .help = "collectives that this was found with"},
    {"came_last", AORTA_ROW_INT, AT(late), .help = "collectives that waited for this rank"},
    {"late_ms", AORTA_ROW_NS, AT(late_ns), .help = "how late it was, in all"},
    {0}};
#undef AT

static void write_rank(struct aorta_json *json, const struct aorta_trace_report *report, size_t place) {
    const struct aorta_trace_analysis *analysis = report->analysis;
    const struct aorta_verdict *verdict = report->verdict;
    const struct aorta_trace_rank *rank = &analysis->ranks[place];
    const struct aorta_trace_of of = {.analysis = analysis, .rank = rank};
    const struct rank_values values = {rank->rank,
                                       rank->device,
                                       aorta_trace_device_ahead(rank->trace, rank->device),
                                       rank->trace->path,
                                       aorta_trace_format_name(rank->trace->format),
                                       device_name(verdict, place),
                                       rank->figures};
    aorta_json_object(json);
    aorta_rows_json(aorta_trace_rank_rows, &values, 0, json);
    aorta_trace_idle_json(rank->trace, &rank->idle, json);
    if (analysis->rank_count > 1)
        aorta_rows_object("clock", aorta_trace_clock_rows, &analysis->alignment.clocks[place], 0, json);
    if (rank->stamps) {
        aorta_json_key_int(json, "stamps", rank->stamps);
        aorta_json_key_ms(json, "stamps_ms", rank->stamps_ns);
    }
    aorta_json_key_string(json, "steps_by",
                          rank->trace->step_count ? aorta_step_source_name(rank->trace->steps_by) : NULL);
    write_tables(aorta_rank_tables, &of, report->most_lines, json);
    aorta_roofline_write(place < verdict->roofline_count ? &verdict->rooflines[place] : NULL, json);
    write_tables(aorta_rank_tables_after, &of, report->most_lines, json);
    trace_by_json(report, rank, json);
    aorta_json_object_end(json);
}

/* ---- all of it ---- */

#define AT(member) offsetof(struct aorta_slowdown, member)
const struct aorta_row aorta_trace_slowdown_rows[] = {
    {"ratio", AORTA_ROW_NUMBER, AT(ratio), .help = "time during collectives / alone, of equal products"},
    {"shapes", AORTA_ROW_INT, AT(shapes), .help = "that ran both ways"},
    {"by_grid", AORTA_ROW_INT, AT(by_grid), .help = "of these, known by their grid only"},
    {"samples_alone", AORTA_ROW_INT, AT(samples_alone), .help = "products alone"},
    {"samples_beside", AORTA_ROW_INT, AT(samples_beside), .help = "and during collectives"},
    {"reason", AORTA_ROW_TEXT, AT(reason), .help = "why there is no ratio"},
    {0}};
#undef AT

void aorta_trace_report_json(const struct aorta_trace_report *report, int indent, struct aorta_text *out) {
    const struct aorta_trace_analysis *analysis = report->analysis;
    const struct aorta_verdict *verdict = report->verdict;
    struct aorta_json json;
    aorta_json_output(&json, out, indent, 2);
    aorta_json_key_array(&json, "ranks");
    for (size_t i = 0; i < analysis->rank_count; i++) write_rank(&json, report, i);
    aorta_json_array_end(&json);
    write_tables(aorta_world_tables, &(struct aorta_trace_of){.analysis = analysis}, report->most_lines, &json);
    aorta_rows_object("gemm_slowdown", aorta_trace_slowdown_rows, &verdict->slowdown, 0, &json);
    aorta_json_key_string(&json, "judged", analysis->stepped ? "steps" : "recording");
    aorta_json_key_int(&json, "warmup_steps", (int64_t)analysis->warmup);
    aorta_json_key_fixed(&json, "judged_ms_mean", verdict->step_ms_mean, 9);
    aorta_json_key_fixed(&json, "step_ms_p10", verdict->step_ms_p10, 9);
    aorta_json_key_fixed(&json, "step_ms_p90", verdict->step_ms_p90, 9);
    aorta_json_key_fixed(&json, "step_busy_ms", verdict->step_ms_mean - verdict->idle_ms, 9);
    aorta_json_key_fixed(&json, "step_comm_ms", verdict->comm_ms, 9);
    aorta_json_key_fixed(&json, "step_exposed_comm_ms", verdict->exposed_ms, 9);
    aorta_json_key_double(&json, "step_overlap_ratio", verdict->overlap_ratio);
    aorta_verdict_json(verdict, &json);
    aorta_json_key_int(&json, "ranks_missing", verdict->ranks_missing);
    aorta_json_key_int(&json, "ranks_outside", (int64_t)analysis->ranks_outside);
    aorta_json_key_string(&json, "remark", verdict->clocks);
    if (report->machine) aorta_recorded_machine_json(report->machine, &json);
    aorta_json_output_end(&json);
}
