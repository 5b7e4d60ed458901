/* In which order the work of a step is queued and runs: prefetch, overlap, priorities, and whether records agree. */
#include "check.h"
#include "run.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>

/* Every assertion on order is checked in every step on every rank; the first two steps have start-up in them. */
enum { STEPS = 6, LAYERS = 3 };

static struct e2e_filter gather_of(int layer) {
    static const char *const tags[LAYERS] = {"encoder.layers.0", "encoder.layers.1", "encoder.layers.2"};
    return (struct e2e_filter){.function = "all_gather", .tag = tags[layer]};
}

static struct e2e_filter operation(int layer, const char *name, const char *function) {
    static const char *const tags[LAYERS][2] = {
        {"encoder.layers.0.norm2", "encoder.layers.0.self_attn.in_proj"},
        {"encoder.layers.1.norm2", "encoder.layers.1.self_attn.in_proj"},
        {"encoder.layers.2.norm2", "encoder.layers.2.self_attn.in_proj"},
    };
    return (struct e2e_filter){.function = function, .tag = tags[layer][strcmp(name, "norm2") != 0]};
}

/* First and last operation of a layer's passes. */
static struct e2e_filter forward_begin(int layer) {
    return operation(layer, "in_proj", "linear_forward");
}

static struct e2e_filter forward_end(int layer) {
    return operation(layer, "norm2", "norm_forward");
}

static struct e2e_filter backward_begin(int layer) {
    return operation(layer, "norm2", "norm_backward");
}

static struct e2e_filter backward_end(int layer) {
    return operation(layer, "in_proj", "linear_backward_input");
}

static struct e2e_filter reduction_of(int layer) {
    struct e2e_filter filter = gather_of(layer);
    filter.function = "reduce_scatter";
    return filter;
}

static int place(const json_t *line, struct e2e_filter filter, int nth) {
    return e2e_index(line, e2e_range(line, filter, nth));
}

static double begins(const json_t *line, struct e2e_filter filter, int nth) {
    return e2e_start_ms(e2e_range(line, filter, nth));
}

static double ends(const json_t *line, struct e2e_filter filter, int nth) {
    return e2e_end_ms(e2e_range(line, filter, nth));
}

static void for_each_line(const char *words, void (*check)(const json_t *line)) {
    struct e2e_run run;
    e2e_train_well(&run, 2, STEPS, words);
    for (int rank = 0; rank < 2; rank++)
        for (size_t step = 0; step < STEPS; step++) check(e2e_line(&run, rank, step));
    e2e_free(&run);
}

/* What holds in any case: no pass before its gather has ended, no reduction before its gradients. */
static void check_dependencies(const json_t *line) {
    for (int layer = 0; layer < LAYERS; layer++) {
        assert_true(begins(line, forward_begin(layer), 0) >= ends(line, gather_of(layer), 0));
        assert_true(begins(line, backward_begin(layer), 0) >= ends(line, gather_of(layer), 1));
        assert_true(begins(line, reduction_of(layer), 0) >= ends(line, backward_end(layer), 0));
        assert_true(begins(line, (struct e2e_filter){.function = "square_sum"}, 0) >=
                    ends(line, reduction_of(layer), 0));
    }
}

static void check_forward_prefetch(const json_t *line) {
    check_dependencies(line);
    for (int layer = 0; layer + 1 < LAYERS; layer++) {
        assert_true(place(line, gather_of(layer + 1), 0) < place(line, forward_begin(layer), 0));
        /* Two slots: the one after next waits for its slot. */
        if (layer + 2 < LAYERS) assert_true(begins(line, gather_of(layer + 2), 0) >= ends(line, forward_end(layer), 0));
    }
}

static void check_no_forward_prefetch(const json_t *line) {
    check_dependencies(line);
    for (int layer = 0; layer + 1 < LAYERS; layer++) {
        assert_true(place(line, gather_of(layer + 1), 0) > place(line, forward_end(layer), 0));
        assert_true(begins(line, gather_of(layer + 1), 0) >= ends(line, forward_end(layer), 0));
    }
}

