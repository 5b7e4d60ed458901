#include "trace/archive.h"
#include "base/printable.h"
#include "base/shared_library.h"
#include "base/sort.h"
#include "trace/reader.h"
#include "trace/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- libarchive ---- */

struct archive;
struct archive_entry;

enum { ARCHIVE_EOF = 1, ARCHIVE_OK = 0, ARCHIVE_WARN = -20 };

/* As archive.h and archive_entry.h of libarchive 3.2 to 3.7 declare them. */
#define CALLS(X)                                                                                                       \
    X(struct archive *, make, archive_read_new, (void))                                                                \
    X(int, free, archive_read_free, (struct archive *))                                                                \
    X(int, zip, archive_read_support_format_zip, (struct archive *))                                                   \
    X(int, tar, archive_read_support_format_tar, (struct archive *))                                                   \
    X(int, raw, archive_read_support_format_raw, (struct archive *))                                                   \
    X(int, gzip, archive_read_support_filter_gzip, (struct archive *))                                                 \
    X(int, zstd, archive_read_support_filter_zstd, (struct archive *))                                                 \
    X(int, xz, archive_read_support_filter_xz, (struct archive *))                                                     \
    X(int, bzip2, archive_read_support_filter_bzip2, (struct archive *))                                               \
    X(int, lz4, archive_read_support_filter_lz4, (struct archive *))                                                   \
    X(int, open, archive_read_open_fd, (struct archive *, int file, size_t block))                                     \
    X(int, next, archive_read_next_header, (struct archive *, struct archive_entry **))                                \
    X(ssize_t, read, archive_read_data, (struct archive *, void *, size_t))                                            \
    X(const char *, error, archive_error_string, (struct archive *))                                                   \
    X(const char *, name, archive_entry_pathname_utf8, (struct archive_entry *))                                       \
    X(const char *, raw_name, archive_entry_pathname, (struct archive_entry *))                                        \
    X(const char *, symbolic, archive_entry_symlink, (struct archive_entry *))                                         \
    X(const char *, hard, archive_entry_hardlink, (struct archive_entry *))                                            \
    X(int64_t, size, archive_entry_size, (struct archive_entry *))                                                     \
    X(mode_t, type, archive_entry_filetype, (struct archive_entry *))
struct archive_api {
#define X(type, member, symbol, arguments) type(*member) arguments;
    CALLS(X)
#undef X
};
static const struct aorta_symbol symbols[] = {
#define X(type, member, symbol, arguments) {#symbol, offsetof(struct archive_api, member), true},
    CALLS(X)
#undef X
};

static const char *const library_names[] = {"libarchive.so.13", "libarchive.so", NULL};

static const struct aorta_library_description description = {
    .purpose = "reading packed files",
    .names = library_names,
    .symbols = symbols,
    .symbol_count = sizeof symbols / sizeof *symbols,
    .install = "install it (Debian, Ubuntu: libarchive13 or libarchive13t64), or unpack the file",
};

struct aorta_archive {
    struct archive_api api;
    struct archive *handle;
    const char *path;
    bool truncated;
};

bool aorta_archive_library(char *path, size_t capacity) {
    struct archive_api api;
    struct aorta_library library;
    aorta_status status = aorta_library_open(&description, &api, &library);
    const bool found = !status;
    aorta_status_free(status);
    if (found) snprintf(path, capacity, "%s", library.path);
    return found;
}

static aorta_status failure(struct aorta_archive *archive) {
    const char *reason = archive->api.error(archive->handle);
    if (!reason) reason = "broken";
    archive->truncated = strcasestr(reason, "truncated") || strcasestr(reason, "unexpected end");
    return AORTA_ERROR(AORTA_FORMAT, "%s: cannot be unpacked: %s", archive->path, reason);
}

/* Formats and filters are enabled one by one, as the "all" calls of libarchive also enable filters that start
 * programs. */
static aorta_status open_handle(struct aorta_archive *archive, int file, bool stream) {
    enum { BLOCK = 1 << 17 };
    const struct archive_api *api = &archive->api;
    int (*const filters[])(struct archive *) = {api->gzip, api->zstd, api->xz, api->bzip2, api->lz4};
    archive->handle = api->make();
    if (!archive->handle) return AORTA_ERROR(AORTA_MEMORY, "no memory to unpack %s", archive->path);
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) filters[i](archive->handle);
    if (stream) {
        api->raw(archive->handle);
    } else {
        api->zip(archive->handle);
        api->tar(archive->handle);
    }
    return api->open(archive->handle, file, BLOCK) == ARCHIVE_OK ? NULL : failure(archive);
}

