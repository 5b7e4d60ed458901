#include "report/figures.h"
#include "base/files.h"
#include "base/sort.h"
#include "report/page_recordings.h"
#include "report/phrases.h"
#include "report/summary.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

/* Collectives below LEAST_BYTES are signals. Their bandwidth means nothing. */
enum { MOST_SIZES = 64, STEP_SPANS = 6000, LEAST_BYTES = 1024 };

const struct aorta_figure *aorta_figures_find(const struct aorta_figures *figures, const char *name) {
    for (size_t i = 0; i < figures->count; i++)
        if (strcmp(figures->items[i].name, name) == 0) return &figures->items[i];
    return NULL;
}

/* Ignores unknown values, and a name that exists already. Strings are in the arena or static. */
static void add(struct aorta_figures *figures, const struct aorta_figure *figure) {
    if (!figure->name || !isfinite(figure->value) || aorta_figures_find(figures, figure->name)) return;
    aorta_arena_append(&figures->arena, &figures->items, &figures->capacity, &figures->count, figure, sizeof *figure);
}

/* ---- products and collectives ---- */

static const char compute[] = "compute";

static void add_products(const struct aorta_verdict *verdict, struct aorta_figures *figures) {
    struct aorta_roofline all;
    double covered;
    if (!verdict->roofline_count) return;
    aorta_roofline_join(verdict->rooflines, verdict->roofline_count, &all);
    const struct aorta_figure rows[] = {
        {"gemm", "TFLOP/s", AORTA_GOOD_HIGH, aorta_roofline_tflops(&all.classes[AORTA_WORK_GEMM]), compute},
        {"mfu", "", AORTA_GOOD_HIGH, aorta_roofline_mfu(&all, &covered), NULL}};
    add(figures, &rows[0]);
    add(figures, &rows[1]);
}

/* Collectives of one kind and size, or of one kind (bytes 0), of all ranks. */
struct sums {
    enum aorta_collective kind;
    int64_t bytes;
    double count, ns, step_ns; /* step_ns: in the steps that count */
    double moved, moved_ns;    /* bus bytes as far as known, and their time */
    double sent, sent_ns;      /* the same without the waits for the last rank */
};

static void add_row(struct sums *sums, const struct aorta_trace_collective_row *row) {
    sums->count += (double)row->times.count;
    sums->ns += (double)row->times.total_ns;
    sums->step_ns += (double)row->steps.ns;
    if (!isnan(row->busbw_gbps)) {
        sums->moved += row->busbw_gbps * (double)row->times.total_ns;
        sums->moved_ns += (double)row->times.total_ns;
    }
    if (isnan(row->transfer_busbw_gbps)) return;
    sums->sent += row->transfer_busbw_gbps * (double)row->transfer_ns;
    sums->sent_ns += (double)row->transfer_ns;
}

/* Sizes beyond the first MOST_SIZES count only in the sum of their kind. */
static size_t sum_collectives(const struct aorta_trace_analysis *analysis, struct sums kinds[AORTA_COLLECTIVE_COUNT],
                              struct sums sizes[MOST_SIZES]) {
    size_t count = 0;
    AORTA_EACH (const struct aorta_trace_rank, rank, analysis->ranks, analysis->rank_count) {
        AORTA_EACH (const struct aorta_trace_collective_row, row, rank->collective_sizes, rank->collective_size_count) {
            size_t at = 0;
            add_row(&kinds[row->kind], row);
            while (at < count && (sizes[at].kind != row->kind || sizes[at].bytes != row->bytes_each)) at++;
            if (at == MOST_SIZES || row->bytes_each < LEAST_BYTES) continue;
            if (at == count) sizes[count++] = (struct sums){.kind = row->kind, .bytes = row->bytes_each};
            add_row(&sizes[at], row);
        }
    }
    return count;
}

/* Without waits if the waits of all collectives are known. */
static double bus_gbps(const struct sums *sums, bool *waits) {
    *waits = !(sums->sent_ns > 0);
    if (!*waits) return sums->sent / sums->sent_ns;
    return sums->moved_ns > 0 ? sums->moved / sums->moved_ns : NAN;
}

