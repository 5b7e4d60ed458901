#include "check.h"
#include "measure/run_files.h"
#include "workspace.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static struct aorta_log silent(void) {
    return (struct aorta_log){.level = AORTA_LOG_ERROR, .rank = -1};
}

/* The original toolkit's sample; the figures come from a separate program on its own interval unions. */
static void original_sample(void **state) {
    (void)state;
    static const struct {
        int64_t ranges, span, compute, comm, copy, busy, overlap, all_gather, reduce_scatter, aux;
    } expected[] = {
        {31, 1285337468, 1283475671, 4588562, 897408, 1284373079, 4588562, 3332457, 1256105, 139373176},
        {31, 80413021, 80085116, 3423524, 150080, 80235196, 3423524, 2365055, 1058469, 5704420},
        {31, 65370404, 65000421, 4251351, 170336, 65170757, 4251351, 3183643, 1067708, 6300603},
    };
    struct aorta_log log = silent();
    struct aorta_run run;
    check_ok(aorta_run_read(TEST_DATA "/original", "x", 0, &log, &run));
    assert_true(run.original);
    assert_int_equal(run.world_size, 2);
    assert_int_equal(run.rank_count, 1);
    assert_int_equal(run.step_count, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct aorta_step_metrics *step = &run.steps[i];
        const struct aorta_overlap *o = &step->profile->overlap;
        assert_int_equal(step->global_step, i);
        assert_int_equal(step->profile->range_count, expected[i].ranges);
        assert_int_equal(o->span_ns, expected[i].span);
        assert_int_equal(o->compute_ns, expected[i].compute);
        assert_int_equal(o->comm_ns, expected[i].comm);
        assert_int_equal(o->memcpy_ns, expected[i].copy);
        assert_int_equal(o->busy_ns, expected[i].busy);
        assert_int_equal(o->overlap_ns, expected[i].overlap);
        assert_int_equal(o->kind[AORTA_ALL_GATHER].overlap_ns, expected[i].all_gather);
        assert_int_equal(o->kind[AORTA_REDUCE_SCATTER].overlap_ns, expected[i].reduce_scatter);
        assert_int_equal(o->role_ns[AORTA_ROLE_AUX], expected[i].aux);
        assert_int_equal(o->idle.ns[AORTA_IDLE_UNKNOWN], o->idle_ns); /* no launch times */
        assert_int_equal(o->lead_ns, 0);
        assert_true(step->profile->own_clock);
    }
    assert_true(fabs(run.steps[0].loss - 0.3508031368255615) < 1e-16);
    assert_true(isnan(run.steps[0].samples_per_s));
    assert_string_equal(run.steps[1].profile->ranges[0].info.function, "prefetch");
    aorta_run_free(&run);
}

/* What the writer writes, the reader reads: every range and figure to the nanosecond. */
static void round_trip(void **state) {
    (void)state;
    struct workspace workspace = workspace_make();
    workspace_run(&workspace, 0, 1, 4, 10000000);
    struct aorta_log log = silent();
    struct aorta_run run;
    check_ok(aorta_run_read(workspace.path, "x", 0, &log, &run));
    assert_false(run.original);
    assert_string_equal(run.device, "cpu");
    assert_int_equal(run.step_count, 4);
    for (int i = 0; i < 4; i++) {
        const struct aorta_step_metrics *step = &run.steps[i];
        const struct aorta_range *range = step->profile->ranges;
        int64_t t = 1000000000000 + i * (int64_t)50000000;
        assert_int_equal(step->profile->start_ns, t);
        assert_int_equal(range[0].enqueue_ns, t - 5000);
        assert_int_equal(range[0].info.layer, -1);
        assert_int_equal(range[1].start_ns, t + 500000);
        assert_int_equal(range[1].info.collective, AORTA_ALL_GATHER);
        assert_int_equal(range[1].info.bytes, 4096);
        assert_int_equal(range[1].info.group_stride, 2);
        assert_int_equal(range[1].stream, 1);
        assert_int_equal(range[2].start_ns, t + 2000123);
        assert_int_equal(range[2].end_ns, t + 12000123 + i * 10000);
        assert_true(range[2].info.flops == 5e8);
        assert_int_equal(step->profile->overlap.exposed_comm_ns, 1000000);
        assert_int_equal(step->profile->overlap.idle.ns[AORTA_IDLE_LAUNCH_LATENCY], i ? 123 + 5000 : 123);
        assert_int_equal(step->profile->overlap.lead_ns, i ? 50000000 - 12000123 - (i - 1) * 10000 : 0);
        assert_true(fabs(step->loss - (0.7 - 0.001 * i)) < 1e-16);
        assert_true(isnan(step->step_ms));
    }
    aorta_run_free(&run);
    workspace_remove(&workspace);
}

