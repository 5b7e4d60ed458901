#include "train/weights.h"
#include "base/files.h"
#include "base/json.h"
#include "base/signals.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The format is little-endian, and data is written without conversion. */
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors files are little-endian"
#endif

enum { LENGTH_BYTES = 8, HEADER_ALIGNMENT = 8 };

static const char *const format_names[AORTA_DTYPE_COUNT] = {[AORTA_F32] = "F32", [AORTA_I64] = "I64"};

int64_t aorta_tensor_elements(const struct aorta_tensor *tensor) {
    int64_t elements = 1;
    for (int i = 0; i < tensor->dimensions; i++) elements *= tensor->shape[i];
    return elements;
}

static size_t byte_size(const struct aorta_tensor *tensor) {
    return (size_t)aorta_tensor_elements(tensor) * aorta_dtype_size(tensor->dtype);
}

/* ---- writing ---- */

static void write_header(struct aorta_text *text, const struct aorta_tensor *tensors, size_t count) {
    struct aorta_json json;
    int64_t offset = 0;
    aorta_json_begin(&json, text, 0);
    aorta_json_object(&json);
    for (size_t i = 0; i < count; i++) {
        const struct aorta_tensor *t = &tensors[i];
        aorta_json_key_object(&json, t->name);
        aorta_json_key_string(&json, "dtype", format_names[t->dtype]);
        aorta_json_key_array(&json, "shape");
        for (int d = 0; d < t->dimensions; d++) aorta_json_int(&json, t->shape[d]);
        aorta_json_array_end(&json);
        aorta_json_key_array(&json, "data_offsets");
        aorta_json_int(&json, offset);
        offset += (int64_t)byte_size(t);
        aorta_json_int(&json, offset);
        aorta_json_array_end(&json);
        aorta_json_object_end(&json);
    }
    aorta_json_object_end(&json);
    while (text->length % HEADER_ALIGNMENT) aorta_text_puts(text, " ");
}

aorta_status aorta_safetensors_write(const char *path, const struct aorta_tensor *tensors, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!format_names[tensors[i].dtype])
            return AORTA_ERROR(AORTA_INTERNAL, "%s: tensors of %s are not written", path,
                               aorta_dtype_name(tensors[i].dtype));
    struct aorta_text header = {0}, file = {0};
    write_header(&header, tensors, count);
    uint64_t length = header.length;
    aorta_text_append(&file, (const char *)&length, LENGTH_BYTES);
    aorta_text_append(&file, header.data, header.length);
    for (size_t i = 0; i < count; i++) aorta_text_append(&file, tensors[i].data, byte_size(&tensors[i]));
    aorta_status status = aorta_status_join(aorta_text_check(&header), aorta_text_check(&file));
    if (!status) status = aorta_file_replace(path, file.data, file.length);
    aorta_text_free(&header);
    aorta_text_free(&file);
    return aorta_annotate(status, "safetensors file");
}

/* ---- reading ---- */

static bool parse_dtype(const json_t *value, enum aorta_dtype *dtype) {
    const char *name = json_string_value(value);
    for (int i = 0; name && i < AORTA_DTYPE_COUNT; i++) {
        if (!format_names[i] || strcmp(name, format_names[i]) != 0) continue;
        *dtype = (enum aorta_dtype)i;
        return true;
    }
    return false;
}

/* Elements in all, or -1 when the shape is not one that fits in memory. */
static int64_t parse_shape(const json_t *shape, struct aorta_tensor *tensor) {
    if (!json_is_array(shape) || json_array_size(shape) > AORTA_TENSOR_MAX_DIMENSIONS) return -1;
    tensor->dimensions = (int)json_array_size(shape);
    int64_t elements = 1;
    for (int d = 0; d < tensor->dimensions; d++) {
        const json_t *extent = json_array_get(shape, (size_t)d);
        int64_t value = json_is_integer(extent) ? json_integer_value(extent) : -1;
        if (value < 0 || (value > 0 && elements > INT64_MAX / 16 / value)) return -1;
        tensor->shape[d] = value;
        elements *= value;
    }
    return elements;
}

static aorta_status parse_tensor(const char *path, const char *name, const json_t *entry, const char *data,
                                 size_t data_size, struct aorta_tensor *tensor) {
    tensor->name = name;
    if (!parse_dtype(json_object_get(entry, "dtype"), &tensor->dtype))
        return AORTA_ERROR(AORTA_FORMAT, "%s: tensor %s: dtype is not F32 or I64", path, name);
    int64_t elements = parse_shape(json_object_get(entry, "shape"), tensor);
    if (elements < 0)
        return AORTA_ERROR(AORTA_FORMAT, "%s: tensor %s: shape is not a list of at most %d sizes", path, name,
                           AORTA_TENSOR_MAX_DIMENSIONS);
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last))
        return AORTA_ERROR(AORTA_FORMAT, "%s: tensor %s: data_offsets are not a list of two integers", path, name);
    int64_t begin = json_integer_value(first), end = json_integer_value(last);
    if (begin < 0 || end < begin || (uint64_t)end > data_size)
        return AORTA_ERROR(AORTA_FORMAT, "%s: tensor %s: data_offsets are outside the file's %zu bytes of data", path,
                           name, data_size);
    if ((uint64_t)(end - begin) != byte_size(tensor))
        return AORTA_ERROR(AORTA_FORMAT, "%s: tensor %s: %lld bytes of data, but its shape needs %zu", path, name,
                           (long long)(end - begin), byte_size(tensor));
    tensor->data = data + begin;
    return NULL;
}

