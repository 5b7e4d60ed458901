/* Tables of a rank over its time: parts of it, the queues of its streams, kernel sequences that repeat (--by). */
#include "report/phrases.h"
#include "report/trace_tables.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- kernel sequences ---- */

enum { LABEL_SIZE = 1024, SHORT_SIZE = 96 };

struct sequence_values {
    struct aorta_sequence row;
    const char *label, *operation, *kernels;
    int64_t length;
    double mean_ns, gap_ns;
    char text[LABEL_SIZE], names[2 * LABEL_SIZE];
};

#define AT(member) offsetof(struct sequence_values, member)
static const struct aorta_row sequence_rows[] = {
    {NULL, AORTA_ROW_LABEL, AT(label), .shown_only = true},
    {"operation", AORTA_ROW_TEXT, AT(operation), .heading = "operation", .help = "that launched the first of them"},
    {"kernels", AORTA_ROW_TEXT, AT(kernels), .heading = "kernels",
     .help = "their short names, in order of their starts"},
    {"runs", AORTA_ROW_INT, AT(row.runs), .heading = "runs", .help = "how often the sequence came"},
    {"length", AORTA_ROW_INT, AT(length), .heading = "kernels per run", .help = "kernels, copies and fills of one run"},
    {"ms", AORTA_ROW_NS, AT(row.ns), .heading = "ms", .help = "their times of all runs added up"},
    {"mean_ms", AORTA_ROW_MEAN_NS, AT(mean_ns), "ms", 9, "mean ms", .help = "of one kernel"},
    {"gap_mean_ms", AORTA_ROW_MEAN_NS, AT(gap_ns), "ms", 9, "between, mean ms",
     .help = "of a run: from its first start to its last end, without its kernels' times"},
    {0}};
#undef AT

static void add_name(char *names, size_t size, const char *name) {
    const size_t length = strlen(names);
    snprintf(names + length, size - length, "%s%s", length ? " | " : "", name);
}

static enum aorta_line fill_sequence(const void *of, size_t index, void *values) {
    const struct aorta_sequences *sequences = trace_made_of(of);
    if (index >= sequences->count) return AORTA_LINE_END;
    const struct aorta_trace *trace = trace_rank_of(of)->trace;
    const struct aorta_sequence *row = &sequences->rows[index];
    struct sequence_values *out = values;
    char name[SHORT_SIZE], label[LABEL_SIZE] = "";
    for (size_t i = 0; i < row->length; i++) {
        const char *kernel = aorta_trace_text(trace, row->kernels[i]);
        add_name(out->names, sizeof out->names, aorta_kernel_short_name(kernel, name, sizeof name));
        add_name(label, sizeof label, aorta_name_for_line(kernel, name, sizeof name));
    }
    out->operation = trace_text_of(trace, row->operation);
    out->kernels = out->names;
    snprintf(out->text, sizeof out->text, "%s: %.*s", out->operation, LABEL_SIZE / 2, label);
    out->label = out->text;
    out->row = *row;
    out->length = row->length;
    out->mean_ns = (double)row->ns / (double)row->runs / (double)row->length;
    out->gap_ns = row->span_ns > row->ns ? (double)(row->span_ns - row->ns) / (double)row->runs : 0;
    return AORTA_LINE;
}

static const struct aorta_column sequence_columns[] = {
    {"runs", "runs", .width = 7},       {"length", "kernels", .width = 8},      {"ms", "ms", 10, .decimals = 3},
    {"mean_ms", "mean us", 9, 2, true}, {"gap_mean_ms", "gaps us", 9, 2, true}, {0}};
AORTA_TABLE(
    trace_table_by_sequence, "by_sequence", "Kernel sequences that repeat",
    "what runs of the framework's operations launch, two to twelve kernels one after the other, that came twice "
    "or more; most kernels in all first",
    "kernels", AORTA_LINES(sequence_rows, struct sequence_values, fill_sequence), .whole = true,
    .columns = sequence_columns);

/* ---- parts of time ---- */

static const char *copied_name(int copied) {
    static const char *const names[] = {"to_device", "to_host", "within_device", "between_devices", "filled"};
    return names[copied];
}

