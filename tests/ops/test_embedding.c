#include "rig.h"

static const struct aorta_embedding shapes[] = {
    {AORTA_F32, 1, 1, 1, 1},    {AORTA_F32, 5, 3, 11, 7},  {AORTA_F32, 65, 16, 40, 192},
    {AORTA_F32, 3, 2, 5, 1030}, {AORTA_F32, 100, 7, 1, 9}, /* all the same id */ {AORTA_F32, 400, 12, 70000, 3}};

static int64_t *random_ids(struct rig *rig, const struct aorta_embedding *shape) {
    const int64_t count = shape->rows * shape->features;
    int64_t *ids = (int64_t *)(void *)rig_values(rig, count);
    double *uniform = rig_random(rig, AORTA_F32, count, 0.5);
    for (int64_t i = 0; i < count; i++) ids[i] = (int64_t)((uniform[i] + 0.5) * 0.999 * (double)shape->vocab);
    return ids;
}

static void check_example(struct rig *rig, struct aorta_embedding s) {
    const int64_t entries = s.vocab * s.dim, outputs = s.rows * s.dim;
    const double unit = rig_unit(s.dtype);
    const int64_t *ids = random_ids(rig, &s);
    double *table = rig_random(rig, s.dtype, entries, 1), *dy = rig_random(rig, s.dtype, outputs, 1);
    double *y = rig_values(rig, outputs), *dtable = rig_values(rig, entries);
    for (int64_t row = 0; row < s.rows; row++)
        for (int64_t f = 0; f < s.features; f++)
            for (int64_t d = 0; d < s.dim; d++) {
                int64_t entry = ids[row * s.features + f] * s.dim + d;
                y[row * s.dim + d] += table[entry] / (double)s.features;
                dtable[entry] += dy[row * s.dim + d] / (double)s.features; /* the mean's derivative */
            }
    const int64_t *ids_there = rig_put_bytes(rig, ids, (size_t)(s.rows * s.features) * sizeof *ids);
    void *out = rig_alloc(rig, (size_t)outputs * aorta_dtype_size(s.dtype));
    check_ok(aorta_embedding_forward(
        rig->stream, &(struct aorta_embedding_args){
                         .shape = s, .ids = ids_there, .table = rig_put(rig, s.dtype, table, entries), .y = out}));
    rig_close_to("y", rig_get(rig, s.dtype, out, outputs), y, outputs, 1.01 * unit, 1e-6);

    /* Again with the order made before, into zeros. */
    float *gradient[2];
    const size_t order_bytes = aorta_embedding_order_bytes(rig->device, s);
    void *order = order_bytes ? rig_alloc(rig, order_bytes) : NULL;
    if (order)
        check_ok(aorta_embedding_order(rig->stream,
                                       &(struct aorta_embedding_args){.shape = s, .ids = ids_there, .order = order}));
    for (int i = 0; i < 2; i++) {
        gradient[i] = rig_put(rig, AORTA_F32, rig_values(rig, entries), entries);
        check_ok(aorta_embedding_backward(rig->stream,
                                          &(struct aorta_embedding_args){.shape = s,
                                                                         .ids = ids_there,
                                                                         .order = i ? order : NULL,
                                                                         .dy = rig_put(rig, s.dtype, dy, outputs),
                                                                         .dtable = gradient[i],
                                                                         .zeros = i == 1}));
    }
    double *first = rig_get(rig, AORTA_F32, gradient[0], entries);
    const double added = (double)(s.rows * s.features) / (double)s.vocab; /* values in one sum */
    rig_close_to("dtable", first, dtable, entries, 1e-6, 2e-6 + 1e-7 * added);
    rig_close_to("dtable again", rig_get(rig, AORTA_F32, gradient[1], entries), first, entries, 0.0, 0.0);
    /* Without zeros it is added to. */
    for (int64_t i = 0; i < entries; i++) dtable[i] += first[i];
    check_ok(
        aorta_embedding_backward(rig->stream, &(struct aorta_embedding_args){.shape = s,
                                                                             .ids = ids_there,
                                                                             .order = order,
                                                                             .dy = rig_put(rig, s.dtype, dy, outputs),
                                                                             .dtable = gradient[1]}));
    rig_close_to("dtable twice", rig_get(rig, AORTA_F32, gradient[1], entries), dtable, entries, 2e-6,
                 4e-6 + 2e-7 * added);
}

