#include "train/data.h"
#include "base/place.h"
#include "base/random.h"
#include "base/thread.h"
#include "device/gpu.h"
#include "ops/ops.h"
#include "train/context.h"
#include "train/weights.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct aorta_batch_layout aorta_batch_layout(const struct aorta_train_options *options) {
    const struct aorta_dataset_options *d = &options->dataset;
    struct aorta_batch_layout layout = {
        .rows = options->training.batch_size * d->sequence_length,
        .micro_batches = options->training.gradient_accumulation,
        .dense_columns = d->num_dense_features * d->dense_dim,
        .sparse_columns = d->sparse_features,
    };
    size_t rows = (size_t)(layout.rows * layout.micro_batches);
    layout.categorical = aorta_place_round(rows * (size_t)layout.dense_columns * sizeof(float));
    layout.target = layout.categorical + aorta_place_round(rows * (size_t)layout.sparse_columns * sizeof(int64_t));
    layout.importance = layout.target + aorta_place_round(rows * sizeof(float));
    layout.bytes = layout.importance + aorta_place_round(rows * sizeof(float));
    return layout;
}

struct aorta_batch aorta_batch_at(const struct aorta_batch_layout *layout, const void *memory, int64_t micro_batch) {
    const char *base = memory;
    int64_t first = micro_batch * layout->rows;
    return (struct aorta_batch){
        .dense = (const float *)(base + layout->dense) + first * layout->dense_columns,
        .categorical = (const int64_t *)(base + layout->categorical) + first * layout->sparse_columns,
        .target = (const float *)(base + layout->target) + first,
        .importance = (const float *)(base + layout->importance) + first,
    };
}

struct aorta_dataset {
    struct aorta_dataset_options options;
    struct aorta_batch_layout layout;
    int64_t batch_size, global_batch; /* samples of a micro-batch on this rank; of a step on all ranks */
    int64_t steps_per_epoch;
    int rank, world_size;
    int64_t longer_ns; /* training.inject slow_loader: a batch takes so much longer */
    struct aorta_normal_table normal;
};

aorta_status aorta_dataset_create(const struct aorta_train_options *options, int rank, int world_size,
                                  struct aorta_dataset **out) {
    struct aorta_injected injected;
    AORTA_TRY(aorta_injections_read(options, rank, &injected));
    struct aorta_dataset *dataset = calloc(1, sizeof *dataset);
    if (!dataset) return AORTA_ERROR(AORTA_MEMORY, "the data set's tables did not fit in memory");
    dataset->options = options->dataset;
    dataset->layout = aorta_batch_layout(options);
    dataset->batch_size = options->training.batch_size;
    dataset->global_batch = dataset->batch_size * options->training.gradient_accumulation * world_size;
    dataset->steps_per_epoch = options->dataset.num_samples / dataset->global_batch;
    dataset->rank = rank, dataset->world_size = world_size;
    dataset->longer_ns = injected.loader_ns;
    aorta_normal_table_fill(&dataset->normal);
    *out = dataset;
    return NULL;
}

void aorta_dataset_destroy(struct aorta_dataset *dataset) {
    free(dataset);
}

int64_t aorta_dataset_steps_per_epoch(const struct aorta_dataset *dataset) {
    return dataset->steps_per_epoch;
}

/* This rank's input of a step into `memory`, from quantiles in the same memory. */
static struct aorta_batch_draw draw_of(const struct aorta_dataset *dataset, int64_t global_step, const float *quantiles,
                                       void *memory) {
    const struct aorta_batch_layout *layout = &dataset->layout;
    const int64_t epoch = global_step / dataset->steps_per_epoch, step = global_step % dataset->steps_per_epoch;
    char *base = memory;
    return (struct aorta_batch_draw){
        .seed = (uint64_t)dataset->options.seed,
        .domain = AORTA_RANDOM_DATA,
        .vocab = (uint32_t)dataset->options.vocab_size,
        .order = aorta_shuffle_of((uint64_t)dataset->options.seed, (uint64_t)epoch, dataset->options.num_samples),
        .first = step * dataset->global_batch + dataset->rank,
        .stride = dataset->world_size, /* dealt in turn: the ranks together use one run of the order */
        .samples = dataset->batch_size * layout->micro_batches,
        .positions = dataset->options.sequence_length,
        .dense_columns = layout->dense_columns,
        .sparse_columns = layout->sparse_columns,
        .quantiles = quantiles,
        .dense = (float *)(base + layout->dense),
        .categorical = (int64_t *)(base + layout->categorical),
        .target = (float *)(base + layout->target),
        .importance = (float *)(base + layout->importance),
    };
}

