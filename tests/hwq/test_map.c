/* The map of queues: decisions from planted results, and the whole on the CPU device, where streams share
 * nothing, and on the fake GPU, whose streams share queues as planted. */
#include "check.h"
#include "hwq/map.h"

#include <jansson.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

static const enum aorta_priority normal = AORTA_PRIORITY_NORMAL;

/* ---- decisions from planted results ---- */

struct planted {
    int queue[AORTA_MAP_STREAMS];
    bool runs_hold;         /* a running kernel is enough to block */
    double accidents;       /* share of answers that are late by accident */
    double accidents_later; /* the same after kernels became longer */
    int probes, longer;
    uint64_t random;
    bool one_sided_0_1;  /* 0 blocks 1, not the other way round */
    bool only_when_many; /* 2 is late whenever other streams are probed with it */
};

static bool accident(struct planted *planted) {
    planted->random = planted->random * 6364136223846793005u + 1442695040888963407u;
    double share = planted->longer ? planted->accidents_later : planted->accidents;
    return (double)(planted->random >> 33) / 2147483648.0 < share;
}

static aorta_status run_probe(void *context, int blocker, bool followed, const int *probed, int count, bool *blocked) {
    struct planted *planted = context;
    planted->probes++;
    for (int i = 0; i < count; i++) {
        bool same = planted->queue[probed[i]] == planted->queue[blocker];
        blocked[i] = (same && (followed || planted->runs_hold)) || accident(planted);
        if (planted->one_sided_0_1 && blocker == 1 && probed[i] == 0) blocked[i] = false;
        if (planted->only_when_many && count > 1 && probed[i] == 2) blocked[i] = true;
    }
    return NULL;
}

static void count_longer(void *context) {
    ((struct planted *)context)->longer++;
}

static struct aorta_map find_pairs(struct planted *planted, int count, int repeats, bool all_pairs) {
    struct aorta_map map = {.count = count};
    map.streams = aorta_arena_alloc(&map.arena, (size_t)count * sizeof *map.streams);
    for (int i = 0; i < count; i++) map.streams[i].name = "";
    const struct aorta_map_pair_options options = {repeats, all_pairs};
    const struct aorta_map_probe probe = {planted, run_probe, count_longer};
    check_ok(aorta_map_find_pairs(&options, &probe, &map));
    return map;
}

/* Streams are grouped by their queues, regardless of the queues' numbers. */
static void check_groups(const struct aorta_map *map, const int *queue) {
    for (int a = 0; a < map->count; a++)
        for (int b = 0; b < map->count; b++)
            assert_int_equal(map->streams[a].group == map->streams[b].group, queue[a] == queue[b]);
}

static void plants_are_found(void **state) {
    (void)state;
    enum { STREAMS = 16 };
    for (int queues = 1; queues <= STREAMS; queues++) {
        struct planted planted = {.runs_hold = queues % 2};
        for (int i = 0; i < STREAMS; i++) planted.queue[i] = (i * 7 + i / 5) % queues; /* uneven */
        struct aorta_map map = find_pairs(&planted, STREAMS, 3, false);
        check_groups(&map, planted.queue);
        assert_int_equal(map.unsettled + map.corrected + map.one_sided, 0);
        assert_true(map.transitive);
        enum aorta_map_blocking expected = planted.runs_hold ? AORTA_MAP_BLOCKING_RUNNING : AORTA_MAP_BLOCKING_WAITING;
        assert_int_equal(map.blocking, map.group_count == STREAMS ? AORTA_MAP_BLOCKING_UNKNOWN : expected);
        aorta_map_free(&map);
    }
}

