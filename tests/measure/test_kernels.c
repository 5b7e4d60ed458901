/* The kernel view: from records, and from there to ranges. */
#include "analysis/overlap.h"
#include "check.h"
#include "measure/tracer.h"
#include "samples/profile.h"

#include <stdlib.h>

enum { RECORDS = 4096 };

/* Ranges of one iteration and the records that a device would leave of them. */
struct scene {
    struct sample ranges;
    struct aorta_activity_record records[RECORDS];
    int owner[RECORDS]; /* the range each record belongs to; -1: none */
    size_t count;
    int64_t clock_ns; /* the library's clock − ours */
};

static void scene_begin(struct scene *scene, int64_t clock_ns) {
    memset(scene, 0, sizeof *scene);
    sample_begin(&scene->ranges, 7);
    scene->clock_ns = clock_ns;
}

static void scene_free(struct scene *scene) {
    sample_free(&scene->ranges);
}

static void add_record(struct scene *scene, enum aorta_trace_kind kind, const char *name, int owner, uint32_t stream,
                       int64_t start_ns, int64_t end_ns) {
    assert_true(scene->count < RECORDS);
    scene->owner[scene->count] = owner;
    scene->records[scene->count] = (struct aorta_activity_record){.kind = kind,
                                                                  .name = name,
                                                                  .stream = stream,
                                                                  .correlation = (uint32_t)scene->count,
                                                                  .start_ns = start_ns + scene->clock_ns,
                                                                  .end_ns = end_ns + scene->clock_ns,
                                                                  .bytes = kind == AORTA_TRACE_KERNEL ? 0 : 256};
    scene->count++;
}

/* A stamp's kernel writes the time at which it begins. */
static void add_stamp(struct scene *scene, uint32_t stream, int64_t time_ns) {
    add_record(scene, AORTA_TRACE_KERNEL, "aorta_stamp", -1, stream, time_ns, time_ns + 900);
}

static int last_range(const struct scene *scene) {
    return (int)scene->ranges.profile.range_count - 1;
}

static struct aorta_profile view_of(struct scene *scene) {
    struct aorta_profile kernels;
    sample_done(&scene->ranges, INT64_MIN);
    check_ok(aorta_kernels_profile(scene->records, scene->count, &kernels));
    return kernels;
}

/* Each record has the label of its range's nodes, or was launched in its range. */
static void join_by(struct scene *scene, bool labels, int64_t done_ns, struct aorta_profile *kernels) {
    struct aorta_profile *ranges = &scene->ranges.profile;
    struct aorta_launches launches = {.first_label = 7000};
    launches.ranges = calloc(ranges->range_count + 1, sizeof *launches.ranges);
    assert_non_null(launches.ranges);
    for (size_t i = 0; i < ranges->range_count; i++)
        launches.ranges[i] = (struct aorta_range_launches){1000 * (uint32_t)(i + 1), 1000 * (uint32_t)(i + 1) + 900};
    for (size_t i = 0; i < scene->count; i++) {
        const uint32_t at = (uint32_t)(scene->owner[i] + 1), last = (uint32_t)scene->count;
        scene->records[i].label = labels && at ? 7000 + (uint64_t)at - 1 : 0;
        scene->records[i].graph_node = labels ? 1 + i : 0;
        scene->records[i].correlation = labels ? 1 : at * 1000 + 900 - (last - (uint32_t)i) % 900;
    }
    check_ok(aorta_kernels_join(kernels, scene->records, ranges, &launches, done_ns));
    free(launches.ranges);
}

static void join(struct scene *scene, struct aorta_profile *kernels) {
    join_by(scene, true, INT64_MIN, kernels);
}

