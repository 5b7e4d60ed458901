/* A device and a stream for the tests of operations, tensors brought there and back, and plain reference code. Values
 * travel as doubles that are exactly representable in the tensor's type. */
#ifndef AORTA_TESTS_OPS_RIG_H
#define AORTA_TESTS_OPS_RIG_H

#include "check.h"
#include "ops/ops.h"

struct rig {
    struct aorta_device *device;
    struct aorta_stream *stream;
    void *device_memory[256], *host_memory[256];
    int device_count, host_count;
    uint64_t random;
};

/* cmocka's setup and teardown: *state is the rig. AORTA_TEST_DEVICE (cpu, cuda, hip) chooses the device. */
int rig_open(void **state);
int rig_close(void **state);
void rig_reset(void **state); /* a new rig, between the cases of one test */
#define rig_test(function) cmocka_unit_test_setup_teardown(function, rig_open, rig_close)
/* Runs all tests of a program on one device; those with a rig are skipped when there is no such device. */
int rig_run(const char *name, const struct CMUnitTest *tests, size_t count);
#define rig_run_tests(name, tests) rig_run(name, tests, sizeof(tests) / sizeof *(tests))

extern const enum aorta_dtype rig_dtypes[3]; /* fp32, bf16, fp16 */
double rig_unit(enum aorta_dtype dtype);     /* relative rounding error of the type: 2^-24, 2^-8, 2^-11 */

double *rig_values(struct rig *rig, int64_t count); /* zeroed, freed with the rig */
/* Uniform in [-scale, scale], rounded to the type. */
double *rig_random(struct rig *rig, enum aorta_dtype dtype, int64_t count, double scale);
double rig_round(double value, enum aorta_dtype dtype);

void *rig_alloc(struct rig *rig, size_t bytes); /* device memory filled with 0xFF bytes: NaN in every type */
void *rig_put(struct rig *rig, enum aorta_dtype dtype, const double *values, int64_t count);
void *rig_put_bytes(struct rig *rig, const void *data, size_t bytes);
double *rig_get(struct rig *rig, enum aorta_dtype dtype, const void *device, int64_t count);
void rig_get_bytes(struct rig *rig, void *to, const void *device, size_t bytes);
struct aorta_step_state *rig_step_state(struct rig *rig, struct aorta_step_state state);

/* |got − expected| ≤ relative·|expected| + absolute for all, or the test fails and names the first. */
void rig_close_to(const char *what, const double *got, const double *expected, int64_t count, double relative,
                  double absolute);

/* The derivative of a loss by central differences, for up to 48 of the values, against `gradient`. */
void rig_gradient(const char *what, double (*loss)(void *context), void *context, double *values, int64_t count,
                  const double *gradient, double relative, double absolute);

/* The dropout factor of element `index`, from the definition in ops/cpu/cpu.h. */
double rig_dropout(double probability, const struct aorta_rng *rng, int64_t step, int64_t index);

/* Checks that sums, fp32 on the device, are `start` (NULL: nothing) + Σ_rows values [rows, width], to the precision of
 * `dtype`: the values were rounded before or after they were summed. */
void rig_sums_of_rows(struct rig *rig, const char *name, enum aorta_dtype dtype, const double *values, int64_t rows,
                      int64_t width, const double *start, const float *sums);

#endif
