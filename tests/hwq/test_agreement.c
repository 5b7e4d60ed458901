/* Stamps held against a recording of the same run: a simulated device whose kernels begin before their first stamp and
 * end behind their last by known times, on a timer that ticks every 32 ns. */
#include "check.h"
#include "hwq/agreement.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { HEAD = 480, TAIL = 390, MARK_HEAD = 620, MARK_TAIL = 700, TICK = 32, MOST = 20000 };

struct device {
    struct aorta_hwq_recorded kernels[MOST];
    size_t count;
    uint64_t launches;
    int64_t now_ns; /* on the recording's clock */
    int64_t gates;
    uint32_t random;
    struct aorta_hwq_book book;
    struct aorta_hwq_spans spans;
    double slower; /* stamps of operations on stream 1 begin later by this many ns: planted */
    int64_t load;  /* heads are longer by this many ns while the workload runs */
};

static uint32_t next_random(struct device *device) {
    return device->random = device->random * 1664525u + 1013904223u;
}

static int64_t between(struct device *device, int64_t least, int64_t most) {
    return least + (int64_t)(next_random(device) >> 8) % (most - least + 1);
}

/* The timer's clock runs 12 345 678 ns ahead, and ticks. */
static int64_t timer(int64_t recorded_ns) {
    return (recorded_ns + 12345678) / TICK * TICK;
}

/* Streams of ours are 41, 42 … in the recording. */
static void launch(struct device *device, int stream, const char *name, int64_t start_ns, int64_t end_ns) {
    assert_true(device->count < MOST);
    device->kernels[device->count++] = (struct aorta_hwq_recorded){
        .start_ns = start_ns, .end_ns = end_ns, .stream = 41 + stream, .correlation = ++device->launches, .name = name};
}

static void add_span(struct device *device, struct aorta_hwq_span span) {
    if (span.stream == 1) span.start_ns += llround(device->slower / TICK) * TICK;
    check_ok(aorta_hwq_spans_add(&device->spans, &span));
}

static void run_self(struct device *device, int stream, const char *name, int64_t lasts_ns) {
    const int64_t head = HEAD + device->load, start = device->now_ns, end = start + head + lasts_ns + TAIL;
    launch(device, stream, name, start, end);
    add_span(device, (struct aorta_hwq_span){
                         .stream = stream, .name = name, .start_ns = timer(start + head), .end_ns = timer(end - TAIL)});
    device->now_ns = end;
}

/* Two kernels of a library between the two that mark; 1 us between all. */
static void run_marked(struct device *device, int stream, const char *name, bool empty) {
    const int64_t mark = MARK_HEAD + MARK_TAIL, start = device->now_ns;
    int64_t at = start;
    launch(device, stream, "hwq_mark", at, at + mark);
    at += mark + 1000;
    for (int i = 0; i < 2 && !empty; i++, at += 6000) launch(device, stream, "library_gemm", at, at + 5000);
    launch(device, stream, "hwq_mark", at, at + mark);
    add_span(device, (struct aorta_hwq_span){.stream = stream,
                                             .kind = AORTA_HWQ_GEMM,
                                             .marked = true,
                                             .name = name,
                                             .start_ns = timer(start + MARK_HEAD),
                                             .end_ns = timer(at + mark - MARK_TAIL)});
    device->now_ns = at + mark;
}

static void close_gate(struct device *device) {
    device->now_ns += 50000;
    launch(device, 20, "hwq_hold", device->now_ns, device->now_ns + 1000);
    device->gates++;
    device->now_ns += 2000;
    device->spans.count = 0;
}

/* Times are kept from the first start of the iteration, as stamps.c does. */
static void keep(struct device *device, enum aorta_hwq_pass pass) {
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < device->spans.count; i++)
        if (device->spans.items[i].start_ns < first) first = device->spans.items[i].start_ns;
    for (size_t i = 0; i < device->spans.count; i++) {
        device->spans.items[i].start_ns -= first;
        device->spans.items[i].end_ns -= first;
    }
    device->spans.gate = device->gates;
    check_ok(aorta_hwq_book_add(&device->book, pass, &device->spans));
}

static void wait_a_little(struct device *device, int64_t about_ns) {
    device->now_ns += between(device, about_ns * 4 / 5, about_ns * 6 / 5);
}

static void iterate(struct device *device) {
    for (int i = 0; i < 40; i++) {
        wait_a_little(device, 3000);
        run_self(device, i % 3, "hwq_chain", 1500);
        wait_a_little(device, 3000);
        run_self(device, i % 3, "hwq_chain", 1500);
        wait_a_little(device, 2000);
        run_marked(device, i % 3, "linear", false);
    }
}

