/* Tables of collectives, of one rank and of several, and of differences between ranks. */
#include "analysis/analysis.h"
#include "report/trace_tables.h"

#include <math.h>
#include <stdio.h>

enum { NAME_SIZE = 512 };

/* ---- collectives ---- */

struct group_values {
    const char *name, *description;
    int64_t size, nodes;
};

#define AT(member) offsetof(struct group_values, member)
static const struct aorta_row group_rows[] = {
    {"group", AORTA_ROW_TEXT, AT(name), .help = "process group"},
    {"group_description", AORTA_ROW_TEXT, AT(description), .help = "what the program calls it"},
    {"group_size", AORTA_ROW_NATURAL, AT(size), .heading = "ranks", .help = "ranks of the group"},
    {"nodes", AORTA_ROW_NATURAL, AT(nodes), .heading = "nodes",
     .help = "that these are on: 1 inside a node, more between nodes; null: devices per node are not known"},
    {0}};
#undef AT

static struct group_values group_of(const struct aorta_trace_analysis *analysis, uint32_t group) {
    if (group == AORTA_TRACE_NONE) return (struct group_values){NULL, NULL, -1, -1};
    const struct aorta_trace_world_group *found = &analysis->groups[group];
    return (struct group_values){found->name, found->description[0] ? found->description : NULL, found->size,
                                 aorta_trace_nodes_of(analysis, group)};
}

struct collective_values {
    struct aorta_trace_collective_row row;
    const char *label, *dtype;
    struct group_values group;
    int64_t wait_ns, transfer_ns;
    double mb_each, best_busbw_gbps, either_busbw_gbps, link_gbps, link_share, count_per_step, ms_per_step,
        exposed_per_step, wait_per_step, transfer_per_step;
    char name[NAME_SIZE];
};

#define AT(member) offsetof(struct collective_values, member)
static const struct aorta_row kind_rows[] = {{"kind", AORTA_ROW_CHOICE, AT(row.kind), .heading = "collective",
                                              .help = "one of", .name = aorta_collective_name,
                                              .names = AORTA_COLLECTIVE_COUNT},
                                             {NULL, AORTA_ROW_PART, AT(group), .part = group_rows},
                                             {0}};
static const struct aorta_row collective_rows[] = {
    {NULL, AORTA_ROW_LABEL, AT(label), .shown_only = true},
    {NULL, AORTA_ROW_PART, 0, .part = kind_rows},
    TRACE_TIMES(AT(row.times)),
    {"mb_each", AORTA_ROW_NUMBER, AT(mb_each), .shown_only = true},
    {"bytes", AORTA_ROW_NATURAL, AT(row.bytes), "bytes", .heading = "bytes", .help = "sum"},
    {"comm_ms", AORTA_ROW_NS, AT(row.comm_ns), .help = "union of their times"},
    {"overlap_ms", AORTA_ROW_NS, AT(row.overlap_ns), .help = "at the same time as compute"},
    {"exposed_ms", AORTA_ROW_NS, AT(row.exposed_ns), .heading = "exposed ms",
     .help = "without compute at the same time"},
    {"blamed_ms", AORTA_ROW_NS, AT(row.blamed_ns),
     .help = "part of the rank's `exposed_comm_ms`; the rows add up to it"},
    {"algbw_gbps", AORTA_ROW_NUMBER, AT(row.algbw_gbps), "GB/s", 6, .help = "bytes / time, waiting included"},
    {"busbw_gbps", AORTA_ROW_NUMBER, AT(row.busbw_gbps), "GB/s", 6, "bus GB/s", .help = "as nccl-tests define it"},
    {"waits_known", AORTA_ROW_INT, AT(row.waits_known), .help = "collectives that all ranks of the group recorded"},
    {"wait_ms", AORTA_ROW_NS, AT(wait_ns), .heading = "waiting ms",
     .help = "of those, before the last rank had arrived"},
    {"transfer_busbw_gbps", AORTA_ROW_NUMBER, AT(row.transfer_busbw_gbps), "GB/s", 6, "bus GB/s, without waiting",
     .help = "of those, without the waits"},
    {"either_busbw_gbps", AORTA_ROW_NUMBER, AT(either_busbw_gbps), .shown_only = true},
    {"count_per_step", AORTA_ROW_NUMBER, AT(count_per_step), NULL, 6, "count per step",
     .help = "in the steps that the verdict is of; null: no steps are known"},
    {"ms_per_step", AORTA_ROW_NUMBER, AT(ms_per_step), "ms", 9, .help = "likewise: their times added up"},
    {"exposed_ms_per_step", AORTA_ROW_NUMBER, AT(exposed_per_step), "ms", 9, .help = "likewise: of `blamed_ms`"},
    {"wait_ms_per_step", AORTA_ROW_NUMBER, AT(wait_per_step), "ms", 9,
     .help = "likewise: before the last rank had arrived"},
    {0}};
