#include "report/merge.h"
#include "analysis/align.h"
#include "base/files.h"
#include "base/json.h"
#include "base/lines.h"
#include "base/sort.h"
#include "trace/open.h"
#include "trace/ranks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- the file ---- */

enum { ENOUGH = 1 << 18, PACKED = 1 << 16 };

static aorta_status open_sink(const char *path, z_stream *packer, struct aorta_merge_sink *sink) {
    enum { GZIP = 15 + 16 }; /* window bits, and gzip's frame instead of zlib's */
    const size_t length = strlen(path);
    AORTA_TRY(aorta_file_begin(path, &sink->file));
    if (length < 3 || strcmp(path + length - 3, ".gz") != 0) return NULL;
    if (deflateInit2(packer, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP, 8, Z_DEFAULT_STRATEGY) == Z_OK)
        sink->packer = packer;
    return sink->packer ? NULL : AORTA_ERROR(AORTA_MEMORY, "%s: no memory to pack it", path);
}

static aorta_status pack(struct aorta_merge_sink *sink, int flush) {
    unsigned char packed[PACKED];
    sink->packer->next_in = (unsigned char *)sink->text.data;
    sink->packer->avail_in = (unsigned)sink->text.length;
    do {
        sink->packer->next_out = packed;
        sink->packer->avail_out = PACKED;
        deflate(sink->packer, flush); /* cannot fail with space in both buffers */
        AORTA_TRY(aorta_file_append(sink->file, (const char *)packed, PACKED - sink->packer->avail_out));
    } while (sink->packer->avail_out == 0);
    return NULL;
}

static void write_out(struct aorta_merge_sink *sink, int flush) {
    if (!sink->failure) sink->failure = aorta_text_check(&sink->text);
    if (!sink->failure)
        sink->failure =
            sink->packer ? pack(sink, flush) : aorta_file_append(sink->file, sink->text.data, sink->text.length);
    aorta_text_clear(&sink->text);
}

void aorta_merge_flush(struct aorta_merge_sink *sink) {
    if (sink->text.length >= ENOUGH || sink->text.failed) write_out(sink, Z_NO_FLUSH);
}

/* Afterwards the file is complete, or does not exist. */
static aorta_status close_sink(struct aorta_merge_sink *sink, aorta_status status) {
    if (!status) write_out(sink, Z_FINISH);
    status = aorta_status_join(status, sink->failure);
    if (sink->packer) deflateEnd(sink->packer);
    aorta_text_free(&sink->text);
    if (!status) return aorta_file_commit(sink->file);
    aorta_file_discard(sink->file);
    return status;
}

/* ---- tracks of the analysis: the critical path as rows of a thread of its own, and counters ---- */

enum { PATH_KEY = 0x70617468 }; /* of a thread that no file has: "path" */

static void put_piece(struct merge_rank *rank, const struct aorta_path_piece *piece, int64_t thread) {
    const char *kind = aorta_path_kind_name(piece->kind);
    struct aorta_json *json = aorta_merge_begin(rank, "X", "critical_path", piece->name ? piece->name : kind);
    aorta_merge_range(rank, thread, piece->start_ns, piece->end_ns);
    aorta_json_key_object(json, "args");
    aorta_json_key_string(json, "kind", kind);
    aorta_json_object_end(json);
    aorta_json_object_end(json);
}

/* An arrow from the previous piece of the path if that is on another rank. `number`: this piece's place in the path. */
static void put_flow(struct merge_rank *rank, size_t number, bool begins, int64_t at_ns, int64_t thread) {
    struct aorta_json *json = aorta_merge_begin(rank, begins ? "s" : "f", "critical_path", "critical path");
    if (!begins) aorta_json_key_string(json, "bp", "e");
    aorta_json_key_int(json, "id", (int64_t)number);
    aorta_merge_start(rank, thread, at_ns);
    aorta_json_object_end(json);
}

static void put_path(struct merge_rank *rank, const struct aorta_critical_path *path, uint32_t place) {
    bool added, any = false;
    for (size_t i = 0; i < path->count && !any; i++) any = path->pieces[i].rank == place;
    if (!any) return;
    const int64_t thread = aorta_merge_thread(rank, PATH_KEY, 0, &added);
    aorta_merge_thread_name(rank, thread, "critical path");
    for (size_t i = 0; i < path->count; i++) {
        if (path->pieces[i].rank != place) continue;
        const struct aorta_path_piece *piece = &path->pieces[i];
        put_piece(rank, piece, thread);
        if (i && piece[-1].rank != place) put_flow(rank, i, false, piece->start_ns, thread);
        if (i + 1 < path->count && piece[1].rank != place) put_flow(rank, i + 1, true, piece->end_ns - 1, thread);
    }
}

