#include "hwq/stamps.h"
#include "base/clock.h"
#include "base/files.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 4096, MOST_CHUNKS = 256 }; /* a million operations in one iteration */

struct chunk {
    struct aorta_hwq_stamp *device;
    struct aorta_span queued[CHUNK]; /* without start and end */
};

struct aorta_hwq_stamps {
    struct aorta_hwq *hwq;
    struct aorta_owned own;
    struct chunk *chunks[MOST_CHUNKS];
    size_t chunk_count, used;
    bool replayed;
    struct aorta_hwq_stamp *blank, *read; /* pinned, [CHUNK] */
};

/* ---- spans ---- */

aorta_status aorta_hwq_spans_add(struct aorta_hwq_spans *spans, const struct aorta_span *span) {
    AORTA_TRY(aorta_array_reserve(&spans->items, &spans->capacity, spans->count + 1, sizeof *spans->items, "stamps"));
    spans->items[spans->count++] = *span;
    return NULL;
}

void aorta_hwq_spans_free(struct aorta_hwq_spans *spans) {
    free(spans->items);
    *spans = (struct aorta_hwq_spans){0};
}

/* ---- memory ---- */

aorta_status aorta_hwq_stamps_create(struct aorta_hwq *hwq, struct aorta_hwq_stamps **stamps) {
    struct aorta_hwq_stamps *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "no host memory for stamps");
    const size_t bytes = CHUNK * sizeof *made->blank;
    made->hwq = hwq;
    made->own.device = hwq->device;
    aorta_status status = aorta_own_pinned(&made->own, bytes, "blank stamps", &made->blank);
    if (!status) status = aorta_own_pinned(&made->own, bytes, "stamps on the host", &made->read);
    if (status) {
        aorta_hwq_stamps_destroy(made);
        return status;
    }
    for (int i = 0; i < CHUNK; i++) made->blank[i] = (struct aorta_hwq_stamp){.start = INT64_MAX};
    *stamps = made;
    return NULL;
}

void aorta_hwq_stamps_destroy(struct aorta_hwq_stamps *stamps) {
    if (!stamps) return;
    for (size_t i = 0; i < stamps->chunk_count; i++) free(stamps->chunks[i]);
    aorta_owned_free(&stamps->own);
    free(stamps);
}

static aorta_status add_chunk(struct aorta_hwq_stamps *stamps) {
    struct aorta_stream *stream = stamps->hwq->streams[0];
    if (stamps->chunk_count == MOST_CHUNKS)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "more than %d operations in one iteration cannot be stamped",
                           CHUNK * MOST_CHUNKS);
    for (int s = 0; s < stamps->hwq->stream_count; s++)
        if (aorta_stream_capturing(stamps->hwq->streams[s]))
            return AORTA_ERROR(AORTA_INTERNAL, "a captured iteration has more operations than the one before it");
    struct chunk *chunk = calloc(1, sizeof *chunk);
    if (!chunk) return AORTA_ERROR(AORTA_MEMORY, "no host memory for stamps");
    stamps->chunks[stamps->chunk_count++] = chunk;
    AORTA_TRY(aorta_own_memory(&stamps->own, CHUNK * sizeof *chunk->device, "stamps", &chunk->device));
    AORTA_TRY(aorta_copy(stream, chunk->device, stamps->blank, CHUNK * sizeof *stamps->blank));
    return aorta_stream_synchronize(stream); /* other streams will write there */
}

aorta_status aorta_hwq_stamps_next(struct aorta_hwq_stamps *stamps, struct aorta_span span,
                                   struct aorta_hwq_stamp **stamp) {
    if (stamps->used == stamps->chunk_count * CHUNK) AORTA_TRY(add_chunk(stamps));
    struct chunk *chunk = stamps->chunks[stamps->used / CHUNK];
    span.launch_ns = aorta_clock_ns();
    chunk->queued[stamps->used % CHUNK] = span;
    *stamp = &chunk->device[stamps->used % CHUNK];
    stamps->used++;
    return NULL;
}

/* ---- around an iteration ---- */

aorta_status aorta_hwq_stamps_clear(struct aorta_hwq_stamps *stamps, bool again) {
    for (size_t i = 0; i < stamps->chunk_count; i++)
        AORTA_TRY(aorta_copy(stamps->hwq->streams[0], stamps->chunks[i]->device, stamps->blank,
                             CHUNK * sizeof *stamps->blank));
    AORTA_TRY(aorta_stream_synchronize(stamps->hwq->streams[0]));
    if (!again) stamps->used = 0;
    stamps->replayed = again;
    return NULL;
}