/* The third of three steps, the second of which has no profile, or an empty one. */
static int64_t lead_of_third(bool empty) {
    struct workspace workspace = workspace_make();
    workspace_run(&workspace, 0, 1, 3, 10000000);
    char *text = workspace_read(&workspace, "rank_00_metrics.jsonl"), *rest = text;
    struct aorta_text lines = {0};
    for (int i = 0; i < 3; i++) {
        char *line = strsep(&rest, "\n");
        json_t *object = json_loads(line, 0, NULL);
        assert_non_null(object);
        json_t *profile = json_object_get(object, "profile"), *overlap = json_object_get(profile, "overlap");
        if (i == 1 && !empty) assert_int_equal(json_object_set_new(object, "profile", json_null()), 0);
        if (i == 1 && empty) assert_int_equal(json_object_set_new(profile, "ranges", json_array()), 0);
        if (i == 1 && empty) assert_int_equal(json_object_set_new(profile, "origin_ns", json_integer(0)), 0);
        if (i == 2) assert_int_equal(json_object_set_new(overlap, "lead_ms", json_real(37.987654)), 0);
        char *written = json_dumps(object, JSON_REAL_PRECISION(17));
        aorta_text_printf(&lines, "%s\n", written);
        free(written);
        json_decref(object);
    }
    workspace_write(&workspace, "rank_00_metrics.jsonl", lines.data);
    struct aorta_log log = silent();
    struct aorta_run run;
    check_ok(aorta_run_read(workspace.path, "x", 0, &log, &run));
    assert_int_equal(run.step_count, 3);
    assert_int_equal(run.steps[1].profile != NULL, empty);
    const int64_t lead_ns = run.steps[2].profile->overlap.lead_ns;
    aorta_run_free(&run);
    aorta_text_free(&lines);
    free(text);
    workspace_remove(&workspace);
    return lead_ns;
}

/* The line itself says how long before it the step before had ended, whatever of that was recorded. */
static void step_before(void **state) {
    (void)state;
    assert_int_equal(lead_of_third(false), 37987654);
    assert_int_equal(lead_of_third(true), 37987654);
}

/* The ranges of only some iterations of a long run are read. These iterations have the same figures as if all had been
 * read. */
static void some_are_read(void **state) {
    (void)state;
    enum { STEPS = 11, EVERY = 4 };
    struct workspace workspace = workspace_make();
    for (int rank = 0; rank < 2; rank++) workspace_run(&workspace, rank, 2, STEPS, 10000000);
    struct aorta_log log = silent();
    struct aorta_run all, some;
    check_ok(aorta_run_read(workspace.path, "x", 0, &log, &all));
    check_ok(aorta_run_read(workspace.path, "x", EVERY, &log, &some));
    assert_int_equal(all.read_every, 1);
    assert_int_equal(some.read_every, EVERY);
    assert_int_equal(some.step_count, 2 * STEPS);
    int64_t leads = 0;
    for (size_t i = 0; i < some.step_count; i++) {
        const struct aorta_step_metrics *step = &some.steps[i], *whole = &all.steps[i];
        assert_true(step->recorded && whole->recorded && whole->profile);
        assert_int_equal(step->global_step, whole->global_step);
        assert_int_equal(step->profile != NULL, i % STEPS % EVERY == 0);
        if (!step->profile) continue;
        assert_int_equal(step->profile->range_count, whole->profile->range_count);
        assert_int_equal(step->profile->overlap.lead_ns, whole->profile->overlap.lead_ns);
        assert_int_equal(step->profile->overlap.busy_ns, whole->profile->overlap.busy_ns);
        leads += step->profile->overlap.lead_ns;
    }
    assert_true(leads > 0);
    aorta_run_free(&all);
    aorta_run_free(&some);
    workspace_remove(&workspace);
}

static void as_many_as_fit(void **state) {
    (void)state;
    const int64_t gib = (int64_t)1 << 30;
    assert_int_equal(aorta_run_read_every(0), 1);
    assert_int_equal(aorta_run_read_every(gib / 4), 1);
    assert_int_equal(aorta_run_read_every(gib / 4 + 1), 2);
    assert_int_equal(aorta_run_read_every(6 * gib), 24);
}

