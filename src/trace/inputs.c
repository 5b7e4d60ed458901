#include "base/array.h"
#include "base/files.h"
#include "base/printable.h"
#include "base/sort.h"
#include "base/table.h"
#include "trace/archive.h"
#include "trace/captures.h"
#include "trace/execution_trace.h"
#include "trace/infer.h"
#include "trace/open.h"
#include "trace/reader.h"
#include "trace/requests.h"
#include "trace/spool.h"
#include "trace/texts.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- names of what was unpacked ---- */

/* Replaces each path of the folder by the name that the user gave. Files unpacked from unpacked files are newer, so the
 * newest name is replaced first. NULL: no memory. */
static char *shown_text(const struct aorta_unpacking *unpacking, const char *text) {
    char *shown = strdup(text);
    for (size_t i = unpacking->count; shown && i > 0; i--) {
        const struct aorta_unpacked_name *name = &unpacking->names[i - 1];
        const size_t length = strlen(name->path);
        struct aorta_text out = {0};
        const char *at = shown, *found;
        while ((found = strstr(at, name->path)) != NULL) {
            const bool whole = !found[length] || !strchr("0123456789", found[length]);
            aorta_text_printf(&out, "%.*s%s", (int)(found - at), at, whole ? name->shown : name->path);
            at = found + length;
        }
        aorta_text_printf(&out, "%s", at);
        aorta_status status = aorta_text_take(&out, &shown);
        if (!status) continue;
        aorta_status_free(status);
        free(shown);
        return NULL;
    }
    return shown;
}

/* The first trace names what was skipped. */
static aorta_status note_skipped(const struct aorta_unpacking *unpacking, struct aorta_trace *trace) {
    const struct aorta_skipped *skipped = &unpacking->skipped;
    if (!skipped->count) return NULL;
    AORTA_TRY(aorta_text_check(&skipped->names));
    char *names = shown_text(unpacking, skipped->names.data);
    free(trace->skipped);
    if (!names || asprintf(&trace->skipped, "not read: %s", names) < 0) trace->skipped = NULL;
    free(names);
    if (!trace->skipped) return AORTA_ERROR(AORTA_MEMORY, "no memory to unpack");
    aorta_make_printable(trace->skipped, strlen(trace->skipped), false);
    trace->warnings[AORTA_REASON_SKIPPED] =
        (struct aorta_trace_warning){.count = (int64_t)skipped->count, .offset = -1};
    return NULL;
}

/* Traces from the `from`th on, and messages, name what the user named; the first trace names what was skipped.
 * AORTA_MEMORY. */
static aorta_status unpack_name_traces(const struct aorta_unpacking *unpacking, size_t from) {
    const struct aorta_trace_list *list = unpacking->list;
    if (from < list->count) AORTA_TRY(note_skipped(unpacking, list->items[from]));
    for (size_t i = from; unpacking->count && i < list->count; i++) {
        struct aorta_trace *trace = list->items[i];
        if (!list->unpacked || strncmp(trace->path, list->unpacked->path, strlen(list->unpacked->path)) != 0) continue;
        char *shown = shown_text(unpacking, trace->path);
        if (!shown) return AORTA_ERROR(AORTA_MEMORY, "no memory to unpack");
        trace->unpacked = trace->path;
        trace->path = shown;
    }
    return NULL;
}

static aorta_status unpack_name_failure(const struct aorta_unpacking *unpacking, aorta_status status) {
    char *shown = status && unpacking->count ? shown_text(unpacking, aorta_status_message(status)) : NULL;
    if (!shown) return status;
    aorta_status named =
        aorta_error_at(aorta_status_file(status), aorta_status_line(status), aorta_status_code(status), "%s", shown);
    free(shown);
    aorta_status_free(status);
    return named;
}

/* ---- files that repeat the work of other files, such as a merged file in the folder of its parts ---- */

/* Names and lengths of a trace's work: merging changes neither, whatever it does to clocks. */
struct signature {
    uint64_t sum;
    size_t count;
};