static void run_device(struct device *device, int64_t load, bool beside) {
    for (int i = 0; i < 3; i++) { /* the timing pass, which nothing stamps: no marks */
        close_gate(device);
        for (int k = 0; k < 80; k++) launch(device, k / 2 % 3, "hwq_chain", device->now_ns, device->now_ns + 900);
    }
    for (int i = 0; i < 5; i++) {
        close_gate(device);
        launch(device, 0, "aorta_stamp", device->now_ns, device->now_ns + 10);
        device->load = load;
        iterate(device);
        device->load = 0;
        keep(device, AORTA_HWQ_PASS_WORKLOAD);
    }
    iterate(device); /* the probe's warm-up, or what a workload's report does, runs behind no gate */
    const double slower = device->slower;
    device->slower = 0;
    for (int i = 0; i < 4; i++) {
        close_gate(device);
        for (int k = 0; k < 32; k++) wait_a_little(device, 1000), run_self(device, k % 3, "hwq_multiply_add", 300);
        for (int k = 0; k < 32; k++) wait_a_little(device, 1000), run_marked(device, 0, "nothing", true);
        keep(device, AORTA_HWQ_PASS_PROBE);
    }
    device->load = load;
    for (int i = 0; i < 4 && beside; i++) { /* the chain has stream 3; all stand in one row here, which is no matter */
        close_gate(device);
        for (int k = 0; k < 32; k++) {
            wait_a_little(device, 1000), run_self(device, 3, "hwq_multiply_add", 300);
            wait_a_little(device, 1000), run_marked(device, 3, "nothing", true);
        }
        iterate(device);
        keep(device, AORTA_HWQ_PASS_BESIDE);
    }
    device->slower = slower;
}

static struct device *make_device_under(double slower, int64_t load, bool beside) {
    struct device *device = calloc(1, sizeof *device);
    assert_non_null(device);
    device->now_ns = 777000000000;
    device->random = 1;
    device->slower = slower;
    run_device(device, load, beside);
    return device;
}

static struct device *make_device(double slower) {
    return make_device_under(slower, 0, false);
}

static void free_device(struct device *device) {
    aorta_hwq_book_free(&device->book);
    aorta_hwq_spans_free(&device->spans);
    free(device);
}

static void what_stamps_cannot_see_is_taken_off(void **state) {
    (void)state;
    struct device *device = make_device(0);
    struct aorta_hwq_agreement agreement;
    check_ok(aorta_hwq_agree(&device->book, device->kernels, device->count, &agreement));
    assert_int_equal(agreement.iterations, 5);
    assert_true(agreement.tick_ns == TICK);
    assert_int_equal(agreement.self.samples, 4 * 32);
    assert_int_equal(agreement.marked.samples, 4 * 32);
    assert_true(fabs(agreement.self.start_ns - agreement.self.end_ns - (HEAD + TAIL)) <= TICK);
    assert_true(fabs(agreement.marked.start_ns - agreement.marked.end_ns - (MARK_HEAD + MARK_TAIL)) <= TICK);
    const struct aorta_hwq_agreed *intra = &agreement.kinds[AORTA_HWQ_INTRA];
    assert_int_equal(intra->count, 5 * 117);                          /* 120 operations on three streams */
    assert_true(intra->stamped_off > 0.25 && !intra->stamped_within); /* some 900 of 3000 ns */
    assert_true(fabs(intra->corrected_off) < 0.02 && intra->corrected_within);
    assert_true(intra->off_p90_us <= 3e-3 * TICK);
    const struct aorta_hwq_agreed *inter = &agreement.kinds[AORTA_HWQ_INTER];
    assert_int_equal(inter->count, 5 * 39);
    assert_true(inter->recorded_us > 2.4 && inter->recorded_us < 3.6);
    assert_true(!inter->stamped_within && inter->corrected_within);
    assert_true(aorta_hwq_agrees(&agreement));
    struct aorta_text text = {0};
    aorta_hwq_agreement_text(&agreement, &text);
    check_ok(aorta_text_check(&text));
    assert_non_null(strstr(text.data, "within 10%: yes, as stamped no"));
    assert_non_null(strstr(text.data, "Within 10%: yes\n"));
    aorta_text_free(&text);
    free_device(device);
}

/* 640 ns in gaps of 3000: the probe, on an idle device, knows nothing of them; the chain beside the workload does. */
static void what_stamps_cannot_see_depends_on_the_load(void **state) {
    (void)state;
    for (int beside = 0; beside < 2; beside++) {
        struct device *device = make_device_under(0, 640, beside);
        struct aorta_hwq_agreement agreement;
        device->book.tick_ns = TICK;
        check_ok(aorta_hwq_agree(&device->book, device->kernels, device->count, &agreement));
        assert_int_equal(agreement.beside, beside);
        assert_int_equal(agreement.self.samples, 4 * 32);
        assert_int_equal(agreement.iterations, 5);
        assert_true(aorta_hwq_agrees(&agreement) == (beside == 1));
        free_device(device);
    }
}

/* Stamps that are late by 640 ns on one stream of three: the gap to that stream is off, and told. */
static void a_difference_is_found(void **state) {
    (void)state;
    struct device *device = make_device(1280);
    struct aorta_hwq_agreement agreement;
    check_ok(aorta_hwq_agree(&device->book, device->kernels, device->count, &agreement));
    assert_true(agreement.kinds[AORTA_HWQ_INTER].off_p90_us > 1.2);
    assert_true(agreement.kinds[AORTA_HWQ_INTRA].off_p90_us > 1.2);
    assert_false(aorta_hwq_agrees(&agreement));
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 0);
    aorta_hwq_agreement_json(&agreement, &json);
    check_ok(aorta_text_check(&text));
    assert_non_null(strstr(text.data, "\"within\": false"));
    aorta_text_free(&text);
    free_device(device);
}

