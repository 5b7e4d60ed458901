/* How a verdict looks: headline, rows, one block per cause. Verdicts are made by hand. */
#include "base/result_table.h"
#include "said.h"
#include "verdict/advice.h"

enum { MOST = 16 };

static struct aorta_arena arena;
static struct aorta_finding findings[MOST];
static struct aorta_roofline roofline;
static struct aorta_verdict verdict;

/* 100 ms per step, of which the replay leaves `floor_ms`; findings follow. */
static void begin(double floor_ms) {
    memset(findings, 0, sizeof findings);
    roofline = (struct aorta_roofline){.device_name = (char *)"NVIDIA H100 80GB HBM3"};
    verdict = (struct aorta_verdict){.findings = findings,
                                     .rank_count = 2,
                                     .iterations = 8,
                                     .recorded = true,
                                     .program = AORTA_PROGRAM_TORCH,
                                     .step_ms_mean = 100,
                                     .step_ms_p10 = 100,
                                     .step_ms_p50 = 100,
                                     .step_ms_p90 = 100,
                                     .steps_unlike = NAN,
                                     .copies_unlike = NAN,
                                     .overlap_ratio = NAN,
                                     .slowdown = {.ratio = NAN},
                                     .idle_ms = 10,
                                     .rooflines = &roofline,
                                     .roofline_count = 1,
                                     .replay = {.known = true,
                                                .measured_ms = 100,
                                                .replayed_ms = 100,
                                                .floor_ms = floor_ms,
                                                .left = {.compute_ms = floor_ms}}};
}

static int end(void **state) {
    (void)state;
    aorta_arena_free(&arena);
    return 0;
}

/* In the order of a verdict: by gain, then by cost. */
static struct aorta_finding *add(enum aorta_cause cause, double gain_ms, double cost_ms) {
    const double step_ms = aorta_verdict_gained_ms(&verdict);
    struct aorta_finding *finding = &findings[verdict.finding_count++];
    *finding = (struct aorta_finding){.cause = cause,
                                      .collective = AORTA_ALL_GATHER,
                                      .rank = -1,
                                      .gain_ms = gain_ms,
                                      .gain_share = gain_ms / step_ms,
                                      .gain_range_ms = {gain_ms, gain_ms},
                                      .alone_ms = gain_ms,
                                      .then_ms = gain_ms,
                                      .cost_ms = cost_ms,
                                      .share = cost_ms / verdict.step_ms_mean,
                                      .facts = {&arena}};
    return finding;
}

static struct aorta_fact *set(struct aorta_finding *finding, enum aorta_fact_key key, double value, const char *name) {
    struct aorta_fact *fact = aorta_facts_set(&finding->facts, key, value);
    fact->place.name = name;
    return fact;
}

static void set_operation(struct aorta_finding *finding, double operations, double ms, const char *name) {
    (void)set(finding, AORTA_FACT_OPERATIONS, operations, NULL);
    (void)set(finding, AORTA_FACT_TOUCHED, ms, NULL);
    (void)set(finding, AORTA_FACT_KERNELS, 31.9, NULL);
    struct aorta_fact *largest = set(finding, AORTA_FACT_OPERATION, 2.11, name);
    largest->place.shape = "[[16, 16, 559, 64]]";
    largest->place.count = 72;
}

static const char *text_of(const struct aorta_verdict_style *style) {
    static char copy[SAID_SIZE];
    struct aorta_text text = {0};
    aorta_verdict_text(&verdict, style, &text);
    return said_copy(&text, copy);
}

static void expect(const char *part) {
    said_expect(said_text(&verdict), part);
}

static void expect_not(const char *part) {
    if (strstr(said_text(&verdict), part)) fail_msg("\"%s\" is in:\n%s", part, said_text(&verdict));
}

static void expect_headline(const char *words) {
    struct aorta_text text = {0};
    aorta_verdict_headline(&verdict, &text);
    check_ok(aorta_text_check(&text));
    assert_string_equal(text.data, words);
    aorta_text_free(&text);
}

/* A recorded step of a transformer, as the style page has it. */
static void make_example(void) {
    begin(0);
    verdict.rank_count = verdict.iterations = 1;
    verdict.step_ms_mean = verdict.step_ms_p50 = 34.9;
    verdict.idle_ms = 3;
    verdict.replay = (struct aorta_verdict_replay){.known = true,
                                                   .measured_ms = 34.9,
                                                   .replayed_ms = 34.9,
                                                   .unrecorded_ms = 34.3,
                                                   .unrecorded_range_ms = {33.6, 35.0},
                                                   .floor_ms = 19.1,
                                                   .left = {.compute_ms = 18.2}};
    struct aorta_finding *fusion = add(AORTA_CAUSE_FUSION, 14, 0);
    fusion->gain_range_ms[0] = 10;
    fusion->remedy = "fusion";
    set_operation(fusion, 654, 17.1, "aten::copy_");
    struct aorta_finding *casts = add(AORTA_CAUSE_CASTS, 2.2, 0);
    casts->remedy = "casts=copies";
    set_operation(casts, 72, 2.11, "aten::copy_");
    (void)add(AORTA_CAUSE_HOST_LAUNCH, 0.5, 1);
    check_ok(aorta_advise(&verdict, NULL));
}

static void the_layout_is_that_of_the_style(void **state) {
    (void)state;
    make_example();
    assert_string_equal(
        said_text(&verdict),
        "Verdict: unfused pointwise kernels: 34.3 -> 20 to 24 ms per step if fixed (-29 to -41%)\n"
        "\n"
        "  step       34.3 ms without the profiler (33.6 to 35.0); 34.9 recorded; GPU busy 31.9\n"
        "  all fixes  19 ms, 18 of it compute; gains overlap and do not add up\n"
        "  overlap    no collectives\n"
        "  basis      1 step of 1 rank, NVIDIA H100\n"
        "\n"
        "  share of step      gain alone\n"
        "  ####......  41%   10 to 14 ms  unfused pointwise kernels (fusion)\n"
        "      654 operations take 17.1 of 31.9 ms\n"
        "      worst  aten::copy_ [16,16,559,64], 72 per step, 2.11 ms\n"
        "      fix    torch.compile(model), or fused layers (RMSNorm, rotary, SwiGLU, cross entropy)\n"
        "  #.........   6%        2.2 ms  copies that cancel out (casts)\n"
        "      72 operations take 2.11 of 31.9 ms\n"
        "      fix    use one dtype and layout in the block: drop .float()/.to(), .contiguous()/.transpose()\n"
        "\n"
        "  1 minor finding below 2%: late kernel launches (--all shows it)\n");
    said_whole(&verdict);
}

/* A command without --all names the one that has it. */
static void all_is_an_option_of_a_command(void **state) {
    (void)state;
    const struct aorta_verdict_style style = {.all = "aorta report DIR"};
    struct aorta_text text = {0};
    make_example();
    aorta_verdict_text(&verdict, &style, &text);
    said_expect(text.data, "late kernel launches (aorta report DIR --all shows it)\n");
    aorta_text_free(&text);
}

