/* The driver's own kernels compile: with NVRTC for NVIDIA's, with clang for AMD's architectures, where these are
 * installed. No GPU is needed. */
#include "check.h"
#include "device/gpu/driver.h"

#include <stdlib.h>
#include <unistd.h>

static void compile(const struct gpu_compiler_api *api, const struct aorta_gpu_source *text, const char *architecture) {
    char option[64], log[4096];
    const char *options[] = {option, "--std=c++17"};
    void *program;
    size_t bytes;
    snprintf(option, sizeof option, "--gpu-architecture=%s", architecture);
    assert_int_equal(api->program_create(&program, text->text, text->name, 0, NULL, NULL), 0);
    if (api->program_compile(program, 2, options)) {
        assert_int_equal(api->log_bytes(program, &bytes), 0);
        if (bytes <= sizeof log && !api->log(program, log)) print_error("%s\n", log);
        fail();
    }
    assert_int_equal(api->code_bytes(program, &bytes), 0);
    char *code = malloc(bytes);
    assert_non_null(code);
    assert_int_equal(api->code(program, code), 0);
    assert_true(bytes > 500);
    free(code);
    assert_int_equal(api->program_destroy(&program), 0);
}

static void test_nvrtc_takes_them(void **state) {
    (void)state;
    static const char *const architectures[] = {"sm_80", "sm_90", "sm_90a"};
    struct gpu_compiler_api api;
    struct aorta_library library;
    aorta_status status = aorta_library_open(&aorta_gpu_cuda.compiler, &api, &library);
    if (status) {
        print_message("%s\n", aorta_status_message(status));
        aorta_status_free(status);
        skip();
    }
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++)
        compile(&api, aorta_gpu_stamp.source, architectures[i]);
}

static void check_clang(const struct aorta_gpu_source *text) {
    static const char *const architectures[] = {"gfx908", "gfx90a"};
    char path[] = "/tmp/aorta-kernels-XXXXXX.hip";
    int file = mkstemps(path, 4);
    assert_true(file >= 0);
    FILE *stream = fdopen(file, "w");
    /* The declarations that hipRTC has built in. */
    fputs("#define __global__ __attribute__((global))\n#define __device__ __attribute__((device))\n"
          "static __device__ void __threadfence() {}\nstatic __device__ void __threadfence_system() {}\n"
          "struct place { unsigned x; };\nextern __device__ place blockIdx, threadIdx;\n",
          stream);
    fputs(text->text, stream);
    fclose(stream);
    int result = 0;
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures && result == 0; i++) {
        char command[256];
        snprintf(command, sizeof command,
                 "clang -x hip --cuda-device-only -nogpuinc -nogpulib --offload-arch=%s -std=c++17 -emit-llvm -S "
                 "-o /dev/null %s",
                 architectures[i], path);
        result = system(command);
    }
    unlink(path);
    assert_int_equal(result, 0);
}

static void test_clang_takes_them(void **state) {
    (void)state;
    if (system("command -v clang >/dev/null") != 0) skip();
    check_clang(aorta_gpu_stamp.source);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvrtc_takes_them),
        cmocka_unit_test(test_clang_takes_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
