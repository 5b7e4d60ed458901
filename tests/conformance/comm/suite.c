#include "suite.h"

#include "device/gpu.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>

/* ---- formats, written naively and apart from the code under test ---- */

/* `bits` of mantissa after the leading one, lowest normal exponent `low`: rounds to nearest, ties to even. */
static double round_to(double value, int bits, int low) {
    if (value == 0 || !isfinite(value)) return value;
    int exponent = ilogb(value);
    if (exponent < low) exponent = low;
    double unit = ldexp(1, exponent - bits);
    return nearbyint(value / unit) * unit;
}

static uint16_t encode_bf16(double value) {
    float rounded = (float)round_to(value, 7, -126);
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static double decode_bf16(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static double decode_f16(uint16_t half) {
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double sign = half & 0x8000 ? -1 : 1;
    if (exponent == 31) return fraction ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * ldexp(fraction, -24);
    return sign * ldexp(1024 + fraction, exponent - 25);
}

static uint16_t encode_f16(double value) {
    if (isnan(value)) return 0x7e00;
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double rounded = fabs(round_to(value, 10, -14));
    if (rounded >= 65536) return sign | 0x7c00;
    if (rounded < ldexp(1, -14)) return sign | (uint16_t)ldexp(rounded, 24);
    int exponent = ilogb(rounded);
    return sign | (uint16_t)(((exponent + 15) << 10) + (int)ldexp(rounded, 10 - exponent) - 1024);
}

static void write_element(void *buffer, size_t index, enum aorta_dtype dtype, double value) {
    if (dtype == AORTA_F32)
        ((float *)buffer)[index] = (float)value;
    else if (dtype == AORTA_F16)
        ((uint16_t *)buffer)[index] = encode_f16(value);
    else if (dtype == AORTA_BF16)
        ((uint16_t *)buffer)[index] = encode_bf16(value);
    else if (dtype == AORTA_I64)
        ((int64_t *)buffer)[index] = (int64_t)value;
    else if (dtype == AORTA_I32)
        ((int32_t *)buffer)[index] = (int32_t)value;
    else
        ((uint8_t *)buffer)[index] = (uint8_t)value;
}

static double read_element(const void *buffer, size_t index, enum aorta_dtype dtype) {
    if (dtype == AORTA_F32) return (double)((const float *)buffer)[index];
    if (dtype == AORTA_F16) return decode_f16(((const uint16_t *)buffer)[index]);
    if (dtype == AORTA_BF16) return decode_bf16(((const uint16_t *)buffer)[index]);
    if (dtype == AORTA_I64) return (double)((const int64_t *)buffer)[index];
    if (dtype == AORTA_I32) return ((const int32_t *)buffer)[index];
    return ((const uint8_t *)buffer)[index];
}

/* ---- contents ---- */

double suite_value(int rank, size_t index, enum aorta_dtype dtype) {
    int base = (int)((index * 7 + (size_t)rank * 13) % 61) - 30;
    if (dtype == AORTA_U8) return base + 30;
    return dtype == AORTA_I32 || dtype == AORTA_I64 ? base : base / 4.0;
}

/* ---- buffers ---- */

static struct suite_memory *memory_of(struct suite *suite, const void *buffer) {
    for (int i = 0; i < SUITE_BUFFERS; i++) {
        struct suite_memory *memory = &suite->memory[i];
        const char *begin = memory->device, *at = buffer;
        if (begin && at >= begin && at < begin + memory->bytes) return memory;
    }
    fail_msg("no test buffer is at this address");
    return NULL;
}

void *suite_host(struct suite *suite, const void *buffer) {
    const struct suite_memory *memory = memory_of(suite, buffer);
    return memory->host + ((const char *)buffer - (const char *)memory->device);
}

void suite_push(struct suite *suite, void *buffer) {
    const struct suite_memory *memory = memory_of(suite, buffer);
    if (!suite_on_gpu(suite)) return;
    check_ok(aorta_copy(suite->stream, memory->device, memory->host, memory->bytes));
    check_ok(aorta_stream_synchronize(suite->stream));
}

void suite_finish(struct suite *suite, struct aorta_stream *stream) {
    check_ok(aorta_stream_synchronize(stream));
    if (!suite_on_gpu(suite)) return;
    for (int i = 0; i < SUITE_BUFFERS; i++) {
        const struct suite_memory *memory = &suite->memory[i];
        if (memory->device) check_ok(aorta_copy(stream, memory->host, memory->device, memory->bytes));
    }
    check_ok(aorta_stream_synchronize(stream));
}

const struct fake_nccl_control *suite_fake_nccl(void) {
    void *library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD);
    const struct fake_nccl_control *control = library ? dlsym(library, "fake_nccl_control") : NULL;
    if (library) dlclose(library);
    return control;
}

static void *add_buffer(struct suite *suite, void *device, size_t count, enum aorta_dtype dtype) {
    int free_place = 0;
    while (free_place < SUITE_BUFFERS && suite->memory[free_place].device) free_place++;
    assert_true(free_place < SUITE_BUFFERS);
    struct suite_memory *memory = &suite->memory[free_place];
    memory->bytes = (count + 1) * aorta_dtype_size(dtype);
    memory->device = device;
    memory->host = suite_on_gpu(suite) ? malloc(memory->bytes) : memory->device;
    assert_non_null(memory->host);
    for (size_t i = 0; i < count + 1; i++) write_element(memory->host, i, dtype, 111);
    suite_push(suite, memory->device);
    return memory->device;
}

void *suite_buffer(struct suite *suite, size_t count, enum aorta_dtype dtype) {
    void *memory;
    check_ok(aorta_device_alloc(suite->device, (count + 1) * aorta_dtype_size(dtype), "test buffer", &memory));
    return add_buffer(suite, memory, count, dtype);
}

void *suite_shared_buffer(struct suite *suite, struct aorta_comm *const *comms, int comm_count, size_t count,
                          enum aorta_dtype dtype) {
    void *memory;
    check_ok(aorta_comm_alloc(comms, comm_count, (count + 1) * aorta_dtype_size(dtype), "test buffer", &memory));
    return add_buffer(suite, memory, count, dtype);
}

void suite_free(struct suite *suite, void *buffer) {
    if (!buffer) return;
    struct suite_memory *memory = memory_of(suite, buffer);
    if (memory->host != memory->device) free(memory->host);
    aorta_device_free(suite->device, memory->device);
    *memory = (struct suite_memory){0};
}

void suite_write(struct suite *suite, void *buffer, size_t index, enum aorta_dtype dtype, double value) {
    write_element(suite_host(suite, buffer), index, dtype, value);
}

void suite_fill(struct suite *suite, void *buffer, size_t at, size_t count, enum aorta_dtype dtype, int rank) {
    char *host = suite_host(suite, buffer);
    for (size_t i = 0; i < count; i++) write_element(host, at + i, dtype, suite_value(rank, i, dtype));
    suite_push(suite, buffer);
}

void suite_expect(struct suite *suite, const void *buffer, size_t index, enum aorta_dtype dtype, double expected,
                  const char *what) {
    double value = read_element(suite_host(suite, buffer), index, dtype);
    if (value == expected || (isnan(value) && isnan(expected))) return;
    fail_msg("%s: %s element %zu is %.9g, expected %.9g", what, aorta_dtype_name(dtype), index, value, expected);
}

double suite_reduced(const int *ranks, int count, size_t index, enum aorta_dtype dtype,
                     enum aorta_reduction reduction) {
    double result = suite_value(ranks[0], index, dtype);
    for (int i = 1; i < count; i++) {
        double value = suite_value(ranks[i], index, dtype);
        result = reduction == AORTA_SUM ? result + value : fmax(result, value);
    }
    return result;
}

/* ---- fixtures ---- */

bool suite_on_gpu(const struct suite *suite) {
    return aorta_device_is_gpu(suite->device);
}

struct aorta_comm_options suite_options(const struct suite *suite) {
    const char *backend = getenv("AORTA_TEST_BACKEND");
    struct aorta_comm_options options = {
        .device = suite->device, .backend = backend ? backend : "auto", .timeout_s = suite->timeout_s};
    check_ok(aorta_ranks_detect(&options.ranks));
    return options;
}

static enum aorta_device_kind wanted_kind(void) {
    const char *wanted = getenv("AORTA_TEST_DEVICE");
    const enum aorta_device_kind kinds[] = {AORTA_DEVICE_CPU, AORTA_DEVICE_CUDA, AORTA_DEVICE_HIP};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(wanted ? wanted : "cpu", aorta_device_kind_name(kinds[i]))) return kinds[i];
    print_error("AORTA_TEST_DEVICE is %s; cpu, cuda and hip are known\n", wanted);
    exit(2);
}

