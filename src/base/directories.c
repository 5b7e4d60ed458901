#include "base/directories.h"
#include "base/files.h"
#include "base/printable.h"
#include "base/signals.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- temporary directories ---- */

#define YOUNG_S 10 /* its process may not have locked it yet */

/* A directory and not a link to one. */
static int open_directory(int at, const char *name) {
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Whether the directory is ours and unlocked, so its process has ended. Unlike process ids, a lock also works between
 * containers. */
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
    directory->guards = NULL;
    directory->lock = found ? open_directory(AT_FDCWD, directory->path) : -1;
    if (directory->lock >= 0) {
        flock(directory->lock, LOCK_EX | LOCK_NB); /* a file system without locks has no sweep either */
        return NULL;
    }
    aorta_status status =
        AORTA_ERROR(AORTA_IO, "%s: %s (TMPDIR names the place)", aorta_shown(made).text, strerror(errno));
    directory->path[0] = '\0';
    return status;
}

aorta_status aorta_temporary_make(const char *prefix, struct aorta_temporary *directory) {
    const char *parent = getenv("TMPDIR");
    return aorta_temporary_make_in(parent && *parent ? parent : "/tmp", prefix, directory);
}

/* Another thread may still write into it. */
static bool remove_first(void *user, int signal) {
    const struct aorta_temporary *directory = user;
    (void)signal;
    for (int attempt = 0; attempt < 1000 && !access(directory->path, F_OK); attempt++)
        aorta_directory_remove(directory->path);
    return true;
}

struct aorta_temporary_guard {
    struct aorta_signals *signals;
    sigset_t mask; /* before */
};

aorta_status aorta_temporary_guard(struct aorta_temporary *directory) {
    struct aorta_temporary_guard *guard = calloc(1, sizeof *guard);
    if (!guard) return AORTA_ERROR(AORTA_MEMORY, "no memory for the signals of a command");
    pthread_sigmask(SIG_SETMASK, NULL, &guard->mask);
    aorta_status status = aorta_signals_begin(remove_first, directory, &guard->signals);
    if (status)
        free(guard);
    else
        directory->guards = guard;
    return status;
}

void aorta_temporary_remove(struct aorta_temporary *directory) {
    if (!directory->path[0]) return;
    aorta_directory_remove(directory->path);
    close(directory->lock);
    if (!directory->guards) return;
    aorta_signals_end(directory->guards->signals);
    pthread_sigmask(SIG_SETMASK, &directory->guards->mask, NULL);
    free(directory->guards);
}

/* ---- locked directories ---- */

#define HOLDER "process %ld on %s"
enum { MOST_HOLDER = 512, MOST_HOST = 128 };

struct aorta_directory_lock {
    int file;
    struct aorta_file_path path;
    char *made; /* the directory, where it was made for the lock; else NULL */
};

/* ---- the holder's name ---- */

static void write_holder(int file) {
    char host[MOST_HOST] = "", since[64] = "", command[256], holder[MOST_HOLDER];
    time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc)) strftime(since, sizeof since, "%Y-%m-%d %H:%M:%S UTC", &utc);
    gethostname(host, sizeof host - 1);
    aorta_command_line(command, sizeof command);
    int length = snprintf(holder, sizeof holder, HOLDER " since %s: %s", (long)getpid(), host, since, command);
    /* A file without a name still locks. */
    if (ftruncate(file, 0) == 0 && length > 0 && aorta_write_all(file, holder, strlen(holder))) return;
}

/* Whether the holder started this process, as `aorta trace run` does. Both are one job and write different files. */
static bool is_within(const char *holder) {
    char host[MOST_HOST] = "", expected[MOST_HOLDER];
    gethostname(host, sizeof host - 1);
    for (long process = getppid(); process > 1; process = aorta_process_parent(process)) {
        int length = snprintf(expected, sizeof expected, HOLDER " ", process, host);
        if (length > 0 && strncmp(holder, expected, (size_t)length) == 0) return true;
    }
    return false;
}

static aorta_status taken_by(const char *directory, const char *key, const char *path, int file) {
    char holder[MOST_HOLDER];
    ssize_t length = pread(file, holder, sizeof holder - 1, 0);
    holder[length > 0 ? length : 0] = '\0';
    if (is_within(holder)) return NULL;
    if (*holder)
        return AORTA_ERROR(AORTA_CONFIG,
                           "%s: another job writes into %s: %s; wait for its end, or choose another directory", key,
                           directory, holder);
    return AORTA_ERROR(AORTA_CONFIG,
                       "%s: another job writes into %s: it has not said which (fuser -v %s names it); wait for its "
                       "end, or choose another directory",
                       key, directory, path);
}

/* ---- the lock ---- */

/* Whether the path still names the open file: its holder may have removed it in between. */
static bool is_current(const char *path, int file) {
    struct stat named, opened;
    return lstat(path, &named) == 0 && fstat(file, &opened) == 0 && named.st_ino == opened.st_ino &&
           named.st_dev == opened.st_dev;
}

/* *file is -1 where the file system has no locks, or a parent has this one. */
static aorta_status take(const char *directory, const char *key, const char *path, int *file) {
    for (;;) {
        *file = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (*file < 0) return AORTA_ERROR(AORTA_IO, "%s: cannot open %s: %s", key, path, strerror(errno));
        bool locked = flock(*file, LOCK_EX | LOCK_NB) == 0;
        const int reason = errno;
        if (locked && is_current(path, *file)) return NULL;
        aorta_status status = locked || reason != EWOULDBLOCK ? NULL : taken_by(directory, key, path, *file);
        close(*file);
        *file = -1;
        if (!locked) return status;
    }
}

static void release(struct aorta_directory_lock *lock) {
    free(lock->made);
    free(lock);
}

aorta_status aorta_directory_lock(const char *directory, const char *key, struct aorta_directory_lock **out) {
    struct stat info;
    bool existed = stat(directory, &info) == 0;
    *out = NULL;
    AORTA_TRY(aorta_annotate(aorta_directory_make(directory), "%s", key));
    struct aorta_directory_lock *lock = calloc(1, sizeof *lock);
    if (!lock) return AORTA_ERROR(AORTA_MEMORY, "no memory to lock %s", directory);
    lock->path = aorta_path_in(directory, ".aorta.lock");
    lock->made = existed ? NULL : strdup(directory);
    aorta_status status = take(directory, key, lock->path.text, &lock->file);
    if (status || lock->file < 0) {
        release(lock);
        return status;
    }
    write_holder(lock->file);
    *out = lock;
    return NULL;
}

void aorta_directory_unlock(struct aorta_directory_lock *lock) {
    if (!lock) return;
    if (is_current(lock->path.text, lock->file)) unlink(lock->path.text);
    if (lock->made) rmdir(lock->made); /* not where anything was written into it */
    close(lock->file);
    release(lock);
}
