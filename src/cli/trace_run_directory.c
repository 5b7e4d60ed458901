/* The directory of a recording: the user's, or one that is removed at the end. */
#include "base/directory_lock.h"
#include "base/files.h"
#include "base/printable.h"
#include "cli/trace_run.h"
#include "trace/open.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void name_temporary(char path[PATH_MAX]) {
    const char *parent = getenv("TMPDIR");
    snprintf(path, PATH_MAX, "%s/aorta-trace-XXXXXX", parent && *parent ? parent : "/tmp");
}

static aorta_status make_temporary(const char *option, char path[PATH_MAX]) {
    char made[PATH_MAX];
    name_temporary(made);
    snprintf(path, PATH_MAX, "%s", made);
    if (mkdtemp(made) && realpath(made, path)) return NULL;
    return AORTA_ERROR(AORTA_IO, "%s: %s (TMPDIR names the place, or %s another)", aorta_shown(path).text,
                       strerror(errno), option);
}

/* Absolute, as the program may go elsewhere before it records. */
static aorta_status name_missing(const char *output, const char *option, char path[PATH_MAX]) {
    char here[PATH_MAX] = "";
    if (*output != '/' && !getcwd(here, sizeof here))
        return AORTA_ERROR(AORTA_IO, "%s %s: %s", option, output, strerror(errno));
    if (snprintf(path, PATH_MAX, "%s%s%s", here, *here ? "/" : "", output) < PATH_MAX) return NULL;
    return AORTA_ERROR(AORTA_USAGE, "%s %s: the path is too long", option, output);
}

/* Makes nothing. */
static aorta_status name(const char *output, const char *option, char path[PATH_MAX]) {
    if (!output) {
        name_temporary(path);
        return NULL;
    }
    AORTA_TRY(aorta_directory_check_writable(output, option));
    if (!realpath(output, path)) return name_missing(output, option, path);
    return aorta_trace_check_unused(output, option);
}

static aorta_status use(const char *output, const char *option, char path[PATH_MAX]) {
    AORTA_TRY(aorta_trace_check_unused(output, option));
    if (realpath(output, path)) return NULL;
    return AORTA_ERROR(AORTA_IO, "%s %s: %s", option, output, strerror(errno));
}

aorta_status aorta_trace_run_directory_open(const char *output, const char *option, bool dry_run,
                                            struct aorta_trace_run_directory *directory) {
    *directory = (struct aorta_trace_run_directory){.temporary = !output && !dry_run};
    if (dry_run) return name(output, option, directory->path);
    if (!output) return make_temporary(option, directory->path);
    AORTA_TRY(aorta_directory_check_writable(output, option));
    AORTA_TRY(aorta_directory_lock(output, option, &directory->lock));
    aorta_status status = use(output, option, directory->path);
    if (status) aorta_directory_unlock(directory->lock);
    return status;
}

void aorta_trace_run_directory_close(struct aorta_trace_run_directory *directory) {
    aorta_directory_unlock(directory->lock);
    if (directory->temporary) aorta_directory_remove(directory->path);
}
