#include "formats/metrics.h"
#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct aorta_metrics_writer {
    int file;
    off_t length; /* of the whole lines written so far */
    char *directory, *path;
    char name[64];
    _Atomic(char *) moved;  /* where the file was made again; NULL: it was not removed */
    struct aorta_text line; /* reused for each line, so that memory is taken once */
};

/* An empty file, or a pipe that somebody reads. What a link names lies outside the directory and stays as it is. A file
 * is opened for reading too, so that its lines are not lost with its name. */
static int open_lines(const char *path) {
    struct stat info;
    int access_mode = stat(path, &info) == 0 && S_ISFIFO(info.st_mode) ? O_WRONLY : O_RDWR;
    int file = open(path, access_mode | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
    if (file < 0) return -1;
    bool ready = fstat(file, &info) == 0 && fcntl(file, F_SETFL, 0) == 0 &&
                 (S_ISREG(info.st_mode) ? ftruncate(file, 0) == 0 : S_ISFIFO(info.st_mode));
    if (ready) return file;
    close(file);
    errno = EMEDIUMTYPE;
    return -1;
}

static const char *why_not(int error) {
    if (error == ELOOP) return "it is a link, which is not followed";
    if (error == ENXIO) return "it is a pipe that nobody reads";
    return error == EMEDIUMTYPE ? "it is no regular file" : strerror(error);
}

static void release(struct aorta_metrics_writer *writer) {
    free(writer->directory);
    free(writer->path);
    free(atomic_load(&writer->moved));
    aorta_text_free(&writer->line);
    free(writer);
}

aorta_status aorta_metrics_open(const char *directory, int rank, struct aorta_metrics_writer **writer) {
    *writer = NULL;
    struct aorta_metrics_writer *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "no memory for the lines of rank %d", rank);
    snprintf(made->name, sizeof made->name, "rank_%02d_metrics.jsonl", rank);
    made->directory = strdup(directory);
    made->path = aorta_path_join(directory, made->name);
    if (!made->directory || !made->path) {
        release(made);
        return AORTA_ERROR(AORTA_MEMORY, "no memory for the lines of rank %d", rank);
    }
    made->file = open_lines(made->path);
    if (made->file < 0) {
        aorta_status status = AORTA_ERROR(AORTA_IO, "cannot write %s: %s; remove it, or choose another directory",
                                          made->path, why_not(errno));
        release(made);
        return status;
    }
    *writer = made;
    return NULL;
}

/* ---- a file that was removed ---- */

static bool is_removed(const struct aorta_metrics_writer *writer) {
    struct stat info;
    return fstat(writer->file, &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 0;
}

/* 0, or errno. */
static int copy_lines(int from, off_t length, int to) {
    char bytes[1 << 16];
    for (off_t at = 0; at < length;) {
        ssize_t got = pread(from, bytes, sizeof bytes, at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return got ? errno : EIO;
        int error = aorta_write_all(to, bytes, (size_t)got);
        if (error) return error;
        at += got;
    }
    return 0;
}

/* A new file with the lines so far in this directory; 0, or errno: it cannot be there. */
static int make_again(struct aorta_metrics_writer *writer, const char *directory) {
    char *path = aorta_path_join(directory, writer->name), *moved = strdup(directory);
    int file = path && moved ? open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644) : -1;
    int error = file < 0 ? errno : copy_lines(writer->file, writer->length, file);
    if (error) {
        if (file >= 0) {
            unlink(path);
            close(file);
        }
        free(path);
        free(moved);
        return error;
    }
    close(writer->file);
    free(writer->path);
    writer->file = file;
    writer->path = path;
    if (atomic_load(&writer->moved))
        free(moved); /* removed once more; who asked has the first name */
    else
        atomic_store(&writer->moved, moved);
    return 0;
}

/* What removed the file may still be at work, and take the new directory away before the file is in it. */
static bool make_again_in_place(struct aorta_metrics_writer *writer) {
    int error = ENOENT;
    for (int attempt = 0; attempt < 100 && error == ENOENT; attempt++) {
        aorta_status status = aorta_directory_make(writer->directory);
        error = status ? ENOENT : make_again(writer, writer->directory);
        aorta_status_free(status);
        if (error == ENOENT) usleep(1000);
    }
    return error == 0;
}

static char *temporary_directory(void) {
    const char *parent = getenv("TMPDIR");
    char *path;
    if (asprintf(&path, "%s/aorta-rescued-XXXXXX", parent && *parent ? parent : "/tmp") < 0) return NULL;
    if (mkdtemp(path)) return path;
    free(path);
    return NULL;
}

/* Where nothing can be made again the lines go on into the open file, and are lost with it: an error. */
static aorta_status rescue(struct aorta_metrics_writer *writer) {
    if (make_again_in_place(writer)) return NULL;
    char *elsewhere = temporary_directory();
    bool made = elsewhere && make_again(writer, elsewhere) == 0;
    free(elsewhere);
    if (made) return NULL;
    return AORTA_ERROR(AORTA_IO,
                       "%s was removed, and could not be made again, neither there nor in the temporary directory",
                       writer->path);
}

const char *aorta_metrics_moved(struct aorta_metrics_writer *writer) {
    return atomic_load(&writer->moved);
}

aorta_status aorta_metrics_write(struct aorta_metrics_writer *writer, const struct aorta_step_metrics *metrics) {
    aorta_text_clear(&writer->line);
    AORTA_TRY(aorta_metrics_format(metrics, &writer->line));
    aorta_text_puts(&writer->line, "\n");
    AORTA_TRY(aorta_text_check(&writer->line));
    int error = aorta_write_all(writer->file, writer->line.data, writer->line.length);
    if (!error) {
        writer->length += (off_t)writer->line.length;
        return is_removed(writer) ? rescue(writer) : NULL;
    }
    /* Half a line is worth nothing: what was written before stays valid without it. */
    int cut = ftruncate(writer->file, writer->length);
    return AORTA_ERROR(AORTA_IO, "cannot write iteration %lld to %s: %s%s", (long long)metrics->global_step,
                       writer->path, strerror(error), cut ? " (its last line is incomplete)" : "");
}

aorta_status aorta_metrics_close(struct aorta_metrics_writer *writer) {
    if (!writer) return NULL;
    aorta_status status = NULL;
    if (close(writer->file) != 0) status = AORTA_ERROR(AORTA_IO, "cannot finish %s: %s", writer->path, strerror(errno));
    release(writer);
    return status;
}
