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
    struct aorta_text *text = user;
    const char *role = aorta_map_role_name(part->role), *level = aorta_map_priority_name(part->priority);
    aorta_text_printf(text, "  %d %s stream%s of %s priority: ", part->streams, role, part->streams == 1 ? "" : "s",
                      level);
    if (part->streams == 1)
        aorta_text_puts(text, "one queue\n");
    else if (part->queues == part->streams)
        aorta_text_printf(text, "%d queues, one for each stream\n", part->queues);
    else if (part->queues == 1)
        aorta_text_puts(text, "all share 1 queue\n");
    else
        aorta_text_printf(text, "%d queues, up to %d streams on one\n", part->queues, part->largest);
}

static void say_groups(const struct aorta_map *map, struct aorta_text *text) {
    int alone = 0;
    for (int group = 0; group < map->group_count; group++) {
        if (group_size(map, group) == 1) {
            alone++;
            continue;
        }
        aorta_text_printf(text, "  queue %d:", group);
        for (int i = 0; i < map->count; i++)
            if (map->streams[i].group == group) aorta_text_printf(text, " %s", map->streams[i].name);
        aorta_text_puts(text, "\n");
    }
    if (alone == map->count)
        aorta_text_puts(text, "  no two streams share a queue\n");
    else if (alone)
        aorta_text_printf(text, "  %d stream%s of %s own\n", alone, alone == 1 ? " has a queue" : "s have queues",
                          alone == 1 ? "its" : "their");
}

static const char *symbol_of(const struct aorta_map *map, int blocker, int other) {
    if (blocker == other) return "\\";
    const struct aorta_map_pair *pair = aorta_map_pair_of(map, blocker, other);
    if (pair->shared) return "#";
    return pair->blocked && pair->differs ? "~" : ".";
}

static void draw(const struct aorta_map *map, struct aorta_text *text) {
    size_t widest = 0;
    bool unsure = false;
    for (int i = 0; i < map->count; i++) {
        size_t length = strlen(map->streams[i].name);
        if (length > widest) widest = length;
    }
    for (int blocker = 0; blocker < map->count; blocker++) {
        aorta_text_printf(text, "  %-*s ", (int)widest, map->streams[blocker].name);
        for (int other = 0; other < map->count; other++) {
            const char *symbol = symbol_of(map, blocker, other);
            unsure |= *symbol == '~';
            aorta_text_puts(text, symbol);
        }
        aorta_text_puts(text, "\n");
    }
    aorta_text_printf(text, "  # blocks the stream of this column   . does not%s\n",
                      unsure ? "   ~ late once, not blocked" : "");
}

static void say_blocking(const struct aorta_map *map, struct aorta_text *text) {
    static const char *const sentences[] = {
        [AORTA_MAP_BLOCKING_UNKNOWN] = NULL,
        [AORTA_MAP_BLOCKING_WAITING] =
            "A queue lets kernels of several streams run at once; it is blocked only while the command at its head has "
            "to wait for its own stream.",
        [AORTA_MAP_BLOCKING_RUNNING] =
            "A queue runs one kernel at a time, which blocks all other streams on the queue.",
        [AORTA_MAP_BLOCKING_MIXED] = "Any running kernel blocks some of the queues; only commands that wait for their "
                                     "own stream block the other queues."};
    if (sentences[map->blocking]) aorta_text_printf(text, "%s\n", sentences[map->blocking]);
}

static void say_warnings(const struct aorta_map *map, struct aorta_text *text) {
    if (map->unsettled)
        aorta_text_printf(text,
                          "Not stable: the results of %d of %d directed pairs changed from run to run; other programs "
                          "use the device, or it "
                          "assigns queues to streams while they run.\n",
                          map->unsettled, map->count * (map->count - 1));
    if (map->busy_only)
        aorta_text_printf(
            text,
            "%d pair%s each other only while all streams have work: the device assigns queues to streams while they "
            "run, about %d of them then. The matrix is for two streams at a time.\n",
            map->busy_only, map->busy_only == 1 ? " blocks" : "s block", map->busy_queues);
    if (map->corrected > map->busy_only)
        aorta_text_printf(text, "%s gave another result when probed alone; those results count.\n",
                          aorta_counted(map->corrected - map->busy_only, "pair").text);
    if (map->one_sided)
        aorta_text_printf(text, "%d pair%s each other in one direction only; they count as separate queues.\n",
                          map->one_sided, map->one_sided == 1 ? " blocks" : "s block");
    if (!map->transitive)
        aorta_text_puts(text, "Not every stream of a group shares with every other: streams use several queues.\n");
}

