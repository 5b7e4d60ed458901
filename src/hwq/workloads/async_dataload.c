/* A data loader ahead of a network: pinned images are copied to the device, normalised and mirrored, and go through a
 * small convolutional network, each stage on its own streams, two batches at a time.
 *
 * Stream s has role s modulo 3: 0 copies, 1 prepares, 2 runs the network. Batches are cut into chunks of images, which
 * are distributed over the streams of each role and pass through the stages one after the other. The loader's decision
 * which images are mirrored is part of the same copy. A convolution is a linear layer on columns (aorta_image_columns)
 * in memory of the network's stream; as in PyTorch's cuDNN convolutions its products may use TF32. After the first two
 * convolutions comes the maximum of 2 × 2 pixels, after the third the mean of all. */
#include "hwq/verify.h"

#include <math.h>

enum { LAYERS = 3, POOLED = 2, MOST_CHUNKS = 1024, COPY = 0, PREPARE = 1, NETWORK = 2, COLOURS = 3 };

struct options {
    int64_t batches, images, pixels, channels, classes, chunk;
    bool tf32;
};

struct chunk {
    int64_t images;
    float *loaded, *raw; /* pinned, on the device: [images, 3, pixels, pixels], then [images] bytes: mirrored? */
    float *prepared, *convolved[LAYERS], *pooled[POOLED], *mean, *logits;
    struct aorta_event *copied, *ready;
};

struct state {
    struct aorta_hwq_layer convolutions[LAYERS], classify;
    struct chunk chunks[MOST_CHUNKS];
    int64_t chunk_count;
    float *columns[AORTA_HWQ_MAX_STREAMS]; /* of network streams */
    struct aorta_hwq_results results;
};

/* ImageNet's. */
static const float means[COLOURS] = {0.485f, 0.456f, 0.406f}, deviations[COLOURS] = {0.229f, 0.224f, 0.225f};

static int stream_for(const struct aorta_hwq *hwq, int what, int64_t chunk) {
    const int count = (hwq->stream_count - what + 2) / 3;
    return what + 3 * (int)(chunk % count);
}

static const char *role(const struct aorta_hwq *hwq, int stream) {
    static const char *const names[] = {"copy", "prepare", "network"};
    (void)hwq;
    return names[stream % 3];
}

static int64_t floats_of(const struct options *o, const struct chunk *c) {
    return c->images * COLOURS * o->pixels * o->pixels;
}

static size_t bytes_of(const struct options *o, const struct chunk *c) {
    return (size_t)floats_of(o, c) * sizeof(float) + (size_t)c->images;
}

/* Of `images`, which are `loaded` or `raw`. */
static uint8_t *flips_of(const struct options *o, const struct chunk *c, float *images) {
    return (uint8_t *)(images + floats_of(o, c));
}

static int64_t channels_of(const struct options *o, int layer) {
    return layer < 0 ? COLOURS : o->channels << layer;
}

