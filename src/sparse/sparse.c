/* One step of the sparse model, and the work that runs concurrently.
 *
 * base: a batch's copy, id exchange, lookups, row exchange, dense part, gradients and updates, one after the other.
 * sparse: the copy of the batch after the next, and the id exchange of the next one, run during forward and backward;
 *   within a step the row exchange runs during the layers on the dense features, the gradients' during the gradients of
 *   these layers.
 * fused: as sparse, and lookups run on the stream of the id exchange, during the layers on the dense features.
 * semi: as fused, and updates run there, too: after the tables' update the next batch's rows are looked up and sent,
 *   during the last part of backward and the sum of its gradients.
 * prefetch: as sparse, and while this batch is computed the ids of the next one are sorted for their update, and its
 *   rows come from host memory into the cache if the kernel has one.
 *
 * Every stream waits for the beginning of a step, and compute for all of them at its end: so memory that one step has
 * used is free in the next. */
#include "sparse/options.h"

#include "base/clock.h"
#include "device/gpu.h"
#include "sparse/dense.h"
#include "sparse/exchange.h"

#include <stdlib.h>
#include <string.h>

enum { INPUTS = 3 }; /* a step's batch, the next one and the one after */

struct sparse {
    struct aorta_train_workload workload; /* first */
    struct aorta_sparse_options *options;
    struct aorta_ranks ranks;
    struct aorta_sparse_tables tables;
    struct aorta_sparse_maker maker;
    struct aorta_train_context *context;                          /* NULL: not open */
    struct aorta_comm *id;                                        /* all ranks, for ids */
    struct aorta_sparse_exchange *exchanges[AORTA_SPARSE_GROUPS]; /* of groups that have features */
    int exchange_count;
    struct aorta_sparse_dense *dense;
    struct aorta_sparse_layout *layouts; /* of each batch */
    char *batches;                       /* pinned */
    size_t *starts;                      /* of each, and the end of the last */
    char *inputs[INPUTS];                /* on the device */
    float *pooled, *pooled_gradient;
    struct aorta_event *copied[INPUTS], *summed, *reduced;
    int64_t most_samples;
    int64_t copied_count, sent_count, looked_up_count; /* batches whose copy is queued; ids; rows */
    int64_t finished_count;
};

static struct sparse *sparse_of(const struct aorta_train_workload *workload) {
    return (struct sparse *)workload;
}

static int64_t batch_of(const struct sparse *s, int64_t step) {
    return step % s->options->run.num_batches;
}

static int64_t steps(const struct aorta_train_workload *workload) {
    const struct aorta_sparse_options *o = sparse_of(workload)->options;
    return o->train.training.max_steps > 0 ? o->train.training.max_steps : o->run.num_batches;
}

static int64_t steps_per_epoch(const struct aorta_train_workload *workload) {
    return sparse_of(workload)->options->run.num_batches;
}

static int64_t samples(const struct aorta_train_workload *workload, int64_t step) {
    const struct sparse *s = sparse_of(workload);
    return aorta_sparse_batch_size(s->options, batch_of(s, step));
}

/* ---- sizes on a CPU ---- */

enum { CPU_FEATURES = 8, CPU_SAMPLES = 64, CPU_ROWS = 1000, CPU_COLUMNS = 64 };

static bool reduce(int64_t *value, int64_t most) {
    const bool reduced = *value > most;
    if (reduced) *value = most;
    return reduced;
}

/* Scales all values so that the largest becomes `most`. */
static bool reduce_list(struct aorta_sparse_options *o, struct aorta_int_list *list, int64_t most, bool in_proportion) {
    int64_t largest = 0;
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i] > largest) largest = list->items[i];
    if (largest <= most) return false;
    int64_t *items = aorta_arena_alloc(&o->train.config.arena, list->count * sizeof *items);
    if (!items) return false; /* it runs with the sizes given */
    for (size_t i = 0; i < list->count; i++) {
        items[i] = list->items[i];
        if (in_proportion)
            items[i] = items[i] * most / largest > 0 ? items[i] * most / largest : 1;
        else
            reduce(&items[i], most);
    }
    list->items = items;
    return true;
}

