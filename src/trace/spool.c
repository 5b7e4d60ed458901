#include "trace/spool.h"
#include "base/files.h"
#include "trace/builder_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 1 << 20, OPEN_MARKS = 4096 };
static const int64_t OUT_OF_ORDER_NS = 2500000000;
_Static_assert((int)PIECE >= (int)AORTA_SPOOL_RECORD_MAX, "a record fits into a piece");

struct spool_reader {
    FILE *file;
    const char *path;
    const struct aorta_trace_options *options; /* may be NULL */
    struct aorta_trace_builder *builder;
    struct aorta_spool_facts *facts;
    uint32_t *texts; /* in the trace, by id - 1 */
    size_t text_count, text_capacity;
    struct aorta_spool_mark marks[OPEN_MARKS]; /* the beginnings of open ranges */
    size_t mark_count;
    int64_t offset; /* of the current record */
    size_t at, length;
    size_t bytes; /* of the record */
    _Alignas(8) uint8_t piece[PIECE];
};

/* ---- the file ---- */

static aorta_status fill(struct spool_reader *reader) {
    memmove(reader->piece, reader->piece + reader->at, reader->length - reader->at);
    reader->length -= reader->at;
    reader->at = 0;
    reader->length += fread(reader->piece + reader->length, 1, sizeof reader->piece - reader->length, reader->file);
    if (ferror(reader->file)) return AORTA_ERROR(AORTA_IO, "%s: %s", reader->path, strerror(errno));
    return NULL;
}

/* *place has `bytes` bytes at the reader's place; NULL if the file ends before. */
static aorta_status look(struct spool_reader *reader, size_t bytes, const void **place) {
    if (reader->length - reader->at < bytes) AORTA_TRY(fill(reader));
    *place = reader->length - reader->at < bytes ? NULL : reader->piece + reader->at;
    return NULL;
}

static void pass(struct spool_reader *reader, size_t bytes) {
    reader->at += bytes;
    reader->offset += (int64_t)bytes;
}

static aorta_status damaged(const struct spool_reader *reader, const char *what) {
    return AORTA_ERROR(AORTA_FORMAT, "%s: at byte %lld: %s; --recover keeps what comes before", reader->path,
                       (long long)reader->offset, what);
}

static aorta_status read_head(struct spool_reader *reader) {
    const void *place;
    struct aorta_spool_head *head = &reader->facts->head;
    AORTA_TRY(look(reader, sizeof *head, &place));
    if (!place)
        return AORTA_ERROR(AORTA_FORMAT, "%s: ends at byte %zu, within the head of a spool (%zu bytes)", reader->path,
                           reader->length, sizeof *head);
    memcpy(head, place, sizeof *head);
    if (memcmp(head->magic, AORTA_SPOOL_MAGIC, sizeof head->magic) != 0)
        return AORTA_ERROR(AORTA_FORMAT, "%s: is no spool of `aorta trace run`", reader->path);
    if (head->byte_order != AORTA_SPOOL_BYTE_ORDER)
        return AORTA_ERROR(AORTA_FORMAT, "%s: was written on a machine of another byte order; read it there",
                           reader->path);
    if (head->version != AORTA_SPOOL_VERSION)
        return AORTA_ERROR(AORTA_FORMAT, "%s: is a spool of version %u; this program reads version %d", reader->path,
                           head->version, AORTA_SPOOL_VERSION);
    if (head->bytes < sizeof *head || head->bytes > AORTA_SPOOL_RECORD_MAX || head->bytes % AORTA_SPOOL_STRIDE)
        return AORTA_ERROR(AORTA_FORMAT, "%s: at byte 12: a head of %u bytes", reader->path, head->bytes);
    AORTA_TRY(look(reader, head->bytes, &place));
    if (!place) return AORTA_ERROR(AORTA_FORMAT, "%s: ends within the head of a spool", reader->path);
    pass(reader, head->bytes);
    return NULL;
}

/* ---- records ---- */

static aorta_status no_memory(const struct spool_reader *reader) {
    return AORTA_ERROR(AORTA_MEMORY, "%s: no memory for its texts", reader->path);
}

/* NULL if memory is exhausted. */
static const char *fact_text(struct spool_reader *reader, const uint8_t *bytes, size_t length) {
    return aorta_arena_printf(&reader->facts->memory, "%.*s", (int)length, (const char *)bytes);
}

