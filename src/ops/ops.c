#include "base/clock.h"
#include "ops/cpu/cpu.h"
#include "ops/gpu/gpu.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

aorta_status aorta_check_dtype(const char *operation, enum aorta_dtype dtype) {
    if (dtype == AORTA_F32 || dtype == AORTA_F16 || dtype == AORTA_BF16) return NULL;
    if ((int)dtype < 0 || dtype >= AORTA_DTYPE_COUNT)
        return AORTA_ERROR(AORTA_INTERNAL, "%s: %d is no element type", operation, (int)dtype);
    return AORTA_ERROR(AORTA_INTERNAL, "%s: element type %s; only fp32, bf16 and fp16 are computed with", operation,
                       aorta_dtype_name(dtype));
}

aorta_status aorta_check_dropout(const char *operation, float dropout) {
    if (dropout >= 0.0f && dropout <= 1.0f) return NULL;
    return AORTA_ERROR(AORTA_INTERNAL, "%s: dropout %g is not in [0, 1]", operation, (double)dropout);
}

aorta_status aorta_check_size(const char *operation, const char *name, int64_t value, int64_t least) {
    if (value >= least) return NULL;
    return AORTA_ERROR(AORTA_INTERNAL, "%s: %s is %lld, must be at least %lld", operation, name, (long long)value,
                       (long long)least);
}

aorta_status aorta_check_sizes(const char *operation, const struct aorta_named_size *sizes) {
    for (; sizes->name; sizes++) AORTA_TRY(aorta_check_size(operation, sizes->name, sizes->value, sizes->least));
    return NULL;
}

/* Names the pointer at `place`: "x" of "a->x". */
static aorta_status is_null(const char *operation, const char *names, size_t place) {
    for (; place > 0; place--) names += strcspn(names, ",") + strlen(", ");
    const size_t length = strcspn(names, ",");
    const char *arrow = memrchr(names, '>', length), *name = arrow ? arrow + 1 : names;
    return AORTA_ERROR(AORTA_INTERNAL, "%s: %.*s is NULL", operation, (int)(names + length - name), name);
}

aorta_status aorta_check_pointers(const char *operation, struct aorta_pointers pointers) {
    for (size_t i = 0; i < pointers.count; i++)
        if (!pointers.items[i]) return is_null(operation, pointers.names, i);
    return NULL;
}

aorta_status aorta_ops_launch(struct aorta_stream *stream, const struct aorta_kernel *kernel, int64_t count,
                              const void *args, size_t bytes, struct aorta_pointers pointers) {
    if (count == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(kernel->name, pointers));
    return aorta_launch(stream, kernel, args, bytes);
}

/* ---- instruction sets ---- */

extern const struct aorta_cpu_ops aorta_cpu_ops_generic;

#ifdef AORTA_X86_LEVELS
extern const struct aorta_cpu_ops aorta_cpu_ops_v3, aorta_cpu_ops_v4;

/* x86-64 System V psABI, "micro-architecture levels". v3 contains F16C, which compilers of 2022 cannot ask for by name;
 * no processor has AVX2 without it. */
static bool has_v3(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}

static bool has_v4(void) {
    return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

const struct aorta_cpu_ops *const *aorta_cpu_ops_list(int *count) {
    static const struct aorta_cpu_ops *const all[] = {&aorta_cpu_ops_v4, &aorta_cpu_ops_v3, &aorta_cpu_ops_generic};
    int first = has_v4() ? 0 : has_v3() ? 1 : 2;
    *count = 3 - first;
    return all + first;
}
#else
const struct aorta_cpu_ops *const *aorta_cpu_ops_list(int *count) {
    static const struct aorta_cpu_ops *const all[] = {&aorta_cpu_ops_generic};
    *count = 1;
    return all;
}
#endif

const struct aorta_cpu_ops *aorta_cpu_ops(void) {
    int count;
    return aorta_cpu_ops_list(&count)[0];
}

#define LOOP(name)                                                                                                     \
    aorta_status aorta_cpu_##name(const void *args) {                                                                  \
        return aorta_cpu_ops()->name(args);                                                                            \
    }
#include "ops/kernels.def"

/* ---- keys of dropout masks ---- */