static void reduce_sizes(struct aorta_sparse_options *o, const struct aorta_log *log, int rank) {
    bool reduced = false;
    reduced |= reduce(&o->tables.unweighted, CPU_FEATURES);
    reduced |= reduce(&o->tables.weighted, CPU_FEATURES);
    reduced |= reduce(&o->tables.dim, CPU_COLUMNS);
    reduced |= reduce(&o->model.batch_size, CPU_SAMPLES);
    reduced |= reduce_list(o, &o->model.batch_sizes, CPU_SAMPLES, true);
    reduced |= reduce_list(o, &o->model.dense_layers, CPU_COLUMNS, false);
    reduced |= reduce_list(o, &o->model.over_layers, CPU_COLUMNS, false);
    o->tables.most_rows = CPU_ROWS, o->tables.most_columns = CPU_COLUMNS;
    if (rank != 0) return;
    aorta_log(
        log, reduced ? AORTA_LOG_WARNING : AORTA_LOG_INFO,
        "on a CPU sizes are reduced: at most %d made features of each kind, %d samples, %d rows and %d columns of "
        "a table, layers of %d; RunOptions.reduce_on_cpu=false runs those of the configuration",
        CPU_FEATURES, CPU_SAMPLES, CPU_ROWS, CPU_COLUMNS, CPU_COLUMNS);
}

static aorta_status prepare(struct aorta_train_workload *workload, struct aorta_device *device,
                            const struct aorta_log *log, int rank) {
    struct sparse *s = sparse_of(workload);
    if (s->options->run.world_size != s->ranks.world_size && rank == 0)
        aorta_log(
            log, AORTA_LOG_WARNING,
            "the configuration is made for %s (RunOptions.world_size), and there %s %s: aorta launch -n %lld -- aorta "
            "train … starts as many",
            aorta_counted(s->options->run.world_size, "rank").text, s->ranks.world_size == 1 ? "is" : "are",
            aorta_counted(s->ranks.world_size, "rank").text, (long long)s->options->run.world_size);
    if (s->options->run.reduce_on_cpu && !aorta_device_is_gpu(device)) reduce_sizes(s->options, log, rank);
    AORTA_TRY(aorta_sparse_tables_make(s->options, &s->tables));
    aorta_sparse_maker_begin(&s->maker, s->options, &s->tables, s->ranks.world_size);
    return NULL;
}

/* Three products of each layer, and the ranges of the exchanges. */
static size_t ranges_per_step(struct aorta_train_workload *workload) {
    const struct sparse *s = sparse_of(workload);
    return 256 + 3 * (s->options->model.dense_layers.count + s->options->model.over_layers.count + 2);
}

/* ---- batches ---- */

/* Layouts of all batches; *most: bytes of the largest. */
static aorta_status make_layouts(struct sparse *s, size_t *most) {
    const int64_t count = s->options->run.num_batches;
    s->layouts = aorta_arena_alloc(&s->context->arena, (size_t)count * sizeof *s->layouts);
    s->starts = aorta_arena_alloc(&s->context->arena, ((size_t)count + 1) * sizeof *s->starts);
    AORTA_TRY(aorta_arena_check(&s->context->arena, "the layouts of batches"));
    for (int64_t i = 0; i < count; i++) {
        struct aorta_sparse_layout *layout = &s->layouts[i];
        AORTA_TRY(aorta_sparse_batch_layout(&s->maker, i, s->ranks.rank, layout));
        s->starts[i + 1] = s->starts[i] + layout->bytes;
        if (layout->bytes > *most) *most = layout->bytes;
        if (layout->samples > s->most_samples) s->most_samples = layout->samples;
    }
    return NULL;
}

