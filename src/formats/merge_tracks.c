/* Tracks of the analysis in a merged trace: the critical path as rows of a thread of its own, and counters. */
#include "base/json.h"
#include "formats/merge_internal.h"

#include <inttypes.h>

enum { PATH_KEY = 0x70617468 }; /* of a thread that no file has: "path" */

static void put_piece(struct merge_rank *rank, const struct aorta_path_piece *piece, int64_t thread) {
    struct aorta_text *out = aorta_merge_sink_text(rank->sink);
    const char *kind = aorta_path_kind_name(piece->kind);
    const uint64_t length = (uint64_t)piece->end_ns - (uint64_t)piece->start_ns;
    struct aorta_json json;
    aorta_merge_event(rank);
    aorta_json_begin(&json, out, 0);
    aorta_json_object(&json);
    aorta_json_key_string(&json, "ph", "X");
    aorta_json_key_string(&json, "cat", "critical_path");
    aorta_json_key_string(&json, "name", piece->name ? piece->name : kind);
    aorta_json_key_int(&json, "pid", rank->source->rank);
    aorta_json_key_int(&json, "tid", thread);
    aorta_text_puts(out, ",\"ts\":");
    aorta_merge_time(rank, piece->start_ns);
    aorta_text_printf(out, ",\"dur\":%" PRIu64 ".%03u", length / 1000, (unsigned)(length % 1000));
    aorta_json_key_object(&json, "args");
    aorta_json_key_string(&json, "kind", kind);
    aorta_json_object_end(&json);
    aorta_json_object_end(&json);
    rank->events++;
}

/* An arrow from the piece before to this one, where that is of another rank: `number` is this one's in the path. */
static void put_flow(struct merge_rank *rank, size_t number, bool begins, int64_t at_ns, int64_t thread) {
    struct aorta_text *out = aorta_merge_sink_text(rank->sink);
    struct aorta_json json;
    aorta_merge_event(rank);
    aorta_json_begin(&json, out, 0);
    aorta_json_object(&json);
    aorta_json_key_string(&json, "ph", begins ? "s" : "f");
    if (!begins) aorta_json_key_string(&json, "bp", "e");
    aorta_json_key_string(&json, "cat", "critical_path");
    aorta_json_key_string(&json, "name", "critical path");
    aorta_json_key_int(&json, "id", (int64_t)number);
    aorta_json_key_int(&json, "pid", rank->source->rank);
    aorta_json_key_int(&json, "tid", thread);
    aorta_text_puts(out, ",\"ts\":");
    aorta_merge_time(rank, at_ns);
    aorta_json_object_end(&json);
    rank->events++;
}

static aorta_status put_path(struct merge_rank *rank, const struct aorta_critical_path *path, uint32_t place) {
    int64_t thread;
    bool added, any = false;
    for (size_t i = 0; i < path->count && !any; i++) any = path->pieces[i].rank == place;
    if (!any) return NULL;
    AORTA_TRY(aorta_merge_thread(&rank->threads, PATH_KEY, 0, &thread, &added));
    aorta_merge_thread_name(rank, thread, "critical path");
    for (size_t i = 0; i < path->count; i++) {
        if (path->pieces[i].rank != place) continue;
        const struct aorta_path_piece *piece = &path->pieces[i];
        put_piece(rank, piece, thread);
        if (i && piece[-1].rank != place) put_flow(rank, i, false, piece->start_ns, thread);
        if (i + 1 < path->count && piece[1].rank != place) put_flow(rank, i + 1, true, piece->end_ns - 1, thread);
        AORTA_TRY(aorta_merge_sink_flush(rank->sink));
    }
    return NULL;
}

static void put_value(struct merge_rank *rank, int kind, const struct aorta_counter_point *point) {
    struct aorta_text *out = aorta_merge_sink_text(rank->sink);
    struct aorta_json json;
    aorta_merge_event(rank);
    aorta_json_begin(&json, out, 0);
    aorta_json_object(&json);
    aorta_json_key_string(&json, "ph", "C");
    aorta_json_key_string(&json, "name", aorta_counter_name(kind));
    aorta_json_key_int(&json, "pid", rank->source->rank);
    aorta_text_puts(out, ",\"ts\":");
    aorta_merge_time(rank, point->at_ns);
    aorta_json_key_object(&json, "args");
    aorta_json_key_fixed(&json, "value", point->value, 6);
    aorta_json_object_end(&json);
    aorta_json_object_end(&json);
    rank->events++;
}

aorta_status aorta_merge_add_tracks(struct merge_rank *rank, const struct aorta_merge_tracks *tracks) {
    for (size_t i = 0; i < tracks->count; i++) {
        const struct aorta_counters *counters = &tracks->counters[i];
        if (counters->rank != rank->source->rank) continue;
        AORTA_TRY(put_path(rank, tracks->path, (uint32_t)i));
        for (int kind = 0; kind < AORTA_COUNTER_COUNT; kind++)
            for (size_t p = 0; p < counters->of[kind].count; p++) {
                put_value(rank, kind, &counters->of[kind].points[p]);
                AORTA_TRY(aorta_merge_sink_flush(rank->sink));
            }
    }
    return NULL;
}
