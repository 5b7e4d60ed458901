#include "report/page_lanes.h"

#include "base/arena.h"
#include "base/array.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

enum aorta_page_kind aorta_page_collective(enum aorta_collective collective) {
    switch (collective) {
    case AORTA_ALL_GATHER:
        return AORTA_PAGE_ALL_GATHER;
    case AORTA_REDUCE_SCATTER:
        return AORTA_PAGE_REDUCE_SCATTER;
    case AORTA_ALL_REDUCE:
        return AORTA_PAGE_ALL_REDUCE;
    default:
        return AORTA_PAGE_OTHER_COLLECTIVE;
    }
}

/* ---- gathering ---- */

static uint64_t hash_of_pair(const char *first, const char *second) {
    return aorta_hash_add((uintptr_t)first, (uintptr_t)second);
}

static uint64_t hash_of(const void *of, uint32_t number) {
    const struct aorta_page_lanes *lanes = of;
    return hash_of_pair(lanes->named[number].first, lanes->named[number].second);
}

static bool is_pair(const void *of, uint32_t number, const void *key) {
    const struct aorta_page_lanes *lanes = of;
    const struct aorta_page_named *named = &lanes->named[number], *wanted = key;
    return named->first == wanted->first && named->second == wanted->second;
}

uint32_t aorta_page_name(struct aorta_page_lanes *lanes, const char *first, const char *second) {
    lanes->names.failed |=
        !aorta_array_fit(&lanes->named, &lanes->named_capacity, lanes->name_count + 1, sizeof *lanes->named) ||
        !aorta_table_reserve(&lanes->table, lanes->name_count + 1, hash_of, lanes);
    if (lanes->names.failed) return 0;
    const struct aorta_page_named pair = {first, second};
    uint32_t *slot = aorta_table_slot(&lanes->table, hash_of_pair(first, second), is_pair, lanes, &pair);
    if (!*slot) {
        struct aorta_text whole = {0};
        struct aorta_json json;
        aorta_text_printf(&whole, "%s%s%s", first, second ? " " : "", second ? second : "");
        if (lanes->name_count) aorta_text_puts(&lanes->names, ",");
        aorta_json_begin(&json, &lanes->names, 0);
        aorta_json_string(&json, whole.data);
        lanes->names.failed |= whole.failed;
        aorta_text_free(&whole);
        lanes->named[lanes->name_count++] = pair;
        *slot = (uint32_t)lanes->name_count;
    }
    return *slot;
}

size_t aorta_page_lane_add(struct aorta_page_lanes *lanes, int rank, const char *label, bool derived) {
    lanes->names.failed |= !aorta_array_fit(&lanes->items, &lanes->capacity, lanes->count + 1, sizeof *lanes->items);
    if (lanes->names.failed) return SIZE_MAX;
    struct aorta_page_lane *added = &lanes->items[lanes->count];
    *added = (struct aorta_page_lane){.rank = rank, .derived = derived};
    strncpy(added->label, label, sizeof added->label - 1);
    return lanes->count++;
}

void aorta_page_span_add(struct aorta_page_lanes *lanes, size_t place, struct aorta_page_span span) {
    struct aorta_page_lane *lane = place == SIZE_MAX ? NULL : &lanes->items[place];
    if (!lane) return;
    lanes->names.failed |= !aorta_array_fit(&lane->spans, &lane->capacity, lane->count + 1, sizeof *lane->spans);
    if (!lanes->names.failed) lane->spans[lane->count++] = span;
}

void aorta_page_step_add(struct aorta_page_lanes *lanes, int64_t start_ns, int64_t number) {
    lanes->names.failed |=
        !aorta_array_fit(&lanes->steps, &lanes->step_capacity, lanes->step_count + 1, sizeof *lanes->steps);
    if (!lanes->names.failed) lanes->steps[lanes->step_count++] = (struct aorta_page_step){start_ns, number};
}

