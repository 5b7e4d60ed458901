/* Opening vendor libraries when the program runs: by the loader's own search, then in the usual install folders. */
#include "base/shared_library.h"

#include "base/text.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Vendors' install folders, as patterns. If several folders match, the last by name is tried first. */
static const char *const folders[] = {
    "/usr/local/cuda/lib64", "/usr/local/cuda-*/lib64", "/opt/cuda/lib64", "/usr/local/nvidia/lib64",
    "/usr/lib/wsl/lib",      "/opt/rocm/lib",           "/opt/rocm-*/lib",
};

struct search {
    const struct aorta_library_description *description;
    struct aorta_text tried; /* for the message that nothing is found */
};

static void *try_open(struct search *search, const char *path) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle) return handle;
    const char *reason = dlerror();
    aorta_text_printf(&search->tried, "%s%s", search->tried.length ? "; " : "", reason ? reason : path);
    return NULL;
}

/* The loader's reason matters only for a file that exists. */
static void *try_folder(struct search *search, const char *folder, size_t length) {
    for (const char *const *name = search->description->names; *name; name++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%.*s/%s", (int)length, folder, *name);
        if (access(path, F_OK) != 0) continue;
        void *handle = try_open(search, path);
        if (handle) return handle;
    }
    aorta_text_printf(&search->tried, "%snothing of it in %.*s", search->tried.length ? "; " : "", (int)length, folder);
    return NULL;
}

/* AORTA_LIBRARY_PATH: folders to look in first, separated by colons. */
static void *try_wanted_folders(struct search *search) {
    const char *wanted = getenv("AORTA_LIBRARY_PATH");
    while (wanted && *wanted) {
        size_t length = strcspn(wanted, ":");
        void *handle = length ? try_folder(search, wanted, length) : NULL;
        if (handle) return handle;
        wanted += length + (wanted[length] == ':');
    }
    return NULL;
}

static void *try_usual_folders(struct search *search) {
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        glob_t found;
        void *handle = NULL;
        if (glob(folders[i], 0, NULL, &found) == 0)
            for (size_t j = found.gl_pathc; j > 0 && !handle; j--)
                handle = try_folder(search, found.gl_pathv[j - 1], strlen(found.gl_pathv[j - 1]));
        else
            aorta_text_printf(&search->tried, "; no folder %s", folders[i]);
        globfree(&found);
        if (handle) return handle;
    }
    return NULL;
}

static void *find(struct search *search) {
    void *handle = try_wanted_folders(search);
    for (const char *const *name = search->description->names; *name && !handle; name++)
        handle = try_open(search, *name);
    return handle ? handle : try_usual_folders(search);
}

static void find_path(struct aorta_library *library) {
    struct link_map *map = NULL;
    if (dlinfo(library->handle, RTLD_DI_LINKMAP, &map) != 0 || !map || !map->l_name) return;
    char resolved[PATH_MAX];
    const char *path = realpath(map->l_name, resolved) ? resolved : map->l_name;
    snprintf(library->path, sizeof library->path, "%.*s", (int)sizeof library->path - 1, path);
}

static aorta_status fill_table(const struct aorta_library_description *description, const struct aorta_library *library,
                               void *table) {
    struct aorta_text missing = {0};
    AORTA_EACH (const struct aorta_symbol, symbol, description->symbols, description->symbol_count) {
        void *function = dlsym(library->handle, symbol->name);
        memcpy((char *)table + symbol->offset, &function, sizeof function);
        if (!function && symbol->required)
            aorta_text_printf(&missing, "%s%s", missing.length ? ", " : "", symbol->name);
    }
    aorta_status status = NULL;
    if (missing.length || missing.failed) {
        status = AORTA_ERROR(AORTA_UNSUPPORTED, "%s: %s is too old or not the right library: it has no %s; %s",
                             description->purpose, library->path, missing.data ? missing.data : "needed symbol",
                             description->install);
    }
    aorta_text_free(&missing);
    return status;
}

aorta_status aorta_library_open(const struct aorta_library_description *description, void *table,
                                struct aorta_library *library) {
    struct search search = {.description = description};
    *library = (struct aorta_library){.handle = find(&search)};
    if (!library->handle) {
        aorta_status status =
            aorta_with_detail(AORTA_ERROR(AORTA_UNSUPPORTED, "%s: %s could not be loaded; %s", description->purpose,
                                          description->names[0], description->install),
                              search.tried.data ? search.tried.data : "");
        aorta_text_free(&search.tried);
        return status;
    }
    aorta_text_free(&search.tried);
    find_path(library);
    return fill_table(description, library, table);
}