aorta_status aorta_archive_open(const char *path, int file, bool stream, struct aorta_archive **archive) {
    struct aorta_archive *made = calloc(1, sizeof *made);
    struct aorta_library library;
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "no memory to unpack %s", path);
    made->path = path;
    aorta_status status = aorta_annotate(aorta_library_open(&description, &made->api, &library), "%s", path);
    if (!status) status = open_handle(made, file, stream);
    if (status) {
        aorta_archive_close(made);
        return status;
    }
    *archive = made;
    return NULL;
}

void aorta_archive_close(struct aorta_archive *archive) {
    if (archive && archive->handle) archive->api.free(archive->handle);
    free(archive);
}

aorta_status aorta_archive_next(struct aorta_archive *archive, struct aorta_archive_member *member) {
    const struct archive_api *api = &archive->api;
    struct archive_entry *entry;
    *member = (struct aorta_archive_member){0};
    const int code = api->next(archive->handle, &entry);
    if (code == ARCHIVE_EOF) return NULL;
    if (code != ARCHIVE_OK && code != ARCHIVE_WARN) return failure(archive);
    const mode_t type = api->type(entry);
    const char *name = api->name(entry), *symbolic = api->symbolic(entry), *hard = api->hard(entry);
    if (!name) name = api->raw_name(entry); /* no UTF-8 */
    *member = (struct aorta_archive_member){.name = name ? name : "",
                                            .link = symbolic ? symbolic : hard,
                                            .symbolic = symbolic,
                                            .file = !symbolic && !hard && (!type || S_ISREG(type)),
                                            .bytes = api->size(entry)};
    return NULL;
}

aorta_status aorta_archive_read(struct aorta_archive *archive, char *buffer, size_t capacity, size_t *got) {
    const ssize_t count = archive->api.read(archive->handle, buffer, capacity);
    *got = count > 0 ? (size_t)count : 0;
    return count < 0 ? failure(archive) : NULL;
}

bool aorta_archive_truncated(const struct aorta_archive *archive) {
    return archive->truncated;
}

/* ---- unpacked files ---- */

enum { MOST_TIMES = 1000, SMALL = 1 << 26 };

static const int64_t MOST_INPUT = INT64_C(4) << 30; /* bytes of the standard input */

static aorta_status no_memory(void) {
    return AORTA_ERROR(AORTA_MEMORY, "no memory to unpack");
}

static aorta_status too_much(const char *shown) {
    return AORTA_ERROR(AORTA_FORMAT, "%s: unpacks to more than %d times its size, as no trace does", shown, MOST_TIMES);
}

static int64_t most_unpacked(int64_t packed) {
    return packed < INT64_MAX / MOST_TIMES - SMALL ? packed * MOST_TIMES + SMALL : INT64_MAX;
}

/* ---- archives: files with a trace's name, and targets of links with such a name ---- */

enum { MOST_FILES = 1 << 16 };

static const char no_target[] = "a link to no file in the archive";

static aorta_status read_member(void *from, char *buffer, size_t capacity, size_t *got) {
    return aorta_archive_read(from, buffer, capacity, got);
}

/* A link in an archive. Both paths are relative to the archive's root. */
struct link {
    const char *target; /* NULL: outside the archive */
    const char *path;
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
    struct aorta_text name; /* of the member at hand */
    struct aorta_arena memory;
};

/* Resolves the name relative to the folder of `base`, without "." and "..", into `path`. NULL if it leads out of the
 * archive. */
static const char *resolve(struct aorta_text *path, const char *base, const char *name) {
    const char *slash = strrchr(base, '/');
    bool inside = true;
    aorta_text_clear(path);
    aorta_text_append(path, base, slash ? (size_t)(slash - base) : 0);
    for (const char *word = name; *word && inside && !path->failed;) {
        const size_t length = strcspn(word, "/");
        if (length == 2 && !memcmp(word, "..", 2)) {
            inside = path->length > 0;
            while (path->length && path->data[--path->length] != '/') {
            }
            aorta_text_append(path, "", 0);
        } else if (length && !(length == 1 && *word == '.')) {
            inside = length <= NAME_MAX;
            aorta_text_printf(path, "%s%.*s", path->length ? "/" : "", (int)length, word);
        }
        word += length + (word[length] == '/');
    }
    return inside && !path->failed && path->length ? path->data : NULL;
}

