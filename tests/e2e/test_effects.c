/* Every key that may be without effect, in every mode: named in the run's messages and without effect, or not named and
 * seen in what the run writes. */
#include "base/text.h"
#include "check.h"
#include "listed.h"
#include "run.h"

#include "train/options.h"

#include <stdlib.h>
#include <wordexp.h>

/* ---- keys: a value that is not the default ---- */

static const struct {
    const char *key, *value;
    const char *unseen; /* its effect is not in the lines of metrics; the test that holds it */
} keys[] = {
    {"training.dump_steps", "[1]", "test_training.c"},
    {"training.allreduce_stress_level", "2", NULL},
    {"training.lightweight_ops_per_stream", "5", NULL},
    {"training.lightweight_op_size", "24", NULL},
    {"training.lightweight_op_waves", "1", NULL},
    {"training.use_useful_lightweight_ops", "true", NULL},
    {"optimizer.precondition_frequency", "1", NULL},
    {"fsdp.sharding_strategy", "shard_grad_op", NULL},
    {"fsdp.backward_prefetch", "NONE", NULL},
    {"fsdp.use_orig_params", "false", NULL},
    {"fsdp.limit_all_gathers", "false", NULL},
    {"fsdp.forward_prefetch", "false", NULL},
    {"fsdp.symmetric_memory", "true", NULL},
    {"fsdp.hybrid_shard_gpus_per_node", "1", "test_keys.c: of one rank there is one group"},
    {"fsdp.sync_module_states", "false", "test_training.c"},
    {"distributed.bucket_cap_mb", "0.002", NULL},
    {"distributed.gradient_as_bucket_view", "false", NULL},
    {"distributed.static_graph", "true", NULL},
    {"distributed.find_unused_parameters", "true", NULL},
    {"distributed.overlap_reduce_scatter", "true", NULL},
    {"distributed.overlap_clone_for_reduce_scatter", "true", NULL},
    {"compile.enabled", "true", "test_keys.c"},
    {"compile.backend", "fused", "test_keys.c"},
    {"compile.mode", "max-autotune", NULL},
    {"compile.fullgraph", "true", "test_bad_input.c"},
    {"compile.dynamic", "true", NULL},
    {"compile.options", "{a: 1}", NULL},
    {"dataloader.num_workers", "3", NULL},
    {"dataloader.pin_memory", "false", NULL},
    {"dataloader.prefetch_factor", "5", NULL},
    {"profiling.enabled", "true", "test_traces.c, as of the keys below"},
    {"profiling.wait", "2", "test_traces.c"},
    {"profiling.warmup", "2", "test_traces.c"},
    {"profiling.active", "3", "test_traces.c"},
    {"profiling.repeat", "2", "test_traces.c"},
    {"profiling.record_shapes", "false", "test_traces.c"},
    {"profiling.profile_memory", "false", "test_traces.c"},
    {"profiling.with_stack", "true", NULL},
    {"profiling.with_flops", "true", "test_traces.c"},
    {"profiling.tensorboard", "false", "test_traces.c"},
    {"profiling.chrome_trace", "false", "test_traces.c"},
    {"profiling.trace_filename", "other.json", "test_traces.c"},
    {"streams.assignment.all_gather", "reducescatter", NULL},
    {"streams.assignment.reduce_scatter", "compute", NULL},
    {"streams.assignment.all_reduce", "aux", NULL},
    {"streams.priorities.reducescatter", "low", "test_order.c"},
    {"device.allow_tf32", "true", "tests/gpu/scenarios.py"},
};
enum { KEYS = sizeof keys / sizeof *keys };

/* ---- modes ---- */

#define SMALL_BUCKETS "distributed.mode=ddp distributed.bucket_cap_mb=0.004 "
#define LIGHT "training.additional_compute_streams=1 training.lightweight_op_size=16 "

