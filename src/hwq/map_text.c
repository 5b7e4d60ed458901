/* The map as text, with its matrix in characters, as JSON, and as tables for CSV and the page. */
#include "base/lines.h"
#include "base/result_table.h"
#include "hwq/map.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The environment variables that change the queues of streams. */
static const char *const variables[] = {"CUDA_DEVICE_MAX_CONNECTIONS",
                                        "CUDA_DEVICE_MAX_COPY_CONNECTIONS",
                                        "CUDA_LAUNCH_BLOCKING",
                                        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
                                        "CUDA_VISIBLE_DEVICES",
                                        "GPU_MAX_HW_QUEUES",
                                        "HIP_VISIBLE_DEVICES",
                                        "ROCR_VISIBLE_DEVICES",
                                        "HSA_ENABLE_SDMA",
                                        NULL};

static const char *const blocking_names[] = {
    [AORTA_MAP_BLOCKING_UNKNOWN] = NULL,
    [AORTA_MAP_BLOCKING_WAITING] = "behind_waiting",
    [AORTA_MAP_BLOCKING_RUNNING] = "behind_running",
    [AORTA_MAP_BLOCKING_MIXED] = "mixed",
};

static int group_size(const struct aorta_map *map, int group) {
    int size = 0;
    for (int i = 0; i < map->count; i++) size += map->streams[i].group == group;
    return size;
}

/* ---- counting by role and level ---- */

struct part { /* streams of one role and level */
    enum aorta_map_role role;
    enum aorta_priority priority;
    int streams, queues, largest;
};

static struct part count_part(const struct aorta_map *map, enum aorta_map_role role, enum aorta_priority priority) {
    struct part part = {role, priority, 0, 0, 0};
    int members[AORTA_MAP_STREAMS] = {0};
    for (int i = 0; i < map->count; i++) {
        const struct aorta_map_stream *stream = &map->streams[i];
        if (stream->role != role || stream->priority != priority) continue;
        int size = ++members[stream->group];
        part.streams++;
        part.queues += size == 1;
        if (size > part.largest) part.largest = size;
    }
    return part;
}

typedef void (*part_visitor)(const struct part *part, void *user);

static void for_each_part(const struct aorta_map *map, part_visitor visit, void *user) {
    for (enum aorta_map_role role = 0; role < AORTA_MAP_ROLE_COUNT; role++) {
        for (int priority = AORTA_PRIORITY_HIGH; priority >= AORTA_PRIORITY_LOW; priority--) {
            struct part part = count_part(map, role, (enum aorta_priority)priority);
            if (part.streams) visit(&part, user);
        }
    }
}

/* ---- text ---- */

static void say_part(const struct part *part, void *user) {
    static const char *const names[AORTA_MAP_ROLE_COUNT] = {"compute", "copies", "collectives"};
    struct aorta_text text = {0};
    aorta_text_printf(&text, "%s of %s priority: %s", aorta_counted(part->streams, "stream").text,
                      aorta_map_priority_name(part->priority), aorta_counted(part->queues, "queue").text);
    if (part->largest > 1) aorta_text_printf(&text, ", up to %d streams on one", part->largest);
    aorta_text_fact(user, names[part->role], &text);
    aorta_text_free(&text);
}

/* Queues of several streams. */
static void say_groups(const struct aorta_map *map, struct aorta_text *text) {
    if (map->group_count == map->count) return;
    aorta_text_puts(text, "\nStreams that share a queue\n");
    for (int group = 0; group < map->group_count; group++) {
        if (group_size(map, group) == 1) continue;
        aorta_text_printf(text, "  queue %d:", group);
        for (int i = 0; i < map->count; i++)
            if (map->streams[i].group == group) aorta_text_printf(text, " %s", map->streams[i].name);
        aorta_text_puts(text, "\n");
    }
}

static const char *symbol_of(const struct aorta_map *map, int blocker, int other) {
    if (blocker == other) return "\\";
    const struct aorta_map_pair *pair = aorta_map_pair_of(map, blocker, other);
    if (pair->shared) return "#";
    return pair->blocked && pair->differs ? "~" : ".";
}