static bool is_hidden(const char *path) {
    return *path == '.' || strstr(path, "/.");
}

/* Why a file with a trace's name is not read; NULL if it is read. */
static const char *why_skipped(const struct aorta_archive_member *member, const char *path) {
    if (!path) return "leads out of the archive";
    if (is_hidden(path)) return "hidden";
    return member->file || member->link ? NULL : "no regular file";
}

static void add_link(struct members *members, struct links *links, struct link link) {
    aorta_arena_append(&members->memory, &links->items, &links->capacity, &links->count, &link, sizeof link);
}

static void take_link(struct members *members, const struct aorta_archive_member *member, const char *path) {
    struct aorta_text text = {0};
    const bool outside = member->symbolic && *member->link == '/';
    const char *target = outside ? NULL : resolve(&text, member->symbolic ? path : "", member->link);
    add_link(members, &members->links,
             (struct link){.path = aorta_arena_strdup(&members->memory, path),
                           .target = target ? aorta_arena_strdup(&members->memory, target) : NULL});
    members->memory.failed |= text.failed;
    aorta_text_free(&text);
}

static aorta_status write_member(struct members *members, const char *path) {
    if (members->files++ == MOST_FILES)
        return AORTA_ERROR(AORTA_FORMAT, "%s: holds more than %d files; unpack what you need", members->origin.shown,
                           MOST_FILES);
    char *place = aorta_arena_printf(&members->memory, "%s/%s", members->folder, path);
    return place ? aorta_unpack_write(&members->origin, place) : no_memory();
}

static aorta_status take_member(struct members *members, const struct aorta_archive_member *member, const char *path) {
    const bool named = aorta_trace_is_name(member->name);
    const char *why = why_skipped(member, path);
    if (named && why) aorta_skip(members->skipped, members->origin.shown, member->name, why);
    if (named && !why && !member->link) return write_member(members, path);
    if (member->link && path)
        take_link(members, member, path);
    else
        members->origin.left -= member->bytes;
    return NULL;
}

/* ---- links ---- */

static AORTA_ORDER(by_path, struct link, AORTA_TEXT(path));

/* The file that a link leads to, possibly through other links. NULL if it leads out of the archive. */
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

/* Gives an unpacked file a second name. An existing file of that name is not replaced. */
static aorta_status link_file(struct members *members, const char *target, const char *path) {
    const char *from = aorta_arena_printf(&members->memory, "%s/%s", members->folder, target);
    char *to = aorta_arena_printf(&members->memory, "%s/%s", members->folder, path);
    if (!from || !to) return no_memory();
    AORTA_TRY(aorta_unpack_folder(to));
    if (!link(from, to) || errno == EEXIST) return NULL;
    return AORTA_ERROR(AORTA_IO, "%s: cannot be unpacked to %s: %s", members->origin.shown, to, strerror(errno));
}

static bool is_unpacked(struct members *members, const char *path) {
    const char *place = aorta_arena_printf(&members->memory, "%s/%s", members->folder, path);
    struct stat facts;
    return place && !lstat(place, &facts) && S_ISREG(facts.st_mode);
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
            add_link(members, &members->wanted, (struct link){.path = path, .target = target});
    }
    if (members->wanted.count)
        qsort(members->wanted.items, members->wanted.count, sizeof *members->wanted.items, aorta_by_text);
    return NULL;
}

static aorta_status take_wanted(struct members *members, const struct aorta_archive_member *member, const char *path) {
    const struct links *wanted = &members->wanted;
    const struct link key = {.target = path};
    const size_t first =
        path ? aorta_count_below(wanted->items, wanted->count, sizeof key, &key, aorta_by_text) : wanted->count;
    if (!member->file || first == wanted->count || aorta_by_text(&wanted->items[first], &key) ||
        wanted->items[first].done)
        return NULL;
    AORTA_TRY(write_member(members, wanted->items[first].path));
    for (size_t i = first; i < wanted->count && !aorta_by_text(&wanted->items[i], &key); i++) {
        wanted->items[i].done = true;
        if (i > first) AORTA_TRY(link_file(members, wanted->items[first].path, wanted->items[i].path));
    }
    return NULL;
}

