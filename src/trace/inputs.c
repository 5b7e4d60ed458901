#include "base/files.h"
#include "base/intern.h"
#include "base/printable.h"
#include "base/table.h"
#include "trace/archive.h"
#include "trace/captures.h"
#include "trace/execution_trace.h"
#include "trace/infer.h"
#include "trace/operation_inputs.h"
#include "trace/ranks.h"
#include "trace/reader.h"
#include "trace/source.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- names of unpacked files ---- */

/* Replaces paths of unpacked files by the names that the user gave. Newer names come first, as a file unpacked from an
 * unpacked file is newer. "" if memory is exhausted. */
static const char *shown_text(struct aorta_unpacking *unpacking, const char *text) {
    for (size_t i = unpacking->count; i > 0; i--) {
        const struct aorta_unpacked_name *name = &unpacking->names[i - 1];
        const size_t length = strlen(name->path);
        struct aorta_text out = {0};
        const char *at = text, *found;
        while ((found = strstr(at, name->path)) != NULL) {
            const bool whole = !found[length] || !strchr("0123456789", found[length]);
            aorta_text_printf(&out, "%.*s%s", (int)(found - at), at, whole ? name->shown : name->path);
            at = found + length;
        }
        aorta_text_puts(&out, at);
        text = aorta_text_move(&out, &unpacking->memory);
        if (!text) return "";
    }
    return text;
}

void aorta_skip(struct aorta_skipped *skipped, const char *folder, const char *name, const char *why) {
    enum { NAMED = 100 };
    if (skipped->count < NAMED)
        aorta_text_printf(&skipped->names, "%s%s/%s (%s)", skipped->count ? ", " : "", folder, name, why);
    skipped->count++;
}

/* Lists the skipped files in the first trace's warnings. */
static void note_skipped(struct aorta_unpacking *unpacking, struct aorta_trace *trace) {
    struct aorta_skipped *skipped = &unpacking->skipped;
    unpacking->memory.failed |= skipped->names.failed;
    if (!skipped->count || skipped->names.failed) return;
    const char *names =
        aorta_arena_printf(&unpacking->memory, "not read: %s", shown_text(unpacking, skipped->names.data));
    const uint32_t text = names ? aorta_texts_add(trace->texts, names, strlen(names)) : AORTA_TRACE_NONE;
    unpacking->memory.failed |= text == AORTA_TRACE_NONE;
    trace->warnings[AORTA_REASON_SKIPPED] =
        (struct aorta_trace_warning){(int64_t)skipped->count, -1, NULL, aorta_trace_text(trace, text)};
}

/* Gives traces from `from` on the names that the user gave; the first one lists skipped files. */
static void name_traces(struct aorta_unpacking *unpacking, size_t from) {
    const struct aorta_trace_list *list = unpacking->list;
    if (from < list->count) note_skipped(unpacking, list->items[from]);
    for (size_t i = from; unpacking->count && i < list->count; i++) {
        struct aorta_trace *trace = list->items[i];
        if (!list->unpacked || !aorta_begins(trace->path, list->unpacked->path)) continue;
        char *shown = strdup(shown_text(unpacking, trace->path));
        unpacking->memory.failed |= !shown;
        if (!shown) return;
        trace->unpacked = trace->path;
        trace->path = shown;
    }
}

static aorta_status name_failure(struct aorta_unpacking *unpacking, aorta_status status) {
    if (!status || !unpacking->count) return status;
    const char *shown = shown_text(unpacking, aorta_status_message(status));
    if (!*shown) return status;
    aorta_status named = AORTA_ERROR(aorta_status_code(status), "%s", shown);
    aorta_status_free(status);
    return named;
}

/* ---- files that repeat the work of other files, such as a merged file in the folder of its parts ---- */

