/* A data loader ahead of a network: pinned images are copied to the device, normalised and mirrored, and go through a
 * small convolutional network, each stage on its own streams, two batches at a time.
 *
 * Stream s has role s modulo 3: 0 copies, 1 prepares, 2 runs the network. Batches are cut into chunks of images, which
 * are distributed over the streams of each role and pass through the stages one after the other. A convolution is a
 * linear layer on columns (aorta_image_columns) in memory of the network's stream; as in PyTorch's cuDNN convolutions
 * its products may use TF32. After the first two convolutions comes the maximum of 2 × 2 pixels, after the third the
 * mean of all. */
#include "hwq/operations.h"

#include <math.h>

enum { LAYERS = 3, POOLED = 2, MOST_CHUNKS = 1024, COPY = 0, PREPARE = 1, NETWORK = 2, ROLES, COLOURS = 3 };

struct options {
    int64_t batches, images, pixels, channels, classes, chunk;
    bool tf32;
};

struct state {
    struct hwq_layer convolutions[LAYERS], classify;
    struct hwq_tensor columns[AORTA_HWQ_MAX_STREAMS]; /* of network streams */
};

/* The values of ImageNet. */
static const float means[COLOURS] = {0.485f, 0.456f, 0.406f}, deviations[COLOURS] = {0.229f, 0.224f, 0.225f};

static const char *const roles[] = {"copy", "prepare", "network", NULL};

static int64_t channels_of(const struct options *o, int layer) {
    return layer < 0 ? COLOURS : o->channels << layer;
}

static aorta_status check(const struct aorta_hwq *hwq) {
    const struct options *o = hwq->options;
    const int64_t chunks = o->batches * ((o->images + o->chunk - 1) / o->chunk);
    if (o->pixels % (1 << POOLED))
        return AORTA_ERROR(AORTA_USAGE,
                           "async_dataload: %lld pixels cannot be halved %d times; choose a multiple of %d",
                           (long long)o->pixels, POOLED, 1 << POOLED);
    if (chunks <= MOST_CHUNKS) return NULL;
    return AORTA_ERROR(AORTA_USAGE, "async_dataload: %lld chunks of images; at most %d: choose a larger --chunk",
                       (long long)chunks, MOST_CHUNKS);
}

/* ---- operations on images: rows are pixels, columns channels ---- */

static const struct aorta_image *image_of(const struct hwq_operation *o) {
    return o->shape;
}

static void append(struct hwq_graph *g, const struct hwq_kind *kind, int s, const struct aorta_image *shape,
                   struct hwq_tensor x, struct hwq_tensor more, struct hwq_tensor y) {
    const struct hwq_operation o = {.kind = kind, .stream = s, .in = {x, more}, .out = {y}};
    hwq_append(g, &o, shape, sizeof *shape);
}

static aorta_status run_prepare(const struct hwq_operation *o, struct aorta_stream *stream) {
    return aorta_image_prepare(stream,
                               &(struct aorta_image_args){.shape = *image_of(o),
                                                          .x = hwq_floats(o->in[0]),
                                                          .flips = hwq_at_device(o->in[1]),
                                                          .mean = {means[0], means[1], means[2]},
                                                          .deviation = {deviations[0], deviations[1], deviations[2]},
                                                          .y = hwq_floats(o->out[0])});
}

static struct hwq_value prepare_element(const struct hwq_element *e) {
    const struct aorta_image *i = image_of(e->o);
    const int64_t area = i->height * i->width, n = e->row / area, pixel = e->row % area, w = pixel % i->width;
    const int64_t column = hwq_at(e, 1, 0, n).value > 0.0 ? i->width - 1 - w : w;
    const double x = hwq_at(e, 0, 0, (n * COLOURS + e->column) * area + pixel - w + column).value;
    const double y = (x - (double)means[e->column]) / (double)deviations[e->column];
    return (struct hwq_value){y, 1e-6 + 1e-6 * fabs(y)};
}

static const struct hwq_kind prepare = {.name = "image_prepare", .run = run_prepare, .element = prepare_element};

