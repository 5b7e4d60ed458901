/* Two whole workloads against programs of a few loops that do not use their graphs: here the inputs of each operation
 * are stated a second time, from the inputs to the last result, in double precision. */
#include "check.h"
#include "hwq/graph.h"
#include "hwq/iterations.h"
#include "hwq/run.h"

#include <math.h>
#include <stdlib.h>

enum { MOST = 4096 };

struct setting {
    const char *key, *value;
};

static const char *value_of(const struct setting *settings, const struct aorta_option *option) {
    for (; settings->key; settings++)
        if (strcmp(settings->key, option->key) == 0) return settings->value;
    return option->fallback;
}

struct comparison {
    void (*compare)(struct hwq_graph *g);
};

static aorta_status use(const struct aorta_hwq_run *run, struct aorta_hwq *hwq, struct hwq_graph *g, void *user) {
    (void)run;
    AORTA_TRY(hwq_graph_iterate(g));
    AORTA_TRY(aorta_hwq_wait_for_streams(hwq));
    ((const struct comparison *)user)->compare(g);
    return NULL;
}

/* Runs one iteration, and lets `compare` look at the results. */
static void run_once(const char *name, const struct setting *settings, int streams,
                     void (*compare)(struct hwq_graph *g)) {
    _Alignas(16) unsigned char options[AORTA_HWQ_OPTION_BYTES] = {0};
    struct aorta_arena arena = {0};
    struct aorta_hwq_run run = {
        .options = options, .streams = streams, .ranks = {.world_size = 1, .local_world_size = 1}};
    check_ok(aorta_hwq_find(name, &run.workload));
    for (size_t i = 0; i < run.workload->option_count; i++) {
        const struct aorta_scalar scalar = {.text = value_of(settings, &run.workload->options[i])};
        assert_true(aorta_option_store(&run.workload->options[i], &scalar, 1, false, options, &arena));
    }
    check_ok(aorta_device_open(AORTA_DEVICE_CPU, 0, &run.device));
    if (run.workload->collectives) {
        const struct aorta_comm_options comm = {
            .device = run.device, .backend = "local", .ranks = run.ranks, .timeout_s = 60};
        check_ok(aorta_comm_open(&comm, &run.world));
    }
    struct comparison comparison = {compare};
    check_ok(aorta_hwq_run_with(&run, use, &comparison));
    aorta_comm_close(run.world);
    aorta_device_close(run.device);
    aorta_arena_free(&arena);
}

static void random_values(const struct hwq_graph *g, uint64_t id, int count, double scale, double *values) {
    float made[MOST];
    assert_true(count <= MOST);
    check_ok(aorta_hwq_values(g->hwq, id, 0, count, (float)scale, made));
    for (int i = 0; i < count; i++) values[i] = (double)made[i];
}

/* The operation number `index` of this name. */
static const struct hwq_operation *find_operation(const struct hwq_graph *g, const char *name, int64_t index) {
    for (const struct hwq_operation *o = g->first; o; o = o->next)
        if (strcmp(o->name ? o->name : o->kind->name, name) == 0 && index-- == 0) return o;
    fail_msg("no %s", name);
    return NULL;
}

static const float *download(struct hwq_graph *g, struct hwq_tensor t) {
    static float values[MOST];
    assert_true(hwq_bytes(t) <= sizeof values);
    check_ok(aorta_hwq_transfer(g->hwq, values, hwq_floats(t), hwq_bytes(t)));
    return values;
}

struct layer {
    int in, out;
    double weight[MOST], bias[MOST];
};

static void make_layer(const struct hwq_graph *g, uint64_t id, int in, int out, struct layer *layer) {
    layer->in = in;
    layer->out = out;
    random_values(g, id, in * out, 1.0 / sqrt(in), layer->weight);
    random_values(g, id + 1, out, 0.1, layer->bias);
}

static void run_layer(const struct layer *l, int rows, const double *x, bool relu, double *y) {
    for (int r = 0; r < rows; r++)
        for (int o = 0; o < l->out; o++) {
            double sum = l->bias[o];
            for (int i = 0; i < l->in; i++) sum += l->weight[o * l->in + i] * x[r * l->in + i];
            y[r * l->out + o] = relu && sum < 0.0 ? 0.0 : sum;
        }
}

/* ---- graph_subgraphs: the mean of five chains of three layers ---- */

enum { GRAPHS = 5, BATCH = 3, IN = 24, HIDDEN = 40, OUT = 16 };

static void compare_subgraphs(struct hwq_graph *g) {
    static struct layer layer;
    static double y[2][MOST], mean[BATCH * OUT];
    const int widths[] = {IN, HIDDEN, HIDDEN, OUT};
    memset(mean, 0, sizeof mean);
    for (uint64_t k = 0; k < GRAPHS; k++) {
        random_values(g, 100 * k, BATCH * IN, 1.0, y[0]);
        for (int l = 0; l < 3; l++) {
            make_layer(g, 100 * k + 10 * (uint64_t)(l + 1), widths[l], widths[l + 1], &layer);
            run_layer(&layer, BATCH, y[l % 2], l < 2, y[(l + 1) % 2]);
        }
        for (int i = 0; i < BATCH * OUT; i++) mean[i] += y[1][i] / GRAPHS;
    }
    const float *found = download(g, find_operation(g, "sum_pieces", 0)->out[0]);
    for (int i = 0; i < BATCH * OUT; i++) assert_float_equal(found[i], mean[i], 1e-5);
}

