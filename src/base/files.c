#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

struct aorta_file_path aorta_path_in(const char *directory, const char *format, ...) {
    struct aorta_file_path path;
    const size_t length = strlen(directory);
    const char *slash = length == 0 || directory[length - 1] == '/' ? "" : "/";
    const int begun = snprintf(path.text, sizeof path.text, "%s%s", directory, slash);
    va_list arguments;
    va_start(arguments, format);
    if ((size_t)begun < sizeof path.text)
        vsnprintf(path.text + begun, sizeof path.text - (size_t)begun, format, arguments);
    va_end(arguments);
    return path;
}

static aorta_status no_memory(const char *path) {
    return AORTA_ERROR(AORTA_MEMORY, "out of memory while working on %s", path);
}

struct aorta_file_writer {
    char *path;
    char *temporary; /* NULL: written to directly */
    bool nameless;   /* no name until complete: a killed process leaves no file */
    int file;
};

/* ---- paths that a rename would destroy ---- */

bool aorta_file_is_standard_output(const char *path) {
    return strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0;
}

bool aorta_file_is_direct(const char *path) {
    struct stat info;
    if (aorta_file_is_standard_output(path) || strcmp(path, "/dev/stderr") == 0) return true;
    if (strncmp(path, "/dev/fd/", 8) == 0 || strncmp(path, "/proc/self/fd/", 14) == 0) return true;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

/* The standard output gets a second descriptor, so that writing continues at the shell's position. */
static int open_direct(const char *path) {
    struct stat info;
    if (aorta_file_is_standard_output(path)) return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    int file = open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file < 0) return -1;
    if (fstat(file, &info) == 0 && !S_ISBLK(info.st_mode) && fcntl(file, F_SETFL, O_APPEND) == 0) return file;
    close(file);
    errno = EBUSY; /* a disk is no place for a file */
    return -1;
}

static aorta_status cannot_create(const char *path) {
    const char *reason = strerror(errno);
    if (errno == ENXIO) reason = "it is a pipe that nobody reads";
    return AORTA_ERROR(AORTA_IO, "cannot create %s: %s", path, reason);
}

/* ---- writing ---- */

/* As mkstemps, but of the mode that any new file has: mkstemps makes files for the owner alone, and umask can only be
 * read by changing it, for all threads. `from`: an open file that gets the name; NULL: a new file. Returns -1 and
 * errno on failure. */
static int take_name(char *name, const char *from) {
    char *digits = name + strlen(name) - strlen(".tmp") - 6;
    for (int attempt = 0; attempt < 100; attempt++) {
        unsigned number;
        if (getrandom(&number, sizeof number, 0) != sizeof number) return -1;
        for (int i = 0; i < 6; i++, number >>= 4) digits[i] = "0123456789abcdef"[number & 15];
        int result = from ? linkat(AT_FDCWD, from, AT_FDCWD, name, AT_SYMLINK_FOLLOW)
                          : open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (result >= 0 || errno != EEXIST) return result;
    }
    return -1;
}

struct file_link {
    char text[32];
};
static struct file_link link_of(int file) {
    struct file_link link;
    snprintf(link.text, sizeof link.text, "/proc/self/fd/%d", file);
    return link;
}

/* Opens a file without a name in the path's folder. -1 if this is not possible, or if the file could not get a name
 * later. */
static int open_nameless(const char *path) {
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    int file = folder ? open(folder, O_RDWR | O_TMPFILE | O_CLOEXEC, 0666) : -1;
    free(folder);
    if (file < 0 || access(link_of(file).text, F_OK) == 0) return file;
    close(file);
    return -1;
}

static void free_writer(struct aorta_file_writer *writer) {
    free(writer->path);
    free(writer->temporary);
    free(writer);
}

aorta_status aorta_file_begin(const char *path, struct aorta_file_writer **out) {
    *out = NULL;
    const bool direct = aorta_file_is_direct(path);
    struct aorta_file_writer *writer = calloc(1, sizeof *writer);
    if (!writer) return no_memory(path);
    writer->path = strdup(path);
    if (direct || asprintf(&writer->temporary, "%s.XXXXXX.tmp", path) < 0) writer->temporary = NULL;
    if (!writer->path || (!direct && !writer->temporary)) {
        free_writer(writer);
        return no_memory(path);
    }
    writer->file = direct ? open_direct(path) : open_nameless(path);
    writer->nameless = !direct && writer->file >= 0;
    if (!direct && !writer->nameless) writer->file = take_name(writer->temporary, NULL);
    if (writer->file < 0) {
        aorta_status status = cannot_create(path);
        free_writer(writer);
        return status;
    }
    *out = writer;
    return NULL;
}

aorta_status aorta_file_append(struct aorta_file_writer *writer, const char *bytes, size_t length) {
    int error = aorta_write_all(writer->file, bytes, length);
    return error ? AORTA_ERROR(AORTA_IO, "cannot write %s: %s", writer->path, strerror(error)) : NULL;
}