/* Without a blocked probe there is nothing to draw. */
static void draw(const struct aorta_map *map, struct aorta_text *text) {
    int widest = 0;
    bool any = false, unsure = false;
    for (int i = 0; i < map->count; i++) {
        const int length = (int)strlen(map->streams[i].name);
        if (length > widest) widest = length;
        for (int other = 0; other < map->count; other++) {
            any |= strchr("#~", *symbol_of(map, i, other)) != NULL;
            unsure |= *symbol_of(map, i, other) == '~';
        }
    }
    if (!any) return;
    aorta_text_printf(text, "\nA long kernel on the stream of a row and a short kernel on the stream of a column\n");
    for (int blocker = 0; blocker < map->count; blocker++) {
        aorta_text_printf(text, "  %-*s ", widest, map->streams[blocker].name);
        for (int other = 0; other < map->count; other++) aorta_text_puts(text, symbol_of(map, blocker, other));
        aorta_text_puts(text, "\n");
    }
    aorta_text_printf(text, "  # blocked   . not blocked%s\n", unsure ? "   ~ late once, not blocked" : "");
}

static void say_blocking(const struct aorta_map *map, struct aorta_text *text) {
    static const char *const sentences[] = {
        [AORTA_MAP_BLOCKING_UNKNOWN] = "",
        [AORTA_MAP_BLOCKING_WAITING] =
            "kernels of several streams run at once; a command that waits for its own stream blocks the queue",
        [AORTA_MAP_BLOCKING_RUNNING] = "a queue runs one kernel at a time, which blocks all other streams on the queue",
        [AORTA_MAP_BLOCKING_MIXED] = "any running kernel blocks some queues, only a waiting command the other queues"};
    aorta_text_puts(text, sentences[map->blocking]);
}

static void say_warnings(const struct aorta_map *map, struct aorta_text *out) {
    struct aorta_text text = {0};
    if (map->unsettled)
        aorta_text_printf(&text,
                          "results of %d of %d directed pairs change: other programs use the device, or it assigns "
                          "queues while streams run",
                          map->unsettled, map->count * (map->count - 1));
    aorta_text_fact(out, "not stable", &text);
    if (map->busy_only)
        aorta_text_printf(&text,
                          "%s blocked only while all streams have work: the device assigns about %s to streams while "
                          "they run; the matrix is for two streams at a time",
                          aorta_counted(map->busy_only, "pair").text, aorta_counted(map->busy_queues, "queue").text);
    aorta_text_fact(out, "while busy", &text);
    if (map->corrected > map->busy_only)
        aorta_text_printf(&text, "%s gave another result alone; those results count",
                          aorta_counted(map->corrected - map->busy_only, "pair").text);
    aorta_text_fact(out, "corrected", &text);
    if (map->one_sided)
        aorta_text_printf(&text, "%s blocked in one direction only, counted as separate queues",
                          aorta_counted(map->one_sided, "pair").text);
    aorta_text_fact(out, "one-sided", &text);
    if (!map->transitive)
        aorta_text_puts(&text, "a stream shares with some streams of its group only: streams use several queues");
    aorta_text_fact(out, "groups", &text);
    aorta_text_free(&text);
}

static void say_variables(struct aorta_text *text) {
    for (const char *const *name = variables; *name; name++) {
        const char *value = getenv(*name);
        if (value) aorta_text_printf(text, "%s%s=%s", text->length ? ", " : "", *name, value);
    }
    if (!text->length) aorta_text_puts(text, "no variable about queues is set: the driver's defaults apply");
}

static void say_advice(const struct aorta_map *map, const struct aorta_device_info *device, struct aorta_text *text) {
    if (device->kind == AORTA_DEVICE_CPU || (map->group_count == map->count && !map->busy_only)) return;
    aorta_text_printf(text, "fewer streams, or more queues: set %s before the program starts",
                      device->kind == AORTA_DEVICE_CUDA ? "CUDA_DEVICE_MAX_CONNECTIONS (1 to 32)"
                                                        : "GPU_MAX_HW_QUEUES (default: 4 for each priority)");
}

