/* Questions and answers: from single rounds to a verdict for every pair, and to groups. */
#include "hwq/map.h"

#include <math.h>
#include <stdlib.h>

enum {
    MOST_ROUNDS = 60, /* per holder; answers that are an accident now and then settle long before, of few repeats */
};

struct survey {
    const struct aorta_map_survey *options;
    const struct aorta_map_prober *prober;
    struct aorta_map *map;
    int *others; /* [count], of the question at hand */
    bool *held;
};

static struct aorta_map_pair *pair_of(const struct aorta_map *map, int holder, int other) {
    return &map->pairs[(ptrdiff_t)holder * map->count + other];
}

static aorta_status ask(struct survey *survey, int holder, bool behind, int count) {
    survey->map->rounds++;
    return survey->prober->ask(survey->prober->context, holder, behind, survey->others, count, survey->held);
}

static void note(struct survey *survey, struct aorta_map_pair *pair, bool held) {
    bool differs = pair->asked && pair->last != held;
    pair->streak = differs ? 1 : pair->streak + 1;
    pair->asked++;
    pair->held += held;
    pair->last = held;
    pair->differs |= differs;
    if (differs && survey->prober->doubt) survey->prober->doubt(survey->prober->context);
}

static bool is_settled(const struct survey *survey, const struct aorta_map_pair *pair) {
    return pair->streak >= survey->options->repeats;
}

static void judge(const struct survey *survey, struct aorta_map_pair *pair) {
    bool settled = is_settled(survey, pair);
    pair->shared = settled ? pair->last : 2 * pair->held > pair->asked;
}

/* ---- rounds: all others about one holder ---- */

static bool is_row_settled(const struct survey *survey, int holder) {
    for (int other = 0; other < survey->map->count; other++) {
        if (other != holder && !is_settled(survey, pair_of(survey->map, holder, other))) return false;
    }
    return true;
}

static aorta_status ask_row(struct survey *survey, int holder) {
    int count = 0;
    for (int other = 0; other < survey->map->count; other++) {
        if (other != holder) survey->others[count++] = other;
    }
    AORTA_TRY(ask(survey, holder, true, count));
    for (int i = 0; i < count; i++) note(survey, pair_of(survey->map, holder, survey->others[i]), survey->held[i]);
    return NULL;
}

static aorta_status ask_rows(struct survey *survey) {
    const int often = 2 * survey->options->repeats, most = often > MOST_ROUNDS ? often : MOST_ROUNDS;
    for (int round = 0, open = 1; open && round < most; round++) {
        open = 0;
        for (int holder = 0; holder < survey->map->count; holder++) {
            if (is_row_settled(survey, holder)) continue;
            AORTA_TRY(ask_row(survey, holder));
            open++;
        }
    }
    return NULL;
}

static void judge_rows(struct survey *survey) {
    struct aorta_map *map = survey->map;
    for (int holder = 0; holder < map->count; holder++) {
        for (int other = 0; other < map->count; other++) {
            if (other != holder) judge(survey, pair_of(map, holder, other));
        }
    }
}

/* ---- groups ---- */

static bool share(const struct aorta_map *map, int a, int b) {
    return pair_of(map, a, b)->shared && pair_of(map, b, a)->shared;
}

/* Everybody who shares with somebody of the group belongs to it. */
static void spread(struct aorta_map *map, int first, int group) {
    map->streams[first].group = group;
    for (bool grown = true; grown;) {
        grown = false;
        for (int in = 0; in < map->count; in++) {
            if (map->streams[in].group != group) continue;
            for (int out = 0; out < map->count; out++) {
                if (map->streams[out].group >= 0 || out == in || !share(map, in, out)) continue;
                map->streams[out].group = group;
                grown = true;
            }
        }
    }
}

static void make_groups(struct aorta_map *map) {
    map->group_count = map->one_sided = 0;
    map->transitive = true;
    for (int i = 0; i < map->count; i++) map->streams[i].group = -1;
    for (int i = 0; i < map->count; i++) {
        if (map->streams[i].group < 0) spread(map, i, map->group_count++);
    }
    for (int a = 0; a < map->count; a++) {
        for (int b = a + 1; b < map->count; b++) {
            map->one_sided += pair_of(map, a, b)->shared != pair_of(map, b, a)->shared;
            if (map->streams[a].group == map->streams[b].group && !share(map, a, b)) map->transitive = false;
        }
    }
}

static int first_of(const struct aorta_map *map, int group) {
    int first = 0;
    while (map->streams[first].group != group) first++;
    return first;
}

/* ---- pairs alone ---- */

/* A start before the long kernel's end is verifier, so one such answer is enough. Being held back has to come again and
 * again, and twice as often, more patiently, where it was not expected. */
