#include "said.h"
#include "verdict/advice.h"

static bool simulated;   /* collectives of the run */
static bool no_launches; /* a replay says that they cost nothing */

/* The advice for our own program, whose settings are known. */
static const char *advice_for(enum aorta_cause cause, enum aorta_collective kind, struct aorta_setting *items,
                              size_t count) {
    struct aorta_arena arena = {0};
    struct aorta_finding finding = {.cause = cause, .collective = kind, .rank = 3, .facts = {.arena = &arena}};
    struct aorta_verdict verdict = {.findings = &finding, .finding_count = 1, .simulated = simulated};
    struct aorta_settings settings = {items, count};
    if (!no_launches) aorta_facts_flag(&finding.facts, AORTA_FACT_LAUNCHES_COST);
    check_ok(aorta_advise(&verdict, &settings));
    const char *advice = said_advice(&finding);
    aorta_arena_free(&arena);
    return advice;
}

/* The advice for a recorded program, whose finding has these facts. */
static const char *advice_of(enum aorta_cause cause, unsigned program, int rank, const enum aorta_fact_key facts[4]) {
    struct aorta_arena arena = {0};
    struct aorta_finding finding = {.cause = cause, .rank = rank, .facts = {.arena = &arena}};
    struct aorta_verdict verdict = {.findings = &finding, .finding_count = 1, .recorded = true, .program = program};
    for (int i = 0; i < 4 && facts[i]; i++) aorta_facts_flag(&finding.facts, facts[i]);
    check_ok(aorta_advise(&verdict, NULL));
    const char *advice = said_advice(&finding);
    aorta_arena_free(&arena);
    return advice;
}

static void test_what_is_set_is_not_advised(void **state) {
    (void)state;
    struct aorta_setting items[] = {{"distributed.enable_overlap", "true"},
                                    {"fsdp.forward_prefetch", "true"},
                                    {"fsdp.backward_prefetch", "BACKWARD_POST"},
                                    {"fsdp.sharding_strategy", "full_shard"}};
    const char *advice = advice_for(AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_GATHER, items, 4);
    assert_null(strstr(advice, "forward_prefetch="));
    assert_null(strstr(advice, "enable_overlap"));
    assert_non_null(strstr(advice, "fsdp.backward_prefetch=BACKWARD_PRE"));
    items[1].value = "false";
    advice = advice_for(AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_GATHER, items, 4);
    assert_non_null(strstr(advice, "fsdp.forward_prefetch=true"));
}

static void test_a_remedy_can_be_pointless(void **state) {
    (void)state;
    struct aorta_setting items[] = {{"distributed.enable_overlap", "true"}, {"fsdp.forward_prefetch", "true"},
                                    {"fsdp.backward_prefetch", "NONE"},     {"fsdp.sharding_strategy", "shard_grad_op"},
                                    {"training.batch_size", "8"},           {"device.kind", "cpu"}};
    const char *advice = advice_for(AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_GATHER, items, 6);
    assert_null(strstr(advice, "backward_prefetch"));
    assert_non_null(strstr(advice, "a larger training.batch_size, now 8"));
}

/* The advice where no key helps. */
static const char *general_advice(enum aorta_cause cause) {
    static char text[512];
    size_t count;
    const struct aorta_advice_row *rows = aorta_advice_rows(&count);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].cause != cause || rows[i].key || rows[i].when[0] || !(rows[i].programs & AORTA_PROGRAM_OURS))
            continue;
        snprintf(text, sizeof text, "%s%s%s", rows[i].text, rows[i].also ? "; " : "", rows[i].also ? rows[i].also : "");
        return text;
    }
    return "";
}

