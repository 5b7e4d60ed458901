/* Which instruction set's loops run. */
#include "ops/cpu/cpu.h"

#include <stddef.h>

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