void suite_open_device(struct suite *suite) {
    struct aorta_ranks ranks;
    check_ok(aorta_ranks_detect(&ranks));
    enum aorta_device_kind kind = wanted_kind();
    const char *chosen = getenv("AORTA_TEST_DEVICE_INDEX");
    int index = chosen ? atoi(chosen) : ranks.local_rank;
    aorta_status status = aorta_device_open(kind, kind == AORTA_DEVICE_CPU ? 0 : index, &suite->device);
    if (aorta_status_code(status) == AORTA_UNSUPPORTED && kind != AORTA_DEVICE_CPU) {
        print_message("[  SKIPPED ] all: %s\n", aorta_status_message(status));
        exit(0);
    }
    check_ok(status);
}

int suite_setup(void **state) {
    struct suite *suite = calloc(1, sizeof *suite);
    assert_non_null(suite);
    suite->timeout_s = 60;
    suite_open_device(suite);
    struct aorta_comm_options options = suite_options(suite);
    check_ok(aorta_comm_open(&options, &suite->world));
    suite->rank = aorta_comm_rank(suite->world);
    suite->size = aorta_comm_size(suite->world);
    check_ok(aorta_stream_create(suite->device, "first", AORTA_PRIORITY_NORMAL, &suite->stream));
    check_ok(aorta_stream_create(suite->device, "second", AORTA_PRIORITY_HIGH, &suite->other));
    *state = suite;
    return 0;
}