/* Editors put a mark before UTF-8. */
static void marked_utf8(void **state) {
    (void)state;
    struct workspace workspace = workspace_make();
    workspace_run(&workspace, 0, 1, 3, 10000000);
    char *text = workspace_read(&workspace, "rank_00_metrics.jsonl");
    struct aorta_text marked = {0};
    aorta_text_printf(&marked, "\xef\xbb\xbf%s", text);
    workspace_write(&workspace, "rank_00_metrics.jsonl", marked.data);
    struct aorta_log log = silent();
    struct aorta_run run;
    check_ok(aorta_run_read(workspace.path, "x", 0, &log, &run));
    assert_int_equal(run.step_count, 3);
    aorta_run_free(&run);
    aorta_text_free(&marked);
    free(text);
    workspace_remove(&workspace);
}

/* A kill leaves half a line: what stands before it counts. */
static void torn_line(void **state) {
    (void)state;
    struct workspace workspace = workspace_make();
    workspace_run(&workspace, 0, 1, 3, 10000000);
    char *text = workspace_read(&workspace, "rank_00_metrics.jsonl");
    text[strlen(text) - 200] = '\0';
    workspace_write(&workspace, "rank_00_metrics.jsonl", text);
    struct aorta_log log = silent();
    struct aorta_run run;
    check_ok(aorta_run_read(workspace.path, "x", 0, &log, &run));
    assert_int_equal(run.step_count, 2);
    assert_int_equal(run.torn_lines, 1);
    aorta_run_free(&run);
    /* the same damage in the middle is an error, with its place */
    struct aorta_text broken = {0};
    aorta_text_printf(&broken, "%s\n%s\n", text, text);
    workspace_write(&workspace, "rank_00_metrics.jsonl", broken.data);
    check_fails(aorta_run_read(workspace.path, "x", 0, &log, &run), AORTA_FORMAT,
                "rank_00_metrics.jsonl:3 (line starts");
    aorta_text_free(&broken);
    free(text);
    workspace_remove(&workspace);
}

#define HEAD "{\"rank\": 0, \"world_size\": 1, \"epoch\": 0, \"step\": 0, \"global_step\": 0, \"profile\": "
#define RANGE(stream, start, end, metadata)                                                                            \
    HEAD "{\"ranges\": [{\"stream\": \"" stream "\", \"tag\": \"x\", \"start_ms\": " start ", \"end_ms\": " end        \
         ", \"metadata\": {" metadata "}}]}}\n"

#define CLOCKS(value)                                                                                                  \
    "{\"rank\": 0, \"world_size\": 1, \"epoch\": 0, \"step\": 0, \"global_step\": 0, \"profile\": null, "              \
    "\"clocks\": " value "}\n"

#define STEP(number) "{\"rank\": 0, \"world_size\": 1, \"epoch\": 0, \"step\": 0, \"global_step\": " number "}\n"