/* --all has a block for it, whose bar is blank below 5%. */
static void all_findings_are_shown_when_asked_for(void **state) {
    (void)state;
    make_example();
    const char *text = text_of(&(struct aorta_verdict_style){.view = {.all = true}});
    said_expect(text, "\n               1%       0.50 ms  late kernel launches (host_launch)\n");
    assert_null(strstr(text, "minor finding"));
    assert_null(strstr(text, "--all"));
}

static int count(const char *text, const char *part) {
    int found = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) found++;
    return found;
}

static void lines_have_80_to_100_columns(void **state) {
    (void)state;
    static const int widths[][3] = {{0, 81, 100}, {40, 60, 80},   {80, 60, 80},
                                    {90, 75, 90}, {100, 81, 100}, {200, 81, 100}};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        make_example();
        const char *text = text_of(&(struct aorta_verdict_style){.width = widths[i][0]});
        said_expect_wide(text, widths[i][1], widths[i][2]);
        /* Wrapped lines are below the value. */
        if (widths[i][2] == 80)
            said_expect(text, "      fix    torch.compile(model), or fused layers (RMSNorm, rotary, SwiGLU,\n"
                              "             cross entropy)\n");
    }
}

/* Escapes are there with color only; without them the text is the same. */
static void color_changes_no_word(void **state) {
    (void)state;
    char plain[SAID_SIZE], *end = plain;
    make_example();
    const char *colored = text_of(&(struct aorta_verdict_style){.color = true});
    for (const char *at = colored; *at; at++) {
        if (*at == '\033') {
            assert_int_equal(at[1], '[');
            at += strcspn(at, "m");
        } else {
            *end++ = *at;
        }
    }
    *end = '\0';
    assert_string_equal(plain, said_text(&verdict));
    assert_null(strchr(said_text(&verdict), '\033'));
    assert_int_equal(count(colored, "\033["), 2 * count(colored, "\033[0m")); /* each ends */
    said_expect(colored, "\033[1mVerdict: unfused pointwise kernels");
    said_expect(colored, "\033[31m####......\033[0m  41%  \033[1m 10 to 14 ms\033[0m  unfused");
    said_expect(colored, "\033[2m654 operations");
    said_expect(colored, "fix    \033[32mtorch.compile(model)");
    for (const char *line = colored; *line; line = strchr(line, '\n') + 1) {
        char one[512];
        snprintf(one, sizeof one, "%.*s", (int)strcspn(line, "\n"), line);
        assert_int_equal(count(one, "\033["), 2 * count(one, "\033[0m")); /* on its line */
    }
}

/* What a file calls its kernels reaches the terminal without control characters. */
static void foreign_control_characters_are_never_raw(void **state) {
    (void)state;
    static const char name[] = "evil\033[31m\r\nname\a\x9b";
    for (int color = 0; color < 2; color++) {
        make_example();
        const char *clean = text_of(&(struct aorta_verdict_style){.color = color});
        const int escapes = count(clean, "\033");
        for (int i = 0; i < 2; i++) set_operation(&findings[i], 654, 17.1, name);
        const char *text = text_of(&(struct aorta_verdict_style){.color = color, .view = {.full_names = true}});
        assert_int_equal(count(text, "\033"), escapes);
        for (const char *at = text; *at; at++) assert_true((unsigned char)*at >= ' ' || *at == '\n' || *at == '\033');
        said_expect(text, "evil?[31m??name??");
    }
    begin(90);
    struct aorta_finding *compute = add(AORTA_CAUSE_COMPUTE, 0, 99);
    (void)set(compute, AORTA_FACT_KERNEL, 40, name);
    assert_null(strchr(said_text(&verdict), '\033'));
}

/* ---- headlines ---- */

static void one_cause(void **state) {
    (void)state;
    begin(21);
    (void)add(AORTA_CAUSE_HOST_LAUNCH, 79, 60);
    expect_headline("late kernel launches: 100 -> 21 ms per step if fixed (-79%)");
    findings[0].cause = AORTA_CAUSE_EXPOSED_COLLECTIVE; /* it is hidden, and stays */
    expect_headline("exposed all_gather: 100 -> 21 ms per step if hidden (-79%)");
    verdict.whole = true;
    expect_headline("exposed all_gather: 100 -> 21 ms in all if hidden (-79%)");
    verdict.whole = false;
    (void)set(&findings[0], AORTA_FACT_REDUCED_AGAIN, 4, NULL); /* then the fix hides nothing */
    expect_headline("exposed all_gather: 100 -> 21 ms per step if reduced once (-79%)");
    aorta_facts_remove(&findings[0].facts, AORTA_FACT_REDUCED_AGAIN);
    (void)set(&findings[0], AORTA_FACT_GATHERED_AGAIN, 8, NULL);
    expect_headline("exposed all_gather: 100 -> 21 ms per step if gathered once (-79%)");
    aorta_facts_remove(&findings[0].facts, AORTA_FACT_GATHERED_AGAIN);
    findings[0].at_best_ms = findings[0].slowed_ms = 62;
    expect_headline("exposed all_gather: 100 -> 38 ms per step at best (-62%)");
    expect("   up to 62 ms  exposed all_gather (exposed_collective)\n");
    findings[0].slowed_ms = 20;
    expect_headline("exposed all_gather: 100 -> 38 to 80 ms per step if hidden (-20 to -62%)");
    expect("   20 to 62 ms  exposed all_gather (exposed_collective)\n");
}

/* A range that is wider than 15% of the gain is shown, never its best end alone. */
static void a_wide_range_is_shown(void **state) {
    (void)state;
    begin(60);
    struct aorta_finding *waits = add(AORTA_CAUSE_HOST_SYNC, 40, 30);
    waits->gain_range_ms[0] = 37.1, waits->gain_range_ms[1] = 43;
    expect_headline("host waits for the GPU: 100 -> 60 ms per step if fixed (-40%)");
    expect("40%         40 ms  host waits for the GPU (host_sync)\n");
    waits->gain_range_ms[0] = 36.9;
    expect_headline("host waits for the GPU: 100 -> 57 to 63 ms per step if fixed (-37 to -43%)");
    expect("####......  43%   37 to 43 ms  host waits for the GPU (host_sync)\n"); /* the share of its upper end */
    waits->gain_range_ms[0] = -5, waits->gain_range_ms[1] = 140; /* a step is from nothing to all of it */
    expect_headline("host waits for the GPU: 100 -> 0 ms per step at best (-100%)");
    expect("########## 100%");
    waits->gain_range_ms[0] = 2, waits->gain_range_ms[1] = 44; /* all or next to nothing is no range */
    expect_headline("host waits for the GPU: 100 -> 56 ms per step at best (-44%)");
}

