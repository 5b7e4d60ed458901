/* The ranks of a conformance run: a device, the group of all ranks, and buffers whose contents identify their rank. */
#ifndef AORTA_TESTS_COMM_SUITE_H
#define AORTA_TESTS_COMM_SUITE_H

#include "check.h"

#include "comm/comm.h"

#define SUITE_BUFFERS 16

/* Tests read and write a copy on the host; on the CPU device it is the memory itself. */
struct suite_memory {
    void *device;
    char *host;
    size_t bytes;
};

struct fake_nccl_control;

struct suite {
    struct aorta_device *device;
    struct aorta_comm *world;
    struct aorta_stream *stream, *other;
    int rank, size;
    double timeout_s;
    struct suite_memory memory[SUITE_BUFFERS];
};

/* cmocka's group fixtures. The device is that of AORTA_TEST_DEVICE (cpu, cuda or hip; cpu if unset) with the number of
 * the local rank or AORTA_TEST_DEVICE_INDEX, the backend that of AORTA_TEST_BACKEND ("auto"). Where there is no such
 * device the program says so and ends well. The teardown leaves MPI. */
int suite_setup(void **state);
int suite_teardown(void **state);
void suite_open_device(struct suite *suite); /* the first step of suite_setup */
bool suite_on_gpu(const struct suite *suite);
const struct fake_nccl_control *suite_fake_nccl(void); /* NULL: a real one, or none */
/* As suite_setup opened its own; for tests that want another group of all ranks. */
struct aorta_comm_options suite_options(const struct suite *suite);

/* aorta_collective on one piece, on several pieces, and on parts of unequal size. */
aorta_status suite_reduce_scatter(struct aorta_comm *comm, struct aorta_stream *stream, const void *send, void *receive,
                                  size_t count, enum aorta_dtype dtype, enum aorta_reduction reduction);
aorta_status suite_all_gather(struct aorta_comm *comm, struct aorta_stream *stream, const void *send, void *receive,
                              size_t count, enum aorta_dtype dtype);
aorta_status suite_all_to_all(struct aorta_comm *comm, struct aorta_stream *stream, const void *send, void *receive,
                              size_t count, enum aorta_dtype dtype);
aorta_status suite_all_gather_pieces(struct aorta_comm *comm, struct aorta_stream *stream,
                                     const struct aorta_comm_piece *pieces, int piece_count, enum aorta_dtype dtype);
aorta_status suite_reduce_scatter_pieces(struct aorta_comm *comm, struct aorta_stream *stream,
                                         const struct aorta_comm_piece *pieces, int piece_count, enum aorta_dtype dtype,
                                         enum aorta_reduction reduction);
aorta_status suite_all_to_all_parts(struct aorta_comm *comm, struct aorta_stream *stream, const void *send,
                                    const size_t *send_counts, void *receive, const size_t *receive_counts,
                                    enum aorta_dtype dtype);

/* Element `index` of what `rank` contributes: small multiples of 1/4, whose sums over a few ranks are exact in every
 * floating type. Integers get four times that. */
double suite_value(int rank, size_t index, enum aorta_dtype dtype);

/* Device memory with `count` elements and one more, all set to a value that no collective should leave there. Pointers
 * into it may be passed below. */
void *suite_buffer(struct suite *suite, size_t count, enum aorta_dtype dtype);
/* suite_buffer from aorta_comm_alloc. */
void *suite_shared_buffer(struct suite *suite, struct aorta_comm *const *comms, int comm_count, size_t count,
                          enum aorta_dtype dtype);
void suite_free(struct suite *suite, void *buffer);
/* On the host's copy; suite_push brings it to the device. */
void suite_write(struct suite *suite, void *buffer, size_t index, enum aorta_dtype dtype, double value);
void *suite_host(struct suite *suite, const void *buffer);
void suite_push(struct suite *suite, void *buffer);
/* buffer[at + i] = suite_value(rank, i) for i in [0, count), on the device too. */
void suite_fill(struct suite *suite, void *buffer, size_t at, size_t count, enum aorta_dtype dtype, int rank);
/* Waits for the stream and brings all buffers to the host. */
void suite_finish(struct suite *suite, struct aorta_stream *stream);

/* Fails with the place and both values unless buffer[index] is `expected`. */
void suite_expect(struct suite *suite, const void *buffer, size_t index, enum aorta_dtype dtype, double expected,
                  const char *what);

/* The reduction of suite_value(rank, index) over the ranks of a group. */
double suite_reduced(const int *ranks, int count, size_t index, enum aorta_dtype dtype, enum aorta_reduction reduction);

#endif
