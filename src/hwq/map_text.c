/* What the map shows: its findings, text with the matrix in characters, JSON, and tables for CSV and the page. */
#include "base/result_table.h"
#include "hwq/map.h"

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

/* ---- streams of one role and level ---- */

struct part {
    int role, priority;
    int streams, queues, most_streams;
};

static const char *role_name(int role) {
    static const char *const names[AORTA_MAP_ROLE_COUNT] = {"compute", "copy", "communication"};
    return names[role];
}

#define AT(member) offsetof(struct part, member)
static const struct aorta_row part_rows[] = {
    {"role", AORTA_ROW_CHOICE, AT(role), .help = "what the streams are for", .name = role_name,
     .names = AORTA_MAP_ROLE_COUNT},
    {"priority", AORTA_ROW_CHOICE, AT(priority), .help = "their level", .name = aorta_map_priority_name, .names = 3},
    {"streams", AORTA_ROW_INT32, AT(streams), .help = "their number"},
    {"queues", AORTA_ROW_INT32, AT(queues), .help = "that they use"},
    {"most_streams_on_one", AORTA_ROW_INT32, AT(most_streams), .help = "on one queue"},
    {0}};
#undef AT

static struct part part_of(const struct aorta_map *map, enum aorta_map_role role, enum aorta_priority priority) {
    struct part part = {.role = (int)role, .priority = (int)priority};
    int members[AORTA_MAP_STREAMS] = {0};
    for (int i = 0; i < map->count; i++) {
        const struct aorta_map_stream *stream = &map->streams[i];
        if (stream->role != role || stream->priority != priority) continue;
        const int size = ++members[stream->group];
        part.streams++;
        part.queues += size == 1;
        if (size > part.most_streams) part.most_streams = size;
    }
    return part;
}

/* High priorities come first. */
static enum aorta_line fill_part(const void *of, size_t index, void *values) {
    if (index >= (size_t)AORTA_MAP_ROLE_COUNT * 3) return AORTA_LINE_END;
    const struct part part =
        part_of(of, (enum aorta_map_role)(index / 3), (enum aorta_priority)(AORTA_PRIORITY_HIGH - (int)(index % 3)));
    *(struct part *)values = part;
    return part.streams ? AORTA_LINE : AORTA_LINE_SKIP;
}

static AORTA_TABLE(parts, "parts", AORTA_LINES(part_rows, struct part, fill_part));

/* ---- findings ---- */

static void find_answer(const struct aorta_map *map, bool on_cpu, struct aorta_found_list *found) {
    int most = 0;
    for (int group = 0; group < map->group_count; group++)
        if (group_size(map, group) > most) most = group_size(map, group);
    const enum aorta_hwq_finding answer = map->group_count < map->count ? AORTA_HWQ_MAP_SHARED
                                          : on_cpu                      ? AORTA_HWQ_MAP_THREADS
                                                                        : AORTA_HWQ_MAP_SEPARATE;
    HWQ_FIND(found, answer, hwq_count("streams", map->count), hwq_count("queues", map->group_count),
             hwq_count("most_streams", most));
}

static void find_parts(const struct aorta_map *map, struct aorta_found_list *found) {
    static const enum aorta_hwq_finding findings[AORTA_MAP_ROLE_COUNT] = {AORTA_HWQ_MAP_COMPUTE, AORTA_HWQ_MAP_COPIES,
                                                                          AORTA_HWQ_MAP_COLLECTIVES};
    struct part part;
    enum aorta_line line;
    for (size_t i = 0; (line = fill_part(map, i, &part)) != AORTA_LINE_END; i++) {
        if (line == AORTA_LINE_SKIP) continue;
        HWQ_FIND(found, findings[part.role], hwq_count("streams", part.streams),
                 hwq_text("priority", aorta_map_priority_name(part.priority)), hwq_count("queues", part.queues),
                 hwq_count("most_streams", part.most_streams > 1 ? part.most_streams : NAN));
    }
}

static void find_doubts(const struct aorta_map *map, struct aorta_found_list *found) {
    if (map->unsettled)
        HWQ_FIND(found, AORTA_HWQ_MAP_UNSTABLE, hwq_count("unsettled_pairs", map->unsettled),
                 hwq_count("directed_pairs", map->count * (map->count - 1)));
    if (map->busy_only)
        HWQ_FIND(found, AORTA_HWQ_MAP_BUSY, hwq_count("busy_pairs", map->busy_only),
                 hwq_count("busy_queues", map->busy_queues));
    if (map->corrected > map->busy_only)
        HWQ_FIND(found, AORTA_HWQ_MAP_CORRECTED, hwq_count("corrected_pairs", map->corrected - map->busy_only));
    if (map->one_sided) HWQ_FIND(found, AORTA_HWQ_MAP_ONE_SIDED, hwq_count("one_sided_pairs", map->one_sided));
    if (!map->transitive) aorta_hwq_add(found, AORTA_HWQ_MAP_GROUPS, NULL);
}

