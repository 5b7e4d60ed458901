/* Unpacks the files of an archive that have a trace's name, and the files that such links lead to. */
#include "base/array.h"
#include "base/files.h"
#include "base/sort.h"
#include "formats/archive.h"
#include "formats/reader.h"
#include "formats/unpack_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_FILES = 1 << 16 };

static const char no_target[] = "a link to no file in the archive";

static aorta_status read_member(void *from, char *buffer, size_t capacity, size_t *got) {
    return aorta_archive_read(from, buffer, capacity, got);
}

/* A link of an archive: both are paths from the archive's folder on. */
struct link {
    char *target; /* NULL: outside the archive */
    char *path;
    bool done;
};
struct links {
    struct link *items;
    size_t count, capacity;
};

struct members {
    struct aorta_archive *archive;
    struct unpack_origin origin;
    const char *folder;
    struct aorta_skipped *skipped;
    struct links links;  /* by path */
    struct links wanted; /* traces' links to files that were not unpacked yet; by target */
    int files;
};

/* The name from `base` on, without "." and "..", NULL: it leads out of the archive. The caller frees it. */
static aorta_status resolve(const char *base, const char *name, char **path) {
    const char *slash = strrchr(base, '/');
    const size_t start = slash ? (size_t)(slash - base) : 0;
    char *made = malloc(start + strlen(name) + 2), *end = made;
    bool inside = true;
    if (!made) return aorta_unpack_no_memory();
    end = mempcpy(made, base, start);
    for (const char *word = name; *word && inside;) {
        const size_t length = strcspn(word, "/");
        if (length == 2 && !memcmp(word, "..", 2)) {
            inside = end > made;
            while (end > made && *--end != '/') {
            }
        } else if (length && !(length == 1 && *word == '.')) {
            inside = length <= NAME_MAX;
            if (end > made) *end++ = '/';
            end = mempcpy(end, word, length);
        }
        word += length + (word[length] == '/');
    }
    *end = '\0';
    inside &= end > made;
    if (!inside) free(made);
    *path = inside ? made : NULL;
    return NULL;
}

static bool is_hidden(const char *path) {
    return *path == '.' || strstr(path, "/.");
}

/* Why a file of a trace's name is not read; NULL: it is. */
static const char *why_skipped(const struct aorta_archive_member *member, const char *path) {
    if (!path) return "leads out of the archive";
    if (is_hidden(path)) return "hidden";
    return member->file || member->link ? NULL : "no regular file";
}

static aorta_status add_link(struct links *links, const char *path, const char *target) {
    AORTA_TRY(aorta_array_reserve(&links->items, &links->capacity, links->count + 1, sizeof *links->items, "links"));
    struct link *link = &links->items[links->count];
    *link = (struct link){.path = strdup(path), .target = target ? strdup(target) : NULL};
    if (link->path && (link->target || !target)) {
        links->count++;
        return NULL;
    }
    free(link->path);
    free(link->target);
    return aorta_unpack_no_memory();
}

static void free_links(struct links *links) {
    for (size_t i = 0; i < links->count; i++) {
        free(links->items[i].path);
        free(links->items[i].target);
    }
    free(links->items);
}

static aorta_status take_link(struct members *members, const struct aorta_archive_member *member, const char *path) {
    char *target = NULL;
    if (!member->symbolic || *member->link != '/')
        AORTA_TRY(resolve(member->symbolic ? path : "", member->link, &target));
    aorta_status status = add_link(&members->links, path, target);
    free(target);
    return status;
}

static aorta_status write_member(struct members *members, const char *path) {
    if (members->files++ == MOST_FILES)
        return AORTA_ERROR(AORTA_FORMAT, "%s: holds more than %d files; unpack what you need", members->origin.shown,
                           MOST_FILES);
    char *place = aorta_path_join(members->folder, path);
    aorta_status status = place ? aorta_unpack_write(&members->origin, place) : aorta_unpack_no_memory();
    free(place);
    return status;
}

static aorta_status take_member(struct members *members, const struct aorta_archive_member *member, const char *path) {
    const bool named = aorta_trace_is_name(member->name);
    const char *why = why_skipped(member, path);
    if (named && why) aorta_skip(members->skipped, members->origin.shown, member->name, why);
    if (member->link && path) return take_link(members, member, path);
    if (named && !why) return write_member(members, path);
    members->origin.left -= member->bytes;
    return NULL;
}

/* ---- links ---- */

static int by_path(const void *left, const void *right) {
    return strcmp(((const struct link *)left)->path, ((const struct link *)right)->path);
}

static int by_target(const void *left, const void *right) {
    return strcmp(((const struct link *)left)->target, ((const struct link *)right)->target);
}

/* The file that a link leads to, over others; NULL: none in the archive. */
static const char *follow(const struct links *links, const struct link *link) {
    enum { MOST_LINKS = 40 };
    for (int i = 0; link && i < MOST_LINKS; i++) {
        const struct link key = {.path = link->target};
        const struct link *next = key.path ? bsearch(&key, links->items, links->count, sizeof key, by_path) : NULL;
        if (!next) return link->target;
        link = next;
    }
    return NULL;
}

