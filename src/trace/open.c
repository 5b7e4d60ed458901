/* Finds the kind of a file, and calls its reader. */
#include "base/files.h"
#include "base/parallel.h"
#include "base/sort.h"
#include "trace/archive.h"
#include "trace/execution_trace.h"
#include "trace/kineto_read.h"
#include "trace/reader.h"
#include "trace/source.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* ---- JSON: a key anywhere in the outermost object shows the kind of file ---- */

static const struct json_row {
    const char *key;
    aorta_trace_json_reader *read; /* NULL: Kineto's */
} json_rows[] = {
#define JSON(key, suffix, names, read) {key, read},
#include "trace/formats.def"
};

static const char json_formats[] =
#define JSON(key, suffix, names, read) " or " key " (" names ")"
#include "trace/formats.def"
    ;

static const struct json_row *row_of(struct aorta_json_value key) {
    for (size_t i = 0; i < sizeof json_rows / sizeof json_rows[0]; i++)
        if (aorta_json_key_is(key, json_rows[i].key)) return &json_rows[i];
    return NULL;
}

struct json_reading {
    struct aorta_json_stream *stream;
    const struct aorta_trace_options *options;
    struct aorta_trace_list *list;
    struct aorta_trace_builder *builder;
    struct trace_kineto *kineto;
    bool events, other;        /* Kineto's events, or another reader's part, were met */
    bool nodes;                /* of an execution trace */
    struct aorta_trace *whole; /* from the first reading, if processes become ranks; or NULL */
    bool by_place;
    size_t before; /* traces in the list */
};

static aorta_status read_events(struct json_reading *r) {
    char letter;
    AORTA_TRY(aorta_json_stream_peek(r->stream, &letter));
    r->events |= letter == '[';
    return aorta_trace_kineto_events(r->kineto);
}

static aorta_status read_object(struct json_reading *r) {
    struct aorta_json_value key;
    bool more;
    AORTA_TRY(aorta_json_stream_enter(r->stream, '{'));
    for (;;) {
        AORTA_TRY(aorta_json_stream_member(r->stream, &key, &more));
        if (!more) return aorta_json_stream_finish(r->stream);
        const struct json_row *json_row = row_of(key);
        r->nodes |= aorta_json_key_is(key, "nodes");
        if (!json_row) {
            AORTA_TRY(aorta_trace_kineto_member(r->kineto, key));
        } else if (json_row->read == aorta_trace_read_json) {
            AORTA_TRY(read_events(r));
        } else {
            r->other = true;
            AORTA_TRY(json_row->read(r->stream, r->options, r->list));
            if (aorta_json_stream_failed(r->stream)) return NULL; /* broken there; the traces before it stay */
        }
    }
}

/* Chrome's trace format may also be just the array of events. */
static aorta_status read_json(struct json_reading *r) {
    char letter;
    AORTA_TRY(aorta_json_stream_peek(r->stream, &letter));
    if (letter == '{') return read_object(r);
    AORTA_TRY(read_events(r));
    return aorta_json_stream_finish(r->stream);
}

bool aorta_trace_recovers(const struct aorta_trace_options *options, aorta_status *status) {
    if (!options || !options->recover || aorta_status_code(*status) != AORTA_FORMAT) return false;
    aorta_status_free(*status);
    *status = NULL;
    return true;
}

/* Times as large as nanoseconds since 1970 (from 2001 on) are times of day. */
static void complete_head(struct aorta_trace *trace) {
    static const int64_t SINCE_1970 = 1000000000000000000;
    if (trace->base_ns == INT64_MIN && trace->work_count && trace->work[0].start_ns > SINCE_1970) trace->base_ns = 0;
}

