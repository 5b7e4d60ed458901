/* libaorta's ranges by events of a GPU, against what a program is made to do: a copy to the device on one stream beside
 * fills on another, and then behind them.
 *
 *     beside     fills |=================|          behind     fills |=======|
 *                copy  |------------|                          copy          |------------|
 *                hidden: all                                   hidden: nothing
 *
 * On a machine with CUDA: cc ranges.c $(pkg-config --cflags --libs aorta) -I$CUDA/include -L$CUDA/lib64 -lcudart */
#include <aorta/ranges.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

enum { FILL_MIB = 4096, COPY_MIB = 512, FILLS = 60 };

static void check(int error, const char *what) {
    if (!error) return;
    fprintf(stderr, "%s: error %d\n", what, error);
    exit(2);
}

struct work {
    cudaStream_t fills, copies;
    cudaEvent_t filled;
    void *filled_memory, *target, *source;
    int fill_count;
};

static void fill(struct libaorta_ranges *ranges, const struct work *work) {
    const int range = libaorta_range_begin(ranges, LIBAORTA_COMPUTE, work->fills);
    for (int i = 0; i < work->fill_count; i++)
        check(cudaMemsetAsync(work->filled_memory, i, (size_t)FILL_MIB << 20, work->fills), "cudaMemsetAsync");
    check(libaorta_range_end(ranges, range, work->fills), "libaorta_range_end");
    check(cudaEventRecord(work->filled, work->fills), "cudaEventRecord");
}

static void copy(struct libaorta_ranges *ranges, const struct work *work) {
    const int range = libaorta_range_begin(ranges, LIBAORTA_COMMUNICATION, work->copies);
    check(cudaMemcpyAsync(work->target, work->source, (size_t)COPY_MIB << 20, cudaMemcpyHostToDevice, work->copies),
          "cudaMemcpyAsync");
    check(libaorta_range_end(ranges, range, work->copies), "libaorta_range_end");
}

static double measure(struct libaorta_ranges *ranges, const struct work *work, int behind) {
    struct libaorta_overlap overlap;
    char message[256] = "";
    fill(ranges, work);
    if (behind) check(cudaStreamWaitEvent(work->copies, work->filled, 0), "cudaStreamWaitEvent");
    copy(ranges, work);
    if (libaorta_ranges_overlap(ranges, &overlap, message, sizeof message)) {
        fprintf(stderr, "libaorta_ranges_overlap: %s\n", message);
        exit(2);
    }
    printf("%s: span %.3f ms, compute %.3f, communication %.3f, %.1f%% of it hidden\n", behind ? "behind" : "beside",
           (double)overlap.span_ns * 1e-6, (double)overlap.compute_ns * 1e-6, (double)overlap.comm_ns * 1e-6,
           100 * overlap.overlap_ratio);
    return overlap.overlap_ratio;
}

int main(void) {
    struct work work = {.fill_count = FILLS};
    struct libaorta_ranges *ranges;
    char message[256] = "";
    check(cudaSetDevice(0), "cudaSetDevice");
    check(cudaStreamCreateWithFlags(&work.fills, cudaStreamNonBlocking), "stream");
    check(cudaStreamCreateWithFlags(&work.copies, cudaStreamNonBlocking), "stream");
    check(cudaEventCreate(&work.filled), "event");
    check(cudaMalloc(&work.filled_memory, (size_t)FILL_MIB << 20), "memory");
    check(cudaMalloc(&work.target, (size_t)COPY_MIB << 20), "memory");
    check(cudaMallocHost(&work.source, (size_t)COPY_MIB << 20), "host memory");
    if (libaorta_ranges_create(LIBAORTA_CUDA, &ranges, message, sizeof message)) {
        fprintf(stderr, "libaorta_ranges_create: %s\n", message);
        return 2;
    }
    measure(ranges, &work, 0); /* the first of each takes longer */
    const double beside = measure(ranges, &work, 0), behind = measure(ranges, &work, 1);
    libaorta_ranges_free(ranges);
    if (beside > 0.97 && behind < 0.03) return 0;
    fprintf(stderr, "ranges: %.3f and %.3f hidden instead of 1 and 0\n", beside, behind);
    return 1;
}