void aorta_dataset_fill(const struct aorta_dataset *dataset, int64_t global_step, void *memory) {
    const struct aorta_batch_draw draw = draw_of(dataset, global_step, dataset->normal.quantile, memory);
    aorta_batch_draw_here(&draw);
    if (!dataset->longer_ns) return;
    const struct timespec longer = {.tv_sec = dataset->longer_ns / 1000000000,
                                    .tv_nsec = dataset->longer_ns % 1000000000};
    nanosleep(&longer, NULL);
}

/* ---- the loader ---- */

/* A batch is given back when its step has ended on the device; up to two steps are queued and one more is copied. */
enum { BATCHES_IN_USE = 3 };

enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_FULL };

struct loader_slot {
    void *memory;
    enum slot_state state;
};

struct aorta_loader {
    struct aorta_device *device;
    const struct aorta_dataset *dataset;
    bool pinned;
    int64_t steps;    /* in all */
    int64_t started;  /* next step a worker begins */
    int64_t taken;    /* next step the consumer gets */
    int64_t released; /* next step the consumer gives back */
    int64_t slot_count;
    struct loader_slot *slots; /* step s uses slot s mod slot_count */
    int64_t thread_count;
    pthread_t *threads;
    pthread_mutex_t mutex;
    pthread_cond_t filled, freed;
    bool ending;
};

static struct loader_slot *slot_of(struct aorta_loader *loader, int64_t step) {
    return &loader->slots[step % loader->slot_count];
}

static bool may_start(const struct aorta_loader *loader) {
    return loader->started < loader->steps && loader->started - loader->released < loader->slot_count;
}

static void *work(void *user) {
    struct aorta_loader *loader = user;
    pthread_mutex_lock(&loader->mutex);
    for (;;) {
        while (!loader->ending && loader->started < loader->steps && !may_start(loader))
            pthread_cond_wait(&loader->freed, &loader->mutex);
        if (loader->ending || loader->started == loader->steps) break;
        int64_t step = loader->started++;
        struct loader_slot *slot = slot_of(loader, step);
        slot->state = SLOT_FILLING;
        pthread_mutex_unlock(&loader->mutex);
        aorta_dataset_fill(loader->dataset, step, slot->memory);
        pthread_mutex_lock(&loader->mutex);
        slot->state = SLOT_FULL;
        pthread_cond_broadcast(&loader->filled);
    }
    pthread_mutex_unlock(&loader->mutex);
    return NULL;
}

static aorta_status start_threads(struct aorta_loader *loader, int64_t count) {
    for (; loader->thread_count < count; loader->thread_count++) {
        if (aorta_thread_start(&loader->threads[loader->thread_count], work, loader)) break;
        char name[16];
        snprintf(name, sizeof name, "loader %d", (int)loader->thread_count % 1000);
        pthread_setname_np(loader->threads[loader->thread_count], name);
    }
    if (loader->thread_count == count) return NULL;
    return AORTA_ERROR(AORTA_MEMORY,
                       "data loader thread %lld of %lld could not be started; lower dataloader.num_workers",
                       (long long)loader->thread_count + 1, (long long)count);
}

static aorta_status build(struct aorta_loader *loader, const struct aorta_train_options *options) {
    int64_t workers = options->dataloader.num_workers;
    size_t bytes = aorta_batch_layout(options).bytes;
    int64_t wanted = workers * options->dataloader.prefetch_factor + BATCHES_IN_USE;
    loader->slots = calloc((size_t)wanted, sizeof *loader->slots);
    loader->threads = calloc((size_t)(workers ? workers : 1), sizeof *loader->threads);
    if (!loader->slots || !loader->threads) return AORTA_ERROR(AORTA_MEMORY, "the data loader's tables did not fit");
    for (; loader->slot_count < wanted; loader->slot_count++) {
        void **memory = &loader->slots[loader->slot_count].memory;
        if (loader->pinned)
            AORTA_TRY(aorta_pinned_alloc(loader->device, bytes, "input batch", memory));
        else if (posix_memalign(memory, 256, bytes))
            return AORTA_ERROR(AORTA_MEMORY, "an input batch of %zu bytes did not fit in memory", bytes);
    }
    return start_threads(loader, workers);
}