static struct aorta_image image_of(const struct options *o, const struct chunk *c, int layer, int64_t channels) {
    return (struct aorta_image){c->images, o->pixels >> layer, o->pixels >> layer, channels};
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

/* ---- setup ---- */

static aorta_status setup_chunk(struct aorta_hwq *hwq, struct state *state, int64_t index) {
    const struct options *o = hwq->options;
    struct chunk *c = &state->chunks[index];
    const int64_t area = o->pixels * o->pixels, count = floats_of(o, c);
    void *pinned, *raw;
    AORTA_TRY(aorta_hwq_pinned(hwq, bytes_of(o, c), "images", &pinned));
    AORTA_TRY(aorta_hwq_values(hwq, 100 + (uint64_t)index, 0, count, 1.0f, pinned));
    c->loaded = pinned;
    for (int64_t i = 0; i < c->images; i++) flips_of(o, c, c->loaded)[i] = (uint8_t)((index + i) * 7 % 3 == 0);
    AORTA_TRY(aorta_hwq_output_bytes(hwq, &state->results, bytes_of(o, c), "images", &raw));
    c->raw = raw;
    AORTA_TRY(aorta_hwq_output(hwq, &state->results, count, "prepared images", &c->prepared));
    for (int l = 0; l < LAYERS; l++) {
        const int64_t made = c->images * (area >> 2 * l) * channels_of(o, l);
        AORTA_TRY(aorta_hwq_output(hwq, &state->results, made, "convolved images", &c->convolved[l]));
        if (l < POOLED) AORTA_TRY(aorta_hwq_output(hwq, &state->results, made / 4, "pooled images", &c->pooled[l]));
    }
    AORTA_TRY(
        aorta_hwq_output(hwq, &state->results, c->images * channels_of(o, LAYERS - 1), "means of images", &c->mean));
    AORTA_TRY(aorta_hwq_output(hwq, &state->results, c->images * o->classes, "logits", &c->logits));
    AORTA_TRY(aorta_hwq_event(hwq, &c->copied));
    return aorta_hwq_event(hwq, &c->ready);
}

static aorta_status setup_columns(struct aorta_hwq *hwq, struct state *state) {
    const struct options *o = hwq->options;
    int64_t most = 0;
    for (int l = 0; l < LAYERS; l++) {
        const int64_t count = o->chunk * (o->pixels * o->pixels >> 2 * l) * 9 * channels_of(o, l - 1);
        if (count > most) most = count;
    }
    for (int s = NETWORK; s < hwq->stream_count; s += 3)
        AORTA_TRY(aorta_hwq_output(hwq, &state->results, most, "columns of a convolution", &state->columns[s]));
    return NULL;
}

static aorta_status setup(struct aorta_hwq *hwq, void **made) {
    const struct options *o = hwq->options;
    AORTA_TRY(aorta_hwq_state(hwq, sizeof(struct state), made));
    struct state *state = *made;
    for (int l = 0; l < LAYERS; l++)
        AORTA_TRY(aorta_hwq_layer_make(hwq, 10 * (uint64_t)(l + 1), 9 * channels_of(o, l - 1), channels_of(o, l), false,
                                       &state->convolutions[l]));
    AORTA_TRY(aorta_hwq_layer_make(hwq, 50, channels_of(o, LAYERS - 1), o->classes, false, &state->classify));
    AORTA_TRY(setup_columns(hwq, state));
    for (int64_t b = 0; b < o->batches; b++)
        for (int64_t first = 0; first < o->images; first += o->chunk) {
            const int64_t index = state->chunk_count++;
            state->chunks[index].images = o->images - first < o->chunk ? o->images - first : o->chunk;
            AORTA_TRY(setup_chunk(hwq, state, index));
        }
    return NULL;
}

/* ---- one iteration ---- */

static aorta_status load(struct aorta_hwq *hwq, const struct chunk *c, int64_t index) {
    const struct options *o = hwq->options;
    const int from = stream_for(hwq, COPY, index), s = stream_for(hwq, PREPARE, index);
    AORTA_TRY(aorta_hwq_copy(hwq, from, c->raw, c->loaded, bytes_of(o, c)));
    AORTA_TRY(aorta_hwq_after(hwq, s, c->copied, from));
    AORTA_TRY(aorta_hwq_begin(hwq, s, AORTA_SPAN_KERNEL, "image_prepare"));
    AORTA_TRY(aorta_image_prepare(hwq->streams[s], image_of(o, c, 0, COLOURS), c->raw, flips_of(o, c, c->raw), means,
                                  deviations, c->prepared));
    return aorta_hwq_end(hwq, s);
}

static aorta_status convolve(struct aorta_hwq *hwq, int s, const struct state *state, const struct chunk *c, int l) {
    const struct options *o = hwq->options;
    const struct aorta_hwq_layer *layer = &state->convolutions[l];
    const struct aorta_image in = image_of(o, c, l, channels_of(o, l - 1)), out = image_of(o, c, l, channels_of(o, l));
    const int64_t rows = in.images * in.height * in.width;
    AORTA_TRY(aorta_hwq_begin(hwq, s, AORTA_SPAN_KERNEL, "image_columns"));
    AORTA_TRY(aorta_image_columns(hwq->streams[s], in, l == 0 ? c->prepared : c->pooled[l - 1], state->columns[s]));
    AORTA_TRY(aorta_hwq_end(hwq, s));
    AORTA_TRY(aorta_hwq_linear_relu(hwq, s, layer, rows, state->columns[s], c->convolved[l], o->tf32));
    if (l >= POOLED) return NULL;
    AORTA_TRY(aorta_hwq_begin(hwq, s, AORTA_SPAN_KERNEL, "image_pool"));
    AORTA_TRY(aorta_image_pool(hwq->streams[s], out, c->convolved[l], c->pooled[l]));
    return aorta_hwq_end(hwq, s);
}

static aorta_status classify(struct aorta_hwq *hwq, const struct state *state, const struct chunk *c, int64_t index) {
    const struct options *o = hwq->options;
    const int s = stream_for(hwq, NETWORK, index);
    AORTA_TRY(aorta_hwq_after(hwq, s, c->ready, stream_for(hwq, PREPARE, index)));
    for (int l = 0; l < LAYERS; l++) AORTA_TRY(convolve(hwq, s, state, c, l));
    AORTA_TRY(aorta_hwq_begin(hwq, s, AORTA_SPAN_KERNEL, "image_mean"));
    AORTA_TRY(aorta_image_mean(hwq->streams[s], image_of(o, c, POOLED, channels_of(o, LAYERS - 1)),
                               c->convolved[LAYERS - 1], c->mean));
    AORTA_TRY(aorta_hwq_end(hwq, s));
    return aorta_hwq_linear(hwq, s, &state->classify, c->images, c->mean, c->logits);
}

static aorta_status iterate(struct aorta_hwq *hwq, void *opaque) {
    struct state *state = opaque;
    for (int64_t i = 0; i < state->chunk_count; i++) {
        AORTA_TRY(load(hwq, &state->chunks[i], i));
        AORTA_TRY(classify(hwq, state, &state->chunks[i], i));
    }
    return NULL;
}

static aorta_status work(struct aorta_hwq *hwq, void *state, int64_t iterations, double *amount) {
    const struct options *o = hwq->options;
    (void)state;
    *amount = (double)(iterations * o->batches * o->images);
    return NULL;
}

/* ---- verification ---- */

static aorta_status verify_prepared(struct aorta_hwq_verifier *verifier, const struct chunk *c) {
    const struct options *o = verifier->hwq->options;
    const int64_t area = o->pixels * o->pixels, count = floats_of(o, c);
    const uint8_t *flips = flips_of(o, c, c->loaded);
    const float *got;
    AORTA_TRY(aorta_hwq_fetch(verifier, c->prepared, count, &got));
    for (int64_t i = 0; i < aorta_hwq_sample_count(count); i++) {
        const int64_t at = aorta_hwq_sample(i, count), colour = at % COLOURS, pixel = at / COLOURS % area;
        const int64_t n = at / COLOURS / area, w = pixel % o->pixels;
        const int64_t column = flips[n] ? o->pixels - 1 - w : w;
        const float x = c->loaded[(n * COLOURS + colour) * area + pixel - w + column];
        aorta_hwq_compare(verifier->check, (double)got[at],
                          ((double)x - (double)means[colour]) / (double)deviations[colour], 1e-6, 1e-6,
                          "prepared image[%lld]", (long long)at);
    }
    return NULL;
}

/* Sampled pixels by the definition of a convolution. */
static aorta_status verify_convolution(struct aorta_hwq_verifier *verifier, const struct state *state,
                                       const struct chunk *c, int l) {
    const struct options *o = verifier->hwq->options;
    const struct aorta_hwq_layer *layer = &state->convolutions[l];
    const int64_t side = o->pixels >> l, in = channels_of(o, l - 1), out = layer->out;
    const int64_t count = c->images * side * side * out;
    const float *x, *weight, *bias, *y;
    AORTA_TRY(aorta_hwq_fetch(verifier, l == 0 ? c->prepared : c->pooled[l - 1], count / out * in, &x));
    AORTA_TRY(aorta_hwq_fetch(verifier, layer->weight, layer->in * out, &weight));
    AORTA_TRY(aorta_hwq_fetch(verifier, layer->bias, out, &bias));
    AORTA_TRY(aorta_hwq_fetch(verifier, c->convolved[l], count, &y));
    for (int64_t i = 0; i < aorta_hwq_sample_count(count); i++) {
        const int64_t at = aorta_hwq_sample(i, count), pixel = at / out, channel = at % out;
        const int64_t n = pixel / (side * side), h = pixel / side % side, w = pixel % side;
        double sum = (double)bias[channel], magnitude = fabs(sum);
        for (int64_t k = 0; k < 9 * in; k++) {
            const int64_t row = h + k / in / 3 - 1, column = w + k / in % 3 - 1;
            if (row < 0 || row >= side || column < 0 || column >= side) continue;
            const double product =
                (double)weight[channel * 9 * in + k] * (double)x[((n * side + row) * side + column) * in + k % in];
            sum += product;
            magnitude += fabs(product);
        }
        aorta_hwq_compare(verifier->check, (double)y[at], fmax(sum, 0.0),
                          (o->tf32 ? AORTA_HWQ_TF32 : AORTA_HWQ_FP32) * magnitude, 0, "convolution %d[%lld]", l,
                          (long long)at);
    }
    return NULL;
}

static aorta_status verify_pool(struct aorta_hwq_verifier *verifier, const struct chunk *c, int l) {
    const struct options *o = verifier->hwq->options;
    const int64_t side = o->pixels >> l, out = channels_of(o, l), count = c->images * side * side * out;
    const float *y, *pooled;
    AORTA_TRY(aorta_hwq_fetch(verifier, c->convolved[l], count, &y));
    AORTA_TRY(aorta_hwq_fetch(verifier, c->pooled[l], count / 4, &pooled));
    for (int64_t i = 0; i < aorta_hwq_sample_count(count / 4); i++) {
        const int64_t at = aorta_hwq_sample(i, count / 4), pixel = at / out, half = side / 2;
        const int64_t corner = (pixel / half * 2 * side + pixel % half * 2) * out + at % out;
        const float most =
            fmaxf(fmaxf(y[corner], y[corner + out]), fmaxf(y[corner + side * out], y[corner + side * out + out]));
        aorta_hwq_compare(verifier->check, (double)pooled[at], (double)most, 1e-30, 0, "pooled %d[%lld]", l,
                          (long long)at);
    }
    return NULL;
}

static aorta_status verify_mean(struct aorta_hwq_verifier *verifier, const struct chunk *c) {
    const struct options *o = verifier->hwq->options;
    const int64_t side = o->pixels >> POOLED, area = side * side, channels = channels_of(o, LAYERS - 1);
    const float *x, *mean;
    AORTA_TRY(aorta_hwq_fetch(verifier, c->convolved[LAYERS - 1], c->images * area * channels, &x));
    AORTA_TRY(aorta_hwq_fetch(verifier, c->mean, c->images * channels, &mean));
    for (int64_t i = 0; i < c->images * channels; i++) {
        double sum = 0.0;
        for (int64_t p = 0; p < area; p++) sum += (double)x[(i / channels * area + p) * channels + i % channels];
        aorta_hwq_compare(verifier->check, (double)mean[i], sum / (double)area, 1e-6, 1e-5, "mean[%lld]", (long long)i);
    }
    return NULL;
}

static aorta_status compare(struct aorta_hwq_verifier *verifier, void *opaque) {
    const struct state *state = opaque;
    for (int64_t i = 0; i < state->chunk_count; i++) {
        const struct chunk *c = &state->chunks[i];
        AORTA_TRY(verify_prepared(verifier, c));
        for (int l = 0; l < LAYERS; l++) AORTA_TRY(verify_convolution(verifier, state, c, l));
        for (int l = 0; l < POOLED; l++) AORTA_TRY(verify_pool(verifier, c, l));
        AORTA_TRY(verify_mean(verifier, c));
        AORTA_TRY(aorta_hwq_verify_linear(verifier, "logits", &state->classify, c->images, c->mean, c->logits,
                                          AORTA_HWQ_PLAIN, AORTA_HWQ_FP32));
    }
    return NULL;
}

static aorta_status verify(struct aorta_hwq *hwq, void *opaque, struct aorta_hwq_check *result) {
    return aorta_hwq_verify_iteration(hwq, result, &((struct state *)opaque)->results, opaque, iterate, compare);
}

static const struct aorta_range_limits chunk_sizes = {.min = 1, .max = 1024}, channel_counts = {.min = 1, .max = 4096};
static const struct aorta_range_limits pixel_counts = {.min = 4, .max = 4096};
static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, batches, "2", chunk_sizes, "batches in flight"),
    AORTA_HWQ_ROW(struct options, images, "32", chunk_sizes, "images of a batch"),
    AORTA_HWQ_ROW(struct options, pixels, "224", pixel_counts, "pixels of a side"),
    AORTA_HWQ_ROW(struct options, channels, "64", channel_counts,
                  "channels of the first convolution; then twice as many each"),
    AORTA_HWQ_ROW(struct options, classes, "1000", aorta_hwq_sizes, "classes"),
    AORTA_HWQ_ROW(struct options, chunk, "8", chunk_sizes, "images that go from stage to stage together"),
    {"tf32", AORTA_OPTION_BOOL, offsetof(struct options, tf32), "true",
     .help = "convolutions may round their operands to TF32, as PyTorch's do; --tf32=false: they stay in fp32"},
};

static const struct aorta_hwq_size on_cpu[] = {
    {"images", "4"}, {"pixels", "32"}, {"chunk", "2"}, {"channels", "16"}, {0}};

const struct aorta_hwq_workload aorta_hwq_async_dataload = {
    .name = "async_dataload",
    .summary = "copies from the host and their preparation have to stay ahead of the network",
    .group = AORTA_HWQ_P3,
    .category = AORTA_HWQ_PIPELINE,
    .sensitivity = AORTA_HWQ_MEDIUM,
    .min_streams = 4,
    .max_streams = 12,
    .recommended_streams = 6,
    .unit = "images/s",
    .options = rows,
    .option_count = sizeof rows / sizeof *rows,
    .option_bytes = sizeof(struct options),
    .on_cpu = on_cpu,
    .try_next =
        "--chunk 2 and 32: finer stages overlap better, coarser ones launch less; --channels 8 lets copies limit",
    .check = check,
    .role = role,
    .setup = setup,
    .iterate = iterate,
    .work = work,
    .verify = verify,
};