/* Streams 0 and 1 share a queue, 2 has its own: the matrix, and the counts of probes and of blocked results. */
static void counts_are_in_the_json(void **state) {
    struct planted planted = {.queue = {0, 0, 1}};
    struct aorta_text text = {0};
    (void)state;
    struct aorta_map map = find_pairs(&planted, 3, 2, false);
    const struct aorta_device_info device = {.name = "x", .kind = AORTA_DEVICE_CUDA};
    struct aorta_found_list found;
    check_ok(aorta_map_find(&map, &device, &found));
    aorta_map_json(&map, &found, NULL, &device, &text);
    aorta_found_free(&found);
    json_t *root = json_loads(text.data, 0, NULL);
    assert_non_null(root);
    const json_t *asked = json_object_get(root, "asked"), *blocked = json_object_get(root, "held");
    const json_t *matrix = json_object_get(root, "matrix");
    const json_t *fact = json_array_get(json_object_get(root, "facts"), 1);
    assert_string_equal(json_string_value(json_object_get(root, "headline")),
                        "Queues: 3 streams share 2 queues, up to 2 streams on one");
    assert_string_equal(json_string_value(json_object_get(fact, "key")), "queues");
    assert_int_equal(json_number_value(json_object_get(fact, "value")), 2);
    assert_string_equal(json_string_value(json_array_get(matrix, 0)), "\\#.");
    assert_string_equal(json_string_value(json_array_get(matrix, 2)), "..\\");
    assert_int_equal(json_integer_value(json_array_get(json_array_get(asked, 0), 1)), 2);
    assert_int_equal(json_integer_value(json_array_get(json_array_get(blocked, 0), 1)), 2);
    assert_int_equal(json_integer_value(json_array_get(json_array_get(asked, 0), 2)), 2);
    assert_int_equal(json_integer_value(json_array_get(json_array_get(blocked, 0), 2)), 0);
    json_decref(root);
    aorta_text_free(&text);
    aorta_map_free(&map);
}

/* n rounds for each repeat instead of n·(n − 1) probes. */
static void few_probes(void **state) {
    (void)state;
    struct planted planted = {0};
    for (int i = 0; i < 64; i++) planted.queue[i] = i % 4;
    struct aorta_map map = find_pairs(&planted, 64, 3, false);
    assert_int_equal(map.rounds, planted.probes);
    assert_true(planted.probes < 3 * 64 + 2 * 3 * 60 + 12 + 60 + 1);
    assert_int_equal(map.pairs_alone, 2 * 60 + 12);
    aorta_map_free(&map);
    map = find_pairs(&planted, 64, 1, true);
    assert_int_equal(map.pairs_alone, 64 * 63);
    aorta_map_free(&map);
}

/* A busy machine: one answer in twelve is late for no reason that has to do with queues. */
static void accidents_do_not_matter(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct planted planted = {.accidents = 0.08, .accidents_later = 0.08, .random = seed};
        for (int i = 0; i < 12; i++) planted.queue[i] = i % 5;
        struct aorta_map map = find_pairs(&planted, 12, 4, false);
        check_groups(&map, planted.queue);
        assert_true(planted.longer > 0);
        aorta_map_free(&map);
    }
}

static void settles_with_longer_kernels(void **state) {
    (void)state;
    struct planted planted = {.accidents = 0.5, .accidents_later = 0, .random = 7};
    for (int i = 0; i < 8; i++) planted.queue[i] = i;
    struct aorta_map map = find_pairs(&planted, 8, 3, false);
    check_groups(&map, planted.queue);
    assert_int_equal(map.unsettled, 0);
    aorta_map_free(&map);
}

/* As many equal answers in a row as --repeats takes, with a late one on the way. */
static void many_repeats_settle(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct planted planted = {.queue = {0, 1, 0}, .accidents = 0.002, .random = seed};
        struct aorta_map map = find_pairs(&planted, 3, 100, false);
        check_groups(&map, planted.queue);
        assert_int_equal(map.unsettled, 0);
        aorta_map_free(&map);
    }
}

static void say(const struct aorta_map *map, const struct aorta_device_info *device, struct aorta_text *text) {
    struct aorta_found_list found;
    check_ok(aorta_map_find(map, device, &found));
    aorta_map_text(map, &found, NULL, text);
    aorta_found_free(&found);
}