static aorta_status read_process(struct spool_reader *reader, const void *record) {
    struct aorta_spool_facts *facts = reader->facts;
    struct aorta_spool_process process;
    memcpy(&process, record, sizeof process);
    size_t space = reader->bytes - sizeof process;
    if (process.command_length > space || process.library_length > space - process.command_length ||
        process.host_length > space - process.command_length - process.library_length)
        return damaged(reader, "texts that are longer than their record");
    if (facts->command) return NULL; /* the first one counts */
    const uint8_t *texts = (const uint8_t *)record + sizeof process;
    facts->process = process;
    facts->command = fact_text(reader, texts, process.command_length);
    facts->library = fact_text(reader, texts + process.command_length, process.library_length);
    facts->host = fact_text(reader, texts + process.command_length + process.library_length, process.host_length);
    struct aorta_trace *head = aorta_trace_builder_head(reader->builder);
    head->rank = process.rank >= 0 ? process.rank : -1;
    head->world = process.world >= 0 ? process.world : -1;
    head->process = process.pid;
    bool known = process.parts & AORTA_SPOOL_PARTS_KNOWN;
    head->no_launches = known && !(process.parts & AORTA_SPOOL_LAUNCHES);
    head->no_waits = known && !(process.parts & AORTA_SPOOL_WAITS);
    return facts->memory.failed ? no_memory(reader) : NULL;
}

static aorta_status keep_text(struct spool_reader *reader, const char *text) {
    char *readable = aorta_demangle(text);
    const char *name = readable ? readable : text;
    const uint32_t number = aorta_trace_builder_text(reader->builder, name, strlen(name));
    free(readable);
    const bool stored =
        aorta_array_append(&reader->texts, &reader->text_capacity, &reader->text_count, &number, sizeof number);
    return stored ? NULL : no_memory(reader);
}

static aorta_status read_text(struct spool_reader *reader, const void *record) {
    const struct aorta_spool_text *text = record;
    if (text->length > reader->bytes - sizeof *text) return damaged(reader, "a text that is longer than its record");
    if (text->id != reader->text_count + 1) return damaged(reader, "a text out of order");
    char *copy = strndup((const char *)record + sizeof *text, text->length);
    aorta_status status = copy ? keep_text(reader, copy) : no_memory(reader);
    free(copy);
    return status;
}

static uint32_t text_number(const struct spool_reader *reader, uint32_t id) {
    return id && id <= reader->text_count ? reader->texts[id - 1] : AORTA_TRACE_NONE;
}

static aorta_status read_device(struct spool_reader *reader, const void *record) {
    const struct aorta_spool_device *device = record;
    const struct aorta_trace_device row = {
        .id = device->id,
        .name = text_number(reader, device->name),
        .memory_bytes = device->memory_bytes,
        .multiprocessors = device->multiprocessors,
        .major = device->major,
        .minor = device->minor,
    };
    aorta_trace_builder_device(reader->builder, &row);
    return NULL;
}

/* Whether the times of work are valid. Counts the work. */
static bool take_work(struct spool_reader *reader, int64_t start_ns, int64_t end_ns, uint32_t device) {
    bool sound = start_ns >= 0 && end_ns >= start_ns && aorta_trace_times_fit(start_ns, end_ns) && device <= INT32_MAX;
    aorta_trace_builder_head(reader->builder)->events++;
    if (!sound) {
        aorta_trace_builder_warn(reader->builder, AORTA_REASON_BAD_EVENT, reader->offset);
        return false;
    }
    reader->facts->work++;
    if (end_ns > reader->facts->end_ns) reader->facts->end_ns = end_ns;
    return true;
}

static const char *const channel_types[] = {NULL, "compute", "copy", "decompression"}; /* CUpti_ChannelType */

static uint32_t queue_of(struct spool_reader *reader, const struct aorta_spool_kernel *kernel) {
    unsigned type = kernel->record.detail;
    if (!type) return AORTA_TRACE_NONE;
    const char *name = type < sizeof channel_types / sizeof *channel_types ? channel_types[type] : "other";
    uint32_t text = aorta_trace_builder_text(reader->builder, name, strlen(name));
    return aorta_trace_builder_queue(reader->builder, kernel->device, kernel->channel, text);
}