static const char *bytes_text(double bytes, struct aorta_arena *arena) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    size_t unit = 0;
    for (; bytes >= 1e3 && unit + 1 < sizeof units / sizeof *units; unit++) bytes /= 1e3;
    return aorta_arena_printf(arena, "%s %s", aorta_brief(bytes).text, units[unit]);
}

/* `size` NULL: of all sizes. */
static void add_bandwidth(struct aorta_figures *figures, const char *kind, const char *size, const struct sums *sums) {
    bool waits;
    const double rate = bus_gbps(sums, &waits);
    const char *name = aorta_arena_printf(&figures->arena, "%s%s%s bus bandwidth%s", kind, size ? " of " : "",
                                          size ? size : "", waits ? " with waits" : "");
    const struct aorta_figure figure = {name, "GB/s", AORTA_GOOD_HIGH, rate,
                                        size ? NULL : aorta_arena_strdup(&figures->arena, kind)};
    add(figures, &figure);
}

/* Sizes with little of their kind's time get no figure of their own. */
static void add_collectives(const struct aorta_trace_analysis *analysis, struct aorta_figures *figures) {
    static const double least = 0.05;
    struct sums kinds[AORTA_COLLECTIVE_COUNT] = {0}, sizes[MOST_SIZES];
    const size_t count = sum_collectives(analysis, kinds, sizes);
    double steps = 0;
    for (size_t r = 0; r < analysis->rank_count; r++) steps += (double)analysis->ranks[r].steps;
    for (int kind = 0; kind < AORTA_COLLECTIVE_COUNT; kind++) {
        const char *name = aorta_trace_kind_name(analysis, (enum aorta_collective)kind);
        if (!(kinds[kind].count > 0)) continue;
        const struct aorta_figure time = {aorta_arena_printf(&figures->arena, "%s time", name), "ms", AORTA_GOOD_LOW,
                                          kinds[kind].step_ns / steps / 1e6, NULL};
        add(figures, &time);
        add_bandwidth(figures, name, NULL, &kinds[kind]);
    }
    for (size_t i = 0; i < count; i++) {
        if (sizes[i].ns < least * kinds[sizes[i].kind].ns) continue;
        const char *size = bytes_text((double)sizes[i].bytes, &figures->arena);
        if (size) add_bandwidth(figures, aorta_trace_kind_name(analysis, sizes[i].kind), size, &sizes[i]);
    }
}

/* ---- the step ---- */

static double cause_share(const struct aorta_verdict *verdict, enum aorta_cause first, enum aorta_cause second) {
    double ns = 0, step_ns = 0;
    for (size_t i = 0; i < verdict->rank_count; i++) {
        ns += (double)(verdict->ranks[i].cause_ns[first] + verdict->ranks[i].cause_ns[second]);
        step_ns += (double)verdict->ranks[i].step_ns;
    }
    return step_ns > 0 ? ns / step_ns : NAN;
}

/* Samples a second of a rank, as in summary.json. */
static double throughput(const struct aorta_recorded *run, struct aorta_arena *memory) {
    double *rates = aorta_arena_raw(memory, run->step_count * sizeof *rates);
    for (size_t i = 0; rates && i < run->step_count; i++) rates[i] = run->steps[i]->samples_per_s;
    return aorta_rate_mean(rates, rates ? run->step_count : 0);
}

