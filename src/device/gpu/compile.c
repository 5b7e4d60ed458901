/* From the text of kernels to machine code for this device: NVRTC or hipRTC, opened when the first source is not in the
 * cache. */
#include "base/files.h"
#include "base/table.h"
#include "base/text.h"
#include "base/thread.h"
#include "device/gpu/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the cache on disk ----
 * Compiled kernels on disk. A file contains everything that the code depends on and the code itself, so it is used only
 * for the source it was made from. It is written under a temporary name and renamed, so that ranks that compile one
 * kernel at once replace each other's file by an equal one. */

static const char magic[8] = "aortak1";

struct header {
    char magic[8];
    uint64_t key_bytes, code_bytes, code_hash;
};

static struct aorta_file_path file_of(const char *folder, const struct gpu_cache_key *key) {
    return aorta_path_in(folder, "%.64s-%016llx.bin", key->name,
                         (unsigned long long)aorta_hash_bytes(key->text, key->length));
}

/* $AORTA_CACHE_DIR, or aorta in $XDG_CACHE_HOME or ~/.cache (XDG Base Directory Specification). Empty: none is
 * named. */
static struct aorta_file_path wanted_folder(void) {
    const char *own = getenv("AORTA_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (own && *own) return aorta_path_in("", "%s", own);
    if (xdg && *xdg == '/') return aorta_path_in(xdg, "aorta");
    return home && *home ? aorta_path_in(home, ".cache/aorta") : (struct aorta_file_path){""};
}

char *aorta_gpu_cache_folder(char *note, size_t note_size) {
    const struct aorta_file_path folder = wanted_folder();
    if (!*folder.text) {
        snprintf(note, note_size, "compiled kernels are not cached: HOME is not set; AORTA_CACHE_DIR names a folder");
        return NULL;
    }
    aorta_status status = aorta_directory_make(folder.text);
    if (!status && access(folder.text, W_OK | X_OK) == 0) return strdup(folder.text);
    snprintf(note, note_size, "compiled kernels are not cached: %s; AORTA_CACHE_DIR names another folder",
             status ? aorta_status_message(status) : folder.text);
    if (!status) snprintf(note, note_size, "compiled kernels are not cached: %s cannot be written to", folder.text);
    aorta_status_free(status);
    return NULL;
}

/* Returns the code in the file, or NULL if the file is incomplete or does not match the key. */
static const char *code_in(const char *bytes, size_t length, const struct gpu_cache_key *key, size_t *code_bytes) {
    struct header header;
    if (length < sizeof header) return NULL;
    memcpy(&header, bytes, sizeof header);
    if (memcmp(header.magic, magic, sizeof magic) != 0 || header.key_bytes != key->length) return NULL;
    size_t rest = length - sizeof header;
    if (rest < header.key_bytes || rest - header.key_bytes != header.code_bytes) return NULL;
    const char *key_text = bytes + sizeof header, *code = key_text + header.key_bytes;
    if (memcmp(key_text, key->text, key->length) != 0 || aorta_hash_bytes(code, header.code_bytes) != header.code_hash)
        return NULL;
    *code_bytes = header.code_bytes;
    return code;
}

static bool load_cached(const char *folder, const struct gpu_cache_key *key, char **code, size_t *code_bytes) {
    char *bytes = NULL;
    size_t length;
    aorta_status status = aorta_file_read_regular(file_of(folder, key).text, SIZE_MAX, &bytes, &length);
    if (status) { /* not there yet */
        aorta_status_free(status);
        return false;
    }
    const char *found = code_in(bytes, length, key, code_bytes);
    if (!found) {
        free(bytes);
        return false;
    }
    memmove(bytes, found, *code_bytes);
    *code = bytes;
    return true;
}

static aorta_status store_cached(const char *folder, const struct gpu_cache_key *key, const char *code,
                                 size_t code_bytes) {
    struct header header = {
        .key_bytes = key->length, .code_bytes = code_bytes, .code_hash = aorta_hash_bytes(code, code_bytes)};
    memcpy(header.magic, magic, sizeof magic);
    size_t length = sizeof header + key->length + code_bytes;
    char *bytes = malloc(length);
    if (!bytes) return AORTA_ERROR(AORTA_MEMORY, "no host memory to keep %s", key->name);
    memcpy(bytes, &header, sizeof header);
    memcpy(bytes + sizeof header, key->text, key->length);
    memcpy(bytes + sizeof header + key->length, code, code_bytes);
    aorta_status status = aorta_file_replace(file_of(folder, key).text, bytes, length);
    free(bytes);
    return status;
}

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

static void fill_options(const struct gpu_device *device, char options[OPTION_COUNT][64]) {
    device->driver.vendor->architecture_option(&device->properties, options[0], sizeof options[0]);
    snprintf(options[1], sizeof options[1], "--std=c++17");
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
    aorta_status stored = compiler->cache ? store_cached(compiler->cache, key, code, bytes) : NULL;
    pthread_mutex_lock(&compiler->lock);
    compiler->compiled++;
    if (stored)
        snprintf(compiler->note, sizeof compiler->note, "compiled kernels are not cached: %s",
                 aorta_status_message(stored));
    pthread_mutex_unlock(&compiler->lock);
    aorta_status_free(stored);
}

static bool find_cached(struct gpu_compiler *compiler, const struct gpu_cache_key *key, char **code, size_t *bytes) {
    if (!compiler->cache || !load_cached(compiler->cache, key, code, bytes)) return false;
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
    fill_options(device, options);
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

/* ---- ahead of use ----
 * Sources that will be needed are compiled in parallel on their own threads, which touch neither the device nor its
 * context. The first user of a source waits for its thread and gets its failure. */

struct gpu_ahead {
    struct gpu_ahead *next;
    struct gpu_device *device;
    const struct aorta_gpu_source *source;
    pthread_t thread;
    char *code; /* owned until it is taken */
    size_t bytes;
    aorta_status status;
};

static void *compile_source(void *user) {
    struct gpu_ahead *ahead = user;
    ahead->status = aorta_gpu_compile(ahead->device, ahead->source, &ahead->code, &ahead->bytes);
    return NULL;
}

void aorta_gpu_expect(struct aorta_device *base, const struct aorta_gpu_source *const *sources, size_t count) {
    struct gpu_device *device = gpu_device(base);
    if (!device->driver.vendor->compiles_side_by_side) return;
    for (size_t i = 0; i < count; i++) {
        struct gpu_ahead *ahead = calloc(1, sizeof *ahead);
        if (!ahead) return; /* they are compiled when they are needed */
        ahead->device = device;
        ahead->source = sources[i];
        pthread_mutex_lock(&device->functions.lock);
        if (aorta_thread_start(&ahead->thread, compile_source, ahead) == 0) {
            ahead->next = device->functions.ahead;
            device->functions.ahead = ahead;
            ahead = NULL;
        }
        pthread_mutex_unlock(&device->functions.lock);
        free(ahead);
    }
}

bool aorta_gpu_take_expected(struct gpu_functions *functions, const struct aorta_gpu_source *source, char **code,
                             size_t *bytes, aorta_status *status) {
    struct gpu_ahead **link = &functions->ahead;
    while (*link && (*link)->source != source) link = &(*link)->next;
    struct gpu_ahead *ahead = *link;
    if (!ahead) return false;
    *link = ahead->next;
    pthread_join(ahead->thread, NULL);
    *code = ahead->code;
    *bytes = ahead->bytes;
    *status = ahead->status;
    free(ahead);
    return true;
}

void aorta_gpu_expected_end(struct gpu_functions *functions) {
    while (functions->ahead) {
        char *code = NULL;
        size_t bytes;
        aorta_status status;
        aorta_gpu_take_expected(functions, functions->ahead->source, &code, &bytes, &status);
        if (!status) free(code);
        aorta_status_free(status);
    }
}