/* The step after a small gain has the digits of the step before. */
static void small_gains_can_be_subtracted(void **state) {
    (void)state;
    begin(12);
    verdict.step_ms_mean = verdict.step_ms_p50 = verdict.replay.measured_ms = verdict.replay.replayed_ms = 13.02;
    struct aorta_finding *waits = add(AORTA_CAUSE_HOST_SYNC, 0.7, 0.5);
    expect_headline("host waits for the GPU: 13.0 -> 12.3 ms per step if fixed (-5%)");
    waits->gain_range_ms[0] = 0.4, waits->gain_range_ms[1] = 1;
    expect_headline("host waits for the GPU: 13.0 -> 12.0 to 12.6 ms per step if fixed (-3 to -8%)");
    waits->gain_range_ms[0] = 0.4, waits->gain_range_ms[1] = 3;
    expect_headline("host waits for the GPU: 13.0 -> 10 to 13 ms per step if fixed (-3 to -23%)");
    waits->gain_ms = waits->alone_ms = 9; /* two digits of an estimate */
    waits->gain_range_ms[0] = waits->gain_range_ms[1] = 9;
    expect_headline("host waits for the GPU: 13.0 -> 4.0 ms per step if fixed (-69%)");
    (void)add(AORTA_CAUSE_COPY, 1, 1);
    verdict.replay.floor_ms = 3, verdict.replay.left.compute_ms = 0.01; /* so little of it is no figure */
    expect("\n  all fixes  3.0 ms; gains overlap and do not add up\n");
}

/* The ends of a range differ, even if the step before is known by two digits. */
static void a_range_of_two_digits_has_two_ends(void **state) {
    (void)state;
    begin(16);
    verdict.step_ms_mean = verdict.step_ms_p50 = verdict.replay.measured_ms = 36.8;
    verdict.replay.replayed_ms = verdict.replay.unrecorded_ms = 17.6;
    verdict.replay.unrecorded_range_ms[0] = 15.7, verdict.replay.unrecorded_range_ms[1] = 25.6;
    struct aorta_finding *fusion = add(AORTA_CAUSE_FUSION, 1.78, 1.78);
    fusion->gain_range_ms[0] = 1.25;
    expect_headline("unfused pointwise kernels: 18 -> 15.8 to 16.4 ms per step if fixed (-7 to -10%)");
}

static void two_that_gain_only_together(void **state) {
    (void)state;
    begin(50);
    struct aorta_finding *copies = add(AORTA_CAUSE_COPY, 20, 9);
    copies->only_after = true;
    copies->partner = AORTA_CAUSE_HOST_LAUNCH;
    copies->joint_ms = 44;
    expect_headline("exposed copies + late kernel launches: 100 -> 56 ms per step if both are fixed (-44%)");
    expect("         44 ms  exposed copies + late kernel launches (copy)\n");
    copies->joint_ms = 0; /* the largest part is not of this finding */
    copies->alone_ms = 2;
    (void)add(AORTA_CAUSE_HOST_PAUSE, 15, 0);
    expect_headline("host stall: 100 -> 85 ms per step if fixed (-15%)");
    expect("  2.0 to 20 ms  exposed copies (copy)\n");
    expect("(alone 2.0 ms, this much only with late kernel launches)\n");
    copies->alone_ms = 0.01;
    expect("   up to 20 ms  exposed copies (copy)\n");
    for (int i = 0; i < 2; i++) { /* slow collectives of no kind that has a finding */
        copies->partner = i ? AORTA_CAUSE_SLOW_COLLECTIVE : AORTA_CAUSE_COUNT;
        expect("(alone 0 ms, this much only with the other fixes)\n");
    }
}

/* A graph alone saves 25 ms. Faster products alone save nothing, as the host is late anyway; both save 64.
 *
 *     GPU   |##products##|      idle      |
 *     host  |launch launch launch launch launch| */
static void a_pair_has_both_fixes(void **state) {
    (void)state;
    begin(30);
    struct aorta_finding *pair = add(AORTA_CAUSE_PRECISION, 45, 0);
    pair->remedy = "precision=bf16";
    pair->alone_ms = 0;
    pair->only_after = true;
    pair->partner = AORTA_CAUSE_HOST_LAUNCH;
    pair->joint_ms = 64;
    (void)add(AORTA_CAUSE_HOST_LAUNCH, 25, 40);
    check_ok(aorta_advise(&verdict, NULL));
    expect_headline(
        "precision higher than needed + late kernel launches: 100 -> 36 ms per step if both are fixed (-64%)");
    expect("  share of step      gain alone\n"
           "  ######....  64%         64 ms  precision higher than needed + late kernel launches (precision)\n"
           "      fix    torch.autocast(\"cuda\", dtype=torch.bfloat16) around forward and loss; transformers:\n"
           "             bf16=True\n"
           "             and capture the step: torch.compile(mode=\"reduce-overhead\") or torch.cuda.graph\n");
    expect("  ###.......  25%         25 ms  late kernel launches (host_launch)\n");
}

/* Where lags without an explanation decide, the kernels' part of the path says nothing. */
static void what_is_left_can_be_unexplained(void **state) {
    (void)state;
    begin(90);
    (void)add(AORTA_CAUSE_HOST_SYNC, 6, 6);
    (void)add(AORTA_CAUSE_COPY, 4, 4);
    verdict.replay.left = (struct aorta_verdict_left){.compute_ms = 10, .unexplained_ms = 44};
    expect("  all fixes  90 ms, 10 of it compute; gains overlap and do not add up\n");
    verdict.idle_ms = 95; /* the ranks compute in turn: each less than their path */
    expect("  all fixes  90 ms; gains overlap and do not add up\n");
    verdict.replay.left = (struct aorta_verdict_left){.compute_ms = 0, .unexplained_ms = 89};
    expect("  all fixes  90 ms; gains overlap and do not add up\n");
}

static void small_causes_that_are_much_together(void **state) {
    (void)state;
    begin(93);
    (void)add(AORTA_CAUSE_HOST_SYNC, 4, 3);
    (void)add(AORTA_CAUSE_COPY, 3, 2);
    (void)add(AORTA_CAUSE_COMPUTE, 0, 90);
    expect_headline("no single cause: largest 4% (host waits for the GPU); all 2: 100 -> 93 ms per step (-7%)");
    verdict.findings[0].gain_range_ms[0] = 2, verdict.findings[0].gain_range_ms[1] = 6; /* as in the block */
    expect_headline("no single cause: largest 2 to 6% (host waits for the GPU); all 2: 100 -> 93 ms per step (-7%)");
    verdict.findings[0].gain_range_ms[0] = verdict.findings[0].gain_range_ms[1] = 4;
    verdict.replay.floor_ms = 40; /* other causes gain nothing alone */
    expect_headline(
        "no single cause: largest 4% (host waits for the GPU); all causes together: 100 -> 40 ms per step (-60%)");
    verdict.replay.floor_ms = 93;
    expect_not("compute-bound");
    expect_not("(compute)");                                                           /* it has no block */
    expect("\n               4%        4.0 ms  host waits for the GPU (host_sync)\n"); /* no bar below 5% */
    const char *text = said_text(&verdict);
    assert_true(strstr(text, "(host_sync)") < strstr(text, "(copy)"));
}