static void check_unlimited(const json_t *line) {
    check_dependencies(line);
    for (int layer = 0; layer < LAYERS; layer++)
        assert_true(place(line, gather_of(layer), 0) < place(line, forward_begin(0), 0));
}

static void test_forward_prefetch(void **state) {
    (void)state;
    for_each_line("fsdp.forward_prefetch=true", check_forward_prefetch);
    for_each_line("fsdp.forward_prefetch=false", check_no_forward_prefetch);
    for_each_line("fsdp.limit_all_gathers=false", check_unlimited);
}

static const struct e2e_filter root_gather = {.function = "all_gather", .tag = "root"};
static const struct e2e_filter root_reduction = {.function = "reduce_scatter", .tag = "root"};
static const struct e2e_filter root_update = {.function = "adamw_step", .tag = "root"};
static const struct e2e_filter layers_update = {.function = "adamw_step", .tag = "layers"};
static const struct e2e_filter input = {.function = "embedding_forward"};

/* The gather for the next step begins as soon as the unit is updated, during the layers' update, which on the CPU does
 * not wait for the unit's. */
static void check_root_ahead(const json_t *line) {
    assert_int_equal(e2e_count(line, root_gather), 1);
    assert_true(begins(line, root_gather, 0) >= ends(line, root_update, 0));
    assert_true(begins(line, layers_update, 0) >= begins(line, root_update, 0));
    assert_true(place(line, root_gather, 0) < place(line, layers_update, 0));
    const struct e2e_filter root_squares = {.function = "square_sum", .tag = "root"};
    assert_true(begins(line, root_squares, 0) >= ends(line, root_reduction, e2e_count(line, root_reduction) - 1));
    assert_true(begins(line, root_update, 0) >= ends(line, root_squares, 0));
}

/* In the step that needs it, for each micro-batch; one update. */
static void check_root_in_step(const json_t *line) {
    assert_int_equal(e2e_count(line, (struct e2e_filter){.function = "adamw_step"}), 1);
    assert_int_equal(e2e_count(line, root_gather), e2e_count(line, input));
    for (int nth = 0; nth < e2e_count(line, input); nth++)
        assert_true(begins(line, input, nth) >= ends(line, root_gather, nth));
}

/* The embedding's gradient, the most of it, beside the products behind it; the rest behind these. */
static void check_root_reduced_in_parts(const json_t *line) {
    const struct e2e_filter embedding = {.function = "embedding_backward"};
    const struct e2e_filter last = {.function = "linear_backward_weight", .tag = "dense_projection"};
    const int micro_batches = e2e_count(line, embedding);
    assert_int_equal(e2e_count(line, root_reduction), 2 * micro_batches);
    for (int nth = 0; nth < micro_batches; nth++) {
        assert_true(begins(line, root_reduction, 2 * nth) >= ends(line, embedding, nth));
        assert_true(place(line, root_reduction, 2 * nth) < place(line, last, nth));
        assert_true(begins(line, root_reduction, 2 * nth + 1) >= ends(line, last, nth));
    }
}

static void check_root_reduced_at_once(const json_t *line) {
    const struct e2e_filter last = {.function = "linear_backward_weight", .tag = "dense_projection"};
    assert_int_equal(e2e_count(line, root_reduction), 1);
    assert_true(begins(line, root_reduction, 0) >= ends(line, last, 0));
}

static void test_root_reduction(void **state) {
    (void)state;
    for_each_line("", check_root_reduced_in_parts);
    for_each_line("fsdp.sharding_strategy=shard_grad_op training.batch_size=2 training.gradient_accumulation=2",
                  check_root_reduced_in_parts);
    for_each_line("fsdp.use_orig_params=false", check_root_reduced_at_once);
    for_each_line("distributed.enable_overlap=false", check_root_reduced_at_once);
}