static void put_value(struct merge_rank *rank, int kind, const struct aorta_counter_point *point) {
    struct aorta_json *json = aorta_merge_begin(rank, "C", NULL, aorta_counter_name(kind));
    aorta_text_puts(rank->out, ",\"ts\":");
    aorta_merge_time(rank, point->at_ns);
    aorta_json_key_object(json, "args");
    aorta_json_key_fixed(json, "value", point->value, 6);
    aorta_json_object_end(json);
    aorta_json_object_end(json);
}

static void add_tracks(struct merge_rank *rank, const struct aorta_merge_tracks *tracks) {
    for (size_t i = 0; i < tracks->count; i++) {
        const struct aorta_counters *counters = &tracks->counters[i];
        if (counters->rank != rank->source->rank) continue;
        put_path(rank, tracks->path, (uint32_t)i);
        for (int kind = 0; kind < AORTA_COUNTER_COUNT; kind++)
            for (size_t p = 0; p < counters->of[kind].count; p++) put_value(rank, kind, &counters->of[kind].points[p]);
    }
}

struct merging {
    struct aorta_trace_list own;         /* the files that were read here */
    const struct aorta_trace_list *list; /* `own`, or the caller's list */
    struct aorta_align_rank *ranks;      /* one for each trace, in order of rank */
    size_t count, cycles;                /* cycles: of the profiler, of which the last is merged */
    struct aorta_alignment alignment;
    struct merge_rank *written;
    struct aorta_arena memory;
};

/* ---- which rank is which ---- */

/* The device with most of the rank's collectives, or with most work if there are none. */
static int32_t main_device(const struct aorta_trace *trace, bool *several) {
    enum { DEVICES = 64 };
    int32_t devices[DEVICES];
    size_t weights[DEVICES] = {0}, count = 0, best = 0;
    AORTA_EACH (const struct aorta_trace_work, work, trace->work, trace->work_count) {
        size_t at = 0;
        while (at < count && devices[at] != work->device) at++;
        if (at == DEVICES) continue;
        if (at == count) devices[count++] = work->device;
        weights[at] += aorta_trace_is_collective(work) ? trace->work_count : 1;
        if (weights[at] > weights[best]) best = at;
    }
    *several = count > 1;
    return count ? devices[best] : -1;
}

static bool taken(const struct merging *m, size_t count, int rank) {
    for (size_t i = 0; i < count; i++)
        if (m->ranks[i].rank == rank) return true;
    return false;
}

static aorta_status two_of_one_rank(const struct merging *m, size_t second) {
    size_t first = 0;
    while (m->ranks[first].rank != m->ranks[second].rank) first++;
    return AORTA_ERROR(AORTA_USAGE, "%s and %s are both of rank %d; give one file of each rank",
                       m->ranks[first].trace->path, m->ranks[second].trace->path, m->ranks[second].rank);
}

/* An empty trace, as of a process that only starts the ranks. */
static bool is_empty(const struct aorta_trace *trace) {
    return !trace->work_count && !trace->call_count && !trace->operation_count &&
           !trace->warnings[AORTA_REASON_TRUNCATED].count;
}

/* Unknown ranks get the lowest free numbers. */
static aorta_status number_ranks(struct merging *m) {
    const int *ranks = aorta_trace_ranks_known(m->list, &m->memory);
    AORTA_TRY(aorta_arena_check(&m->memory, "the ranks"));
    m->count = 0;
    for (size_t i = 0; i < m->list->count; i++) {
        bool several;
        const struct aorta_trace *trace = m->list->items[i];
        const bool known = ranks[i] >= 0 && taken(m, m->count, ranks[i]);
        if (is_empty(trace) && (m->count || i + 1 < m->list->count)) continue;
        m->ranks[m->count++] = (struct aorta_align_rank){ranks[i], trace, main_device(trace, &several)};
        if (known) return two_of_one_rank(m, m->count - 1);
    }
    int next = 0;
    for (size_t i = 0; i < m->count; i++) {
        if (m->ranks[i].rank >= 0) continue;
        while (taken(m, m->count, next)) next++;
        m->ranks[i].rank = next;
    }
    qsort(m->ranks, m->count, sizeof *m->ranks, aorta_by_int32);
    return NULL;
}

/* Kineto files are copied event by event. A file with several ranks would be copied once for each rank. */
static aorta_status check_unmerged(const struct merging *m) {
    for (size_t i = 1; i < m->count; i++) {
        const struct aorta_trace *trace = m->list->items[i];
        if (trace->format == AORTA_TRACE_KINETO && strcmp(m->list->items[i - 1]->path, trace->path) == 0)
            return AORTA_ERROR(AORTA_USAGE, "%s is merged already: give the files of its ranks", trace->path);
    }
    return NULL;
}