static const struct aorta_row size_rows[] = {
    {NULL, AORTA_ROW_LABEL, AT(label), .shown_only = true},
    {NULL, AORTA_ROW_PART, 0, .part = kind_rows},
    {"mb_each", AORTA_ROW_NUMBER, AT(mb_each), .shown_only = true},
    {"bytes_each", AORTA_ROW_NATURAL, AT(row.bytes_each), "bytes", .heading = "bytes",
     .help = "larger buffer of the rank"},
    {"dtype", AORTA_ROW_TEXT, AT(dtype), .heading = "type", .help = "of the elements"},
    {"channels", AORTA_ROW_NATURAL, AT(row.channels), .heading = "channels", .help = "thread blocks of the kernel"},
    TRACE_TIMES(AT(row.times)),
    {"busbw_gbps", AORTA_ROW_NUMBER, AT(row.busbw_gbps), "GB/s", 6, "bus GB/s, with waiting",
     .help = "as nccl-tests define it, waiting included"},
    {"best_busbw_gbps", AORTA_ROW_NUMBER, AT(best_busbw_gbps), "GB/s", 6, "bus GB/s, fastest",
     .help = "the same of the shortest"},
    {"waits_known", AORTA_ROW_INT, AT(row.waits_known), .help = "collectives that all ranks of the group recorded"},
    {"wait_ms", AORTA_ROW_NS, AT(wait_ns), .heading = "waiting ms",
     .help = "of those, before the last rank had arrived"},
    {"transfer_ms", AORTA_ROW_NS, AT(transfer_ns), .heading = "transfer ms", .help = "of those, from then on"},
    {"transfer_busbw_gbps", AORTA_ROW_NUMBER, AT(row.transfer_busbw_gbps), "GB/s", 6, "bus GB/s",
     .help = "of those, without the waits"},
    {"link_gbps", AORTA_ROW_NUMBER, AT(link_gbps), "GB/s", 3, .help = "what the link reaches at most"},
    {"link_share", AORTA_ROW_NUMBER, AT(link_share), "share", 6, "of the link", .help = "of that"},
    {"count_per_step", AORTA_ROW_NUMBER, AT(count_per_step), NULL, 6, "count per step",
     .help = "in the steps that the verdict is of; null: no steps are known"},
    {"ms_per_step", AORTA_ROW_NUMBER, AT(ms_per_step), "ms", 9, .help = "likewise: their times added up"},
    {"transfer_ms_per_step", AORTA_ROW_NUMBER, AT(transfer_per_step), "ms", 9, .help = "likewise: of `transfer_ms`"},
    {"wait_ms_per_step", AORTA_ROW_NUMBER, AT(wait_per_step), "ms", 9,
     .help = "likewise: before the last rank had arrived"},
    {0}};
#undef AT