static aorta_status run_columns(const struct hwq_operation *o, struct aorta_stream *stream) {
    return aorta_image_columns(
        stream,
        &(struct aorta_image_args){.shape = *image_of(o), .x = hwq_floats(o->in[0]), .y = hwq_floats(o->out[0])});
}

static struct hwq_value columns_element(const struct hwq_element *e) {
    const struct aorta_image *i = image_of(e->o);
    const int64_t h = e->row / i->width % i->height + e->column / i->channels / 3 - 1;
    const int64_t w = e->row % i->width + e->column / i->channels % 3 - 1;
    if (h < 0 || h >= i->height || w < 0 || w >= i->width) return hwq_exact(0.0);
    return hwq_at(e, 0, (e->row / i->width / i->height * i->height + h) * i->width + w, e->column % i->channels);
}

static const struct hwq_kind columns = {
    .name = "image_columns", .run = run_columns, .element = columns_element, .moves = true};

static aorta_status run_pool(const struct hwq_operation *o, struct aorta_stream *stream) {
    return aorta_image_pool(stream, &(struct aorta_image_args){
                                        .shape = *image_of(o), .x = hwq_floats(o->in[0]), .y = hwq_floats(o->out[0])});
}

static struct hwq_value pool_element(const struct hwq_element *e) {
    const int64_t side = image_of(e->o)->width, half = side / 2, corner = e->row / half * 2 * side + e->row % half * 2;
    struct hwq_value most = hwq_at(e, 0, corner, e->column);
    for (int k = 1; k < 4; k++) {
        const struct hwq_value other = hwq_at(e, 0, corner + k / 2 * side + k % 2, e->column);
        if (!(other.value <= most.value)) most = other;
    }
    return most;
}

static const struct hwq_kind pool = {.name = "image_pool", .run = run_pool, .element = pool_element};

static aorta_status run_mean(const struct hwq_operation *o, struct aorta_stream *stream) {
    return aorta_image_mean(stream, &(struct aorta_image_args){
                                        .shape = *image_of(o), .x = hwq_floats(o->in[0]), .y = hwq_floats(o->out[0])});
}

static struct hwq_value mean_element(const struct hwq_element *e) {
    const int64_t area = image_of(e->o)->height * image_of(e->o)->width;
    struct hwq_sum sum = {0};
    for (int64_t p = 0; p < area; p++) hwq_sum_add(&sum, hwq_at(e, 0, e->row * area + p, e->column));
    const struct hwq_value all = hwq_sum_end(&sum, 1e-5);
    return (struct hwq_value){all.value / (double)area, all.allowed / (double)area};
}

static const struct hwq_kind mean = {.name = "image_mean", .run = run_mean, .element = mean_element};

/* ---- the graph ---- */

/* Loads images followed by one byte per image: is it mirrored? Returns the prepared pixels [images · area, colours]. */
static struct hwq_tensor load(struct hwq_graph *g, int64_t index, int64_t images) {
    const struct options *o = g->options;
    const int s = hwq_stream(g, PREPARE, ROLES, index);
    const struct aorta_image shape = {images, o->pixels, o->pixels, COLOURS};
    const int64_t count = images * COLOURS * o->pixels * o->pixels, bytes = count * (int64_t)sizeof(float);
    const struct hwq_tensor loaded = hwq_pinned(g, AORTA_U8, bytes + images, false, "loaded images");
    const struct hwq_tensor raw = hwq_result(g, AORTA_U8, 1, bytes + images, "images");
    const struct hwq_tensor prepared = hwq_result(g, AORTA_F32, count / COLOURS, COLOURS, "prepared images");
    uint8_t *flips = hwq_at_device(hwq_retyped(loaded, bytes, AORTA_U8, images));
    if (g->status) return prepared;
    hwq_fail(g, aorta_hwq_values(g->hwq, 100 + (uint64_t)index, 0, count, 1.0f, hwq_at_device(loaded)));
    for (int64_t i = 0; i < images; i++) flips[i] = (uint8_t)((index + i) * 7 % 3 == 0);
    hwq_copy(hwq_into(g, raw), hwq_stream(g, COPY, ROLES, index), loaded);
    append(g, &prepare, s, &shape, hwq_retyped(raw, 0, AORTA_F32, count), hwq_retyped(raw, bytes, AORTA_U8, images),
           prepared);
    return prepared;
}

