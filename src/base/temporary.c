#include "base/temporary.h"

#include "base/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define YOUNG_S 10 /* its process may not have locked it yet */

static const char *default_parent(void) {
    const char *path = getenv("TMPDIR");
    return path && *path ? path : "/tmp";
}

/* A directory and not a link to one. */
static int open_directory(int at, const char *name) {
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* The directory is ours and unlocked: its process has ended. A lock also works between containers, where process ids do
 * not. */
static bool is_left(int directory) {
    struct stat info;
    if (fstat(directory, &info) || info.st_uid != geteuid()) return false;
    return time(NULL) - info.st_mtime >= YOUNG_S && flock(directory, LOCK_EX | LOCK_NB) == 0;
}

static void sweep_one(const char *parent, int at, const char *name) {
    char path[PATH_MAX];
    int directory = open_directory(at, name);
    if (directory < 0) return;
    if (is_left(directory) && snprintf(path, sizeof path, "%s/%s", parent, name) < PATH_MAX)
        aorta_directory_remove(path);
    close(directory);
}

static void sweep(const char *parent, const char *prefix) {
    DIR *list = opendir(parent);
    if (!list) return;
    for (const struct dirent *entry; (entry = readdir(list));)
        if (!strncmp(entry->d_name, prefix, strlen(prefix))) sweep_one(parent, dirfd(list), entry->d_name);
    closedir(list);
}

aorta_status aorta_temporary_make_in(const char *parent, const char *prefix, struct aorta_temporary *directory) {
    sweep(parent, prefix);
    char made[PATH_MAX];
    snprintf(made, sizeof made, "%s/%sXXXXXX", parent, prefix);
    const bool found = mkdtemp(made) && realpath(made, directory->path);
    directory->lock = found ? open_directory(AT_FDCWD, directory->path) : -1;
    if (directory->lock >= 0) {
        flock(directory->lock, LOCK_EX | LOCK_NB); /* a file system without locks has no sweep either */
        return NULL;
    }
    aorta_status status = AORTA_ERROR(AORTA_IO, "%s: %s (TMPDIR names the place)", made, strerror(errno));
    directory->path[0] = '\0';
    return status;
}

aorta_status aorta_temporary_make(const char *prefix, struct aorta_temporary *directory) {
    return aorta_temporary_make_in(default_parent(), prefix, directory);
}

void aorta_temporary_remove(struct aorta_temporary *directory) {
    if (!directory->path[0]) return;
    aorta_directory_remove(directory->path);
    close(directory->lock);
}