struct repeating {
    struct aorta_trace **items;
    size_t count;
    struct signature *signatures;
    size_t *file; /* place of the first trace of the same file */
    bool *gone;
};

static struct signature signature_of(const struct aorta_trace *trace) {
    struct signature signature = {0, trace->work_count};
    for (size_t i = 0; i < trace->work_count; i++) {
        const struct aorta_trace_work *work = &trace->work[i];
        const uint64_t name = work->name == AORTA_TRACE_NONE ? 0 : trace->texts->entries[work->name].hash;
        signature.sum += aorta_hash_add(aorta_hash_add(0, name), (uint64_t)(work->end_ns - work->start_ns));
    }
    return signature;
}

static bool are_equal(struct signature a, struct signature b) {
    return a.count && a.count == b.count && a.sum == b.sum;
}

/* A trace of another file with the same work; count: there is none. */
static size_t find_twin(const struct repeating *r, size_t trace) {
    size_t at = 0;
    while (at < r->count &&
           (r->gone[at] || r->file[at] == r->file[trace] || !are_equal(r->signatures[at], r->signatures[trace])))
        at++;
    return at;
}

/* `trace` says so, of each file once. */
static void drop(struct repeating *r, size_t trace, size_t repeated) {
    r->gone[repeated] = true;
    if (r->file[repeated] == repeated)
        aorta_trace_warn_of_file(r->items[trace], AORTA_REASON_REPEATED, r->items[repeated]->path);
}

/* The traces [first, end) are of one file. */
static void compare_merged(struct repeating *r, size_t first, size_t end) {
    size_t twins = 0, twin;
    for (size_t i = first; i < end; i++) twins += find_twin(r, i) < r->count;
    for (size_t i = first; i < end; i++) {
        if ((twin = find_twin(r, i)) == r->count) continue;
        if (twins == end - first)
            drop(r, twin, i);
        else
            drop(r, i, twin);
    }
}

/* Drops a merged file whose ranks are not separate: its work is the sum of the work of all remaining files. */
static void compare_whole(struct repeating *r, size_t trace) {
    struct signature others = {0};
    size_t files = 0, first = r->count;
    for (size_t i = 0; i < r->count; i++) {
        if (i == trace || r->gone[i]) continue;
        others.sum += r->signatures[i].sum;
        others.count += r->signatures[i].count;
        files += r->file[i] == i;
        if (first == r->count) first = i;
    }
    if (files > 1 && are_equal(others, r->signatures[trace])) drop(r, first, trace);
}

static void find_repeated(struct repeating *r) {
    for (size_t i = 0; i < r->count; i++) {
        r->signatures[i] = signature_of(r->items[i]);
        r->file[i] = i && !strcmp(r->items[i - 1]->path, r->items[i]->path) ? r->file[i - 1] : i;
    }
    for (size_t i = 0, end; i < r->count; i = end) {
        for (end = i + 1; end < r->count && r->file[end] == i;) end++;
        if (end - i > 1 && end - i < r->count) compare_merged(r, i, end);
        if (end - i == 1 && r->count > 2 && !r->gone[i]) compare_whole(r, i);
    }
}

static void take_out(struct repeating *r, struct aorta_trace_list *list, size_t from) {
    list->count = from;
    for (size_t i = 0; i < r->count; i++)
        if (r->gone[i])
            aorta_trace_free(r->items[i]);
        else
            list->items[list->count++] = r->items[i];
}

static aorta_status drop_repeated(struct aorta_trace_list *list, size_t from) {
    struct repeating r = {.items = list->items + from, .count = list->count - from};
    if (r.count < 3) return NULL;
    r.signatures = malloc(r.count * sizeof *r.signatures);
    r.file = malloc(r.count * sizeof *r.file);
    r.gone = calloc(r.count, sizeof *r.gone);
    const bool made = r.signatures && r.file && r.gone;
    if (made) {
        find_repeated(&r);
        take_out(&r, list, from);
    }
    free(r.signatures);
    free(r.file);
    free(r.gone);
    return made ? NULL : AORTA_ERROR(AORTA_MEMORY, "no memory to compare %zu traces", r.count);
}