static const struct mode {
    int ranks;
    const char *words;
} modes[] = {
    {1, ""},
    {2, ""},
    {2, "fsdp.sharding_strategy=shard_grad_op"},
    {2, "fsdp.sharding_strategy=no_shard"},
    {2, "fsdp.sharding_strategy=hybrid_shard fsdp.hybrid_shard_gpus_per_node=1"},
    {2, "fsdp.sharding_strategy=hybrid_shard fsdp.hybrid_shard_gpus_per_node=2"},
    {2, "distributed.enable_overlap=false"},
    {2, "fsdp.forward_prefetch=false fsdp.backward_prefetch=BACKWARD_POST"},
    {2, "fsdp.param_init_device=meta"},
    {2, SMALL_BUCKETS},
    {2, SMALL_BUCKETS "distributed.find_unused_parameters=true distributed.overlap_reduce_scatter=true"},
    {2, "compile.enabled=true"},
    {1, "compile.enabled=true compile.backend=fused"},
    {1, "dataloader.device=device"},
    {1, "dataloader.num_workers=0"},
    {1, "training.max_steps=3 optimizer.name=shampoo training.inject_allreduce_copies=true " LIGHT},
    {1, "training.use_useful_lightweight_ops=true " LIGHT},
    {1, "profiling.enabled=true"},
    {1, "profiling.enabled=true profiling.tensorboard=false profiling.chrome_trace=false"},
};

/* The CPU device refuses it, so it is not ignored. */
static bool is_refused(const struct mode *mode, const char *key) {
    return mode->ranks > 1 && strcmp(key, "fsdp.symmetric_memory") == 0;
}

/* ---- options ---- */

/* The reasons that the words' options give. */
static char *explain(int ranks, const char *words) {
    char base[300];
    wordexp_t list;
    struct aorta_text lines = {0};
    struct aorta_train_options options;
    snprintf(base, sizeof base, "%s/base.yaml", e2e_workspace());
    assert_int_equal(wordexp(words, &list, WRDE_NOCMD), 0);
    check_ok(aorta_train_options_load(base, (const char *const *)list.we_wordv, list.we_wordc, &options));
    aorta_train_options_without_effect(&options, ranks, false, &lines);
    listed_lines(&lines);
    check_ok(aorta_text_check(&lines));
    aorta_train_options_free(&options);
    wordfree(&list);
    return lines.data ? lines.data : strdup("");
}

/* A line names the first key of a section in full, and the next ones without it. */
static bool names(const char *lines, const char *key) {
    char word[96], *copy = strdup(lines ? lines : ""), *rest = copy;
    bool found = false;
    assert_non_null(copy);
    for (char *line; (line = strsep(&rest, "\n"));) {
        char section[96] = "", *end = strstr(line, " (");
        if (end) *end = '\0';
        for (char *name, *names = line; (name = strsep(&names, ","));) {
            name += *name == ' ';
            char *dot = strrchr(name, '.');
            if (dot) snprintf(section, sizeof section, "%.*s", (int)(dot - name), name);
            snprintf(word, sizeof word, "%s%s%s", dot ? "" : section, dot ? "" : ".", name);
            found |= strcmp(word, key) == 0;
        }
    }
    free(copy);
    return found;
}

/* ---- runs ---- */

/* All that does not depend on time; an input is copied when it has arrived. */
static void put_ranges(struct aorta_text *text, const json_t *line) {
    const json_t *ranges = e2e_ranges(line);
    for (size_t i = 0; i < json_array_size(ranges); i++) {
        const json_t *range = json_array_get(ranges, i), *about = e2e_get(range, "metadata");
        const char *tag = json_string_value(e2e_get(range, "tag"));
        if (strcmp(tag, "input") == 0) continue;
        aorta_text_printf(text, "%s %s %s %lld %g\n", tag, json_string_value(e2e_get(about, "function")),
                          json_string_value(e2e_get(range, "stream")),
                          (long long)json_integer_value(json_object_get(about, "bytes")),
                          json_number_value(json_object_get(about, "flops")));
    }
}

/* What a run with these words wrote; what it printed has the lines. */
static char *sign(int ranks, const char *words, const char *lines) {
    struct e2e_run run;
    struct aorta_text text = {0}, all = {0};
    aorta_text_printf(&all, "training.max_steps=2 %s", words);
    check_ok(aorta_text_check(&all));
    e2e_train_well(&run, ranks, 0, all.data);
    aorta_text_free(&all);
    for (size_t step = 0; step < e2e_steps(&run, 0); step++) {
        const json_t *line = e2e_line(&run, 0, step);
        aorta_text_printf(&text, "step: loss %.9g, norm %.9g, memory %.0f, pinned %.0f\n", e2e_number(line, "loss"),
                          e2e_number(line, "grad_norm"), e2e_number(line, "memory.peak_bytes"),
                          e2e_number(line, "memory.pinned_bytes"));
        put_ranges(&text, line);
    }
    for (const char *end; (end = strchr(lines, '\n')); lines = end + 1) {
        char line[512];
        snprintf(line, sizeof line, "without effect: %.*s", (int)(end + 1 - lines), lines);
        if (!strstr(run.output, line)) fail_msg("%s: not printed: %s; printed: %s", words, line, run.output);
    }
    e2e_free(&run);
    check_ok(aorta_text_check(&text));
    return text.data;
}