static void compute_bound_with_symptoms(void **state) {
    (void)state;
    begin(96);
    struct aorta_finding *waits = add(AORTA_CAUSE_HOST_SYNC, 2.6, 3);
    (void)add(AORTA_CAUSE_COPY, 1.5, 1);
    (void)add(AORTA_CAUSE_COMPUTE, 0, 84);
    (void)add(AORTA_CAUSE_STRAGGLER, 0, 9);
    expect_headline("compute-bound: 84% of the step is compute; the largest fix gains 3%");
    expect("3%        2.6 ms  host waits for the GPU (host_sync)\n");
    expect("\n  1 minor finding below 2%: exposed copies (--all shows it)\n");
    expect_not("straggler");                                      /* it gains nothing, so nothing is advised */
    waits->gain_range_ms[0] = 1.6, waits->gain_range_ms[1] = 3.6; /* as much as the block says */
    expect_headline("compute-bound: 84% of the step is compute; the largest fix gains at most 4%");
    expect("4%  1.6 to 3.6 ms  host waits for the GPU (host_sync)\n");
}

/* The largest kernels are in the place of blocks. */
static void compute_bound_without_fixes(void **state) {
    (void)state;
    begin(99.5);
    struct aorta_finding *compute = add(AORTA_CAUSE_COMPUTE, 0, 96);
    (void)set(compute, AORTA_FACT_KERNEL, 32.84, "void at::native::FillFunctor<int>(int)");
    (void)set(compute, AORTA_FACT_KERNEL_2, 20, "Cijk_Alik_Bljk_HB_GB_MT16x16x128_MI16x16x1_SN_LDSB0");
    (void)set(compute, AORTA_FACT_KERNEL_3, 9.5, "softmax");
    (void)add(AORTA_CAUSE_HOST_SYNC, 0.9, 2);
    expect_headline("compute-bound: 96% of the step is compute; no fix above 2% found");
    expect("\n  next       FillFunctor, 32.8 ms (33%)\n"
           "  next       Tensile MT16x16x128, 20.0 ms (20%)\n"
           "  next       softmax, 9.50 ms (10%)\n");
    expect_not("share of step");
    expect_not("minor finding"); /* below 1% nothing is counted */
    expect_not("missing");
    (void)set(compute, AORTA_FACT_KERNEL_2, 20, "void at::native::FillFunctor<float>(float)"); /* one short name */
    expect("\n  next       FillFunctor (int), 32.8 ms (33%)\n  next       FillFunctor (float), 20.0 ms (20%)\n");
    const struct aorta_finding floor = *compute;
    verdict.finding_count = 0; /* a small fix says little of so much compute; a large one is the answer */
    struct aorta_finding *fusion = add(AORTA_CAUSE_FUSION, 4.6, 0);
    *add(AORTA_CAUSE_COMPUTE, 0, 0) = floor;
    verdict.replay.floor_ms = 95;
    expect_headline("compute-bound: 96% of the step is compute; the largest fix gains 5%");
    expect("\n  next       softmax, 9.50 ms (10%)\n");
    expect("\n  #.........   5%        4.6 ms  unfused"); /* a bar where 5% is printed */
    fusion->gain_ms = fusion->alone_ms = fusion->gain_range_ms[0] = fusion->gain_range_ms[1] = 11;
    expect_not("next ");
}

/* Without peak rates no fix of compute can be found. */
static void compute_bound_without_rates(void **state) {
    (void)state;
    begin(99.5);
    struct aorta_finding *compute = add(AORTA_CAUSE_COMPUTE, 0, 96);
    set(compute, AORTA_FACT_NO_PEAKS, 1, NULL)->text = "the device is not in the table";
    expect_headline("compute-bound: 96% of the step is compute; gains of compute unknown");
    expect("\n  missing    peak rates (the device is not in the table): gains that need them are unknown\n");
    struct aorta_finding *fusion = add(AORTA_CAUSE_FUSION, 3, 0); /* which needs no rates */
    fusion->remedy = "fusion";
    expect_headline("compute-bound: 96% of the step is compute; other gains of compute unknown");
    verdict.finding_count--;
    struct aorta_finding *wide = add(AORTA_CAUSE_PRECISION, 0, 0); /* a small gain is no answer then */
    set(wide, AORTA_FACT_TOUCHED, 66, NULL);
    set(wide, AORTA_FACT_GAIN_UNKNOWN, 1, NULL);
    expect_headline("compute-bound: 96% of the step is compute, 66% in fp32; gains of compute unknown");
    aorta_facts_remove(&wide->facts, AORTA_FACT_GAIN_UNKNOWN);
    compute->share = 0.75, compute->cost_ms = 75;
    struct aorta_finding *latency = add(AORTA_CAUSE_LAUNCH_LATENCY, 0, 21);
    expect_headline("compute-bound: 75% of the step is compute; gains of compute unknown; 21% is launch latency");
    aorta_facts_remove(&compute->facts, AORTA_FACT_NO_PEAKS);
    expect_headline("compute-bound: 75% of the step is compute; 21% is launch latency, gain unknown");
    set(compute, AORTA_FACT_NO_PEAKS, 1, NULL)->text = "the device is not in the table";
    compute->share = 0.35, compute->cost_ms = 35;
    latency->share = 0.41, latency->cost_ms = 41;
    expect_headline("no fix above 2% found: 41% of the step is launch latency, 35% compute; gains of compute unknown");
    compute->share = 0.09, compute->cost_ms = 9;
    expect_headline("no fix above 2% found: 41% of the step is launch latency, 9% compute");
}

/* Gains are unknown or zero: the headline names exposed communication, and compute does not hide it. */
static void exposed_communication_is_named(void **state) {
    (void)state;
    begin(98);
    (void)add(AORTA_CAUSE_COMPUTE, 0, 69);
    (void)add(AORTA_CAUSE_EXPOSED_COLLECTIVE, 0, 21);
    (void)add(AORTA_CAUSE_STRAGGLER, 0, 10);
    verdict.replay = (struct aorta_verdict_replay){.reason = "it has 12 steps"};
    verdict.comm_ms = 32, verdict.exposed_ms = 31, verdict.overlap_ratio = 1.0 / 32;
    verdict.compute_ms = 69, verdict.step_ms_p50 = 99;
    expect_headline("gains unknown: 69% of the step is compute; 31.0 ms of communication exposed (97%)");
    expect("\n  gains      unknown, as it has 12 steps\n");
    expect("\n  step       100 ms (p50 99.0); GPU computing 69.0\n");
    expect("\n  overlap    1.00 of 32.0 ms hidden; exposed: 21.0 all_gather, 10.0 waiting for late ranks\n");
    expect("\n  share of step            cost\n  ##........  21%       21.0 ms  exposed all_gather "
           "(exposed_collective)\n");
    findings[2].rank = 1;
    expect("10.0 waiting for late rank 1\n");
    findings[2].cause = AORTA_CAUSE_PIPELINE_BUBBLE;
    expect("10.0 waiting for other stages\n");
    findings[2].cause = AORTA_CAUSE_STRAGGLER;
    verdict.exposed_ms = verdict.comm_ms = 4, verdict.overlap_ratio = 0; /* all of it, and little of the step */
    expect_headline("gains unknown: 69% of the step is compute");
    verdict.exposed_ms = 80, verdict.comm_ms = 80; /* more than anything else */
    expect_headline("gains unknown: 80% of the step is exposed communication");
    verdict.comm_ms = 32, verdict.exposed_ms = 31, verdict.overlap_ratio = 1.0 / 32;
    verdict.replay = (struct aorta_verdict_replay){.known = true, .replayed_ms = 100, .floor_ms = 98};
    expect_headline("no fix above 2% found: 69% of the step is compute; 31.0 ms of communication exposed (97%)");
    findings[0].cost_ms = 20, findings[0].share = 0.2;
    expect_headline("no fix above 2% found: 21% of the step is exposed all_gather, 20% compute; 31.0 ms of "
                    "communication exposed (97%)");
}