void aorta_page_lanes_cut(struct aorta_page_lanes *lanes, int64_t from_ns, int64_t to_ns) {
    for (size_t i = 0; i < lanes->count; i++) {
        struct aorta_page_lane *lane = &lanes->items[i];
        size_t stays = 0;
        for (size_t j = 0; j < lane->count; j++) {
            struct aorta_page_span span = lane->spans[j];
            if (span.end_ns <= from_ns || span.start_ns >= to_ns) continue;
            if (span.start_ns < from_ns) span.start_ns = from_ns;
            if (span.end_ns > to_ns) span.end_ns = to_ns;
            lane->spans[stays++] = span;
        }
        lane->count = stays;
    }
}

void aorta_page_lanes_free(struct aorta_page_lanes *lanes) {
    for (size_t i = 0; i < lanes->count; i++) free(lanes->items[i].spans);
    free(lanes->items);
    free(lanes->steps);
    free(lanes->named);
    aorta_table_free(&lanes->table);
    aorta_text_free(&lanes->names);
    memset(lanes, 0, sizeof *lanes);
}

/* ---- thinning: neighbours of one kind that are closer than can be seen become one ---- */

static int by_start(const void *left, const void *right) {
    const struct aorta_page_span *a = left, *b = right;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    return (a->end_ns > b->end_ns) - (a->end_ns < b->end_ns);
}

static void sort(struct aorta_page_lane *lane) {
    for (size_t i = 1; i < lane->count; i++)
        if (lane->spans[i].start_ns < lane->spans[i - 1].start_ns) {
            qsort(lane->spans, lane->count, sizeof *lane->spans, by_start);
            return;
        }
}

static bool joins(const struct aorta_page_span *last, const struct aorta_page_span *next, int64_t closer_ns) {
    return last->kind == next->kind && next->start_ns - last->end_ns < closer_ns;
}

static size_t count_joined(const struct aorta_page_lanes *lanes, int64_t closer_ns) {
    size_t count = 0;
    for (size_t i = 0; i < lanes->count; i++) {
        const struct aorta_page_lane *lane = &lanes->items[i];
        for (size_t j = 0; j < lane->count; j++)
            count += j == 0 || !joins(&lane->spans[j - 1], &lane->spans[j], closer_ns);
    }
    return count;
}

static void join(struct aorta_page_lane *lane, int64_t closer_ns) {
    size_t count = 0;
    for (size_t i = 0; i < lane->count; i++) {
        struct aorta_page_span *last = count ? &lane->spans[count - 1] : NULL;
        if (!last || !joins(last, &lane->spans[i], closer_ns)) {
            lane->spans[count++] = lane->spans[i];
            continue;
        }
        if (lane->spans[i].end_ns > last->end_ns) last->end_ns = lane->spans[i].end_ns;
        last->name = 0;
    }
    lane->count = count;
}

/* The distance below which neighbours were joined; 0: none were. */
static int64_t thin(struct aorta_page_lanes *lanes, int64_t length_ns, size_t most) {
    size_t all = 0;
    int64_t closer_ns = 1000;
    for (size_t i = 0; i < lanes->count; i++) all += lanes->items[i].count;
    if (all <= most) return 0;
    while (closer_ns < length_ns && count_joined(lanes, closer_ns) > most) closer_ns *= 2;
    for (size_t i = 0; i < lanes->count; i++) join(&lanes->items[i], closer_ns);
    return closer_ns;
}

/* ---- writing ---- */

/* Seven bits a byte, the lowest first; the eighth says that more follow (as in LEB128). */
static size_t put_number(uint64_t value, unsigned char *bytes) {
    size_t count = 0;
    for (; value >= 0x80; value >>= 7) bytes[count++] = (unsigned char)(value | 0x80);
    bytes[count++] = (unsigned char)value;
    return count;
}