/* Adds the ranks of a merged file; they have the file's clock. */
static aorta_status finish_ranks(struct json_reading *r, const struct aorta_trace *whole) {
    aorta_trace_kineto_number_ranks(r->kineto, whole);
    for (size_t i = 0; i < r->kineto->rank_count; i++) {
        struct aorta_trace_builder *builder = r->kineto->ranks[i].builder;
        struct aorta_trace *trace;
        r->kineto->ranks[i].builder = NULL; /* finish ends it */
        AORTA_TRY(aorta_trace_builder_finish(builder, &trace));
        trace->base_ns = whole->base_ns;
        trace->own = whole->own;
        if (trace->step_count == 0 || whole->steps_by == AORTA_STEPS_APART) trace->steps_by = whole->steps_by;
        complete_head(trace);
        aorta_trace_kineto_count_processes(r->kineto, trace);
        AORTA_TRY(aorta_trace_list_add(r->list, trace));
    }
    return NULL;
}

/* ---- ranks without labels ---- */

static AORTA_POINTER_ORDER(by_device, struct aorta_trace, AORTA_UP(work[0].device) AORTA_UP(process));

/* Drops all ranks if they cannot be separated, or are consecutive recordings of one process. `left` has the events
 * without a rank. */
static void keep_separate(struct json_reading *r, const struct aorta_trace *left) {
    struct aorta_trace **ranks = r->list->items + r->before;
    const size_t count = r->list->count - r->before;
    bool separate = count > 1 && !left->work_count, cycles = r->by_place;
    for (size_t i = 0; separate && i < count; i++) {
        separate = ranks[i]->work_count && ranks[i]->processes < 2;
        cycles &= !i || (separate && ranks[i - 1]->process == ranks[i]->process &&
                         ranks[i - 1]->work[ranks[i - 1]->work_count - 1].start_ns < ranks[i]->work[0].start_ns);
    }
    if (separate && cycles) r->whole->processes = 1;
    if (separate && !cycles)
        aorta_sort_rows(ranks, count, sizeof *ranks, by_device);
    else
        while (r->list->count > r->before) aorta_trace_free(r->list->items[--r->list->count]);
}

static aorta_status read_stream(struct json_reading *r);

static aorta_status read_again(const struct json_reading *r, struct aorta_trace *whole, bool by_place) {
    struct json_reading again = {.options = r->options, .list = r->list, .whole = whole, .by_place = by_place};
    const int file = aorta_file_open_regular(aorta_json_stream_name(r->stream));
    if (file < 0) return NULL; /* a stream from memory */
    close(file);
    AORTA_TRY(aorta_json_stream_open(aorta_json_stream_name(r->stream), &again.stream));
    aorta_status status = read_stream(&again);
    aorta_json_stream_close(again.stream);
    return status;
}

static aorta_status finish_kineto(struct json_reading *r) {
    struct aorta_trace *trace;
    aorta_trace_builder_head(r->builder)->bytes_read = aorta_json_stream_bytes(r->stream);
    struct aorta_trace_builder *builder = r->builder;
    r->builder = NULL; /* finish ends it */
    AORTA_TRY(aorta_trace_builder_finish(builder, &trace));
    complete_head(trace);
    aorta_status status = finish_ranks(r, trace);
    const bool labelled = r->list->count > r->before;
    aorta_trace_kineto_count_processes(r->kineto, trace);
    if (!status) status = aorta_arena_check(&r->kineto->memory, "the processes of a trace");
    if (!status && r->whole) keep_separate(r, trace);
    for (int way = 0; way < 2 && !status && !r->whole && r->list->count == r->before && trace->processes > 1; way++)
        status = read_again(r, trace, way == 0);
    if (!status && !r->whole && (labelled ? trace->work_count > 0 : r->list->count == r->before))
        return aorta_trace_list_add(r->list, trace);
    if (!status && r->list->count > r->before) r->list->items[r->before]->bytes_read = trace->bytes_read;
    aorta_trace_free(trace);
    return status;
}