static void find_variables(struct aorta_found_list *found) {
    const size_t before = found->count;
    for (const char *const *name = variables; *name; name++)
        if (getenv(*name))
            HWQ_FIND(found, AORTA_HWQ_MAP_VARIABLE, hwq_text("name", *name), hwq_text("value", getenv(*name)));
    if (found->count == before) aorta_hwq_add(found, AORTA_HWQ_MAP_DEFAULTS, NULL);
}

aorta_status aorta_map_find(const struct aorta_map *map, const struct aorta_device_info *device,
                            struct aorta_found_list *found) {
    static const enum aorta_hwq_finding blocking[] = {[AORTA_MAP_BLOCKING_WAITING] = AORTA_HWQ_MAP_WAITING,
                                                      [AORTA_MAP_BLOCKING_RUNNING] = AORTA_HWQ_MAP_RUNNING,
                                                      [AORTA_MAP_BLOCKING_MIXED] = AORTA_HWQ_MAP_MIXED};
    const bool on_cpu = device->kind == AORTA_DEVICE_CPU, shared = map->group_count < map->count || map->busy_only;
    *found = (struct aorta_found_list){0};
    find_answer(map, on_cpu, found);
    HWQ_FIND(found, AORTA_HWQ_MAP_DEVICE, hwq_text("name", device->name),
             hwq_text("kind", aorta_device_kind_name(device->kind)), hwq_count("index", device->index));
    find_parts(map, found);
    if (map->comm_backend && strcmp(map->comm_backend, "nccl") != 0)
        aorta_hwq_add(found, AORTA_HWQ_MAP_SIMULATED, NULL);
    if (map->blocking) aorta_hwq_add(found, blocking[map->blocking], NULL);
    find_doubts(map, found);
    find_variables(found);
    HWQ_FIND(found, AORTA_HWQ_MAP_PROBES, hwq_count("rounds", map->rounds),
             hwq_value("kernel", (double)map->hold_ns * 1e-6, "ms"), hwq_count("pairs_alone", map->pairs_alone));
    if (shared && !on_cpu)
        aorta_hwq_add(found, device->kind == AORTA_DEVICE_CUDA ? AORTA_HWQ_MAP_TRY_CUDA : AORTA_HWQ_MAP_TRY_HIP, NULL);
    return aorta_arena_check(&found->arena, "the map of queues");
}

/* ---- text ---- */

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

static const char *copy_name(int kind) {
    static const char *const names[AORTA_MAP_COPY_COUNT] = {"h2d", "d2h", "d2d"};
    return names[kind];
}

static const char *verdict_name(int verdict) {
    static const char *const names[] = {"side by side", "share the bandwidth", "one after the other",
                                        "differs between repeats"};
    return names[verdict];
}

static void say_copies(const struct aorta_map_copies *copies, struct aorta_text *text) {
    aorta_text_printf(text, "\nCopies of %.0f MiB on two streams at once (medians of %d)\n",
                      (double)copies->bytes / 1048576.0, copies->samples);
    aorta_text_puts(text, "  copies        alone, ms         together, ms\n");
    for (int i = 0; i < AORTA_MAP_COPY_PAIRS; i++) {
        const struct aorta_map_copy_pair *pair = &copies->pairs[i];
        aorta_text_printf(text, "  %s + %s   %7.3f + %-7.3f   %7.3f   %s\n", copy_name(pair->kinds[0]),
                          copy_name(pair->kinds[1]), pair->alone_ms[0], pair->alone_ms[1], pair->together_ms,
                          verdict_name(pair->verdict));
    }
}

void aorta_map_text(const struct aorta_map *map, const struct aorta_found_list *found,
                    const struct aorta_map_copies *copies, struct aorta_text *text) {
    aorta_found_text(found, text);
    say_groups(map, text);
    draw(map, text);
    if (copies) say_copies(copies, text);
}

/* ---- tables ---- */

#define AT(member) offsetof(struct aorta_map_stream, member)
static const struct aorta_row use_rows[] = {
    {"role", AORTA_ROW_CHOICE, AT(role), .heading = "role", .help = "what it is for", .name = role_name,
     .names = AORTA_MAP_ROLE_COUNT},
    {"priority", AORTA_ROW_CHOICE, AT(priority), .heading = "priority", .help = "its level",
     .name = aorta_map_priority_name, .names = 3},
    {"queue", AORTA_ROW_INT32, AT(group), .heading = "queue", .help = "streams with one number share a queue"},
    {0}};
#undef AT

static const struct aorta_row stream_rows[] = {
    {"stream", AORTA_ROW_TEXT, offsetof(struct aorta_map_stream, name), .heading = "stream", .help = "its name"},
    {NULL, AORTA_ROW_PART, 0, .part = use_rows},
    {0}};

static enum aorta_line fill_stream(const void *of, size_t index, void *values) {
    const struct aorta_map *map = of;
    if (index >= (size_t)map->count) return AORTA_LINE_END;
    *(struct aorta_map_stream *)values = map->streams[index];
    return AORTA_LINE;
}