/* Whether the sums over groups of a layer ran while the layer before was reduced within them. */
static bool sums_beside_reduction(const json_t *line) {
    bool beside = false;
    for (int layer = 1; layer < LAYERS; layer++) {
        struct e2e_filter sums = gather_of(layer);
        sums.function = "all_reduce";
        beside |= begins(line, reduction_of(layer - 1), 0) < ends(line, sums, 0) &&
                  begins(line, sums, 0) < ends(line, reduction_of(layer - 1), 0);
        assert_true(begins(line, sums, 0) >= ends(line, reduction_of(layer), 0));
        assert_true(begins(line, (struct e2e_filter){.function = "square_sum", .tag = "layers"}, 0) >=
                    ends(line, sums, 0));
    }
    return beside;
}

/* Which it need not on a busy machine, in any one run. */
static void test_hybrid_reductions_do_not_wait_for_sums(void **state) {
    (void)state;
    bool beside = false;
    for (int attempt = 0; attempt < 20 && !beside; attempt++) {
        struct e2e_run run;
        e2e_train_well(&run, 4, STEPS,
                       "fsdp.sharding_strategy=hybrid_shard fsdp.hybrid_shard_gpus_per_node=2 training.batch_size=2");
        for (int rank = 0; rank < 4; rank++)
            for (size_t step = 0; step < STEPS; step++) beside |= sums_beside_reduction(e2e_line(&run, rank, step));
        e2e_free(&run);
    }
    assert_true(beside);
}

static void test_root_unit(void **state) {
    (void)state;
    for_each_line("", check_root_ahead);
    for_each_line("streams.count=1", check_root_ahead);
    for_each_line("streams.assignment.optimizer=allreduce compile.enabled=true", check_root_ahead);
    for_each_line("training.batch_size=2 training.gradient_accumulation=2", check_root_ahead);
    for_each_line("fsdp.forward_prefetch=false", check_root_in_step);
    for_each_line("distributed.enable_overlap=false training.batch_size=2 training.gradient_accumulation=2",
                  check_root_in_step);
}

/* PRE: the next gather is queued before the backward pass of the layer above it. */
static void check_backward_pre(const json_t *line) {
    check_dependencies(line);
    for (int layer = LAYERS - 1; layer > 0; layer--)
        assert_true(place(line, gather_of(layer - 1), 1) < place(line, backward_begin(layer), 0));
}

/* POST: behind that pass, but not behind its reduction. */
static void check_backward_post(const json_t *line) {
    check_dependencies(line);
    for (int layer = LAYERS - 1; layer > 0; layer--) {
        assert_true(place(line, gather_of(layer - 1), 1) > place(line, backward_end(layer), 0));
        assert_true(place(line, gather_of(layer - 1), 1) < place(line, reduction_of(layer), 0));
        assert_true(begins(line, gather_of(layer - 1), 1) >= ends(line, backward_end(layer), 0));
    }
}

/* NONE: behind both. */
static void check_backward_none(const json_t *line) {
    check_dependencies(line);
    for (int layer = LAYERS - 1; layer > 0; layer--) {
        assert_true(place(line, gather_of(layer - 1), 1) > place(line, reduction_of(layer), 0));
        assert_true(begins(line, gather_of(layer - 1), 1) >= ends(line, reduction_of(layer), 0));
    }
}

static void test_backward_prefetch(void **state) {
    (void)state;
    for_each_line("fsdp.backward_prefetch=BACKWARD_PRE", check_backward_pre);
    for_each_line("fsdp.backward_prefetch=BACKWARD_POST", check_backward_post);
    for_each_line("fsdp.backward_prefetch=NONE", check_backward_none);
}

/* DDP: buckets go out while backward is still being queued, or all of them behind it. */
static void check_early_buckets(const json_t *line) {
    struct e2e_filter bucket = {.function = "all_reduce", .tag = "bucket 0"};
    assert_true(place(line, bucket, 0) < place(line, backward_begin(0), 0));
    assert_true(begins(line, bucket, 0) >=
                ends(line, (struct e2e_filter){.function = "linear_backward_weight", .tag = "scorer.3"}, 0));
}