static void graph_subgraphs(void **state) {
    const struct setting settings[] = {{"graphs", "5"},  {"batch", "3"}, {"in", "24"},
                                       {"hidden", "40"}, {"out", "16"},  {0}};
    (void)state;
    for (int streams = 4; streams <= 9; streams++) run_once("graph_subgraphs", settings, streams, compare_subgraphs);
}

/* ---- grad_accum: one step of SGD from the gradients of all micro-batches ---- */

enum { MICRO = 5, CLASSES = 10, LAYERS = 3 };

struct gradients {
    double weight[MOST], bias[MOST];
};

static void add_gradients(const struct layer *l, const double *x, const double *dy, struct gradients *sum) {
    for (int r = 0; r < BATCH; r++)
        for (int o = 0; o < l->out; o++) {
            sum->bias[o] += dy[r * l->out + o];
            for (int i = 0; i < l->in; i++) sum->weight[o * l->in + i] += dy[r * l->out + o] * x[r * l->in + i];
        }
}

/* The gradient of a layer's input, which is the output of a ReLU. */
static void go_back(const struct layer *l, const double *x, const double *dy, double *dx) {
    for (int r = 0; r < BATCH; r++)
        for (int i = 0; i < l->in; i++) {
            double sum = 0.0;
            for (int o = 0; o < l->out; o++) sum += dy[r * l->out + o] * l->weight[o * l->in + i];
            dx[r * l->in + i] = x[r * l->in + i] > 0.0 ? sum : 0.0;
        }
}

static void slope_of_loss(const double *logits, int micro, double *dy) {
    for (int r = 0; r < BATCH; r++) {
        double sum = 0.0;
        for (int c = 0; c < CLASSES; c++) sum += exp(logits[r * CLASSES + c]);
        for (int c = 0; c < CLASSES; c++) {
            const double p = exp(logits[r * CLASSES + c]) / sum, hit = c == (micro * 131 + r * 37) % CLASSES;
            dy[r * CLASSES + c] = (p - hit) / (MICRO * BATCH);
        }
    }
}

static void check_parameters(struct hwq_graph *g, int l, const struct layer *layer, const struct gradients *sum) {
    const float *found = download(g, find_operation(g, "add", l)->out[0]);
    const int weights = layer->in * layer->out;
    for (int i = 0; i < weights + layer->out; i++) {
        const double old = i < weights ? layer->weight[i] : layer->bias[i - weights];
        const double change = -(double)0.01f * (i < weights ? sum->weight[i] : sum->bias[i - weights]);
        if (fabs((double)found[i] - old - change) > 2e-7 * fabs(old) + 1e-9 + 1e-4 * fabs(change))
            fail_msg("layer %d, parameter %d: changed by %g, not by %g", l, i, (double)found[i] - old, change);
    }
}

static void compare_step(struct hwq_graph *g) {
    static struct layer layers[LAYERS];
    static struct gradients sums[LAYERS];
    static double y[LAYERS + 1][MOST], dy[2][MOST];
    const int widths[] = {IN, HIDDEN, HIDDEN, CLASSES};
    memset(sums, 0, sizeof sums);
    for (int l = 0; l < LAYERS; l++) make_layer(g, 10 * (uint64_t)(l + 1), widths[l], widths[l + 1], &layers[l]);
    for (int m = 0; m < MICRO; m++) {
        random_values(g, 1000 + (uint64_t)m, BATCH * IN, 1.0, y[0]);
        for (int l = 0; l < LAYERS; l++) run_layer(&layers[l], BATCH, y[l], l < LAYERS - 1, y[l + 1]);
        slope_of_loss(y[LAYERS], m, dy[0]);
        for (int l = LAYERS - 1; l >= 0; l--) {
            const int now = (LAYERS - 1 - l) % 2;
            add_gradients(&layers[l], y[l], dy[now], &sums[l]);
            if (l > 0) go_back(&layers[l], y[l], dy[now], dy[1 - now]);
        }
    }
    for (int l = 0; l < LAYERS; l++) check_parameters(g, l, &layers[l], &sums[l]);
}

static void grad_accum(void **state) {
    const struct setting settings[] = {{"micro", "5"},   {"batch", "3"},    {"in", "24"},
                                       {"hidden", "40"}, {"classes", "10"}, {0}};
    (void)state;
    for (int streams = 2; streams <= 16; streams += 2) run_once("grad_accum", settings, streams, compare_step);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(graph_subgraphs), cmocka_unit_test(grad_accum)};
    return cmocka_run_group_tests_name("hwq: references", tests, NULL, NULL);
}