static void conformance(void **state) {
    for (int t = 0; t < 3; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            struct aorta_embedding shape = shapes[s];
            shape.dtype = rig_dtypes[t];
            check_example(*state, shape);
            rig_reset(state);
        }
}

static void ids_out_of_range(void **state) {
    static const int64_t wrong[] = {-1, 11, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        for (int what = 0; what < 3; what++) {
            struct rig *rig = *state;
            const struct aorta_embedding s = {AORTA_F32, 2, 3, 11, 4};
            const int64_t ids[6] = {0, 1, 2, 3, wrong[i], 5};
            const int64_t *there = rig_put_bytes(rig, ids, sizeof ids);
            float *table = rig_put(rig, AORTA_F32, rig_values(rig, 44), 44),
                  *y = rig_put(rig, AORTA_F32, rig_values(rig, 8), 8);
            const size_t order_bytes = aorta_embedding_order_bytes(rig->device, s);
            if (what == 0)
                check_ok(aorta_embedding_forward(
                    rig->stream, &(struct aorta_embedding_args){.shape = s, .ids = there, .table = table, .y = y}));
            else if (what == 1 || !order_bytes)
                check_ok(aorta_embedding_backward(
                    rig->stream, &(struct aorta_embedding_args){.shape = s, .ids = there, .dy = y, .dtable = table}));
            else
                check_ok(aorta_embedding_order(
                    rig->stream,
                    &(struct aorta_embedding_args){.shape = s, .ids = there, .order = rig_alloc(rig, order_bytes)}));
            char expected[64];
            snprintf(expected, sizeof expected, "id %lld of row 1, feature 1 is outside [0, 11)", (long long)wrong[i]);
            check_fails(aorta_stream_synchronize(rig->stream), AORTA_DEVICE, expected);
            rig_reset(state);
        }
}

/* A call to the host would hold a captured step up for longer than the operation takes. */
static void graphs_hold_kernels_only(void **state) {
    struct rig *rig = *state;
    if (aorta_device_get_info(rig->device)->kind == AORTA_DEVICE_CPU) skip();
    const struct aorta_embedding s = {AORTA_F32, 2, 3, 11, 4};
    const int64_t ids[6] = {0, 1, 2, 3, 4, 5};
    const int64_t *there = rig_put_bytes(rig, ids, sizeof ids);
    float *table = rig_put(rig, AORTA_F32, rig_values(rig, 44), 44),
          *y = rig_put(rig, AORTA_F32, rig_values(rig, 8), 8);
    struct aorta_graph *graph;
    check_ok(aorta_embedding_forward(
        rig->stream,
        &(struct aorta_embedding_args){.shape = s, .ids = there, .table = table, .y = y})); /* makes the workspace */
    check_ok(aorta_capture_begin(rig->stream));
    check_ok(aorta_embedding_forward(rig->stream,
                                     &(struct aorta_embedding_args){.shape = s, .ids = there, .table = table, .y = y}));
    check_ok(aorta_capture_end(rig->stream, &graph));
    assert_int_equal(aorta_graph_node_count(graph), 1);
    aorta_graph_destroy(graph);
}

static void wrong_arguments(void **state) {
    struct rig *rig = *state;
    float some[8] = {0};
    int64_t id = 0;
    struct aorta_embedding shape = {AORTA_F32, 1, 0, 1, 1};
    check_fails(aorta_embedding_forward(
                    rig->stream, &(struct aorta_embedding_args){.shape = shape, .ids = &id, .table = some, .y = some}),
                AORTA_INTERNAL, "features is 0");
    shape.features = 1;
    check_fails(aorta_embedding_backward(rig->stream,
                                         &(struct aorta_embedding_args){.shape = shape, .dy = some, .dtable = some}),
                AORTA_INTERNAL, "ids is NULL");
}

int main(void) {
    const struct CMUnitTest tests[] = {rig_test(conformance), rig_test(ids_out_of_range),
                                       rig_test(graphs_hold_kernels_only), rig_test(wrong_arguments)};
    return rig_run_tests("ops: embedding", tests);
}
