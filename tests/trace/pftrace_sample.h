/* A small recording as rocprofv3 writes it with --output-format pftrace: packets of Perfetto in one sequence, whose
 * clock counts on. In ns from 1000 on:
 *
 *   THREAD 1 (7)             hipLaunchKernel [0 10]  ncclAllReduce [20 60], in it hipExtLaunchKernel [30 40]
 *                            hipMemcpyAsync [70 80], the range train_step [0 90]
 *   COMPUTE AGENT [4] …      gemm [100 150], ncclDevKernel_AllReduce [150 250]
 *   COPY to AGENT [4] …      MEMORY_COPY_HOST_TO_DEVICE [260 280], 4096 bytes */
#ifndef AORTA_TESTS_PFTRACE_SAMPLE_H
#define AORTA_TESTS_PFTRACE_SAMPLE_H

#include "base/text.h"

#include <stdint.h>
#include <string.h>

static inline void put_varint(struct aorta_text *out, uint64_t value) {
    for (; value > 0x7f; value >>= 7) aorta_text_append(out, &(char){(char)(0x80 | (value & 0x7f))}, 1);
    aorta_text_append(out, &(char){(char)value}, 1);
}

static inline void put_number(struct aorta_text *out, unsigned field, uint64_t value) {
    put_varint(out, field << 3);
    put_varint(out, value);
}

static inline void put_bytes(struct aorta_text *out, unsigned field, const char *bytes, size_t length) {
    put_varint(out, field << 3 | 2);
    put_varint(out, length);
    aorta_text_append(out, bytes, length);
}

static inline void put_string(struct aorta_text *out, unsigned field, const char *string) {
    put_bytes(out, field, string, strlen(string));
}

/* Ends the message and puts it into another. */
static inline void put_message(struct aorta_text *out, unsigned field, struct aorta_text *message) {
    put_bytes(out, field, message->data ? message->data : "", message->length);
    aorta_text_free(message);
}

struct pftrace_sample {
    struct aorta_text out;
    uint64_t last; /* where the counting clock is */
    uint64_t names;
};

static inline void put_packet(struct pftrace_sample *s, struct aorta_text *packet) {
    put_number(packet, 10, 1);
    put_message(&s->out, 1, packet);
}

static inline void put_track(struct pftrace_sample *s, uint64_t uuid, const char *name) {
    struct aorta_text packet = {0}, track = {0};
    put_number(&track, 1, uuid);
    put_string(&track, 2, name);
    put_message(&packet, 60, &track);
    put_packet(s, &packet);
}

/* The clock counts on; a time before its last one names the boot clock. */
static inline void put_time(struct pftrace_sample *s, struct aorta_text *packet, uint64_t at) {
    put_number(packet, 8, at >= s->last ? at - s->last : at);
    if (at < s->last)
        put_number(packet, 58, 6);
    else
        s->last = at;
}

static inline void put_argument(struct aorta_text *event, const char *name, uint64_t number, const char *text) {
    struct aorta_text argument = {0};
    put_string(&argument, 10, name);
    if (text)
        put_string(&argument, 6, text);
    else
        put_number(&argument, 3, number);
    put_message(event, 4, &argument);
}

struct pftrace_span {
    uint64_t track, start, end, correlation;
    const char *category, *name;
    uint64_t bytes; /* of copies */
};

/* Names have numbers, categories are written out, as one of two ways each. */
static inline void put_span(struct pftrace_sample *s, const struct pftrace_span *span) {
    struct aorta_text packet = {0}, event = {0}, interned = {0}, name = {0};
    put_time(s, &packet, span->start);
    put_number(&name, 1, ++s->names);
    put_string(&name, 2, span->name);
    put_message(&interned, 2, &name);
    put_message(&packet, 12, &interned);
    put_number(&event, 9, 1);
    put_number(&event, 11, span->track);
    put_number(&event, 10, s->names);
    put_string(&event, 22, span->category);
    put_argument(&event, "corr_id", span->correlation, NULL);
    put_argument(&event, "tid", 7, NULL);
    if (span->bytes) {
        put_argument(&event, "copy_bytes", span->bytes, NULL);
        put_argument(&event, "src_agent", 0, "CPU-0");
        put_argument(&event, "dst_agent", 0, "GPU-4");
    } else if (!strcmp(span->category, "kernel_dispatch")) {
        put_argument(&event, "agent", 0, "GPU-4");
        put_argument(&event, "queue", 3, NULL);
    }
    put_message(&packet, 11, &event);
    put_packet(s, &packet);
    put_time(s, &packet, span->end);
    put_number(&event, 9, 2);
    put_number(&event, 11, span->track);
    put_message(&packet, 11, &event);
    put_packet(s, &packet);
}

static inline void make_pftrace(struct aorta_text *out) {
    static const struct pftrace_span spans[] = {
        {1, 1000, 1010, 1, "hip_api", "hipLaunchKernel", 0},
        {1, 1030, 1040, 2, "hip_api", "hipExtLaunchKernel", 0},
        {1, 1070, 1080, 3, "hip_api", "hipMemcpyAsync", 0},
        {1, 1000, 1090, 9, "marker_api", "train_step", 0},
        {1, 1020, 1060, 8, "rccl_api", "ncclAllReduce", 0},
        {2, 1260, 1280, 3, "memory_copy", "MEMORY_COPY_HOST_TO_DEVICE", 4096},
        {3, 1100, 1150, 1, "kernel_dispatch", "gemm", 0},
        {3, 1150, 1250, 2, "kernel_dispatch", "ncclDevKernel_Generic", 0},
    };
    struct pftrace_sample s = {.last = 900};
    struct aorta_text packet = {0}, snapshot = {0}, clock = {0}, defaults = {0};
    put_number(&clock, 1, 6);
    put_number(&clock, 2, s.last);
    put_message(&snapshot, 1, &clock);
    put_number(&clock, 1, 64);
    put_number(&clock, 2, s.last);
    put_number(&clock, 3, 1);
    put_message(&snapshot, 1, &clock);
    put_number(&packet, 3, 1000);
    put_number(&packet, 13, 1);
    put_message(&packet, 6, &snapshot);
    put_number(&defaults, 58, 64);
    put_message(&packet, 59, &defaults);
    put_packet(&s, &packet);
    put_track(&s, 1, "THREAD 1 (7)");
    put_track(&s, 2, "COPY to AGENT [4] STREAM [2] (GPU)");
    put_track(&s, 3, "COMPUTE AGENT [4] STREAM [2] (GPU)");
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) put_span(&s, &spans[i]);
    *out = s.out;
}

#endif