/* All batches are in one allocation, so that it fails before the first batch is made. */
static aorta_status make_batches(struct sparse *s) {
    const int64_t count = s->options->run.num_batches;
    size_t most = 0;
    s->maker.signals = s->context->signals;
    if (s->ranks.rank == 0) /* before work that can take minutes */
        aorta_log(s->context->log, AORTA_LOG_INFO, "preparing %lld batch%s", (long long)count, count == 1 ? "" : "es");
    AORTA_TRY(aorta_annotate(make_layouts(s, &most), "preparing the batches"));
    AORTA_TRY(aorta_annotate(aorta_own_pinned(&s->context->owned, s->starts[count], "batches", &s->batches),
                             "RunOptions.num_batches=%lld", (long long)count));
    for (int64_t i = 0; i < count; i++)
        AORTA_TRY(aorta_annotate(
            aorta_sparse_batch_fill(&s->maker, i, s->ranks.rank, &s->layouts[i], s->batches + s->starts[i]),
            "preparing batch %lld of %lld", (long long)i, (long long)count));
    for (int i = 0; i < INPUTS; i++) AORTA_TRY(aorta_own_memory(&s->context->owned, most, "a batch", &s->inputs[i]));
    return NULL;
}

static struct aorta_sparse_input input_of(const struct sparse *s, int64_t step, int exchange) {
    const struct aorta_sparse_layout *layout = &s->layouts[batch_of(s, step)];
    const struct aorta_sparse_lists *lists = &layout->groups[s->exchanges[exchange]->s.group];
    const char *memory = s->inputs[step % INPUTS];
    return (struct aorta_sparse_input){.samples = layout->samples,
                                       .lengths = (const int32_t *)(memory + lists->lengths_at),
                                       .ids = (const int64_t *)(memory + lists->ids_at),
                                       .weights = (const float *)(memory + lists->weights_at)};
}

static aorta_status copy_batch(struct sparse *s, int64_t step) {
    const struct aorta_sparse_layout *layout = &s->layouts[batch_of(s, step)];
    struct aorta_stream *stream = aorta_train_stream(s->context, AORTA_FLOW_PREFETCH);
    AORTA_TRY(aorta_train_begin(s->context, AORTA_FLOW_PREFETCH, AORTA_RANGE_COPY, "batch", "copy_input",
                                (int64_t)layout->bytes));
    AORTA_TRY(aorta_copy(stream, s->inputs[step % INPUTS], s->batches + s->starts[batch_of(s, step)], layout->bytes));
    AORTA_TRY(aorta_train_end(s->context));
    s->copied_count++;
    return aorta_event_record(s->copied[step % INPUTS], stream);
}

/* ---- set-up ---- */

/* The number of ids in every batch determines the memory that batches need. */
static aorta_status count_batches(struct sparse *s) {
    struct aorta_stream *id = aorta_train_stream(s->context, AORTA_FLOW_REDUCE_SCATTER);
    aorta_recorder_enable(s->context->recorder, false); /* the trainer enables it for each step */
    for (int64_t step = 0; step < s->options->run.num_batches; step++) {
        AORTA_TRY(aorta_signals_check(s->context->signals));
        AORTA_TRY(copy_batch(s, step));
        AORTA_TRY(aorta_stream_wait(id, s->copied[step % INPUTS]));
        for (int g = 0; g < s->exchange_count; g++) {
            const struct aorta_sparse_input input = input_of(s, step, g);
            AORTA_TRY(aorta_sparse_exchange_count(s->exchanges[g], 0, &input));
            AORTA_TRY(aorta_sparse_exchange_await(s->exchanges[g], 0));
        }
        AORTA_TRY(aorta_stream_synchronize(id));
    }
    s->copied_count = 0;
    for (int g = 0; g < s->exchange_count; g++) AORTA_TRY(aorta_sparse_exchange_reserve(s->exchanges[g]));
    return NULL;
}

static aorta_status make_events(struct sparse *s) {
    struct aorta_owned *owned = &s->context->owned;
    AORTA_TRY(aorta_own_event(owned, &s->summed));
    AORTA_TRY(aorta_own_event(owned, &s->reduced));
    for (int i = 0; i < INPUTS; i++) AORTA_TRY(aorta_own_event(owned, &s->copied[i]));
    return NULL;
}