/* ---- paths ---- */

enum { DEEPEST = 8 };

struct paths {
    char **items; /* owned, as are the strings */
    size_t count, capacity;
    struct aorta_skipped *skipped; /* NULL: not collected */
};

static void free_paths(struct paths *paths) {
    for (size_t i = 0; i < paths->count; i++) free(paths->items[i]);
    free(paths->items);
}

static aorta_status add_path(struct paths *paths, const char *path) {
    AORTA_TRY(aorta_array_reserve(&paths->items, &paths->capacity, paths->count + 1, sizeof *paths->items, "paths"));
    paths->items[paths->count] = strdup(path);
    if (!paths->items[paths->count]) return AORTA_ERROR(AORTA_MEMORY, "no memory for a path");
    paths->count++;
    return NULL;
}

/* ---- folders ---- */

static aorta_status add_folder(struct paths *paths, const char *folder, int depth);

/* A name with a newline could print lines of its own. */
static aorta_status cannot_show(const char *path) {
    return AORTA_ERROR(AORTA_USAGE, "%s: the name holds control characters (here \"?\"); rename the file",
                       aorta_shown(path).text);
}

static void skip(const struct paths *paths, const char *path, const char *why) {
    const char *slash = strrchr(path, '/');
    char *folder = paths->skipped ? strndup(path, (size_t)(slash - path)) : NULL;
    if (folder) aorta_skip(paths->skipped, folder, slash + 1, why);
    free(folder);
}

static aorta_status add_entry(struct paths *paths, const char *path, int depth) {
    struct stat facts;
    bool trace;
    const bool found = stat(path, &facts) == 0;
    if (found && S_ISDIR(facts.st_mode)) return depth < DEEPEST ? add_folder(paths, path, depth + 1) : NULL;
    if (!found || !S_ISREG(facts.st_mode)) {
        if (aorta_trace_is_name(path)) skip(paths, path, found ? "no regular file" : "a link to no file");
        return NULL;
    }
    AORTA_TRY(aorta_trace_recognise(path, &trace));
    if (trace && !aorta_is_printable(path, strlen(path), false)) return cannot_show(path);
    return trace ? add_path(paths, path) : NULL;
}

/* rank2 before rank10. */
static int by_version(const struct dirent **left, const struct dirent **right) {
    return strverscmp((*left)->d_name, (*right)->d_name);
}

static int is_visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static aorta_status add_folder(struct paths *paths, const char *folder, int depth) {
    struct dirent **entries;
    int count = scandir(folder, &entries, is_visible, by_version);
    if (count < 0) return AORTA_ERROR(AORTA_IO, "cannot read the folder %s: %s", folder, strerror(errno));
    aorta_status status = NULL;
    for (int i = 0; i < count; i++) {
        if (!status) status = add_entry(paths, aorta_path_in(folder, "%s", entries[i]->d_name).text, depth);
        free(entries[i]);
    }
    free(entries);
    return status;
}

aorta_status aorta_trace_check_unused(const char *folder, const char *option) {
    struct paths paths = {0};
    aorta_status status = add_folder(&paths, folder, 0);
    if (!status && paths.count) {
        const char *found = paths.items[0] + strlen(folder);
        status = AORTA_ERROR(AORTA_USAGE,
                             "%s %s: holds the recording of another run (%s); remove it, or name another directory",
                             option, folder, found + (*found == '/'));
    }
    free_paths(&paths);
    return status;
}

/* ---- one file by two names ---- */

struct facts {
    bool known;
    dev_t device;
    ino_t number;
    off_t size;
    uint64_t hash;  /* of the first bytes or of all; 0: no other file has this size */
    size_t place;   /* among the paths */
    int64_t copies; /* other paths of the same content */
    bool copy;
};