aorta_status aorta_loader_create(struct aorta_device *device, const struct aorta_train_options *options,
                                 const struct aorta_dataset *dataset, int64_t steps, struct aorta_loader **out) {
    *out = NULL;
    struct aorta_loader *loader = calloc(1, sizeof *loader);
    if (!loader) return AORTA_ERROR(AORTA_MEMORY, "the data loader did not fit in memory");
    loader->device = device, loader->dataset = dataset, loader->steps = steps;
    loader->pinned = options->dataloader.pin_memory;
    pthread_mutex_init(&loader->mutex, NULL);
    pthread_cond_init(&loader->filled, NULL);
    pthread_cond_init(&loader->freed, NULL);
    aorta_status status = build(loader, options);
    if (status) {
        aorta_loader_destroy(loader);
        return aorta_annotate(status, "data loader");
    }
    *out = loader;
    return NULL;
}

void aorta_loader_destroy(struct aorta_loader *loader) {
    if (!loader) return;
    pthread_mutex_lock(&loader->mutex);
    loader->ending = true;
    pthread_cond_broadcast(&loader->freed);
    pthread_mutex_unlock(&loader->mutex);
    for (int64_t i = 0; i < loader->thread_count; i++) pthread_join(loader->threads[i], NULL);
    for (int64_t i = 0; i < loader->slot_count; i++)
        if (loader->pinned)
            aorta_pinned_free(loader->device, loader->slots[i].memory);
        else
            free(loader->slots[i].memory);
    pthread_cond_destroy(&loader->freed);
    pthread_cond_destroy(&loader->filled);
    pthread_mutex_destroy(&loader->mutex);
    free(loader->slots);
    free(loader->threads);
    free(loader);
}

bool aorta_loader_ready(struct aorta_loader *loader) {
    pthread_mutex_lock(&loader->mutex);
    bool ready = loader->taken < loader->started && slot_of(loader, loader->taken)->state == SLOT_FULL;
    pthread_mutex_unlock(&loader->mutex);
    return ready;
}

aorta_status aorta_loader_next(struct aorta_loader *loader, const void **memory) {
    if (loader->taken == loader->steps || loader->taken - loader->released == loader->slot_count)
        return AORTA_ERROR(AORTA_INTERNAL, "batch %lld was asked for beyond the last, or none was given back",
                           (long long)loader->taken);
    struct loader_slot *slot = slot_of(loader, loader->taken);
    if (loader->thread_count == 0) {
        aorta_dataset_fill(loader->dataset, loader->started++, slot->memory);
    } else {
        pthread_mutex_lock(&loader->mutex);
        while (loader->taken >= loader->started || slot->state != SLOT_FULL)
            pthread_cond_wait(&loader->filled, &loader->mutex);
        pthread_mutex_unlock(&loader->mutex);
    }
    loader->taken++;
    *memory = slot->memory;
    return NULL;
}

void aorta_loader_release(struct aorta_loader *loader) {
    pthread_mutex_lock(&loader->mutex);
    slot_of(loader, loader->released)->state = SLOT_FREE;
    loader->released++;
    pthread_cond_broadcast(&loader->freed);
    pthread_mutex_unlock(&loader->mutex);
}

/* ---- batches on the device ---- */

enum { STREAMS = 4 };

struct slot {
    void *memory; /* on the device */
    struct aorta_event *ready;
    struct aorta_event *parts[STREAMS]; /* of all streams except the first; NULL if the copy is not split */
};

struct aorta_input {
    struct aorta_train_context *context;
    const struct aorta_dataset *dataset;
    struct aorta_loader *loader; /* NULL: the device makes the batches, … */
    void *normals;               /* … from these quantiles in device memory */
    struct aorta_batch_layout layout;
    struct aorta_event *const *done;
    int64_t steps, queued;
    const void *next; /* the batch to be queued, on the host; NULL: not taken from the loader yet */
    struct aorta_stream *streams[STREAMS]; /* NULL: the role's stream */
    struct slot slots[AORTA_INPUT_SLOTS];
};

/* ---- life ---- */

/* A copy queued during a replay was seen to start only late in the step, as if its stream shared a hardware queue with
 * a branch of the graph (H100, large.yaml). With several streams only few do that, so the copy is split. */
