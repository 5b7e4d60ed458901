#include "train/weights.h"

#include "base/files.h"
#include "base/signals.h"
#include "train/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- start values ---- */

/* Where a run's start values come from. */
struct source {
    const struct aorta_train_context *context;
    struct aorta_safetensors file; /* init_from; no tensors: drawn from the seed */
    bool from_file;
};

static aorta_status check_file(const struct source *source) {
    const struct aorta_model *model = source->context->model;
    const struct aorta_config *config = &source->context->options->config;
    for (int i = 0; i < aorta_model_parameter_count(model); i++) {
        const struct aorta_parameter *p = aorta_model_parameter(model, i);
        const struct aorta_tensor *t = aorta_safetensors_find(&source->file, p->name);
        const char *path = source->context->options->training.init_from;
        if (!t) return aorta_config_error(config, "training.init_from", "%s has no tensor %s", path, p->name);
        bool same = t->dtype == AORTA_F32 && t->dimensions == p->dimensions && t->shape[0] == p->rows &&
                    (p->dimensions == 1 || t->shape[1] == p->columns);
        if (!same)
            return aorta_config_error(config, "training.init_from",
                                      "%s: tensor %s is not fp32 of shape [%lld%s%.0lld], as this model needs", path,
                                      p->name, (long long)p->rows, p->dimensions == 2 ? ", " : "",
                                      p->dimensions == 2 ? (long long)p->columns : 0LL);
    }
    return NULL;
}

/* A file that cannot be used is a mistake in the configuration that names it. */
static aorta_status open_file(struct source *source) {
    const struct aorta_train_options *options = source->context->options;
    aorta_status read = aorta_safetensors_read(options->training.init_from, &source->file);
    if (!read) return check_file(source);
    aorta_status status = aorta_config_error(&options->config, "training.init_from", "%s", aorta_status_message(read));
    aorta_status_free(read);
    return status;
}

enum { PIECE = 1 << 18 }; /* values made on the host and sent at a time, so that they take little memory */

static void values_of(const struct source *source, int parameter, int64_t first, int64_t count, float *values) {
    const struct aorta_model *model = source->context->model;
    if (source->from_file) {
        const char *name = aorta_model_parameter(model, parameter)->name;
        const char *data = aorta_safetensors_find(&source->file, name)->data;
        if (count) memcpy(values, data + (size_t)first * sizeof *values, (size_t)count * sizeof *values);
        return;
    }
    aorta_model_initialise(model, parameter, (uint64_t)source->context->options->training.seed, first, count, values);
}

/* Elements [first, first + count) into device memory, made on the host or, on the device of the CPU, in place. */
static aorta_status make_values(const struct source *source, int parameter, int64_t first, int64_t count,
                                float *device) {
    const struct aorta_train_context *c = source->context;
    bool in_place = c->options->fsdp.param_init_device != AORTA_INIT_CPU &&
                    aorta_device_get_info(c->device)->kind == AORTA_DEVICE_CPU;
    if (in_place) {
        values_of(source, parameter, first, count, device);
        return NULL;
    }
    size_t bytes = (size_t)count * sizeof(float);
    float *host = malloc(bytes ? bytes : 1);
    if (!host) return AORTA_ERROR(AORTA_MEMORY, "%zu bytes of start values did not fit in host memory", bytes);
    values_of(source, parameter, first, count, host);
    aorta_status status = aorta_copy(aorta_train_compute(c), device, host, bytes);
    if (!status) status = aorta_stream_synchronize(aorta_train_compute(c));
    free(host);
    return status;
}

/* No rank gets values of another. */
static bool all_alone(const struct aorta_train_context *c) {
    return c->options->fsdp.param_init_device == AORTA_INIT_META || !c->options->fsdp.sync_module_states;
}

/* Elements [first, first + count) of a parameter, through a piece of device memory; this rank imports those that it
 * owns. */