/* A second name of an unpacked file; a file of that name stays. */
static aorta_status link_file(const struct members *members, const char *target, const char *path) {
    char *from = aorta_path_join(members->folder, target), *to = aorta_path_join(members->folder, path);
    aorta_status status = from && to ? NULL : aorta_unpack_no_memory();
    char *slash = status ? NULL : strrchr(to, '/');
    if (slash) {
        *slash = '\0';
        status = aorta_directory_make(to);
        *slash = '/';
    }
    if (!status && link(from, to) && errno != EEXIST)
        status = AORTA_ERROR(AORTA_IO, "%s: cannot be unpacked to %s: %s", members->origin.shown, to, strerror(errno));
    free(from);
    free(to);
    return status;
}

static bool is_unpacked(const struct members *members, const char *path) {
    char *place = aorta_path_join(members->folder, path);
    struct stat facts;
    const bool found = place && !lstat(place, &facts) && S_ISREG(facts.st_mode);
    free(place);
    return found;
}

/* Links to unpacked files become files, and links to other files become wanted. */
static aorta_status resolve_links(struct members *members) {
    const struct links *links = &members->links;
    if (links->count) qsort(links->items, links->count, sizeof *links->items, by_path);
    for (size_t i = 0; i < links->count; i++) {
        const char *path = links->items[i].path, *target = follow(links, &links->items[i]);
        if (!aorta_trace_is_name(path) || is_hidden(path)) continue;
        if (!target)
            aorta_skip(members->skipped, members->origin.shown, path, no_target);
        else if (is_unpacked(members, target))
            AORTA_TRY(link_file(members, target, path));
        else
            AORTA_TRY(add_link(&members->wanted, path, target));
    }
    if (members->wanted.count)
        qsort(members->wanted.items, members->wanted.count, sizeof *members->wanted.items, by_target);
    return NULL;
}

static aorta_status take_wanted(struct members *members, const struct aorta_archive_member *member, const char *path) {
    const struct links *wanted = &members->wanted;
    const struct link key = {.target = (char *)path};
    const size_t first =
        path ? aorta_count_below(wanted->items, wanted->count, sizeof key, &key, by_target) : wanted->count;
    if (!member->file || first == wanted->count || by_target(&wanted->items[first], &key) || wanted->items[first].done)
        return NULL;
    AORTA_TRY(write_member(members, wanted->items[first].path));
    for (size_t i = first; i < wanted->count && !by_target(&wanted->items[i], &key); i++) {
        wanted->items[i].done = true;
        if (i > first) AORTA_TRY(link_file(members, wanted->items[first].path, wanted->items[i].path));
    }
    return NULL;
}

/* ---- all members ---- */

typedef aorta_status take_one(struct members *members, const struct aorta_archive_member *member, const char *path);

static int64_t most_bytes(int file) {
    struct stat facts;
    return fstat(file, &facts) ? INT64_MAX : aorta_unpack_most_bytes(facts.st_size);
}

static aorta_status each_member(const char *path, struct members *members, take_one *take) {
    struct aorta_archive_member member = {.name = ""};
    aorta_status status = NULL;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return AORTA_ERROR(AORTA_IO, "cannot open %s: %s", path, strerror(errno));
    status = aorta_archive_open(path, file, false, &members->archive);
    members->origin =
        (struct unpack_origin){read_member, members->archive, path, most_bytes(file), aorta_unpack_too_much};
    while (!status && member.name) {
        char *name = NULL;
        status = aorta_archive_next(members->archive, &member);
        if (!status && member.name) status = resolve("", member.name, &name);
        if (!status && member.name) status = take(members, &member, name);
        if (!status && members->origin.left < 0) status = aorta_unpack_too_much(path);
        free(name);
    }
    if (members->archive) aorta_archive_close(members->archive);
    members->archive = NULL;
    close(file);
    return status;
}

aorta_status aorta_unpack_archive(const char *path, const char *folder, struct aorta_skipped *skipped) {
    struct members members = {.folder = folder, .skipped = skipped};
    aorta_status status = each_member(path, &members, take_member);
    if (!status) status = resolve_links(&members);
    if (!status && members.wanted.count) status = each_member(path, &members, take_wanted);
    for (size_t i = 0; !status && i < members.wanted.count; i++)
        if (!members.wanted.items[i].done) aorta_skip(skipped, path, members.wanted.items[i].path, no_target);
    free_links(&members.links);
    free_links(&members.wanted);
    return status;
}

static aorta_status note_member(struct members *members, const struct aorta_archive_member *member, const char *path) {
    members->files += aorta_trace_is_name(member->name) && !why_skipped(member, path);
    members->origin.left -= member->bytes;
    return NULL;
}

aorta_status aorta_unpack_lists(const char *path, bool *any) {
    struct members members = {0};
    aorta_status status = each_member(path, &members, note_member);
    *any = members.files;
    return status;
}
