#include "config/option.h"

#include "base/files.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { DEEPEST = 8 }; /* folders in folders, as the readers of traces go down */

/* ---- collecting ---- */

static void add(struct aorta_paths *paths, const struct aorta_path *path) {
    if (!path->path || !*path->path) return;
    aorta_arena_append(&paths->arena, &paths->items, &paths->capacity, &paths->count, path, sizeof *path);
}

static void add_row(struct aorta_paths *paths, const struct aorta_option *row, const char *value, const char *prefix) {
    const char *name = aorta_arena_printf(&paths->arena, "%s%s", prefix, row->key);
    add(paths, &(struct aorta_path){name, value, row->path, row->files});
}

void aorta_paths_add_rows(struct aorta_paths *paths, const struct aorta_option *rows, size_t count, const void *values,
                          const char *prefix) {
    for (size_t i = 0; i < count; i++) {
        const char *at = (const char *)values + rows[i].offset;
        if (rows[i].path == AORTA_PATH_NONE) continue;
        if (rows[i].type == AORTA_OPTION_STRING) {
            add_row(paths, &rows[i], *(const char *const *)(const void *)at, prefix);
            continue;
        }
        const struct aorta_string_list *list = (const void *)at;
        for (size_t k = 0; k < list->count; k++) add_row(paths, &rows[i], list->items[k], prefix);
    }
}

void aorta_paths_add_operands(struct aorta_paths *paths, char *const *operands, int count) {
    for (int i = 0; i < count; i++) add(paths, &(struct aorta_path){"", operands[i], AORTA_PATH_READ, NULL});
}

/* ---- which file a path is ---- */

/* Identifies a path: its existing part by device and inode, so that all names of a file are equal, and the part below
 * that does not exist yet by name. */
struct place {
    dev_t device;
    ino_t number;
    char rest[PATH_MAX];     /* below; "": the file itself exists */
    char resolved[PATH_MAX]; /* the whole path, without links where it exists */
};

/* Simplifies a part that does not exist yet: "a//./b" to "a/b". False if it has "..", whose target is unknown until it
 * exists. */
static bool simplify(char *rest) {
    char *end = rest;
    for (char *word = rest, *next; word; word = next) {
        next = strchr(word, '/');
        if (next) *next++ = '\0';
        if (!*word || strcmp(word, ".") == 0) continue;
        if (strcmp(word, "..") == 0) return false;
        if (end > rest) *end++ = '/';
        const size_t length = strlen(word);
        memmove(end, word, length);
        end += length;
    }
    *end = '\0';
    return true;
}

/* False if the place is unknown: the path is too long, leads through a file, or has ".." after a missing folder. */
static bool find_place(const char *path, struct place *place) {
    char above[PATH_MAX];
    struct stat info;
    size_t there = strlen(path);
    if (there >= sizeof above) return false;
    strcpy(above, path);
    while (!realpath(there ? above : ".", place->resolved)) {
        if (errno != ENOENT || !there) return false;
        while (there > 1 && above[there - 1] == '/') there--;
        while (there && above[there - 1] != '/') there--;
        above[there] = '\0';
    }
    strcpy(place->rest, path + there);
    if (stat(place->resolved, &info) || !simplify(place->rest)) return false;
    place->device = info.st_dev;
    place->number = info.st_ino;
    const size_t used = strlen(place->resolved), left = sizeof place->resolved - used;
    if (!place->rest[0]) return true;
    return (size_t)snprintf(place->resolved + used, left, "%s%s", used > 1 ? "/" : "", place->rest) < left;
}

static bool same_place(const struct place *a, const struct place *b) {
    return a->device == b->device && a->number == b->number && strcmp(a->rest, b->rest) == 0;
}

/* Writes the path of `file` relative to `folder` to `name`. False if the file is not below the folder. */
static bool is_below(const struct place *file, const struct place *folder, char name[PATH_MAX]) {
    char above[PATH_MAX];
    struct place place;
    strcpy(above, file->resolved);
    for (char *slash; (slash = strrchr(above, '/')) != NULL;) {
        strcpy(name, file->resolved + (slash - above) + 1);
        slash[slash == above] = '\0';
        if (find_place(above, &place) && same_place(&place, folder)) return true;
        if (strcmp(above, "/") == 0) return false;
    }
    return false;
}

/* ---- what must not meet ---- */

struct output {
    const struct aorta_path *path;
    struct place place;
};

static aorta_status is_read(const struct output *output, const char *file) {
    return AORTA_ERROR(AORTA_USAGE, "%s: %s is one of the files to read; name another", output->path->name, file);
}

/* The pattern of the folder's files that this name has, or NULL. */
static const char *received(const struct aorta_path *folder, const char *name) {
    for (const char *const *pattern = folder->files; pattern && *pattern; pattern++)
        if (fnmatch(*pattern, name, 0) == 0) return *pattern;
    return NULL;
}

/* Readers of folders skip pages and empty files. */
static bool is_page_or_empty(const char *path) {
    static const char begin[] = "<!doctype html";
    char head[sizeof begin - 1];
    FILE *file = fopen(path, "rbe");
    const size_t length = file ? fread(head, 1, sizeof head, file) : 1;
    if (file) fclose(file);
    return length == 0 || (length == sizeof head && strncasecmp(head, begin, sizeof head) == 0);
}