struct part_values {
    int64_t start_ns, launches, queue_most, delay_most_ns;
    double compute, comm, copy, overlap, idle, queue_mean, delay_ns, gbps[AORTA_COPIED_COUNT], comm_gbps, copy_gbps;
    int64_t allocated, use[AORTA_MEMORY_USE_COUNT];
};

#define AT(member) offsetof(struct part_values, member)
#define SHARE(key_, member, heading_, help_)                                                                           \
    { key_, AORTA_ROW_NUMBER, AT(member), "share", 6, (heading_), .help = (help_) }
static const struct aorta_row part_rows[] = {
    {"start_ms", AORTA_ROW_NS, AT(start_ns), .heading = "start ms",
     .help = "of the part, from the rank's first work on"},
    SHARE("compute", compute, "compute", "of the part's time: compute ran"),
    SHARE("comm", comm, "communication", "collectives ran"),
    SHARE("memcpy", copy, "copies", "copies and fills ran"),
    SHARE("overlap", overlap, "overlap", "collectives and compute ran"),
    SHARE("idle", idle, "idle", "nothing ran"),
    {"launches", AORTA_ROW_INT, AT(launches), .heading = "launches", .help = "made in it"},
    {"queue_mean", AORTA_ROW_NUMBER, AT(queue_mean), NULL, 3, "queue, mean",
     .help = "launched and not started, over its time"},
    {"queue_max", AORTA_ROW_INT, AT(queue_most), .heading = "queue, max", .help = "at any moment"},
    {"delay_mean_ms", AORTA_ROW_MEAN_NS, AT(delay_ns), "ms", 9, "delay, mean ms",
     .help = "from launch to start, of what starts in it"},
    {"delay_max_ms", AORTA_ROW_NS, AT(delay_most_ns), .heading = "delay, max ms", .help = "the longest"},
    {"comm_gbps", AORTA_ROW_NUMBER, AT(comm_gbps), "GB/s", 6, "collectives GB/s",
     .help = "bytes of collectives (larger buffer of the rank) over the part's time; 0 where sizes are not known"},
    {"copy_gbps", AORTA_ROW_NUMBER, AT(copy_gbps), .shown_only = true},
    {"copied_gbps", AORTA_ROW_NUMBER, AT(gbps), "GB/s", 6, .help = "bytes of copies and fills over the part's time",
     .name = copied_name, .names = AORTA_COPIED_COUNT},
    {"allocated_bytes", AORTA_ROW_INT, AT(allocated), "bytes", .heading = "allocated",
     .help = "of the device's memory, the most at any moment (profile_memory=True)"},
    {"use_bytes", AORTA_ROW_INT, AT(use), "bytes", .help = "the same by use", .name = aorta_memory_use_name,
     .names = AORTA_MEMORY_USE_COUNT},
    {0}};
#undef SHARE
#undef AT

static double share_of(int64_t ns, double length_ns) {
    return length_ns > 0 ? (double)ns / length_ns : NAN;
}

static enum aorta_line fill_part(const void *of, size_t index, void *values) {
    const struct aorta_series *series = trace_made_of(of);
    if (index >= series->count) return AORTA_LINE_END;
    const struct aorta_series_part *part = &series->parts[index];
    const double length_ns = (double)(part->end_ns - part->start_ns);
    const bool queued = series->launched > 0;
    struct part_values *out = values;
    out->start_ns = part->start_ns - trace_rank_of(of)->figures.start_ns;
    out->compute = share_of(part->compute_ns, length_ns);
    out->comm = share_of(part->comm_ns, length_ns);
    out->copy = share_of(part->copy_ns, length_ns);
    out->overlap = share_of(part->overlap_ns, length_ns);
    out->idle = share_of(part->idle_ns, length_ns);
    out->launches = queued ? (int64_t)part->launches : AORTA_ROW_UNKNOWN;
    out->queue_mean = queued ? part->queue_mean : NAN;
    out->queue_most = queued ? (int64_t)part->queue_most : AORTA_ROW_UNKNOWN;
    out->delay_ns = part->started ? part->delay_ns / (double)part->started : NAN;
    out->delay_most_ns = part->started ? part->delay_most_ns : AORTA_ROW_UNKNOWN;
    out->comm_gbps = length_ns > 0 ? part->sent / length_ns : NAN;
    out->copy_gbps = 0;
    for (int i = 0; i < AORTA_COPIED_COUNT; i++) {
        out->gbps[i] = length_ns > 0 ? part->copied[i] / length_ns : NAN;
        out->copy_gbps += out->gbps[i];
    }
    for (int i = 0; i < AORTA_MEMORY_USE_COUNT; i++)
        out->use[i] = series->memory ? series->memory[index].use[i] : AORTA_ROW_UNKNOWN;
    out->allocated = series->memory ? series->memory[index].bytes : AORTA_ROW_UNKNOWN;
    return AORTA_LINE;
}