/* Returns 0 or errno. `file`: a second descriptor of a file without a name. */
static int put_in_place(struct aorta_file_writer *writer, int file) {
    if (!writer->temporary) return 0;
    if (writer->nameless) {
        const struct file_link link = link_of(file);
        if (linkat(AT_FDCWD, link.text, AT_FDCWD, writer->path, AT_SYMLINK_FOLLOW) == 0) return 0;
        if (errno != EEXIST || take_name(writer->temporary, link.text) < 0) return errno;
        writer->nameless = false;
    }
    return rename(writer->temporary, writer->path) == 0 ? 0 : errno;
}

static aorta_status finish(struct aorta_file_writer *writer) {
    const int again = writer->nameless ? fcntl(writer->file, F_DUPFD_CLOEXEC, 0) : -1;
    /* Some file systems and all devices cannot sync. */
    bool synced = !writer->temporary || fsync(writer->file) == 0 || errno == EINVAL || errno == EROFS;
    int reason = errno;
    bool closed = close(writer->file) == 0;
    if (synced && !closed) reason = errno;
    const bool whole = synced && closed && (again >= 0 || !writer->nameless);
    const int error = whole ? put_in_place(writer, again) : 0;
    if (again >= 0) close(again);
    if (!whole) return AORTA_ERROR(AORTA_IO, "cannot write %s: %s", writer->path, strerror(reason));
    return error ? AORTA_ERROR(AORTA_IO, "cannot put %s in its place: %s", writer->path, strerror(error)) : NULL;
}

static void remove_temporary(const struct aorta_file_writer *writer) {
    if (writer->temporary && !writer->nameless) unlink(writer->temporary);
}

aorta_status aorta_file_commit(struct aorta_file_writer *writer) {
    aorta_status status = finish(writer);
    if (status) remove_temporary(writer);
    free_writer(writer);
    return status;
}

void aorta_file_discard(struct aorta_file_writer *writer) {
    if (!writer) return;
    close(writer->file);
    remove_temporary(writer);
    free_writer(writer);
}

aorta_status aorta_file_replace(const char *path, const char *bytes, size_t length) {
    struct aorta_file_writer *writer;
    AORTA_TRY(aorta_file_begin(path, &writer));
    aorta_status status = aorta_file_append(writer, bytes, length);
    if (!status) return aorta_file_commit(writer);
    aorta_file_discard(writer);
    return status;
}

aorta_status aorta_file_put(const char *path, const struct aorta_text *text) {
    AORTA_TRY(aorta_text_check(text));
    return aorta_file_replace(path, text->data, text->length);
}

static aorta_status too_large(const char *path, size_t most) {
    return AORTA_ERROR(AORTA_IO, "cannot read %s: it is larger than %zu MiB", path, most >> 20);
}

/* Reads to the end for any reported size, so that pipes and /proc work, too. */
static aorta_status read_all(int file, const char *path, size_t most, char **bytes, size_t *length) {
    size_t capacity = 4096, used = 0;
    char *data = malloc(capacity);
    aorta_status status = data ? NULL : no_memory(path);
    for (ssize_t got = 1; !status && got;) {
        got = read(file, data + used, capacity - used - 1);
        if (got < 0 && errno == EINTR) continue;
        if (got > 0) used += (size_t)got;
        if (got < 0)
            status = AORTA_ERROR(AORTA_IO, "cannot read %s: %s", path, strerror(errno));
        else if (used > most)
            status = too_large(path, most);
        else if (capacity - used == 1 && !aorta_array_fit(&data, &capacity, 2 * capacity, 1))
            status = no_memory(path);
    }
    if (status) {
        free(data);
        return status;
    }
    data[used] = '\0';
    *bytes = data;
    *length = used;
    return NULL;
}

static aorta_status read_opened(int file, const char *path, size_t most, char **bytes, size_t *length) {
    *bytes = NULL;
    *length = 0;
    struct stat info = {0};
    if (file < 0)
        return AORTA_ERROR(AORTA_IO, "cannot read %s: %s", path,
                           errno == EMEDIUMTYPE ? "it is no regular file" : strerror(errno));
    aorta_status status = NULL;
    if (fstat(file, &info) == 0 && S_ISREG(info.st_mode) && (uintmax_t)info.st_size > most)
        status = too_large(path, most);
    else if (most == SIZE_MAX && S_ISCHR(info.st_mode))
        status = AORTA_ERROR(AORTA_IO, "cannot read %s: it is a device, not a file", path);
    else
        status = read_all(file, path, most, bytes, length);
    close(file);
    return status;
}

aorta_status aorta_file_read_small(const char *path, size_t most, char **bytes, size_t *length) {
    return read_opened(open(path, O_RDONLY | O_CLOEXEC), path, most, bytes, length);
}

int aorta_file_open_regular(const char *path) {
    struct stat info;
    int file = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file < 0 || (fstat(file, &info) == 0 && S_ISREG(info.st_mode))) return file;
    close(file);
    errno = EMEDIUMTYPE;
    return -1;
}

