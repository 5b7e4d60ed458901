/* Files that are whole or absent: written under a temporary name, then renamed. */
#ifndef AORTA_BASE_FILES_H
#define AORTA_BASE_FILES_H

#include "base/status.h"
#include "base/text.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* The name of an output is a regular file's or a new one's. Paths that a rename would destroy are written directly and
 * never replaced: the standard output ("-", /dev/stdout), a shell's names below /dev/fd, character devices, and pipes,
 * which need a reader. */
bool aorta_file_is_standard_output(const char *path);
bool aorta_file_is_direct(const char *path); /* any of these */

/* Replaces `path` with `length` bytes, atomically (same directory, fsync, rename). AORTA_IO names path and reason. */
AORTA_MUST_USE aorta_status aorta_file_replace(const char *path, const char *bytes, size_t length);

/* The same with the text. AORTA_MEMORY where it has failed. */
AORTA_MUST_USE aorta_status aorta_file_put(const char *path, const struct aorta_text *text);

/* For a file that grows: begin, any number of appends, then commit (fsync, rename; on failure the file is
 * removed) or discard, which end the writer. A file that is begun and never ended is gone with the process; on file
 * systems without files that have no name (NFS) "<path>.XXXXXX.tmp" stays. */
struct aorta_file_writer;
AORTA_MUST_USE aorta_status aorta_file_begin(const char *path, struct aorta_file_writer **writer);
AORTA_MUST_USE aorta_status aorta_file_append(struct aorta_file_writer *writer, const char *bytes, size_t length);
AORTA_MUST_USE aorta_status aorta_file_commit(struct aorta_file_writer *writer);
void aorta_file_discard(struct aorta_file_writer *writer); /* NULL is fine */

/* All bytes to an open file: 0, or errno. */
AORTA_MUST_USE int aorta_write_all(int file, const void *bytes, size_t length);

/* The whole file, NUL-terminated; the caller frees *bytes. AORTA_IO when it cannot be read or is a device, which may
 * have no end. */
AORTA_MUST_USE aorta_status aorta_file_read(const char *path, char **bytes, size_t *length);
/* As aorta_file_read, but AORTA_IO also for more than `most` bytes, before reading if the size is known: a device or
 * the wrong file does not fill the memory. */
AORTA_MUST_USE aorta_status aorta_file_read_small(const char *path, size_t most, char **bytes, size_t *length);

/* As aorta_file_read_small, for a file that was found in a folder, so its kind is not known: it must be a regular one,
 * and opening does not wait. AORTA_IO for pipes, sockets, devices and folders. */
AORTA_MUST_USE aorta_status aorta_file_read_regular(const char *path, size_t most, char **bytes, size_t *length);
/* Opens such a file: its descriptor, or -1 and errno. */
AORTA_MUST_USE int aorta_file_open_regular(const char *path);

/* The beginning of a file that has no length before it is read (/proc), NUL-terminated; empty: it is not there. Returns
 * its length. */
size_t aorta_file_peek(const char *path, char *text, size_t size);
/* The command of this process, with blanks between its words: as aorta_file_peek. */
size_t aorta_command_line(char *command, size_t size);
/* What follows `begin`, and blanks or a colon, in the first line that begins so. False: there is none. */
bool aorta_file_line(const char *path, const char *begin, char *value, size_t size);
/* What /proc/PID/stat has after the process's name (proc(5)): " STATE PARENT …"; "": there is no such process. */
const char *aorta_process_stat(long process, char text[1024]);
long aorta_process_parent(long process); /* 0: none */

/* Bytes of the mark that editors put before UTF-8, where the text begins with it; else 0. */
size_t aorta_utf8_mark(const char *bytes, size_t length);

/* Makes a directory and its parents. AORTA_IO when it cannot be made. */
AORTA_MUST_USE aorta_status aorta_directory_make(const char *path);

/* Checks that files can be made in a directory, or that the directory could be made below its nearest existing parent;
 * leaves no file there. `key` is the user's option (named in the message). AORTA_CONFIG if not. */
AORTA_MUST_USE aorta_status aorta_directory_check_writable(const char *path, const char *key);

/* Removes a directory with all that is in it, of a link the link alone; what cannot be removed stays. */
void aorta_directory_remove(const char *path);

/* Writes so many bytes to a new file of a directory that exists, and removes it: 0, or errno. */
AORTA_MUST_USE int aorta_directory_try(const char *path, size_t bytes);

/* Makes the directory of the file that `key` names, and checks that the file can be written, before there is
 * anything to lose. NULL: no file is wanted. AORTA_CONFIG if not. */
AORTA_MUST_USE aorta_status aorta_file_prepare(const char *path, const char *key);

/* "a/b" from "a" and what the format makes. Nothing needs to be checked: a path that is longer than the system takes is
 * cut to a length that no call takes (ENAMETOOLONG). */
struct aorta_file_path {
    char text[PATH_MAX + 1];
};
struct aorta_file_path aorta_path_in(const char *directory, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