static void malformed_lines(void **state) {
    (void)state;
    static const struct {
        const char *line, *message;
    } rows[] = {
        {"{\"rank\": 0,,}\n", "rank_00_metrics.jsonl:1 (line starts at byte 0): byte 11: expected \"key\": value"},
        {"{\"rank\": 0, \"rank\": 1}\n", "byte 12: a key that was there before"},
        {"{\"rank\": 0, \"x\": tru}\n", "byte 17: no value of JSON"},
        {"{\"rank\": 01}\n", "byte 9: no value of JSON"},
        {"{\"rank\": 1.}\n", "byte 9: no value of JSON"},
        {"{\"rank\": 1e}\n", "byte 9: no value of JSON"},
        {"{\"rank\": 0} 7\n", "byte 11: something follows the last bracket"},
        {"{\"rank\": 0\n", "byte 10: the line ends within a string"},
        {" \n", "byte 1: the line is empty"},
        {"[]\n", "not a JSON object"},
        {"{\"rank\": 0}\n", "world_size is missing"},
        {"{\"rank\": \"0\", \"world_size\": 1}\n", "rank is not an integer"},
        {"{\"rank\": 3, \"world_size\": 2, \"epoch\": 0, \"step\": 0, \"global_step\": 0}\n",
         "rank 3 of world_size 2 cannot be"},
        {"{\"schema_version\": 9, \"rank\": 0, \"world_size\": 1}\n", "schema_version is 9"},
        {CLOCKS("7"), "clocks is neither an object nor null"},
        {CLOCKS("{}"), "clocks.at_ns is missing"},
        {CLOCKS("{\"at_ns\": 1, \"sm_clock_mhz\": \"1\"}"), "clocks.sm_clock_mhz is not a number"},
        {CLOCKS("{\"at_ns\": 1, \"power_w\": -1}"), "clocks.power_w is -1; expected 0 to 1e+06"},
        {CLOCKS("{\"at_ns\": 1, \"limited_by\": [\"\xff\"]}"), "clocks.limited_by holds bytes that are no text"},
        {CLOCKS("{\"at_ns\": 1, \"limited_by\": 3}"), "clocks.limited_by is not an array"},
        {CLOCKS("{\"at_ns\": 1, \"limited_by\": [\"idle\", 4]}"), "clocks.limited_by[1] is not a string"},
        {HEAD "7}\n", "profile: byte 81: not an object"},
        {HEAD "{\"ranges\": 7}}\n", "profile: ranges: byte 92: not an array"},
        {HEAD "{\"ranges\": [4]}}\n", "profile: ranges[0]: byte 93: not an object"},
        {HEAD "{\"ranges\": [1,]}}\n", "profile: ranges: byte 93: expected a value"},
        {HEAD "{\"ranges\": [}}}\n", "profile: ranges: byte 92: not an array"},
        {RANGE("gpu", "0", "1", ""), "profile: ranges[0]: stream is \"gpu\"; known are compute"},
        {RANGE("compute", "5", "1", ""), "profile: ranges[0]: end_ms is before start_ms"},
        {RANGE("compute", "\"5\"", "1", ""), "profile: ranges[0]: start_ms is not a number"},
        {RANGE("compute", "1e300", "1e301", ""), "start_ms is not a time"},
        {RANGE("compute", "NaN", "1", ""), "start_ms is not a time: nan"},
        {RANGE("compute", "0", "1", "\"kind\": \"\xff\""), "kind holds bytes that are no text in UTF-8"},
        {RANGE("compute", "0", "1", "\"flops\": -1"), "metadata.flops is -1; expected 0 to 1e+30"},
        {RANGE("compute", "0", "1", "\"kind\": \"magic\""), "metadata.kind is \"magic\""},
        {RANGE("aux", "0", "1", "\"kind\": \"collective\""), "metadata.collective does not name"},
        {RANGE("aux", "0", "1", "\"bytes\": -4"), "metadata.bytes is -4; expected 0 to 1e+15"},
        {STEP("-3"), "global_step is -3; expected 0 to 5e+11"},
        {STEP("9223372036854775807"), "global_step is 9.22337e+18; expected 0 to 5e+11"},
        {RANGE("aux", "0", "1", "\"sequence\": 9223372036854775807"), "metadata.sequence is 9.22337e+18"},
    };
    struct workspace workspace = workspace_make();
    struct aorta_log log = silent();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct aorta_run run;
        workspace_write(&workspace, "rank_00_metrics.jsonl", rows[i].line);
        check_fails(aorta_run_read(workspace.path, "x", 0, &log, &run), AORTA_FORMAT, rows[i].message);
    }
    workspace_remove(&workspace);
}

/* An object without end would cost the square of its members. */
static void many_members(void **state) {
    (void)state;
    struct workspace workspace = workspace_make();
    struct aorta_log log = silent();
    struct aorta_run run;
    struct aorta_text line = {0};
    aorta_text_puts(&line, "{\"rank\": 0");
    for (int i = 0; i < 200; i++) aorta_text_printf(&line, ", \"k%d\": %d", i, i);
    aorta_text_puts(&line, "}\n");
    workspace_write(&workspace, "rank_00_metrics.jsonl", line.data);
    check_fails(aorta_run_read(workspace.path, "x", 0, &log, &run), AORTA_FORMAT, "more than 128 members");
    aorta_text_free(&line);
    workspace_remove(&workspace);
}