static aorta_status read_all(struct json_reading *r) {
    const char *name = aorta_json_stream_name(r->stream);
    AORTA_TRY(aorta_trace_builder_create(AORTA_TRACE_KINETO, name, r->options, &r->builder));
    AORTA_TRY(aorta_trace_kineto_create(r->stream, r->builder, r->options, &r->kineto));
    if (r->whole) aorta_trace_kineto_separate(r->kineto, r->whole, r->by_place);
    aorta_status status = read_json(r);
    if (r->events && aorta_trace_recovers(r->options, &status)) /* it breaks within its events */
        aorta_trace_builder_warn(
            r->builder, aorta_json_stream_truncated(r->stream) ? AORTA_REASON_TRUNCATED : AORTA_REASON_MALFORMED,
            aorta_json_stream_offset(r->stream));
    if (status) return status;
    if (r->events) return finish_kineto(r);
    if (r->other) return NULL;
    if (r->nodes)
        return AORTA_ERROR(AORTA_USAGE,
                           "%s is an execution trace (Chakra): operations without times; name the trace of "
                           "torch.profiler of the same process, too",
                           name);
    return AORTA_ERROR(AORTA_USAGE, "%s is JSON, but no trace: it has no key %s; record one: aorta trace run", name,
                       json_formats + strlen(" or "));
}

static aorta_status read_stream(struct json_reading *r) {
    r->before = r->list->count;
    aorta_status status = read_all(r);
    aorta_trace_kineto_destroy(r->kineto);
    aorta_trace_builder_destroy(r->builder);
    return status;
}

aorta_status aorta_trace_read_json(struct aorta_json_stream *stream, const struct aorta_trace_options *options,
                                   struct aorta_trace_list *list) {
    struct json_reading r = {.stream = stream, .options = options, .list = list};
    return read_stream(&r);
}

/* ---- recognition of JSON traces ---- */

static aorta_status find_key(struct aorta_json_stream *stream, bool *trace) {
    struct aorta_json_value key;
    bool more = true;
    AORTA_TRY(aorta_json_stream_enter(stream, '{'));
    for (;;) {
        AORTA_TRY(aorta_json_stream_member(stream, &key, &more));
        *trace = more && row_of(key);
        if (!more || *trace) return NULL;
        AORTA_TRY(aorta_json_stream_skip(stream));
    }
}

/* Reads up to the first key that decides. A file that breaks before it is none. AORTA_IO. */
static aorta_status is_json_trace(struct aorta_json_stream *stream, bool *trace) {
    char letter;
    aorta_status status = aorta_json_stream_peek(stream, &letter);
    *trace = !status && letter == '[';
    if (!status && letter == '{') status = find_key(stream, trace);
    if (aorta_status_code(status) != AORTA_FORMAT) return status;
    aorta_status_free(status);
    return NULL;
}

static const struct row {
    const char *suffix;
    const struct aorta_trace_reader *reader; /* NULL: JSON */
} rows[] = {
#define READER(symbol, suffix, names) {suffix, &aorta_trace_reader_##symbol},
#define JSON(key, suffix, names, read) {suffix, NULL},
#define SQLITE(table, suffix, names, read) {suffix, &aorta_trace_reader_sqlite},
#include "trace/formats.def"
};
enum { ROWS = sizeof rows / sizeof rows[0] };

const char *const aorta_trace_formats =
#define READER(symbol, suffix, names) names " (" suffix "), "
#define JSON(key, suffix, names, read) "JSON with " key " (" suffix "; " names "), "
#define SQLITE(table, suffix, names, read) names " (" suffix "), "
#include "trace/formats.def"
    "each plain, packed with gzip, zstd, xz, bzip2 or lz4, or in a zip or tar";

/* ---- by content ---- */

struct head {
    char bytes[4096];
    size_t length;
};

static aorta_status read_head(const char *path, struct head *head) {
    return aorta_source_head(path, head->bytes, sizeof head->bytes, &head->length);
}

static bool begins_json(const char *bytes, size_t length) {
    size_t at = aorta_utf8_mark(bytes, length);
    while (at < length && aorta_json_space(bytes[at])) at++;
    return at < length && (bytes[at] == '{' || bytes[at] == '[');
}

static const struct aorta_trace_reader *reader_of(const char *bytes, size_t length) {
    const bool json = begins_json(bytes, length);
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].reader && rows[i].reader->json == json && rows[i].reader->recognises(bytes, length))
            return rows[i].reader;
    return NULL;
}