static void say_variables(struct aorta_text *text) {
    bool any = false;
    for (const char *const *name = variables; *name; name++) {
        const char *value = getenv(*name);
        if (!value) continue;
        aorta_text_printf(text, "%s%s=%s", any ? ", " : "Environment: ", *name, value);
        any = true;
    }
    aorta_text_puts(text, any ? "\n" : "Environment: no variable about queues is set, the driver's defaults apply.\n");
}

static void say_advice(const struct aorta_map *map, const struct aorta_device_info *device, struct aorta_text *text) {
    if (device->kind == AORTA_DEVICE_CPU) {
        aorta_text_puts(text,
                        "On the CPU device every stream is a thread of its own and none share a queue. The probes "
                        "sleep, so the number of processors does not matter; real work shares them.\n");
        return;
    }
    if (map->group_count == map->count && !map->busy_only) return;
    if (device->kind == AORTA_DEVICE_CUDA)
        aorta_text_puts(text,
                        "Streams that share a queue can wait for each other without a dependency. For more queues, "
                        "set CUDA_DEVICE_MAX_CONNECTIONS (1 to 32) before the program starts, or use fewer "
                        "streams.\n");
    else
        aorta_text_puts(text,
                        "Streams that share a queue wait for each other without a dependency. For more queues, set "
                        "GPU_MAX_HW_QUEUES before the program starts (4 for each priority by default), or use "
                        "fewer streams.\n");
}

static void say_notes(const struct aorta_map *map, const struct aorta_device_info *device, struct aorta_text *text) {
    static const struct aorta_lines lines = {.width = 118};
    struct aorta_text notes = {0};
    say_blocking(map, &notes);
    say_warnings(map, &notes);
    say_advice(map, device, &notes);
    text->failed |= notes.failed;
    char *rest = notes.data;
    for (const char *line; rest && (line = strsep(&rest, "\n")) && *line;) aorta_text_lines(text, line, &lines);
    aorta_text_free(&notes);
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

void aorta_map_text(const struct aorta_map *map, const struct aorta_map_copies *copies,
                    const struct aorta_device_info *device, struct aorta_text *text) {
    const bool cpu = device->kind == AORTA_DEVICE_CPU;
    aorta_text_printf(text, "%s of %s (%s:%d): %d found for %s\n",
                      cpu ? "Threads in place of hardware queues" : "Hardware queues", device->name,
                      aorta_device_kind_name(device->kind), device->index, map->group_count,
                      aorta_counted(map->count, "stream").text);
    say_variables(text);
    for_each_part(map, say_part, text);
    if (map->comm_backend)
        aorta_text_printf(text, "  (collectives of one rank, by %s)\n",
                          strcmp(map->comm_backend, "nccl") == 0 ? "NCCL or RCCL" : "copies: NCCL is not used");
    aorta_text_puts(text, "\n");
    say_groups(map, text);
    aorta_text_puts(text, "\n");
    draw(map, text);
    aorta_text_puts(text, "\n");
    say_notes(map, device, text);
    aorta_text_printf(text, "%s with kernels of %.1f ms; pairs probed alone: %d.\n",
                      aorta_counted(map->rounds, "round").text, (double)map->hold_ns * 1e-6, map->pairs_alone);
    if (copies) say_copies(copies, text);
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
    for (int i = 0; i < AORTA_MAP_COPY_PAIRS; i++) {
        const struct aorta_map_copy_pair *pair = &copies->pairs[i];
        aorta_json_object(json);
        aorta_json_key_string(json, "first", aorta_map_copy_name(pair->kinds[0]));
        aorta_json_key_string(json, "second", aorta_map_copy_name(pair->kinds[1]));
        aorta_json_key_fixed(json, "first_alone_ms", pair->alone_ms[0], 6);
        aorta_json_key_fixed(json, "second_alone_ms", pair->alone_ms[1], 6);
        aorta_json_key_fixed(json, "together_ms", pair->together_ms, 6);
        aorta_json_key_fixed(json, "first_end_ms", pair->first_end_ms, 6);
        aorta_json_key_string(json, "verdict", aorta_map_copies_verdict_name(pair->verdict));
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
    double first_ms, second_ms, together_ms;
};

#define AT(member) offsetof(struct copy_values, member)
static const struct aorta_row copy_rows[] = {
    {"first", AORTA_ROW_TEXT, AT(first), .heading = "first", .help = "kind of copy on one stream"},
    {"second", AORTA_ROW_TEXT, AT(second), .heading = "second", .help = "and on the other"},
    {"first_alone_ms", AORTA_ROW_NUMBER, AT(first_ms), "ms", .heading = "first alone ms", .help = "median"},
    {"second_alone_ms", AORTA_ROW_NUMBER, AT(second_ms), "ms", .heading = "second alone ms", .help = "median"},
    {"together_ms", AORTA_ROW_NUMBER, AT(together_ms), "ms", .heading = "concurrent ms",
     .help = "median of both at once"},
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
                                                         pair->together_ms};
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