static struct facts facts_of(const char *path, size_t place) {
    struct stat found;
    if (stat(path, &found) != 0) return (struct facts){.place = place};
    return (struct facts){
        .known = true, .device = found.st_dev, .number = found.st_ino, .size = found.st_size, .place = place};
}

/* Up to the first piece that differs. What cannot be read is no copy: its reader says why. */
static bool same_bytes(const char *left, const char *right) {
    enum { PIECE = 1 << 16 };
    FILE *files[2] = {fopen(left, "rbe"), fopen(right, "rbe")};
    char *bytes = files[0] && files[1] ? malloc(2 * PIECE) : NULL;
    bool same = bytes != NULL;
    for (size_t got = PIECE; same && got == PIECE;) {
        got = fread(bytes, 1, PIECE, files[0]);
        same = fread(bytes + PIECE, 1, PIECE, files[1]) == got && memcmp(bytes, bytes + PIECE, got) == 0;
    }
    same = same && !ferror(files[0]) && !ferror(files[1]);
    for (int i = 0; i < 2; i++)
        if (files[i]) fclose(files[i]);
    free(bytes);
    return same;
}

/* Hash of the first `most` bytes; 0: the file cannot be read. */
static uint64_t hash_file(const char *path, size_t most) {
    enum { PIECE = 1 << 16 };
    FILE *file = fopen(path, "rbe");
    char *bytes = file ? malloc(PIECE) : NULL;
    uint64_t hash = 0;
    for (size_t got = PIECE; bytes && got == PIECE && most; most -= got) {
        got = fread(bytes, 1, most < PIECE ? most : PIECE, file);
        hash = aorta_hash_add(hash, aorta_hash_bytes(bytes, got));
    }
    if (file) fclose(file);
    free(bytes);
    return hash;
}

static int by_content(const void *left, const void *right) {
    const struct facts *a = left, *b = right;
    if (a->size != b->size) return aorta_order_int64(a->size, b->size);
    if (a->hash != b->hash) return aorta_order_uint64(a->hash, b->hash);
    return (a->place > b->place) - (a->place < b->place);
}

static int by_place(const void *left, const void *right) {
    const struct facts *a = left, *b = right;
    return (a->place > b->place) - (a->place < b->place);
}

static bool alike(const struct facts *a, const struct facts *b) {
    return a->known && b->known && a->size == b->size && a->hash == b->hash;
}

/* Hashes the files that are alike so far; the facts are sorted. */
static void hash_alike(const struct paths *paths, struct facts *facts, size_t most) {
    bool before = false;
    for (size_t i = 0; i < paths->count; i++) {
        const bool after = i + 1 < paths->count && alike(&facts[i], &facts[i + 1]);
        if (before || after) facts[i].hash = hash_file(paths->items[facts[i].place], most);
        before = after;
    }
    qsort(facts, paths->count, sizeof *facts, by_content);
}

/* Files that are alike are compared with the first of them alone: equal hashes of other files only miss copies. */
static void mark_copies(const struct paths *paths, struct facts *facts) {
    size_t first = 0;
    for (size_t i = 1; i < paths->count; i++) {
        if (!alike(&facts[first], &facts[i])) {
            first = i;
            continue;
        }
        const bool same_file = facts[first].device == facts[i].device && facts[first].number == facts[i].number;
        facts[i].copy = same_file || same_bytes(paths->items[facts[first].place], paths->items[facts[i].place]);
        facts[first].copies += facts[i].copy;
    }
}

/* Trainers leave a trace under the names of two tools: torch_profiler/ and chrome_trace/. `facts` has a place for each
 * path. Files of different ranks hardly ever have one size, and then differ early. */