/* Known formats that are not read, recognized by bytes of the file or by its name. */
static const struct unread {
    const char *suffix; /* NULL: by the bytes */
    size_t at, length;
    const char *bytes, *is, *instead;
} unread[] = {
    {NULL, 0, 23, "version https://git-lfs", "a pointer of Git LFS, not the file", "fetch it: git lfs pull"},
    {".nsys-rep", 0, 0, "", "a report of Nsight Systems", "export it: nsys export --type sqlite FILE"},
    {".qdrep", 0, 0, "", "a report of Nsight Systems", "export it: nsys export --type sqlite FILE"},
    {".qdstrm", 0, 0, "", "a raw report of Nsight Systems", "import it: QdstrmImporter -i FILE; then nsys export"},
    {".ncu-rep", 0, 0, "", "a report of Nsight Compute (it has no timeline)",
     "record with `aorta trace run -- COMMAND`"},
    {NULL, 0, 4, "PK\3\4", "a zip archive", "unpack it"},
    {NULL, 257, 5, "ustar", "a tar archive", "unpack it, and name the folder"},
};

static const struct unread *find_unread(const char *path, const struct head *head) {
    const size_t length = strlen(path);
    AORTA_EACH (const struct unread, row, unread, sizeof unread / sizeof *unread) {
        const size_t suffix = row->suffix ? strlen(row->suffix) : 0;
        if (row->suffix
                ? length >= suffix && !strcasecmp(path + length - suffix, row->suffix)
                : head->length >= row->at + row->length && !memcmp(head->bytes + row->at, row->bytes, row->length))
            return row;
    }
    return NULL;
}

/* Files of other tools, recognized by two words at their beginning or in a process's name. */
static const struct foreign {
    const char *words[2], *is, *instead; /* instead NULL: the default advice */
} foreign[] = {
    {{"\"Ascend Hardware\"", ""}, "a trace of Ascend's profiler", "AORTA reads recordings of NVIDIA's and AMD's GPUs"},
    {{"\"/job:", " Compute\""},
     "a timeline of TensorFlow 1, which has operations but no kernels",
     "record the program with nsys, or TensorFlow 2 with tf.profiler.experimental"},
    {{"\"CPU functions\"", "\"ph\""}, "a trace of the old torch.autograd.profiler, which names no kernels", NULL},
    {{"\"CPU HIP API\"", ""}, "a recording of rocprof", "record the program with rocprofv3 --sys-trace"},
    {{"KernelName", "BeginNs"}, "a recording of rocprof", "record the program with rocprofv3 --sys-trace"},
    {{"\"Hip ", "\"sort_index\""}, "a trace of rocmProfileData", "record the program with rocprofv3 --sys-trace"},
    {{"NVPROF is profiling", ""}, "a log of nvprof", "record the program with nsys profile or `aorta trace run`"},
    {{"Dispatch_ID,", "Kernel_Name,"}, "a table of rocprof-compute", "record the program with rocprofv3 --sys-trace"},
    {{"\"pg_config\"", "\"entries\""}, "a dump of PyTorch's flight recorder, which has only collectives", NULL},
    {{"\"coll_perf\"", "\"header\""}, "a file of NCCL's inspector, which has only bandwidths", NULL},
    {{"\"GROUP_API\"", "\"ph\""}, "a trace of NCCL's profiler plugin, which has only collectives", NULL},
    {{"\"PROXY\"", "\"COLL\""}, "a trace of NCCL's profiler plugin, which has only collectives", NULL},
};

static const struct foreign *find_foreign(const char *bytes, size_t length) {
    if (!length) return NULL; /* there may be no bytes */
    if (length > sizeof((struct head *)NULL)->bytes) length = sizeof((struct head *)NULL)->bytes;
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        const char *const *words = foreign[i].words;
        if (memmem(bytes, length, words[0], strlen(words[0])) && memmem(bytes, length, words[1], strlen(words[1])))
            return &foreign[i];
    }
    return NULL;
}