static void names_decide(void **state) {
    (void)state;
    struct scene scene;
    scene_begin(&scene, 0);
    add_record(&scene, AORTA_TRACE_KERNEL, "gemm", -1, 40, 100, 200);
    add_record(&scene, AORTA_TRACE_KERNEL, "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(x)", -1, 41, 150, 300);
    add_record(&scene, AORTA_TRACE_COPY, "copy host to device", -1, 42, 90, 120);
    add_record(&scene, AORTA_TRACE_FILL, "fill", -1, 40, 400, 450);
    add_stamp(&scene, 40, 1000);
    add_record(&scene, AORTA_TRACE_KERNEL, "aorta_clock_set", -1, 43, 2000, 2040);
    add_record(&scene, AORTA_TRACE_KERNEL, "hwq_hold", -1, 44, 10, 80);
    add_record(&scene, AORTA_TRACE_KERNEL, "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(x)", -1, 41, 500, 600);
    scene.records[1].correlation = scene.records[0].correlation; /* of one launch */
    struct aorta_profile kernels = view_of(&scene);
    assert_int_equal(kernels.kernels.launches, scene.count - 1);
    assert_int_equal(kernels.source, AORTA_SOURCE_KERNEL);
    assert_int_equal(kernels.range_count, 5);
    assert_int_equal(kernels.start_ns, 90);
    assert_int_equal(kernels.end_ns, 600);
    assert_int_equal(kernels.kernels.stamp_count, 2);
    assert_int_equal(kernels.kernels.stamp_ns, 900 + 40);
    const struct aorta_range *range = kernels.ranges;
    assert_int_equal(range[0].info.kind, AORTA_RANGE_COPY);
    assert_int_equal(range[0].info.bytes, 256);
    assert_int_equal(range[1].info.kind, AORTA_RANGE_COMPUTE);
    assert_string_equal(range[1].info.tag, "gemm");
    assert_int_equal(range[2].info.kind, AORTA_RANGE_COLLECTIVE);
    assert_int_equal(range[2].info.collective, AORTA_REDUCE_SCATTER);
    assert_int_equal(range[2].info.role, AORTA_ROLE_REDUCESCATTER);
    assert_int_equal(range[2].sequence, 0);
    assert_int_equal(range[4].sequence, 1);
    assert_int_equal(range[1].stream, range[3].stream);
    assert_int_not_equal(range[1].stream, range[2].stream);
    check_ok(aorta_overlap_compute(&kernels, INT64_MIN));
    assert_int_equal(kernels.overlap.compute_ns, 100);
    assert_int_equal(kernels.overlap.comm_ns, 250);
    assert_int_equal(kernels.overlap.memcpy_ns, 80);
    assert_int_equal(kernels.overlap.overlap_ns, 50);
    assert_int_equal(kernels.overlap.idle_ns, 600 - 90 - (210 + 50 + 100));
    aorta_profile_free(&kernels);
    scene_free(&scene);
}

/* The timestamp launched last wrote the time at which the iteration was done: by so much the clocks are apart. */
static void timestamps_show_the_clock(void **state) {
    (void)state;
    static const int64_t offsets[] = {0, 7000, -41000, 77123, 300000};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        struct scene scene;
        const int64_t shift = llabs(offsets[i]) > 100000 ? 0 : -offsets[i]; /* what is further off is no pair */
        scene_begin(&scene, offsets[i]);
        sample_compute(&scene.ranges, 1000000, 1090000, 900000);
        add_record(&scene, AORTA_TRACE_KERNEL, "gemm", 0, 40, 1001000, 1080000);
        add_record(&scene, AORTA_TRACE_KERNEL, "gelu", 0, 40, 1081000, 1082000);
        add_stamp(&scene, 41, 1200000); /* launched last, though it began before the other */
        add_stamp(&scene, 40, 1100000);
        struct aorta_profile kernels = view_of(&scene);
        assert_int_equal(kernels.kernels.last_stamp_ns, 1100000 + offsets[i]);
        join_by(&scene, false, 1100000, &kernels);
        assert_int_equal(kernels.kernels.clock_offset_ns, shift);
        assert_int_equal(kernels.ranges[0].start_ns, 1001000 + offsets[i] + shift);
        assert_int_equal(kernels.end_ns, 1082000 + offsets[i] + shift);
        assert_int_equal(scene.ranges.profile.ranges[0].start_ns, kernels.ranges[0].start_ns);
        assert_int_equal(scene.ranges.profile.ranges[0].end_ns, kernels.end_ns);
        aorta_profile_free(&kernels);
        scene_free(&scene);
    }
}

static void empty(void **state) {
    (void)state;
    struct scene scene;
    scene_begin(&scene, 0);
    struct aorta_profile kernels = view_of(&scene);
    assert_int_equal(kernels.range_count, 0);
    join(&scene, &kernels);
    aorta_profile_free(&kernels);
    scene_free(&scene);
}

/* Three streams as in training: compute, concurrent collectives, copies; on a clock that differs by some microseconds.
 */
