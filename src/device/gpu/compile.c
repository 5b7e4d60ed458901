/* From the text of kernels to machine code for this device: NVRTC or hipRTC, opened when the first source is not in the
 * cache. */
#include "base/text.h"
#include "device/gpu/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTION_COUNT = 2 };

void aorta_gpu_compiler_begin(struct gpu_compiler *compiler) {
    pthread_mutex_init(&compiler->lock, NULL);
    compiler->cache = aorta_gpu_cache_folder(compiler->note, sizeof compiler->note);
}

void aorta_gpu_compiler_end(struct gpu_compiler *compiler) {
    free(compiler->cache);
    pthread_mutex_destroy(&compiler->lock);
}

static aorta_status open_compiler(struct gpu_device *device) {
    struct gpu_compiler *compiler = &device->compiler;
    if (compiler->open) return NULL;
    AORTA_TRY(aorta_library_open(&device->driver.vendor->compiler, &compiler->api, &compiler->library));
    int result = compiler->api.version(&compiler->major, &compiler->minor);
    if (result) {
        return AORTA_ERROR(AORTA_UNSUPPORTED, "%s does not report its version: %s", compiler->library.path,
                           compiler->api.error_text(result));
    }
    compiler->open = true;
    return NULL;
}

static aorta_status fill_options(const struct gpu_device *device, char options[OPTION_COUNT][64]) {
    device->driver.vendor->architecture_option(&device->properties, options[0], sizeof options[0]);
    snprintf(options[1], sizeof options[1], "--std=c++17");
    return NULL;
}

/* Everything that determines the code: compiler, version, options, source. */
static void write_key(const struct gpu_device *device, const struct aorta_gpu_source *source,
                      char options[OPTION_COUNT][64], struct aorta_text *text) {
    const struct gpu_compiler *compiler = &device->compiler;
    aorta_text_printf(text, "%s %d.%d %s\n", device->driver.vendor->compiler_name, compiler->major, compiler->minor,
                      compiler->library.path);
    for (int i = 0; i < OPTION_COUNT; i++) aorta_text_printf(text, "%s\n", options[i]);
    aorta_text_printf(text, "%s\n%s", source->name, source->text);
}

static char *read_log(const struct gpu_compiler_api *api, void *program) {
    size_t bytes = 0;
    if (api->log_bytes(program, &bytes) || bytes < 2) return NULL;
    char *log = calloc(1, bytes + 1);
    if (log && api->log(program, log)) log[0] = '\0';
    return log;
}

static aorta_status read_code(const struct gpu_compiler_api *api, void *program, char **code, size_t *bytes) {
    int result = api->code_bytes(program, bytes);
    if (result) return AORTA_ERROR(AORTA_DEVICE, "no code came out: %s", api->error_text(result));
    *code = malloc(*bytes ? *bytes : 1);
    if (!*code) return AORTA_ERROR(AORTA_MEMORY, "no host memory for %zu bytes of code", *bytes);
    result = api->code(program, *code);
    if (!result) return NULL;
    free(*code);
    return AORTA_ERROR(AORTA_DEVICE, "no code came out: %s", api->error_text(result));
}

static aorta_status compile(struct gpu_device *device, const struct aorta_gpu_source *source,
                            char options[OPTION_COUNT][64], char **code, size_t *bytes) {
    const struct gpu_compiler_api *api = &device->compiler.api;
    const char *given[OPTION_COUNT] = {options[0], options[1]};
    void *program;
    int result = api->program_create(&program, source->text, source->name, 0, NULL, NULL);
    if (result) return AORTA_ERROR(AORTA_DEVICE, "the compiler does not start: %s", api->error_text(result));
    result = api->program_compile(program, OPTION_COUNT, given);
    aorta_status status = NULL;
    if (result) {
        char *log = read_log(api, program);
        status =
            AORTA_ERROR(AORTA_DEVICE, "%s for %s with %s %d.%d (%s)\n%s", api->error_text(result),
                        device->properties.architecture, device->driver.vendor->compiler_name, device->compiler.major,
                        device->compiler.minor, device->compiler.library.path, log ? log : "");
        free(log);
    } else {
        status = read_code(api, program, code, bytes);
    }
    api->program_destroy(&program);
    return status;
}

/* A failure goes into the note: the code itself is compiled. */
static void keep(struct gpu_compiler *compiler, const struct gpu_cache_key *key, const char *code, size_t bytes) {
    aorta_status stored = compiler->cache ? aorta_gpu_cache_store(compiler->cache, key, code, bytes) : NULL;
    pthread_mutex_lock(&compiler->lock);
    compiler->compiled++;
    if (stored)
        snprintf(compiler->note, sizeof compiler->note, "compiled kernels are not cached: %s",
                 aorta_status_message(stored));
    pthread_mutex_unlock(&compiler->lock);
    aorta_status_free(stored);
}

static bool find_cached(struct gpu_compiler *compiler, const struct gpu_cache_key *key, char **code, size_t *bytes) {
    if (!compiler->cache || !aorta_gpu_cache_load(compiler->cache, key, code, bytes)) return false;
    pthread_mutex_lock(&compiler->lock);
    compiler->from_disk++;
    pthread_mutex_unlock(&compiler->lock);
    return true;
}

static aorta_status compile_cached(struct gpu_device *device, const struct aorta_gpu_source *source, char **code,
                                   size_t *bytes) {
    struct gpu_compiler *compiler = &device->compiler;
    char options[OPTION_COUNT][64];
    struct aorta_text text = {0};
    AORTA_TRY(fill_options(device, options));
    write_key(device, source, options, &text);
    aorta_status status = aorta_text_check(&text);
    struct gpu_cache_key key = {source->name, text.data, text.length};
    if (!status && !find_cached(compiler, &key, code, bytes)) {
        status = compile(device, source, options, code, bytes);
        if (!status) keep(compiler, &key, *code, *bytes);
    }
    aorta_text_free(&text);
    return status;
}

/* Programs are compiled in parallel; shared parts are opened and counted under the lock. */
aorta_status aorta_gpu_compile(struct gpu_device *device, const struct aorta_gpu_source *source, char **code,
                               size_t *bytes) {
    pthread_mutex_lock(&device->compiler.lock);
    aorta_status status = open_compiler(device);
    pthread_mutex_unlock(&device->compiler.lock);
    if (!status) status = compile_cached(device, source, code, bytes);
    return aorta_annotate(status, "%s", source->name);
}

struct aorta_gpu_compiler aorta_gpu_compiler_info(struct aorta_device *device) {
    struct gpu_compiler *compiler = &gpu_device(device)->compiler;
    struct aorta_gpu_compiler info = {0};
    pthread_mutex_lock(&compiler->lock);
    snprintf(info.library, sizeof info.library, "%s", compiler->library.path);
    snprintf(info.version, sizeof info.version, "%s %d.%d", gpu_device(device)->driver.vendor->compiler_name,
             compiler->major, compiler->minor);
    snprintf(info.cache, sizeof info.cache, "%s", compiler->cache ? compiler->cache : "");
    snprintf(info.note, sizeof info.note, "%s", compiler->note);
    info.compiled = compiler->compiled;
    info.from_disk = compiler->from_disk;
    pthread_mutex_unlock(&compiler->lock);
    return info;
}