/* `sized`: a row of the table by size. */
static enum aorta_line fill_row(const struct aorta_trace_of *of, const struct aorta_trace_collective_row *row,
                                bool sized, struct collective_values *values) {
    if (of->of_steps && !row->steps.count) return AORTA_LINE_SKIP;
    const double link_gbps = aorta_trace_link_of(of->analysis, of->rank, row);
    const struct group_values group = group_of(of->analysis, row->group);
    const char *in = group.description ? group.description : group.name ? group.name : "";
    const char *type = trace_text_of(of->rank->trace, row->dtype);
    const bool waits = row->waits_known > 0;
    const double steps = of->analysis->stepped ? (double)of->rank->steps : NAN, count = (double)row->times.count;
    const double bytes = sized ? (double)row->bytes_each : (double)row->bytes / count;
    snprintf(values->name, sizeof values->name, "%s%s%s%s%s", aorta_trace_kind_name(of->analysis, row->kind),
             in[0] ? " in " : "", in, sized && type ? ", " : "", sized && type ? type : "");
    values->row = *row;
    values->label = values->name;
    values->group = group;
    values->dtype = type;
    values->mb_each = bytes >= 0 ? bytes / 1e6 : NAN;
    values->wait_ns = waits ? row->wait_ns : AORTA_ROW_UNKNOWN;
    values->transfer_ns = waits ? row->transfer_ns : AORTA_ROW_UNKNOWN;
    values->best_busbw_gbps = row->busbw_gbps / row->algbw_gbps * (double)row->bytes_each / (double)row->times.min_ns;
    values->either_busbw_gbps = aorta_trace_row_busbw(row);
    values->count_per_step = (double)row->steps.count / steps;
    values->ms_per_step = (double)row->steps.ns / 1e6 / steps;
    values->exposed_per_step = (double)row->steps.blamed_ns / 1e6 / steps;
    values->wait_per_step = waits ? (double)row->steps.wait_ns / 1e6 / steps : NAN;
    values->transfer_per_step = waits ? (double)row->steps.transfer_ns / 1e6 / steps : NAN;
    values->link_gbps = link_gbps > 0 ? link_gbps : NAN;
    values->link_share = link_gbps > 0 ? row->transfer_busbw_gbps / link_gbps : NAN;
    return AORTA_LINE;
}

static enum aorta_line fill_collective(const void *of, size_t index, void *values) {
    const struct aorta_trace_rank *rank = trace_rank_of(of);
    return index < rank->collective_count ? fill_row(of, &rank->collectives[index], false, values) : AORTA_LINE_END;
}

static enum aorta_line fill_size(const void *of, size_t index, void *values) {
    const struct aorta_trace_rank *rank = trace_rank_of(of);
    if (index >= rank->collective_size_count) return AORTA_LINE_END;
    return fill_row(of, &rank->collective_sizes[index], true, values);
}

static const struct aorta_column collective_columns[] = {{"count", "count", .width = 7},
                                                         {"mb_each", "MB each", 9, .decimals = 3},
                                                         {"total_ms", "total ms", 9, .decimals = 3},
                                                         {"blamed_ms", "exposed", 9, .decimals = 3},
                                                         {"wait_ms", "waited", 9, .decimals = 3},
                                                         {"either_busbw_gbps", "GB/s bus", 9, .decimals = 2},
                                                         {0}};
AORTA_TABLE(aorta_table_collectives, "collectives", "collectives", "collectives by kind and process group",
            "collectives", AORTA_LINES(collective_rows, struct collective_values, fill_collective), .whole = true,
            .columns = collective_columns);
const struct aorta_column trace_collective_step_columns[] = {{"count_per_step", "count", 7, .decimals = 1},
                                                             {"mb_each", "MB each", 9, .decimals = 3},
                                                             {"ms_per_step", "ms", 9, .decimals = 3},
                                                             {"exposed_ms_per_step", "exposed", 9, .decimals = 3},
                                                             {"wait_ms_per_step", "waited", 9, .decimals = 3},
                                                             {"either_busbw_gbps", "GB/s bus", 9, .decimals = 2},
                                                             {0}};
static const struct aorta_column size_columns[] = {{"count", "count", .width = 7},
                                                   {"mb_each", "MB each", 9, .decimals = 3},
                                                   {"channels", "channels", .width = 9},
                                                   {"transfer_ms", "transfer", 9, .decimals = 3},
                                                   {"transfer_busbw_gbps", "GB/s bus", 9, .decimals = 2},
                                                   {"link_share", "of link", 9, .decimals = 1},
                                                   {0}};
AORTA_TABLE(aorta_table_collective_sizes, "collective_sizes", "collectives by size",
            "collectives by kind, process group, size, type and channels", "collectives",
            AORTA_LINES(size_rows, struct collective_values, fill_size), .whole = true, .columns = size_columns);

const struct aorta_column trace_size_step_columns[] = {{"count_per_step", "count", 7, .decimals = 1},
                                                       {"mb_each", "MB each", 9, .decimals = 3},
                                                       {"channels", "channels", .width = 9},
                                                       {"transfer_ms_per_step", "transfer", 9, .decimals = 3},
                                                       {"transfer_busbw_gbps", "GB/s bus", 9, .decimals = 2},
                                                       {"link_share", "of link", 9, .decimals = 1},
                                                       {0}};