static void build_step(struct scene *scene) {
    for (int layer = 0; layer < 6; layer++) {
        int64_t t = 1000000 + layer * (int64_t)100000, launched = t - 60000;
        struct aorta_range *range = sample_collective(&scene->ranges, AORTA_ALL_GATHER, t, t + 50000, launched);
        range->info.tag = layer % 2 ? "gather odd" : "gather even";
        range->info.layer = layer;
        range->info.bytes = 1001;
        add_stamp(scene, 21, t);
        add_record(scene, AORTA_TRACE_KERNEL, "ncclDevKernel_Generic_1(x)", last_range(scene), 21, t + 1500, t + 49000);
        add_stamp(scene, 21, t + 50000);
        range = sample_compute(&scene->ranges, t + 20000, t + 90000, launched + 6000);
        range->info.layer = layer;
        range->info.tag = "linear1";
        range->info.flops = 3e9;
        add_stamp(scene, 20, t + 20000);
        add_record(scene, AORTA_TRACE_KERNEL, "sm90_gemm", last_range(scene), 20, t + 21500, t + 71500);
        add_record(scene, AORTA_TRACE_KERNEL, "bias_gelu", last_range(scene), 20, t + 72500, t + 88500);
        add_stamp(scene, 20, t + 90000);
    }
    struct aorta_range *range = sample_copy(&scene->ranges, 1100000, 1130000, 990000);
    range->info.tag = "batch";
    add_stamp(scene, 22, 1100000);
    add_record(scene, AORTA_TRACE_COPY, "copy host to device", last_range(scene), 22, 1101000, 1128000);
    add_stamp(scene, 22, 1130000);
    sample_host(&scene->ranges, AORTA_HOST_SYNC, 900000, 940000);
}

static void belongs(void **state) {
    (void)state;
    for (int labels = 0; labels < 2; labels++) {
        struct scene scene;
        scene_begin(&scene, 0);
        build_step(&scene);
        struct aorta_profile kernels = view_of(&scene);
        join_by(&scene, labels, INT64_MIN, &kernels);
        assert_int_equal(kernels.kernels.attributed, kernels.range_count);
        assert_int_equal(kernels.range_count, 19);
        assert_int_equal(kernels.index, 7);
        assert_int_equal(kernels.host_count, 1);
        int gathers = 0, gemms = 0, copies = 0;
        for (size_t i = 0; i < kernels.range_count; i++) {
            const struct aorta_range *range = &kernels.ranges[i];
            if (range->info.kind == AORTA_RANGE_COLLECTIVE) {
                assert_int_equal(range->info.collective, AORTA_ALL_GATHER); /* the name did not say */
                assert_int_equal(range->info.layer, gathers);
                assert_string_equal(range->info.within, gathers % 2 ? "gather odd" : "gather even");
                assert_string_equal(range->info.tag, "ncclDevKernel_Generic_1(x)");
                assert_int_equal(range->info.group_size, 2);
                assert_int_equal(range->info.bytes, 1001);
                assert_int_equal(range->sequence, gathers);
                assert_int_equal(range->info.role, AORTA_ROLE_AUX);
                assert_int_equal(range->stream, 2);
                assert_int_equal(range->start_ns, 1000000 + gathers * 100000 + 1500);
                assert_int_equal(range->enqueue_ns, 1000000 + gathers * 100000 - 60000);
                gathers++;
            } else if (strcmp(range->info.tag, "sm90_gemm") == 0) {
                assert_true(range->info.flops == 3e9); /* the longest kernel is the matrix product */
                assert_string_equal(range->info.function, "linear_forward");
                assert_int_equal(range->info.layer, gemms++);
            } else if (strcmp(range->info.tag, "bias_gelu") == 0) {
                assert_true(range->info.flops == 0);
                /* half way from its range's launch to the next one's; the last: to that of the copy, which is earlier
                 */
                int64_t launched = kernels.ranges[i].enqueue_ns,
                        range_launched = 1000000 + (gemms - 1) * 100000 - 54000;
                assert_int_equal(launched, gemms == 6 ? range_launched : range_launched + 94000 / 2);
            } else {
                assert_int_equal(range->info.kind, AORTA_RANGE_COPY);
                assert_int_equal(range->info.bytes, 256);
                assert_string_equal(range->info.within, "batch");
                copies++;
            }
        }
        assert_int_equal(gathers, 6);
        assert_int_equal(gemms, 6);
        assert_int_equal(copies, 1);
        aorta_profile_free(&kernels);
        scene_free(&scene);
    }
}