int suite_teardown(void **state) {
    struct suite *suite = *state;
    aorta_stream_destroy(suite->stream);
    aorta_stream_destroy(suite->other);
    aorta_comm_close(suite->world);
    struct aorta_memory_info memory = aorta_device_memory(suite->device);
    aorta_device_close(suite->device);
    const struct aorta_ranks ranks = suite_options(suite).ranks;
    free(suite);
    check_ok(aorta_comm_shutdown(&ranks, 60));
    if (!memory.allocated && !memory.pinned) return 0;
    print_error("%llu bytes and %llu pinned bytes were not freed\n", (unsigned long long)memory.allocated,
                (unsigned long long)memory.pinned);
    return -1;
}

static aorta_status on_pieces(struct aorta_comm *comm, struct aorta_stream *stream,
                              const struct aorta_comm_piece *pieces, struct aorta_comm_call call) {
    for (int i = 0; i < call.piece_count && call.piece_count <= AORTA_COMM_MAX_PIECES; i++) call.pieces[i] = pieces[i];
    return aorta_collective(comm, stream, &call);
}

static aorta_status on_one(struct aorta_comm *comm, struct aorta_stream *stream, const void *send, void *receive,
                           size_t count, struct aorta_comm_call call) {
    call.piece_count = 1;
    call.pieces[0] = (struct aorta_comm_piece){send, receive, count};
    return aorta_collective(comm, stream, &call);
}

aorta_status suite_reduce_scatter(struct aorta_comm *comm, struct aorta_stream *stream, const void *send, void *receive,
                                  size_t count, enum aorta_dtype dtype, enum aorta_reduction reduction) {
    return on_one(comm, stream, send, receive, count,
                  (struct aorta_comm_call){.kind = AORTA_REDUCE_SCATTER, .dtype = dtype, .reduction = reduction});
}

aorta_status suite_all_gather(struct aorta_comm *comm, struct aorta_stream *stream, const void *send, void *receive,
                              size_t count, enum aorta_dtype dtype) {
    return on_one(comm, stream, send, receive, count,
                  (struct aorta_comm_call){.kind = AORTA_ALL_GATHER, .dtype = dtype});
}

aorta_status suite_all_to_all(struct aorta_comm *comm, struct aorta_stream *stream, const void *send, void *receive,
                              size_t count, enum aorta_dtype dtype) {
    return on_one(comm, stream, send, receive, count,
                  (struct aorta_comm_call){.kind = AORTA_ALL_TO_ALL, .dtype = dtype});
}

aorta_status suite_all_gather_pieces(struct aorta_comm *comm, struct aorta_stream *stream,
                                     const struct aorta_comm_piece *pieces, int piece_count, enum aorta_dtype dtype) {
    return on_pieces(comm, stream, pieces,
                     (struct aorta_comm_call){.kind = AORTA_ALL_GATHER, .dtype = dtype, .piece_count = piece_count});
}

aorta_status suite_reduce_scatter_pieces(struct aorta_comm *comm, struct aorta_stream *stream,
                                         const struct aorta_comm_piece *pieces, int piece_count, enum aorta_dtype dtype,
                                         enum aorta_reduction reduction) {
    return on_pieces(
        comm, stream, pieces,
        (struct aorta_comm_call){
            .kind = AORTA_REDUCE_SCATTER, .dtype = dtype, .reduction = reduction, .piece_count = piece_count});
}

aorta_status suite_all_to_all_parts(struct aorta_comm *comm, struct aorta_stream *stream, const void *send,
                                    const size_t *send_counts, void *receive, const size_t *receive_counts,
                                    enum aorta_dtype dtype) {
    const struct aorta_comm_call call = {.kind = AORTA_ALL_TO_ALL,
                                         .dtype = dtype,
                                         .send_counts = send_counts,
                                         .receive_counts = receive_counts,
                                         .piece_count = 1,
                                         .pieces = {{send, receive, 0}}};
    return aorta_collective(comm, stream, &call);
}