/* ---- of several ranks ---- */

struct shared_values {
    struct aorta_align_shared shared;
    struct group_values group;
    int64_t last_start_ns, last_rank, transfer_ns;
    const char *late;
    double algbw_gbps, busbw_gbps;
};

#define AT(member) offsetof(struct shared_values, member)
static const struct aorta_row shared_rows[] = {
    {"kind", AORTA_ROW_CHOICE, AT(shared.kind), .help = "one of", .name = aorta_collective_name,
     .names = AORTA_COLLECTIVE_COUNT},
    {NULL, AORTA_ROW_PART, AT(group), .part = group_rows},
    {"sequence", AORTA_ROW_NATURAL, AT(shared.sequence), .help = "its number within the group"},
    {"step", AORTA_ROW_INT, AT(shared.step), .help = "null: in none"},
    {"bytes", AORTA_ROW_NATURAL, AT(shared.bytes), "bytes", .help = "larger buffer of one rank"},
    {"ranks_seen", AORTA_ROW_INT, AT(shared.part_count), .help = "ranks that recorded it"},
    {"last_start_ms", AORTA_ROW_NS, AT(last_start_ns), .help = "from the first rank's first work on"},
    {"skew_ms", AORTA_ROW_NS, AT(shared.skew_ns), .help = "last start − first start"},
    {"last_rank", AORTA_ROW_INT, AT(last_rank), .help = "that came last"},
    {"late", AORTA_ROW_TEXT, AT(late), .help = "what was late: `device` or `host`"},
    {"transfer_ms", AORTA_ROW_NS, AT(transfer_ns), .help = "from the last start on"},
    {"algbw_gbps", AORTA_ROW_NUMBER, AT(algbw_gbps), "GB/s", 6, .help = "bytes / transfer"},
    {"busbw_gbps", AORTA_ROW_NUMBER, AT(busbw_gbps), "GB/s", 6, .help = "as nccl-tests define it"},
    {"exposed_ms", AORTA_ROW_NS, AT(shared.exposed_ns), .help = "without compute, over all ranks"},
    {0}};
#undef AT

static enum aorta_line fill_shared(const void *of, size_t index, void *values) {
    if (index >= trace_analysis_of(of)->alignment.shared_count) return AORTA_LINE_END;
    const struct aorta_trace_analysis *analysis = trace_analysis_of(of);
    const struct aorta_align_shared *shared = &analysis->alignment.shared[index];
    int64_t last_start_ns = INT64_MIN, last_end_ns = INT64_MIN;
    if (!shared->chosen) return AORTA_LINE_SKIP;
    for (size_t i = 0; i < shared->part_count; i++) {
        if (shared->parts[i].start_ns > last_start_ns) last_start_ns = shared->parts[i].start_ns;
        if (shared->parts[i].end_ns > last_end_ns) last_end_ns = shared->parts[i].end_ns;
    }
    const int64_t transfer_ns = last_end_ns - last_start_ns;
    const bool sized = shared->complete && shared->bytes > 0 && transfer_ns > 0;
    const double algbw = sized ? (double)shared->bytes / (double)transfer_ns : NAN;
    const double factor = aorta_collective_bus_factor(shared->kind, (int)shared->part_count);
    *(struct shared_values *)values =
        (struct shared_values){.shared = *shared,
                               .group = group_of(analysis, shared->group),
                               .last_start_ns = last_start_ns - analysis->ranks[0].figures.start_ns,
                               .last_rank = analysis->ranks[shared->last_rank].rank,
                               .transfer_ns = transfer_ns,
                               .late = !shared->cause_known  ? NULL
                                       : shared->device_late ? "device"
                                                             : "host",
                               .algbw_gbps = algbw,
                               .busbw_gbps = factor > 0 ? algbw * factor : NAN};
    return AORTA_LINE;
}

AORTA_TABLE(trace_table_shared_collectives, "shared_collectives", "Collectives of several ranks",
            "every collective that two ranks or more recorded",
            AORTA_LINES(shared_rows, struct shared_values, fill_shared));

struct difference_values {
    struct aorta_trace_difference row;
    int64_t rank;
};

