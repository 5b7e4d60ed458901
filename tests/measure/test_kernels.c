/* The kernel view: from records, and from there to ranges. */
#include "check.h"
#include "measure/kernels.h"
#include "samples/profile.h"
#include "timeline/overlap.h"

#include <stdlib.h>

enum { RECORDS = 4096 };

/* Ranges of one iteration and the records that a device would leave of them. */
struct scene {
    struct sample ranges;
    struct aorta_trace_record records[RECORDS];
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
    scene->records[scene->count] = (struct aorta_trace_record){.kind = kind,
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
    check_ok(aorta_kernels_profile(scene->records, scene->count, NULL, &kernels));
    return kernels;
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
    add_record(&scene, AORTA_TRACE_KERNEL, "aorta_witness", -1, 44, 140, 310); /* waits beside the collective */
    add_record(&scene, AORTA_TRACE_KERNEL, "hwq_hold", -1, 44, 10, 80);
    add_record(&scene, AORTA_TRACE_KERNEL, "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(x)", -1, 41, 500, 600);
    struct aorta_profile kernels = view_of(&scene);
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
    struct aorta_overlap overlap;
    check_ok(aorta_overlap_compute(&kernels, INT64_MIN, &overlap));
    assert_int_equal(overlap.compute_ns, 100);
    assert_int_equal(overlap.comm_ns, 250);
    assert_int_equal(overlap.memcpy_ns, 80);
    assert_int_equal(overlap.overlap_ns, 50);
    assert_int_equal(overlap.idle_ns, 600 - 90 - (210 + 50 + 100));
    aorta_overlap_free(&overlap);
    aorta_profile_free(&kernels);
    scene_free(&scene);
}

/* Where kernels tell their times there may be few stamps: witnesses, which write a time as well, stand in. */
static void witnesses_tell_the_clock(void **state) {
    (void)state;
    enum { OFFSET_NS = 7000, COUNT = 10 };
    for (int stamps = 0; stamps <= 8; stamps += 4) {
        struct scene scene;
        scene_begin(&scene, OFFSET_NS);
        for (int i = 0; i < COUNT; i++) {
            const int64_t t = 1000000 + i * (int64_t)90000 + i * i * (int64_t)700, end = t + 50000 + i * (int64_t)3300;
            struct aorta_range *range = sample_collective(&scene.ranges, AORTA_ALL_GATHER, t, end, t - 60000);
            assert_non_null(range);
            add_record(&scene, AORTA_TRACE_KERNEL, "ncclDevKernel_AllGather_RING_LL(x)", last_range(&scene), 41, t,
                       end);
            add_record(&scene, AORTA_TRACE_KERNEL, "aorta_witness", -1, 44, t, end);
            if (i < stamps) add_stamp(&scene, 40, end);
        }
        struct aorta_profile kernels = view_of(&scene);
        check_ok(aorta_kernels_attribute(&kernels, &scene.ranges.profile));
        assert_int_equal(kernels.kernels.stamps_kept, stamps < 8 ? stamps + COUNT : stamps);
        assert_int_equal(kernels.kernels.stamp_count, stamps);
        assert_int_equal(kernels.kernels.clock_offset_ns, -OFFSET_NS);
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
    check_ok(aorta_kernels_attribute(&kernels, &scene.ranges.profile));
    aorta_profile_free(&kernels);
    scene_free(&scene);
}

/* Three streams as in training: compute, collectives beside it, copies; on a clock that differs by some microseconds.
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
    static const int64_t clocks[] = {0, 3700, -41000, 77123};
    for (size_t c = 0; c < sizeof clocks / sizeof clocks[0]; c++) {
        struct scene scene;
        scene_begin(&scene, clocks[c]);
        build_step(&scene);
        struct aorta_profile kernels = view_of(&scene);
        check_ok(aorta_kernels_attribute(&kernels, &scene.ranges.profile));
        assert_int_equal(kernels.kernels.clock_offset_ns, -clocks[c]);
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

/* Work that no range recorded, on a stream of its own, is not put down to whatever was open at the time. */
static void strangers(void **state) {
    (void)state;
    struct scene scene;
    scene_begin(&scene, 0);
    build_step(&scene);
    size_t known = scene.count;
    for (int i = 0; i < 5; i++) /* between the compute ranges, and beside collectives only */
        add_record(&scene, AORTA_TRACE_KERNEL, "stranger", -1, 20, 1092000 + i * 100000, 1094000 + i * 100000);
    add_record(&scene, AORTA_TRACE_KERNEL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", -1, 33, 1030000, 1035000);
    struct aorta_profile kernels = view_of(&scene);
    check_ok(aorta_kernels_attribute(&kernels, &scene.ranges.profile));
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

/* Replays of a graph: all kernels may carry one stream, all launches are one. Collectives and copies are still told
 * apart by what they are; compute beside compute on another stream is not certain. */
static void graph(void **state) {
    (void)state;
    struct scene scene;
    scene_begin(&scene, 0);
    build_step(&scene);
    struct aorta_range *other = sample_compute(&scene.ranges, 1230000, 1280000, 0);
    other->stream = 5;
    for (size_t i = 0; i < scene.ranges.profile.range_count; i++) scene.ranges.profile.ranges[i].enqueue_ns = 950000;
    for (size_t i = 0; i < scene.count; i++) scene.records[i].stream = 13;
    struct aorta_profile kernels = view_of(&scene);
    check_ok(aorta_kernels_attribute(&kernels, &scene.ranges.profile));
    for (size_t i = 0; i < kernels.range_count; i++) {
        const struct aorta_range *range = &kernels.ranges[i];
        assert_int_equal(range->enqueue_ns, 950000);
        /* the GEMM of layer 2 has its middle at 1246500, in both compute ranges */
        bool certain = strcmp(range->info.tag, "sm90_gemm") != 0 || range->start_ns != 1221500;
        assert_int_equal(range->info.within != NULL, certain);
    }
    aorta_profile_free(&kernels);
    scene_free(&scene);
}

/* A collective of one rank is a copy: it counts as what it stands for. Helpers of a real one do not. */
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
    check_ok(aorta_kernels_attribute(&kernels, &scene.ranges.profile));
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

/* Beside compute, in a graph whose kernels all carry one stream: the copy is known by its end. Times are those of one
 * GPU, where a gradient's copy waits for that of a gather. A small copy in between is compute's, or nobody's. */
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
    check_ok(aorta_kernels_attribute(&kernels, &scene.ranges.profile));
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

/* Random records without ranges that explain them: the view holds each once, by start, and every figure of it can be
 * computed; random ranges beside them attribute nothing to a range that does not contain its middle. */
static void properties(void **state) {
    (void)state;
    static const char *const names[] = {"gemm", "ncclDevKernel_AllGather_RING_LL(x)", "aorta_stamp",
                                        "ncclDevKernel_Generic(x)", "softmax"};
    uint64_t random = 0x9e3779b97f4a7c15;
    for (int round = 0; round < 300; round++) {
        struct scene scene;
        scene_begin(&scene, 0);
        int stamps = 0;
        int64_t time_sum = 0;
        int records = (int)sample_random(&random, 200);
        for (int i = 0; i < records; i++) {
            int64_t start = 1000 + (int64_t)sample_random(&random, 5000),
                    end = start + (int64_t)sample_random(&random, 90);
            const char *name = names[sample_random(&random, 5)];
            enum aorta_trace_kind kind = (enum aorta_trace_kind)sample_random(&random, 3);
            bool stamp = kind == AORTA_TRACE_KERNEL && strcmp(name, "aorta_stamp") == 0;
            stamps += stamp;
            if (!stamp) time_sum += end - start;
            add_record(&scene, kind, name, -1, (uint32_t)sample_random(&random, 6), start, end);
        }
        sample_fill_random(&scene.ranges, &random, (int)sample_random(&random, 60), 1000, 5000);
        struct aorta_profile kernels = view_of(&scene);
        assert_int_equal(kernels.range_count + (size_t)stamps, scene.count);
        assert_int_equal(kernels.kernels.stamp_count, stamps);
        for (size_t i = 0; i < kernels.range_count; i++) {
            time_sum -= kernels.ranges[i].end_ns - kernels.ranges[i].start_ns;
            if (i) assert_true(kernels.ranges[i].start_ns >= kernels.ranges[i - 1].start_ns);
        }
        assert_int_equal(time_sum, 0);
        check_ok(aorta_kernels_attribute(&kernels, &scene.ranges.profile));
        int64_t attributed = 0;
        for (size_t i = 0; i < kernels.range_count; i++) {
            const struct aorta_range *kernel = &kernels.ranges[i];
            if (!kernel->info.within) continue;
            attributed++;
            int64_t middle = kernel->start_ns + (kernel->end_ns - kernel->start_ns) / 2;
            bool contained = false;
            for (size_t j = 0; j < scene.ranges.profile.range_count; j++) {
                const struct aorta_range *range = &scene.ranges.profile.ranges[j];
                contained |=
                    range->info.tag == kernel->info.within && range->start_ns <= middle && middle <= range->end_ns;
            }
            assert_true(contained);
        }
        assert_int_equal(attributed, kernels.kernels.attributed);
        struct aorta_overlap overlap;
        check_ok(aorta_overlap_compute(&kernels, INT64_MIN, &overlap));
        assert_int_equal(overlap.busy_ns + overlap.idle_ns, overlap.span_ns);
        aorta_overlap_free(&overlap);
        aorta_profile_free(&kernels);
        scene_free(&scene);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_decide),
        cmocka_unit_test(witnesses_tell_the_clock),
        cmocka_unit_test(empty),
        cmocka_unit_test(belongs),
        cmocka_unit_test(strangers),
        cmocka_unit_test(graph),
        cmocka_unit_test(collectives_made_of_copies),
        cmocka_unit_test(copies_beside_compute),
        cmocka_unit_test(properties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
