/* What stood in a rank's device memory at its peak (--by memory). */
#include "report/trace_tables_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LABEL_SIZE = 1024 };

struct memory_values {
    const char *label, *operation, *function, *module;
    int use;
    int64_t bytes, blocks;
    double share, mb;
    char text[LABEL_SIZE];
};

#define AT(member) offsetof(struct memory_values, member)
static const struct aorta_row memory_rows[] = {
    {NULL, AORTA_ROW_LABEL, AT(label), .shown_only = true},
    {"use", AORTA_ROW_CHOICE, AT(use), .heading = "use", .name = aorta_memory_use_name, .names = AORTA_MEMORY_USE_COUNT,
     .help = "one of"},
    {"operation", AORTA_ROW_TEXT, AT(operation), .heading = "operation",
     .help = "of the framework that allocated it; null: it stood before the recording, or none did"},
    {"function", AORTA_ROW_TEXT, AT(function), .heading = "Python line",
     .help = "of the program (with_stack=True); of a gradient that of its forward pass"},
    {"module", AORTA_ROW_TEXT, AT(module), .heading = "module", .help = "of PyTorch, likewise"},
    {"bytes", AORTA_ROW_INT, AT(bytes), "bytes", .heading = "bytes", .help = "that stood at the peak"},
    {"blocks", AORTA_ROW_INT, AT(blocks), .heading = "blocks", .help = "how many"},
    {"share", AORTA_ROW_NUMBER, AT(share), "share", 6, "of the peak", .help = "of all that stood then"},
    {"mb", AORTA_ROW_NUMBER, AT(mb), .shown_only = true},
    {0}};
#undef AT

static const struct aorta_memory *memory_of(const void *of) {
    return ((const struct aorta_trace_of *)of)->made;
}

static size_t memory_count(const void *of) {
    return memory_of(of)->count;
}

static bool fill_memory(const void *of, size_t index, void *values) {
    const struct aorta_trace *trace = trace_rank_of(of)->trace;
    const struct aorta_memory *memory = memory_of(of);
    const struct aorta_memory_row *row = &memory->rows[index];
    struct memory_values *out = values;
    out->use = (int)row->use;
    out->operation = trace_text_of(trace, row->operation);
    out->function = trace_text_of(trace, row->function);
    out->module = row->module == AORTA_TRACE_NONE ? NULL : aorta_trace_text(trace, row->module) + strlen("nn.Module: ");
    out->bytes = row->bytes;
    out->blocks = (int64_t)row->blocks;
    out->share = memory->peak_bytes ? (double)row->bytes / (double)memory->peak_bytes : NAN;
    out->mb = (double)row->bytes / 1e6;
    snprintf(out->text, sizeof out->text, "%s%s%s%s%s%s%s", aorta_memory_use_name(out->use), out->operation ? ", " : "",
             out->operation ? out->operation : "", out->module ? " in " : "", out->module ? out->module : "",
             out->function ? " at " : "", out->function ? out->function : "");
    out->label = out->text;
    return true;
}

static const struct aorta_column memory_columns[] = {
    {"mb", "MB", 10, .decimals = 3}, {"share", "share", 7, .decimals = 1}, {"blocks", "blocks", .width = 7}, {0}};
const struct aorta_result_table trace_table_by_memory = {
    .key = "by_memory",
    .title = "At the peak of memory",
    .help = "what stood in the device's memory when most of it was allocated, by use and by what allocated it",
    .section = "memory",
    .rows = memory_rows,
    .size = sizeof(struct memory_values),
    .count = memory_count,
    .fill = fill_memory,
    .columns = memory_columns};

/* ---- the peak itself, and memory over time ---- */

struct peak_values {
    int64_t at_ns, bytes, reserved, use[AORTA_MEMORY_USE_COUNT];
};

#define AT(member) offsetof(struct peak_values, member)
const struct aorta_row trace_memory_peak_rows[] = {
    {"at_ms", AORTA_ROW_NS, AT(at_ns),
     .help = "from the rank's first work on; negative: before it; null: before the recording"},
    {"bytes", AORTA_ROW_INT, AT(bytes), "bytes", .help = "allocated then"},
    {"reserved_bytes", AORTA_ROW_INT, AT(reserved), "bytes", .help = "of the device by the allocator then"},
    {"use_bytes", AORTA_ROW_INT, AT(use), "bytes", .help = "by use", .name = aorta_memory_use_name,
     .names = AORTA_MEMORY_USE_COUNT},
    {0}};
#undef AT

static struct peak_values peak_of(const struct aorta_trace_rank *rank, const struct aorta_memory *memory) {
    const bool before = memory->peak_ns == INT64_MIN; /* nothing after it had more */
    struct peak_values values = {.at_ns = before ? AORTA_ROW_UNKNOWN : memory->peak_ns - rank->figures.start_ns,
                                 .bytes = memory->peak_bytes,
                                 .reserved = trace_known(memory->peak_reserved)};
    memcpy(values.use, memory->peak_use, sizeof values.use);
    return values;
}

void trace_memory_peak_json(const struct aorta_trace_rank *rank, const struct aorta_memory *memory,
                            struct aorta_json *json) {
    if (memory->reason) return; /* there is no peak */
    const struct peak_values values = peak_of(rank, memory);
    aorta_rows_object("memory_peak", trace_memory_peak_rows, &values, 0, json);
}

void trace_memory_peak_text(const struct aorta_trace_rank *rank, const struct aorta_memory *memory,
                            struct aorta_text *out) {
    if (memory->reason) return;
    const struct peak_values values = peak_of(rank, memory);
    const char *separator = " ";
    aorta_text_printf(out, "peak of memory: %.1f MB, ", (double)values.bytes / 1e6);
    if (values.at_ns == AORTA_ROW_UNKNOWN)
        aorta_text_puts(out, "before the recording");
    else
        aorta_text_printf(out, "%.3f ms after the first work", (double)values.at_ns / 1e6);
    if (memory->peak_reserved >= 0)
        aorta_text_printf(out, ", of %.1f MB that the allocator holds", (double)memory->peak_reserved / 1e6);
    aorta_text_puts(out, "\n ");
    for (int use = 0; use < AORTA_MEMORY_USE_COUNT; use++) {
        if (!values.use[use]) continue;
        aorta_text_printf(out, "%s%s %.1f MB", separator, aorta_memory_use_name(use), (double)values.use[use] / 1e6);
        separator = ", ";
    }
    aorta_text_puts(out, "\n");
}
