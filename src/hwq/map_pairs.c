/* From the results of single probes to a decision for every pair, and to groups. */
#include "hwq/map.h"

#include <math.h>

enum {
    MOST_ROUNDS = 60, /* per blocker; with few repeats most pairs settle long before */
};

struct search {
    const struct aorta_map_pair_options *options;
    const struct aorta_map_probe *probe;
    struct aorta_map *map;
    int *probed; /* [count], of the current probe */
    bool *blocked;
};

static aorta_status run_probe(struct search *search, int blocker, bool followed, int count) {
    search->map->rounds++;
    return search->probe->run(search->probe->context, blocker, followed, search->probed, count, search->blocked);
}

static void add_result(struct search *search, struct aorta_map_pair *pair, bool blocked) {
    bool differs = pair->probes && pair->last != blocked;
    pair->streak = differs ? 1 : pair->streak + 1;
    pair->probes++;
    pair->blocked += blocked;
    pair->last = blocked;
    pair->differs |= differs;
    if (differs && search->probe->lengthen) search->probe->lengthen(search->probe->context);
}

static bool is_settled(const struct search *search, const struct aorta_map_pair *pair) {
    return pair->streak >= search->options->repeats;
}

/* ---- rounds: all other streams against one blocker ---- */

static bool is_row_settled(const struct search *search, int blocker) {
    for (int other = 0; other < search->map->count; other++)
        if (other != blocker && !is_settled(search, aorta_map_pair_of(search->map, blocker, other))) return false;
    return true;
}

static aorta_status probe_row(struct search *search, int blocker) {
    int count = 0;
    for (int other = 0; other < search->map->count; other++)
        if (other != blocker) search->probed[count++] = other;
    AORTA_TRY(run_probe(search, blocker, true, count));
    for (int i = 0; i < count; i++)
        add_result(search, aorta_map_pair_of(search->map, blocker, search->probed[i]), search->blocked[i]);
    return NULL;
}

static aorta_status probe_rows(struct search *search) {
    const int often = 2 * search->options->repeats, most = often > MOST_ROUNDS ? often : MOST_ROUNDS;
    for (int round = 0, open = 1; open && round < most; round++) {
        open = 0;
        for (int blocker = 0; blocker < search->map->count; blocker++) {
            if (is_row_settled(search, blocker)) continue;
            AORTA_TRY(probe_row(search, blocker));
            open++;
        }
    }
    return NULL;
}

/* Pairs whose results never repeated often enough are decided by majority. */
static void decide_rows(struct search *search) {
    struct aorta_map *map = search->map;
    for (int blocker = 0; blocker < map->count; blocker++)
        for (int other = 0; other < map->count; other++) {
            struct aorta_map_pair *pair = aorta_map_pair_of(map, blocker, other);
            if (other == blocker) continue;
            const bool settled = is_settled(search, pair);
            map->unsettled += !settled;
            pair->shared = settled ? pair->last : 2 * pair->blocked > pair->probes;
        }
}

/* ---- groups ---- */

static bool share(const struct aorta_map *map, int a, int b) {
    return aorta_map_pair_of(map, a, b)->shared && aorta_map_pair_of(map, b, a)->shared;
}