static void classify(struct hwq_graph *g, const struct state *state, int64_t index, int64_t images,
                     struct hwq_tensor x) {
    const struct options *o = g->options;
    const int s = hwq_stream(g, NETWORK, ROLES, index);
    const struct hwq_tensor none = {0};
    for (int l = 0; l < LAYERS; l++) {
        const int64_t side = o->pixels >> l, rows = images * side * side;
        const struct aorta_image in = {images, side, side, channels_of(o, l - 1)};
        const struct aorta_image out = {images, side, side, channels_of(o, l)};
        const struct hwq_tensor around = hwq_shaped(state->columns[s], rows, 9 * in.channels);
        append(g, &columns, s, &in, x, none, around);
        x = hwq_linear_relu(g, s, &state->convolutions[l], around, o->tf32);
        const struct hwq_tensor y = l < POOLED ? hwq_result(g, AORTA_F32, rows / 4, out.channels, "pooled images")
                                               : hwq_result(g, AORTA_F32, images, out.channels, "means of images");
        append(g, l < POOLED ? &pool : &mean, s, &out, x, none, y);
        x = y;
    }
    hwq_linear(g, s, &state->classify, x);
}

static void make_network(struct hwq_graph *g, struct state *state) {
    const struct options *o = g->options;
    int64_t most = 0;
    for (int l = 0; l < LAYERS; l++) {
        const int64_t count = o->chunk * (o->pixels * o->pixels >> 2 * l) * 9 * channels_of(o, l - 1);
        if (count > most) most = count;
        state->convolutions[l] =
            hwq_layer(g, 10 * (uint64_t)(l + 1), 9 * channels_of(o, l - 1), channels_of(o, l), false);
    }
    state->classify = hwq_layer(g, 50, channels_of(o, LAYERS - 1), o->classes, false);
    for (int s = NETWORK; s < g->hwq->stream_count; s += ROLES)
        state->columns[s] = hwq_result(g, AORTA_F32, 1, most, "columns of a convolution");
}

static void build(struct hwq_graph *g) {
    const struct options *o = g->options;
    struct state *state = hwq_state(g, sizeof *state);
    int64_t index = 0;
    if (!state) return;
    make_network(g, state);
    for (int64_t b = 0; b < o->batches; b++)
        for (int64_t first = 0; first < o->images; first += o->chunk, index++) {
            const int64_t images = o->images - first < o->chunk ? o->images - first : o->chunk;
            classify(g, state, index, images, load(g, index, images));
        }
    g->work = (double)(o->batches * o->images);
}

static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, batches, "2", NULL, 1, 1024, "batches in flight"),
    AORTA_HWQ_ROW(struct options, images, "32", "4", 1, 1024, "images of a batch"),
    AORTA_HWQ_ROW(struct options, pixels, "224", "32", 4, 4096, "pixels of a side"),
    AORTA_HWQ_ROW(struct options, channels, "64", "16", 1, 4096,
                  "channels of the first convolution; then twice as many each"),
    AORTA_HWQ_ROW(struct options, classes, "1000", NULL, 1, HWQ_LARGEST, "classes"),
    AORTA_HWQ_ROW(struct options, chunk, "8", "2", 1, 1024, "images that go from stage to stage together"),
    {"tf32", AORTA_OPTION_BOOL, offsetof(struct options, tf32), "true",
     .help = "convolutions may round their operands to TF32, as PyTorch's do; --tf32=false: they stay in fp32"},
};

const struct aorta_hwq_workload aorta_hwq_async_dataload = {
    .name = "async_dataload",
    .summary = "copies from the host and their preparation have to stay ahead of the network",
    .group = AORTA_HWQ_P3,
    .category = "pipeline",
    .sensitivity = "medium",
    .streams = {.min = 4, .max = 12, .recommended = 6},
    .unit = "images/s",
    AORTA_HWQ_OPTIONS(rows, struct options),
    .try_next = "--chunk 2 overlaps better, --chunk 32 launches less; with --channels 8 copies limit",
    .check = check,
    .roles = roles,
    .build = build,
};