static const struct aorta_column part_columns[] = {{"start_ms", "from ms", 9, .decimals = 3},
                                                   {"compute", "compute", 8, .decimals = 1},
                                                   {"comm", "comm", 7, .decimals = 1},
                                                   {"overlap", "overlap", 8, .decimals = 1},
                                                   {"idle", "idle", 7, .decimals = 1},
                                                   {"launches", "launches", .width = 8},
                                                   {"queue_mean", "queued", 7, .decimals = 1},
                                                   {"queue_max", "longest", .width = 7},
                                                   {"delay_mean_ms", "delay us", 9, 1, true},
                                                   {"comm_gbps", "GB/s comm", 10, .decimals = 2},
                                                   {"copy_gbps", "GB/s copy", 10, .decimals = 2},
                                                   {0}};
AORTA_TABLE(
    trace_table_by_time, "by_time", "Over time",
    "equal parts of the rank's time (100, in the text as many as --top says): busy with what, queue of launched "
    "work, delay of launches, bytes a second",
    "time", AORTA_LINES(part_rows, struct part_values, fill_part), .columns = part_columns);

/* ---- queues of streams ---- */

struct stream_values {
    struct aorta_series_stream row;
    const char *label;
    int64_t stream;
    char name[32];
};

#define AT(member) offsetof(struct stream_values, member)
static const struct aorta_row delay_rows[] = {
    {"count", AORTA_ROW_INT, AT(row.delay.count), .heading = "launches", .help = "with their launch in the file"},
    {"delay_mean_ms", AORTA_ROW_MEAN_NS, AT(row.delay.mean_ns), "ms", 9, "delay, mean ms",
     .help = "from launch to start"},
    {"delay_p50_ms", AORTA_ROW_MEAN_NS, AT(row.delay.p50_ns), "ms", 9, "p50 ms", .help = "the median, interpolated"},
    {"delay_p95_ms", AORTA_ROW_MEAN_NS, AT(row.delay.p95_ns), "ms", 9, "p95 ms", .help = "95% wait no longer"},
    {"delay_max_ms", AORTA_ROW_NS, AT(row.delay.max_ns), .heading = "max ms", .help = "the longest"},
    {0}};
static const struct aorta_row stream_rows[] = {
    {NULL, AORTA_ROW_LABEL, AT(label), .shown_only = true},
    {"stream", AORTA_ROW_INT, AT(stream), .heading = "stream", .help = "the file's number"},
    {"queue_mean", AORTA_ROW_NUMBER, AT(row.queue_mean), NULL, 3, "queue, mean",
     .help = "launched and not started, over the rank's time"},
    {"queue_max", AORTA_ROW_INT, AT(row.queue_most), .heading = "queue, max", .help = "at any moment"},
    {"queue_full_ms", AORTA_ROW_NS, AT(row.full_ns), .heading = "queue full ms",
     .help = "1024 or more waited: launches block then"},
    {NULL, AORTA_ROW_PART, 0, .part = delay_rows},
    {0}};
#undef AT

static enum aorta_line fill_stream(const void *of, size_t index, void *values) {
    const struct aorta_series *series = trace_made_of(of);
    if (index >= series->stream_count) return AORTA_LINE_END;
    const struct aorta_series_stream *row = &series->streams[index];
    struct stream_values *out = values;
    out->stream = trace_rank_of(of)->trace->streams[row->stream].id;
    out->row = *row;
    snprintf(out->name, sizeof out->name, "stream %lld", (long long)out->stream);
    out->label = out->name;
    return AORTA_LINE;
}