static void expect_refusal(struct device *device, const char *part) {
    struct aorta_hwq_agreement agreement;
    check_fails(aorta_hwq_agree(&device->book, device->kernels, device->count, &agreement), AORTA_UNSUPPORTED, part);
}

static struct aorta_hwq_recorded *find_kernel(struct device *device, const char *name, size_t number) {
    for (size_t i = 0; i < device->count; i++)
        if (!strcmp(device->kernels[i].name, name) && number-- == 0) return &device->kernels[i];
    fail();
    return NULL;
}

static void what_does_not_match_is_refused(void **state) {
    (void)state;
    struct device *device = make_device(0);
    find_kernel(device, "hwq_mark", 5)->name = "lost";
    expect_refusal(device, "behind gate 4 the recording has 119 of 120 stamped operations");
    free_device(device);

    device = make_device(0);
    find_kernel(device, "hwq_chain", 240 + 3)->stream = 43; /* of the first stamped iteration; was stream 1 */
    expect_refusal(device, "are not of the same launches");
    free_device(device);

    device = make_device(0);
    find_kernel(device, "hwq_hold", 11)->name = "lost";
    expect_refusal(device, "gate 12 of the run is not in the recording");
    free_device(device);

    device = make_device(0);
    for (size_t i = 0; i < device->count; i++) device->kernels[i].correlation = 0;
    expect_refusal(device, "does not say in which order");
    free_device(device);

    device = make_device(0);
    for (size_t i = 0; i < device->count; i++)
        device->kernels[i].graph = strcmp(device->kernels[i].name, "hwq_hold") != 0;
    expect_refusal(device, "--graph");
    free_device(device);

    device = make_device(0);
    device->book.count = 0;
    expect_refusal(device, "stamped nothing");
    free_device(device);
}

static void the_file_holds_everything(void **state) {
    (void)state;
    char path[] = "/tmp/aorta_book_XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    struct device *device = make_device_under(0, 0, true);
    struct aorta_hwq_book book;
    device->book.tick_ns = TICK;
    check_ok(aorta_hwq_book_write(&device->book, path));
    check_ok(aorta_hwq_book_read(path, &book));
    assert_int_equal(book.count, device->book.count);
    assert_int_equal(book.tick_ns, TICK);
    for (size_t i = 0; i < book.count; i++) {
        const struct aorta_hwq_iteration *read = &book.iterations[i], *kept = &device->book.iterations[i];
        assert_int_equal(read->pass, kept->pass);
        assert_int_equal(read->spans.gate, kept->spans.gate);
        assert_int_equal(read->spans.count, kept->spans.count);
        for (size_t k = 0; k < read->spans.count; k++) {
            const struct aorta_hwq_span *a = &read->spans.items[k], *b = &kept->spans.items[k];
            assert_string_equal(a->name, b->name);
            assert_true(a->stream == b->stream && a->kind == b->kind && a->marked == b->marked);
            assert_true(a->start_ns == b->start_ns && a->end_ns == b->end_ns);
        }
    }
    aorta_hwq_book_free(&book);
    static const char *const broken[] = {
        "{",
        "[]",
        "{\"kind\": \"hwq_stamps\", \"names\": [1], \"iterations\": []}",
        "{\"kind\": \"hwq_stamps\", \"names\": [], \"iterations\": [{\"pass\": \"x\"}]}",
        "{\"kind\": \"hwq_stamps\", \"names\": [\"a\"], \"iterations\": [{\"pass\": \"probe\", \"gate\": 1, "
        "\"stamps\": "
        "[[0, 0, 0, 1, 0, 0]]}]}",
        "{\"kind\": \"hwq_stamps\", \"names\": [\"a\"], \"iterations\": [{\"pass\": \"probe\", \"gate\": 1, "
        "\"stamps\": "
        "[[64, 0, 0, 0, 0, 0]]}]}"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        FILE *out = fopen(path, "w");
        assert_non_null(out);
        fputs(broken[i], out);
        assert_int_equal(fclose(out), 0);
        check_fails(aorta_hwq_book_read(path, &book), AORTA_FORMAT, path);
        aorta_hwq_book_free(&book);
    }
    unlink(path);
    const struct aorta_hwq_spans unstamped = {.unstamped = 2};
    check_fails(aorta_hwq_book_add(&device->book, AORTA_HWQ_PASS_PROBE, &unstamped), AORTA_DEVICE, "left no stamp");
    free_device(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_stamps_cannot_see_is_taken_off),
        cmocka_unit_test(what_stamps_cannot_see_depends_on_the_load),
        cmocka_unit_test(a_difference_is_found),
        cmocka_unit_test(what_does_not_match_is_refused),
        cmocka_unit_test(the_file_holds_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