static aorta_status read_all(struct merging *m, const char *const *paths, size_t count,
                             const struct aorta_trace_options *options) {
    struct aorta_trace_options reading = options ? *options : (struct aorta_trace_options){0};
    reading.to_align = true; /* Kineto files are read again, event by event */
    if (!m->list) {
        AORTA_TRY(aorta_trace_open_inputs(paths, count, &reading, &m->own));
        m->cycles = aorta_trace_take_last_cycle(&m->own);
        m->list = &m->own;
    }
    m->count = m->list->count;
    AORTA_TRY(check_unmerged(m));
    m->ranks = aorta_arena_alloc(&m->memory, m->count * sizeof *m->ranks);
    m->written = aorta_arena_alloc(&m->memory, m->count * sizeof *m->written);
    AORTA_TRY(aorta_arena_check(&m->memory, "the ranks"));
    AORTA_TRY(number_ranks(m));
    aorta_align(m->ranks, m->count, AORTA_CLOCKS_OF_TRACES, &m->memory, &m->alignment);
    return aorta_arena_check(&m->memory, "the ranks");
}

/* ---- the file ---- */

static void put_head(const struct merging *m, struct aorta_text *out) {
    int64_t base = m->count ? m->ranks[0].trace->base_ns : INT64_MIN;
    aorta_text_puts(out, "{\n\"schemaVersion\": 1,\n\"displayTimeUnit\": \"ms\",\n");
    if (base != INT64_MIN) aorta_text_printf(out, "\"baseTimeNanoseconds\": %" PRId64 ",\n", base);
    bool apart = m->count > 0;
    for (size_t i = 0; i < m->count; i++) apart &= m->ranks[i].trace->steps_by == AORTA_STEPS_APART;
    if (apart) aorta_text_puts(out, "\"aorta\": {\"steps_apart\": true},\n");
    aorta_text_puts(out, "\"traceEvents\": [");
}

static void put_rank_facts(struct aorta_text *out, const struct merge_rank *rank) {
    const struct aorta_align_clock *clock = rank->clock;
    struct aorta_json json;
    aorta_json_begin(&json, out, 0);
    aorta_json_object(&json);
    aorta_json_key_int(&json, "rank", rank->source->rank);
    aorta_json_key_string(&json, "file", rank->source->trace->path);
    aorta_json_key_string(&json, "format", aorta_trace_format_name(rank->source->trace->format));
    aorta_json_key_int(&json, "clock_shift_ns", clock->shift_ns);
    aorta_json_key_natural(&json, "residual_ns", clock->residual_ns);
    aorta_json_key_int(&json, "shared_collectives", (int64_t)clock->shared);
    if (rank->members.length) { /* each with a comma and a space before it */
        aorta_text_puts(out, ", \"head\": {");
        aorta_text_append(out, rank->members.data + 2, rank->members.length - 2);
        aorta_text_puts(out, "}");
    }
    aorta_json_object_end(&json);
}

static void put_tail(const struct merging *m, struct aorta_text *out) {
    aorta_text_puts(out, "\n],\n\"ranks\": [");
    for (size_t i = 0; i < m->count; i++) {
        aorta_text_puts(out, i ? ",\n" : "\n");
        put_rank_facts(out, &m->written[i]);
    }
    aorta_text_puts(out, "\n]\n}\n");
}

static aorta_status put_ranks(struct merging *m, const struct aorta_trace_options *options,
                              const struct aorta_merge_tracks *tracks, struct aorta_merge_sink *sink) {
    bool first = true;
    for (size_t i = 0; i < m->count; i++) {
        struct merge_rank *rank = &m->written[i];
        *rank = (struct merge_rank){.source = &m->ranks[i],
                                    .clock = &m->alignment.clocks[i],
                                    .index = i,
                                    .count = m->count,
                                    .options = options,
                                    .executed = m->list->executed,
                                    .sink = sink,
                                    .out = &sink->text,
                                    .first = &first};
        main_device(m->ranks[i].trace, &rank->several_devices);
        if (m->ranks[i].trace->format == AORTA_TRACE_KINETO)
            AORTA_TRY(aorta_merge_kineto(rank));
        else
            aorta_merge_model(rank);
        if (tracks) add_tracks(rank, tracks);
    }
    return NULL;
}

static aorta_status write_all(struct merging *m, const char *output, const struct aorta_trace_options *options,
                              const struct aorta_merge_tracks *tracks) {
    struct aorta_merge_sink sink = {0};
    z_stream packer = {0};
    aorta_status status = open_sink(output, &packer, &sink);
    if (!status) put_head(m, &sink.text);
    if (!status) status = put_ranks(m, options, tracks, &sink);
    if (!status) put_tail(m, &sink.text);
    return close_sink(&sink, status);
}