static aorta_status make_exchanges(struct sparse *s) {
    for (int g = 0; g < AORTA_SPARSE_GROUPS; g++) {
        const struct aorta_sparse_exchange_settings settings = {s->context, s->options, &s->tables,
                                                                g,          s->id,      s->most_samples};
        if (s->tables.groups[g].feature_count == 0) continue;
        AORTA_TRY(aorta_sparse_exchange_create(&settings, &s->exchanges[s->exchange_count++]));
    }
    return NULL;
}

static aorta_status take_rows(struct sparse *s) {
    const size_t bytes = (size_t)(s->most_samples * s->tables.columns) * sizeof(float);
    AORTA_TRY(aorta_own_memory(&s->context->owned, bytes, "pooled features", &s->pooled));
    return aorta_own_memory(&s->context->owned, bytes, "gradients of pooled features", &s->pooled_gradient);
}

static void report_sizes(const struct sparse *s) {
    int64_t bytes = 0, tables = 0;
    for (int g = 0; g < AORTA_SPARSE_GROUPS; g++) tables += s->tables.groups[g].table_count;
    for (int g = 0; g < s->exchange_count; g++) bytes += aorta_sparse_exchange_bytes(s->exchanges[g]);
    aorta_log(s->context->log, AORTA_LOG_INFO, "%s, %.1f MiB of them on rank 0; batches of up to %s",
              aorta_counted(tables, "table").text, (double)bytes / 1048576,
              aorta_counted(s->most_samples, "sample").text);
}

static aorta_status open(struct aorta_train_workload *workload, struct aorta_train_context *context) {
    struct sparse *s = sparse_of(workload);
    s->context = context;
    AORTA_TRY(aorta_train_duplicate_world(context, &s->id));
    AORTA_TRY(make_events(s));
    AORTA_TRY(make_batches(s));
    AORTA_TRY(make_exchanges(s));
    AORTA_TRY(aorta_sparse_dense_create(context, s->options, s->tables.columns, s->most_samples, &s->dense));
    AORTA_TRY(take_rows(s));
    AORTA_TRY(count_batches(s));
    if (context->ranks.rank == 0) report_sizes(s);
    return NULL;
}

/* The cache's effect on rank 0. */
static aorta_status report_cache(struct sparse *s) {
    uint64_t sums[AORTA_ROW_COUNTS] = {0}, rows = 0;
    for (int g = 0; g < s->exchange_count; g++) {
        uint64_t counts[AORTA_ROW_COUNTS];
        AORTA_TRY(aorta_sparse_exchange_cached(s->exchanges[g], counts));
        for (int i = 0; i < AORTA_ROW_COUNTS; i++) sums[i] += counts[i];
    }
    for (int i = 0; i < AORTA_ROWS_WRITTEN_BACK; i++) rows += sums[i];
    if (!rows) return NULL;
    aorta_log(s->context->log, AORTA_LOG_INFO,
              "rows that batches needed on rank 0: %.1f%% were cached on the device, %.1f%% were brought there (%.1f%% "
              "for rows that were written back), %.1f%% found no place and were used in host memory",
              100 * (double)sums[AORTA_ROWS_CACHED] / (double)rows,
              100 * (double)sums[AORTA_ROWS_BROUGHT] / (double)rows,
              100 * (double)sums[AORTA_ROWS_WRITTEN_BACK] / (double)rows,
              100 * (double)sums[AORTA_ROWS_WITHOUT_PLACE] / (double)rows);
    return NULL;
}

static void close(struct aorta_train_workload *workload) {
    struct sparse *s = sparse_of(workload);
    if (s->context && s->finished_count && s->ranks.rank == 0) aorta_status_free(report_cache(s));
    aorta_sparse_tables_free(&s->tables);
}

/* ---- a step ---- */

static int slot_of(int64_t step) {
    return (int)(step % AORTA_SPARSE_SLOTS);
}