aorta_status aorta_trace_check_foreign(const char *bytes, size_t length, const char *path) {
    const struct foreign *found = find_foreign(bytes, length);
    if (!found) return NULL;
    return AORTA_ERROR(AORTA_USAGE, "%s is %s, and is not read; %s", path, found->is,
                       found->instead ? found->instead
                                      : "record the program with torch.profiler, nsys, rocprofv3 or `aorta trace run "
                                        "-- COMMAND`");
}

static aorta_status open_other(const char *path, const struct aorta_trace_options *options,
                               struct aorta_trace_list *list) {
    struct head head;
    AORTA_TRY(read_head(path, &head));
    const struct aorta_trace_reader *reader = reader_of(head.bytes, head.length);
    if (reader) return reader->read(path, options, list);
    if (!head.length) return AORTA_ERROR(AORTA_USAGE, "%s is empty", path);
    const struct unread *row = find_unread(path, &head);
    if (row) return AORTA_ERROR(AORTA_USAGE, "%s is %s, which is not read; %s", path, row->is, row->instead);
    return AORTA_ERROR(AORTA_USAGE, "%s is no trace; AORTA reads %s", path, aorta_trace_formats);
}

aorta_status aorta_trace_open(const char *path, const struct aorta_trace_options *options,
                              struct aorta_trace_list *list) {
    struct aorta_json_stream *stream;
    AORTA_TRY(aorta_json_stream_open(path, &stream));
    char letter;
    size_t length;
    aorta_status status = aorta_json_stream_peek(stream, &letter);
    const char *bytes = aorta_json_stream_window(stream, &length);
    if (!status) status = aorta_trace_check_foreign(bytes, length, path);
    /* Lines of JSON have a reader of their own, which recognizes their beginning. */
    bool json = !status && (letter == '{' || letter == '[') && !reader_of(bytes, length);
    if (json) status = aorta_trace_read_json(stream, options, list);
    aorta_json_stream_close(stream);
    return json || status ? status : open_other(path, options, list);
}

/* ---- in a folder ---- */

static bool has_suffix(const char *path, const char *suffix) {
    const size_t length = aorta_packing_strip(path), part = strlen(suffix);
    return length >= part && strncasecmp(path + length - part, suffix, part) == 0;
}

bool aorta_trace_is_name(const char *path) {
    bool named = false;
    for (size_t i = 0; i < ROWS; i++) named |= has_suffix(path, rows[i].suffix);
    return named;
}

bool aorta_trace_needs_plain(const char *bytes, size_t length) {
    const struct aorta_trace_reader *reader = reader_of(bytes, length);
    return reader && reader->plain;
}

bool aorta_trace_may_be(const char *bytes, size_t length) {
    return begins_json(bytes, length) || aorta_packing_of(bytes, length) != AORTA_PACKING_NONE ||
           reader_of(bytes, length);
}

/* Archives yield to other files of a folder, as their files may be there unpacked. */
bool aorta_trace_yields(const char *path) {
    if (aorta_packing_is_archive_name(path)) return true;
    for (size_t i = 0; i < ROWS; i++)
        if (has_suffix(path, rows[i].suffix)) return rows[i].reader && rows[i].reader->yields;
    return false;
}

static aorta_status check_content(const char *path, bool *trace, bool *pointer) {
    struct aorta_json_stream *stream;
    struct head head;
    AORTA_TRY(read_head(path, &head));
    *pointer = find_unread("", &head) == &unread[0];
    if (*pointer) return NULL;
    if (find_foreign(head.bytes, head.length)) return NULL; /* next to traces it is no part of the recording */
    const struct aorta_trace_reader *reader = reader_of(head.bytes, head.length);
    *trace = aorta_execution_trace_is(head.bytes, head.length);
    if (*trace) return NULL;
    *trace = reader && (!reader->leads || reader->leads(path, head.bytes, head.length));
    if (reader) return NULL;
    AORTA_TRY(aorta_json_stream_open(path, &stream));
    aorta_status status = is_json_trace(stream, trace);
    aorta_json_stream_close(stream);
    return status;
}

/* The content decides, as other files have these suffixes, too. A broken archive counts; its reader reports the
 * error. */
