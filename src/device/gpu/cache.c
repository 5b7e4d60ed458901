/* Compiled kernels on disk. A file contains everything that the code depends on and the code itself, so it is used only
 * for the source it was made from. It is written under a temporary name and renamed, so that ranks that compile one
 * kernel at once replace each other's file by an equal one. */
#include "base/files.h"
#include "base/hash.h"
#include "device/gpu/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char magic[8] = "aortak1";

struct header {
    char magic[8];
    uint64_t key_bytes, code_bytes, code_hash;
};

static char *file_of(const char *folder, const struct gpu_cache_key *key) {
    char name[128];
    snprintf(name, sizeof name, "%.64s-%016llx.bin", key->name,
             (unsigned long long)aorta_hash_bytes(key->text, key->length));
    return aorta_path_join(folder, name);
}

/* $AORTA_CACHE_DIR, or aorta in $XDG_CACHE_HOME or ~/.cache (XDG Base Directory Specification). NULL: none is named. */
static char *wanted_folder(void) {
    const char *own = getenv("AORTA_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *path = NULL;
    if (own && *own) return strdup(own);
    if (xdg && *xdg == '/') return aorta_path_join(xdg, "aorta");
    if (home && *home && asprintf(&path, "%s/.cache/aorta", home) < 0) return NULL;
    return path;
}

char *aorta_gpu_cache_folder(char *note, size_t note_size) {
    char *folder = wanted_folder();
    if (!folder) {
        snprintf(note, note_size, "compiled kernels are not cached: HOME is not set; AORTA_CACHE_DIR names a folder");
        return NULL;
    }
    aorta_status status = aorta_directory_make(folder);
    if (!status && access(folder, W_OK | X_OK) == 0) return folder;
    snprintf(note, note_size, "compiled kernels are not cached: %s; AORTA_CACHE_DIR names another folder",
             status ? aorta_status_message(status) : folder);
    if (!status) snprintf(note, note_size, "compiled kernels are not cached: %s cannot be written to", folder);
    aorta_status_free(status);
    free(folder);
    return NULL;
}

/* The code in the file; NULL when the file is not whole or does not match this key. */
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

bool aorta_gpu_cache_load(const char *folder, const struct gpu_cache_key *key, char **code, size_t *code_bytes) {
    char *path = file_of(folder, key), *bytes = NULL;
    size_t length;
    aorta_status status = path ? aorta_file_read_regular(path, SIZE_MAX, &bytes, &length) : NULL;
    free(path);
    if (status || !bytes) { /* not there yet */
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

aorta_status aorta_gpu_cache_store(const char *folder, const struct gpu_cache_key *key, const char *code,
                                   size_t code_bytes) {
    struct header header = {
        .key_bytes = key->length, .code_bytes = code_bytes, .code_hash = aorta_hash_bytes(code, code_bytes)};
    memcpy(header.magic, magic, sizeof magic);
    size_t length = sizeof header + key->length + code_bytes;
    char *path = file_of(folder, key), *bytes = malloc(length);
    aorta_status status = NULL;
    if (path && bytes) {
        memcpy(bytes, &header, sizeof header);
        memcpy(bytes + sizeof header, key->text, key->length);
        memcpy(bytes + sizeof header + key->length, code, code_bytes);
        status = aorta_file_replace(path, bytes, length);
    } else {
        status = AORTA_ERROR(AORTA_MEMORY, "no host memory to keep %s", key->name);
    }
    free(bytes);
    free(path);
    return status;
}