/* ---- all members ---- */

typedef aorta_status take_one(struct members *members, const struct aorta_archive_member *member, const char *path);

static aorta_status each_member(const char *path, struct members *members, take_one *take) {
    struct aorta_archive_member member = {.name = ""};
    struct stat facts;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return AORTA_ERROR(AORTA_IO, "cannot open %s: %s", path, strerror(errno));
    const int64_t most = fstat(file, &facts) ? INT64_MAX : most_unpacked(facts.st_size);
    aorta_status status = aorta_archive_open(path, file, false, &members->archive);
    members->origin = (struct unpack_origin){read_member, members->archive, path, most, too_much};
    while (!status && member.name) {
        status = aorta_archive_next(members->archive, &member);
        if (!status && member.name) status = take(members, &member, resolve(&members->name, "", member.name));
        if (!status && members->origin.left < 0) status = too_much(path);
        if (!status && (members->name.failed || members->memory.failed)) status = no_memory();
    }
    if (members->archive) aorta_archive_close(members->archive);
    members->archive = NULL;
    close(file);
    return status;
}

static void free_members(struct members *members) {
    aorta_text_free(&members->name);
    aorta_arena_free(&members->memory);
}

static aorta_status unpack_archive(const char *path, const char *folder, struct aorta_skipped *skipped) {
    struct members members = {.folder = folder, .skipped = skipped};
    aorta_status status = each_member(path, &members, take_member);
    if (!status) status = resolve_links(&members);
    if (!status && members.wanted.count) status = each_member(path, &members, take_wanted);
    for (size_t i = 0; !status && i < members.wanted.count; i++)
        if (!members.wanted.items[i].done) aorta_skip(skipped, path, members.wanted.items[i].path, no_target);
    free_members(&members);
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
    free_members(&members);
    return status;
}

/* ---- the folder ---- */

static aorta_status new_folder(struct aorta_unpacking *unpacking, const char **folder) {
    struct aorta_trace_list *list = unpacking->list;
    if (!list->unpacked) {
        struct aorta_temporary *made = calloc(1, sizeof *made);
        aorta_status status = made ? aorta_temporary_make("aorta-unpacked-", made) : no_memory();
        if (!status && unpacking->guarded) {
            status = aorta_temporary_guard(made);
            if (status) aorta_temporary_remove(made);
        }
        if (status) {
            free(made);
            return status;
        }
        list->unpacked = made;
    }
    do {
        *folder = aorta_arena_printf(&unpacking->memory, "%s/%zu", list->unpacked->path, ++unpacking->folders);
        if (!*folder) return no_memory();
        if (!mkdir(*folder, 0700)) return NULL;
        if (errno != EEXIST)
            return AORTA_ERROR(AORTA_IO, "%s: %s (TMPDIR names the place)", aorta_shown(list->unpacked->path).text,
                               strerror(errno));
    } while (true);
}

/* Both live as long as the unpacking. */
static void remember(struct aorta_unpacking *unpacking, const char *path, const char *shown) {
    const struct aorta_unpacked_name name = {path, shown};
    aorta_arena_append(&unpacking->memory, &unpacking->names, &unpacking->capacity, &unpacking->count, &name,
                       sizeof name);
}

/* ---- single files ---- */

static aorta_status read_source(void *from, char *buffer, size_t capacity, size_t *got) {
    return aorta_source_read(from, buffer, capacity, got);
}

/* The standard input and its first bytes. */
struct input {
    char head[4096];
    size_t length, given;
    int file;
};

static aorta_status read_input(void *from, char *buffer, size_t capacity, size_t *got) {
    struct input *input = from;
    *got = input->length - input->given;
    if (!*got) return aorta_source_read_file(input->file, "the standard input", buffer, capacity, got);
    if (*got > capacity) *got = capacity;
    memcpy(buffer, input->head + input->given, *got);
    input->given += *got;
    return NULL;
}

/* Checked before anything is written, as input that is no trace may be endless. */
static aorta_status check_input(struct input *input, const char *shown) {
    size_t got = 1;
    while (got && input->length < sizeof input->head) {
        AORTA_TRY(aorta_source_read_file(input->file, "the standard input", input->head + input->length,
                                         sizeof input->head - input->length, &got));
        input->length += got;
    }
    if (!input->length) return AORTA_ERROR(AORTA_USAGE, "%s is empty", shown);
    if (aorta_trace_may_be(input->head, input->length)) return NULL;
    return AORTA_ERROR(AORTA_USAGE, "%s is no trace; AORTA reads %s", shown, aorta_trace_formats);
}