#define AT(member) offsetof(struct difference_values, member)
static const struct aorta_row difference_rows[] = {
    {"kernel", AORTA_ROW_KERNEL, AT(row.name), .heading = "kernel", .help = "its name"},
    {"rank", AORTA_ROW_INT, AT(rank), .heading = "rank", .help = "that it takes longer"},
    {"count_per_step", AORTA_ROW_NUMBER, AT(row.count), NULL, 6, .help = "how often this rank runs it"},
    {"ms_per_step", AORTA_ROW_MEAN_NS, AT(row.ns), "ms", 9, "ms per step", .help = "and how long"},
    {"others_count_per_step", AORTA_ROW_NUMBER, AT(row.others_count), NULL, 6, .help = "the median of the other ranks"},
    {"others_ms_per_step", AORTA_ROW_MEAN_NS, AT(row.others_ns), "ms", 9, "median",
     .help = "the median of the other ranks"},
    {"excess_ms_per_step", AORTA_ROW_MEAN_NS, AT(row.excess_ns), "ms", 9, "excess ms",
     .help = "beyond the other ranks; largest first"},
    {0}};
#undef AT

static enum aorta_line fill_difference(const void *of, size_t index, void *values) {
    if (index >= trace_analysis_of(of)->difference_count) return AORTA_LINE_END;
    const struct aorta_trace_difference *row = &trace_analysis_of(of)->differences[index];
    *(struct difference_values *)values =
        (struct difference_values){*row, trace_analysis_of(of)->ranks[row->rank].rank};
    return AORTA_LINE;
}

static const struct aorta_column difference_columns[] = {{"rank", "rank", .width = 7},
                                                         {"count_per_step", "count", 9, .decimals = 1},
                                                         {"ms_per_step", "ms", 9, .decimals = 3},
                                                         {"others_count_per_step", "median count", 12, .decimals = 1},
                                                         {"others_ms_per_step", "median ms", 9, .decimals = 3},
                                                         {0}};
AORTA_TABLE(aorta_table_differences, "kernel_differences", "Kernels that differ between ranks",
            "kernels that take longer on one rank than on the other ranks, "
            "or that only this rank runs",
            "ranks", AORTA_LINES(difference_rows, struct difference_values, fill_difference),
            .columns = difference_columns);

/* ---- arrivals ---- */

struct straggler_values {
    struct aorta_trace_arrivals row;
    int64_t rank;
    double after_ns, last_share;
};

#define AT(member) offsetof(struct straggler_values, member)
static const struct aorta_row straggler_rows[] = {
    {"rank", AORTA_ROW_INT, AT(rank), .heading = "rank", .help = "of the job"},
    {"late_ms", AORTA_ROW_NS, AT(row.late_ns), .heading = "late ms",
     .help = "how long the first rank waited where this one was last, in all; largest first"},
    {"came_last", AORTA_ROW_INT, AT(row.last), .heading = "came last", .help = "how often it was last"},
    {"last_share", AORTA_ROW_NUMBER, AT(last_share), "share", 6, "of its collectives",
     .help = "came_last / collectives"},
    {"came_first", AORTA_ROW_INT, AT(row.first), .heading = "came first", .help = "how often it was first"},
    {"collectives", AORTA_ROW_INT, AT(row.collectives), .heading = "collectives",
     .help = "that it shares with other ranks"},
    {"after_first_mean_ms", AORTA_ROW_MEAN_NS, AT(after_ns), "ms", 9, "after the first, mean ms",
     .help = "its start after that of the first rank"},
    {"after_first_max_ms", AORTA_ROW_NS, AT(row.after_first_most_ns), .heading = "max ms", .help = "the longest"},
    {"wait_ms", AORTA_ROW_NS, AT(row.wait_ns), .heading = "waiting ms", .help = "for the last rank, in all"},
    {"collective_ms", AORTA_ROW_NS, AT(row.ns), .heading = "in collectives ms",
     .help = "from its start to its end, in all"},
    {0}};
#undef AT