/* A hash of the names and durations of a trace's work, which merging does not change, unlike times. */
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
    AORTA_EACH (const struct aorta_trace_work, work, trace->work, trace->work_count) {
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

/* The warning, in `trace`, is given once per file. */
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

static void drop_repeated(struct aorta_trace_list *list, size_t from, struct aorta_arena *memory) {
    struct repeating r = {.items = list->items + from, .count = list->count - from};
    if (r.count < 3) return;
    r.signatures = aorta_arena_raw(memory, r.count * sizeof *r.signatures);
    r.file = aorta_arena_raw(memory, r.count * sizeof *r.file);
    r.gone = aorta_arena_alloc(memory, r.count * sizeof *r.gone);
    if (memory->failed) return;
    find_repeated(&r);
    list->count = from;
    for (size_t i = 0; i < r.count; i++)
        if (r.gone[i])
            aorta_trace_free(r.items[i]);
        else
            list->items[list->count++] = r.items[i];
}

/* ---- paths ---- */

enum { DEEPEST = 8 };

struct paths {
    const char **items; /* in the arena, as are the strings */
    size_t count, capacity;
    struct aorta_skipped *skipped; /* NULL: not collected */
    struct aorta_arena *memory;
};

/* The path lives as long as the arena. */
static void add_path(struct paths *paths, const char *path) {
    aorta_arena_append(paths->memory, &paths->items, &paths->capacity, &paths->count, &path, sizeof path);
}

/* ---- folders ---- */

static aorta_status add_folder(struct paths *paths, const char *folder, int depth);

static void skip(const struct paths *paths, const char *path, const char *why) {
    const char *slash = strrchr(path, '/');
    if (!paths->skipped) return;
    const char *folder = aorta_arena_printf(paths->memory, "%.*s", (int)(slash - path), path);
    if (folder) aorta_skip(paths->skipped, folder, slash + 1, why);
}

static aorta_status add_entry(struct paths *paths, const char *path, int depth) {
    struct stat facts;
    bool trace, pointer;
    const bool found = stat(path, &facts) == 0;
    if (found && S_ISDIR(facts.st_mode)) return depth < DEEPEST ? add_folder(paths, path, depth + 1) : NULL;
    if (!found || !S_ISREG(facts.st_mode)) {
        if (aorta_trace_is_name(path)) skip(paths, path, found ? "no regular file" : "a link to no file");
        return NULL;
    }
    AORTA_TRY(aorta_trace_recognise(path, &trace, &pointer));
    if (pointer) skip(paths, path, "a pointer of Git LFS: git lfs pull");
    if (trace && !aorta_is_printable(path, strlen(path), false)) /* a newline could print lines of its own */
        return AORTA_ERROR(AORTA_USAGE, "%s: the name holds control characters (here \"?\"); rename the file",
                           aorta_shown(path).text);
    if (trace) add_path(paths, path);
    return NULL;
}

/* rank2 before rank10. */
static int by_version(const struct dirent **left, const struct dirent **right) {
    return strverscmp((*left)->d_name, (*right)->d_name);
}

static int is_visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static aorta_status add_folder(struct paths *paths, const char *folder, int depth) {
    const char *slash = folder[strlen(folder) - 1] == '/' ? "" : "/";
    struct dirent **entries;
    int count = scandir(folder, &entries, is_visible, by_version);
    if (count < 0) return AORTA_ERROR(AORTA_IO, "cannot read the folder %s: %s", folder, strerror(errno));
    aorta_status status = NULL;
    for (int i = 0; i < count; i++) {
        const char *path =
            status ? NULL : aorta_arena_printf(paths->memory, "%s%s%s", folder, slash, entries[i]->d_name);
        if (path) status = add_entry(paths, path, depth);
        free(entries[i]);
    }
    free(entries);
    return status;
}

aorta_status aorta_trace_check_unused(const char *folder, const char *option) {
    struct aorta_arena memory = {0};
    struct paths paths = {.memory = &memory};
    aorta_status status = add_folder(&paths, folder, 0);
    if (!status) status = aorta_arena_check(&memory, "the paths of a folder");
    if (!status && paths.count) {
        const char *found = paths.items[0] + strlen(folder);
        status = AORTA_ERROR(AORTA_USAGE,
                             "%s %s: holds the recording of another run (%s); remove it, or name another directory",
                             option, folder, found + (*found == '/'));
    }
    aorta_arena_free(&memory);
    return status;
}

/* ---- one file by two names ---- */

struct facts {
    dev_t device;
    ino_t number;
    off_t size;     /* < 0: unknown; then unique */
    uint64_t hash;  /* of the first bytes; 0: not needed yet */
    int64_t copies; /* other paths of the same content */
};

static struct facts facts_of(const char *path, size_t place) {
    struct stat found;
    if (stat(path, &found) != 0) return (struct facts){.size = -1 - (off_t)place};
    return (struct facts){.device = found.st_dev, .number = found.st_ino, .size = found.st_size};
}

/* Compares up to the first difference. An unreadable file is no copy; its reader reports the error. */
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

static uint64_t hash_beginning(const char *path, struct facts *facts) {
    char bytes[1 << 16];
    if (!facts->hash) facts->hash = aorta_hash_bytes(bytes, aorta_file_peek(path, bytes, sizeof bytes));
    return facts->hash;
}

static bool are_copies(const char *left, struct facts *a, const char *right, struct facts *b) {
    if (a->size != b->size) return false;
    if (a->device == b->device && a->number == b->number) return true;
    return hash_beginning(left, a) == hash_beginning(right, b) && same_bytes(left, right);
}

/* Trainers store one trace twice, in torch_profiler/ and chrome_trace/. `facts` has space for each path. Comparing is
 * fast, as files of different ranks rarely have equal sizes and then differ early. */
static void drop_copies(struct paths *paths, struct facts *facts) {
    size_t count = 0;
    for (size_t i = 0, k; i < paths->count; i++) {
        struct facts found = facts_of(paths->items[i], i);
        for (k = 0; k < count && !are_copies(paths->items[k], &facts[k], paths->items[i], &found);) k++;
        if (k < count) {
            facts[k].copies++;
            continue;
        }
        paths->items[count] = paths->items[i];
        facts[count++] = found;
    }
    paths->count = count;
}

/* Warns in the file's first trace. Traces before `from` were in the list already. */
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

/* ---- all inputs ---- */

/* Drops files of a folder that are read only if it has no other traces (aorta_trace_yields). They begin at `first`. */
static void drop_yielding(struct paths *paths, size_t first) {
    size_t count = first;
    bool others = false;
    for (size_t i = first; i < paths->count; i++) others |= !aorta_trace_yields(paths->items[i]);
    for (size_t i = first; i < paths->count; i++) {
        const char *path = paths->items[i];
        if (!others || !aorta_trace_yields(path))
            paths->items[count++] = path;
        else if (aorta_packing_is_archive_name(path))
            skip(paths, path, "an archive next to traces; name it to read it");
    }
    paths->count = count;
}

static aorta_status holds_none(const char *path, const struct aorta_skipped *skipped) {
    if (skipped->count)
        return AORTA_ERROR(AORTA_USAGE, "%s contains no trace that is read; not read: %s", path,
                           skipped->names.failed ? "(no memory)" : skipped->names.data);
    return AORTA_ERROR(AORTA_USAGE, "%s contains no trace; aorta trace analyze --help lists what can be read", path);
}

static aorta_status add_input(struct paths *paths, const char *path) {
    struct stat facts;
    const bool named = strcmp(path, "-") != 0;
    if (named && stat(path, &facts) != 0)
        return AORTA_ERROR(AORTA_USAGE, "cannot open %s: %s", aorta_shown(path).text, strerror(errno));
    if (!named || !S_ISDIR(facts.st_mode)) {
        add_path(paths, path);
        return NULL;
    }
    size_t before = paths->count;
    AORTA_TRY(add_folder(paths, path, 0));
    AORTA_TRY(aorta_arena_check(paths->memory, "the paths of a folder"));
    drop_yielding(paths, before);
    return paths->count > before ? NULL : holds_none(path, paths->skipped);
}

/* Packed inputs become their unpacked files. */
static aorta_status unpack_all(struct aorta_unpacking *unpacking, struct paths *paths) {
    struct paths plain = {.skipped = paths->skipped, .memory = paths->memory};
    for (size_t i = 0; i < paths->count; i++) {
        const char *place;
        AORTA_TRY(aorta_unpack(unpacking, paths->items[i], &place));
        AORTA_TRY(add_input(&plain, place));
    }
    *paths = plain;
    return NULL;
}

/* Whether to infer steps: only for recorders that cannot mark them, and if kernels were recorded. For all other
 * recorders, unmarked steps were not wanted. */
static bool without_marks(const struct aorta_trace_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        const enum aorta_trace_format by = list->items[i]->format;
        if (by == AORTA_TRACE_KINETO || by == AORTA_TRACE_XLA || by == AORTA_TRACE_XPLANE) return false;
        if (by == AORTA_TRACE_METRICS || aorta_trace_is_too_thin(list->items[i])) return false;
    }
    return true;
}

