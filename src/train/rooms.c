#include "train/rooms.h"

#include <stdio.h>
#include <stdlib.h>

enum { COLLECTIVES = 64 }; /* different ones whose footprints are kept; a step has a handful */

/* Beside one stream of the step. */
struct side {
    const struct aorta_stream *of;
    struct aorta_stream *stream;
    struct aorta_event *fork, *join;
};

struct known { /* a collective, and what its kernel needs */
    const struct aorta_comm *comm;
    enum aorta_collective kind;
    enum aorta_dtype dtype;
    int64_t bytes;
    int piece_count;
    struct aorta_footprint footprint;
    bool one_kernel; /* that can be witnessed */
};

struct aorta_rooms {
    const struct aorta_train_context *context;
    struct side sides[AORTA_ROLE_COUNT];
    int side_count;
    struct known known[COLLECTIVES];
    int known_count;
};

/* ---- life ---- */

static aorta_status make_side(struct aorta_rooms *rooms, struct aorta_stream *of) {
    struct aorta_device *device = rooms->context->device;
    struct side *side = &rooms->sides[rooms->side_count++];
    char name[64];
    snprintf(name, sizeof name, "%.40s's stamps", aorta_stream_name(of));
    side->of = of;
    AORTA_TRY(aorta_event_create_untimed(device, &side->fork));
    AORTA_TRY(aorta_event_create_untimed(device, &side->join));
    return aorta_stream_create(device, name, aorta_stream_priority(of), &side->stream);
}

static const struct side *side_of(const struct aorta_rooms *rooms, const struct aorta_stream *stream) {
    for (int i = 0; i < rooms->side_count; i++)
        if (rooms->sides[i].of == stream) return &rooms->sides[i];
    return NULL;
}

static aorta_status build(struct aorta_rooms *rooms) {
    static const enum aorta_flow flows[] = {AORTA_FLOW_ALL_GATHER, AORTA_FLOW_REDUCE_SCATTER, AORTA_FLOW_ALL_REDUCE,
                                            AORTA_FLOW_OPTIMIZER};
    const enum aorta_collective_start start = rooms->context->options->profiling.collective_start;
    if (start != AORTA_START_ROOM && start != AORTA_START_KERNEL) return NULL;
    for (size_t i = 0; i < sizeof flows / sizeof *flows; i++) {
        struct aorta_stream *stream = aorta_train_stream(rooms->context, flows[i]);
        if (!side_of(rooms, stream)) AORTA_TRY(make_side(rooms, stream));
    }
    return NULL;
}

aorta_status aorta_rooms_create(const struct aorta_train_context *context, struct aorta_rooms **out) {
    *out = NULL;
    bool wanted = context->options->profiling.collective_start != AORTA_START_STREAM;
    if (!wanted || aorta_comm_simulated(context->world) || !aorta_device_tells_footprints(context->device)) return NULL;
    struct aorta_rooms *rooms = calloc(1, sizeof *rooms);
    if (!rooms) return AORTA_ERROR(AORTA_MEMORY, "no host memory for the table of collectives");
    rooms->context = context;
    aorta_status status = build(rooms);
    if (status)
        aorta_rooms_destroy(rooms);
    else
        *out = rooms;
    return status;
}

void aorta_rooms_destroy(struct aorta_rooms *rooms) {
    if (!rooms) return;
    for (int i = 0; i < rooms->side_count; i++) {
        if (rooms->sides[i].stream) aorta_stream_destroy(rooms->sides[i].stream);
        aorta_event_destroy(rooms->sides[i].fork);
        aorta_event_destroy(rooms->sides[i].join);
    }
    free(rooms);
}

/* ---- footprints ---- */