static void drop_copies(struct paths *paths, struct facts *facts) {
    enum { EARLY = 1 << 16 };
    size_t count = 0;
    if (!paths->count) return;
    for (size_t i = 0; i < paths->count; i++) facts[i] = facts_of(paths->items[i], i);
    qsort(facts, paths->count, sizeof *facts, by_content);
    hash_alike(paths, facts, EARLY);
    hash_alike(paths, facts, SIZE_MAX);
    mark_copies(paths, facts);
    qsort(facts, paths->count, sizeof *facts, by_place);
    for (size_t i = 0; i < paths->count; i++) {
        if (facts[i].copy) {
            free(paths->items[i]);
            continue;
        }
        paths->items[count] = paths->items[i];
        facts[count++] = facts[i];
    }
    paths->count = count;
}

/* At the first trace of the file; those before `from` were in the list already. */
static void note_copies(const struct paths *paths, const struct facts *facts, struct aorta_trace_list *list,
                        size_t from) {
    for (size_t i = 0; i < paths->count; i++) {
        size_t at = from;
        while (at < list->count && strcmp(list->items[at]->path, paths->items[i]) != 0) at++;
        if (facts[i].copies && at < list->count)
            list->items[at]->warnings[AORTA_REASON_SAME_FILE] =
                (struct aorta_trace_warning){.count = facts[i].copies, .offset = -1};
    }
}

/* ---- all of them ---- */

/* Drops files that yield to other files of the folder, whose files begin at `first`. */
static void drop_yielding(struct paths *paths, size_t first) {
    size_t count = first;
    bool others = false;
    for (size_t i = first; i < paths->count; i++) others |= !aorta_trace_yields(paths->items[i]);
    for (size_t i = first; i < paths->count; i++) {
        char *path = paths->items[i];
        if (!others || !aorta_trace_yields(path)) {
            paths->items[count++] = path;
            continue;
        }
        if (aorta_packing_is_archive_name(path)) skip(paths, path, "an archive next to traces; name it to read it");
        free(path);
    }
    paths->count = count;
}

static aorta_status holds_none(const char *path, const struct aorta_skipped *skipped) {
    if (skipped->count)
        return AORTA_ERROR(AORTA_USAGE, "%s holds no trace that is read; not read: %s", path,
                           skipped->names.failed ? "(no memory)" : skipped->names.data);
    return AORTA_ERROR(AORTA_USAGE, "%s holds no trace; what can be read: %s", path, aorta_trace_formats);
}

static aorta_status add_input(struct paths *paths, const char *path) {
    struct stat facts;
    if (strcmp(path, "-") == 0) return add_path(paths, path);
    if (stat(path, &facts) != 0)
        return AORTA_ERROR(AORTA_USAGE, "cannot open %s: %s", aorta_shown(path).text, strerror(errno));
    if (!S_ISDIR(facts.st_mode)) return add_path(paths, path);
    size_t before = paths->count;
    AORTA_TRY(add_folder(paths, path, 0));
    drop_yielding(paths, before);
    return paths->count > before ? NULL : holds_none(path, paths->skipped);
}

/* Adds the unpacked files of a packed input. */
static aorta_status unpack_into(struct aorta_unpacking *unpacking, const char *path, struct paths *paths) {
    char *place;
    AORTA_TRY(aorta_unpack(unpacking, path, &place));
    aorta_status status = add_input(paths, place);
    free(place);
    return status;
}

static aorta_status unpack_all(struct aorta_unpacking *unpacking, struct paths *paths) {
    struct paths plain = {.skipped = paths->skipped};
    aorta_status status = NULL;
    for (size_t i = 0; !status && i < paths->count; i++) status = unpack_into(unpacking, paths->items[i], &plain);
    free_paths(paths);
    *paths = plain;
    return status;
}

/* Recorded by what marks no steps itself. Other recorders do, or their user did not want any. */
static bool without_marks(const struct aorta_trace_list *list) {
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i]->format != AORTA_TRACE_SPOOL && list->items[i]->format != AORTA_TRACE_NSYS) return false;
    return true;
}

