/* All kernels compile without a warning: with NVRTC for NVIDIA's architectures, with clang for AMD's, where these are
 * installed. Needs no GPU; other tests check the results of the kernels. */
#include "nvrtc.h"
#include "ops/gpu/gpu.h"

#include <stdlib.h>
#include <unistd.h>

/* Every entry of the source has a section of its own in the code. */
static void check_entries(const struct aorta_gpu_source *source, const char *code, size_t bytes) {
    int count = 0;
    for (int i = 0; i < AORTA_ENTRY_COUNT; i++) {
        if (aorta_ops_entries[i].source != source) continue;
        char section[128];
        snprintf(section, sizeof section, ".text.%s", aorta_ops_entries[i].name);
        if (!memmem(code, bytes, section, strlen(section) + 1))
            fail_msg("%s: no kernel %s", source->name, aorta_ops_entries[i].name);
        count++;
    }
    assert_true(count > 0);
}

static void compile(const struct nvrtc *nvrtc, const struct aorta_gpu_source *source, const char *architecture) {
    void *program = nvrtc_compile(nvrtc, source, architecture);
    size_t bytes;
    assert_int_equal(nvrtc->code_bytes(program, &bytes), 0);
    char *image = malloc(bytes);
    assert_non_null(image);
    assert_int_equal(nvrtc->code(program, image), 0);
    check_entries(source, image, bytes);
    free(image);
    assert_int_equal(nvrtc->destroy(&program), 0);
}

static void nvrtc(void **state) {
    (void)state;
    static const char *const architectures[] = {"sm_80", "sm_90"};
    struct nvrtc api;
    nvrtc_open(&api);
    for (size_t a = 0; a < sizeof architectures / sizeof *architectures; a++)
        for (int i = 0; i < AORTA_OPS_SOURCE_COUNT; i++) compile(&api, aorta_ops_sources[i], architectures[a]);
}

/* Exit status of clang in its HIP mode on a file. */
static int run_clang(const char *architecture, const char *file, const char *messages) {
    char command[1024];
    snprintf(command, sizeof command,
             "%s -x hip -std=c++17 -Wall -Wextra -Werror --cuda-device-only --offload-arch=%s -nogpulib -nogpuinc "
             "-include \"$HIP_HEADER\" -S -o /dev/null %s %s",
             TEST_CLANG, architecture, file, messages);
    setenv("HIP_HEADER", TEST_HIP_HEADER, 1);
    return system(command);
}

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* `architecture` is skipped when this clang does not know it: gfx942 came with clang 17. */
static void check_amd(const char *architecture) {
    char path[] = "/tmp/aorta-kernels-XXXXXX";
    int handle = mkstemp(path);
    assert_true(handle >= 0);
    close(handle);
    write_text(path, "\n");
    int known = run_clang(architecture, path, "2>/dev/null"), failed = 0;
    for (int i = 0; i < AORTA_OPS_SOURCE_COUNT && !known && !failed; i++) {
        write_text(path, aorta_ops_sources[i]->text);
        failed = run_clang(architecture, path, "");
        if (failed) print_error("%s for %s does not compile\n", aorta_ops_sources[i]->name, architecture);
    }
    unlink(path);
    assert_int_equal(failed, 0);
    if (!known) return;
    print_message("%s: no clang that knows it (%s)\n", architecture, TEST_CLANG);
    skip();
}

static void gfx90a(void **state) {
    (void)state;
    check_amd("gfx90a");
}

static void gfx942(void **state) {
    (void)state;
    check_amd("gfx942");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nvrtc), cmocka_unit_test(gfx90a), cmocka_unit_test(gfx942)};
    return cmocka_run_group_tests_name("ops: kernels compile", tests, NULL, NULL);
}