/* Captured and dropped: nothing runs. A collective that cannot be captured is not what a stamp should fail for. */
static aorta_status ask(struct aorta_rooms *rooms, struct aorta_stream *stream,
                        const struct aorta_train_collective *collective, bool witness,
                        struct aorta_footprint *footprint) {
    AORTA_TRY(aorta_capture_begin(stream));
    aorta_status called = aorta_train_call(collective, stream);
    if (!called && witness) called = aorta_witness(stream, NULL, NULL);
    aorta_status ended = aorta_capture_footprint(stream, footprint);
    aorta_status status = aorta_status_join(called, ended);
    if (!status) return NULL;
    if (aorta_status_code(status) == AORTA_TIMEOUT || aorta_status_code(status) == AORTA_COMM) return status;
    aorta_log(rooms->context->log, AORTA_LOG_DEBUG, "what the kernel of %s needs is not known: %s",
              aorta_collective_name(collective->kind), aorta_status_message(status));
    aorta_status_free(status);
    *footprint = (struct aorta_footprint){0};
    return NULL;
}

static const struct known *look_up(const struct aorta_rooms *rooms, const struct aorta_train_collective *c) {
    const int64_t bytes = aorta_train_bytes(c);
    for (int i = 0; i < rooms->known_count; i++) {
        const struct known *known = &rooms->known[i];
        bool alike = known->comm == c->comm && known->kind == c->kind && known->dtype == c->dtype;
        if (alike && known->bytes == bytes && known->piece_count == c->piece_count) return known;
    }
    return NULL;
}

bool aorta_rooms_find(const struct aorta_rooms *rooms, struct aorta_stream *stream,
                      const struct aorta_train_collective *collective, struct aorta_room *room) {
    *room = (struct aorta_room){.stream = stream};
    if (!rooms) return true;
    const struct known *known = look_up(rooms, collective);
    if (!known) return false;
    const enum aorta_collective_start start = rooms->context->options->profiling.collective_start;
    const struct side *side = side_of(rooms, stream);
    room->footprint = known->footprint;
    room->witness = known->one_kernel && start == AORTA_START_KERNEL && aorta_stream_capturing(stream);
    room->alone = start == AORTA_START_KERNEL && !aorta_stream_capturing(stream);
    if (side && !room->alone) {
        room->stream = side->stream;
        room->event = side->fork;
    }
    return true;
}

aorta_status aorta_rooms_learn(struct aorta_rooms *rooms, struct aorta_stream *stream,
                               const struct aorta_train_collective *c) {
    struct known known = {.comm = c->comm,
                          .kind = c->kind,
                          .dtype = c->dtype,
                          .bytes = aorta_train_bytes(c),
                          .piece_count = c->piece_count};
    if (rooms->known_count == COLLECTIVES || aorta_stream_capturing(stream)) return NULL;
    known.one_kernel = aorta_device_witnesses(rooms->context->device);
    AORTA_TRY(ask(rooms, stream, c, known.one_kernel, &known.footprint));
    known.one_kernel = known.one_kernel && known.footprint.threads;
    aorta_log(rooms->context->log, AORTA_LOG_DEBUG,
              "the kernel of %s '%s' takes %u threads of %u registers, %u bytes, %u blocks at once",
              aorta_collective_name(c->kind), c->tag, known.footprint.threads, known.footprint.registers,
              known.footprint.shared_bytes, known.footprint.cluster);
    rooms->known[rooms->known_count++] = known;
    return NULL;
}

/* ---- the step ---- */

aorta_status aorta_rooms_begin(struct aorta_rooms *rooms, struct aorta_event *begin) {
    for (int i = 0; rooms && i < rooms->side_count; i++) AORTA_TRY(aorta_stream_wait(rooms->sides[i].stream, begin));
    return NULL;
}

aorta_status aorta_rooms_join(struct aorta_rooms *rooms, struct aorta_stream *stream) {
    for (int i = 0; rooms && i < rooms->side_count; i++)
        AORTA_TRY(aorta_train_follow(stream, rooms->sides[i].stream, rooms->sides[i].join));
    return NULL;
}