static void say_copies(const struct aorta_map_copies *copies, struct aorta_text *text) {
    aorta_text_printf(text, "\nCopies of %.0f MiB on two streams at once (medians of %d)\n",
                      (double)copies->bytes / 1048576.0, copies->samples);
    aorta_text_puts(text, "  copies        alone, ms         together, ms\n");
    for (int i = 0; i < AORTA_MAP_COPY_PAIRS; i++) {
        const struct aorta_map_copy_pair *pair = &copies->pairs[i];
        aorta_text_printf(text, "  %s + %s   %7.3f + %-7.3f   %7.3f   %s\n", aorta_map_copy_name(pair->kinds[0]),
                          aorta_map_copy_name(pair->kinds[1]), pair->alone_ms[0], pair->alone_ms[1], pair->together_ms,
                          aorta_map_copies_verdict_name(pair->verdict));
    }
}

static void say_answer(const struct aorta_map *map, const struct aorta_device_info *device, struct aorta_text *text) {
    int most = 0;
    for (int group = 0; group < map->group_count; group++)
        if (group_size(map, group) > most) most = group_size(map, group);
    if (map->group_count < map->count)
        aorta_text_printf(text, "Queues: %d streams share %s, up to %d streams on one\n", map->count,
                          aorta_counted(map->group_count, "queue").text, most);
    else
        aorta_text_printf(text, "Queues: no two of %d streams share one%s\n", map->count,
                          device->kind == AORTA_DEVICE_CPU ? ": on the CPU device each stream is a thread" : "");
}

void aorta_map_text(const struct aorta_map *map, const struct aorta_map_copies *copies,
                    const struct aorta_device_info *device, struct aorta_text *text) {
    struct aorta_text fact = {0};
    say_answer(map, device, text);
    aorta_text_puts(text, "\n");
    aorta_text_printf(&fact, "%s (%s:%d)", device->name, aorta_device_kind_name(device->kind), device->index);
    aorta_text_fact(text, "device", &fact);
    for_each_part(map, say_part, text);
    if (map->comm_backend && strcmp(map->comm_backend, "nccl") != 0)
        aorta_text_puts(&fact, "the collectives are copies on one rank, as NCCL is not used");
    aorta_text_fact(text, "simulated", &fact);
    say_blocking(map, &fact);
    aorta_text_fact(text, "blocking", &fact);
    say_warnings(map, text);
    say_variables(&fact);
    aorta_text_fact(text, "environment", &fact);
    aorta_text_printf(&fact, "%s with kernels of %.1f ms; %s confirmed separately",
                      aorta_counted(map->rounds, "round").text, (double)map->hold_ns * 1e-6,
                      aorta_counted(map->pairs_alone, "pair").text);
    aorta_text_fact(text, "probes", &fact);
    say_advice(map, device, &fact);
    aorta_text_fact(text, "try", &fact);
    aorta_text_free(&fact);
    say_groups(map, text);
    draw(map, text);
    if (copies) say_copies(copies, text);
}

/* ---- tables ---- */

struct stream_values {
    const char *stream, *role, *priority;
    int queue;
};

#define AT(member) offsetof(struct stream_values, member)
static const struct aorta_row stream_rows[] = {
    {"stream", AORTA_ROW_TEXT, AT(stream), .heading = "stream", .help = "its name"},
    {"role", AORTA_ROW_TEXT, AT(role), .heading = "role", .help = "what it is for"},
    {"priority", AORTA_ROW_TEXT, AT(priority), .heading = "priority", .help = "its level"},
    {"queue", AORTA_ROW_INT32, AT(queue), .heading = "queue", .help = "streams with one number share a queue"},
    {0}};
#undef AT

static size_t stream_count(const void *of) {
    return (size_t)((const struct aorta_map *)of)->count;
}

static bool fill_stream(const void *of, size_t index, void *values) {
    const struct aorta_map_stream *stream = &((const struct aorta_map *)of)->streams[index];
    *(struct stream_values *)values = (struct stream_values){stream->name, aorta_map_role_name(stream->role),
                                                             aorta_map_priority_name(stream->priority), stream->group};
    return true;
}

struct copy_values {
    const char *first, *second, *verdict;
    double first_ms, second_ms, together_ms, first_end_ms;
};