static aorta_status read_kernel(struct spool_reader *reader, const void *record) {
    const struct aorta_spool_kernel *kernel = record;
    if (!take_work(reader, kernel->start_ns, kernel->end_ns, kernel->device)) return NULL;
    bool named = kernel->name && kernel->name <= reader->text_count;
    if (!named) aorta_trace_builder_warn(reader->builder, AORTA_REASON_UNKNOWN_NAME, reader->offset);
    const struct aorta_trace_work work = {
        .start_ns = kernel->start_ns,
        .end_ns = kernel->end_ns,
        .bytes = -1,
        .correlation = kernel->correlation,
        .name = named ? text_number(reader, kernel->name) : aorta_trace_builder_text(reader->builder, "(unknown)", 9),
        .stream = aorta_trace_builder_stream(reader->builder, kernel->device, kernel->context, kernel->stream),
        .queue = queue_of(reader, kernel),
        .device = (int32_t)kernel->device,
        .kind = AORTA_TRACE_KERNEL,
        .graph = kernel->graph != 0,
    };
    struct aorta_trace_collective collective = aorta_trace_unknown_collective;
    collective.blocks = kernel->grid[0]; /* NCCL runs one block for each channel */
    bool is_collective = aorta_trace_kernel_kind(reader->builder, work.name).class == AORTA_KERNEL_COLLECTIVE;
    aorta_trace_builder_work(reader->builder, &work, -1, is_collective ? &collective : NULL, reader->offset);
    const int64_t blocks[3] = {kernel->grid[0], kernel->grid[1], kernel->grid[2]};
    const int64_t threads[3] = {kernel->block[0], kernel->block[1], kernel->block[2]};
    aorta_trace_builder_geometry(reader->builder, blocks, threads);
    return NULL;
}

static aorta_status read_transfer(struct spool_reader *reader, const void *record) {
    const struct aorta_spool_transfer *transfer = record;
    if (!take_work(reader, transfer->start_ns, transfer->end_ns, transfer->device)) return NULL;
    bool copy = transfer->record.type == AORTA_SPOOL_COPY;
    const char *name = copy ? aorta_copy_name(transfer->record.detail) : "Memset";
    const struct aorta_trace_work work = {
        .start_ns = transfer->start_ns,
        .end_ns = transfer->end_ns,
        .bytes = transfer->bytes >= 0 ? transfer->bytes : -1,
        .correlation = transfer->correlation,
        .name = aorta_trace_builder_text(reader->builder, name, strlen(name)),
        .stream = aorta_trace_builder_stream(reader->builder, transfer->device, transfer->context, transfer->stream),
        .queue = AORTA_TRACE_NONE,
        .device = (int32_t)transfer->device,
        .kind = copy ? AORTA_TRACE_COPY : AORTA_TRACE_FILL,
        .graph = transfer->graph != 0,
    };
    aorta_trace_builder_work(reader->builder, &work, -1, NULL, reader->offset);
    return NULL;
}

static aorta_status read_call(struct spool_reader *reader, const void *record) {
    const struct aorta_spool_call *call = record;
    struct aorta_trace *head = aorta_trace_builder_head(reader->builder);
    head->events++;
    if (call->start_ns < 0 || call->end_ns < call->start_ns || !aorta_trace_times_fit(call->start_ns, call->end_ns) ||
        !call->name || call->name > reader->text_count) {
        aorta_trace_builder_warn(reader->builder, AORTA_REASON_ODD_VALUE, reader->offset);
        return NULL;
    }
    const struct aorta_trace_call row = {
        .start_ns = call->start_ns,
        .end_ns = call->end_ns,
        .correlation = call->correlation,
        .name = text_number(reader, call->name),
        .thread = aorta_trace_builder_thread(reader->builder, head->process, call->thread),
    };
    aorta_trace_builder_any_call(reader->builder, &row);
    return NULL;
}