aorta_status aorta_file_read_regular(const char *path, size_t most, char **bytes, size_t *length) {
    return read_opened(aorta_file_open_regular(path), path, most, bytes, length);
}

bool aorta_file_line(const char *path, const char *begin, char *value, size_t size) {
    char line[512];
    bool found = false;
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        const char *rest = line + strlen(begin);
        found = strncmp(line, begin, strlen(begin)) == 0;
        line[strcspn(line, "\n")] = '\0';
        if (found) snprintf(value, size, "%s", rest + strspn(rest, " \t:"));
    }
    if (file) fclose(file);
    return found;
}

const char *aorta_process_stat(long process, char text[1024]) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/stat", process);
    aorta_file_peek(path, text, 1024);
    const char *name_end = strrchr(text, ')'); /* a name may hold some itself */
    return name_end ? name_end + 1 : "";
}

long aorta_process_parent(long process) {
    char text[1024];
    long parent;
    return sscanf(aorta_process_stat(process, text), " %*c %ld", &parent) == 1 ? parent : 0;
}

size_t aorta_utf8_mark(const char *bytes, size_t length) {
    static const char mark[] = {'\xef', '\xbb', '\xbf'};
    return length >= sizeof mark && memcmp(bytes, mark, sizeof mark) == 0 ? sizeof mark : 0;
}

aorta_status aorta_file_read(const char *path, char **bytes, size_t *length) {
    return aorta_file_read_small(path, SIZE_MAX, bytes, length);
}

static bool is_directory(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static aorta_status make_one(const char *path) {
    if (mkdir(path, 0777) == 0) return NULL;
    const int reason = errno;
    if (is_directory(path)) return NULL;
    return AORTA_ERROR(AORTA_IO, "cannot make the directory %s: %s", path,
                       reason == EEXIST ? "a file of that name is in the way" : strerror(reason));
}

aorta_status aorta_directory_make(const char *path) {
    char *partial = strdup(path);
    if (!partial) return no_memory(path);
    aorta_status status = NULL;
    for (char *slash = partial + 1; *partial && !status && (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        status = make_one(partial);
        *slash = '/';
    }
    if (!status) status = make_one(path);
    free(partial);
    return status;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place) {
    (void)info, (void)kind, (void)place;
    (void)remove(path);
    return 0; /* continues after a failure */
}

void aorta_directory_remove(const char *path) {
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int aorta_directory_try(const char *path, size_t bytes) {
    static const char zeros[4096];
    struct aorta_file_path probe = aorta_path_in(path, ".aorta_XXXXXX.tmp");
    const int file = take_name(probe.text, NULL);
    int error = file < 0 ? errno : 0;
    for (; !error && bytes; bytes -= bytes < sizeof zeros ? bytes : sizeof zeros)
        error = aorta_write_all(file, zeros, bytes < sizeof zeros ? bytes : sizeof zeros);
    if (file >= 0) {
        unlink(probe.text);
        if (close(file) && !error) error = errno;
    }
    return error;
}

static aorta_status try_directory(const char *existing, const char *path, const char *key) {
    const int reason = aorta_directory_try(existing, 0);
    if (!reason) return NULL;
    const char *what = strcmp(existing, path) == 0 ? "is not writable" : "cannot be made";
    return AORTA_ERROR(AORTA_CONFIG, "%s: the directory %s %s (%s: %s); choose another one or change its permissions",
                       key, path, what, existing, strerror(reason));
}

aorta_status aorta_directory_check_writable(const char *path, const char *key) {
    if (!*path) return AORTA_ERROR(AORTA_CONFIG, "%s: the name of the directory is empty", key);
    struct aorta_file_path copy = aorta_path_in("", "%s", path);
    const char *existing = copy.text;
    struct stat info;
    while (stat(existing, &info) != 0 && errno == ENOENT && strcmp(existing, ".") != 0) existing = dirname(copy.text);
    if (stat(existing, &info) == 0 && !S_ISDIR(info.st_mode))
        return AORTA_ERROR(AORTA_CONFIG, "%s: %s is a file, not a directory; choose another directory", key, existing);
    return try_directory(existing, path, key);
}

aorta_status aorta_file_prepare(const char *path, const char *key) {
    if (!path || aorta_file_is_direct(path)) return NULL;
    const size_t length = strlen(path);
    if (is_directory(path) || (length && path[length - 1] == '/'))
        return AORTA_ERROR(AORTA_CONFIG, "%s: %s is a directory; name a file", key, path);
    struct stat info;
    if (stat(path, &info) == 0 && !(info.st_mode & 0222))
        return AORTA_ERROR(AORTA_CONFIG, "%s: %s is write-protected; name another file, or allow writing (chmod u+w)",
                           key, path);
    struct aorta_file_path copy = aorta_path_in("", "%s", path);
    const char *directory = dirname(copy.text);
    AORTA_TRY(aorta_directory_check_writable(directory, key));
    return aorta_directory_make(directory);
}