/* Lengths of a batch that is on its way to the device. */
static aorta_status send_lengths(struct sparse *s, int64_t step) {
    AORTA_TRY(aorta_stream_wait(aorta_train_stream(s->context, AORTA_FLOW_REDUCE_SCATTER), s->copied[step % INPUTS]));
    for (int g = 0; g < s->exchange_count; g++) {
        const struct aorta_sparse_input input = input_of(s, step, g);
        AORTA_TRY(aorta_sparse_exchange_count(s->exchanges[g], slot_of(step), &input));
    }
    return NULL;
}

/* The host waits for the numbers of ids, which exchanges of unequal parts need. */
static aorta_status send_ids(struct sparse *s, int64_t step) {
    const int slot = slot_of(step);
    const int64_t start = aorta_clock_ns();
    for (int g = 0; g < s->exchange_count; g++) AORTA_TRY(aorta_sparse_exchange_await(s->exchanges[g], slot));
    AORTA_TRY(aorta_recorder_host(s->context->recorder, AORTA_HOST_SYNC, start, aorta_clock_ns()));
    for (int g = 0; g < s->exchange_count; g++) {
        const struct aorta_sparse_input input = input_of(s, step, g);
        AORTA_TRY(aorta_sparse_exchange_ids(s->exchanges[g], slot, &input));
    }
    s->sent_count++;
    return NULL;
}

static struct aorta_sparse_pass pass_of(const struct sparse *s, int64_t step) {
    const struct aorta_sparse_layout *layout = &s->layouts[batch_of(s, step)];
    const char *memory = s->inputs[step % INPUTS];
    return (struct aorta_sparse_pass){.samples = layout->samples,
                                      .features = (const float *)(memory + layout->dense),
                                      .labels = (const float *)(memory + layout->labels),
                                      .pooled = s->pooled,
                                      .pooled_gradient = s->pooled_gradient};
}

static enum aorta_role id_role(const struct sparse *s) {
    return aorta_train_role(s->context, AORTA_FLOW_REDUCE_SCATTER);
}

/* Lookups on the stream of `role`, and the rows on their way. */
static aorta_status send_rows(struct sparse *s, int64_t step, enum aorta_role role) {
    for (int g = 0; g < s->exchange_count; g++) {
        AORTA_TRY(aorta_sparse_exchange_lookup(s->exchanges[g], slot_of(step), role));
        AORTA_TRY(aorta_sparse_exchange_rows(s->exchanges[g], slot_of(step), role));
    }
    s->looked_up_count++;
    return NULL;
}

static aorta_status update_tables(struct sparse *s, int64_t step, enum aorta_role role) {
    for (int g = 0; g < s->exchange_count; g++)
        AORTA_TRY(aorta_sparse_exchange_update(s->exchanges[g], slot_of(step), role));
    return NULL;
}

static aorta_status prefetch(struct sparse *s, int64_t step) {
    const enum aorta_role role = aorta_train_role(s->context, AORTA_FLOW_PREFETCH);
    for (int g = 0; g < s->exchange_count; g++)
        AORTA_TRY(aorta_sparse_exchange_prefetch(s->exchanges[g], slot_of(step), role));
    return NULL;
}

static aorta_status gather_rows(struct sparse *s, int64_t step) {
    for (int g = 0; g < s->exchange_count; g++)
        AORTA_TRY(aorta_sparse_exchange_gather(s->exchanges[g], slot_of(step), s->pooled));
    return NULL;
}

static aorta_status return_gradients(struct sparse *s, int64_t step) {
    for (int g = 0; g < s->exchange_count; g++)
        AORTA_TRY(aorta_sparse_exchange_return(s->exchanges[g], slot_of(step), s->pooled_gradient));
    return NULL;
}

/* Dense gradients and stop flags of all ranks, summed during compute. */
static aorta_status sum_gradients(struct sparse *s, const float *stop) {
    const struct aorta_train_context *c = s->context;
    struct aorta_stream *compute = aorta_train_compute(c), *sums = aorta_train_stream(c, AORTA_FLOW_ALL_REDUCE);
    int64_t count;
    float *gradients = aorta_sparse_dense_gradients(s->dense, &count);
    AORTA_TRY(aorta_copy(compute, &gradients[count - 1], stop, sizeof *stop));
    AORTA_TRY(aorta_train_follow(sums, compute, s->summed));
    if (aorta_comm_size(c->world) > 1)
        AORTA_TRY(aorta_train_sum(c, AORTA_FLOW_ALL_REDUCE, c->world, 0, "dense gradients", gradients, count));
    return aorta_event_record(s->reduced, sums);
}

