/* JSON traces: whatever a file holds and however it arrives, the reader returns; what it accepts is in order and its
 * links lead somewhere; whole and in pieces it is the same; with recovery nothing is refused that was taken without.
 *
 * The first byte is the size of the pieces. */
#include "fuzz.h"
#include "json_memory.h"
#include "trace/open.h"
#include "trace/reader.h"

static bool leads(uint32_t row, size_t count) {
    return row == AORTA_TRACE_NONE || row < count;
}

static void check_work(const struct aorta_trace *t) {
    for (size_t i = 0; i < t->work_count; i++) {
        const struct aorta_trace_work *w = &t->work[i];
        fuzz_require(w->end_ns >= w->start_ns && (!i || t->work[i - 1].start_ns <= w->start_ns));
        fuzz_require(w->name < aorta_trace_text_count(t) && w->stream < t->stream_count);
        fuzz_require(leads(w->queue, t->queue_count) && leads(w->call, t->call_count));
        fuzz_require(leads(w->collective, t->collective_count) && leads(w->shape, t->shape_count));
        if (w->call != AORTA_TRACE_NONE) fuzz_require(t->calls[w->call].correlation == w->correlation);
    }
    for (size_t i = 0; i < t->collective_count; i++) {
        const struct aorta_trace_collective *c = &t->collectives[i];
        fuzz_require(leads(c->group, t->group_count) && leads(c->annotation, t->annotation_count));
        fuzz_require(leads(c->name, aorta_trace_text_count(t)) && leads(c->dtype, aorta_trace_text_count(t)));
        fuzz_require(c->kind < AORTA_COLLECTIVE_COUNT && c->bytes >= -1);
    }
}

static void check_host(const struct aorta_trace *t) {
    for (size_t i = 0; i < t->call_count; i++) {
        fuzz_require(t->calls[i].kind < AORTA_CALL_KIND_COUNT && t->calls[i].thread < t->thread_count);
        fuzz_require(!i || t->calls[i - 1].start_ns <= t->calls[i].start_ns);
    }
    for (size_t i = 0; i < t->annotation_count; i++)
        fuzz_require(t->annotations[i].thread < t->thread_count && t->annotations[i].name < aorta_trace_text_count(t));
    for (size_t i = 0; i < t->thread_count; i++) fuzz_require(leads(t->threads[i].name, aorta_trace_text_count(t)));
}

static aorta_status read_all(const char *text, size_t size, size_t piece, bool recover, struct aorta_trace_list *list) {
    const struct aorta_trace_options options = {.recover = recover};
    struct aorta_json_stream *stream;
    AORTA_TRY(json_memory(text, size, piece, "fuzz", &stream));
    aorta_status status = aorta_trace_read_json(stream, &options, list);
    aorta_json_stream_close(stream);
    return status;
}

/* All of a row but the bytes behind its last member, which may be anything. */
static bool same_work(const struct aorta_trace_work *a, const struct aorta_trace_work *b) {
    return memcmp(a, b, offsetof(struct aorta_trace_work, graph)) == 0 && a->graph == b->graph;
}

static void check_same(const struct aorta_trace_list *a, const struct aorta_trace_list *b) {
    fuzz_require(a->count == b->count);
    for (size_t i = 0; i < a->count; i++) {
        const struct aorta_trace *x = a->items[i], *y = b->items[i];
        fuzz_require(x->work_count == y->work_count && x->call_count == y->call_count && x->events == y->events);
        for (size_t row = 0; row < x->work_count; row++) fuzz_require(same_work(&x->work[row], &y->work[row]));
        fuzz_require(!memcmp(x->warnings, y->warnings, sizeof x->warnings));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    const char *text = (const char *)data + 1;
    size_t piece = data[0] ? data[0] : 1;
    struct aorta_trace_list whole = {0}, pieces = {0}, recovered = {0};
    aorta_status first = read_all(text, size - 1, 0, false, &whole);
    aorta_status second = read_all(text, size - 1, piece, false, &pieces);
    aorta_status third = read_all(text, size - 1, piece, true, &recovered);
    fuzz_require(!first == !second && (first || !third));
    if (first) fuzz_require(!strcmp(aorta_status_message(first), aorta_status_message(second)));
    check_same(&whole, &pieces);
    if (!first) check_same(&whole, &recovered);
    for (size_t i = 0; i < recovered.count; i++) {
        check_work(recovered.items[i]);
        check_host(recovered.items[i]);
    }
    aorta_status_free(first);
    aorta_status_free(second);
    aorta_status_free(third);
    aorta_trace_list_free(&whole);
    aorta_trace_list_free(&pieces);
    aorta_trace_list_free(&recovered);
    return 0;
}