/* Ranges mostly nest, so the one that ends is near the end. */
static void end_range(struct spool_reader *reader, const struct aorta_spool_mark *mark) {
    size_t i = reader->mark_count;
    while (i && reader->marks[i - 1].id != mark->id) i--;
    if (!i) return; /* it began before the recording */
    const struct aorta_spool_mark begun = reader->marks[i - 1];
    reader->marks[i - 1] = reader->marks[--reader->mark_count];
    uint32_t name = text_number(reader, begun.name);
    if (name == AORTA_TRACE_NONE || begun.time_ns < 0 || mark->time_ns < begun.time_ns ||
        !aorta_trace_times_fit(begun.time_ns, mark->time_ns)) {
        aorta_trace_builder_warn(reader->builder, AORTA_REASON_ODD_VALUE, reader->offset);
        return;
    }
    int64_t process = aorta_trace_builder_head(reader->builder)->process;
    aorta_trace_builder_marked(reader->builder, aorta_trace_text(aorta_trace_builder_head(reader->builder), name),
                               (struct aorta_trace_annotation){
                                   .start_ns = begun.time_ns,
                                   .end_ns = mark->time_ns,
                                   .thread = aorta_trace_builder_thread(reader->builder, process, begun.thread),
                               });
}

static aorta_status read_mark(struct spool_reader *reader, const void *record) {
    const struct aorta_spool_mark *mark = record;
    aorta_trace_builder_head(reader->builder)->events++;
    if (mark->record.detail != 1)
        end_range(reader, mark);
    else if (reader->mark_count < OPEN_MARKS)
        reader->marks[reader->mark_count++] = *mark;
    else
        aorta_trace_builder_warn(reader->builder, AORTA_REASON_LOST, reader->offset);
    return NULL;
}

static aorta_status read_note(struct spool_reader *reader, const void *record) {
    const struct aorta_spool_note *note = record;
    if (note->length > reader->bytes - sizeof *note) return damaged(reader, "a note that is longer than its record");
    reader->facts->note = fact_text(reader, (const uint8_t *)record + sizeof *note, note->length);
    return reader->facts->note ? NULL : no_memory(reader);
}

static const struct {
    size_t bytes; /* at least */
    aorta_status (*read)(struct spool_reader *reader, const void *record);
} types[] = {
    [AORTA_SPOOL_PROCESS] = {sizeof(struct aorta_spool_process), read_process},
    [AORTA_SPOOL_TEXT] = {sizeof(struct aorta_spool_text), read_text},
    [AORTA_SPOOL_DEVICE] = {sizeof(struct aorta_spool_device), read_device},
    [AORTA_SPOOL_KERNEL] = {sizeof(struct aorta_spool_kernel), read_kernel},
    [AORTA_SPOOL_COPY] = {sizeof(struct aorta_spool_transfer), read_transfer},
    [AORTA_SPOOL_FILL] = {sizeof(struct aorta_spool_transfer), read_transfer},
    [AORTA_SPOOL_CALL] = {sizeof(struct aorta_spool_call), read_call},
    [AORTA_SPOOL_MARK] = {sizeof(struct aorta_spool_mark), read_mark},
    [AORTA_SPOOL_NOTE] = {sizeof(struct aorta_spool_note), read_note},
};

/* Whether the record begins after options->until_ns. *over: all later records do, too, as records are at most seconds
 * out of order. */
static bool is_past(const struct spool_reader *reader, const struct aorta_spool_record *head, const void *place,
                    bool *over) {
    const int64_t until_ns = reader->options ? reader->options->until_ns : 0;
    struct {
        struct aorta_spool_record record;
        int64_t start_ns;
    } timed;
    const bool has_times = head->type >= AORTA_SPOOL_KERNEL && head->type <= AORTA_SPOOL_CALL;
    if (!until_ns || !has_times || head->bytes < sizeof timed) return false;
    memcpy(&timed, place, sizeof timed);
    *over = timed.start_ns > until_ns && timed.start_ns - until_ns > OUT_OF_ORDER_NS;
    return timed.start_ns >= until_ns;
}

/* Reads the record at the reader's place. *more is false at the end of the file. */
static aorta_status read_record(struct spool_reader *reader, bool *more) {
    const void *place;
    struct aorta_spool_record head;
    *more = false;
    AORTA_TRY(look(reader, sizeof head, &place));
    if (!place) return NULL;
    memcpy(&head, place, sizeof head);
    if (head.bytes < sizeof head || head.bytes > AORTA_SPOOL_RECORD_MAX || head.bytes % AORTA_SPOOL_STRIDE)
        return damaged(reader, "a record of an impossible size");
    AORTA_TRY(look(reader, head.bytes, &place));
    if (!place) return NULL;
    bool known = head.type < sizeof types / sizeof *types && types[head.type].read;
    if (known && head.bytes < types[head.type].bytes) return damaged(reader, "a record that is too short for its type");
    bool over = false;
    const bool past = is_past(reader, &head, place, &over);
    if (over) {
        reader->at = reader->length; /* nothing was cut */
        return NULL;
    }
    reader->bytes = head.bytes;
    if (known && !past) AORTA_TRY(types[head.type].read(reader, place));
    pass(reader, head.bytes);
    *more = true;
    return NULL;
}