static aorta_status open_streams(struct aorta_input *input) {
    bool replayed = aorta_compile_captures(&input->context->options->compile);
    if (!replayed || aorta_device_get_info(input->context->device)->kind == AORTA_DEVICE_CPU) return NULL;
    for (int i = 0; i < (input->loader ? STREAMS : 1); i++) {
        char name[32];
        snprintf(name, sizeof name, "input %d", i);
        AORTA_TRY(aorta_train_open_stream(input->context, name, AORTA_PRIORITY_LOW, &input->streams[i]));
    }
    return NULL;
}

static aorta_status make_slot(struct aorta_input *input, struct slot *slot) {
    struct aorta_owned *owned = &input->context->owned;
    AORTA_TRY(aorta_own_memory(owned, input->layout.bytes, "input batch", &slot->memory));
    AORTA_TRY(aorta_own_event(owned, &slot->ready));
    for (int i = 1; i < STREAMS && input->streams[i]; i++) AORTA_TRY(aorta_own_event(owned, &slot->parts[i]));
    return NULL;
}

/* The quantiles that batches are made of. */
static aorta_status place_normals(struct aorta_input *input) {
    const struct aorta_train_context *c = input->context;
    const struct aorta_normal_table *normals = &input->dataset->normal;
    struct aorta_stream *stream = aorta_train_stream(c, AORTA_FLOW_PREFETCH);
    AORTA_TRY(aorta_own_memory(&input->context->owned, sizeof *normals, "quantiles of batches", &input->normals));
    AORTA_TRY(aorta_copy(stream, input->normals, normals, sizeof *normals));
    return aorta_stream_synchronize(stream);
}

static aorta_status build_input(struct aorta_input *input) {
    const struct aorta_train_context *c = input->context;
    if (aorta_train_device_batches(c->options, aorta_device_is_gpu(c->device)))
        AORTA_TRY(place_normals(input));
    else
        AORTA_TRY(aorta_loader_create(c->device, c->options, input->dataset, input->steps, &input->loader));
    AORTA_TRY(open_streams(input));
    aorta_train_explain(c, "batches: %.2f MiB each, made by %s", (double)input->layout.bytes / 1048576,
                        !input->loader                        ? "the device"
                        : !c->options->dataloader.num_workers ? "the training thread"
                                                              : "threads of the host");
    for (int i = 0; i < AORTA_INPUT_SLOTS; i++) AORTA_TRY(make_slot(input, &input->slots[i]));
    return NULL;
}

aorta_status aorta_input_create(struct aorta_train_context *context, const struct aorta_dataset *dataset, int64_t steps,
                                struct aorta_event *const done[AORTA_INPUT_SLOTS], struct aorta_input **out) {
    struct aorta_input *input = *out = aorta_arena_alloc(&context->arena, sizeof *input);
    if (!input) return aorta_arena_check(&context->arena, "the input of steps");
    input->context = context, input->dataset = dataset, input->done = done, input->steps = steps;
    input->layout = aorta_batch_layout(context->options);
    return build_input(input);
}

static struct aorta_stream *first_stream(const struct aorta_input *input) {
    return input->streams[0] ? input->streams[0] : aorta_train_stream(input->context, AORTA_FLOW_PREFETCH);
}

aorta_status aorta_input_synchronize(struct aorta_input *input) {
    aorta_status status = aorta_stream_synchronize(first_stream(input));
    for (int i = 1; i < STREAMS && input->streams[i]; i++)
        status = aorta_status_join(status, aorta_stream_synchronize(input->streams[i]));
    return status;
}

void aorta_input_end(struct aorta_input *input) {
    if (input) aorta_loader_destroy(input->loader);
}

/* ---- copies ---- */

static struct slot *input_slot(const struct aorta_input *input, int64_t step) {
    return (struct slot *)&input->slots[step % AORTA_INPUT_SLOTS];
}

/* The step that read this memory before must have ended. */
static aorta_status wait_for_slot(const struct aorta_input *input, struct aorta_stream *stream) {
    if (input->queued < AORTA_INPUT_SLOTS) return NULL;
    return aorta_stream_wait(stream, input->done[input->queued % AORTA_INPUT_SLOTS]);
}

/* Part number `part` of STREAMS, from the second on; the first stream waits for it. */
static aorta_status copy_part(const struct aorta_input *input, const struct slot *slot, const char *host, int part,
                              size_t most) {
    const size_t from = (size_t)part * most, left = from < input->layout.bytes ? input->layout.bytes - from : 0;
    struct aorta_stream *stream = input->streams[part];
    AORTA_TRY(wait_for_slot(input, stream));
    if (left) AORTA_TRY(aorta_copy(stream, (char *)slot->memory + from, host + from, left < most ? left : most));
    AORTA_TRY(aorta_event_record(slot->parts[part], stream));
    return aorta_stream_wait(input->streams[0], slot->parts[part]);
}