static void recordings_that_do_not_say(void **state) {
    (void)state;
    begin(50);
    verdict.finding_count = 0;
    expect_headline("nothing ran");
    assert_string_equal(said_text(&verdict), "Verdict: nothing ran\n");
    (void)add(AORTA_CAUSE_HOST_LAUNCH, 50, 40);
    verdict.replay.unrecorded_reason = "what recording cost is not known";
    expect_headline("unknown: late kernel launches take up to 50% of the recorded step, but what recording cost is not "
                    "known"); /* as much as the block says */
    expect("\n  share of step      gain alone, as recorded\n");
    findings[0].share = 0.04; /* the device hardly waits: its cost does not matter */
    expect_headline("late kernel launches: 100 -> 50 ms per step if fixed (-50%)");
    expect("\n  share of step      gain alone\n");
    findings[0].share = 0.4;
    verdict.idle_unexplained = true;
    aorta_facts_flag(&findings[0].facts, AORTA_FACT_UNEXPLAINED);
    expect_headline("unexplained gaps: 100 -> 50 ms per step if fixed (-50%)");
    begin(100);
    (void)add(AORTA_CAUSE_COMPUTE, 0, 76);
    verdict.gaps = true;
    expect_headline("at most 76% of the step is compute, gaps between kernels included; --kernel-timing separates "
                    "them");
    (void)add(AORTA_CAUSE_EXPOSED_COLLECTIVE, 0, 80); /* gaps of compute do not matter then */
    expect_headline("gains unknown: 80% of the step is exposed all_gather, 76% compute");
    verdict.finding_count = 1;
    verdict.gaps = false, verdict.coarse = true;
    expect_headline("unknown: these ranges of compute may contain gaps of the host; record with aorta train");
    verdict.host_only = true, verdict.host_alone = 0.4;
    expect_headline("no GPU in the recording: operations of the host take 76% of the step, collectives on the host "
                    "alone 40%");
    expect("\n  missing    the GPU; if the program uses one: ProfilerActivity.CUDA\n");
    verdict.host_alone = 0.87, verdict.host_collectives.name = "gloo:all_reduce"; /* more than the operations */
    expect_headline("no GPU in the recording: gloo:all_reduce on the host takes 87% of the step");
    verdict.coverage.launches = verdict.coverage.unanswered = 2; /* that activity records launches, too */
    expect("\n  missing    kernels, though launches are recorded: stop other profilers, or update the driver\n");
}

/* A program that failed before its first kernel, or a benchmark of copies. */
static void copies_without_kernels(void **state) {
    (void)state;
    begin(50);
    (void)add(AORTA_CAUSE_COPY, 50, 40);
    expect("\n  missing    kernels: only copies and fills are recorded\n");
    verdict.comm_ms = 4; /* collectives are kernels */
    expect_not("missing");
    verdict.comm_ms = 0;
    (void)add(AORTA_CAUSE_COMPUTE, 0, 10);
    expect_not("missing");
}

/* The missing kernels may outweigh every cause that is found. */
static void a_recording_without_most_of_its_kernels_names_no_cause(void **state) {
    (void)state;
    begin(50);
    (void)add(AORTA_CAUSE_HOST_LAUNCH, 50, 40);
    verdict.incomplete = true;
    verdict.coverage = (struct aorta_trace_coverage){.dispatches = 50, .lost = 1911};
    expect_headline("unknown: 1911 of 1961 kernels are missing in the recording; record all of them");
    verdict.coverage = (struct aorta_trace_coverage){.launches = 40, .unanswered = 39};
    expect_headline("unknown: 39 of 40 launches have no kernel in the recording; record the GPU's activity too");
    verdict.captures = true; /* SGLang's file of a capture: the launches that are captured have no kernels */
    expect_headline("unknown: the program captures graphs here, which happens once; record it while it replays them");
    verdict.captures = false;
    verdict.coverage = (struct aorta_trace_coverage){.failed = 12, .error = 9};
    expect_headline("unknown: 12 of 12 launches failed (cudaErrorInvalidConfiguration); correct this first");
    verdict.coverage.error = 12345;
    expect_headline("unknown: 12 of 12 launches failed (error 12345); correct this first");
    expect_not("gain alone");
    expect_not("late kernel launches");
}

/* ---- rows and blocks ---- */

static void rows_say_what_figures_are_of(void **state) {
    (void)state;
    begin(60);
    (void)add(AORTA_CAUSE_HOST_SYNC, 40, 30);
    verdict.warmup = 3;
    verdict.ranks_missing = 2, verdict.exposed_ms = 20, verdict.comm_ms = 20, verdict.overlap_ratio = 0;
    verdict.simulated = true;
    verdict.slowdown = (struct aorta_slowdown){.ratio = 1.456};
    verdict.disturbed = (char *)"another process used the GPU";
    verdict.clocks = (char *)"1545 of 1980 MHz";
    expect("\n  basis      8 steps of 2 ranks after 3 of warm-up, NVIDIA H100; simulated: collectives are copies\n"
           "             on one rank\n");
    expect("; GEMMs 46% slower during communication\n");
    verdict.slowdown.ratio = 1.07; /* nobody acts on this */
    expect_not("GEMMs");
    verdict.replay.unrecorded_ms = 90; /* waits for late ranks contain the profiler's cost */
    expect("\n  overlap    as recorded: 0 of 20.0 ms hidden; exposed: ");
    verdict.replay.unrecorded_ms = 0;
    expect("\n  missing    files of 2 of 4 ranks; exposed collectives may wait for these ranks\n");
    expect("\n  machine    another process used the GPU\n  clocks     1545 of 1980 MHz\n");
    expect_not("all fixes"); /* there is one */
    verdict.whole = true;
    expect("\n  step       100 ms in all, as the recording marks no steps; GPU computing 0\n");
    verdict.together_ms = 138;
    expect("\n  step       100 ms in all (mean of 2 devices; 138 together), as the recording marks no steps; GPU\n");
    verdict.together_ms = 0;
    expect("\n  basis      whole recording of 2 ranks, NVIDIA H100;");
    verdict.asked = true;
    expect("\n  step       100 ms in all; GPU computing 0\n");
}