/* Python writes a loss that is no number as NaN; and a line's letters may be escaped. */
static void what_python_writes(void **state) {
    (void)state;
    struct workspace workspace = workspace_make();
    struct aorta_log log = silent();
    struct aorta_run run;
    workspace_write(&workspace, "rank_00_metrics.jsonl",
                    "{\"rank\": 0, \"world_size\": 1, \"epoch\": 0, \"step\": 0, \"global_step\": 0, \"loss\": NaN, "
                    "\"grad_norm\": -Infinity, \"lr\": 1.5E-3, \"later\": [{\"x\": 1}], \"profile\": {\"ranges\": [ {"
                    "\"stream\": \"c\\u006fmpute\", \"tag\": \"a\\\"b\\u00e9\", \"start_ms\": 0.0000005, "
                    "\"end_ms\":1e0,\"metadata\":null} ]}}\r\n");
    check_ok(aorta_run_read(workspace.path, "x", 0, &log, &run));
    assert_true(isnan(run.steps[0].loss) && isnan(run.steps[0].grad_norm) && run.steps[0].lr == 1.5e-3);
    const struct aorta_range *range = run.steps[0].profile->ranges;
    assert_int_equal(run.steps[0].profile->range_count, 1);
    assert_string_equal(range->info.tag, "a\"b\xc3\xa9");
    assert_int_equal(range->info.role, AORTA_ROLE_COMPUTE);
    assert_int_equal(range->start_ns, 1);
    assert_int_equal(range->end_ns, 1000000);
    aorta_run_free(&run);
    workspace_remove(&workspace);
}

/* What a newer program knows of a low clock is not known here; the line is good all the same. */
static void a_reason_of_later_versions(void **state) {
    (void)state;
    struct workspace workspace = workspace_make();
    struct aorta_log log = silent();
    struct aorta_run run;
    workspace_write(&workspace, "rank_00_metrics.jsonl",
                    CLOCKS("{\"at_ns\": 1, \"sm_clock_mhz\": 900, \"limited_by\": [\"fate\"]}"));
    check_ok(aorta_run_read(workspace.path, "x", 0, &log, &run));
    assert_true(run.steps[0].readings && run.steps[0].readings->clocks.values.sm_clock_mhz == 900);
    assert_false(run.steps[0].readings->clocks.values.clock_limits_known);
    aorta_run_free(&run);
    workspace_write(&workspace, "rank_00_metrics.jsonl", CLOCKS("{\"at_ns\": 1, \"limited_by\": [\"idle\"]}"));
    check_ok(aorta_run_read(workspace.path, "x", 0, &log, &run));
    assert_true(run.steps[0].readings->clocks.values.clock_limits_known);
    aorta_run_free(&run);
    workspace_remove(&workspace);
}

/* A line without end is refused before it fills the memory. */
static void endless_line(void **state) {
    (void)state;
    struct workspace workspace = workspace_make();
    struct aorta_log log = silent();
    struct aorta_run run;
    char path[128];
    snprintf(path, sizeof path, "%s/rank_00_metrics.jsonl", workspace.path);
    assert_int_equal(symlink("/dev/zero", path), 0);
    check_fails(aorta_run_read(workspace.path, "x", 0, &log, &run), AORTA_FORMAT,
                "rank_00_metrics.jsonl:1 (line starts at byte 0): the line is longer than 256 MiB");
    workspace_remove(&workspace);
}

static void directories(void **state) {
    (void)state;
    struct aorta_log log = silent();
    struct aorta_run run;
    check_fails(aorta_run_read("/nowhere/at/all", "x", 0, &log, &run), AORTA_USAGE, "/nowhere/at/all");
    struct workspace workspace = workspace_make();
    workspace_write(&workspace, "rank_0_metrics.jsonl", "{}"); /* not the name of such a file */
    check_fails(aorta_run_read(workspace.path, "x", 0, &log, &run), AORTA_USAGE, "holds no rank_RR_metrics.jsonl");
    workspace_write(&workspace, "rank_00_metrics.jsonl", "");
    check_fails(aorta_run_read(workspace.path, "x", 0, &log, &run), AORTA_USAGE, "no complete iteration");
    workspace_run(&workspace, 0, 3, 2, 10000000);
    workspace_run(&workspace, 2, 3, 2, 10000000);
    check_ok(aorta_run_read(workspace.path, "x", 0, &log, &run)); /* rank 1 is missing: said, not fatal */
    assert_int_equal(run.rank_count, 2);
    assert_int_equal(run.ranks[1], 2);
    aorta_run_free(&run);
    workspace_run(&workspace, 1, 2, 2, 10000000);
    check_fails(aorta_run_read(workspace.path, "x", 0, &log, &run), AORTA_FORMAT, "files of different runs");
    workspace_remove(&workspace);
}

