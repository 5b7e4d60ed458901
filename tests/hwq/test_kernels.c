/* The kernels of this module compile with NVRTC without a warning, where NVRTC is installed. Needs no GPU. */
#include "hwq/kernels/kernels.h"
#include "nvrtc.h"

static void test_kernels_compile(void **state) {
    static const char *const architectures[] = {"sm_80", "sm_90"};
    struct nvrtc nvrtc;
    (void)state;
    nvrtc_open(&nvrtc);
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++) {
        void *program = nvrtc_compile(&nvrtc, &aorta_source_hwq_kernels, architectures[i]);
        assert_int_equal(nvrtc.destroy(&program), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kernels_compile)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