static aorta_status initialise_piece(const struct source *source, struct aorta_strategy *strategy, int parameter,
                                     int64_t first, int64_t count, float *device) {
    const struct aorta_train_context *c = source->context;
    if (all_alone(c) || c->ranks.rank == 0) AORTA_TRY(make_values(source, parameter, first, count, device));
    if (!all_alone(c))
        AORTA_TRY(aorta_broadcast(c->world, aorta_train_compute(c), device, (size_t)count, AORTA_F32, 0));
    int64_t owned_first, owned_count, place;
    strategy->table->owned(strategy, parameter, &owned_first, &owned_count, &place);
    const int64_t from = owned_first > first ? owned_first : first;
    const int64_t owned_end = owned_first + owned_count, end = owned_end < first + count ? owned_end : first + count;
    if (from < end) AORTA_TRY(strategy->table->import(strategy, parameter, from, end - from, device + (from - first)));
    return aorta_stream_synchronize(aorta_train_compute(c));
}

static aorta_status initialise_parameter(const struct source *source, struct aorta_strategy *strategy, int parameter,
                                         float *device) {
    const struct aorta_train_context *c = source->context;
    const struct aorta_parameter *p = aorta_model_parameter(c->model, parameter);
    int64_t first = 0, count = p->rows * p->columns, place;
    if (c->options->fsdp.param_init_device == AORTA_INIT_META)
        strategy->table->owned(strategy, parameter, &first, &count, &place);
    const int64_t piece = c->options->fsdp.param_init_device == AORTA_INIT_DEVICE ? count : PIECE;
    for (int64_t at = first; at < first + count; at += piece) {
        const int64_t rest = first + count - at;
        AORTA_TRY(aorta_signals_check(c->signals));
        AORTA_TRY(initialise_piece(source, strategy, parameter, at, rest < piece ? rest : piece, device));
    }
    return NULL;
}

/* On the device a parameter is made whole, as that is what param_init_device=cuda asks for. */
static int64_t largest_piece(const struct aorta_train_context *context) {
    int64_t largest = PIECE;
    for (int i = 0; i < aorta_model_parameter_count(context->model); i++) {
        const struct aorta_parameter *p = aorta_model_parameter(context->model, i);
        const bool whole = context->options->fsdp.param_init_device == AORTA_INIT_DEVICE;
        if (whole && p->rows * p->columns > largest) largest = p->rows * p->columns;
    }
    return largest;
}

static aorta_status initialise_all(const struct source *source, struct aorta_strategy *strategy) {
    const struct aorta_train_context *c = source->context;
    void *device;
    AORTA_TRY(aorta_device_alloc(c->device, (size_t)largest_piece(c) * sizeof(float), "start values", &device));
    aorta_status status = NULL;
    for (int i = 0; !status && i < aorta_model_parameter_count(c->model); i++)
        status = initialise_parameter(source, strategy, i, device);
    aorta_device_free(c->device, device);
    return status;
}

static void explain(const struct source *source) {
    const struct aorta_train_context *c = source->context;
    const bool sent = !all_alone(c) && c->ranks.world_size > 1;
    aorta_train_explain(c, "start values: %.2f M, %s by %s", (double)aorta_model_element_count(c->model) / 1e6,
                        source->from_file ? "read from training.init_from" : "drawn from training.seed",
                        sent ? "rank 0 and broadcast (fsdp.sync_module_states)" : "each rank");
}

aorta_status aorta_weights_initialise(const struct aorta_train_context *context, struct aorta_strategy *strategy) {
    struct source source = {.context = context, .from_file = context->options->training.init_from != NULL};
    aorta_status status = source.from_file ? open_file(&source) : NULL;
    if (!status) status = initialise_all(&source, strategy);
    if (!status) explain(&source);
    if (!status && strategy->table->ready) status = strategy->table->ready(strategy);
    if (source.from_file) aorta_safetensors_free(&source.file);
    return aorta_annotate(status, "initial parameters");
}

/* ---- dumps ---- */

bool aorta_dump_wanted(const struct aorta_train_options *options, int64_t step) {
    if (!options->training.dump_dir) return false;
    const struct aorta_int_list *steps = &options->training.dump_steps;
    if (!steps->items) return true;
    for (size_t i = 0; i < steps->count; i++)
        if (steps->items[i] == step) return true;
    return false;
}

static aorta_status dump_path(const struct aorta_train_context *context, const char *name, char **path) {
    AORTA_TRY(aorta_directory_make(context->options->training.dump_dir));
    *path = aorta_path_join(context->options->training.dump_dir, name);
    return *path ? NULL : AORTA_ERROR(AORTA_MEMORY, "a file name did not fit in memory");
}