static aorta_status open_once(struct paths *paths, const struct aorta_trace_options *options,
                              struct aorta_trace_list *list) {
    size_t before = list->count;
    struct facts *facts = aorta_arena_raw(paths->memory, paths->count * sizeof *facts);
    AORTA_TRY(aorta_arena_check(paths->memory, "the paths of the traces"));
    drop_copies(paths, facts);
    AORTA_TRY(aorta_trace_open_many(paths->items, paths->count, options, list));
    note_copies(paths, facts, list, before);
    return NULL;
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
    bool *companion = aorta_arena_alloc(paths->memory, paths->count);
    size_t count = 0, used = 0;
    AORTA_TRY(aorta_arena_check(paths->memory, "the paths of the traces"));
    for (size_t i = 0; paths->count > 1 && i < paths->count; i++) {
        AORTA_TRY(aorta_trace_is_companion(paths->items[i], &companion[i]));
        count += companion[i];
    }
    if (count == paths->count) return NULL;
    for (size_t i = 0; i < paths->count; i++)
        if (companion[i])
            AORTA_TRY(add_companion(executed, paths->items[i]));
        else
            paths->items[used++] = paths->items[i];
    paths->count = used;
    return NULL;
}

/* Execution traces among the files give shapes to operations of the traces. */
static aorta_status open_with_companions(struct paths *paths, const struct aorta_trace_options *options,
                                         struct aorta_trace_list *list) {
    struct aorta_trace_options more = options ? *options : (struct aorta_trace_options){0};
    const size_t before = list->count;
    aorta_status status = take_companions(paths, &more.executed);
    if (!status) status = open_once(paths, &more, list);
    if (!status && more.executed && list->count > before)
        aorta_execution_traces_note_unused(more.executed, list->items[before]);
    if (list->executed) aorta_execution_traces_free(list->executed);
    list->executed = more.executed;
    return status;
}