/* Also through links, and by other names, as the readers of folders find it. */
static bool folder_holds(const char *folder, const struct place *file, int depth) {
    DIR *entries = opendir(folder);
    bool found = false;
    for (const struct dirent *entry; entries && !found && (entry = readdir(entries));) {
        char path[PATH_MAX];
        struct stat info;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= (int)sizeof path || stat(path, &info))
            continue;
        if (S_ISDIR(info.st_mode))
            found = depth < DEEPEST && folder_holds(path, file, depth + 1);
        else
            found = info.st_dev == file->device && info.st_ino == file->number;
    }
    if (entries) closedir(entries);
    return found;
}

static aorta_status check_input(const struct output *output, const struct aorta_path *input) {
    struct place place;
    struct stat info;
    char name[PATH_MAX];
    if (!find_place(input->path, &place) || *place.rest || stat(input->path, &info)) return NULL; /* reading fails */
    const bool folder = S_ISDIR(info.st_mode);
    if (output->path->use == AORTA_PATH_FOLDER) {
        if (!folder && is_below(&place, &output->place, name) && received(output->path, name))
            return AORTA_ERROR(AORTA_USAGE,
                               "%s: %s would be replaced there, and is one of the files to read; name "
                               "another folder",
                               output->path->name, input->path);
        return NULL;
    }
    if (*output->place.rest) return NULL; /* the output does not exist yet */
    if (!folder) return same_place(&output->place, &place) ? is_read(output, output->path->path) : NULL;
    if (is_page_or_empty(output->path->path) || !folder_holds(input->path, &output->place, 0)) return NULL;
    return AORTA_ERROR(AORTA_USAGE, "%s: %s is one of the files to read (of %s); name another", output->path->name,
                       output->path->path, input->path);
}

static aorta_status meet(const struct output *a, const struct output *b) {
    return AORTA_ERROR(AORTA_USAGE, "%s and %s: both would write %s; name two files", a->path->name, b->path->name,
                       (a->path->use == AORTA_PATH_FILE ? a : b)->path->path);
}

/* Whether two folders are one place and receive a file of one name. */
static bool same_files(const struct output *a, const struct output *b) {
    if (!same_place(&a->place, &b->place)) return false;
    for (const char *const *pattern = a->path->files; pattern && *pattern; pattern++)
        for (const char *const *other = b->path->files; other && *other; other++)
            if (strcmp(*pattern, *other) == 0) return true;
    return false;
}

static aorta_status check_outputs(const struct output *a, const struct output *b) {
    char name[PATH_MAX];
    const bool folder = a->path->use == AORTA_PATH_FOLDER, other = b->path->use == AORTA_PATH_FOLDER;
    if (folder && other) return same_files(a, b) ? meet(a, b) : NULL;
    if (folder) return check_outputs(b, a);
    if (!other) return same_place(&a->place, &b->place) ? meet(a, b) : NULL;
    return is_below(&a->place, &b->place, name) && received(b->path, name) ? meet(a, b) : NULL;
}

/* ---- all of them ---- */

static aorta_status check_streams(const struct aorta_paths *paths) {
    const char *first = NULL;
    AORTA_EACH (const struct aorta_path, path, paths->items, paths->count) {
        if (path->use != AORTA_PATH_FILE || !aorta_file_is_standard_output(path->path)) continue;
        if (first)
            return AORTA_ERROR(AORTA_USAGE, "%s and %s: both would go to the standard output; name a file", first,
                               path->name);
        first = path->name;
    }
    return NULL;
}

static aorta_status check_inputs(const struct aorta_paths *paths, const struct output *output) {
    for (size_t i = 0; i < paths->count; i++)
        if (paths->items[i].use == AORTA_PATH_READ) AORTA_TRY(check_input(output, &paths->items[i]));
    return NULL;
}

/* A path that is written directly does not conflict with other outputs, but may be a shell's descriptor of an input
 * file. */
static aorta_status check_direct(const struct aorta_paths *paths, struct output *output) {
    struct stat info;
    if (stat(output->path->path, &info) || !S_ISREG(info.st_mode)) return NULL;
    return find_place(output->path->path, &output->place) ? check_inputs(paths, output) : NULL;
}

aorta_status aorta_paths_check(struct aorta_paths *paths) {
    struct output *outputs = aorta_arena_alloc(&paths->arena, paths->count * sizeof *outputs);
    size_t count = 0;
    AORTA_TRY(aorta_arena_check(&paths->arena, "the paths of a command"));
    aorta_status status = check_streams(paths);
    for (size_t i = 0; i < paths->count && !status; i++) {
        struct output *output = &outputs[count];
        output->path = &paths->items[i];
        if (output->path->use != AORTA_PATH_FILE && output->path->use != AORTA_PATH_FOLDER) continue;
        if (aorta_file_is_direct(output->path->path)) {
            status = check_direct(paths, output);
            continue;
        }
        if (!find_place(output->path->path, &output->place)) {
            if (!strstr(output->path->path, "..")) continue; /* making the file reports the reason */
            status = AORTA_ERROR(AORTA_USAGE, "%s: %s goes up (..) from a folder that is not there; name it without",
                                 output->path->name, output->path->path);
            continue;
        }
        status = check_inputs(paths, output);
        for (size_t k = 0; k < count && !status; k++) status = check_outputs(&outputs[k], output);
        count++;
    }
    return status;
}