static aorta_status copy(const struct aorta_input *input, const struct slot *slot, const char *host) {
    const size_t bytes = input->layout.bytes;
    if (!input->streams[0]) return aorta_copy(first_stream(input), slot->memory, host, bytes);
    const size_t most = (bytes / STREAMS + 256) / 256 * 256; /* a part; STREAMS of them hold all */
    AORTA_TRY(aorta_copy(input->streams[0], slot->memory, host, most < bytes ? most : bytes));
    for (int i = 1; i < STREAMS; i++) AORTA_TRY(copy_part(input, slot, host, i, most));
    return NULL;
}

aorta_status aorta_input_await(struct aorta_input *input) {
    return input->next || !input->loader ? NULL : aorta_loader_next(input->loader, &input->next);
}

/* ---- batches made on the device ---- */

/* The made batch is copied back, as a dump contains the input that the step reads. */
static aorta_status dump_made(const struct aorta_input *input, const struct slot *slot) {
    const struct aorta_train_context *c = input->context;
    struct aorta_stream *stream = first_stream(input);
    void *host;
    AORTA_TRY(aorta_pinned_alloc(c->device, input->layout.bytes, "dumped batch", &host));
    aorta_status status = aorta_copy(stream, host, slot->memory, input->layout.bytes);
    if (!status) status = aorta_stream_synchronize(stream);
    if (!status) status = aorta_dump_batch(c, &input->layout, host, input->queued);
    aorta_pinned_free(c->device, host);
    return status;
}

/* ---- either ---- */

/* Copies the next batch from the loader's memory, or makes it on the device. */
static aorta_status bring(const struct aorta_input *input, const struct slot *slot, const void *host) {
    if (input->loader) return copy(input, slot, host);
    const struct aorta_batch_draw draw = draw_of(input->dataset, input->queued, input->normals, slot->memory);
    return aorta_draw_batch(first_stream(input), &draw);
}

aorta_status aorta_input_queue(struct aorta_input *input) {
    const struct aorta_train_context *c = input->context;
    const struct aorta_range_info info = {.tag = "input",
                                          .function = input->loader ? "prefetch" : "draw_batch",
                                          .role = aorta_train_role(c, AORTA_FLOW_PREFETCH),
                                          .kind = input->loader ? AORTA_RANGE_COPY : AORTA_RANGE_COMPUTE,
                                          .layer = -1,
                                          .bytes = (int64_t)input->layout.bytes};
    const bool dumped = aorta_dump_wanted(c->options, input->queued);
    struct slot *slot = input_slot(input, input->queued);
    struct aorta_stream *stream = first_stream(input);
    AORTA_TRY(aorta_input_await(input));
    const void *host = input->next;
    input->next = NULL;
    if (dumped && host) AORTA_TRY(aorta_dump_batch(c, &input->layout, host, input->queued));
    AORTA_TRY(wait_for_slot(input, stream));
    AORTA_TRY(aorta_range_begin(c->recorder, stream, &info));
    AORTA_TRY(bring(input, slot, host));
    AORTA_TRY(aorta_range_end(c->recorder));
    if (dumped && !host) AORTA_TRY(dump_made(input, slot));
    input->queued++;
    return aorta_event_record(slot->ready, stream);
}

aorta_status aorta_input_prefetch(struct aorta_input *input) {
    const bool there = !input->loader || aorta_loader_ready(input->loader);
    return input->queued < input->steps && there ? aorta_input_queue(input) : NULL;
}

aorta_status aorta_input_wait(struct aorta_input *input, int64_t step, struct aorta_stream *stream) {
    return aorta_stream_wait(stream, input_slot(input, step)->ready);
}

/* ---- questions ---- */

const struct aorta_batch_layout *aorta_input_layout(const struct aorta_input *input) {
    return &input->layout;
}

void *aorta_input_memory(const struct aorta_input *input, int64_t step) {
    return input_slot(input, step)->memory;
}

int64_t aorta_input_queued(const struct aorta_input *input) {
    return input->queued;
}

void aorta_input_release(struct aorta_input *input) {
    if (input->loader) aorta_loader_release(input->loader);
}