/* The unpacked file keeps the packed one's name, as the name may have the rank. */
static aorta_status unpack_single(struct aorta_unpacking *unpacking, const char *path, const char *folder,
                                  const char **place) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char *made = aorta_arena_printf(&unpacking->memory, "%s/%.*s", folder, (int)aorta_packing_strip(name), name);
    struct aorta_source *source;
    struct stat facts;
    if (!made) return no_memory();
    AORTA_TRY(aorta_source_open(path, &source));
    struct unpack_origin origin = {read_source, source, path,
                                   most_unpacked(stat(path, &facts) ? 0 : (int64_t)facts.st_size), too_much};
    aorta_status status = aorta_unpack_write(&origin, made);
    aorta_source_close(source);
    *place = made;
    return status;
}

static aorta_status too_much_input(const char *shown) {
    return AORTA_ERROR(AORTA_FORMAT, "%s: holds more than %d GiB; write it to a file, and name the file", shown,
                       (int)(MOST_INPUT >> 30));
}

static aorta_status take_input(struct aorta_unpacking *unpacking, const char **place) {
    static const char shown[] = "standard input";
    struct input input = {.file = STDIN_FILENO};
    struct unpack_origin origin = {read_input, &input, shown, MOST_INPUT, too_much_input};
    const char *folder;
    if (isatty(input.file))
        return AORTA_ERROR(AORTA_USAGE, "-: the standard input is a terminal; pipe a trace into the command");
    AORTA_TRY(check_input(&input, shown));
    AORTA_TRY(new_folder(unpacking, &folder));
    char *made = aorta_arena_printf(&unpacking->memory, "%s/stdin", folder);
    if (!made) return no_memory();
    AORTA_TRY(aorta_unpack_write(&origin, made));
    remember(unpacking, made, shown);
    *place = made;
    return NULL;
}

/* ---- what a path is ---- */

/* The first bytes of a file, as stored and unpacked. */
struct heads {
    char packed[512], plain[512];
    size_t packed_length, plain_length;
};

static aorta_status read_heads(const char *path, struct heads *heads) {
    const int file = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file < 0) return AORTA_ERROR(AORTA_IO, "cannot open %s: %s", aorta_shown(path).text, strerror(errno));
    const ssize_t count = pread(file, heads->packed, sizeof heads->packed, 0);
    close(file);
    heads->packed_length = count > 0 ? (size_t)count : 0;
    heads->plain_length = 0;
    const enum aorta_packing packing = aorta_packing_of(heads->packed, heads->packed_length);
    if (packing == AORTA_PACKING_NONE || packing == AORTA_PACKING_ARCHIVE) return NULL;
    aorta_status status = aorta_source_head(path, heads->plain, sizeof heads->plain, &heads->plain_length);
    if (aorta_status_code(status) != AORTA_FORMAT) return status;
    aorta_status_free(status); /* broken: its reader says where */
    return NULL;
}

static aorta_status unpack_file(struct aorta_unpacking *unpacking, const char *path, const char **place) {
    struct heads heads;
    const char *folder;
    *place = path;
    AORTA_TRY(read_heads(path, &heads));
    const bool archive = aorta_packing_of(heads.packed, heads.packed_length) == AORTA_PACKING_ARCHIVE ||
                         aorta_packing_of(heads.plain, heads.plain_length) == AORTA_PACKING_ARCHIVE;
    if (!archive && !(heads.plain_length && aorta_trace_needs_plain(heads.plain, heads.plain_length))) return NULL;
    AORTA_TRY(new_folder(unpacking, &folder));
    *place = folder;
    AORTA_TRY(archive ? unpack_archive(path, folder, &unpacking->skipped)
                      : unpack_single(unpacking, path, folder, place));
    remember(unpacking, *place, path);
    return NULL;
}

aorta_status aorta_unpack(struct aorta_unpacking *unpacking, const char *path, const char **place) {
    const char *file = path;
    if (strcmp(path, "-") == 0) AORTA_TRY(take_input(unpacking, &file));
    AORTA_TRY(unpack_file(unpacking, file, place));
    return unpacking->memory.failed ? no_memory() : NULL;
}