static aorta_status read_inputs(const char *const *paths, size_t count, const struct aorta_trace_options *options,
                                struct aorta_unpacking *unpacking) {
    struct paths files = {.skipped = &unpacking->skipped, .memory = &unpacking->memory};
    const size_t before = unpacking->list->count;
    for (size_t i = 0; i < count; i++) AORTA_TRY(add_input(&files, paths[i]));
    AORTA_TRY(unpack_all(unpacking, &files));
    AORTA_TRY(open_with_companions(&files, options, unpacking->list));
    name_traces(unpacking, before);
    drop_repeated(unpacking->list, before, &unpacking->memory);
    return aorta_arena_check(&unpacking->memory, "the paths of the traces");
}

aorta_status aorta_trace_open_inputs(const char *const *paths, size_t count, const struct aorta_trace_options *options,
                                     struct aorta_trace_list *list) {
    struct aorta_unpacking unpacking = {.list = list, .guarded = options && options->guarded};
    aorta_status status = read_inputs(paths, count, options, &unpacking);
    status = name_failure(&unpacking, status);
    aorta_arena_free(&unpacking.memory);
    aorta_text_free(&unpacking.skipped.names);
    return status ? status : aorta_trace_finish(list, options);
}

aorta_status aorta_trace_finish(struct aorta_trace_list *list, const struct aorta_trace_options *options) {
    if (options && options->to_align)
        aorta_trace_drop_captures(list);
    else
        AORTA_TRY(aorta_trace_join_captures(list));
    for (size_t i = 0; i < list->count; i++) AORTA_TRY(aorta_trace_count_requests(list->items[i]));
    aorta_spool_number_ranks(list);
    AORTA_TRY(aorta_trace_mark_steps(list, options ? options->step_range : NULL));
    return without_marks(list) ? aorta_trace_infer_steps(list) : NULL;
}