static aorta_status write_dump(const struct aorta_train_context *context, const char *name,
                               const struct aorta_tensor *tensors, size_t count) {
    char *path = NULL;
    AORTA_TRY(dump_path(context, name, &path));
    aorta_status status = aorta_safetensors_write(path, tensors, count);
    free(path);
    return status;
}

/* All parameters or gradients of all units, in host memory: one block, and a tensor for each parameter. */
static aorta_status export_all(const struct aorta_train_context *context, struct aorta_strategy *strategy,
                               enum aorta_export what, float *block, struct aorta_tensor *tensors) {
    const struct aorta_model *model = context->model;
    float *next = block;
    for (int i = 0; i < aorta_model_parameter_count(model); i++) {
        const struct aorta_parameter *p = aorta_model_parameter(model, i);
        tensors[i] = (struct aorta_tensor){p->name, AORTA_F32, p->dimensions, {p->rows, p->columns}, next};
        next += p->rows * p->columns;
    }
    for (int unit = 0; unit < aorta_model_unit_count(model); unit++) {
        float *full[AORTA_UNIT_MAX_PARAMETERS] = {0};
        for (int i = 0; i < aorta_model_parameter_count(model); i++) {
            const struct aorta_parameter *p = aorta_model_parameter(model, i);
            if (p->unit == unit) full[p->slot] = block + ((const float *)tensors[i].data - block);
        }
        AORTA_TRY(strategy->table->export(strategy, what, unit, full));
    }
    return NULL;
}

static aorta_status dump(const struct aorta_train_context *context, struct aorta_strategy *strategy,
                         enum aorta_export what, const char *name, float scale) {
    size_t count = (size_t)aorta_model_parameter_count(context->model);
    size_t elements = (size_t)aorta_model_element_count(context->model);
    float *block = calloc(elements, sizeof *block);
    struct aorta_tensor *tensors = calloc(count, sizeof *tensors);
    aorta_status status = NULL;
    if (!block || !tensors)
        status = AORTA_ERROR(AORTA_MEMORY, "%zu bytes for a dump did not fit in memory", elements * sizeof *block);
    if (!status) status = export_all(context, strategy, what, block, tensors);
    for (size_t i = 0; !status && scale != 1 && i < elements; i++) block[i] *= scale;
    if (!status && context->ranks.rank == 0) status = write_dump(context, name, tensors, count);
    free(tensors);
    free(block);
    return aorta_annotate(status, "training.dump_dir");
}

aorta_status aorta_dump_parameters(const struct aorta_train_context *context, struct aorta_strategy *strategy,
                                   int64_t step) {
    char name[64];
    snprintf(name, sizeof name, "params_%04lld.safetensors", (long long)step);
    return dump(context, strategy, AORTA_EXPORT_PARAMETERS, name, 1);
}

aorta_status aorta_dump_gradients(const struct aorta_train_context *context, struct aorta_strategy *strategy,
                                  int64_t step) {
    struct aorta_step_state state;
    struct aorta_stream *compute = aorta_train_compute(context);
    AORTA_TRY(aorta_copy(compute, &state, context->state, sizeof state));
    AORTA_TRY(aorta_stream_synchronize(compute));
    char name[64];
    snprintf(name, sizeof name, "grads_%04lld.safetensors", (long long)step);
    return dump(context, strategy, AORTA_EXPORT_GRADIENTS, name, 1 / state.loss_scale);
}

aorta_status aorta_dump_batch(const struct aorta_train_context *context, const struct aorta_batch_layout *layout,
                              const void *input, int64_t step) {
    const struct aorta_train_options *o = context->options;
    struct aorta_batch all = aorta_batch_at(layout, input, 0);
    int64_t batch = o->training.batch_size * layout->micro_batches, positions = o->dataset.sequence_length;
    const struct aorta_tensor tensors[] = {
        {"dense", AORTA_F32, 4, {batch, positions, o->dataset.num_dense_features, o->dataset.dense_dim}, all.dense},
        {"categorical", AORTA_I64, 3, {batch, positions, o->dataset.sparse_features}, all.categorical},
        {"target", AORTA_F32, 2, {batch, positions}, all.target},
        {"importance", AORTA_F32, 2, {batch, positions}, all.importance},
    };
    char name[64];
    snprintf(name, sizeof name, "batch_%04lld_rank%02d.safetensors", (long long)step, context->ranks.rank);
    return aorta_annotate(write_dump(context, name, tensors, sizeof tensors / sizeof *tensors), "training.dump_dir");
}