static void an_unstable_map_is_reported(void **state) {
    (void)state;
    struct planted planted = {.accidents = 0.5, .accidents_later = 0.5, .random = 7};
    for (int i = 0; i < 8; i++) planted.queue[i] = i;
    struct aorta_map map = find_pairs(&planted, 8, 12, false);
    assert_true(map.unsettled > 0);
    struct aorta_text text = {0};
    say(&map, &(struct aorta_device_info){.name = "x"}, &text);
    check_ok(aorta_text_check(&text));
    assert_non_null(strstr(text.data, "  not stable  results of "));
    aorta_text_free(&text);
    aorta_map_free(&map);
}

static void one_direction_only(void **state) {
    (void)state;
    struct planted planted = {.one_sided_0_1 = true};
    struct aorta_map map = find_pairs(&planted, 2, 3, false);
    assert_int_equal(map.one_sided, 1);
    assert_int_equal(map.group_count, 2);
    aorta_map_free(&map);
    map = find_pairs(&planted, 4, 3, false); /* all in queue 0: 0 and 1 meet through 2 and 3 */
    assert_int_equal(map.group_count, 1);
    assert_false(map.transitive);
    aorta_map_free(&map);
}

/* Rounds and pairs alone differ: the pairs count. */
static void pairs_alone_correct_rounds(void **state) {
    (void)state;
    struct planted planted = {.only_when_many = true};
    for (int i = 0; i < 6; i++) planted.queue[i] = i == 5 ? 0 : i;
    struct aorta_map map = find_pairs(&planted, 6, 3, true);
    check_groups(&map, planted.queue);
    assert_true(map.corrected > 0);
    assert_true(map.busy_only == map.corrected && map.busy_queues >= 1 && map.busy_queues < 6);
    assert_true(map.pairs_alone >= 6 * 5);
    struct aorta_text text = {0};
    say(&map, &(struct aorta_device_info){.name = "x", .kind = AORTA_DEVICE_CUDA}, &text);
    check_ok(aorta_text_check(&text));
    assert_non_null(strstr(text.data, "blocked only while all streams have work"));
    assert_null(strstr(text.data, "gave another result"));
    aorta_text_free(&text);
    aorta_map_free(&map);
}

/* ---- copies ---- */