static enum aorta_line fill_straggler(const void *of, size_t index, void *values) {
    if (index >= trace_analysis_of(of)->arrival_count) return AORTA_LINE_END;
    const struct aorta_trace_arrivals *row = &trace_analysis_of(of)->arrivals[index];
    const double count = (double)row->collectives;
    if (!row->collectives) return AORTA_LINE_SKIP;
    *(struct straggler_values *)values = (struct straggler_values){.row = *row,
                                                                   .rank = trace_analysis_of(of)->ranks[row->rank].rank,
                                                                   .after_ns = (double)row->after_first_ns / count,
                                                                   .last_share = (double)row->last / count};
    return AORTA_LINE;
}

AORTA_TABLE(trace_table_stragglers, "stragglers", "How ranks come to collectives",
            "ranks by how long other ranks waited for them", "ranks",
            AORTA_LINES(straggler_rows, struct straggler_values, fill_straggler));

/* ---- unequal parts ---- */

struct uneven_values {
    struct aorta_trace_uneven row;
    int64_t rank, start_ns, ns;
    int kind;
    double gbps;
};

#define AT(member) offsetof(struct uneven_values, member)
static const struct aorta_row uneven_rows[] = {
    {"rank", AORTA_ROW_INT, AT(rank), .heading = "rank", .help = "of the job"},
    {"kind", AORTA_ROW_CHOICE, AT(kind), .heading = "collective", .help = "one of", .name = aorta_collective_name,
     .names = AORTA_COLLECTIVE_COUNT},
    {"start_ms", AORTA_ROW_NS, AT(start_ns), .heading = "start ms", .help = "from the rank's first work on"},
    {"ms", AORTA_ROW_NS, AT(ns), .heading = "ms", .help = "of its kernel, waiting included"},
    {"parts", AORTA_ROW_INT, AT(row.parts), .heading = "parts", .help = "ranks that it sends to"},
    {"sent_bytes", AORTA_ROW_NATURAL, AT(row.sent), "bytes", .heading = "sent",
     .help = "by this rank, to itself included"},
    {"received_bytes", AORTA_ROW_NATURAL, AT(row.received), "bytes", .heading = "received", .help = "likewise"},
    {"imbalance", AORTA_ROW_NUMBER, AT(row.imbalance), NULL, 4, "largest part / mean", .help = "1: equal parts"},
    {"gbps", AORTA_ROW_NUMBER, AT(gbps), "GB/s", 6, "GB/s", .help = "sent / time"},
    {0}};
#undef AT

static enum aorta_line fill_uneven(const void *of, size_t index, void *values) {
    if (index >= trace_analysis_of(of)->uneven_count) return AORTA_LINE_END;
    const struct aorta_trace_uneven *row = &trace_analysis_of(of)->uneven[index];
    const struct aorta_trace_rank *rank = &trace_analysis_of(of)->ranks[row->rank];
    const struct aorta_trace_work *work = &rank->work[row->work];
    const struct aorta_trace_collective *facts = &rank->trace->collectives[work->collective];
    const int64_t ns = work->end_ns - work->start_ns;
    *(struct uneven_values *)values =
        (struct uneven_values){.row = *row,
                               .rank = rank->rank,
                               .kind = facts->named ? (int)facts->kind : (int)AORTA_COLLECTIVE_OTHER,
                               .start_ns = work->start_ns - rank->figures.start_ns,
                               .ns = ns,
                               .gbps = row->sent >= 0 && ns > 0 ? (double)row->sent / (double)ns : NAN};
    return AORTA_LINE;
}

AORTA_TABLE(trace_table_uneven, "uneven_collectives", "All-to-alls with unequal parts",
            "each all-to-all whose parts are not equal, of each rank (torch.profiler names the parts: In split size)",
            "collectives", AORTA_LINES(uneven_rows, struct uneven_values, fill_uneven));

#define AT(member) offsetof(struct aorta_trace_pair, member)
static const struct aorta_row pair_rows[] = {
    {"from", AORTA_ROW_INT32, AT(from), .heading = "from rank", .help = "of the job"},
    {"to", AORTA_ROW_INT32, AT(to), .heading = "to rank", .help = "of the job"},
    {"count", AORTA_ROW_INT, AT(count), .heading = "all-to-alls", .help = "how many"},
    {"bytes", AORTA_ROW_INT, AT(bytes), "bytes", .heading = "bytes", .help = "sum of their parts"},
    {0}};
#undef AT