/* Every stream that shares with one of the group belongs to it. */
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
    for (int i = 0; i < map->count; i++)
        if (map->streams[i].group < 0) spread(map, i, map->group_count++);
    for (int a = 0; a < map->count; a++) {
        for (int b = a + 1; b < map->count; b++) {
            map->one_sided += aorta_map_pair_of(map, a, b)->shared != aorta_map_pair_of(map, b, a)->shared;
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

/* One start before the long kernel's end is enough. A blocked result has to repeat, twice as often and with longer
 * kernels where it was not expected. */
static aorta_status probe_pair(struct search *search, int blocker, int other, bool followed, bool expected,
                               bool *blocked) {
    const int wanted = search->options->repeats * (expected ? 1 : 2);
    *blocked = true;
    for (int i = 0; i < wanted && *blocked; i++) {
        if (i >= search->options->repeats && search->probe->lengthen) search->probe->lengthen(search->probe->context);
        search->probed[0] = other;
        AORTA_TRY(run_probe(search, blocker, followed, 1));
        *blocked = search->blocked[0];
    }
    return NULL;
}

static aorta_status verify_pair(struct search *search, int blocker, int other) {
    struct aorta_map_pair *pair = aorta_map_pair_of(search->map, blocker, other);
    bool blocked;
    AORTA_TRY(probe_pair(search, blocker, other, true, pair->shared, &blocked));
    search->map->pairs_alone++;
    if (blocked != pair->shared) search->map->corrected++;
    if (!blocked && pair->shared) search->map->busy_only++;
    pair->shared = blocked;
    return NULL;
}

static aorta_status verify_both(struct search *search, int a, int b) {
    AORTA_TRY(verify_pair(search, a, b));
    return verify_pair(search, b, a);
}

static aorta_status verify_all(struct search *search) {
    for (int a = 0; a < search->map->count; a++)
        for (int b = a + 1; b < search->map->count; b++) AORTA_TRY(verify_both(search, a, b));
    return NULL;
}

static aorta_status verify_by_representatives(struct search *search) {
    struct aorta_map *map = search->map;
    for (int i = 0; i < map->count; i++) {
        int first = first_of(map, map->streams[i].group);
        if (first != i) AORTA_TRY(verify_both(search, first, i));
    }
    for (int a = 0; a < map->group_count; a++)
        for (int b = a + 1; b < map->group_count; b++)
            AORTA_TRY(verify_both(search, first_of(map, a), first_of(map, b)));
    return NULL;
}

static aorta_status verify(struct search *search) {
    if (search->options->all_pairs) return verify_all(search);
    AORTA_TRY(verify_by_representatives(search));
    return search->map->corrected ? verify_all(search) : NULL;
}

/* ---- what blocks queues ---- */

static aorta_status find_blocking(struct search *search) {
    struct aorta_map *map = search->map;
    int running = 0, waiting = 0;
    for (int i = 0; i < map->count; i++) {
        int first = first_of(map, map->streams[i].group);
        if (first == i || !share(map, first, i)) continue;
        bool blocked;
        AORTA_TRY(probe_pair(search, first, i, false, false, &blocked));
        running += blocked;
        waiting += !blocked;
    }
    if (running || waiting)
        map->blocking =
            !waiting ? AORTA_MAP_BLOCKING_RUNNING : (running ? AORTA_MAP_BLOCKING_MIXED : AORTA_MAP_BLOCKING_WAITING);
    return NULL;
}

/* While all streams had work, a stream that blocked h streams shared a queue with them. */
static double count_busy_queues(const struct aorta_map *map) {
    double queues = 0.0;
    for (int blocker = 0; blocker < map->count; blocker++) {
        int blocked = 0;
        for (int other = 0; other < map->count; other++)
            blocked += other != blocker && aorta_map_pair_of(map, blocker, other)->shared;
        queues += 1.0 / (1 + blocked);
    }
    return queues;
}

static aorta_status run(struct search *search) {
    struct aorta_map *map = search->map;
    AORTA_TRY(probe_rows(search));
    decide_rows(search);
    const double busy_queues = count_busy_queues(map);
    make_groups(map);
    AORTA_TRY(verify(search));
    make_groups(map);
    map->busy_queues = map->busy_only ? (int)lround(busy_queues) : 0;
    return find_blocking(search);
}

aorta_status aorta_map_find_pairs(const struct aorta_map_pair_options *options, const struct aorta_map_probe *probe,
                                  struct aorta_map *map) {
    size_t count = (size_t)map->count;
    struct search search = {.options = options, .probe = probe, .map = map};
    map->pairs = aorta_arena_alloc(&map->arena, count * count * sizeof *map->pairs);
    search.probed = aorta_arena_alloc(&map->arena, count * sizeof *search.probed);
    search.blocked = aorta_arena_alloc(&map->arena, count * sizeof *search.blocked);
    if (!map->pairs || !search.probed || !search.blocked)
        return AORTA_ERROR(AORTA_MEMORY, "no memory for the map of %zu streams", count);
    return run(&search);
}