static void check_late_buckets(const json_t *line) {
    struct e2e_filter bucket = {.function = "all_reduce", .tag = "bucket 0"};
    struct e2e_filter last = {.function = "embedding_backward"};
    assert_true(place(line, bucket, 0) > place(line, last, 0));
    assert_true(begins(line, bucket, 0) >= ends(line, last, 0));
    assert_true(e2e_number(line, "profile.overlap.overlap_ms.compute_allreduce") == 0);
}

static void test_overlap_manager(void **state) {
    (void)state;
    for_each_line("distributed.mode=ddp distributed.bucket_cap_mb=0.004", check_early_buckets);
    for_each_line("distributed.mode=ddp distributed.bucket_cap_mb=0.004 distributed.enable_overlap=false",
                  check_late_buckets);
}

/* ---- priorities: the niceness of the streams' threads ---- */

static int niceness_of(pid_t pid, const char *thread) {
    char directory[64], path[128], text[512];
    snprintf(directory, sizeof directory, "/proc/%d/task", (int)pid);
    DIR *stream = opendir(directory);
    assert_non_null(stream);
    int found = INT32_MAX;
    for (const struct dirent *entry; (entry = readdir(stream));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%.20s/stat", directory, entry->d_name);
        FILE *file = fopen(path, "r");
        if (!file) continue;
        size_t length = fread(text, 1, sizeof text - 1, file);
        fclose(file);
        text[length] = '\0';
        const char *name = strchr(text, '('), *rest = strrchr(text, ')');
        if (!name || !rest || strncmp(name + 1, thread, strlen(thread)) != 0 || name[1 + strlen(thread)] != ')')
            continue;
        /* Behind the name: state is field 3, nice field 19 (proc(5)). */
        for (int field = 2; field < 19 && rest; field++) rest = strchr(rest + 1, ' ');
        if (rest) found = atoi(rest + 1);
    }
    closedir(stream);
    if (found == INT32_MAX) fail_msg("process %d has no thread %s", (int)pid, thread);
    return found;
}

static int niceness_with(const char *words, const char *thread) {
    struct e2e_run run;
    char all[256];
    snprintf(all, sizeof all, "training.epochs=100000 training.max_steps=null %s", words);
    e2e_start(&run, 1, all);
    e2e_wait_for_lines(&run, 0, 2);
    int found = niceness_of(run.pid, thread);
    kill(run.pid, SIGTERM);
    e2e_finish(&run);
    e2e_free(&run);
    return found;
}

static void test_priorities(void **state) {
    (void)state;
    static const char *const threads[] = {"compute", "allreduce", "reducescatter", "aux"};
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        char low[64], normal[64], high[64];
        snprintf(low, sizeof low, "streams.priorities.%s=low", threads[i]);
        snprintf(normal, sizeof normal, "streams.priorities.%s=normal", threads[i]);
        snprintf(high, sizeof high, "streams.priorities.%s=high", threads[i]);
        int l = niceness_with(low, threads[i]), n = niceness_with(normal, threads[i]),
            h = niceness_with(high, threads[i]);
        if (!(l > n && n > h)) fail_msg("%s: low %d, normal %d, high %d", threads[i], l, n, h);
    }
    /* A shared stream, named after its first role, has the highest priority of all its roles. */
    assert_int_equal(niceness_with("streams.count=2 streams.priorities.allreduce=low", "allreduce"),
                     niceness_with("streams.count=2", "allreduce"));
    /* The original's list: what it does not name is normal. */
    const int compute = niceness_with("streams.high_priority=[compute]", "compute");
    assert_int_equal(compute, niceness_with("streams.priorities.compute=high", "compute"));
    assert_int_equal(niceness_with("streams.high_priority=[compute]", "aux"),
                     niceness_with("streams.priorities.aux=normal", "aux"));
}

/* ---- the records themselves ---- */

static int by_start(const void *a, const void *b) {
    double x = e2e_start_ms(*(const json_t *const *)a), y = e2e_start_ms(*(const json_t *const *)b);
    return (x > y) - (x < y);
}

