/* Numbers, names and templates of facts, as lines have them. */
#include "base/lines.h"
#include "said.h"

static void numbers_have_three_digits_or_two(void **state) {
    (void)state;
    static const struct {
        double value;
        const char *measured, *about;
    } rows[] = {{34.34, "34.3", "34"}, {9.996, "10.0", "10"},       {9.94, "9.94", "9.9"},   {0.117, "0.117", "0.12"},
                {0, "0", "0"},         {1054, "1054", "1054"},      {999.6, "1000", "1000"}, {129.4, "129", "129"},
                {4.95, "4.95", "5.0"}, {0.0470, "0.0470", "0.047"}, {-2.5, "-2.50", "-2.5"}, {1, "1.00", "1.0"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_string_equal(aorta_measured(rows[i].value).text, rows[i].measured);
        assert_string_equal(aorta_about(rows[i].value).text, rows[i].about);
    }
    assert_string_equal(aorta_measured(1e-30).text, "0.000000000"); /* no more than nine decimals */
}

static void estimates_are_as_exact_as_their_range(void **state) {
    (void)state;
    assert_string_equal(aorta_estimated(34.34, (const double[]){33.6, 35.0}).text, "34.3");
    assert_string_equal(aorta_estimated(34.34, (const double[]){30.9, 35.0}).text, "34");
    assert_string_equal(aorta_estimated(34.34, (const double[]){33.6, 40.0}).text, "34");
    assert_string_equal(aorta_about_range(10.2, 14.1).text, "10 to 14");
    assert_string_equal(aorta_about_range(10.2, 10.4).text, "10.2 to 10.4"); /* the ends differ */
    assert_string_equal(aorta_about_range(0.117, 0.24).text, "0.12 to 0.24");
    assert_string_equal(aorta_about_range(9.96, 104).text, "10 to 104");
}

static void names_fit_a_line(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, std::array<char*, 1ul> "
         ">(int, "
         "at::native::FillFunctor<int>, std::array<char*, 1ul>)",
         "FillFunctor"},
        {"Cijk_Alik_Bljk_HB_GB_MT16x16x128_MI16x16x1_SN_LDSB0", "Tensile MT16x16x128"},
        {"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "ncclDevKernel_AllGather_RING_LL"},
        {"aten::copy_", "aten::copy_"},
        {"c10d::allreduce_", "c10d::allreduce_"},
        {"Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"},
        {"Optimizer.step#AdamW.step", "Optimizer.step#AdamW.step"},
        {"gloo:all_reduce", "gloo:all_reduce"},
        {"cudaStreamSynchronize in aten::item at train.py(45): log_loss",
         "cudaStreamSynchronize in aten::item at train.py(45): log_lo…"},
        {"train.py(45): <module>", "train.py(45): <module>"},
        {"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
         "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"},
        {"enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "_MultiProcessingDataLoaderIter.__next__"},
        {"void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::CUDAFunctor_add<"
         "float> >(at::TensorIteratorBase&, at::native::CUDAFunctor_add<float> const&)::{lambda(int)#1}>(int, x)",
         "CUDAFunctor_add"},
        {"_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_14func_wrapper_tIfNS0_11sum_"
         "functorIffEEEEjfLi4EEEEEvT1"
         "_",
         "sum_functor"},
        {"nvjet_sm90_tst_64x64", "nvjet_sm90_tst_64x64"},
        {"void cutlass::device_kernel<dpsk::cuda::fp8_acc::GemmKernel>(dpsk::cuda::Params)", "fp8_acc::GemmKernel"},
        {"vllm::moe::grouped_topk_router", "vllm::moe::grouped_topk_router"}, /* an operation */
        {"Triton::kernels::topk_softmax_Kernel", "topk_softmax_Kernel"},
        {"input_transpose_fusion.kd", "input_transpose_fusion"},
        {"void at::native::(anonymous namespace)::max_pool<float>(int, float const*)", "max_pool"},
        {"void at::native::<unnamed>::max_pool<float, float>(int, const T1 *)", "max_pool"},
        {"", ""}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        const char *found = aorta_name_for_line(rows[i][0], text, sizeof text);
        if (strcmp(found, rows[i][1]) != 0) fail_msg("%s is %s", rows[i][0], found);
        assert_ptr_equal(found, text);
    }
}

/* Names that are the same in short say where they differ. */
static void names_are_distinguished(void **state) {
    (void)state;
#define GENERIC(functor)                                                                                               \
    "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<" functor "> >(int)"
    static const char *const names[] = {
        GENERIC("float, at::native::MulFunctor"),
        GENERIC("float, at::native::AddFunctor"),
        GENERIC("c10::Half, at::native::AddFunctor"),
        NULL,
        "fill",
        "void at::native::elementwise_kernel<128, at::native::FillFunctor<int> >(int)",
        "void at::native::elementwise_kernel_manual_unroll<128, at::native::FillFunctor<int> >(int)"};
    static const char *const expected[] = {
        "BinaryFunctor (MulFunctor)", "BinaryFunctor (AddFunctor)", "BinaryFunctor (Half)", NULL, "fill",
        "FillFunctor (128)",          "FillFunctor (manual)"};
    for (size_t i = 0; i < 7; i++) {
        char text[512];
        if (!names[i]) continue;
        assert_string_equal(aorta_name_apart(names[i], names, 7, aorta_name_for_line, text, sizeof text), expected[i]);
    }
}

static void long_names_have_sixty_columns(void **state) {
    (void)state;
    char name[256] = "", text[512];
    for (int i = 0; i < 30; i++) strcat(name, "äbc"); /* 90 columns, 120 bytes */
    const char *cut = aorta_name_for_line(name, text, sizeof text);
    int columns = 0;
    for (const char *at = cut; *at; at++) columns += ((unsigned char)*at & 0xc0) != 0x80;
    assert_int_equal(columns, AORTA_NAME_COLUMNS);
    said_expect(cut, "…");
    name[80] = '\0'; /* exactly 60 columns stay whole */
    assert_string_equal(aorta_name_for_line(name, text, sizeof text), name);
    assert_string_equal(aorta_name_for_line("linear_forward (nvjet_sm90_tst_64x48_64x15_2x1_v_bz_bias_TNT_and_more)",
                                            text, sizeof text),
                        "linear_forward (nvjet_sm90_tst_64x48_64x15_2x1_v_bz_bias_T…)");
}

static void shapes_are_short(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"[[8192, 768], [768, 50257]]", "[8192,768]x[768,50257]"},
        {"[[8, 1024, 3072], []]", "[8,1024,3072]"},
        {"[[4, 4], [4, 4]]", "[4,4]"},                           /* the same once */
        {"[[4, 4], [4, 4]] [\"float\", \"float\"]", "[4,4]"},    /* with types, as a row of products */
        {"[[[2, 3], [4, 5]], [], []]", "[2,3]x[4,5]"},           /* a list of tensors */
        {"[[\n 64,\n 32], [32,\n16\n ]\n ]", "[64,32]x[32,16]"}, /* a number a line */
        {"[[1, 2], [3, 4], [5, 6]]", "[1,2]x[3,4]"},             /* the first two */
        {"[[100000, 200000, 300000, 400000], [100000, 200000, 300000]]", "[100000,200000,300000,400000]"},
        {"[[], []]", ""},
        {"[]", ""},
        {"", ""},
        {"[[7", "[7]"}}; /* cut by the recorder */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aorta_text text = {0};
        aorta_shape_for_line(rows[i][0], &text);
        if (strcmp(text.data ? text.data : "", rows[i][1]) != 0) fail_msg("%s is %s", rows[i][0], text.data);
        aorta_text_free(&text);
    }
}