/* ---- the whole ---- */

static aorta_status read_records(struct spool_reader *reader) {
    aorta_status status = NULL;
    for (bool more = true; more && !status;) status = read_record(reader, &more);
    if (aorta_trace_recovers(reader->options, &status)) {
        aorta_trace_builder_warn(reader->builder, AORTA_REASON_MALFORMED, reader->offset);
        return NULL;
    }
    if (status) return status;
    reader->facts->cut_bytes = (int64_t)(reader->length - reader->at);
    if (reader->facts->cut_bytes) aorta_trace_builder_warn(reader->builder, AORTA_REASON_TRUNCATED, reader->offset);
    return NULL;
}

static void set_head(struct spool_reader *reader) {
    struct aorta_spool_facts *facts = reader->facts;
    struct aorta_trace *head = aorta_trace_builder_head(reader->builder);
    head->base_ns = 0;
    head->bytes_read = reader->offset + facts->cut_bytes;
    if (facts->head.lost) {
        head->warnings[AORTA_REASON_LOST].count += (int64_t)(facts->head.lost & INT64_MAX);
        head->warnings[AORTA_REASON_LOST].offset = -1;
    }
    if (!facts->command) facts->command = facts->library = facts->host = "";
    if (!facts->note) facts->note = "";
    if (facts->note[0]) head->note = aorta_trace_builder_text(reader->builder, facts->note, strlen(facts->note));
}

static aorta_status read_all(struct spool_reader *reader, struct aorta_trace **trace) {
    AORTA_TRY(read_head(reader));
    AORTA_TRY(aorta_trace_builder_create(AORTA_TRACE_SPOOL, reader->path, reader->options, &reader->builder));
    aorta_status status = read_records(reader);
    if (status) {
        aorta_trace_builder_destroy(reader->builder);
        return status;
    }
    set_head(reader);
    return aorta_trace_builder_finish(reader->builder, trace);
}

aorta_status aorta_spool_read(FILE *file, const char *path, const struct aorta_trace_options *options,
                              struct aorta_spool_facts *facts, struct aorta_trace **trace) {
    struct aorta_spool_facts own = {0};
    *trace = NULL;
    struct spool_reader *reader = calloc(1, sizeof *reader);
    if (!reader) return AORTA_ERROR(AORTA_MEMORY, "%s: no memory to read it", path);
    reader->file = file;
    reader->path = path;
    reader->options = options;
    reader->facts = facts ? facts : &own;
    aorta_status status = read_all(reader, trace);
    aorta_spool_facts_free(&own);
    free(reader->texts);
    free(reader);
    return status;
}

void aorta_spool_facts_free(struct aorta_spool_facts *facts) {
    aorta_arena_free(&facts->memory);
    *facts = (struct aorta_spool_facts){0};
}

FILE *aorta_spool_stream(const char *path) {
    const int file = aorta_file_open_regular(path);
    FILE *stream = file < 0 ? NULL : fdopen(file, "rb");
    if (file >= 0 && !stream) close(file);
    return stream;
}

/* ---- as one of the readers ---- */

static bool recognises(const char *head, size_t length) {
    return length >= 8 && memcmp(head, AORTA_SPOOL_MAGIC, 8) == 0;
}

static aorta_status read_file(const char *path, const struct aorta_trace_options *options,
                              struct aorta_trace_list *list) {
    FILE *file = aorta_spool_stream(path);
    if (!file) return AORTA_ERROR(AORTA_IO, "%s: %s", path, strerror(errno));
    struct aorta_trace *trace;
    aorta_status status = aorta_spool_read(file, path, options, NULL, &trace);
    fclose(file);
    return status ? status : aorta_trace_list_add(list, trace);
}

const struct aorta_trace_reader aorta_trace_reader_spool = {recognises, read_file, NULL, true, false, false};