/* From ticks to ns since the first start. Only differences of ticks fit a double. */
static void convert_times(const struct aorta_hwq_stamps *stamps, struct aorta_hwq_spans *spans) {
    struct aorta_device *device = stamps->hwq->device;
    const bool gpu = aorta_device_is_gpu(device);
    const double ns_per_tick = gpu ? aorta_gpu_ns_per_tick(device) : 1.0;
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < spans->count; i++)
        if (spans->items[i].start_ns < first) first = spans->items[i].start_ns;
    if (spans->count) spans->origin = gpu ? aorta_gpu_timer_time(device, first) : first;
    for (size_t i = 0; i < spans->count; i++) {
        struct aorta_span *span = &spans->items[i];
        span->start_ns = (int64_t)((double)(span->start_ns - first) * ns_per_tick + 0.5);
        span->end_ns = (int64_t)((double)(span->end_ns - first) * ns_per_tick + 0.5);
        span->launch_ns = stamps->replayed ? INT64_MIN : span->launch_ns - spans->origin;
    }
}

static aorta_status read_chunk(struct aorta_hwq_stamps *stamps, const struct chunk *chunk, size_t count,
                               struct aorta_hwq_spans *spans) {
    AORTA_TRY(aorta_hwq_transfer(stamps->hwq, stamps->read, chunk->device, count * sizeof *stamps->read));
    for (size_t i = 0; i < count; i++) {
        const struct aorta_hwq_stamp *stamp = &stamps->read[i];
        if (stamp->start == INT64_MAX || !stamp->end) {
            spans->unstamped++;
            continue;
        }
        struct aorta_span span = chunk->queued[i];
        span.start_ns = stamp->start;
        span.end_ns = stamp->end;
        AORTA_TRY(aorta_hwq_spans_add(spans, &span));
    }
    return NULL;
}

aorta_status aorta_hwq_stamps_collect(struct aorta_hwq_stamps *stamps, struct aorta_hwq_spans *spans) {
    spans->count = spans->unstamped = 0;
    for (size_t i = 0; i * CHUNK < stamps->used; i++) {
        const size_t left = stamps->used - i * CHUNK;
        AORTA_TRY(read_chunk(stamps, stamps->chunks[i], left < CHUNK ? left : CHUNK, spans));
    }
    convert_times(stamps, spans);
    return NULL;
}

/* ---- stamps_file ---- */

enum { SCHEMA_VERSION = 1, FIELDS = 6 };

/* AORTA_HWQ_MOST_NAMES: the table is full. */
static size_t index_of(struct aorta_hwq_stamps_file *file, const char *name) {
    for (size_t i = 0; i < file->name_count; i++)
        if (!strcmp(file->names[i], name)) return i;
    if (file->name_count == AORTA_HWQ_MOST_NAMES) return AORTA_HWQ_MOST_NAMES;
    file->names[file->name_count] = name;
    return file->name_count++;
}

aorta_status aorta_hwq_stamps_file_add(struct aorta_hwq_stamps_file *file, const char *pass,
                                       const struct aorta_hwq_spans *spans) {
    struct aorta_json json;
    if (spans->unstamped)
        return AORTA_ERROR(AORTA_DEVICE, "--stamps: %zu kernels left no stamp: they did not run", spans->unstamped);
    aorta_text_puts(&file->iterations, file->iterations.length ? "," : "[");
    aorta_json_begin(&json, &file->iterations, 0);
    aorta_json_object(&json);
    aorta_json_key_string(&json, "pass", pass);
    aorta_json_key_int(&json, "gate", spans->gate);
    aorta_json_key_array(&json, "stamps");
    for (size_t i = 0; i < spans->count; i++) {
        const struct aorta_span *span = &spans->items[i];
        const size_t name = index_of(file, span->name);
        if (name == AORTA_HWQ_MOST_NAMES)
            return AORTA_ERROR(AORTA_UNSUPPORTED, "--stamps: more than %d names", AORTA_HWQ_MOST_NAMES);
        const int64_t fields[FIELDS] = {span->stream,  span->kind,     span->marked,
                                        (int64_t)name, span->start_ns, span->end_ns};
        aorta_json_array(&json);
        for (int k = 0; k < FIELDS; k++) aorta_json_int(&json, fields[k]);
        aorta_json_array_end(&json);
    }
    aorta_json_array_end(&json);
    aorta_json_object_end(&json);
    return aorta_text_check(&file->iterations);
}

void aorta_hwq_stamps_file_free(struct aorta_hwq_stamps_file *file) {
    aorta_text_free(&file->iterations);
}

aorta_status aorta_hwq_stamps_file_write(const struct aorta_hwq_stamps_file *file, const char *path) {
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 0);
    aorta_json_object(&json);
    aorta_json_key_int(&json, "schema_version", SCHEMA_VERSION);
    aorta_json_key_string(&json, "kind", "hwq_stamps");
    if (file->tick_ns) aorta_json_key_int(&json, "tick_ns", file->tick_ns);
    aorta_json_key(&json, "iterations");
    aorta_json_text(&json, file->iterations.length ? file->iterations.data : "[");
    aorta_text_puts(&text, "]");
    aorta_json_key_array(&json, "names");
    for (size_t i = 0; i < file->name_count; i++) aorta_json_string(&json, file->names[i]);
    aorta_json_array_end(&json);
    aorta_json_object_end(&json);
    aorta_text_puts(&text, "\n");
    aorta_status status = aorta_file_put(path, &text);
    aorta_text_free(&text);
    return status;
}