/* ---- templates ---- */

static struct aorta_arena arena;
static struct aorta_finding finding;
static struct aorta_verdict verdict;

/* A finding with one fact of each kind; nothing is known of other facts. */
static int begin(void **state) {
    (void)state;
    finding = (struct aorta_finding){
        .cause = AORTA_CAUSE_EXPOSED_COLLECTIVE, .collective = AORTA_ALL_GATHER, .rank = 3, .facts = {&arena}};
    verdict = (struct aorta_verdict){.findings = &finding, .finding_count = 1};
    aorta_facts_set(&finding.facts, AORTA_FACT_EXPOSED, 4.946);
    aorta_facts_set(&finding.facts, AORTA_FACT_LAUNCHES, 766);
    aorta_facts_set(&finding.facts, AORTA_FACT_PAUSE_COUNT, 1);
    aorta_facts_set(&finding.facts, AORTA_FACT_LAUNCH_PERIOD, 119.2);
    aorta_facts_set(&finding.facts, AORTA_FACT_SLOWER, 0.456);
    aorta_facts_set(&finding.facts, AORTA_FACT_BANDWIDTH, 151.26);
    aorta_facts_set(&finding.facts, AORTA_FACT_MEMORY, 1.2345);
    aorta_facts_set(&finding.facts, AORTA_FACT_KERNEL_GAIN, 12.34);
    aorta_facts_set(&finding.facts, AORTA_FACT_SKEW, NAN);
    aorta_facts_flag(&finding.facts, AORTA_FACT_READS);
    aorta_facts_flag(&finding.facts, AORTA_FACT_UNEXPLAINED); /* a flag without words */
    struct aorta_fact *gap = aorta_facts_set(&finding.facts, AORTA_FACT_GAP, 3.2);
    gap->text = "a reason";
    gap->place = (struct aorta_fact_place){.name = "void at::native::FillFunctor<int>(int)",
                                           .after = "aten::add",
                                           .shape = "[[8, 8], [8, 4]]",
                                           .host = "Optimizer.step",
                                           .count = 2.5,
                                           .rank = 1,
                                           .step = 7,
                                           .stream = 9};
    struct aorta_fact *kernel = aorta_facts_set(&finding.facts, AORTA_FACT_KERNEL, 1); /* nothing of its place */
    assert_false(finding.facts.arena->failed);
    return kernel->place.name != NULL;
}