/* Steps differ by 50 ms: one recording does not show a gain of 10 ms. */
static void gains_below_the_spread_are_marked(void **state) {
    (void)state;
    begin(50);
    (void)add(AORTA_CAUSE_HOST_SYNC, 40, 30);
    (void)add(AORTA_CAUSE_COPY, 10, 9);
    verdict.iterations = 12, verdict.rank_count = 1;
    verdict.step_ms_p10 = 80, verdict.step_ms_p90 = 130;
    expect("\n  spread     80.0 to 130 ms (p10 to p90); rerun on an idle machine; gains below 25 ms are uncertain\n");
    const char *text = said_text(&verdict), *mark = strstr(text, "(within the spread of the steps)");
    assert_int_equal(count(text, "within the spread"), 1);
    assert_true(mark && mark > strstr(text, "(copy)"));
    verdict.steps_unlike = 0.5;
    expect("(p10 to p90), as their work differs; gains");
    verdict.steps_unlike = NAN, verdict.copies_unlike = 0.5;
    expect("(p10 to p90), as their copies differ; gains");
    verdict.copies_unlike = NAN, verdict.undisturbed = true;
    expect("(p10 to p90); gains");
}

/* As where the last step is far longer than all steps before it. */
static void work_in_no_step_is_said(void **state) {
    (void)state;
    begin(60);
    (void)add(AORTA_CAUSE_HOST_SYNC, 20, 20);
    verdict.outside = 0.19;
    expect_not("of the GPU's work");
    verdict.outside = 0.24;
    expect("\n  basis      8 steps of 2 ranks, 76% of the GPU's work, NVIDIA H100\n");
}

static void two_that_save_the_same_time_say_so(void **state) {
    (void)state;
    begin(60);
    struct aorta_finding *fusion = add(AORTA_CAUSE_FUSION, 25, 0), *waits = add(AORTA_CAUSE_HOST_SYNC, 20, 20);
    fusion->shares[fusion->share_count++] = (struct aorta_shared_gain){AORTA_CAUSE_HOST_LAUNCH, 13.8};
    expect_not("shares"); /* readers would look for its block */
    (void)add(AORTA_CAUSE_HOST_LAUNCH, 18, 18);
    expect("(shares 14 ms with late kernel launches)\n");
    struct aorta_text markdown = {0};
    aorta_verdict_markdown(&verdict, &markdown); /* after the measurement there, too */
    said_expect(markdown.data, "unfused pointwise kernels (`fusion`) | ");
    said_expect(markdown.data, "(shares 14 ms with late kernel launches)");
    aorta_text_free(&markdown);
    waits->displaced = true, waits->alone_ms = 27;
    waits->shares[waits->share_count++] = (struct aorta_shared_gain){AORTA_CAUSE_FUSION, 7};
    expect("(alone 27 ms; shares 7.0 ms with unfused pointwise kernels)\n");
}

static void stalls_are_one_block(void **state) {
    (void)state;
    begin(60);
    struct aorta_finding *stall = add(AORTA_CAUSE_HOST_PAUSE, 40, 0);
    stall->rank = 0;
    (void)set(stall, AORTA_FACT_STALLS, 24, NULL);
    (void)set(stall, AORTA_FACT_PAUSE_COUNT, 3, NULL);
    struct aorta_fact *pause = set(stall, AORTA_FACT_PAUSE, 2.9, "void at::native::FillFunctor<int>(int)");
    pause->place.after = "aten::add", pause->place.rank = 0;
    expect("  ####......  40%         40 ms  host stall (host_pause), 24 stalls in 8 steps at 3 places\n"
           "      worst  2.90 ms before FillFunctor, after aten::add, rank 0\n");
}

/* A cost among gains is called one. */
static void a_cost_that_no_replay_removes(void **state) {
    (void)state;
    begin(80);
    (void)add(AORTA_CAUSE_HOST_SYNC, 20, 20);
    struct aorta_finding *turns = add(AORTA_CAUSE_STRAGGLER, 0, 12);
    aorta_facts_flag(&turns->facts, AORTA_FACT_OWN_WORK);
    expect("  #.........  12%       12.0 ms  straggler (straggler), cost\n");
}

/* What the replay cannot shorten stays with its cost from a tenth of the step on. Latencies of microseconds are in
 * every program whose host is late. */
static void large_costs_without_a_gain_stay(void **state) {
    static const struct {
        enum aorta_cause cause;
        double cost_ms, alone_ms, gap_ms;
        bool shown;
    } rows[] = {{AORTA_CAUSE_EXPOSED_COLLECTIVE, 48, 0, 0, true},
                {AORTA_CAUSE_EXPOSED_COLLECTIVE, 9, 0, 0, false},
                {AORTA_CAUSE_EXPOSED_COLLECTIVE, 48, 5, 0, false}, /* a larger finding has the same gain */
                {AORTA_CAUSE_COPY, 12, 0, 0, true},
                {AORTA_CAUSE_LAUNCH_LATENCY, 30, 0, 4.4, true},
                {AORTA_CAUSE_LAUNCH_LATENCY, 30, 0, 0.03, false},
                {AORTA_CAUSE_LAUNCH_LATENCY, 30, 0, 0, false},
                {AORTA_CAUSE_HOST_LAUNCH, 40, 0, 0, false}}; /* a symptom of the stall */
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        begin(80);
        (void)add(AORTA_CAUSE_HOST_PAUSE, 20, 20);
        struct aorta_finding *cost = add(rows[i].cause, 0, rows[i].cost_ms);
        cost->alone_ms = rows[i].alone_ms;
        if (rows[i].gap_ms > 0) (void)set(cost, AORTA_FACT_GAP, rows[i].gap_ms, "softmax");
        const char *text = said_text(&verdict);
        if ((strstr(text, "), cost\n") != NULL) != rows[i].shown) fail_msg("row %zu:\n%s", i, text);
        expect_headline("host stall: 100 -> 80 ms per step if fixed (-20%)");
    }
    begin(80); /* a gain without a block does not hide a cost of half the step */
    (void)add(AORTA_CAUSE_HOST_PAUSE, 20, 20);
    (void)add(AORTA_CAUSE_EXPOSED_COLLECTIVE, 1.5, 48);
    expect("48%       48.0 ms  exposed all_gather (exposed_collective), cost\n");
    for (int recurs = 0; recurs < 2; recurs++) { /* a function of the host on the stream, 140 us in each step */
        begin(0.46);
        verdict.step_ms_mean = verdict.step_ms_p10 = verdict.step_ms_p50 = verdict.step_ms_p90 = 0.6;
        struct aorta_finding *latency = add(AORTA_CAUSE_LAUNCH_LATENCY, 0, 0.14);
        (void)set(latency, AORTA_FACT_GAP, 0.28, "render");
        if (recurs) aorta_facts_flag(&latency->facts, AORTA_FACT_RECURS);
        (recurs ? expect : expect_not)("launch latency (launch_latency)");
    }
    begin(80); /* the stall is in the launch */
    (void)set(add(AORTA_CAUSE_HOST_PAUSE, 20, 20), AORTA_FACT_PAUSE, 17.8, "softmax");
    (void)set(add(AORTA_CAUSE_LAUNCH_LATENCY, 0, 18), AORTA_FACT_GAP, 17.9, "softmax");
    expect_not("launch latency");
}