static aorta_status update_dense(struct sparse *s, struct aorta_step_result *result) {
    const struct aorta_train_context *c = s->context;
    struct aorta_stream *compute = aorta_train_compute(c);
    int64_t count;
    const float *gradients = aorta_sparse_dense_gradients(s->dense, &count);
    AORTA_TRY(aorta_stream_wait(compute, s->reduced));
    AORTA_TRY(aorta_sparse_dense_update(s->dense));
    AORTA_TRY(aorta_copy(compute, &result->state, c->state, sizeof result->state));
    AORTA_TRY(aorta_copy(compute, &result->stop, &gradients[count - 1], sizeof result->stop));
    return aorta_step_end(compute, c->state);
}

/* Copies and sends a batch unless an earlier step has done so. */
static aorta_status bring(struct sparse *s, int64_t step) {
    if (s->copied_count <= step) AORTA_TRY(copy_batch(s, step));
    if (s->sent_count > step) return NULL;
    AORTA_TRY(send_lengths(s, step));
    return send_ids(s, step);
}

static aorta_status queue_base(struct sparse *s, int64_t step, const float *stop) {
    const struct aorta_sparse_pass pass = pass_of(s, step);
    AORTA_TRY(bring(s, step));
    AORTA_TRY(send_rows(s, step, AORTA_ROLE_COMPUTE));
    AORTA_TRY(gather_rows(s, step));
    AORTA_TRY(aorta_sparse_dense_bottom(s->dense, &pass));
    AORTA_TRY(aorta_sparse_dense_top(s->dense, &pass));
    AORTA_TRY(aorta_inject_after_forward(s->context));
    AORTA_TRY(return_gradients(s, step));
    AORTA_TRY(update_tables(s, step, AORTA_ROLE_COMPUTE));
    AORTA_TRY(aorta_sparse_dense_backward(s->dense, &pass));
    return sum_gradients(s, stop);
}

/* Copies and lengths of the batches after this one. */
static aorta_status begin_next(struct sparse *s, int64_t step) {
    const int64_t total = steps(&s->workload);
    if (step + 1 < total && s->copied_count <= step + 1) AORTA_TRY(copy_batch(s, step + 1));
    if (step + 1 < total) AORTA_TRY(send_lengths(s, step + 1));
    return step + 2 < total ? copy_batch(s, step + 2) : NULL;
}

/* Runs the pass up to the gradients of the pooled rows, which it sends to the owners. */
static aorta_status forward_and_back(struct sparse *s, int64_t step, const struct aorta_sparse_pass *pass) {
    AORTA_TRY(aorta_sparse_dense_bottom(s->dense, pass));
    AORTA_TRY(gather_rows(s, step));
    AORTA_TRY(aorta_sparse_dense_top(s->dense, pass));
    AORTA_TRY(aorta_inject_after_forward(s->context));
    return return_gradients(s, step);
}

/* Also for fused and prefetch. */
static aorta_status queue_sparse(struct sparse *s, int64_t step, const float *stop) {
    const struct aorta_sparse_pass pass = pass_of(s, step);
    const bool next = step + 1 < steps(&s->workload), fused = s->options->pipeline == AORTA_PIPELINE_FUSED;
    AORTA_TRY(bring(s, step));
    AORTA_TRY(send_rows(s, step, fused ? id_role(s) : AORTA_ROLE_COMPUTE));
    AORTA_TRY(begin_next(s, step));
    AORTA_TRY(forward_and_back(s, step, &pass));
    AORTA_TRY(aorta_sparse_dense_backward(s->dense, &pass));
    AORTA_TRY(sum_gradients(s, stop));
    AORTA_TRY(update_tables(s, step, AORTA_ROLE_COMPUTE));
    if (!next) return NULL;
    AORTA_TRY(send_ids(s, step + 1));
    return s->options->pipeline == AORTA_PIPELINE_PREFETCH ? prefetch(s, step + 1) : NULL;
}

