/* The page: page/page.html with the analysis and the lanes of its timeline put in. */
#include "base/json.h"
#include "report/trace_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const char aorta_trace_page[]; /* made from page/page.html */

enum { MOST_ITEMS = 60000, LANES_PER_RANK = 16, MOST_LANES = 128 };

/* What is drawn in one piece: work of one class on one stream. */
struct item {
    int64_t start_ns, end_ns; /* common clock */
    uint32_t name;            /* text; NONE: several */
    int kind;                 /* as in page.html: compute, collective, copy, fill */
};

struct lane {
    const struct aorta_trace_rank *rank;
    int64_t shift_ns;
    uint32_t stream; /* row */
    struct item *items;
    size_t count;
};

struct picture {
    struct lane lanes[MOST_LANES];
    size_t lane_count;
    int64_t start_ns, end_ns;
    int64_t thinned_ns;
};

static int kind_of(const struct aorta_trace_work *work) {
    if (work->kind == AORTA_TRACE_COPY) return 2;
    if (work->kind == AORTA_TRACE_FILL) return 3;
    return aorta_trace_is_collective(work) ? 1 : 0;
}

/* ---- gathering ---- */

/* Busiest streams first, as in the table. */
static void choose_lanes(const struct aorta_trace_analysis *analysis, struct picture *picture) {
    picture->start_ns = INT64_MAX;
    picture->end_ns = INT64_MIN;
    for (size_t i = 0; i < analysis->rank_count; i++) {
        const struct aorta_trace_rank *rank = &analysis->ranks[i];
        int64_t shift_ns = analysis->alignment.clocks[i].shift_ns;
        if (rank->figures.start_ns - shift_ns < picture->start_ns)
            picture->start_ns = rank->figures.start_ns - shift_ns;
        if (rank->figures.end_ns - shift_ns > picture->end_ns) picture->end_ns = rank->figures.end_ns - shift_ns;
        for (size_t j = 0; j < rank->stream_count && j < LANES_PER_RANK && picture->lane_count < MOST_LANES; j++)
            picture->lanes[picture->lane_count++] =
                (struct lane){.rank = rank, .shift_ns = shift_ns, .stream = rank->streams[j].row};
    }
}

static void fill_lanes(struct lane *lanes, size_t count, struct lane **lane_of) {
    const struct aorta_trace_rank *rank = lanes[0].rank;
    for (size_t i = 0; i < count; i++) lane_of[lanes[i].stream] = &lanes[i];
    for (size_t i = 0; i < rank->work_count; i++) {
        const struct aorta_trace_work *work = &rank->work[i];
        struct lane *lane = work->stream == AORTA_TRACE_NONE ? NULL : lane_of[work->stream];
        if (lane)
            lane->items[lane->count++] = (struct item){work->start_ns - lane->shift_ns, work->end_ns - lane->shift_ns,
                                                       work->name, kind_of(work)};
    }
}

static aorta_status gather(struct picture *picture) {
    for (size_t i = 0; i < picture->lane_count;) {
        const struct aorta_trace_rank *rank = picture->lanes[i].rank;
        size_t same = 0;
        struct lane **lane_of = calloc(rank->trace->stream_count + 1, sizeof(*lane_of));
        bool failed = !lane_of;
        for (; i + same < picture->lane_count && picture->lanes[i + same].rank == rank; same++) {
            picture->lanes[i + same].items = malloc((rank->streams[same].count + 1) * sizeof(struct item));
            failed |= !picture->lanes[i + same].items;
        }
        if (!failed) fill_lanes(&picture->lanes[i], same, lane_of);
        free(lane_of);
        if (failed) return AORTA_ERROR(AORTA_MEMORY, "no memory to draw %zu kernels", rank->work_count);
        i += same;
    }
    return NULL;
}

/* ---- thinning: neighbours of one class that are closer than can be seen become one ---- */

static bool joins(const struct item *last, const struct item *next, int64_t closer_ns) {
    return last->kind == next->kind && next->start_ns - last->end_ns < closer_ns;
}

static size_t count_joined(const struct picture *picture, int64_t closer_ns) {
    size_t count = 0;
    for (size_t i = 0; i < picture->lane_count; i++) {
        const struct lane *lane = &picture->lanes[i];
        for (size_t j = 0; j < lane->count; j++)
            count += j == 0 || !joins(&lane->items[j - 1], &lane->items[j], closer_ns);
    }
    return count;
}

static void join(struct lane *lane, int64_t closer_ns) {
    size_t count = 0;
    for (size_t i = 0; i < lane->count; i++) {
        struct item *last = count ? &lane->items[count - 1] : NULL;
        if (!last || !joins(last, &lane->items[i], closer_ns)) {
            lane->items[count++] = lane->items[i];
            continue;
        }
        if (lane->items[i].end_ns > last->end_ns) last->end_ns = lane->items[i].end_ns;
        last->name = AORTA_TRACE_NONE;
    }
    lane->count = count;
}

static void thin(struct picture *picture) {
    size_t all = 0;
    for (size_t i = 0; i < picture->lane_count; i++) all += picture->lanes[i].count;
    if (all <= MOST_ITEMS) return;
    int64_t length_ns = picture->end_ns - picture->start_ns;
    for (picture->thinned_ns = 1000; picture->thinned_ns < length_ns; picture->thinned_ns *= 2)
        if (count_joined(picture, picture->thinned_ns) <= MOST_ITEMS) break;
    for (size_t i = 0; i < picture->lane_count; i++) join(&picture->lanes[i], picture->thinned_ns);
}