static void a_device_that_is_no_gpu_is_not_called_one(void **state) {
    (void)state;
    static const struct {
        enum aorta_cause cause;
        enum aorta_fact_key fact;
        const char *on_gpu, *on_cpu;
    } rows[] = {
        {AORTA_CAUSE_LAUNCH_LATENCY, AORTA_FACT_IDLE_STARTED, "\n      GPU idle 17.8 ms between launch and start\n",
         "\n      device idle 17.8 ms between launch and start\n"},
        {AORTA_CAUSE_DATA_WAIT, AORTA_FACT_IDLE_DATA, "\n      GPU idle 17.8 ms until the next batch was ready\n",
         "\n      device idle 17.8 ms until the next batch was ready\n"},
        {AORTA_CAUSE_HOST_SYNC, AORTA_FACT_IDLE_SYNCED, "\n      GPU idle 17.8 ms after the host waited for it\n",
         "\n      device idle 17.8 ms after the host waited for it\n"},
        {AORTA_CAUSE_HOST_LAUNCH, AORTA_FACT_STARTED_TOO, "\n      GPU idle 17.8 ms between launch and start; launches",
         "\n      device idle 17.8 ms between launch and start; launches that run ahead would hide it\n"},
        {AORTA_CAUSE_COPY, AORTA_FACT_COPY_ALONE, " with nothing else on the GPU\n",
         " with nothing else on the device\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        begin(80);
        (void)set(add(rows[i].cause, 20, 20), rows[i].fact, 17.8, NULL);
        expect(rows[i].on_gpu);
        verdict.on_cpu = true;
        expect(rows[i].on_cpu);
    }
}

/* The gains of the blocks, also those that no replay finds. */
static void csv_has_the_gains_that_are_shown(void **state) {
    (void)state;
    struct aorta_text csv = {0};
    begin(60);
    struct aorta_finding *narrow = add(AORTA_CAUSE_FEW_BLOCKS, 0, 0), *tf32 = add(AORTA_CAUSE_PRECISION, 12.5, 0);
    narrow->at_best_ms = narrow->slowed_ms = 37.5;
    tf32->remedy = "precision=tf32";
    expect("   up to 38 ms  kernels with few threads (few_blocks)\n");
    aorta_table_csv_header(&aorta_verdict_table, NULL, &csv);
    aorta_table_csv_lines(&aorta_verdict_table, &verdict, NULL, &csv);
    said_expect(csv.data, "cause,collective,remedy,gain_ms,gain_low_ms,gain_high_ms,");
    said_expect(csv.data, "\nfew_blocks,,,37.5,37.5,37.5,");
    said_expect(csv.data, "\nprecision,,precision=tf32,12.5,12.5,12.5,");
    aorta_text_free(&csv);
}

static void a_second_fix_has_its_line(void **state) {
    (void)state;
    begin(60);
    aorta_facts_flag(&add(AORTA_CAUSE_HOST_LAUNCH, 40, 40)->facts, AORTA_FACT_OPTIMIZES);
    check_ok(aorta_advise(&verdict, NULL));
    expect("      fix    capture the step: torch.compile(mode=\"reduce-overhead\") or torch.cuda.graph\n"
           "             or launch less: fused/foreach optimizer, larger batch\n");
    struct aorta_setting settings[] = {{"compile.enabled", "false"}, {"training.batch_size", "8"}};
    verdict.program = AORTA_PROGRAM_OURS;
    findings[0].facts = (struct aorta_facts){.arena = &arena};
    check_ok(aorta_advise(&verdict, &(struct aorta_settings){settings, 2}));
    expect("      fix    compile.enabled=true (replay the step as one graph)\n"
           "             or a larger training.batch_size, now 8 (more work for each launch)\n");
}

/* Eleven causes have eight blocks and a line of names. The JSON has eight rows with the costliest, and a sum. */
static void at_most_eight_blocks(void **state) {
    (void)state;
    enum { CAUSES = 11, BLOCKS = 8 };
    begin(50);
    for (int i = 0; i < CAUSES - 1; i++) (void)add(AORTA_CAUSE_FUSION, 12 - i, 1);
    (void)add(AORTA_CAUSE_COMPUTE, 0, 90);
    const char *text = said_text(&verdict);
    assert_int_equal(count(text, "(fusion)\n"), BLOCKS);
    said_expect(text, " 5.0 ms  unfused");
    assert_null(strstr(text, " 4.0 ms  unfused"));
    said_expect(text, "\n  2 more findings: unfused pointwise kernels, unfused pointwise kernels (--all shows them)\n");
    text = text_of(&(struct aorta_verdict_style){.view = {.all = true}});
    assert_int_equal(count(text, "(fusion)\n"), CAUSES - 1);

    struct aorta_text json_text = {0};
    struct aorta_json json;
    (void)set(&findings[0], AORTA_FACT_OPERATIONS, 3, NULL);
    (void)set(&findings[0], AORTA_FACT_OPERATION, 1, "softmax");
    aorta_json_begin(&json, &json_text, 0);
    aorta_json_object(&json);
    aorta_verdict_json(&verdict, &json);
    aorta_json_object_end(&json);
    check_ok(aorta_text_check(&json_text));
    char *view = strstr(json_text.data, "\"verdict_view\"");
    assert_non_null(view);
    said_expect(view, "\"headline\": \"unfused pointwise kernels: 100 -> 88 ms per step if fixed (-12%)\"");
    assert_int_equal(count(view, "\"cause\""), BLOCKS);
    *view = '\0';
    assert_int_equal(count(json_text.data, "\"cause\""), BLOCKS);
    said_expect(json_text.data, "\"compute\"");
    assert_int_equal(count(json_text.data, "\"origin\": {\"name\": \"softmax\""), 1);
    said_expect(strstr(json_text.data, "\"verdict_folded\""), "\"rows\": 3");
    said_expect(strstr(json_text.data, "\"verdict_folded\""), "\"cost_ms\": 3.0");
    aorta_text_free(&json_text);
}

/* A remedy that does what one before does is neither a block nor counted. */
static void alternatives_are_left_out(void **state) {
    (void)state;
    begin(60);
    add(AORTA_CAUSE_PRECISION, 40, 0)->remedy = "precision=bf16";
    struct aorta_finding *tf32 = add(AORTA_CAUSE_PRECISION, 30, 0);
    tf32->remedy = "precision=tf32", tf32->then_ms = 2;
    assert_int_equal(count(said_text(&verdict), "(precision)"), 1);
    expect_not("finding");
    tf32->then_ms = 25; /* a fix of the same block, though it gains more than the other fixes leave */
    check_ok(aorta_advise(&verdict, NULL));
    assert_int_equal(count(said_text(&verdict), "(precision)"), 1);
    expect("or torch.set_float32_matmul_precision(\"high\")");
    expect("(saves 30 ms)\n");
    add(AORTA_CAUSE_PRECISION, 10, 9)->remedy =
        "precision=fp32"; /* of other operations: tf32 does not do what it does */
    check_ok(aorta_advise(&verdict, NULL));
    assert_int_equal(count(said_text(&verdict), "(precision)"), 2);
    assert_int_equal(count(said_text(&verdict), "(saves 30 ms)"), 1);
}

/* The steps of all ranks together gain this much: a longer gap is not of this cause alone. */
static void worst_places_are_within_the_gain(void **state) {
    (void)state;
    begin(50);
    struct aorta_finding *finding = add(AORTA_CAUSE_DATA_WAIT, 19, 20);
    const double all_ms = 19 * (double)verdict.iterations * (double)verdict.rank_count;
    struct aorta_fact *gap = set(finding, AORTA_FACT_GAP, 0.99 * all_ms, "relu");
    assert_int_equal(count(said_text(&verdict), "before relu\n"), 1);
    gap->value = 1.01 * all_ms;
    expect_not("before relu");
}

static void worst_places_are_named_once(void **state) {
    (void)state;
    begin(50);
    for (int i = 0; i < 2; i++) {
        struct aorta_finding *finding = add(i ? AORTA_CAUSE_DATA_WAIT : AORTA_CAUSE_HOST_SYNC, 20 - i, 20);
        (void)set(finding, AORTA_FACT_GAP, 3, "relu");
    }
    assert_int_equal(count(said_text(&verdict), "worst  3.00 ms before relu\n"), 1);
    (void)set(&findings[1], AORTA_FACT_GAP, 4, "relu");
    assert_int_equal(count(said_text(&verdict), "worst  "), 2);
    findings[0].cause = AORTA_CAUSE_HOST_PAUSE; /* the stall and the gap that it leaves, in any order of the blocks */
    (void)set(&findings[0], AORTA_FACT_PAUSE, 3.9, "relu");
    assert_int_equal(count(said_text(&verdict), "worst  "), 1);
    const struct aorta_finding first = findings[0];
    findings[0] = findings[1], findings[1] = first;
    assert_int_equal(count(said_text(&verdict), "worst  "), 1);
    expect("worst  3.90 ms before relu\n");
}

/* Only steps with collectives can wait for one. */
static void steps_without_collectives_wait_for_the_host(void **state) {
    (void)state;
    begin(50);
    struct aorta_finding *finding = add(AORTA_CAUSE_FUSION, 20, 0);
    set_operation(finding, 654, 17.1, "aten::copy_");
    struct aorta_fact *waits = set(finding, AORTA_FACT_WAITS_FOR_HOST, 1, NULL);
    expect("      654 operations take 17.1 of 31.9 ms; gain limited by waits for the host\n");
    waits->text = " or a collective";
    expect("      654 operations take 17.1 of 31.9 ms; gain limited by waits for the host or a collective\n");
}

/* A sum of work that is more than the step, and of one rank, says so. */
static void sums_say_what_they_are_of(void **state) {
    (void)state;
    begin(50);
    struct aorta_finding *finding = add(AORTA_CAUSE_FUSION, 20, 0);
    set_operation(finding, 654, 17.1, "aten::copy_");
    struct aorta_fact *all = set(finding, AORTA_FACT_KERNELS, 131.9, NULL);
    all->text = " of work on several streams", all->place.rank = 1;
    expect("      654 operations take 17.1 of 132 ms of work on several streams, rank 1\n");
}

/* The same facts in the same order, as tables whose cells hide nothing. */
static void markdown_has_the_same(void **state) {
    (void)state;
    make_example();
    struct aorta_text text = {0};
    aorta_verdict_markdown(&verdict, &text);
    check_ok(aorta_text_check(&text));
    said_expect(text.data,
                "**Verdict: unfused pointwise kernels: 34.3 -&gt; 20 to 24 ms per step if fixed (-29 to -41%)**\n");
    said_expect(text.data, "\n| step | 34.3 ms without the profiler (33.6 to 35.0); 34.9 recorded; GPU busy 31.9 |\n");
    said_expect(text.data, "\n| share of step | gain alone | cause | measured | fix |\n");
    said_expect(text.data,
                "\n| 41% | 10 to 14 ms | unfused pointwise kernels (`fusion`) | 654 operations take 17.1 of 31.9 "
                "ms<br>worst: aten::copy\\_ "
                "\\[16,16,559,64\\], 72 per step, 2.11 ms | torch.compile(model), or");
    said_expect(text.data, "\n1 minor finding below 2%: late kernel launches\n");
    aorta_text_free(&text);
}

int main(void) {
#define TEST(name) cmocka_unit_test_teardown(name, end)
    const struct CMUnitTest tests[] = {
        TEST(the_layout_is_that_of_the_style),
        TEST(all_is_an_option_of_a_command),
        TEST(all_findings_are_shown_when_asked_for),
        TEST(lines_have_80_to_100_columns),
        TEST(color_changes_no_word),
        TEST(foreign_control_characters_are_never_raw),
        TEST(one_cause),
        TEST(a_wide_range_is_shown),
        TEST(small_gains_can_be_subtracted),
        TEST(a_range_of_two_digits_has_two_ends),
        TEST(two_that_gain_only_together),
        TEST(a_pair_has_both_fixes),
        TEST(what_is_left_can_be_unexplained),
        TEST(small_causes_that_are_much_together),
        TEST(compute_bound_with_symptoms),
        TEST(compute_bound_without_fixes),
        TEST(compute_bound_without_rates),
        TEST(exposed_communication_is_named),
        TEST(recordings_that_do_not_say),
        TEST(copies_without_kernels),
        TEST(a_recording_without_most_of_its_kernels_names_no_cause),
        TEST(rows_say_what_figures_are_of),
        TEST(gains_below_the_spread_are_marked),
        TEST(work_in_no_step_is_said),
        TEST(two_that_save_the_same_time_say_so),
        TEST(stalls_are_one_block),
        TEST(a_cost_that_no_replay_removes),
        TEST(large_costs_without_a_gain_stay),
        TEST(a_device_that_is_no_gpu_is_not_called_one),
        TEST(csv_has_the_gains_that_are_shown),
        TEST(a_second_fix_has_its_line),
        TEST(at_most_eight_blocks),
        TEST(alternatives_are_left_out),
        TEST(worst_places_are_within_the_gain),
        TEST(worst_places_are_named_once),
        TEST(steps_without_collectives_wait_for_the_host),
        TEST(sums_say_what_they_are_of),
        TEST(markdown_has_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
