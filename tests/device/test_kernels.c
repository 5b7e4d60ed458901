/* The driver's own kernels compile: with NVRTC for NVIDIA's, with clang for AMD's architectures, where these are there.
 * No GPU is needed. */
#include "check.h"
#include "device/gpu/driver.h"

#include <stdlib.h>
#include <unistd.h>

enum { SOURCES = 2 };
static const struct aorta_gpu_source *source(int number) {
    return number ? aorta_gpu_room_stamps[0].source : aorta_gpu_stamp.source;
}

/* ---- registers of a kernel, as the code says them to the loader ---- */

/* What is needed of an ELF64 file and of CUDA's section .nv.info: attributes of four bytes (format, number, length of
 * what follows) and, in this format, so many bytes more; number 0x2f gives registers by the symbol's number. */
enum { ELF_SECTIONS = 40, ELF_SECTION_COUNT = 60, ELF_NAMES = 62, ELF_SECTION_BYTES = 64, ELF_SYMBOL_BYTES = 24 };
enum { INFO_WITH_BYTES = 4, INFO_REGISTERS = 0x2f };

static uint64_t number_at(const char *at, size_t bytes) {
    uint64_t value = 0;
    memcpy(&value, at, bytes);
    return value;
}

/* The section's first byte; NULL: there is none of this name. */
static const char *section(const char *code, const char *name, size_t *bytes) {
    const char *table = code + number_at(code + ELF_SECTIONS, 8);
    const char *names = table + number_at(code + ELF_NAMES, 2) * ELF_SECTION_BYTES;
    for (size_t i = 0; i < number_at(code + ELF_SECTION_COUNT, 2); i++) {
        const char *one = table + i * ELF_SECTION_BYTES;
        if (strcmp(code + number_at(names + 24, 8) + number_at(one, 4), name) != 0) continue;
        *bytes = number_at(one + 32, 8);
        return code + number_at(one + 24, 8);
    }
    return NULL;
}

static const char *symbol(const char *code, uint64_t number) {
    size_t bytes;
    const char *symbols = section(code, ".symtab", &bytes), *names = section(code, ".strtab", &bytes);
    assert_true(symbols && names);
    return names + number_at(symbols + number * ELF_SYMBOL_BYTES, 4);
}

static int registers_of(const char *code, const char *kernel) {
    size_t bytes = 0;
    const char *info = section(code, ".nv.info", &bytes);
    assert_non_null(info);
    for (const char *at = info; at < info + bytes;) {
        const bool longer = at[0] == INFO_WITH_BYTES;
        if (longer && at[1] == INFO_REGISTERS && !strcmp(symbol(code, number_at(at + 4, 4)), kernel))
            return (int)number_at(at + 8, 4);
        at += 4 + (longer ? number_at(at + 2, 2) : 0);
    }
    fail_msg("no registers of %s", kernel);
    return 0;
}

/* A stamp that stands for a kernel has to take as many registers, in the steps of eight that devices give out. */
static void check_registers(const char *code) {
    for (int i = 0; i < GPU_ROOM_STAMPS; i++) {
        const char *name = aorta_gpu_room_stamps[i].name;
        int wanted = 0, found = registers_of(code, name);
        assert_int_equal(sscanf(name, "aorta_stamp_room_%d", &wanted), 1);
        if ((found + 7) / 8 != (wanted + 7) / 8) fail_msg("%s takes %d registers", name, found);
    }
}

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
    if (text == aorta_gpu_room_stamps[0].source) check_registers(code);
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
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++) {
        for (int number = 0; number < SOURCES; number++) compile(&api, source(number), architectures[i]);
    }
}

static void check_clang(const struct aorta_gpu_source *text) {
    static const char *const architectures[] = {"gfx908", "gfx90a"};
    char path[] = "/tmp/aorta-kernels-XXXXXX.hip";
    int file = mkstemps(path, 4);
    assert_true(file >= 0);
    FILE *stream = fdopen(file, "w");
    /* What hipRTC declares by itself. */
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
    for (int number = 0; number < SOURCES; number++) check_clang(source(number));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvrtc_takes_them),
        cmocka_unit_test(test_clang_takes_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
