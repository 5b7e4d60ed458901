/* The ranks of a conformance run: a device, the group of all ranks, and buffers whose contents can be told. */
#ifndef AORTA_TESTS_COMM_SUITE_H
#define AORTA_TESTS_COMM_SUITE_H

#include "check.h"

#include "comm/comm.h"

struct suite {
    struct aorta_device *device;
    struct aorta_comm *world;
    struct aorta_stream *stream, *other;
    int rank, size;
    double timeout_s;
};

/* cmocka's group fixtures. The teardown leaves MPI. */
int suite_setup(void **state);
int suite_teardown(void **state);

/* Element `index` of what `rank` contributes: small multiples of 1/4, whose sums over a few ranks are exact in every
 * floating type. Integers get four times that. */
double suite_value(int rank, size_t index, enum aorta_dtype dtype);

/* Device memory with `count` elements, all set to a value that no collective should leave there. */
void *suite_buffer(struct suite *suite, size_t count, enum aorta_dtype dtype);
void suite_free(struct suite *suite, void *buffer);
void suite_write(void *buffer, size_t index, enum aorta_dtype dtype, double value);
double suite_read(const void *buffer, size_t index, enum aorta_dtype dtype);
/* buffer[at + i] = suite_value(rank, i) for i in [0, count). */
void suite_fill(void *buffer, size_t at, size_t count, enum aorta_dtype dtype, int rank);

/* Fails with the place and both values unless buffer[index] is `expected`. */
void suite_expect(const void *buffer, size_t index, enum aorta_dtype dtype, double expected, const char *what);

/* The reduction of suite_value(rank, index) over the ranks of a group. */
double suite_reduced(const int *ranks, int count, size_t index, enum aorta_dtype dtype, enum aorta_reduction reduction);

#endif