/* ---- writing ---- */

/* Names are written once for each trace, in the order in which they come. */
struct names {
    const struct aorta_trace *trace;
    int64_t *number; /* of each text; -1: not yet */
};

static aorta_status write_items(struct aorta_json *json, const struct picture *picture, const struct lane *lane,
                                struct names *names, struct aorta_json *list, int64_t *named) {
    if (names->trace != lane->rank->trace) {
        size_t texts = aorta_trace_text_count(lane->rank->trace);
        free(names->number);
        names->trace = lane->rank->trace;
        names->number = malloc((texts + 1) * sizeof *names->number);
        if (!names->number) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu names", texts);
        for (size_t i = 0; i < texts; i++) names->number[i] = -1;
    }
    for (size_t i = 0; i < lane->count; i++) {
        const struct item *item = &lane->items[i];
        int64_t *number = item->name == AORTA_TRACE_NONE ? NULL : &names->number[item->name];
        if (number && *number < 0) {
            *number = (*named)++;
            aorta_json_string(list, aorta_trace_text(names->trace, item->name));
        }
        aorta_json_array(json);
        aorta_json_int(json, item->start_ns - picture->start_ns);
        aorta_json_int(json, item->end_ns - item->start_ns);
        aorta_json_int(json, number ? *number : -1);
        aorta_json_int(json, item->kind);
        aorta_json_array_end(json);
    }
    return NULL;
}

static void begin_lane(struct aorta_json *json, const struct lane *lane, bool ranks) {
    char label[64], rank[32] = "";
    if (ranks) snprintf(rank, sizeof rank, "rank %d, ", lane->rank->rank);
    snprintf(label, sizeof label, "%sstream %lld", rank, (long long)lane->rank->trace->streams[lane->stream].id);
    aorta_json_object(json);
    aorta_json_key_string(json, "label", label);
    aorta_json_key_array(json, "items");
}

static aorta_status write_picture(const struct picture *picture, bool ranks, struct aorta_text *out) {
    struct aorta_json json, list;
    struct aorta_text texts = {0};
    struct names names = {0};
    int64_t named = 0;
    aorta_status status = NULL;
    aorta_json_begin(&list, &texts, 0);
    aorta_json_array(&list);
    aorta_json_begin(&json, out, 0);
    aorta_json_object(&json);
    aorta_json_key_int(&json, "length_ns",
                       picture->end_ns > picture->start_ns ? picture->end_ns - picture->start_ns : 1);
    aorta_json_key_int(&json, "thinned_ns", picture->thinned_ns);
    aorta_json_key_array(&json, "lanes");
    for (size_t i = 0; !status && i < picture->lane_count; i++) {
        begin_lane(&json, &picture->lanes[i], ranks);
        status = write_items(&json, picture, &picture->lanes[i], &names, &list, &named);
        aorta_json_array_end(&json);
        aorta_json_object_end(&json);
    }
    aorta_json_array_end(&json);
    aorta_json_array_end(&list);
    if (!status) status = aorta_text_check(&texts);
    if (!status) {
        aorta_text_puts(out, ",\"names\":");
        aorta_text_puts(out, texts.data);
    }
    aorta_json_object_end(&json);
    aorta_text_free(&texts);
    free(names.number);
    return status;
}

static aorta_status draw(const struct aorta_trace_analysis *analysis, struct aorta_text *out) {
    struct picture *picture = calloc(1, sizeof *picture);
    if (!picture) return AORTA_ERROR(AORTA_MEMORY, "no memory for the page");
    choose_lanes(analysis, picture);
    aorta_status status = gather(picture);
    if (!status) {
        thin(picture);
        status = write_picture(picture, analysis->rank_count > 1, out);
    }
    for (size_t i = 0; i < picture->lane_count; i++) free(picture->lanes[i].items);
    free(picture);
    return status;
}

/* A "<" within JSON can only stand in a string: escaped, no text of a trace can end the script element. */
static void put_safely(struct aorta_text *out, const struct aorta_text *json) {
    const char *at = json->data;
    for (const char *next; (next = strchr(at, '<')); at = next + 1) {
        aorta_text_append(out, at, (size_t)(next - at));
        aorta_text_puts(out, "\\u003c");
    }
    aorta_text_puts(out, at);
}

aorta_status aorta_trace_report_html(const struct aorta_trace_report *report, struct aorta_text *out) {
    static const char first_mark[] = "@ANALYSIS@", second_mark[] = "@LANES@";
    struct aorta_text figures = {0}, lanes = {0};
    const char *first = strstr(aorta_trace_page, first_mark), *second = strstr(aorta_trace_page, second_mark);
    aorta_trace_report_json(report, 0, &figures);
    aorta_status status = draw(report->analysis, &lanes);
    if (!status) status = aorta_text_check(&figures);
    if (!status) status = aorta_text_check(&lanes);
    if (!status) {
        aorta_text_append(out, aorta_trace_page, (size_t)(first - aorta_trace_page));
        put_safely(out, &figures);
        aorta_text_append(out, first + strlen(first_mark), (size_t)(second - first) - strlen(first_mark));
        put_safely(out, &lanes);
        aorta_text_puts(out, second + strlen(second_mark));
    }
    aorta_text_free(&figures);
    aorta_text_free(&lanes);
    return status ? status : aorta_text_check(out);
}
