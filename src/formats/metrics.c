#include "formats/metrics.h"
#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct aorta_metrics_writer {
    int file;
    off_t length; /* of the whole lines written so far */
    char *path;
    struct aorta_text line; /* reused for each line, so that memory is taken once */
};

/* An empty file, or a pipe that somebody reads. What a link names lies outside the directory and stays as it is. */
static int open_lines(const char *path) {
    struct stat info;
    int file = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
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

aorta_status aorta_metrics_open(const char *directory, int rank, struct aorta_metrics_writer **writer) {
    *writer = NULL;
    char name[64];
    snprintf(name, sizeof name, "rank_%02d_metrics.jsonl", rank);
    struct aorta_metrics_writer *made = calloc(1, sizeof *made);
    char *path = aorta_path_join(directory, name);
    if (!made || !path) {
        free(made);
        free(path);
        return AORTA_ERROR(AORTA_MEMORY, "no memory to open %s", name);
    }
    made->path = path;
    made->file = open_lines(path);
    if (made->file < 0) {
        aorta_status status =
            AORTA_ERROR(AORTA_IO, "cannot write %s: %s; remove it, or choose another directory", path, why_not(errno));
        free(path);
        free(made);
        return status;
    }
    *writer = made;
    return NULL;
}

aorta_status aorta_metrics_write(struct aorta_metrics_writer *writer, const struct aorta_step_metrics *metrics) {
    aorta_text_clear(&writer->line);
    AORTA_TRY(aorta_metrics_format(metrics, &writer->line));
    aorta_text_puts(&writer->line, "\n");
    AORTA_TRY(aorta_text_check(&writer->line));
    int error = aorta_write_all(writer->file, writer->line.data, writer->line.length);
    if (!error) {
        writer->length += (off_t)writer->line.length;
        return NULL;
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
    free(writer->path);
    aorta_text_free(&writer->line);
    free(writer);
    return status;
}