/* Ranges of one queue follow one another; each is within the step's time and is launched before it starts. A graph runs
 * on queues of its own, numbered as those it was captured on, at the same time as the copy of the next input. */
static void check_queues_but(const json_t *line, const char *beside) {
    const json_t *ranges = e2e_ranges(line);
    size_t count = json_array_size(ranges);
    const json_t **sorted = malloc(count * sizeof *sorted);
    double free_at[8] = {0}, total = e2e_number(line, "profile.total_ms");
    assert_non_null(sorted);
    for (size_t i = 0; i < count; i++) sorted[i] = json_array_get(ranges, i);
    qsort(sorted, count, sizeof *sorted, by_start);
    for (size_t i = 0; i < count; i++) {
        size_t queue = (size_t)e2e_number(sorted[i], "metadata.queue");
        double start = e2e_start_ms(sorted[i]), end = e2e_end_ms(sorted[i]);
        assert_in_range(queue, 0, 7);
        bool apart = beside && strcmp(json_string_value(e2e_get(sorted[i], "tag")), beside) == 0;
        assert_true(apart || start >= free_at[queue]);
        assert_true(end >= start && end <= total + 1e-6);
        assert_true(e2e_enqueue_ms(sorted[i]) <= start);
        assert_true(fabs(end - start - e2e_number(sorted[i], "duration_ms")) < 1.5e-6);
        if (!apart) free_at[queue] = end;
    }
    free(sorted);
}

static void check_queues(const json_t *line) {
    check_queues_but(line, NULL);
}

static void check_queues_of_graph(const json_t *line) {
    check_queues_but(line, "input");
}

static void test_queues_are_ordered(void **state) {
    (void)state;
    for_each_line("training.batch_size=2 training.gradient_accumulation=2", check_queues);
    for_each_line("streams.count=2", check_queues);
    for_each_line("compile.enabled=true", check_queues_of_graph);
    for_each_line("distributed.mode=ddp distributed.bucket_cap_mb=0.004", check_queues);
}

/* For each operation, by its place in the order of beginnings: its shortest time of all steps, and the shortest time
 * without compute before it. In single steps the machine may have been busy elsewhere. */
struct shortest {
    size_t count;
    struct {
        double work_ms, gap_ms;
    } places[256];
};

static const json_t **computations(const json_t *ranges, size_t *count) {
    const json_t **found = malloc(json_array_size(ranges) * sizeof *found);
    assert_non_null(found);
    *count = 0;
    for (size_t i = 0; i < json_array_size(ranges); i++) {
        const json_t *range = json_array_get(ranges, i);
        if (strcmp(json_string_value(e2e_get(range, "metadata.kind")), "compute") == 0) found[(*count)++] = range;
    }
    qsort(found, *count, sizeof *found, by_start);
    return found;
}

static void take_shortest(struct shortest *shortest, const json_t *line) {
    size_t count;
    const json_t **sorted = computations(e2e_ranges(line), &count);
    const bool first = shortest->count == 0;
    double busy_until = 0;
    assert_in_range(count, 1, sizeof shortest->places / sizeof *shortest->places);
    assert_true(first || count == shortest->count);
    shortest->count = count;
    for (size_t i = 0; i < count; i++) {
        const double gap = fmax(0.0, e2e_start_ms(sorted[i]) - busy_until), work = e2e_number(sorted[i], "duration_ms");
        busy_until = fmax(busy_until, e2e_end_ms(sorted[i]));
        shortest->places[i].work_ms = first ? work : fmin(work, shortest->places[i].work_ms);
        shortest->places[i].gap_ms = first ? gap : fmin(gap, shortest->places[i].gap_ms);
    }
    free(sorted);
}

static double share_of_work(const struct shortest *shortest) {
    double work = 0, gap = 0;
    for (size_t i = 0; i < shortest->count; i++) {
        work += shortest->places[i].work_ms;
        gap += shortest->places[i].gap_ms;
    }
    return work / (work + gap);
}