static void make_key(const struct aorta_rng *rng, uint32_t key[2]) {
    struct aorta_philox words = aorta_philox4x32_10((struct aorta_philox){{rng->site, rng->rank, rng->micro, 0}},
                                                    (uint32_t)rng->seed, (uint32_t)(rng->seed >> 32));
    key[0] = words.word[0];
    key[1] = words.word[1];
}

struct aorta_dropout aorta_dropout_begin(float probability, const struct aorta_rng *rng) {
    struct aorta_dropout dropout = {.threshold = (int32_t)(probability * 65536.0f + 0.5f), .scale = 1.0f};
    if (dropout.threshold == 0) return dropout;
    make_key(rng, dropout.key);
    dropout.step = rng->state ? (uint64_t)rng->state->step : 0;
    dropout.scale = dropout.threshold < 65536 ? 65536.0f / (float)(65536 - dropout.threshold) : 0.0f;
    return dropout;
}

struct aorta_rng aorta_ops_gpu_key(struct aorta_rng rng) {
    uint32_t key[2];
    make_key(&rng, key);
    rng.seed = key[0] | (uint64_t)key[1] << 32;
    return rng;
}

/* ---- flags ---- */

static const double most_s = 1e9; /* so that a kernel's count does not overflow */

static aorta_status raise(const void *args) {
    const struct aorta_flag_args *a = args;
    atomic_store_explicit((_Atomic int32_t *)a->flag, 1, memory_order_release);
    return NULL;
}

static aorta_status await(const void *args) {
    const struct aorta_flag_args *a = args;
    const int64_t start_ns = aorta_clock_ns();
    while (atomic_exchange_explicit((_Atomic int32_t *)a->flag, 0, memory_order_acquire) == 0) {
        if ((double)(aorta_clock_ns() - start_ns) * 1e-9 > a->limit_s)
            return AORTA_ERROR(AORTA_TIMEOUT, "the flag was not raised within %g s", a->limit_s);
        sched_yield();
    }
    return NULL;
}

static const struct aorta_gpu_grid one_thread = {.blocks = {1}};

AORTA_PLAIN_KERNEL(flag_raise, raise, aorta_flag_args, one_thread);
AORTA_PLAIN_KERNEL(flag_await, await, aorta_flag_args, one_thread);

aorta_status aorta_flag_raise(struct aorta_stream *stream, int32_t *flag) {
    AORTA_TRY(aorta_check_pointers(flag_raise_kernel.name, AORTA_POINTERS(flag)));
    const struct aorta_flag_args args = {.flag = flag};
    return aorta_launch(stream, &flag_raise_kernel, &args, sizeof args);
}

aorta_status aorta_flag_await(struct aorta_stream *stream, int32_t *flag, double limit_s) {
    AORTA_TRY(aorta_check_pointers(flag_await_kernel.name, AORTA_POINTERS(flag)));
    const struct aorta_flag_args args = {.flag = flag, .limit_s = fmin(limit_s, most_s)};
    return aorta_launch(stream, &flag_await_kernel, &args, sizeof args);
}

/* ---- time ---- */

static void sleep_until(int64_t time_ns) {
    const struct timespec until = {.tv_sec = time_ns / 1000000000, .tv_nsec = time_ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) continue;
}

static aorta_status spin(const void *args) {
    const struct aorta_spin_args *a = args;
    const int64_t start_ns = aorta_clock_ns();
    if (a->duration_ns > 0) sleep_until(start_ns + a->duration_ns);
    if (!a->stamps) return NULL;
    a->stamps[0] = start_ns;
    a->stamps[1] = aorta_clock_ns();
    return NULL;
}

static aorta_status spin_gpu(struct aorta_stream *stream, const void *args) {
    struct aorta_spin_args spin = *(const struct aorta_spin_args *)args;
    spin.clock = aorta_gpu_clock_page(aorta_stream_device(stream));
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_spin, one_thread, &spin, sizeof spin);
}

static const struct aorta_kernel spin_kernel = {"spin", spin, spin_gpu};

aorta_status aorta_spin(struct aorta_stream *stream, int64_t duration_ns, int64_t *stamps) {
    AORTA_TRY(aorta_check_size(spin_kernel.name, "duration_ns", duration_ns, 0));
    const struct aorta_spin_args args = {.duration_ns = duration_ns, .stamps = stamps};
    return aorta_launch(stream, &spin_kernel, &args, sizeof args);
}