static const struct aorta_column stream_columns[] = {
    {"count", "launches", .width = 8},       {"queue_mean", "queue", 7, .decimals = 2},
    {"queue_max", "longest", .width = 7},    {"queue_full_ms", "full ms", 9, .decimals = 3},
    {"delay_p50_ms", "p50 us", 9, 2, true},  {"delay_p95_ms", "p95 us", 9, 2, true},
    {"delay_max_ms", "most us", 9, 2, true}, {0}};
AORTA_TABLE(trace_table_by_stream, "by_stream", "Queues of streams",
            "how much was launched on each stream and had not started, and how long it waited", "queues",
            AORTA_LINES(stream_rows, struct stream_values, fill_stream), .whole = true, .columns = stream_columns);

/* ---- the critical path ---- */

struct path_values {
    struct aorta_path_row row;
    const char *label;
    int kind;
    int64_t rank;
    double share, mean_ns;
    char text[LABEL_SIZE];
};

#define AT(member) offsetof(struct path_values, member)
static const struct aorta_row path_rows[] = {
    {NULL, AORTA_ROW_LABEL, AT(label), .shown_only = true},
    {"kind", AORTA_ROW_CHOICE, AT(kind), .heading = "kind", .name = aorta_path_kind_name,
     .names = AORTA_PATH_KIND_COUNT, .help = "one of"},
    {"name", AORTA_ROW_KERNEL, AT(row.name), .heading = "name", .help = "of what runs, is called, or starts then"},
    {"on_rank", AORTA_ROW_INT, AT(rank), .shown_only = true},
    {"count", AORTA_ROW_INT, AT(row.count), .heading = "count", .help = "pieces of the path"},
    {"ms", AORTA_ROW_NS, AT(row.ns), .heading = "ms",
     .help = "their lengths added up; those of all ranks are the path's"},
    {"share", AORTA_ROW_NUMBER, AT(share), "share", 6, "of the path", .help = "of the whole path, over all ranks"},
    {"mean_ms", AORTA_ROW_MEAN_NS, AT(mean_ns), "ms", 9, "mean ms", .help = "of one"},
    {0}};
#undef AT

static enum aorta_line fill_path(const void *of, size_t index, void *values) {
    const struct aorta_path_rows *rows = trace_made_of(of);
    if (index >= rows->count) return AORTA_LINE_END;
    static const char *const words[AORTA_PATH_KIND_COUNT] = {
        [AORTA_PATH_KERNEL] = "kernel",
        [AORTA_PATH_COLLECTIVE] = "collective, all have arrived",
        [AORTA_PATH_COPY] = "copy",
        [AORTA_PATH_LAUNCH] = "launched, not started",
        [AORTA_PATH_BEHIND] = "behind other work",
        [AORTA_PATH_CALL] = "host, in a call",
        [AORTA_PATH_RETURN] = "host, returns after a wait",
        [AORTA_PATH_HOST] = "host, between calls",
        [AORTA_PATH_DATA] = "host, waits for data",
        [AORTA_PATH_UNEXPLAINED] = "nothing recorded says why",
    };
    const struct aorta_path_row *row = &rows->rows[index];
    struct path_values *out = values;
    char name[SHORT_SIZE];
    out->row = *row;
    out->kind = row->kind;
    out->rank = trace_analysis_of(of)->ranks[row->rank].rank;
    out->share = rows->total_ns ? (double)row->ns / (double)rows->total_ns : NAN;
    out->mean_ns = (double)row->ns / (double)row->count;
    snprintf(out->text, sizeof out->text, "%s%s%s", words[row->kind], row->name ? ": " : "",
             row->name ? aorta_kernel_short_name(row->name, name, sizeof name) : "");
    out->label = out->text;
    return AORTA_LINE;
}

static const struct aorta_column path_columns[] = {
    {"on_rank", "rank", .width = 5},        {"count", "count", .width = 7},     {"ms", "ms", 10, .decimals = 3},
    {"share", "of path", 8, .decimals = 1}, {"mean_ms", "mean us", 9, 2, true}, {0}};
AORTA_TABLE(
    trace_table_by_path, "by_path", "Critical path of the job",
    "what is on the critical path of all ranks, the part of this rank: what each next piece of work or call had "
    "to wait for, back from the last end",
    "causes", AORTA_LINES(path_rows, struct path_values, fill_path), .columns = path_columns);