static void verdicts_on_copies(void **state) {
    (void)state;
    static const struct {
        struct aorta_map_copy_pair pair;
        enum aorta_map_copies_verdict verdict;
    } cases[] = {
        {{.alone_ms = {1, 1}, .together_ms = 1.1, .first_end_ms = 1.05}, AORTA_MAP_SIDE_BY_SIDE},
        {{.alone_ms = {1, 1}, .together_ms = 2, .first_end_ms = 1}, AORTA_MAP_SERIAL},
        {{.alone_ms = {1, 1}, .together_ms = 2, .first_end_ms = 1.95}, AORTA_MAP_SHARED_BANDWIDTH},
        {{.alone_ms = {1, 0.1}, .together_ms = 1.02, .first_end_ms = 0.2}, AORTA_MAP_SIDE_BY_SIDE},
        {{.alone_ms = {1, 0.1}, .together_ms = 1.1, .first_end_ms = 1}, AORTA_MAP_SERIAL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(aorta_map_copies_evaluate(&cases[i].pair), cases[i].verdict);
    /* On a machine with other work repeats differ, and from call to call one label or another would win. */
    struct aorta_map_copy_pair repeats[5];
    for (int different = 0; different <= 5; different++) {
        for (int i = 0; i < 5; i++) repeats[i] = cases[i < different ? 0 : 1].pair;
        assert_int_equal(aorta_map_copies_decide(repeats, 5), different <= 1   ? AORTA_MAP_SERIAL
                                                              : different >= 4 ? AORTA_MAP_SIDE_BY_SIDE
                                                                               : AORTA_MAP_COPIES_VARY);
    }
}

/* ---- on devices ---- */

static struct aorta_map map_device(enum aorta_device_kind kind, int streams, int copies, const char *queues) {
    if (queues)
        setenv("FAKE_GPU_QUEUES", queues, 1);
    else
        unsetenv("FAKE_GPU_QUEUES");
    struct aorta_device *device;
    check_ok(aorta_device_open(kind, 0, &device));
    const struct aorta_map_options options = {.device = device,
                                              .compute_streams = streams,
                                              .copy_streams = copies,
                                              .priorities = &normal,
                                              .priority_count = 1,
                                              .pairs = {.repeats = 3}};
    struct aorta_map map;
    check_ok(aorta_map_run(&options, &map));
    aorta_device_close(device);
    return map;
}

static void cpu_streams_run_apart(void **state) {
    (void)state;
    struct aorta_map map = map_device(AORTA_DEVICE_CPU, 8, 2, NULL);
    assert_int_equal(map.count, 10);
    assert_int_equal(map.group_count, 10);
    assert_string_equal(map.streams[0].name, "c0");
    assert_string_equal(map.streams[9].name, "copy1");
    aorta_map_free(&map);
}

static void use_fake(const char *path) {
    setenv("AORTA_LIBRARY_PATH", path, 1);
    setenv("AORTA_CACHE_DIR", CACHE, 1);
    setenv("FAKE_GPU_KERNELS", "ignore", 1);
}

static void check_planted(enum aorta_device_kind kind, const char *queues, int streams, int copies, const int *pattern,
                          int length) {
    struct aorta_map map = map_device(kind, streams, copies, queues);
    int queue[AORTA_MAP_STREAMS];
    for (int i = 0; i < map.count; i++) queue[i] = pattern[i % length];
    check_groups(&map, queue);
    enum aorta_map_blocking expected =
        strncmp(queues, "barrier", 7) == 0 ? AORTA_MAP_BLOCKING_RUNNING : AORTA_MAP_BLOCKING_WAITING;
    assert_int_equal(map.blocking, expected);
    aorta_map_free(&map);
}

static void planted_queues_are_found(void **state) {
    (void)state;
    use_fake(FAKES);
    check_planted(AORTA_DEVICE_CUDA, "dispatch:0", 8, 0, (int[]){0}, 1);
    check_planted(AORTA_DEVICE_CUDA, "dispatch:0,1", 8, 0, (int[]){0, 1}, 2);
    check_planted(AORTA_DEVICE_CUDA, "dispatch:0,1,2,3", 8, 2, (int[]){0, 1, 2, 3}, 4);
    check_planted(AORTA_DEVICE_CUDA, "dispatch:0,1,1,2,2,2,2", 8, 2, (int[]){0, 1, 1, 2, 2, 2, 2}, 7);
    check_planted(AORTA_DEVICE_CUDA, "barrier:0,1", 6, 1, (int[]){0, 1}, 2);
    use_fake(FORWARDED);
    check_planted(AORTA_DEVICE_HIP, "barrier:0,1,2,3", 8, 0, (int[]){0, 1, 2, 3}, 4);
}

static void priorities_stay_separate(void **state) {
    (void)state;
    struct aorta_device *device;
    check_ok(aorta_device_open(AORTA_DEVICE_CPU, 0, &device));
    static const enum aorta_priority levels[] = {AORTA_PRIORITY_HIGH, AORTA_PRIORITY_LOW};
    const struct aorta_map_options options = {
        .device = device, .compute_streams = 2, .priorities = levels, .priority_count = 2, .pairs = {.repeats = 2}};
    struct aorta_map map;
    check_ok(aorta_map_run(&options, &map));
    assert_string_equal(map.streams[1].name, "high.c1");
    assert_string_equal(map.streams[2].name, "low.c0");
    assert_int_equal(map.streams[2].priority, AORTA_PRIORITY_LOW);
    aorta_map_free(&map);
    aorta_device_close(device);
}

static void communication_streams(void **state) {
    (void)state;
    struct aorta_device *device;
    struct aorta_comm *comm;
    check_ok(aorta_device_open(AORTA_DEVICE_CPU, 0, &device));
    const struct aorta_comm_options group = {
        .device = device, .backend = "local", .ranks = {.world_size = 1, .local_world_size = 1}, .timeout_s = 10};
    check_ok(aorta_comm_open(&group, &comm));
    struct aorta_map_options options = {.device = device,
                                        .comm = comm,
                                        .compute_streams = 2,
                                        .comm_streams = 1,
                                        .priorities = &normal,
                                        .priority_count = 1,
                                        .pairs = {.repeats = 2}};
    struct aorta_map map;
    check_ok(aorta_map_run(&options, &map));
    assert_string_equal(map.streams[2].name, "comm0");
    assert_string_equal(map.comm_backend, "local");
    assert_int_equal(map.streams[2].role, AORTA_MAP_COMM);
    assert_int_equal(map.group_count, 3);
    aorta_map_free(&map);
    options.compute_streams = 1, options.comm_streams = 0;
    check_fails(aorta_map_run(&options, &map), AORTA_USAGE, "2 to 256 streams");
    aorta_comm_close(comm);
    aorta_device_close(device);
}

static void copies_are_measured(void **state) {
    (void)state;
    struct aorta_device *device;
    struct aorta_map_copies copies;
    check_ok(aorta_device_open(AORTA_DEVICE_CPU, 0, &device));
    check_ok(aorta_map_copies_measure(device, 1 << 10, 100 + 2, &copies)); /* the most for --repeats */
    check_ok(aorta_map_copies_measure(device, 1 << 20, 3, &copies));
    for (int i = 0; i < AORTA_MAP_COPY_PAIRS; i++) {
        const struct aorta_map_copy_pair *pair = &copies.pairs[i];
        assert_true(pair->alone_ms[0] > 0 && pair->alone_ms[1] > 0);
        assert_true(pair->together_ms >= pair->first_end_ms && pair->first_end_ms > 0);
    }
    check_fails(aorta_map_copies_measure(device, 1 << 20, 0, &copies), AORTA_USAGE, "1 to 128 times, not 0");
    aorta_device_close(device);
}

static long away_ns;

/* Replaces the C library's: a thread that yields the processor may get it back late. */
int sched_yield(void) {
    const struct timespec away = {away_ns / 1000000000, away_ns % 1000000000};
    return nanosleep(&away, NULL);
}

/* Copies' ends are seen by the host: one that comes back after the long kernel's end has not seen that they waited. */
static void a_late_host_is_no_queue(void **state) {
    (void)state;
    use_fake(FAKES);
    away_ns = 21000000;
    struct aorta_map map = map_device(AORTA_DEVICE_CUDA, 1, 3, "dispatch:0,1,2,3");
    away_ns = 0;
    check_groups(&map, (int[]){0, 1, 2, 3});
    aorta_map_free(&map);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plants_are_found),
        cmocka_unit_test(counts_are_in_the_json),
        cmocka_unit_test(few_probes),
        cmocka_unit_test(accidents_do_not_matter),
        cmocka_unit_test(settles_with_longer_kernels),
        cmocka_unit_test(an_unstable_map_is_reported),
        cmocka_unit_test(one_direction_only),
        cmocka_unit_test(pairs_alone_correct_rounds),
        cmocka_unit_test(verdicts_on_copies),
        cmocka_unit_test(cpu_streams_run_apart),
        cmocka_unit_test(priorities_stay_separate),
        cmocka_unit_test(communication_streams),
        cmocka_unit_test(copies_are_measured),
        cmocka_unit_test(planted_queues_are_found),
        cmocka_unit_test(a_late_host_is_no_queue),
        cmocka_unit_test(many_repeats_settle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
