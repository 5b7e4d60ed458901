/* The tables of a map: CSV, and columns of the page. */
#include "base/result_table.h"
#include "hwq/map.h"

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
    {"together_ms", AORTA_ROW_NUMBER, AT(together_ms), "ms", .heading = "together ms",
     .help = "median of both at once"},
    {"verdict", AORTA_ROW_TEXT, AT(verdict), .heading = "is", .help = "whether they run at once"},
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