/* A layer's pass with two operations. The second one has two kernels; what the pass launches after them is its own.
 *
 *     range    [layer.3                                     ][next
 *     inner     [linear_forward][norm_backward     ]
 *     kernels    gemm           sums      finish     columns  gelu
 */
static void operations_of_a_pass(void **state) {
    (void)state;
    for (int labels = 0; labels < 2; labels++) {
        struct scene scene;
        scene_begin(&scene, 0);
        static const char *const functions[] = {"layer_forward", "linear_forward", "norm_backward", "head"};
        for (int i = 0; i < 4; i++) {
            struct aorta_range *range = sample_compute(&scene.ranges, 0, 1, 1000 + i * 100);
            range->info.function = functions[i];
            range->info.tag = i == 3 ? "root" : "layer.3";
            range->info.flops = i == 1 ? 2e6 : i == 0 ? 9e9 : 0;
            range->info.bytes = i == 2 ? 777 : 0;
            range->info.inner = i == 1 || i == 2;
            range->owner = range->info.inner ? 0 : -1;
            range->info.dims[0][0] = range->info.dims[0][1] = 10 * (i + 1);
        }
        static const struct {
            const char *name, *operation;
            int range;
            int64_t launched;
            uint32_t correlation;
        } made[] = {{"gemm", "linear_forward", 1, 1100, 150},
                    {"sums", "norm_backward", 2, 1200, 250},
                    {"finish", "norm_backward", 2, 1250, 300},
                    {"columns", NULL, 0, 1300, 500},
                    {"gelu", NULL, 3, 1300, 650}};
        struct aorta_range_launches launched[] = {{100, 600}, {100, 200}, {200, 400}, {600, 700}};
        for (int i = 0; i < 5; i++)
            add_record(&scene, AORTA_TRACE_KERNEL, made[i].name, made[i].range, 20, 5000 + i * 100,
                       5090 + i * 100 - (i == 2 ? 60 : 0));
        struct aorta_profile kernels = view_of(&scene);
        for (size_t i = 0; i < scene.count; i++) {
            scene.records[i].correlation = made[i].correlation;
            scene.records[i].graph_node = labels ? i + 1 : 0;
            scene.records[i].label = labels ? 7000 + (uint64_t)made[i].range : 0;
        }
        const struct aorta_launches launches = {.first_label = 7000, .ranges = launched};
        check_ok(aorta_kernels_join(&kernels, scene.records, &scene.ranges.profile, &launches, INT64_MIN));
        assert_int_equal(kernels.range_count, 5);
        assert_int_equal(scene.ranges.profile.range_count, 2); /* inner ones are not seen */
        assert_int_equal(scene.ranges.profile.ranges[0].start_ns, 5000);
        assert_int_equal(scene.ranges.profile.ranges[0].end_ns, 5390);
        for (int i = 0; i < 5; i++) {
            const struct aorta_range *kernel = &kernels.ranges[i];
            assert_int_equal(kernel->owner, i == 4);
            assert_string_equal(kernel->info.function, functions[i == 4 ? 3 : 0]);
            assert_string_equal(kernel->info.within, i == 4 ? "root" : "layer.3");
            if (made[i].operation)
                assert_string_equal(kernel->info.operation, made[i].operation);
            else
                assert_null(kernel->info.operation);
            assert_int_equal(kernel->info.number, made[i].operation ? made[i].range + 1 : 0);
            assert_false(kernel->info.inner);
            assert_true(kernel->info.flops == (i == 0 ? 2e6 : 0)); /* not the pass's, which has it in parts */
            assert_int_equal(kernel->info.bytes, i == 1 ? 777 : 0);
            assert_int_equal(kernel->info.dims[0][0], i == 0 ? 20 : i == 1 ? 30 : i == 4 ? 40 : 0);
            if (!labels) assert_int_equal(kernel->enqueue_ns, made[i].launched);
        }
        aorta_profile_free(&kernels);
        scene_free(&scene);
    }
}

