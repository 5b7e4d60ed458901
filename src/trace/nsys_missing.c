/* Explains why an export of Nsight Systems has no GPU work, from what was recorded instead and from DIAGNOSTIC_EVENT
 * (since 2021.4). */
#include "base/printable.h"
#include "trace/sqlite.h"

#include <stdio.h>
#include <string.h>

struct missing {
    struct aorta_arena arena;
    struct aorta_sqlite_texts texts;
    size_t calls, launches;
    char said[256]; /* "" without a message about CUDA */
    size_t failed;  /* calls */
    int64_t error;  /* of the first */
    char name[64];  /* of its call */
    bool cause;     /* `said` is of the library in the program, and so the cause */
    bool wsl;       /* recorded under WSL */
};

static void count_call(void *context, sqlite3_stmt *row) {
    struct missing *missing = context;
    enum aorta_trace_call_kind kind;
    int64_t number;
    missing->calls++;
    const char *name = aorta_sqlite_number(row, 0, &number) ? aorta_sqlite_find_text(&missing->texts, number) : NULL;
    if (!name || !aorta_trace_call_classify(name, &kind)) return;
    missing->launches += kind == AORTA_CALL_LAUNCH || kind == AORTA_CALL_GRAPH_LAUNCH;
    const int64_t result = aorta_sqlite_number_or(row, 1, 0);
    if (!aorta_cuda_call_failed(result, kind) || missing->failed++) return;
    missing->error = result;
    snprintf(missing->name, sizeof missing->name, "%.*s", (int)strcspn(name, "_"), name);
}

/* ENUM_DIAGNOSTIC_SEVERITY_LEVEL, ENUM_DIAGNOSTIC_SOURCE_TYPE. */
enum { SEVERITY_WARNING = 2, SEVERITY_ERROR = 3, SOURCE_INJECTION = 1 };

/* Keeps the first warning about CUDA, preferably of the library in the program. Warnings about managed memory are
 * ignored, as kernels are recorded in spite of them. */
static void take_diagnostic(void *context, sqlite3_stmt *row) {
    struct missing *missing = context;
    const int64_t severity = aorta_sqlite_number_or(row, 0, -1);
    const bool cause = aorta_sqlite_number_or(row, 1, -1) == SOURCE_INJECTION;
    const char *text = aorta_sqlite_text(row, 2);
    if ((severity != SEVERITY_WARNING && severity != SEVERITY_ERROR) || !text || !strstr(text, "CUDA")) return;
    if (strstr(text, "Unified Memory")) return;
    if (*missing->said && (missing->cause || !cause)) return;
    snprintf(missing->said, sizeof missing->said, "%s", text);
    aorta_make_printable(missing->said, strlen(missing->said), false);
    missing->cause = cause;
}

static void take_system(void *context, sqlite3_stmt *row) {
    const char *value = aorta_sqlite_text(row, 0);
    ((struct missing *)context)->wsl |= value && strstr(value, "microsoft-standard-WSL");
}

static aorta_status look(struct aorta_sqlite *file, struct missing *missing) {
    static const char *const call[] = {"nameId", "returnValue"}, *const diagnostic[] = {"severity", "source", "text"};
    static const char *const system = "value";
    AORTA_TRY(aorta_sqlite_each(file, "TARGET_INFO_SYSTEM_ENV", "", &system, 1, take_system, missing));
    AORTA_TRY(aorta_sqlite_read_texts(file, "StringIds", "", "value", &missing->texts));
    AORTA_TRY(aorta_sqlite_each(file, "CUPTI_ACTIVITY_KIND_RUNTIME", "", call, 2, count_call, missing));
    return aorta_sqlite_each(file, "DIAGNOSTIC_EVENT", "", diagnostic, 3, take_diagnostic, missing);
}

static aorta_status describe(const struct aorta_sqlite *file, const struct missing *missing) {
    char has[96] = "work of a GPU", failed[192] = "", said[sizeof missing->said + 32] = "";
    if (missing->launches)
        snprintf(has, sizeof has, "kernels, though launches are recorded (%zu)", missing->launches);
    else if (missing->calls)
        snprintf(has, sizeof has, "work of a GPU, though calls of CUDA are recorded (%zu)", missing->calls);
    if (missing->failed)
        snprintf(failed, sizeof failed, "; %zu calls failed, the first is %s (%s)", missing->failed, missing->name,
                 aorta_cuda_error(missing->error).text);
    if (*missing->said) snprintf(said, sizeof said, "; Nsight Systems says \"%s\"", missing->said);
    return AORTA_ERROR(AORTA_FORMAT, "%s: an export of Nsight Systems without %s%s%s: %s%s", file->path, has, failed,
                       said, missing->failed ? "correct these calls, then " : "",
                       missing->calls && missing->wsl
                           ? "record on Linux itself: Nsight Systems often records no kernels under WSL2"
                       : missing->calls || strstr(said, "not supported")
                           ? "record until the program ends, with a version of nsys that knows the driver, "
                             "or with `aorta trace run`"
                           : "record with `nsys profile --trace=cuda,nvtx`");
}

aorta_status aorta_nsys_without_work(struct aorta_sqlite *file) {
    struct missing missing = {.texts.arena = &missing.arena};
    aorta_status status = look(file, &missing);
    if (!status) status = describe(file, &missing);
    aorta_arena_free(&missing.arena);
    return status;
}