static int end(void **state) {
    (void)state;
    aorta_arena_free(&arena);
    return 0;
}

/* `words` NULL: a fact that the template needs is not known. */
static void expect(const char *template, const char *words) {
    struct aorta_text text = {0};
    aorta_text_puts(&text, "before ");
    const bool known = aorta_phrase(&verdict, &finding, template, false, &text);
    check_ok(aorta_text_check(&text));
    assert_memory_equal(text.data, "before ", 7);
    if (strcmp(text.data + 7, words ? words : "") != 0) fail_msg("%s is \"%s\"", template, text.data + 7);
    assert_int_equal(known, words != NULL);
    aorta_text_free(&text);
}

static void values_have_their_units(void **state) {
    (void)state;
    expect("{exposed}", "4.95 ms");
    expect("{exposed#} of {launches}", "4.95 of 766");
    expect("{launch_period}, {slower}, {bandwidth}, {memory}", "119 us, 46%, 151 GB/s, 1.23 GiB");
    expect("{kernel_gain} of the gain, {kernel_gain#}", "12 ms of the gain, 12"); /* an estimate */
    expect("{reads}", "for copies to the host");
    expect("no braces", "no braces");
    expect("", "");
}

static void counts_have_their_nouns(void **state) {
    (void)state;
    expect("{launches*launches|launch}", "766 launches");
    expect("{pause_count*places|place}", "1 place");
    aorta_facts_set(&finding.facts, AORTA_FACT_LAUNCHES, 2.5);
    expect("{launches*launches|launch}", "2.5 launches");
}

static void brackets_go_with_their_facts(void **state) {
    (void)state;
    expect("a[, {lost}][, {exposed}]", "a, 4.95 ms");
    expect("a[, {exposed} and {lost}] b", "a b");
    expect("[{lost}]", "");
    expect("a {lost}", NULL);
    expect("a[, {exposed}] {lost}", NULL);
    expect("{skew}", NULL); /* not a number */
    expect("a[ {skew}]", "a");
    expect("{no_such_fact}", NULL);
}

