#include "base/array.h"
#include "formats/kineto_read_internal.h"

#include <stdlib.h>
#include <string.h>

/* A text, or the letters of another value as they stand. */
uint32_t aorta_trace_kineto_text(struct trace_kineto *kineto, struct aorta_json_value value) {
    if (!value.length) return AORTA_TRACE_NONE;
    struct aorta_json_value text = value;
    if (aorta_json_is_string(value) && !aorta_json_get_string(value, &kineto->scratch, &text)) return AORTA_TRACE_NONE;
    return aorta_trace_builder_text(kineto->builder, text.text, text.length);
}

int64_t aorta_trace_kineto_int(struct trace_kineto *kineto, struct aorta_json_value value, int64_t offset) {
    int64_t number;
    if (!value.length) return -1;
    if (aorta_json_get_int(value, &number)) return number;
    aorta_trace_builder_warn(kineto->builder, AORTA_REASON_ODD_VALUE, offset);
    return -1;
}

static int32_t small_int(struct trace_kineto *kineto, struct aorta_json_value value, int64_t offset) {
    int64_t number = aorta_trace_kineto_int(kineto, value, offset);
    return number >= INT32_MIN && number <= INT32_MAX ? (int32_t)number : -1;
}

/* Ranks stand in a list, or in a text that looks like one; long ones are cut ("[0, 1, ..., 63]") and so not known. */
static bool get_ranks(struct aorta_json_value value, int32_t **ranks, size_t *count) {
    if (aorta_json_is_string(value)) value = (struct aorta_json_value){value.text + 1, value.length - 2};
    struct aorta_json_cursor cursor = aorta_json_elements(value);
    struct aorta_json_value element;
    size_t capacity = 0;
    *ranks = NULL;
    *count = 0;
    while (aorta_json_next_element(&cursor, &element)) {
        int64_t rank;
        if (!aorta_json_get_int(element, &rank) || rank < 0 || rank > INT32_MAX) break;
        if (!aorta_array_fit(ranks, &capacity, *count + 1, sizeof **ranks)) break;
        (*ranks)[(*count)++] = (int32_t)rank;
    }
    if (*count && aorta_json_well_formed(&cursor)) return true;
    free(*ranks);
    *ranks = NULL;
    return false;
}

static uint32_t get_group(struct trace_kineto *kineto, const struct kineto_event *event, int32_t size) {
    const struct aorta_json_value *argument = event->argument;
    struct aorta_json_value list = argument[ARGUMENT_GROUP_RANKS];
    uint32_t name = aorta_trace_kineto_text(kineto, argument[ARGUMENT_GROUP_NAME]);
    uint32_t description = aorta_trace_kineto_text(kineto, argument[ARGUMENT_GROUP_DESCRIPTION]);
    if (name == AORTA_TRACE_NONE && description == AORTA_TRACE_NONE && !list.length) return AORTA_TRACE_NONE;
    int32_t *ranks = NULL;
    size_t count = 0;
    if (list.length) (void)get_ranks(list, &ranks, &count);
    uint32_t group = aorta_trace_builder_group(kineto->builder, name, description, size, ranks, count);
    free(ranks);
    return group;
}

bool aorta_trace_kineto_extents(struct aorta_json_value list, int64_t extents[3]) {
    struct aorta_json_cursor cursor = aorta_json_elements(list);
    struct aorta_json_value extent;
    int count = 0;
    while (aorta_json_next_element(&cursor, &extent))
        if (count == 3 || !aorta_json_get_int(extent, &extents[count++])) return false;
    return count == 3;
}

/* Thread blocks of the grid: its extents multiplied. */
static int64_t get_blocks(struct aorta_json_value grid) {
    int64_t extents[3], blocks = 1;
    if (!aorta_trace_kineto_extents(grid, extents)) return -1;
    for (int axis = 0; axis < 3; axis++)
        if (extents[axis] < 0 || __builtin_mul_overflow(blocks, extents[axis], &blocks)) return -1;
    return blocks;
}

/* "[]" says that the parts are equal. */
static uint32_t splits_text(struct trace_kineto *kineto, struct aorta_json_value value) {
    if (value.length < 2 || value.length <= 4) return AORTA_TRACE_NONE; /* [], "[]" */
    return aorta_trace_kineto_text(kineto, value);
}

/* "recv", "irecv" */
static bool is_receive(struct aorta_json_value name) {
    return memmem(name.text, name.length, "recv", 4) != NULL;
}

bool aorta_trace_kineto_collective_facts(struct trace_kineto *kineto, const struct kineto_event *event,
                                         struct aorta_trace_collective *collective) {
    const struct aorta_json_value *argument = event->argument;
    if (!argument[ARGUMENT_COLLECTIVE].length) return false;
    int64_t offset = event->offset;
    int32_t size = small_int(kineto, argument[ARGUMENT_GROUP_SIZE], offset);
    const int32_t to = small_int(kineto, argument[ARGUMENT_TARGET_RANK], offset);
    const int32_t from = small_int(kineto, argument[ARGUMENT_SOURCE_RANK], offset);
    const bool receives = is_receive(argument[ARGUMENT_COLLECTIVE]);
    const int32_t peer = (receives && from >= 0) || to < 0 ? from : to;
    *collective = (struct aorta_trace_collective){
        .in_elements = aorta_trace_kineto_int(kineto, argument[ARGUMENT_IN_ELEMENTS], offset),
        .out_elements = aorta_trace_kineto_int(kineto, argument[ARGUMENT_OUT_ELEMENTS], offset),
        .bytes = -1,
        .sequence = aorta_trace_kineto_int(kineto, argument[ARGUMENT_SEQUENCE], offset),
        .blocks = get_blocks(argument[ARGUMENT_GRID]),
        .name = aorta_trace_kineto_text(kineto, argument[ARGUMENT_COLLECTIVE]),
        .dtype = aorta_trace_kineto_text(kineto, argument[ARGUMENT_DTYPE]),
        .group = get_group(kineto, event, size),
        .communicator = aorta_trace_kineto_text(kineto, argument[ARGUMENT_COMMUNICATOR]),
        .in_splits = splits_text(kineto, argument[ARGUMENT_IN_SPLITS]),
        .out_splits = splits_text(kineto, argument[ARGUMENT_OUT_SPLITS]),
        .annotation = AORTA_TRACE_NONE,
        .group_size = size,
        .peer = peer,
        .simulated = argument[ARGUMENT_SIMULATED].length == 4 && !memcmp(argument[ARGUMENT_SIMULATED].text, "true", 4),
    };
    return true;
}