#define AT(member) offsetof(struct aorta_map_copy_pair, member)
static const struct aorta_row copy_rows[] = {
    {"first", AORTA_ROW_CHOICE, AT(kinds[0]), .heading = "first", .help = "kind of copy on one stream",
     .name = copy_name, .names = AORTA_MAP_COPY_COUNT},
    {"second", AORTA_ROW_CHOICE, AT(kinds[1]), .heading = "second", .help = "and on the other", .name = copy_name,
     .names = AORTA_MAP_COPY_COUNT},
    {"first_alone_ms", AORTA_ROW_NUMBER, AT(alone_ms[0]), "ms", 6, .heading = "first alone ms", .help = "median"},
    {"second_alone_ms", AORTA_ROW_NUMBER, AT(alone_ms[1]), "ms", 6, .heading = "second alone ms", .help = "median"},
    {"together_ms", AORTA_ROW_NUMBER, AT(together_ms), "ms", 6, .heading = "concurrent ms",
     .help = "median of both at once"},
    {"first_end_ms", AORTA_ROW_NUMBER, AT(first_end_ms), "ms", 6, .help = "median of the earlier end of both at once"},
    {"verdict", AORTA_ROW_CHOICE, AT(verdict), .heading = "result", .help = "whether they run at once",
     .name = verdict_name, .names = AORTA_MAP_COPIES_VARY + 1},
    {0}};
#undef AT

static enum aorta_line fill_copy(const void *of, size_t index, void *values) {
    if (index >= AORTA_MAP_COPY_PAIRS) return AORTA_LINE_END;
    *(struct aorta_map_copy_pair *)values = ((const struct aorta_map_copies *)of)->pairs[index];
    return AORTA_LINE;
}

static AORTA_TABLE(streams, "streams", "Streams", AORTA_LINES(stream_rows, struct aorta_map_stream, fill_stream));
static AORTA_TABLE(of_copies, "copies", "Copies", AORTA_LINES(copy_rows, struct aorta_map_copy_pair, fill_copy));
AORTA_TABLES(aorta_map_tables, &streams, &of_copies);

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

static void write_streams(const struct aorta_map *map, struct aorta_json *json) {
    aorta_json_key_array(json, "streams");
    for (int i = 0; i < map->count; i++) {
        aorta_json_object(json);
        aorta_json_key_string(json, "name", map->streams[i].name);
        aorta_rows_json(use_rows, &map->streams[i], 0, json);
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
    aorta_rows_array("pairs", copy_rows, copies->pairs, AORTA_MAP_COPY_PAIRS, sizeof *copies->pairs, 0, json);
    aorta_json_object_end(json);
}

#define AT(member) offsetof(struct aorta_map, member)
static const struct aorta_row map_rows[] = {
    {"stream_count", AORTA_ROW_INT32, AT(count), .help = "streams"},
    {"queue_count", AORTA_ROW_INT32, AT(group_count), .help = "queues that they use"},
    {"comm_backend", AORTA_ROW_TEXT, AT(comm_backend), .help = "of the communication streams"},
    {"unsettled_pairs", AORTA_ROW_INT32, AT(unsettled), .help = "whose results never repeated often enough"},
    {"corrected_pairs", AORTA_ROW_INT32, AT(corrected), .help = "with another result alone"},
    {"busy_only_pairs", AORTA_ROW_INT32, AT(busy_only), .help = "of these, blocked only while all streams have work"},
    {"one_sided_pairs", AORTA_ROW_INT32, AT(one_sided), .help = "blocked in one direction only"},
    {"transitive", AORTA_ROW_BOOL, AT(transitive), .help = "a stream shares with all streams of its group"},
    {"rounds", AORTA_ROW_INT32, AT(rounds), .help = "of probes"},
    {"pairs_asked_alone", AORTA_ROW_INT32, AT(pairs_alone), .help = "directed pairs that were probed alone"},
    {"hold_ms", AORTA_ROW_NS, AT(hold_ns), .help = "length of the long kernel"},
    {0}};

void aorta_map_json(const struct aorta_map *map, const struct aorta_found_list *found,
                    const struct aorta_map_copies *copies, const struct aorta_device_info *device,
                    struct aorta_text *text) {
    struct aorta_json json;
    aorta_json_output(&json, text, 2, 1);
    aorta_json_key_string(&json, "kind", "hwq_map");
    aorta_found_answer_json("headline", found, &json);
    aorta_found_facts_json(found, &json);
    write_device(device, &json);
    aorta_rows_json(map_rows, map, 0, &json);
    aorta_json_key_string(&json, "blocking", blocking_names[map->blocking]);
    aorta_json_key_bool(&json, "stable", !map->unsettled && !map->corrected);
    aorta_json_key_natural(&json, "busy_queue_count", map->busy_only ? map->busy_queues : -1);
    aorta_table_json(&parts, map, &json);
    write_streams(map, &json);
    write_matrix(map, &json);
    write_copies(copies, &json);
    aorta_json_output_end(&json);
}

void aorta_map_schema(struct aorta_json *json) {
    aorta_found_schema(json);
    aorta_rows_schema(map_rows, json);
    aorta_rows_schema_array("parts", part_rows, json);
}