static void places_have_parts(void **state) {
    (void)state;
    expect("{gap} before {gap.name}{gap.where}", "3.20 ms before FillFunctor, rank 1, step 7");
    expect("{gap.after}, {gap.host}, {gap.shape}, {gap.count}, {gap.text}",
           "aten::add, Optimizer.step, [8,8]x[8,4], 2.5 per step, a reason");
    expect("a[ {kernel.name}][ {kernel.after}][ {kernel.shape}][ {kernel.host}][ {kernel.count}][ {kernel.text}]", "a");
    expect("{kernel.name}", NULL);
    expect("{kernel}{kernel.where}", "1.00 ms"); /* nothing to say of where */
    const char caller[] = "cudaStreamSynchronize in aten::item at a/long/path/train.py(45): <module>";
    aorta_facts_set(&finding.facts, AORTA_FACT_CALLER, 2)->place.name = caller;
    expect("{caller.name}", caller); /* whole */
    struct aorta_text whole = {0};
    assert_true(aorta_phrase(&verdict, &finding, "{gap.name}", true, &whole));
    assert_string_equal(whole.data, "void at::native::FillFunctor<int>(int)");
    aorta_text_free(&whole);
}

static void words_are_of_the_finding(void **state) {
    (void)state;
    expect("{kind} {runs}{per}", "all_gather runs per step");
    expect("straggler[ rank {rank}]", "straggler rank 3");
    finding.rank = -1;
    expect("straggler[ rank {rank}]", "straggler");
    expect("rank {rank}", NULL);
    finding.collective = AORTA_COLLECTIVE_OTHER;
    expect("{kind}", "unidentified collective");
    finding.collective = AORTA_ALL_TO_ALL;
    expect("{kind} {runs}", "all_to_all runs");
    verdict.sends = true;
    expect("{kind} {runs}", "sends and receives run");
    verdict.whole = true;
    expect("{exposed}{per}, {gap.count}", "4.95 ms in all, 2.5 in all");
}

static void the_first_whole_template_counts(void **state) {
    (void)state;
    const char *const templates[4] = {"{lost}", "{exposed}", "{gap}"};
    struct aorta_text text = {0};
    aorta_phrase_first(&verdict, &finding, templates, false, &text);
    assert_string_equal(text.data, "4.95 ms");
    aorta_text_free(&text);
}

static void findings_have_names(void **state) {
    (void)state;
    struct aorta_text text = {0};
    aorta_finding_name(&verdict, &finding, &text);
    assert_string_equal(text.data, "exposed all_gather");
    aorta_text_clear(&text);
    finding.joint_ms = 2;
    finding.partner = AORTA_CAUSE_HOST_LAUNCH;
    aorta_finding_name(&verdict, &finding, &text);
    assert_string_equal(text.data, "exposed all_gather + late kernel launches");
    aorta_text_clear(&text);
    finding = (struct aorta_finding){.cause = AORTA_CAUSE_HOST_LAUNCH, .rank = -1, .facts = finding.facts};
    aorta_finding_name(&verdict, &finding, &text);
    assert_string_equal(text.data, "unexplained gaps"); /* by its flag */
    aorta_text_free(&text);
}

int main(void) {
#define OF_FACTS(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_have_three_digits_or_two),
        cmocka_unit_test(estimates_are_as_exact_as_their_range),
        cmocka_unit_test(names_fit_a_line),
        cmocka_unit_test(names_are_distinguished),
        cmocka_unit_test(long_names_have_sixty_columns),
        cmocka_unit_test(shapes_are_short),
        OF_FACTS(values_have_their_units),
        OF_FACTS(counts_have_their_nouns),
        OF_FACTS(brackets_go_with_their_facts),
        OF_FACTS(places_have_parts),
        OF_FACTS(words_are_of_the_finding),
        OF_FACTS(the_first_whole_template_counts),
        OF_FACTS(findings_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