/* ---- tests ---- */

static void add(struct aorta_text *words, size_t key) {
    aorta_text_puts(words, " ");
    char word[128];
    snprintf(word, sizeof word, "%s=%s", keys[key].key, keys[key].value);
    aorta_text_shell_word(words, word);
}

static bool is_given(const char *mode, const char *key) {
    const char *at = strstr(mode, key);
    return at && at[strlen(key)] == '=';
}

static struct aorta_text with(const struct mode *mode, size_t key) {
    struct aorta_text words = {0};
    aorta_text_puts(&words, mode->words);
    add(&words, key);
    return words;
}

static bool is_without_effect(const struct mode *mode, size_t key) {
    struct aorta_text words = with(mode, key);
    char *lines = explain(mode->ranks, words.data);
    bool named = names(lines, keys[key].key);
    free(lines);
    aorta_text_free(&words);
    return named;
}

/* All of them at once leave the run as it was. */
static int check_without_effect(const struct mode *mode, const char *before, const bool *without) {
    struct aorta_text words = {0};
    aorta_text_puts(&words, mode->words);
    for (size_t i = 0; i < KEYS; i++)
        if (without[i]) add(&words, i);
    char *lines = explain(mode->ranks, words.data), *after = sign(mode->ranks, words.data, lines);
    int failures = strcmp(before, after) != 0;
    if (failures) print_error("%d ranks: \"%s\" and \"%s\" differ\n", mode->ranks, mode->words, words.data);
    for (size_t i = 0; i < KEYS; i++) {
        if (!without[i] || names(lines, keys[i].key)) continue;
        print_error("\"%s\": %s acts with other keys\n", mode->words, keys[i].key);
        failures++;
    }
    free(after);
    free(lines);
    aorta_text_free(&words);
    return failures;
}

static int check_effect(const struct mode *mode, const char *before, size_t key) {
    struct aorta_text words = with(mode, key);
    char *after = sign(mode->ranks, words.data, "");
    const bool same = strcmp(before, after) == 0;
    if (same) print_error("%d ranks: \"%s\" and \"%s\" are the same\n", mode->ranks, mode->words, words.data);
    free(after);
    aorta_text_free(&words);
    return same;
}

static void test_every_key_in_every_mode(void **state) {
    (void)state;
    int failures = 0;
    for (const struct mode *mode = modes; mode < modes + sizeof modes / sizeof *modes; mode++) {
        bool without[KEYS] = {false};
        char *before = sign(mode->ranks, mode->words, "");
        for (size_t i = 0; i < KEYS; i++) {
            if (is_given(mode->words, keys[i].key) || is_refused(mode, keys[i].key)) continue;
            without[i] = is_without_effect(mode, i);
            if (!without[i] && !keys[i].unseen) failures += check_effect(mode, before, i);
        }
        failures += check_without_effect(mode, before, without);
        free(before);
    }
    assert_int_equal(failures, 0);
}

static void test_every_key_of_the_table_is_tried(void **state) {
    (void)state;
    struct aorta_text rows = {0};
    aorta_train_options_reasons(&rows);
    for (char *at = rows.data, *end; (at = strchr(at, '`')); at = end + 1) {
        size_t i = 0;
        end = strchr(++at, '`');
        assert_non_null(end);
        *end = '\0';
        while (i < KEYS && strcmp(keys[i].key, at) != 0) i++;
        if (i == KEYS) fail_msg("no value of %s is tried", at);
    }
    aorta_text_free(&rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_key_of_the_table_is_tried),
        cmocka_unit_test(test_every_key_in_every_mode),
    };
    return cmocka_run_group_tests(tests, e2e_open, e2e_close);
}