/* Programs have their own words, and a step of 16 bits is not advised to use 16 bits. */
static void test_programs_and_facts_differ(void **state) {
    (void)state;
    static const struct {
        unsigned program;
        enum aorta_fact_key facts[4];
        const char *words;
    } rows[] = {{AORTA_PROGRAM_TORCH, {AORTA_FACT_NARROW}, "less padding, fp8"},
                {AORTA_PROGRAM_TRITON, {0}, "triton.autotune"},
                {AORTA_PROGRAM_TORCH, {0}, "faster kernels (16 bits"},
                {AORTA_PROGRAM_NATIVE, {0}, "profile the largest kernels"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        said_expect(advice_of(AORTA_CAUSE_COMPUTE, rows[i].program, -1, rows[i].facts), rows[i].words);
    const enum aorta_fact_key none[4] = {0};
    said_expect(advice_of(AORTA_CAUSE_ATTENTION, AORTA_PROGRAM_TORCH, -1, none), "need_weights=False");
}

/* Optimizers and caches are named where they are seen. */
static void test_launches_of_what_the_program_does(void **state) {
    (void)state;
    static const struct {
        enum aorta_fact_key facts[4];
        const char *words, *other;
    } rows[] = {{{AORTA_FACT_NO_GRADIENTS}, "or a larger batch", "KV cache"},
                {{AORTA_FACT_NO_GRADIENTS, AORTA_FACT_DECODES}, "a static KV cache", "optimizer"},
                {{0}, "or a larger batch", "optimizer"},
                {{AORTA_FACT_OPTIMIZES}, "fused/foreach optimizer", "KV cache"},
                {{AORTA_FACT_OPTIMIZES, AORTA_FACT_MANY_VALUES}, "take .item(), .cpu() and branches", "KV cache"},
                {{AORTA_FACT_SHARDED}, "torch.compile each layer, larger units", "optimizer"},
                {{AORTA_FACT_SHARDED, AORTA_FACT_OPTIMIZES}, "torch.compile each layer, a fused optimizer", "graph"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *advice = advice_of(AORTA_CAUSE_HOST_LAUNCH, AORTA_PROGRAM_TORCH, -1, rows[i].facts);
        said_expect(advice, rows[i].words);
        if (strstr(advice, rows[i].other)) fail_msg("%s: %s", rows[i].other, advice);
    }
}

/* Facts of a program that choose other advice. */
static void test_facts_choose_advice(void **state) {
    (void)state;
    static const struct {
        enum aorta_cause cause;
        unsigned program;
        enum aorta_fact_key facts[4];
        const char *words;
    } rows[] = {
        {AORTA_CAUSE_HOST_LAUNCH, AORTA_PROGRAM_COMPILED, {AORTA_FACT_MANY_VALUES}, "keep compiled graphs whole"},
        {AORTA_CAUSE_HOST_SYNC, AORTA_PROGRAM_COMPILED, {AORTA_FACT_MANY_VALUES}, "each breaks its graph"},
        {AORTA_CAUSE_HOST_SYNC, AORTA_PROGRAM_TORCH, {AORTA_FACT_MANY_VALUES}, "torch.stack(values)"},
        {AORTA_CAUSE_HOST_PAUSE, AORTA_PROGRAM_NATIVE, {AORTA_FACT_PAUSE_MANAGED}, "cudaMemPrefetchAsync"},
        {AORTA_CAUSE_HOST_PAUSE, AORTA_PROGRAM_XLA, {AORTA_FACT_PAUSE_COMPILED}, "jit outside the loop"},
        {AORTA_CAUSE_LAUNCH_LATENCY,
         AORTA_PROGRAM_SERVING,
         {AORTA_FACT_GRAPH_GAPS, AORTA_FACT_RECURS},
         "fused kernels"},
        {AORTA_CAUSE_LAUNCH_LATENCY,
         AORTA_PROGRAM_NATIVE,
         {AORTA_FACT_RECURS, AORTA_FACT_HOST_FUNCTIONS},
         "on a stream of their own"},
        {AORTA_CAUSE_SERIALIZED_STREAMS, AORTA_PROGRAM_SERVING, {AORTA_FACT_OWN_STREAM}, "two half batches"},
        {AORTA_CAUSE_COPY, AORTA_PROGRAM_NATIVE, {AORTA_FACT_PARAMETERS}, "as arguments of kernels"},
        {AORTA_CAUSE_HOST_PAUSE, AORTA_PROGRAM_NATIVE, {0}, "find what the host does: sleep"},
        {AORTA_CAUSE_LAYOUT, AORTA_PROGRAM_TORCH, {AORTA_FACT_CUDNN}, "torch.backends.cudnn.benchmark = True"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        said_expect(advice_of(rows[i].cause, rows[i].program, -1, rows[i].facts), rows[i].words);
}

/* Gradients alone need a scaled loss. */
static void test_half_precision_without_bf16(void **state) {
    (void)state;
    static const enum aorta_fact_key trains[4] = {AORTA_FACT_NO_BF16};
    static const enum aorta_fact_key infers[4] = {AORTA_FACT_NO_BF16, AORTA_FACT_NO_GRADIENTS};
    said_expect(advice_of(AORTA_CAUSE_PRECISION, AORTA_PROGRAM_TORCH, -1, trains), "GradScaler");
    const char *advice = advice_of(AORTA_CAUSE_PRECISION, AORTA_PROGRAM_TORCH, -1, infers);
    said_expect(advice, "model.half()");
    assert_null(strstr(advice, "GradScaler"));
}

/* What helps a device's streams is nothing for threads, whose advice is general. */
static void test_devices_differ(void **state) {
    (void)state;
    struct aorta_setting items[] = {
        {"device.kind", "cuda"}, {"compile.enabled", "false"}, {"training.batch_size", "8"}};
    const char *advice = advice_for(AORTA_CAUSE_LAUNCH_LATENCY, AORTA_ALL_REDUCE, items, 3);
    assert_string_equal(advice, "compile.enabled=true (operations of a graph start sooner); or a larger "
                                "training.batch_size, now 8 (fewer, larger operations)");
    items[1].value = "true";
    advice = advice_for(AORTA_CAUSE_LAUNCH_LATENCY, AORTA_ALL_REDUCE, items, 3);
    assert_string_equal(advice, "a larger training.batch_size, now 8 (fewer, larger operations)");
    advice = advice_for(AORTA_CAUSE_CONTENTION, AORTA_ALL_REDUCE, items, 3);
    assert_non_null(strstr(advice, "a smaller NCCL_MAX_CTAS (fewer channels"));
    items[0].value = "cpu";
    static const enum aorta_cause causes[] = {AORTA_CAUSE_LAUNCH_LATENCY, AORTA_CAUSE_CONTENTION};
    for (int i = 0; i < 2; i++) {
        advice = advice_for(causes[i], AORTA_ALL_REDUCE, items, 3);
        assert_string_equal(advice, general_advice(causes[i]));
    }
}

/* How a collective is made matters where NCCL makes it. */
static void test_collectives_of_gpus(void **state) {
    (void)state;
    static const enum aorta_collective kinds[] = {AORTA_ALL_GATHER, AORTA_REDUCE_SCATTER};
    static const struct {
        const char *device, *by_parameter;
        bool simulated, flat, symmetric; /* the last two: advised */
    } rows[] = {{"cuda", "true", false, true, true},
                {"hip", "false", false, false, true},
                {"cpu", "true", false, false, false},
                {"cuda", "true", true, false, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        simulated = rows[i].simulated;
        struct aorta_setting items[] = {{"device.kind", rows[i].device},
                                        {"fsdp.use_orig_params", rows[i].by_parameter},
                                        {"distributed.enable_overlap", "true"},
                                        {"fsdp.forward_prefetch", "true"},
                                        {"fsdp.backward_prefetch", "BACKWARD_PRE"}};
        for (int kind = 0; kind < 2; kind++) {
            const char *advice = advice_for(AORTA_CAUSE_EXPOSED_COLLECTIVE, kinds[kind], items, 5);
            assert_int_equal(strstr(advice, "fsdp.use_orig_params=false (one piece per layer") != NULL, rows[i].flat);
            assert_int_equal(strstr(advice, "fsdp.symmetric_memory=true (NCCL") != NULL, rows[i].symmetric);
        }
    }
    simulated = false;
}

/* Rows that lie in host memory make compute slow, and a cache helps where there is one; on a CPU all is host memory. */
static void test_tables_in_host_memory(void **state) {
    static const struct {
        const char *kernel, *device;
        bool fused, cache;
    } rows[] = {{"fused", "cuda", false, false},
                {"fused_uvm", "cuda", true, false},
                {"quant_uvm", "cuda", true, true},
                {"quant_uvm", "cpu", false, false}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aorta_setting items[] = {{"PipelineConfig.pipeline", "base"},
                                        {"RunOptions.compute_kernel", rows[i].kernel},
                                        {"RunOptions.cache_load_factor", "0.2"},
                                        {"device.kind", rows[i].device}};
        const char *advice = advice_for(AORTA_CAUSE_COMPUTE, AORTA_ALL_REDUCE, items, 4);
        assert_int_equal(strstr(advice, "RunOptions.compute_kernel=fused (") != NULL, rows[i].fused);
        assert_int_equal(strstr(advice, "a larger RunOptions.cache_load_factor, now 0.2 (") != NULL, rows[i].cache);
        assert_int_equal(strstr(advice, "faster kernels") != NULL, !rows[i].fused);
    }
}

/* Channels are NCCL's; one rank has copies instead, which take none. */
static void test_channels(void **state) {
    (void)state;
    struct aorta_setting items[] = {{"device.kind", "cuda"}};
    simulated = true;
    const char *advice = advice_for(AORTA_CAUSE_CONTENTION, AORTA_ALL_REDUCE, items, 1);
    assert_string_equal(advice, general_advice(AORTA_CAUSE_CONTENTION));
    simulated = false;
}

/* The strategy alone is refused: it needs the size of a group. */
static void test_what_goes_together(void **state) {
    (void)state;
    struct aorta_setting items[] = {
        {"distributed.mode", "fsdp"}, {"distributed.enable_overlap", "true"}, {"device.kind", "cpu"}};
    const char *advice = advice_for(AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_REDUCE_SCATTER, items, 3);
    assert_non_null(strstr(advice, "fsdp.sharding_strategy=hybrid_shard (reduce within a node first; with "
                                   "fsdp.hybrid_shard_gpus_per_node)"));
}

/* A key that the mode does not read helps nobody. */
static void test_modes_have_keys_of_their_own(void **state) {
    (void)state;
    struct aorta_setting items[] = {{"distributed.mode", "ddp"},         {"device.kind", "cuda"},
                                    {"fsdp.use_orig_params", "true"},    {"distributed.overlap_reduce_scatter", "true"},
                                    {"distributed.bucket_cap_mb", "25"}, {"distributed.enable_overlap", "true"}};
    static const enum aorta_collective kinds[] = {AORTA_ALL_GATHER, AORTA_REDUCE_SCATTER, AORTA_ALL_REDUCE};
    for (int kind = 0; kind < 3; kind++) {
        const char *advice = advice_for(AORTA_CAUSE_EXPOSED_COLLECTIVE, kinds[kind], items, 6);
        assert_null(strstr(advice, "fsdp."));
    }
    const char *advice = advice_for(AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_REDUCE_SCATTER, items, 6);
    assert_non_null(strstr(
        advice, "distributed.overlap_reduce_scatter=false (extra load on the links that training does not need"));
    advice = advice_for(AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_REDUCE, items, 6);
    assert_non_null(strstr(advice, "a smaller distributed.bucket_cap_mb, now 25"));
    items[0].value = "fsdp";
    for (int kind = 1; kind < 3; kind++) {
        advice = advice_for(AORTA_CAUSE_EXPOSED_COLLECTIVE, kinds[kind], items, 6);
        assert_null(strstr(advice, "overlap_reduce_scatter"));
        assert_null(strstr(advice, "bucket_cap_mb"));
    }
}

/* Collectives run on compute's stream where all do, or where they were put there. */
static void test_streams(void **state) {
    (void)state;
    static const struct {
        const char *count, *gather, *optimizer;
        enum aorta_collective kind;
        const char *advice;
    } rows[] = {
        {"1", "aux", "aux", AORTA_ALL_GATHER, "streams.count=4 (a stream for each role)"},
        {"4", "compute", "aux", AORTA_ALL_GATHER, "streams.assignment.all_gather=aux (not the compute stream)"},
        {"2", "compute", "aux", AORTA_ALL_GATHER, "streams.assignment.all_gather=aux (not the compute stream)"},
        {"4", "aux", "compute", AORTA_ALL_REDUCE, "streams.assignment.optimizer=aux (not the compute stream)"},
        {"1", "compute", "aux", AORTA_ALL_GATHER,
         "streams.count=4 (a stream for each role); or streams.assignment.all_gather=aux (not the compute stream)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aorta_setting items[] = {{"streams.count", rows[i].count},
                                        {"streams.assignment.all_gather", rows[i].gather},
                                        {"streams.assignment.all_reduce", "allreduce"},
                                        {"streams.assignment.optimizer", rows[i].optimizer}};
        const char *advice = advice_for(AORTA_CAUSE_SERIALIZED_STREAMS, rows[i].kind, items, 4);
        assert_string_equal(advice, rows[i].advice);
    }
}

/* Copies are the input's where nothing else is asked for that copies. */
static void test_copies(void **state) {
    (void)state;
    static const struct {
        const char *mode, *view, *scatter, *clone, *await, *advice;
    } rows[] = {
        {"ddp", "true", "false", "true", "false", "streams.assignment.prefetch=reducescatter (a less busy"},
        {"fsdp", "false", "true", "true", "false", "streams.assignment.prefetch=reducescatter (a less busy"},
        {"ddp", "false", "false", "false", "false", "distributed.gradient_as_bucket_view=true (gradients are made"},
        {"ddp", "true", "true", "true", "false", "distributed.overlap_clone_for_reduce_scatter=false (no clones"},
        {"ddp", "true", "true", "false", "false", "streams.assignment.prefetch=reducescatter (a less busy"},
        {"fsdp", "true", "false", "false", "true",
         "workload.async_wait=false (a stress scenario that training does not need"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aorta_setting items[] = {{"distributed.mode", rows[i].mode},
                                        {"distributed.gradient_as_bucket_view", rows[i].view},
                                        {"distributed.overlap_reduce_scatter", rows[i].scatter},
                                        {"distributed.overlap_clone_for_reduce_scatter", rows[i].clone},
                                        {"workload.async_wait", rows[i].await},
                                        {"dataloader.pin_memory", "true"}};
        const char *advice = advice_for(AORTA_CAUSE_COPY, AORTA_ALL_REDUCE, items, 6);
        if (strncmp(advice, rows[i].advice, strlen(rows[i].advice)) != 0) fail_msg("case %zu: %s", i, advice);
    }
}

/* Micro-batches are added up before they are reduced, but for shards. */
static void test_accumulation(void **state) {
    (void)state;
    static const struct {
        const char *mode, *strategy;
        bool advised;
    } rows[] = {{"ddp", "hybrid_shard", true},
                {"fsdp", "no_shard", true},
                {"fsdp", "full_shard", true}, /* the norm, once a step */
                {"fsdp", "hybrid_shard", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aorta_setting items[] = {{"distributed.mode", rows[i].mode},
                                        {"fsdp.sharding_strategy", rows[i].strategy},
                                        {"distributed.enable_overlap", "true"},
                                        {"training.gradient_accumulation", "1"}};
        const char *advice = advice_for(AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_REDUCE, items, 4);
        assert_int_equal(strstr(advice, "a larger training.gradient_accumulation, now 1") != NULL, rows[i].advised);
    }
}

static void test_late_launches(void **state) {
    (void)state;
    struct aorta_setting items[] = {{"compile.enabled", "false"}, {"training.batch_size", "8"}};
    const char *advice = advice_for(AORTA_CAUSE_HOST_LAUNCH, AORTA_ALL_REDUCE, items, 2);
    assert_string_equal(advice, "compile.enabled=true (replay the step as one graph); or a larger training.batch_size, "
                                "now 8 (more work for each launch)");
    items[0].value = "true";
    advice = advice_for(AORTA_CAUSE_HOST_LAUNCH, AORTA_ALL_REDUCE, items, 2);
    assert_string_equal(advice, "a larger training.batch_size, now 8 (more work for each launch)");
}

/* fp16 is in 16 bits as well, and most CPUs are fastest in fp32. */
static void test_precision(void **state) {
    (void)state;
    static const struct {
        const char *device, *precision;
        bool advised;
    } rows[] = {{"cuda", "none", true}, {"hip", "none", true}, {"cuda", "fp16", false}, {"cpu", "none", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aorta_setting items[] = {{"device.kind", rows[i].device},
                                        {"training.mixed_precision", rows[i].precision},
                                        {"compile.enabled", "true"}};
        const char *advice = advice_for(AORTA_CAUSE_COMPUTE, AORTA_ALL_REDUCE, items, 3);
        assert_int_equal(strstr(advice, "mixed_precision=bf16") != NULL, rows[i].advised);
        assert_int_equal(strstr(advice, "set already") != NULL, !rows[i].advised);
    }
}

/* The tracer makes the host wait only where it is on. */
static void test_waits_of_our_host(void **state) {
    (void)state;
    for (int traced = 0; traced < 2; traced++) {
        struct aorta_setting items[] = {{"profiling.enabled", traced ? "true" : "false"}, {"training.batch_size", "8"}};
        const char *advice = advice_for(AORTA_CAUSE_HOST_SYNC, AORTA_ALL_REDUCE, items, 2);
        assert_int_equal(strstr(advice, "profiling") != NULL, traced);
        assert_non_null(strstr(advice, "a larger training.batch_size, now 8"));
    }
}

/* An inference engine has settings of its own. */
static void test_engines(void **state) {
    (void)state;
    static const struct {
        enum aorta_cause cause;
        enum aorta_fact_key facts[4];
        const char *said;
    } rows[] = {{AORTA_CAUSE_COMPUTE, {0}, "KV cache"},
                {AORTA_CAUSE_HOST_LAUNCH, {0}, "enforce_eager"},
                {AORTA_CAUSE_HOST_LAUNCH, {AORTA_FACT_CAPTURES}, "a capture happens once"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        said_expect(advice_of(rows[i].cause, AORTA_PROGRAM_SERVING, -1, rows[i].facts), rows[i].said);
}

/* RMSNorm and SwiGLU are of language models. */
static void test_convolutional_networks(void **state) {
    (void)state;
    static const enum aorta_fact_key none[4] = {0}, trains[4] = {AORTA_FACT_CONVOLVES},
                                     infers[4] = {AORTA_FACT_CONVOLVES, AORTA_FACT_BATCH_NORMS,
                                                  AORTA_FACT_NO_GRADIENTS};
    said_expect(advice_of(AORTA_CAUSE_FUSION, AORTA_PROGRAM_TORCH, -1, none), "SwiGLU");
    assert_string_equal(advice_of(AORTA_CAUSE_FUSION, AORTA_PROGRAM_TORCH, -1, trains), "torch.compile(model)");
    said_expect(advice_of(AORTA_CAUSE_FUSION, AORTA_PROGRAM_TORCH, -1, infers), "fuse_conv_bn_eval");
}

static void test_launches_that_cost_nothing(void **state) {
    (void)state;
    struct aorta_setting items[] = {{"training.mixed_precision", "none"}, {"device.kind", "cpu"}};
    const char *advice = advice_for(AORTA_CAUSE_COMPUTE, AORTA_ALL_REDUCE, items, 2);
    assert_non_null(strstr(advice, "compile.enabled=true"));
    no_launches = true;
    advice = advice_for(AORTA_CAUSE_COMPUTE, AORTA_ALL_REDUCE, items, 2);
    assert_string_equal(advice, general_advice(AORTA_CAUSE_COMPUTE));
    no_launches = false;
}

static void test_when_all_is_set_it_says_so(void **state) {
    (void)state;
    struct aorta_setting items[] = {{"training.mixed_precision", "bf16"}, {"compile.enabled", "true"}};
    const char *advice = advice_for(AORTA_CAUSE_COMPUTE, AORTA_ALL_REDUCE, items, 2);
    assert_non_null(strstr(advice, "set already"));
}

static void test_the_rank_is_named(void **state) {
    (void)state;
    const char *advice = advice_for(AORTA_CAUSE_STRAGGLER, AORTA_ALL_REDUCE, NULL, 0);
    assert_non_null(strstr(advice, "the host of rank 3:"));
}

static void test_no_rank_is_named_that_is_none(void **state) {
    (void)state;
    static const enum aorta_fact_key slow[4] = {AORTA_FACT_LATE_DEVICE},
                                     more[4] = {AORTA_FACT_LATE_DEVICE, AORTA_FACT_UNEQUAL_WORK}, /* it has more */
        batches[4] = {AORTA_FACT_LATE_DEVICE, AORTA_FACT_UNEQUAL_WORK, AORTA_FACT_LATE_CHANGES};
    said_expect(advice_of(AORTA_CAUSE_STRAGGLER, AORTA_PROGRAM_TORCH, -1, slow), "slows the device of the late rank:");
    said_expect(advice_of(AORTA_CAUSE_STRAGGLER, AORTA_PROGRAM_TORCH, 2, more), "balance the work of rank 2:");
    const char *advice = advice_of(AORTA_CAUSE_STRAGGLER, AORTA_PROGRAM_TORCH, 2, batches);
    said_expect(advice, "batches of equal work");
    assert_null(strstr(advice, "cores")); /* batches differ, not processors */
}

/* A variable that explains the finding is a fact of it, and its measurement says so. */
static void test_the_environment_explains_rows(void **state) {
    (void)state;
    for (int one = 0; one < 2; one++) {
        struct aorta_arena arena = {0};
        struct aorta_finding exposed = {.cause = AORTA_CAUSE_EXPOSED_COLLECTIVE, .rank = -1, .facts = {&arena}};
        struct aorta_verdict verdict = {.findings = &exposed, .finding_count = 1, .recorded = true};
        struct aorta_setting items[] = {{"environment.CUDA_DEVICE_MAX_CONNECTIONS", one ? "1" : "8"}};
        aorta_facts_set(&exposed.facts, AORTA_FACT_EXPOSED, 2.5);
        aorta_verdict_environment(&verdict, &(struct aorta_settings){items, 1});
        assert_false(exposed.facts.arena->failed);
        assert_int_equal(said_has(&exposed, AORTA_FACT_ENVIRONMENT), one);
        if (one) assert_string_equal(said_place(&exposed, AORTA_FACT_ENVIRONMENT), "CUDA_DEVICE_MAX_CONNECTIONS=1");
        const char *evidence = said_evidence(&verdict, &exposed);
        assert_int_equal(strstr(evidence, "; CUDA_DEVICE_MAX_CONNECTIONS=1: all streams share one") != NULL, one);
        said_expect(evidence, "runs for 2.50 ms per step without compute");
        aorta_arena_free(&arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_set_is_not_advised),
        cmocka_unit_test(test_a_remedy_can_be_pointless),
        cmocka_unit_test(test_programs_and_facts_differ),
        cmocka_unit_test(test_launches_of_what_the_program_does),
        cmocka_unit_test(test_facts_choose_advice),
        cmocka_unit_test(test_half_precision_without_bf16),
        cmocka_unit_test(test_devices_differ),
        cmocka_unit_test(test_collectives_of_gpus),
        cmocka_unit_test(test_modes_have_keys_of_their_own),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_tables_in_host_memory),
        cmocka_unit_test(test_channels),
        cmocka_unit_test(test_what_goes_together),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_accumulation),
        cmocka_unit_test(test_late_launches),
        cmocka_unit_test(test_precision),
        cmocka_unit_test(test_waits_of_our_host),
        cmocka_unit_test(test_engines),
        cmocka_unit_test(test_convolutional_networks),
        cmocka_unit_test(test_launches_that_cost_nothing),
        cmocka_unit_test(test_when_all_is_set_it_says_so),
        cmocka_unit_test(test_the_rank_is_named),
        cmocka_unit_test(test_no_rank_is_named_that_is_none),
        cmocka_unit_test(test_the_environment_explains_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
