/* NVRTC, for tests that compile kernels where it is installed. Needs no GPU. */
#ifndef AORTA_TESTS_NVRTC_H
#define AORTA_TESTS_NVRTC_H

#include "check.h"
#include "device/gpu.h"

#include <stdlib.h>

struct nvrtc {
    int (*create)(void **program, const char *text, const char *name, int count, const char *const *headers,
                  const char *const *names);
    int (*compile)(void *program, int count, const char *const *options);
    int (*destroy)(void **program);
    int (*log_bytes)(void *program, size_t *bytes);
    int (*log)(void *program, char *log);
    int (*code_bytes)(void *program, size_t *bytes);
    int (*code)(void *program, char *code);
};

/* Skips the test where there is none. */
static inline void nvrtc_open(struct nvrtc *nvrtc) {
    static const struct aorta_symbol symbols[] = {{"nvrtcCreateProgram", offsetof(struct nvrtc, create), true},
                                                  {"nvrtcCompileProgram", offsetof(struct nvrtc, compile), true},
                                                  {"nvrtcDestroyProgram", offsetof(struct nvrtc, destroy), true},
                                                  {"nvrtcGetProgramLogSize", offsetof(struct nvrtc, log_bytes), true},
                                                  {"nvrtcGetProgramLog", offsetof(struct nvrtc, log), true},
                                                  {"nvrtcGetCUBINSize", offsetof(struct nvrtc, code_bytes), true},
                                                  {"nvrtcGetCUBIN", offsetof(struct nvrtc, code), true}};
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL};
    static const struct aorta_library_description description = {
        "runtime compiler", names, symbols, sizeof symbols / sizeof *symbols, "it is part of the CUDA toolkit"};
    struct aorta_library library;
    aorta_status status = aorta_library_open(&description, nvrtc, &library);
    if (!status) return;
    print_message("%s\n", aorta_status_message(status));
    aorta_status_free(status);
    skip();
}

/* Compiles without a warning, for "sm_90" and the like. Without much optimizing, which is nine
 * tenths of the time and finds no mistakes; old libraries do not know how. The caller destroys the program. */
static inline void *nvrtc_compile(const struct nvrtc *nvrtc, const struct aorta_gpu_source *source,
                                  const char *architecture) {
    enum { INVALID_OPTION = 5 };
    char option[64];
    void *program;
    size_t bytes;
    snprintf(option, sizeof option, "--gpu-architecture=%s", architecture);
    const char *const options[] = {option, "--std=c++17", "--Ofast-compile=max"};
    assert_int_equal(nvrtc->create(&program, source->text, source->name, 0, NULL, NULL), 0);
    int code = nvrtc->compile(program, 3, options);
    if (code == INVALID_OPTION) {
        assert_int_equal(nvrtc->destroy(&program), 0);
        assert_int_equal(nvrtc->create(&program, source->text, source->name, 0, NULL, NULL), 0);
        code = nvrtc->compile(program, 2, options);
    }
    assert_int_equal(nvrtc->log_bytes(program, &bytes), 0);
    char *log = calloc(1, bytes + 1);
    assert_non_null(log);
    assert_int_equal(nvrtc->log(program, log), 0);
    if (code || log[0]) fail_msg("%s for %s: %s", source->name, architecture, log);
    free(log);
    return program;
}

#endif