#define AT(member) offsetof(struct copy_values, member)
static const struct aorta_row copy_rows[] = {
    {"first", AORTA_ROW_TEXT, AT(first), .heading = "first", .help = "kind of copy on one stream"},
    {"second", AORTA_ROW_TEXT, AT(second), .heading = "second", .help = "and on the other"},
    {"first_alone_ms", AORTA_ROW_NUMBER, AT(first_ms), "ms", 6, .heading = "first alone ms", .help = "median"},
    {"second_alone_ms", AORTA_ROW_NUMBER, AT(second_ms), "ms", 6, .heading = "second alone ms", .help = "median"},
    {"together_ms", AORTA_ROW_NUMBER, AT(together_ms), "ms", 6, .heading = "concurrent ms",
     .help = "median of both at once"},
    {"first_end_ms", AORTA_ROW_NUMBER, AT(first_end_ms), "ms", 6, .help = "median of the earlier end of both at once"},
    {"verdict", AORTA_ROW_TEXT, AT(verdict), .heading = "result", .help = "whether they run at once"},
    {0}};
#undef AT

static size_t copy_count(const void *of) {
    (void)of;
    return AORTA_MAP_COPY_PAIRS;
}

static bool fill_copy(const void *of, size_t index, void *values) {
    const struct aorta_map_copy_pair *pair = &((const struct aorta_map_copies *)of)->pairs[index];
    *(struct copy_values *)values = (struct copy_values){aorta_map_copy_name(pair->kinds[0]),
                                                         aorta_map_copy_name(pair->kinds[1]),
                                                         aorta_map_copies_verdict_name(pair->verdict),
                                                         pair->alone_ms[0],
                                                         pair->alone_ms[1],
                                                         pair->together_ms,
                                                         pair->first_end_ms};
    return true;
}

static const struct aorta_result_table streams = {.key = "streams",
                                                  .title = "Streams",
                                                  .rows = stream_rows,
                                                  .size = sizeof(struct stream_values),
                                                  .count = stream_count,
                                                  .fill = fill_stream};
static const struct aorta_result_table of_copies = {.key = "copies",
                                                    .title = "Copies",
                                                    .rows = copy_rows,
                                                    .size = sizeof(struct copy_values),
                                                    .count = copy_count,
                                                    .fill = fill_copy};
const struct aorta_result_table *const aorta_map_tables[] = {&streams, &of_copies, NULL};

aorta_status aorta_map_csv(const struct aorta_map *map, const struct aorta_map_copies *copies, const char *folder) {
    AORTA_TRY(aorta_table_csv(&streams, map, folder));
    return copies ? aorta_table_csv(&of_copies, copies, folder) : NULL;
}

/* ---- JSON ---- */

static void write_device(const struct aorta_device_info *device, struct aorta_json *json) {
    aorta_json_key_object(json, "device_info");
    aorta_json_key_string(json, "kind", aorta_device_kind_name(device->kind));
    aorta_json_key_int(json, "device_index", device->index);
    aorta_json_key_string(json, "name", device->name);
    aorta_json_key_string(json, "isa", device->isa);
    aorta_json_object_end(json);
    aorta_json_key_object(json, "environment");
    for (const char *const *name = variables; *name; name++) aorta_json_key_string(json, *name, getenv(*name));
    aorta_json_object_end(json);
}

static void write_part(const struct part *part, void *user) {
    struct aorta_json *json = user;
    aorta_json_object(json);
    aorta_json_key_string(json, "role", aorta_map_role_name(part->role));
    aorta_json_key_string(json, "priority", aorta_map_priority_name(part->priority));
    aorta_json_key_int(json, "streams", part->streams);
    aorta_json_key_int(json, "queues", part->queues);
    aorta_json_key_int(json, "most_streams_on_one", part->largest);
    aorta_json_object_end(json);
}