/* Work that no range recorded, on its own stream, does not count for a range that was open then. */
static void strangers(void **state) {
    (void)state;
    struct scene scene;
    scene_begin(&scene, 0);
    build_step(&scene);
    size_t known = scene.count;
    for (int i = 0; i < 5; i++) /* between the compute ranges, and during collectives only */
        add_record(&scene, AORTA_TRACE_KERNEL, "stranger", -1, 20, 1092000 + i * 100000, 1094000 + i * 100000);
    add_record(&scene, AORTA_TRACE_KERNEL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", -1, 33, 1030000, 1035000);
    struct aorta_profile kernels = view_of(&scene);
    join(&scene, &kernels);
    assert_int_equal(kernels.range_count, 19 + scene.count - known);
    for (size_t i = 0; i < kernels.range_count; i++) {
        const struct aorta_range *range = &kernels.ranges[i];
        bool stranger = strcmp(range->info.tag, "stranger") == 0;
        bool all_reduce = strstr(range->info.tag, "AllReduce") != NULL;
        assert_int_equal(range->info.within == NULL, stranger || all_reduce);
        if (stranger) assert_int_equal(range->stream, 0); /* its stream is known all the same */
        if (all_reduce) assert_true(range->stream >= 32); /* nobody recorded on this one */
        if (all_reduce) assert_int_equal(range->info.collective, AORTA_ALL_REDUCE);
        if (stranger) assert_int_equal(range->enqueue_ns, INT64_MIN);
    }
    assert_int_equal(kernels.kernels.attributed, 19);
    aorta_profile_free(&kernels);
    scene_free(&scene);
}

/* Replays of a graph: all kernels may carry one stream, all launches are one, and ranges of one kind may overlap. */
static void graph(void **state) {
    (void)state;
    struct scene scene;
    scene_begin(&scene, 0);
    build_step(&scene);
    struct aorta_range *other = sample_compute(&scene.ranges, 1230000, 1280000, 0);
    other->stream = 5;
    other->info.tag = "beside layer 2";
    add_record(&scene, AORTA_TRACE_KERNEL, "norm", last_range(&scene), 13, 1231000, 1279000);
    add_record(&scene, AORTA_TRACE_KERNEL, "step_begin", -1, 13, 998000, 999000);
    for (size_t i = 0; i < scene.ranges.profile.range_count; i++) {
        struct aorta_range *range = &scene.ranges.profile.ranges[i];
        range->graph = strcmp(range->info.tag, "batch") != 0; /* the next input is copied during the graph */
        range->enqueue_ns = range->graph ? 950000 : 960000;
    }
    for (size_t i = 0; i < scene.count; i++) scene.records[i].stream = 13;
    struct aorta_profile kernels = view_of(&scene);
    join(&scene, &kernels);
    for (size_t i = 0; i < kernels.range_count; i++) {
        const struct aorta_range *range = &kernels.ranges[i];
        assert_int_equal(range->enqueue_ns, range->info.kind == AORTA_RANGE_COPY ? 960000 : 950000);
        if (strcmp(range->info.tag, "step_begin") == 0) continue; /* no range knows it */
        const bool beside = strcmp(range->info.tag, "norm") == 0;
        assert_non_null(range->info.within);
        assert_int_equal(strcmp(range->info.within, "beside layer 2") == 0, beside);
        if (beside) assert_int_equal(range->stream, 5);
    }
    aorta_profile_free(&kernels);
    scene_free(&scene);
}

/* A collective of one rank is a copy, which counts as the collective. Helpers of a real one do not. */
static void collectives_made_of_copies(void **state) {
    (void)state;
    struct scene scene;
    scene_begin(&scene, 0);
    struct aorta_range *range = sample_collective(&scene.ranges, AORTA_ALL_GATHER, 1000, 2000, 500);
    range->info.group_size = 1;
    range->info.bytes = 11;
    add_record(&scene, AORTA_TRACE_COPY, "copy device to device", 0, 3, 1100, 1500);
    add_record(&scene, AORTA_TRACE_COPY, "copy device to device", 0, 3, 1500, 1900);
    sample_collective(&scene.ranges, AORTA_REDUCE_SCATTER, 3000, 4000, 600);
    add_record(&scene, AORTA_TRACE_COPY, "copy device to device", 1, 3, 3000, 3100);
    add_record(&scene, AORTA_TRACE_KERNEL, "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(x)", 1, 3, 3100, 3800);
    range = sample_collective(&scene.ranges, AORTA_ALL_REDUCE, 5000, 6000, 700);
    range->info.simulated = true;
    add_record(&scene, AORTA_TRACE_KERNEL, "scale", 2, 3, 5100, 5900);
    struct aorta_profile kernels = view_of(&scene);
    join(&scene, &kernels);
    static const struct {
        enum aorta_range_kind kind;
        int64_t bytes;
    } expected[] = {{AORTA_RANGE_COLLECTIVE, 5},
                    {AORTA_RANGE_COLLECTIVE, 6},
                    {AORTA_RANGE_COPY, 256},
                    {AORTA_RANGE_COLLECTIVE, 1000},
                    {AORTA_RANGE_COLLECTIVE, 1000}};
    assert_int_equal(kernels.range_count, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(kernels.ranges[i].info.kind, expected[i].kind);
        assert_int_equal(kernels.ranges[i].info.bytes, expected[i].bytes);
        assert_non_null(kernels.ranges[i].info.within);
    }
    assert_true(kernels.ranges[4].info.simulated);
    aorta_profile_free(&kernels);
    scene_free(&scene);
}

/* training.inject makes a collective longer by a kernel that spins: it is part of it. */
static void injected_time_is_the_collectives(void **state) {
    (void)state;
    struct scene scene;
    scene_begin(&scene, 0);
    sample_collective(&scene.ranges, AORTA_ALL_GATHER, 1000, 3000, 500);
    add_record(&scene, AORTA_TRACE_KERNEL, "ncclDevKernel_AllGather_RING_LL(x)", 0, 3, 1000, 1400);
    add_record(&scene, AORTA_TRACE_KERNEL, "spin", 0, 3, 1500, 3000);
    sample_compute(&scene.ranges, 4000, 5000, 600);
    add_record(&scene, AORTA_TRACE_KERNEL, "spin", 1, 4, 4000, 5000);
    struct aorta_profile kernels = view_of(&scene);
    join(&scene, &kernels);
    assert_int_equal(kernels.range_count, 3);
    assert_int_equal(kernels.ranges[1].info.kind, AORTA_RANGE_COLLECTIVE);
    assert_int_equal(kernels.ranges[1].info.collective, AORTA_ALL_GATHER);
    assert_int_equal(kernels.ranges[0].info.bytes + kernels.ranges[1].info.bytes, 1000);
    assert_int_equal(kernels.ranges[2].info.kind, AORTA_RANGE_COMPUTE);
    aorta_profile_free(&kernels);
    scene_free(&scene);
}

/* Copies during compute, in a graph whose kernels all carry one stream. Times are those of one GPU, where a gradient's
 * copy waits for that of a gather. A small copy in between belongs to no range. */
static void copies_beside_compute(void **state) {
    (void)state;
    struct scene scene;
    scene_begin(&scene, 0);
    sample_compute(&scene.ranges, 678000, 770000, 0);
    struct aorta_range *gather = sample_collective(&scene.ranges, AORTA_ALL_GATHER, 689500, 709700, 600000);
    gather->info.group_size = 1;
    gather->info.bytes = 11000;
    struct aorta_range *scatter = sample_collective(&scene.ranges, AORTA_REDUCE_SCATTER, 689000, 747000, 600000);
    scatter->info.group_size = 1;
    scatter->info.bytes = 22000;
    scatter->stream = 3;
    add_record(&scene, AORTA_TRACE_KERNEL, "gemm", 0, 13, 680000, 769000);
    add_record(&scene, AORTA_TRACE_COPY, "copy device to device", 1, 13, 689530, 708740);
    add_record(&scene, AORTA_TRACE_COPY, "copy host to device", -1, 13, 695000, 696500);
    add_record(&scene, AORTA_TRACE_COPY, "copy device to device", 2, 13, 706820, 746400);
    struct aorta_profile kernels = view_of(&scene);
    join(&scene, &kernels);
    assert_int_equal(kernels.range_count, 4);
    const int owners[] = {0, 1, -1, 2};
    for (int i = 0; i < 4; i++) assert_int_equal(kernels.ranges[i].owner, owners[i]);
    assert_int_equal(kernels.ranges[1].info.kind, AORTA_RANGE_COLLECTIVE);
    assert_int_equal(kernels.ranges[1].info.collective, AORTA_ALL_GATHER);
    assert_int_equal(kernels.ranges[1].info.bytes, 11000);
    assert_int_equal(kernels.ranges[2].info.kind, AORTA_RANGE_COPY);
    assert_int_equal(kernels.ranges[3].info.collective, AORTA_REDUCE_SCATTER);
    assert_int_equal(kernels.ranges[3].info.bytes, 22000);
    aorta_profile_free(&kernels);
    scene_free(&scene);
}

/* ---- times of ranges ---- */

static void expect_range(const struct aorta_profile *ranges, size_t at, const char *tag, int64_t start_ns,
                         int64_t end_ns) {
    assert_string_equal(ranges->ranges[at].info.tag, tag);
    assert_int_equal(ranges->ranges[at].start_ns, start_ns);
    assert_int_equal(ranges->ranges[at].end_ns, end_ns);
}

/* Ranges last from their first kernel to the last, for any recorded time; back to back on one stream each has its own.
 * A range without kernels is removed, and so is one whose records were lost; owners point past it. */
static void ranges_last_as_long_as_their_kernels(void **state) {
    (void)state;
    for (int labels = 0; labels < 2; labels++) {
        struct scene scene;
        scene_begin(&scene, 0);
        sample_compute(&scene.ranges, 1, 2, 0)->info.tag = "first";
        add_record(&scene, AORTA_TRACE_KERNEL, "gemm", 0, 7, 1000, 2000);
        add_record(&scene, AORTA_TRACE_KERNEL, "gelu", 0, 7, 2000, 3000);
        sample_compute(&scene.ranges, 1, 2, 0)->info.tag = "nothing";
        sample_compute(&scene.ranges, 1, 2, 0)->info.tag = "second";
        add_record(&scene, AORTA_TRACE_KERNEL, "split", 2, 7, 3000, 3500);
        add_record(&scene, AORTA_TRACE_KERNEL, "reduce", 2, 8, 2900, 3400); /* on a stream of the library's own */
        sample_collective(&scene.ranges, AORTA_ALL_GATHER, 1, 2, 0)->info.tag = "gather";
        add_record(&scene, AORTA_TRACE_KERNEL, "ncclDevKernel_AllGather_RING_LL(x)", 3, 9, 1500, 4000);
        add_record(&scene, AORTA_TRACE_KERNEL, "stranger", -1, 7, 3600, 9000);
        struct aorta_profile kernels = view_of(&scene), *ranges = &scene.ranges.profile;
        join_by(&scene, labels, INT64_MIN, &kernels);
        assert_int_equal(ranges->range_count, 3);
        expect_range(ranges, 0, "first", 1000, 3000);
        expect_range(ranges, 1, "second", 2900, 3500);
        expect_range(ranges, 2, "gather", 1500, 4000);
        assert_int_equal(ranges->start_ns, 1000);
        assert_int_equal(ranges->end_ns, 4000);
        assert_int_equal(kernels.end_ns, 9000);
        for (size_t i = 0; i < kernels.range_count; i++) {
            const struct aorta_range *kernel = &kernels.ranges[i];
            if (kernel->owner < 0) assert_string_equal(kernel->info.tag, "stranger");
            if (kernel->owner >= 0) assert_string_equal(ranges->ranges[kernel->owner].info.tag, kernel->info.within);
        }
        aorta_profile_free(&kernels);
        scene_free(&scene);
    }
}

/* The innermost range that a launch was made in has its kernel; a launch by another thread meanwhile, too, has no
 * other. Numbers begin anew after the largest. */
static void launches_in_nested_ranges(void **state) {
    (void)state;
    static const uint32_t origins[] = {10, UINT32_MAX - 6}; /* 0 is no number */
    for (size_t i = 0; i < 2; i++) {
        struct scene scene;
        scene_begin(&scene, 0);
        struct aorta_range_launches launched[] = {{1, 9}, {2, 4}, {5, 7}};
        static const uint32_t numbers[] = {1, 2, 3, 4, 5, 6, 8, 9, 10};
        static const int expected[] = {-1, 0, 1, 1, 0, 2, 0, 0, -1};
        for (int range = 0; range < 3; range++) {
            sample_compute(&scene.ranges, 1, 2, 0);
            launched[range].after += origins[i], launched[range].until += origins[i];
        }
        const struct aorta_launches launches = {.first_label = 1, .ranges = launched};
        for (int k = 0; k < 9; k++) {
            add_record(&scene, AORTA_TRACE_KERNEL, "k", -1, 7, 1000 + 100 * k, 1050 + 100 * k);
            scene.records[k].correlation = origins[i] + numbers[k];
        }
        scene.records[8].graph_node = 5, scene.records[8].correlation = origins[i] + 3; /* a node without a label */
        struct aorta_profile kernels = view_of(&scene);
        check_ok(aorta_kernels_join(&kernels, scene.records, &scene.ranges.profile, &launches, INT64_MIN));
        for (int k = 0; k < 9; k++) assert_int_equal(kernels.ranges[k].owner, expected[k]);
        assert_int_equal(kernels.ranges[0].enqueue_ns, kernels.ranges[1].enqueue_ns); /* no range knows the first */
        assert_int_equal(kernels.ranges[8].enqueue_ns, INT64_MIN);
        expect_range(&scene.ranges.profile, 0, "layer", 1100, 1750);
        aorta_profile_free(&kernels);
        scene_free(&scene);
    }
}

/* Random records of random ranges: the view holds each once, by start, with its owner; ranges span their kernels, and
 * every figure can be computed. */
static void properties(void **state) {
    (void)state;
    static const char *const names[] = {"gemm", "ncclDevKernel_AllGather_RING_LL(x)", "aorta_stamp",
                                        "ncclDevKernel_Generic(x)", "softmax"};
    uint64_t random = 0x9e3779b97f4a7c15;
    for (int round = 0; round < 300; round++) {
        struct scene scene;
        scene_begin(&scene, 0);
        int stamps = 0, owned = 0;
        int64_t time_sum = 0;
        sample_fill_random(&scene.ranges, &random, (int)sample_random(&random, 60) + 1, 1000, 5000);
        const uint64_t range_count = scene.ranges.profile.range_count;
        int records = (int)sample_random(&random, 200);
        for (int i = 0; i < records; i++) {
            int64_t start = 1000 + (int64_t)sample_random(&random, 5000),
                    end = start + (int64_t)sample_random(&random, 90);
            const char *name = names[sample_random(&random, 5)];
            enum aorta_trace_kind kind = (enum aorta_trace_kind)sample_random(&random, 3);
            bool stamp = kind == AORTA_TRACE_KERNEL && strcmp(name, "aorta_stamp") == 0;
            const int owner = (int)sample_random(&random, range_count + 5);
            stamps += stamp;
            owned += !stamp && owner < (int)range_count;
            if (!stamp) time_sum += end - start;
            add_record(&scene, kind, name, owner < (int)range_count ? owner : -1, (uint32_t)sample_random(&random, 6),
                       start, end);
        }
        struct aorta_profile kernels = view_of(&scene), *ranges = &scene.ranges.profile;
        assert_int_equal(kernels.range_count + (size_t)stamps, scene.count);
        assert_int_equal(kernels.kernels.stamp_count, stamps);
        for (size_t i = 0; i < kernels.range_count; i++) {
            time_sum -= kernels.ranges[i].end_ns - kernels.ranges[i].start_ns;
            if (i) assert_true(kernels.ranges[i].start_ns >= kernels.ranges[i - 1].start_ns);
        }
        assert_int_equal(time_sum, 0);
        join_by(&scene, round % 2, INT64_MIN, &kernels);
        assert_int_equal(kernels.kernels.attributed, owned);
        for (size_t i = 0; i < ranges->range_count; i++) {
            int64_t start_ns = INT64_MAX, end_ns = INT64_MIN;
            for (size_t k = 0; k < kernels.range_count; k++) {
                if (kernels.ranges[k].owner != (int)i) continue;
                if (kernels.ranges[k].start_ns < start_ns) start_ns = kernels.ranges[k].start_ns;
                if (kernels.ranges[k].end_ns > end_ns) end_ns = kernels.ranges[k].end_ns;
            }
            assert_int_equal(ranges->ranges[i].start_ns, start_ns);
            assert_int_equal(ranges->ranges[i].end_ns, end_ns);
        }
        check_ok(aorta_overlap_compute(&kernels, INT64_MIN));
        assert_int_equal(kernels.overlap.busy_ns + kernels.overlap.idle_ns, kernels.overlap.span_ns);
        check_ok(aorta_overlap_compute(ranges, INT64_MIN));
        aorta_profile_free(&kernels);
        scene_free(&scene);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_decide),
        cmocka_unit_test(timestamps_show_the_clock),
        cmocka_unit_test(empty),
        cmocka_unit_test(belongs),
        cmocka_unit_test(operations_of_a_pass),
        cmocka_unit_test(operations_of_a_pass),
        cmocka_unit_test(strangers),
        cmocka_unit_test(graph),
        cmocka_unit_test(collectives_made_of_copies),
        cmocka_unit_test(injected_time_is_the_collectives),
        cmocka_unit_test(copies_beside_compute),
        cmocka_unit_test(ranges_last_as_long_as_their_kernels),
        cmocka_unit_test(launches_in_nested_ranges),
        cmocka_unit_test(properties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