static void missing_ranks_are_said(void **state) {
    (void)state;
    struct workspace workspace = workspace_make();
    workspace_run(&workspace, 1, 2, 2, 10000000);
    char *words = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&words, &length);
    assert_non_null(stream);
    struct aorta_log log = {.level = AORTA_LOG_INFO, .rank = -1, .stream = stream};
    struct aorta_run run;
    check_ok(aorta_run_read(workspace.path, "x", 0, &log, &run));
    fclose(stream);
    assert_non_null(strstr(words, "1 of 2 ranks (rank 0 is missing)"));
    free(words);
    aorta_run_free(&run);
    workspace_remove(&workspace);
}

/* Rank 1 lacks steps 2 and 3, and the last. */
static void missing_steps_are_said(void **state) {
    (void)state;
    struct workspace workspace = workspace_make();
    workspace_run(&workspace, 0, 2, 6, 10000000);
    workspace_run(&workspace, 1, 2, 6, 10000000);
    char *text = workspace_read(&workspace, "rank_01_metrics.jsonl"), *line = text;
    struct aorta_text some = {0};
    for (int step = 0; step < 5; step++) {
        char *end = strchr(line, '\n') + 1;
        if (step != 2 && step != 3) aorta_text_append(&some, line, (size_t)(end - line));
        line = end;
    }
    check_ok(aorta_text_check(&some));
    workspace_write(&workspace, "rank_01_metrics.jsonl", some.data);
    char *words = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&words, &length);
    assert_non_null(stream);
    struct aorta_log log = {.level = AORTA_LOG_INFO, .rank = -1, .stream = stream};
    struct aorta_run run;
    check_ok(aorta_run_read(workspace.path, "x", 0, &log, &run));
    fclose(stream);
    assert_non_null(strstr(words, "rank 1 lacks 2 steps after step 1\n"));
    assert_non_null(strstr(words, "rank 1 has 3 iterations (0 to 4), rank 0 6 (0 to 5): "));
    assert_null(strstr(words, "rank 0 lacks"));
    struct aorta_run_coverage found = aorta_run_coverage(&run, 1);
    assert_int_equal(found.count, 3);
    assert_int_equal(found.absent, 2);
    free(words);
    free(text);
    aorta_text_free(&some);
    aorta_run_free(&run);
    workspace_remove(&workspace);
}

/* A line of a run without recording: figures of training only. */
static void without_profile(void **state) {
    (void)state;
    struct workspace workspace = workspace_make();
    struct aorta_metrics_writer *writer = NULL;
    struct aorta_step_metrics metrics = {.world_size = 1,
                                         .loss = NAN,
                                         .grad_norm = INFINITY,
                                         .lr = 0.5,
                                         .samples_per_s = 3,
                                         .data_wait_ms = 0,
                                         .step_ms = 12.5,
                                         .loss_scale = 1024,
                                         .skipped = true,
                                         .simulated = true};
    check_ok(aorta_metrics_open(workspace.path, 0, &writer));
    check_ok(aorta_metrics_write(writer, &metrics));
    check_ok(aorta_metrics_close(writer));
    char *line = workspace_read(&workspace, "rank_00_metrics.jsonl");
    assert_non_null(strstr(line, "\"loss\": null"));
    assert_non_null(strstr(line, "\"loss\": \"the loss was not finite\""));
    assert_non_null(strstr(line, "\"grad_norm\": \"the gradients overflowed\""));
    assert_non_null(strstr(line, "\"profile\": \"recording was switched off\""));
    free(line);
    struct aorta_log log = silent();
    struct aorta_run run;
    check_ok(aorta_run_read(workspace.path, "x", 0, &log, &run));
    assert_null(run.steps[0].profile);
    assert_true(run.steps[0].skipped);
    assert_true(run.simulated);
    assert_true(run.steps[0].step_ms == 12.5);
    assert_true(isnan(run.steps[0].loss));
    aorta_run_free(&run);
    workspace_remove(&workspace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(original_sample),
        cmocka_unit_test(round_trip),
        cmocka_unit_test(step_before),
        cmocka_unit_test(marked_utf8),
        cmocka_unit_test(torn_line),
        cmocka_unit_test(some_are_read),
        cmocka_unit_test(as_many_as_fit),
        cmocka_unit_test(malformed_lines),
        cmocka_unit_test(many_members),
        cmocka_unit_test(what_python_writes),
        cmocka_unit_test(a_reason_of_later_versions),
        cmocka_unit_test(endless_line),
        cmocka_unit_test(directories),
        cmocka_unit_test(missing_ranks_are_said),
        cmocka_unit_test(missing_steps_are_said),
        cmocka_unit_test(without_profile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
