#include "hwq/beside.h"
#include "hwq/kept.h"
#include "hwq/kernels/kernels.h"
#include "hwq/kernels/tiny.h"

enum { PAIRS = 64, ROUNDS = 8, ELEMENTS = 256 };

struct beside {
    const struct aorta_hwq_plan *plan;
    struct aorta_hwq_book *book;
    float *values;
    int stream;
    struct aorta_event *fork, *join;
};

/* The chain first, so that it runs as soon as the workload does. */
static aorta_status queue_chain(struct aorta_hwq *hwq, const struct beside *beside) {
    const struct aorta_hwq_multiply_add args = {
        .x = beside->values, .y = beside->values, .count = ELEMENTS, .factor = 0.5f, .addend = 1.0f};
    AORTA_TRY(aorta_hwq_after(hwq, beside->stream, beside->fork, 0));
    for (int i = 0; i < PAIRS; i++) {
        AORTA_TRY(aorta_hwq_launch(hwq, beside->stream, &aorta_hwq_kernel_multiply_add, &args, sizeof args));
        AORTA_TRY(aorta_hwq_begin(hwq, beside->stream, AORTA_HWQ_KERNEL, "nothing"));
        AORTA_TRY(aorta_hwq_end(hwq, beside->stream));
    }
    return NULL;
}

static aorta_status iterate(struct aorta_hwq *hwq, void *state) {
    const struct beside *beside = state;
    AORTA_TRY(queue_chain(hwq, beside));
    AORTA_TRY(beside->plan->iterate(hwq, beside->plan->state));
    return aorta_hwq_after(hwq, 0, beside->join, beside->stream);
}

static aorta_status see(void *user, const struct aorta_hwq_spans *spans) {
    const struct beside *beside = user;
    return aorta_hwq_book_add(beside->book, AORTA_HWQ_PASS_BESIDE, spans);
}

static aorta_status run(struct aorta_hwq *hwq, struct beside *beside) {
    const struct aorta_hwq_plan plan = {.gate = true, .iterations = ROUNDS, .iterate = iterate, .state = beside};
    AORTA_TRY(aorta_hwq_alloc(hwq, ELEMENTS * sizeof(float), "the chain's values", (void **)&beside->values));
    AORTA_TRY(aorta_fill_bytes(hwq->streams[0], beside->values, 0, ELEMENTS * sizeof(float)));
    AORTA_TRY(aorta_stream_synchronize(hwq->streams[0]));
    AORTA_TRY(aorta_hwq_event(hwq, &beside->fork));
    AORTA_TRY(aorta_hwq_event(hwq, &beside->join));
    return aorta_hwq_pass_stamp(hwq, &plan, see, beside);
}

aorta_status aorta_hwq_beside_run(struct aorta_hwq *given, const struct aorta_hwq_plan *plan,
                                  struct aorta_hwq_book *book) {
    struct aorta_hwq hwq = *given; /* what is made here is kept apart, and goes with it */
    struct beside beside = {.plan = plan, .book = book, .stream = given->stream_count};
    struct aorta_stream *stream = NULL;
    if (given->stream_count == AORTA_HWQ_MAX_STREAMS) return NULL;
    hwq.kept = NULL;
    aorta_status status = aorta_stream_create(hwq.device, "beside", AORTA_PRIORITY_NORMAL, &stream);
    hwq.streams[beside.stream] = stream;
    if (!status) status = aorta_hwq_kept_create(&hwq);
    if (!status) status = run(&hwq, &beside);
    given->gates = hwq.gates;
    aorta_hwq_kept_destroy(&hwq);
    aorta_stream_destroy(stream);
    return aorta_annotate(status, "what stamps cannot see");
}