static aorta_status ask_pair(struct survey *survey, int holder, int other, bool behind, bool expected, bool *held) {
    const int wanted = survey->options->repeats * (expected ? 1 : 2);
    *held = true;
    for (int i = 0; i < wanted && *held; i++) {
        if (i >= survey->options->repeats && survey->prober->doubt) survey->prober->doubt(survey->prober->context);
        survey->others[0] = other;
        AORTA_TRY(ask(survey, holder, behind, 1));
        *held = survey->held[0];
    }
    return NULL;
}

static aorta_status verify_pair(struct survey *survey, int holder, int other) {
    struct aorta_map_pair *pair = pair_of(survey->map, holder, other);
    bool held;
    AORTA_TRY(ask_pair(survey, holder, other, true, pair->shared, &held));
    survey->map->pairs_alone++;
    if (held != pair->shared) survey->map->corrected++;
    if (!held && pair->shared) survey->map->busy_only++;
    pair->shared = held;
    return NULL;
}

static aorta_status verify_both(struct survey *survey, int a, int b) {
    AORTA_TRY(verify_pair(survey, a, b));
    return verify_pair(survey, b, a);
}

static aorta_status verify_all(struct survey *survey) {
    for (int a = 0; a < survey->map->count; a++) {
        for (int b = a + 1; b < survey->map->count; b++) AORTA_TRY(verify_both(survey, a, b));
    }
    return NULL;
}

static aorta_status verify_by_representatives(struct survey *survey) {
    struct aorta_map *map = survey->map;
    for (int i = 0; i < map->count; i++) {
        int first = first_of(map, map->streams[i].group);
        if (first != i) AORTA_TRY(verify_both(survey, first, i));
    }
    for (int a = 0; a < map->group_count; a++) {
        for (int b = a + 1; b < map->group_count; b++)
            AORTA_TRY(verify_both(survey, first_of(map, a), first_of(map, b)));
    }
    return NULL;
}

static aorta_status verify(struct survey *survey) {
    if (survey->options->all_pairs) return verify_all(survey);
    AORTA_TRY(verify_by_representatives(survey));
    return survey->map->corrected ? verify_all(survey) : NULL;
}

/* ---- how queues hold back ---- */

static aorta_status find_blocking(struct survey *survey) {
    struct aorta_map *map = survey->map;
    int running = 0, waiting = 0;
    for (int i = 0; i < map->count; i++) {
        int first = first_of(map, map->streams[i].group);
        if (first == i || !share(map, first, i)) continue;
        bool held;
        AORTA_TRY(ask_pair(survey, first, i, false, false, &held));
        running += held;
        waiting += !held;
    }
    if (running || waiting)
        map->blocking =
            !waiting ? AORTA_MAP_BLOCKING_RUNNING : (running ? AORTA_MAP_BLOCKING_MIXED : AORTA_MAP_BLOCKING_WAITING);
    return NULL;
}

static int count_unsettled(const struct survey *survey) {
    int count = 0;
    for (int holder = 0; holder < survey->map->count; holder++) {
        for (int other = 0; other < survey->map->count; other++)
            count += other != holder && !is_settled(survey, pair_of(survey->map, holder, other));
    }
    return count;
}

/* While all streams had work: a stream that holds back h others has a queue with them. Those that hold back nobody have
 * one of their own. */
static double count_busy_queues(const struct aorta_map *map) {
    double queues = 0.0;
    for (int holder = 0; holder < map->count; holder++) {
        int held = 0;
        for (int other = 0; other < map->count; other++) held += other != holder && pair_of(map, holder, other)->shared;
        queues += 1.0 / (1 + held);
    }
    return queues;
}

static aorta_status run(struct survey *survey) {
    struct aorta_map *map = survey->map;
    AORTA_TRY(ask_rows(survey));
    judge_rows(survey);
    map->unsettled = count_unsettled(survey);
    const double busy_queues = count_busy_queues(map);
    make_groups(map);
    AORTA_TRY(verify(survey));
    make_groups(map);
    map->busy_queues = map->busy_only ? (int)lround(busy_queues) : 0;
    return find_blocking(survey);
}

aorta_status aorta_map_find_pairs(const struct aorta_map_survey *options, const struct aorta_map_prober *prober,
                                  struct aorta_map *map) {
    size_t count = (size_t)map->count;
    struct survey survey = {.options = options, .prober = prober, .map = map};
    map->pairs = aorta_arena_alloc(&map->arena, count * count * sizeof *map->pairs);
    survey.others = aorta_arena_alloc(&map->arena, count * sizeof *survey.others);
    survey.held = aorta_arena_alloc(&map->arena, count * sizeof *survey.held);
    if (!map->pairs || !survey.others || !survey.held)
        return AORTA_ERROR(AORTA_MEMORY, "no memory for the map of %zu streams", count);
    return run(&survey);
}