static void put_base64(const unsigned char *bytes, size_t count, char *text) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < count; i += 3, text += 4) {
        const uint32_t three = (uint32_t)bytes[i] << 16 | (i + 1 < count ? (uint32_t)bytes[i + 1] << 8 : 0) |
                               (i + 2 < count ? bytes[i + 2] : 0);
        text[0] = letters[three >> 18];
        text[1] = letters[three >> 12 & 63];
        text[2] = i + 1 < count ? letters[three >> 6 & 63] : '=';
        text[3] = i + 2 < count ? letters[three & 63] : '=';
    }
    *text = '\0';
}

/* For each span: start after the start before it, length, name and kind. */
static void write_spans(const struct aorta_page_lane *lane, int64_t origin_ns, struct aorta_json *json) {
    enum { BYTES_PER_SPAN = 26, KIND_BITS = 4 };
    struct aorta_arena scratch = {0};
    unsigned char *bytes = aorta_arena_raw(&scratch, lane->count * BYTES_PER_SPAN);
    char *text = aorta_arena_raw(&scratch, lane->count * BYTES_PER_SPAN * 4 / 3 + 8);
    size_t length = 0;
    int64_t last_ns = origin_ns;
    for (size_t i = 0; text && i < lane->count; i++) {
        const struct aorta_page_span *span = &lane->spans[i];
        length += put_number((uint64_t)(span->start_ns - last_ns), bytes + length);
        length += put_number((uint64_t)(span->end_ns - span->start_ns), bytes + length);
        length += put_number((uint64_t)span->name << KIND_BITS | span->kind, bytes + length);
        last_ns = span->start_ns;
    }
    if (text) put_base64(bytes, length, text);
    aorta_json_key_string(json, "spans", text);
    json->out->failed |= scratch.failed;
    aorta_arena_free(&scratch);
}

static void find_ends(const struct aorta_page_lanes *lanes, int64_t *start_ns, int64_t *end_ns) {
    *start_ns = INT64_MAX;
    *end_ns = INT64_MIN;
    for (size_t i = 0; i < lanes->count; i++) {
        const struct aorta_page_lane *lane = &lanes->items[i];
        if (lane->count && lane->spans[0].start_ns < *start_ns) *start_ns = lane->spans[0].start_ns;
        for (size_t j = 0; j < lane->count; j++)
            if (lane->spans[j].end_ns > *end_ns) *end_ns = lane->spans[j].end_ns;
    }
    if (*end_ns < *start_ns) *start_ns = *end_ns = 0;
}

void aorta_page_lanes_write(struct aorta_page_lanes *lanes, size_t most, struct aorta_json *json) {
    int64_t start_ns, end_ns;
    for (size_t i = 0; i < lanes->count; i++) sort(&lanes->items[i]);
    find_ends(lanes, &start_ns, &end_ns);
    const int64_t thinned_ns = thin(lanes, end_ns - start_ns, most);
    aorta_json_object(json);
    aorta_json_key_int(json, "length_ns", end_ns - start_ns);
    aorta_json_key_int(json, "thinned_ns", thinned_ns);
    aorta_json_key_array(json, "steps");
    for (size_t i = 0; i < lanes->step_count; i++) {
        aorta_json_array(json);
        aorta_json_int(json, lanes->steps[i].start_ns - start_ns);
        aorta_json_int(json, lanes->steps[i].number);
        aorta_json_array_end(json);
    }
    aorta_json_array_end(json);
    aorta_json_key_array(json, "lanes");
    for (size_t i = 0; i < lanes->count; i++) {
        if (!lanes->items[i].count) continue;
        aorta_json_object(json);
        aorta_json_key_int(json, "rank", lanes->items[i].rank);
        aorta_json_key_string(json, "label", lanes->items[i].label);
        if (lanes->items[i].derived) aorta_json_key_bool(json, "derived", true);
        aorta_json_key_int(json, "count", (int64_t)lanes->items[i].count);
        write_spans(&lanes->items[i], start_ns, json);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
    aorta_json_key_array(json, "names");
    if (lanes->names.length) aorta_text_append(json->out, lanes->names.data, lanes->names.length);
    aorta_json_array_end(json);
    aorta_json_object_end(json);
    json->out->failed |= lanes->names.failed;
}
