/* The kernels of this module compile with NVRTC without a warning, where NVRTC is installed. Needs no GPU. */
#include "check.h"
#include "hwq/kernels/kernels.h"

#include <stdlib.h>

struct nvrtc {
    int (*create)(void **, const char *, const char *, int, const char *const *, const char *const *);
    int (*compile)(void *, int, const char *const *);
    int (*destroy)(void **);
    int (*log_bytes)(void *, size_t *);
    int (*log)(void *, char *);
};
static const struct aorta_symbol symbols[] = {{"nvrtcCreateProgram", offsetof(struct nvrtc, create), true},
                                              {"nvrtcCompileProgram", offsetof(struct nvrtc, compile), true},
                                              {"nvrtcDestroyProgram", offsetof(struct nvrtc, destroy), true},
                                              {"nvrtcGetProgramLogSize", offsetof(struct nvrtc, log_bytes), true},
                                              {"nvrtcGetProgramLog", offsetof(struct nvrtc, log), true}};
static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL};
static const struct aorta_library_description description = {
    "runtime compiler", names, symbols, sizeof symbols / sizeof *symbols, "it is part of the CUDA toolkit"};

static void compile(const struct nvrtc *nvrtc, const struct aorta_gpu_source *source, const char *architecture) {
    const char *const options[] = {architecture, "--std=c++17"};
    void *program;
    size_t bytes;
    assert_int_equal(nvrtc->create(&program, source->text, source->name, 0, NULL, NULL), 0);
    const int code = nvrtc->compile(program, 2, options);
    assert_int_equal(nvrtc->log_bytes(program, &bytes), 0);
    char *log = calloc(1, bytes + 1);
    assert_non_null(log);
    assert_int_equal(nvrtc->log(program, log), 0);
    if (code || log[0]) fail_msg("%s for %s: %s", source->name, architecture, log);
    free(log);
    assert_int_equal(nvrtc->destroy(&program), 0);
}

static void test_kernels_compile(void **state) {
    struct nvrtc nvrtc;
    struct aorta_library library;
    (void)state;
    aorta_status status = aorta_library_open(&description, &nvrtc, &library);
    if (status) {
        print_message("%s\n", aorta_status_message(status));
        aorta_status_free(status);
        skip();
    }
    compile(&nvrtc, &aorta_source_hwq_kernels, "--gpu-architecture=sm_80");
    compile(&nvrtc, &aorta_source_hwq_kernels, "--gpu-architecture=sm_90");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kernels_compile)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