static void add_step(const struct aorta_recorded *recorded, struct aorta_figures *figures) {
    const struct aorta_verdict *verdict = &recorded->verdict;
    const double rate = recorded->is_run ? throughput(recorded, &figures->arena) : 1e3 / verdict->step_ms_mean;
    const struct aorta_figure rows[] = {
        {"step_ms", "ms", AORTA_GOOD_LOW, verdict->step_ms_p50, NULL},
        {"throughput", recorded->is_run ? "samples/s" : "steps/s", AORTA_GOOD_HIGH, rate, NULL},
        {"overlap_ratio", "", AORTA_GOOD_HIGH, verdict->overlap_ratio, NULL},
        {"exposed_comm_ms", "ms", AORTA_GOOD_LOW, verdict->exposed_ms, NULL},
        {"compute_ms", "ms", AORTA_GOOD_LOW, verdict->compute_ms, NULL},
        {"comm_ms", "ms", AORTA_GOOD_LOW, verdict->comm_ms, NULL},
        {"idle_share", "", AORTA_GOOD_LOW, verdict->idle_ms / verdict->step_ms_mean, NULL},
        {"launch_share", "", AORTA_GOOD_LOW, cause_share(verdict, AORTA_CAUSE_HOST_LAUNCH, AORTA_CAUSE_LAUNCH_LATENCY),
         NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) add(figures, &rows[i]);
    add_products(verdict, figures);
    add_collectives(&recorded->analysis, figures);
}

static void add_causes(const struct aorta_recorded *recorded, struct aorta_figures *figures) {
    const struct aorta_verdict *verdict = &recorded->verdict;
    struct aorta_arena *arena = &figures->arena;
    figures->causes = aorta_arena_alloc(arena, verdict->finding_count * sizeof *figures->causes);
    figures->cause_count = figures->causes ? verdict->finding_count : 0;
    for (size_t i = 0; i < figures->cause_count; i++) {
        const struct aorta_finding *finding = &verdict->findings[i];
        struct aorta_text text = {0};
        aorta_finding_name(verdict, finding, &text);
        const char *about = finding->cause == AORTA_CAUSE_COMPUTE ? compute : NULL;
        if (aorta_cause_has_kind(finding->cause))
            about = aorta_arena_strdup(arena, aorta_trace_kind_name(&recorded->analysis, finding->collective));
        figures->causes[i] = (struct aorta_figure_cause){aorta_text_move(&text, arena), about, finding->cost_ms};
    }
}

/* ---- what a page shows ---- */

static double window_ms(const struct aorta_trace_window *window) {
    if (window->step_ns > 0) return (double)window->step_ns / 1e6;
    return (double)(window->profile.overlap.span_ns + window->profile.overlap.lead_ns) / 1e6;
}

/* The window of the first rank's median step. The number of windows if no step counts. */
static size_t find_median(const struct aorta_trace_analysis *analysis, struct aorta_arena *memory) {
    const struct aorta_trace_rank *rank = analysis->ranks;
    double *times = aorta_arena_raw(memory, rank->window_count * sizeof *times);
    size_t count = 0, median = rank->window_count;
    for (size_t i = 0; times && i < rank->window_count; i++)
        if (aorta_trace_window_counts(analysis, &rank->windows[i])) times[count++] = window_ms(&rank->windows[i]);
    if (count) aorta_sort_double(times, count);
    const double middle = count ? times[(count - 1) / 2] : NAN;
    for (size_t i = rank->window_count; i-- > 0;)
        if (aorta_trace_window_counts(analysis, &rank->windows[i]) && window_ms(&rank->windows[i]) == middle)
            median = i;
    return median;
}

/* Steps of the first rank need no alignment of clocks. */
static void put_steps(const struct aorta_trace_analysis *analysis, struct aorta_json *json) {
    const struct aorta_trace_rank *rank = analysis->ranks;
    static const char *const keys[] = {"step", "step_ms", "overlap_ratio"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        aorta_json_key_array(json, keys[k]);
        for (const struct aorta_trace_window *window = NULL; (window = aorta_step_after(analysis, rank, window));) {
            const double values[] = {(double)window->number, window_ms(window), window->profile.overlap.overlap_ratio};
            aorta_json_fixed(json, values[k], 6);
        }
        aorta_json_array_end(json);
    }
}

static void put_collectives(const struct aorta_trace_analysis *analysis, struct aorta_json *json) {
    struct sums kinds[AORTA_COLLECTIVE_COUNT] = {0}, sizes[MOST_SIZES];
    const size_t count = sum_collectives(analysis, kinds, sizes);
    bool waits;
    aorta_json_key_array(json, "collectives");
    for (size_t i = 0; i < count; i++) {
        aorta_json_object(json);
        aorta_json_key_string(json, "kind", aorta_trace_kind_name(analysis, sizes[i].kind));
        aorta_json_key_int(json, "bytes_each", sizes[i].bytes);
        aorta_json_key_double(json, "count", sizes[i].count);
        aorta_json_key_double(json, "rate", bus_gbps(&sizes[i], &waits));
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

static void put_parts(const struct aorta_verdict *verdict, struct aorta_json *json) {
    const double hidden = verdict->comm_ms - verdict->exposed_ms;
    const struct {
        const char *key;
        double ms;
    } parts[] = {{"compute alone", verdict->compute_ms - hidden},
                 {"compute during communication", hidden},
                 {"exposed communication", verdict->exposed_ms},
                 {"idle", verdict->idle_ms}};
    aorta_json_key_object(json, "parts");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) aorta_json_key_double(json, parts[i].key, parts[i].ms);
    aorta_json_object_end(json);
}

static void put_detail(const struct aorta_recorded *recorded, struct aorta_figures *figures) {
    const struct aorta_trace_analysis *analysis = &recorded->analysis;
    const size_t median = find_median(analysis, &figures->arena);
    struct aorta_json json;
    aorta_text_clear(&figures->detail);
    aorta_json_begin(&json, &figures->detail, 0);
    aorta_json_object(&json);
    put_steps(analysis, &json);
    put_collectives(analysis, &json);
    put_parts(&recorded->verdict, &json);
    aorta_json_key(&json, "timeline");
    if (median < analysis->ranks->window_count)
        aorta_page_step(analysis, median, STEP_SPANS, &json);
    else
        aorta_json_null(&json);
    aorta_json_object_end(&json);
    figures->arena.failed |= figures->detail.failed != 0;
}

/* ---- reading ---- */

static void copy_settings(const struct aorta_settings *from, struct aorta_arena *arena, struct aorta_settings *to) {
    to->items = aorta_arena_alloc(arena, from->count * sizeof *to->items);
    to->count = to->items ? from->count : 0;
    for (size_t i = 0; i < to->count; i++)
        to->items[i] = (struct aorta_setting){aorta_arena_strdup(arena, from->items[i].key),
                                              aorta_arena_strdup(arena, from->items[i].value)};
}

static aorta_status take(const struct aorta_recorded *recorded, struct aorta_figures *figures) {
    figures->device = aorta_arena_strdup(&figures->arena, recorded->run.device ? recorded->run.device : "gpu");
    copy_settings(&recorded->settings, &figures->arena, &figures->settings);
    copy_settings(&recorded->environment, &figures->arena, &figures->environment);
    add_step(recorded, figures);
    add_causes(recorded, figures);
    put_detail(recorded, figures);
    return aorta_arena_check(&figures->arena, "the figures of a recording");
}

static aorta_status read_one(const char *path, struct aorta_figures *figures, bool *original) {
    static const struct aorta_log quiet = {.level = AORTA_LOG_ERROR, .rank = -1};
    static const struct aorta_trace_options reading = {0};
    struct aorta_recorded recorded;
    aorta_status status = aorta_recorded_open(&path, 1, &reading, NULL, &quiet, &recorded);
    *original = !status && recorded.is_run && recorded.run.original;
    if (!status) status = aorta_recorded_evaluate(&recorded);
    if (!status) status = take(&recorded, figures);
    aorta_recorded_free(&recorded);
    return status;
}

bool aorta_figures_can_read(const char *directory) {
    return aorta_run_is_directory(directory) || access(aorta_path_in(directory, "torch_profiler").text, F_OK) == 0;
}

aorta_status aorta_figures_read(const char *directory, struct aorta_figures *figures) {
    bool original = true, again;
    const struct aorta_file_path path = aorta_path_in(directory, "torch_profiler");
    const bool profiles = access(path.text, F_OK) == 0;
    if (!profiles || aorta_run_is_directory(directory)) AORTA_TRY(read_one(directory, figures, &original));
    return profiles && original ? read_one(path.text, figures, &again) : NULL;
}

void aorta_figures_free(struct aorta_figures *figures) {
    aorta_arena_free(&figures->arena);
    aorta_text_free(&figures->detail);
    *figures = (struct aorta_figures){0};
}