/* ---- the report ---- */

static double us(int64_t ns) {
    return (double)ns / 1e3;
}

static void describe_rank(const struct merging *m, size_t i, struct aorta_text *out) {
    const struct aorta_align_clock *clock = &m->alignment.clocks[i];
    aorta_text_printf(out, "rank %d: ", m->ranks[i].rank);
    if (i == 0) {
        aorta_text_puts(out, "its clock is the common one");
    } else if (!clock->linked) {
        aorta_text_puts(out, m->ranks[i].trace->base_ns == INT64_MIN
                                 ? "not aligned: it shares no collective with rank "
                                 : "aligned by the time of day alone: it shares no collective with rank ");
        aorta_text_printf(out, "%d", m->ranks[0].rank);
    } else {
        /* The shift in addition to the times of day in the files; the whole shift if they have none. */
        aorta_text_printf(out, "clock %+.3f us",
                          us(clock->shift_ns - aorta_align_wall_shift(m->ranks[i].trace, m->ranks[0].trace)));
    }
    if (clock->shared)
        aorta_text_printf(out, "; %zu shared collectives, residual %.3f us (95%%: %.3f us)", clock->shared,
                          us(clock->residual_ns), us(clock->p95_ns));
    const char *path = m->ranks[i].trace->path, *slash = strrchr(path, '/');
    aorta_text_printf(out, "; %" PRId64 " events of %s", m->written[i].events, slash ? slash + 1 : path);
    if (m->written[i].lost) aorta_text_puts(out, " (broken: those before the break)");
    if (m->written[i].odd)
        aorta_text_printf(out, " (%" PRId64 " with a time that is no number, left as it was)", m->written[i].odd);
    int64_t copies = m->ranks[i].trace->warnings[AORTA_REASON_SAME_FILE].count;
    if (copies) aorta_text_printf(out, " (%s skipped)", aorta_counted(copies, "equal file").text);
}

/* One line of the report, wrapped if it is long. Empties `line`. */
static void put_line(struct aorta_text *line, struct aorta_text *out) {
    aorta_text_lines(out, line->data ? line->data : "", &(struct aorta_lines){.indent = 2});
    aorta_text_end(line, out);
}

static void write_report(const struct merging *m, const char *output, bool answer, struct aorta_text *out) {
    struct aorta_text line = {0};
    if (m->alignment.residual_ns >= 0)
        aorta_text_printf(&line, "%zu ranks on one clock, residual %.3f us; written to %s", m->count,
                          us(m->alignment.residual_ns), output);
    else
        aorta_text_printf(&line, "%s, no shared collectives; written to %s",
                          aorta_counted((long long)m->count, "rank").text, output);
    put_line(&line, out);
    if (answer) return;
    for (size_t i = 0; i < m->count; i++) {
        describe_rank(m, i, &line);
        put_line(&line, out);
    }
    for (size_t i = 0; i < m->count; i++) {
        const char *words = m->ranks[i].trace->warnings[AORTA_REASON_SKIPPED].words;
        if (!words) continue;
        aorta_text_printf(&line, "note: %s", words);
        put_line(&line, out);
    }
    if (m->cycles > 1) aorta_text_printf(out, "the last of %zu profiler cycles of each rank\n", m->cycles);
    int late = aorta_alignment_straggler(&m->alignment);
    if (late >= 0) {
        const struct aorta_align_clock *clock = &m->alignment.clocks[late];
        bool device = clock->late_by_device * 2 > clock->late;
        aorta_text_printf(
            &line,
            "rank %d came last to %zu of %zu shared collectives; the earliest ranks waited %.3f ms in total, "
            "mostly because rank %d's %s",
            m->ranks[late].rank, clock->late, m->alignment.shared_count, (double)clock->late_ns / 1e6,
            m->ranks[late].rank, device ? "device was still busy" : "host launched late");
        put_line(&line, out);
    }
}

aorta_status aorta_trace_merge(const char *const *paths, size_t count, const char *output,
                               const struct aorta_trace_options *options, const struct aorta_merge_tracks *tracks,
                               bool answer, struct aorta_text *report) {
    struct merging m = {.list = tracks ? tracks->traces : NULL};
    aorta_status status = read_all(&m, paths, count, options);
    if (!status) status = write_all(&m, output, options, tracks);
    if (!status) {
        write_report(&m, output, answer, report);
        status = aorta_text_check(report);
    }
    for (size_t i = 0; i < m.count && m.written; i++) {
        aorta_merge_threads_free(&m.written[i].threads);
        aorta_text_free(&m.written[i].members);
        aorta_text_free(&m.written[i].scratch);
    }
    aorta_arena_free(&m.memory);
    aorta_trace_list_free(&m.own);
    return status;
}