static void write_streams(const struct aorta_map *map, struct aorta_json *json) {
    aorta_json_key_array(json, "streams");
    for (int i = 0; i < map->count; i++) {
        const struct aorta_map_stream *stream = &map->streams[i];
        aorta_json_object(json);
        aorta_json_key_string(json, "name", stream->name);
        aorta_json_key_string(json, "role", aorta_map_role_name(stream->role));
        aorta_json_key_string(json, "priority", aorta_map_priority_name(stream->priority));
        aorta_json_key_int(json, "queue", stream->group);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
    aorta_json_key_array(json, "groups");
    for (int group = 0; group < map->group_count; group++) {
        aorta_json_array(json);
        for (int i = 0; i < map->count; i++)
            if (map->streams[i].group == group) aorta_json_string(json, map->streams[i].name);
        aorta_json_array_end(json);
    }
    aorta_json_array_end(json);
}

/* Rows of one character per column, and the counts they are decided by. */
static void write_matrix(const struct aorta_map *map, struct aorta_json *json) {
    aorta_json_key_array(json, "matrix");
    for (int blocker = 0; blocker < map->count; blocker++) {
        char row[AORTA_MAP_STREAMS + 1] = "";
        for (int other = 0; other < map->count; other++) row[other] = *symbol_of(map, blocker, other);
        aorta_json_string(json, row);
    }
    aorta_json_array_end(json);
    static const char *const keys[] = {"asked", "held"};
    for (int which = 0; which < 2; which++) {
        aorta_json_key_array(json, keys[which]);
        for (int blocker = 0; blocker < map->count; blocker++) {
            aorta_json_array(json);
            for (int other = 0; other < map->count; other++) {
                const struct aorta_map_pair *pair = aorta_map_pair_of(map, blocker, other);
                aorta_json_int(json, which ? pair->blocked : pair->probes);
            }
            aorta_json_array_end(json);
        }
        aorta_json_array_end(json);
    }
}

static void write_copies(const struct aorta_map_copies *copies, struct aorta_json *json) {
    aorta_json_key(json, "copies");
    if (!copies) {
        aorta_json_null(json);
        return;
    }
    aorta_json_object(json);
    aorta_json_key_int(json, "bytes", (int64_t)copies->bytes);
    aorta_json_key_int(json, "samples", copies->samples);
    aorta_json_key_array(json, "pairs");
    for (size_t i = 0; i < AORTA_MAP_COPY_PAIRS; i++) {
        struct copy_values values;
        fill_copy(copies, i, &values);
        aorta_json_object(json);
        aorta_rows_json(copy_rows, &values, 0, json);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
    aorta_json_object_end(json);
}

void aorta_map_json(const struct aorta_map *map, const struct aorta_map_copies *copies,
                    const struct aorta_device_info *device, struct aorta_json *json) {
    aorta_json_object(json);
    aorta_json_key_int(json, "schema_version", 1);
    aorta_json_key_string(json, "kind", "hwq_map");
    write_device(device, json);
    aorta_json_key_int(json, "stream_count", map->count);
    aorta_json_key_int(json, "queue_count", map->group_count);
    aorta_json_key_array(json, "parts");
    for_each_part(map, write_part, json);
    aorta_json_array_end(json);
    aorta_json_key_string(json, "comm_backend", map->comm_backend);
    aorta_json_key_string(json, "blocking", blocking_names[map->blocking]);
    aorta_json_key_bool(json, "stable", !map->unsettled && !map->corrected);
    aorta_json_key_int(json, "unsettled_pairs", map->unsettled);
    aorta_json_key_int(json, "corrected_pairs", map->corrected);
    aorta_json_key_int(json, "busy_only_pairs", map->busy_only);
    aorta_json_key(json, "busy_queue_count");
    if (map->busy_only)
        aorta_json_int(json, map->busy_queues);
    else
        aorta_json_null(json);
    aorta_json_key_int(json, "one_sided_pairs", map->one_sided);
    aorta_json_key_bool(json, "transitive", map->transitive);
    aorta_json_key_int(json, "rounds", map->rounds);
    aorta_json_key_int(json, "pairs_asked_alone", map->pairs_alone);
    aorta_json_key_fixed(json, "hold_ms", (double)map->hold_ns * 1e-6, 3);
    write_streams(map, json);
    write_matrix(map, json);
    write_copies(copies, json);
    aorta_json_object_end(json);
}