static aorta_status open_once(struct paths *paths, const struct aorta_trace_options *options,
                              struct aorta_trace_list *list) {
    size_t before = list->count;
    struct facts *facts = malloc((paths->count + 1) * sizeof *facts);
    if (!facts) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu paths", paths->count);
    drop_copies(paths, facts);
    aorta_status status = aorta_trace_open_many((const char *const *)paths->items, paths->count, options, list);
    if (!status) note_copies(paths, facts, list, before);
    free(facts);
    return status;
}

static aorta_status add_companion(struct aorta_execution_traces **executed, const char *path) {
    struct aorta_json_stream *stream;
    AORTA_TRY(aorta_json_stream_open(path, &stream));
    aorta_status status = aorta_execution_traces_add(executed, stream);
    aorta_json_stream_close(stream);
    return status;
}

/* Companions leave the paths if traces remain there. */
static aorta_status take_companions(struct paths *paths, struct aorta_execution_traces **executed) {
    bool *companion = calloc(paths->count + 1, sizeof *companion);
    size_t count = 0, used = 0;
    aorta_status status = companion ? NULL : AORTA_ERROR(AORTA_MEMORY, "no memory for %zu paths", paths->count);
    for (size_t i = 0; !status && paths->count > 1 && i < paths->count; i++) {
        status = aorta_trace_is_companion(paths->items[i], &companion[i]);
        count += companion[i];
    }
    for (size_t i = 0; !status && count && count < paths->count && i < paths->count; i++)
        if (companion[i]) status = add_companion(executed, paths->items[i]);
    for (size_t i = 0; !status && count < paths->count && i < paths->count; i++)
        if (companion[i])
            free(paths->items[i]);
        else
            paths->items[used++] = paths->items[i];
    if (!status && count < paths->count) paths->count = used;
    free(companion);
    return status;
}

/* The files' execution traces give shapes to the other files' operations. */
static aorta_status open_with_companions(struct paths *paths, const struct aorta_trace_options *options,
                                         struct aorta_trace_list *list) {
    struct aorta_trace_options more = options ? *options : (struct aorta_trace_options){0};
    const size_t before = list->count;
    aorta_status status = take_companions(paths, &more.executed);
    if (!status) status = open_once(paths, &more, list);
    if (!status && more.executed && list->count > before)
        aorta_execution_traces_note_unused(more.executed, list->items[before]);
    aorta_execution_traces_free(more.executed);
    return status;
}

static aorta_status read_inputs(const char *const *paths, size_t count, const struct aorta_trace_options *options,
                                struct aorta_unpacking *unpacking) {
    struct paths files = {.skipped = &unpacking->skipped};
    const size_t before = unpacking->list->count;
    aorta_status status = NULL;
    for (size_t i = 0; !status && i < count; i++) status = add_input(&files, paths[i]);
    if (!status) status = unpack_all(unpacking, &files);
    if (!status) status = open_with_companions(&files, options, unpacking->list);
    if (!status) status = unpack_name_traces(unpacking, before);
    if (!status) status = drop_repeated(unpacking->list, before);
    free_paths(&files);
    return status;
}

aorta_status aorta_trace_open_inputs(const char *const *paths, size_t count, const struct aorta_trace_options *options,
                                     struct aorta_trace_list *list) {
    struct aorta_unpacking unpacking = {.list = list, .guarded = options && options->guarded};
    aorta_status status = read_inputs(paths, count, options, &unpacking);
    status = unpack_name_failure(&unpacking, status);
    aorta_unpacking_free(&unpacking);
    if (status) return status;
    if (options && options->to_align)
        aorta_trace_drop_captures(list);
    else
        AORTA_TRY(aorta_trace_join_captures(list));
    for (size_t i = 0; i < list->count; i++) AORTA_TRY(aorta_trace_count_requests(list->items[i]));
    aorta_spool_number_ranks(list);
    AORTA_TRY(aorta_trace_mark_steps(list, options ? options->step_range : NULL));
    return without_marks(list) ? aorta_trace_infer_steps(list) : NULL;
}