/* One rank with enough to compute: its operations fill the step, and the best step at least the time until the next
 * one. All steps together fill the time that passes. */
static void test_times_add_up(void **state) {
    (void)state;
    struct e2e_run run;
    enum { MANY = 20 };
    e2e_train_well(&run, 1, MANY,
                   "training.max_steps=20 training.batch_size=16 dataset.sequence_length=32 model.model_dim=128 "
                   "model.num_heads=4 model.mlp_hidden_dim=256 dataset.num_samples=2000");
    struct shortest shortest = {0};
    double best_span = 0, step_times = 0;
    for (size_t step = 2; step < MANY; step++) {
        const json_t *line = e2e_line(&run, 0, step), *ranges = e2e_ranges(line);
        double own = 0, on_compute = 0;
        for (size_t i = 0; i < json_array_size(ranges); i++) {
            const json_t *range = json_array_get(ranges, i);
            if (strcmp(json_string_value(e2e_get(range, "metadata.kind")), "compute") != 0) continue;
            bool beside = strcmp(json_string_value(e2e_get(range, "stream")), "compute") != 0;
            own += e2e_number(range, "duration_ms");
            on_compute += beside ? 0 : e2e_number(range, "duration_ms");
        }
        double span = e2e_number(line, "profile.total_ms"), step_ms = e2e_number(line, "step_ms");
        assert_true(e2e_number(line, "profile.overlap.compute_ms") <= own + 1e-3);
        assert_true(on_compute <= span + 1e-3); /* in sequence; the norm of the layers runs at the same time */
        take_shortest(&shortest, line);
        best_span = fmax(best_span, span / step_ms);
        step_times += step_ms;
    }
    if (share_of_work(&shortest) < 0.8) fail_msg("operations take %.3f of a step", share_of_work(&shortest));
    if (best_span < 0.85 || best_span > 1.15) fail_msg("steps span %.3f of their time at best", best_span);
    const json_t *first = e2e_line(&run, 0, 2), *last = e2e_line(&run, 0, MANY - 1);
    double wall = (e2e_number(last, "profile.origin_ns") - e2e_number(first, "profile.origin_ns")) / 1e6 +
                  e2e_number(last, "profile.total_ms");
    if (fabs(wall - step_times) > 0.15 * wall) fail_msg("%.3f ms passed, steps of %.3f ms", wall, step_times);
    assert_true(step_times / 1e3 < run.seconds);
    e2e_free(&run);
}

/* A collective of one rank is a copy and says so; those of two are real. */
static void test_simulated(void **state) {
    (void)state;
    struct e2e_run one, two;
    struct e2e_filter gather = {.function = "all_gather"};
    e2e_train_well(&one, 1, STEPS, "");
    e2e_train_well(&two, 2, STEPS, "");
    const json_t *alone = e2e_line(&one, 0, 3), *together = e2e_line(&two, 1, 3);
    assert_true(json_is_true(e2e_get(alone, "simulated")));
    assert_true(json_is_false(e2e_get(together, "simulated")));
    for (int i = 0; i < e2e_count(alone, gather); i++)
        assert_true(json_is_true(e2e_get(e2e_range(alone, gather, i), "metadata.simulated")));
    for (int i = 0; i < e2e_count(together, gather); i++)
        assert_null(json_object_get(json_object_get(e2e_range(together, gather, i), "metadata"), "simulated"));
    e2e_free(&two);
    e2e_free(&one);
}

/* workload.async_wait: a layer's output is copied behind its forward pass, and what reads it in the backward pass of
 * the layer above (of the root unit for the last one) follows a wait that ends no sooner than the copy. */