static aorta_status check_archive(const char *path, bool *trace) {
    struct head head;
    AORTA_TRY(read_head(path, &head));
    *trace = aorta_packing_of(head.bytes, head.length) == AORTA_PACKING_ARCHIVE;
    aorta_status status = *trace ? aorta_unpack_lists(path, trace) : NULL;
    if (aorta_status_code(status) != AORTA_FORMAT) return status;
    aorta_status_free(status);
    return NULL;
}

aorta_status aorta_trace_recognise(const char *path, bool *trace, bool *pointer) {
    *trace = *pointer = false;
    if (aorta_packing_is_archive_name(path)) return check_archive(path, trace);
    return aorta_trace_is_name(path) ? check_content(path, trace, pointer) : NULL;
}

aorta_status aorta_trace_is_companion(const char *path, bool *companion) {
    struct head head;
    *companion = false;
    if (!has_suffix(path, ".json")) return NULL;
    AORTA_TRY(read_head(path, &head));
    *companion = aorta_execution_trace_is(head.bytes, head.length);
    return NULL;
}

/* ---- several files ---- */

struct many {
    const char *const *paths;
    size_t count;
    const struct aorta_trace_options *options;
    struct aorta_trace_list *lists; /* one for each path */
};

/* `array` is the address of the pointer to it. */
static void drop(void *array, size_t *count) {
    void *items, *const none = NULL;
    memcpy(&items, array, sizeof items);
    free(items);
    memcpy(array, &none, sizeof none);
    *count = 0;
}

/* Aligning clocks needs only the work. */
static void keep_work_only(struct aorta_trace *trace) {
    drop(&trace->calls, &trace->call_count);
    drop(&trace->waits, &trace->wait_count);
    drop(&trace->callers, &trace->caller_count);
    drop(&trace->annotations, &trace->annotation_count);
    drop(&trace->shapes, &trace->shape_count);
    drop(&trace->operations, &trace->operation_count);
    drop(&trace->inputs, &trace->input_count);
    drop(&trace->frames, &trace->frame_count);
}

static aorta_status open_piece(void *user, size_t file) {
    const struct many *many = user;
    struct aorta_trace_list *list = &many->lists[file];
    AORTA_TRY(aorta_trace_open(many->paths[file], many->options, list));
    for (size_t i = 0; many->options && many->options->to_align && i < list->count; i++)
        if (list->items[i]->format == AORTA_TRACE_KINETO) keep_work_only(list->items[i]);
    return NULL;
}

/* Whether the list has the trace already: each file of a set (rocprofv3's CSV) yields the whole set. */
static bool has_set(const struct aorta_trace_list *list, const struct aorta_trace *trace) {
    if (trace->format != AORTA_TRACE_ROCPROF_CSV) return false;
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i]->format == trace->format && !strcmp(list->items[i]->path, trace->path) &&
            list->items[i]->rank == trace->rank)
            return true;
    return false;
}

/* `status`: a failure to read a file, after which the traces of all files are dropped. */
static aorta_status gather(struct many *many, aorta_status status, struct aorta_trace_list *list) {
    for (size_t i = 0; i < many->count; i++) {
        size_t known = list->count;
        for (size_t k = 0; k < many->lists[i].count; k++) {
            struct aorta_trace *trace = many->lists[i].items[k];
            const struct aorta_trace_list before = {.items = list->items, .count = known, .capacity = known};
            if (status || has_set(&before, trace))
                aorta_trace_free(trace);
            else
                status = aorta_trace_list_add(list, trace);
        }
        free(many->lists[i].items);
    }
    return status;
}

aorta_status aorta_trace_open_many(const char *const *paths, size_t count, const struct aorta_trace_options *options,
                                   struct aorta_trace_list *list) {
    struct many many = {
        .paths = paths, .count = count, .options = options, .lists = calloc(count + 1, sizeof *many.lists)};
    if (!many.lists) return AORTA_ERROR(AORTA_MEMORY, "no memory to read %zu traces", count);
    aorta_status status = gather(&many, aorta_parallel(count, open_piece, &many), list);
    free(many.lists);
    return status;
}