static aorta_status queue_semi(struct sparse *s, int64_t step, const float *stop) {
    const struct aorta_sparse_pass pass = pass_of(s, step);
    const bool next = step + 1 < steps(&s->workload);
    AORTA_TRY(bring(s, step));
    if (s->looked_up_count <= step) AORTA_TRY(send_rows(s, step, id_role(s)));
    AORTA_TRY(begin_next(s, step));
    AORTA_TRY(forward_and_back(s, step, &pass));
    AORTA_TRY(aorta_sparse_dense_backward(s->dense, &pass));
    AORTA_TRY(sum_gradients(s, stop));
    if (next) AORTA_TRY(send_ids(s, step + 1));
    AORTA_TRY(update_tables(s, step, id_role(s)));
    return next ? send_rows(s, step + 1, id_role(s)) : NULL;
}

typedef aorta_status queue_function(struct sparse *s, int64_t step, const float *stop);

static queue_function *const pipelines[] = {[AORTA_PIPELINE_BASE] = queue_base,
                                            [AORTA_PIPELINE_SPARSE] = queue_sparse,
                                            [AORTA_PIPELINE_FUSED] = queue_sparse,
                                            [AORTA_PIPELINE_SEMI] = queue_semi,
                                            [AORTA_PIPELINE_PREFETCH] = queue_sparse};

static aorta_status queue(struct aorta_train_workload *workload, int64_t step, const float *stop,
                          struct aorta_step_result *result) {
    struct sparse *s = sparse_of(workload);
    AORTA_TRY(aorta_train_begin_step(s->context, (struct aorta_schedule){.lr = (float)s->options->run.dense_lr}));
    AORTA_TRY(aorta_inject_before_forward(s->context));
    AORTA_TRY(pipelines[s->options->pipeline](s, step, stop));
    AORTA_TRY(update_dense(s, result));
    return aorta_train_join_streams(s->context);
}

static aorta_status finished(struct aorta_train_workload *workload, int64_t step,
                             const struct aorta_step_result *result) {
    sparse_of(workload)->finished_count++;
    if (result->state.finite) return NULL;
    return AORTA_ERROR(AORTA_CONFIG,
                       "step %lld: a gradient is not finite; lower RunOptions.dense_lr or RunOptions.sparse_lr",
                       (long long)step);
}

static void without_effect(const struct aorta_train_workload *workload, bool gpu, struct aorta_text *lines) {
    aorta_sparse_options_without_effect(sparse_of(workload)->options, gpu, lines);
}

static const struct aorta_train_workload_table table = {
    .name = "sparse pipeline",
    .prepare = prepare,
    .ranges_per_step = ranges_per_step,
    .open = open,
    .close = close,
    .steps = steps,
    .steps_per_epoch = steps_per_epoch,
    .samples = samples,
    .queue = queue,
    .finished = finished,
    .without_effect = without_effect,
};

static aorta_status check_hosts(const struct aorta_sparse_options *options, int ranks) {
    const int64_t local = options->run.local_world_size;
    if (!local || ranks % local == 0) return NULL;
    return aorta_config_error(&options->train.config, "RunOptions.local_world_size",
                              "hosts of %lld ranks do not divide the %s that there are", (long long)local,
                              aorta_counted(ranks, "rank").text);
}

aorta_status aorta_sparse_create(struct aorta_sparse_options *options, const struct aorta_ranks *ranks,
                                 struct aorta_train_workload **workload) {
    *workload = NULL;
    AORTA_TRY(check_hosts(options, ranks->world_size));
    struct sparse *s = calloc(1, sizeof *s);
    if (!s) return AORTA_ERROR(AORTA_MEMORY, "the sparse pipeline did not fit in host memory");
    s->workload.table = &table;
    s->options = options, s->ranks = *ranks;
    *workload = &s->workload;
    return NULL;
}

void aorta_sparse_destroy(struct aorta_train_workload *workload) {
    free(workload);
}