static void check_copies(const json_t *line) {
    check_dependencies(line);
    for (int layer = 0; layer < LAYERS; layer++) {
        struct e2e_filter copy = gather_of(layer), await = copy, reader = {.function = "norm_backward", .tag = "norm"};
        copy.function = "copy_output", await.function = "await_copy";
        if (layer + 1 < LAYERS) reader = operation(layer + 1, "in_proj", "linear_backward_weight");
        assert_true(begins(line, copy, 0) >= ends(line, forward_end(layer), 0));
        assert_true(ends(line, await, 0) >= ends(line, copy, 0));
        assert_true(begins(line, reader, 0) >= ends(line, await, 0));
        assert_int_equal(place(line, reader, 0), place(line, await, 0) + 1); /* just before the data is used */
    }
}

static void test_copies_are_waited_for(void **state) {
    (void)state;
    for_each_line("workload.async_wait=true", check_copies);
    for_each_line("workload.async_wait=true compile.enabled=true", check_copies);
    for_each_line("workload.async_wait=true streams.assignment.prefetch=allreduce", check_copies);
}

/* ---- the host ---- */

static double waited_ms(const json_t *line) {
    const json_t *host = e2e_get(line, "profile.host_ranges");
    double sum_ms = 0;
    for (size_t i = 0; i < json_array_size(host); i++) {
        const json_t *range = json_array_get(host, i);
        if (strcmp(json_string_value(e2e_get(range, "kind")), "host_sync") == 0)
            sum_ms += e2e_number(range, "end_ms") - e2e_number(range, "start_ms");
    }
    return sum_ms;
}

/* While the host does something else it does not wait for the device, which has nothing to do then. */
static void test_a_pause_is_no_waiting(void **state) {
    (void)state;
    enum { PAUSES = 10 };
    const double pauses_ms = 100 * PAUSES;
    struct e2e_run run;
    double all_ms = 0, sync_ms = 0, late_ms = 0;
    e2e_train_well(&run, 1, PAUSES, "training.max_steps=10 training.inject=host_pause:ms=100");
    for (size_t step = 0; step < PAUSES; step++) {
        const json_t *line = e2e_line(&run, 0, step);
        all_ms += waited_ms(line);
        sync_ms += e2e_number(line, "profile.overlap.idle_causes_ms.host_sync");
        late_ms += e2e_number(line, "profile.overlap.idle_causes_ms.host_launch");
    }
    assert_true(all_ms < pauses_ms / 2);
    assert_true(sync_ms < pauses_ms / 2);
    assert_true(late_ms > pauses_ms / 2);
    e2e_free(&run);
}

/* Dumping a batch and queueing its copy are no waiting for it. */
static void check_data_wait(const json_t *line) {
    const struct e2e_filter copy = {.function = "prefetch"};
    const json_t *host = e2e_get(line, "profile.host_ranges");
    bool waited = false;
    for (size_t i = 0; i < json_array_size(host); i++) {
        const json_t *range = json_array_get(host, i);
        if (strcmp(json_string_value(e2e_get(range, "kind")), "data_wait") != 0) continue;
        assert_true(e2e_number(range, "end_ms") <= e2e_enqueue_ms(e2e_range(line, copy, 0)));
        waited = true;
    }
    assert_true(waited);
}

static void test_only_waiting_is_data_wait(void **state) {
    char words[400];
    (void)state;
    snprintf(words, sizeof words, "dataloader.num_workers=0 training.dump_dir=%s/dumped", e2e_workspace());
    for_each_line(words, check_data_wait);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward_prefetch),
        cmocka_unit_test(test_root_unit),
        cmocka_unit_test(test_root_reduction),
        cmocka_unit_test(test_backward_prefetch),
        cmocka_unit_test(test_hybrid_reductions_do_not_wait_for_sums),
        cmocka_unit_test(test_overlap_manager),
        cmocka_unit_test(test_priorities),
        cmocka_unit_test(test_queues_are_ordered),
        cmocka_unit_test(test_times_add_up),
        cmocka_unit_test(test_simulated),
        cmocka_unit_test(test_copies_are_waited_for),
        cmocka_unit_test(test_a_pause_is_no_waiting),
        cmocka_unit_test(test_only_waiting_is_data_wait),
    };
    return cmocka_run_group_tests(tests, e2e_open, e2e_close);
}