static enum aorta_line fill_pair(const void *of, size_t index, void *values) {
    if (index >= trace_analysis_of(of)->pair_count) return AORTA_LINE_END;
    *(struct aorta_trace_pair *)values = trace_analysis_of(of)->pairs[index];
    return AORTA_LINE;
}

AORTA_TABLE(trace_table_pairs, "rank_pairs", "Bytes from rank to rank", "what these move from which rank to which",
            "collectives", AORTA_LINES(pair_rows, struct aorta_trace_pair, fill_pair));

/* ---- a rank's arrivals ---- */

struct arrival_values {
    struct aorta_align_shared shared;
    struct group_values group;
    int64_t start_ns, after_ns, wait_ns, ns;
    bool last;
};

#define AT(member) offsetof(struct arrival_values, member)
static const struct aorta_row arrival_rows[] = {
    {"kind", AORTA_ROW_CHOICE, AT(shared.kind), .heading = "collective", .help = "one of",
     .name = aorta_collective_name, .names = AORTA_COLLECTIVE_COUNT},
    {NULL, AORTA_ROW_PART, AT(group), .part = group_rows},
    {"sequence", AORTA_ROW_NATURAL, AT(shared.sequence), .heading = "sequence", .help = "its number within the group"},
    {"step", AORTA_ROW_INT, AT(shared.step), .heading = "step", .help = "null: in none"},
    {"bytes", AORTA_ROW_NATURAL, AT(shared.bytes), "bytes", .heading = "bytes", .help = "larger buffer of one rank"},
    {"start_ms", AORTA_ROW_NS, AT(start_ns), .heading = "start ms", .help = "of this rank, from its first work on"},
    {"after_first_ms", AORTA_ROW_NS, AT(after_ns), .heading = "after the first ms", .help = "that started it"},
    {"wait_ms", AORTA_ROW_NS, AT(wait_ns), .heading = "waiting ms", .help = "until the last rank started it"},
    {"last", AORTA_ROW_BOOL, AT(last), .help = "this rank was the last"},
    {"ms", AORTA_ROW_NS, AT(ns), .heading = "ms", .help = "from its start to its end"},
    {0}};
#undef AT

static const struct aorta_align_part *part_of(const struct aorta_align_shared *shared, uint32_t rank) {
    for (size_t i = 0; i < shared->part_count; i++)
        if (shared->parts[i].rank == rank) return &shared->parts[i];
    return NULL;
}

static enum aorta_line fill_arrival(const void *of, size_t index, void *values) {
    if (index >= trace_analysis_of(of)->alignment.shared_count) return AORTA_LINE_END;
    const struct aorta_trace_analysis *analysis = trace_analysis_of(of);
    const struct aorta_trace_rank *rank = trace_rank_of(of);
    const struct aorta_align_shared *shared = &analysis->alignment.shared[index];
    const uint32_t place = (uint32_t)(rank - analysis->ranks);
    const struct aorta_align_part *part = part_of(shared, place);
    const struct aorta_align_part *first = part_of(shared, shared->first_rank);
    if (!part || !first || !shared->chosen) return AORTA_LINE_SKIP;
    *(struct arrival_values *)values = (struct arrival_values){
        .shared = *shared,
        .group = group_of(analysis, shared->group),
        .start_ns = part->start_ns + analysis->alignment.clocks[place].shift_ns - rank->figures.start_ns,
        .after_ns = part->start_ns - first->start_ns,
        .wait_ns = shared->skew_ns - (part->start_ns - first->start_ns),
        .ns = part->end_ns - part->start_ns,
        .last = shared->last_rank == place};
    return AORTA_LINE;
}

static const struct aorta_column arrival_columns[] = {{"kind", "collective", .width = 14},
                                                      {"sequence", "seq", .width = 7},
                                                      {"bytes", "bytes", .width = 12},
                                                      {"start_ms", "start ms", 11, .decimals = 3},
                                                      {"after_first_ms", "us after 1st", 13, 2, true},
                                                      {"wait_ms", "waits us", 11, 2, true},
                                                      {"ms", "runs us", 11, 2, true},
                                                      {0}};
AORTA_TABLE(trace_table_by_arrival, "by_arrival", "Arrival at collectives",
            "when the rank came to each collective that it shares with other ranks, and how long it waited", "ranks",
            AORTA_LINES(arrival_rows, struct arrival_values, fill_arrival), .columns = arrival_columns);