static aorta_status parse_header(const char *path, struct aorta_safetensors *file, size_t length) {
    uint64_t header_length;
    if (length < LENGTH_BYTES) return AORTA_ERROR(AORTA_FORMAT, "%s: %zu bytes are no safetensors file", path, length);
    memcpy(&header_length, file->bytes, LENGTH_BYTES);
    if (header_length > length - LENGTH_BYTES)
        return AORTA_ERROR(AORTA_FORMAT, "%s: the header claims %llu bytes, the file has %zu", path,
                           (unsigned long long)header_length, length);
    json_error_t error;
    json_t *header = json_loadb(file->bytes + LENGTH_BYTES, (size_t)header_length, JSON_REJECT_DUPLICATES, &error);
    file->header = header;
    if (!json_is_object(header))
        return AORTA_ERROR(AORTA_FORMAT, "%s: header at byte %d: %s", path, LENGTH_BYTES + error.position,
                           header ? "not an object" : error.text);
    file->tensors = calloc(json_object_size(header) + 1, sizeof *file->tensors);
    if (!file->tensors) return AORTA_ERROR(AORTA_MEMORY, "%s: its table of tensors did not fit in memory", path);
    const char *name;
    json_t *entry;
    const char *data = file->bytes + LENGTH_BYTES + header_length;
    json_object_foreach(header, name, entry) {
        if (strcmp(name, "__metadata__") == 0) continue;
        AORTA_TRY(parse_tensor(path, name, entry, data, length - LENGTH_BYTES - (size_t)header_length,
                               &file->tensors[file->count]));
        file->count++;
    }
    return NULL;
}

aorta_status aorta_safetensors_read(const char *path, struct aorta_safetensors *file) {
    *file = (struct aorta_safetensors){0};
    size_t length;
    AORTA_TRY(aorta_file_read_regular(path, SIZE_MAX, &file->bytes, &length));
    aorta_status status = parse_header(path, file, length);
    if (status) aorta_safetensors_free(file);
    return status;
}

const struct aorta_tensor *aorta_safetensors_find(const struct aorta_safetensors *file, const char *name) {
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->tensors[i].name, name) == 0) return &file->tensors[i];
    return NULL;
}

void aorta_safetensors_free(struct aorta_safetensors *file) {
    json_decref(file->header);
    free(file->tensors);
    free(file->bytes);
    *file = (struct aorta_safetensors){0};
}

/* ---- start values of a model ---- */

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

/* Writes elements [first, first + count) to device memory: made on the host or, for the CPU device, in place. */
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

/* Values of this rank's elements, from device memory to their place in the optimizer's. */
static aorta_status take_values(const struct aorta_train_context *c, const struct aorta_optimizer_memory *memory,
                                int64_t place, int64_t count, const float *values) {
    struct aorta_stream *compute = aorta_train_compute(c);
    const bool root = memory->root_copy && place >= memory->layers;
    const int64_t at = root ? place - memory->layers : place;
    char *copy = root ? memory->root_copy : memory->copy;
    AORTA_TRY(aorta_copy(compute, memory->parameters + place, values, (size_t)count * sizeof *values));
    if (!copy) return NULL;
    return aorta_cast(compute, copy + (size_t)at * aorta_dtype_size(c->dtype), c->dtype, values, AORTA_F32, count, 1);
}

/* Initializes elements [first, first + count) of a parameter through a piece of device memory. This rank copies those
 * that it owns. */
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
    if (from < end)
        AORTA_TRY(take_values(c, &strategy->own, place + (from - owned_first), end - from, device + (from - first)));
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

static aorta_status write_dump(const struct aorta_train_context *context, const char *name,
                               const struct aorta_tensor *tensors, size_t count) {
    const char *directory = context->options->training.dump_dir;
    AORTA_TRY(aorta_directory_make(directory));
    return aorta_safetensors_write(aorta_path_in(directory, "%s", name).text, tensors, count);
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
                         enum aorta_export what, int64_t step, float scale) {
    char name[64];
    snprintf(name, sizeof name, "%s_%04lld.safetensors", what == AORTA_EXPORT_PARAMETERS ? "params" : "grads",
             (long long)step);
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
    return dump(context, strategy, AORTA_EXPORT_PARAMETERS, step, 1);
}

aorta_status aorta_dump_gradients(const struct aorta_train_context *context, struct aorta_strategy *strategy,
                                  int64_t step) {
    struct aorta_step_state state;
    struct aorta_stream *compute = aorta_train_compute(context);
    AORTA_TRY(aorta_copy(compute, &state, context->state, sizeof state));
    AORTA_TRY(aorta_stream_synchronize(compute));
    return dump(context, strategy, AORTA_EXPORT_GRADIENTS, step, 1 / state.loss_scale);
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
