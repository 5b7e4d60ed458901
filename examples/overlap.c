/* The share of one's own communication that is hidden by one's own compute. Here two threads replace two streams; on a
 * GPU it is LIBAORTA_CUDA or LIBAORTA_HIP, and the streams of the work.
 *
 *     compute        |---- 60 ms ----|
 *     communication          |---- 60 ms ----|       30 ms of it hidden
 *
 *     cc overlap.c $(pkg-config --cflags --libs aorta) -pthread -o overlap && ./overlap */
#include <aorta/ranges.h>

#include <pthread.h>
#include <stdio.h>
#include <time.h>

static void work(int ms) {
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

static void *communicate(void *user) {
    struct libaorta_ranges *ranges = user;
    work(30);
    int range = libaorta_range_begin(ranges, LIBAORTA_COMMUNICATION, NULL);
    work(60);
    libaorta_range_end(ranges, range, NULL);
    return NULL;
}

int main(void) {
    struct libaorta_ranges *ranges;
    struct libaorta_overlap overlap;
    pthread_t thread;
    char message[256];
    if (libaorta_ranges_create(LIBAORTA_HOST, &ranges, message, sizeof message)) {
        fprintf(stderr, "%s\n", message);
        return 1;
    }
    pthread_create(&thread, NULL, communicate, ranges);
    int range = libaorta_range_begin(ranges, LIBAORTA_COMPUTE, NULL);
    work(60);
    libaorta_range_end(ranges, range, NULL);
    pthread_join(thread, NULL);
    if (libaorta_ranges_overlap(ranges, &overlap, message, sizeof message)) {
        fprintf(stderr, "%s\n", message);
        return 1;
    }
    printf("%.1f of %.1f ms of communication hidden (%.0f%%), %.1f ms exposed\n", (double)overlap.overlap_ns * 1e-6,
           (double)overlap.comm_ns * 1e-6, 100 * overlap.overlap_ratio, (double)overlap.exposed_comm_ns * 1e-6);
    libaorta_ranges_free(ranges);
    return 0;
}
