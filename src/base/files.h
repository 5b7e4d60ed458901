/* Files that are whole or absent: written under a temporary name, then renamed. */
#ifndef AORTA_BASE_FILES_H
#define AORTA_BASE_FILES_H

#include "base/text.h"

#include <limits.h>

/* An output is a regular or a new file. Paths that a rename would destroy are written directly and never replaced: the
 * standard output ("-", /dev/stdout), a shell's names below /dev/fd, character devices, and pipes, which need a reader.
 */
bool aorta_file_is_standard_output(const char *path);
bool aorta_file_is_direct(const char *path); /* any of these */

/* Replaces `path` with `length` bytes, atomically (same directory, fsync, rename). AORTA_IO names path and reason. */
AORTA_MUST_USE aorta_status aorta_file_replace(const char *path, const char *bytes, size_t length);

/* The same with the text. AORTA_MEMORY where it has failed. */
AORTA_MUST_USE aorta_status aorta_file_put(const char *path, const struct aorta_text *text);

/* For a file that grows: begin, any number of appends, then commit (fsync, rename; on failure the file is
 * removed) or discard, which end the writer. If the writer is not ended, the file disappears with the process. On file
 * systems without unnamed files (NFS) "<path>.XXXXXX.tmp" stays. */
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

/* As aorta_file_read_small, for regular files only, as found in a folder. Opening does not wait. AORTA_IO for pipes,
 * sockets, devices and folders. */
AORTA_MUST_USE aorta_status aorta_file_read_regular(const char *path, size_t most, char **bytes, size_t *length);
/* Opens such a file: its descriptor, or -1 and errno. */
AORTA_MUST_USE int aorta_file_open_regular(const char *path);

/* Reads the beginning of a file whose length is unknown (/proc), NUL-terminated. Returns its length, 0 if there is no
 * such file. */
size_t aorta_file_peek(const char *path, char *text, size_t size);
/* The command of this process, words separated by blanks. Returns its length. */
size_t aorta_command_line(char *command, size_t size);
/* Reads the value of the first line that begins with `begin`, without blanks or a colon before it. False if there is
 * no such line. */
bool aorta_file_line(const char *path, const char *begin, char *value, size_t size);
/* The part of /proc/PID/stat after the process's name (proc(5)): " STATE PARENT …". "" if there is no such process. */
const char *aorta_process_stat(long process, char text[1024]);
long aorta_process_parent(long process); /* 0: none */

/* Length of the byte order mark (UTF-8) at the beginning of the text, or 0. */
size_t aorta_utf8_mark(const char *bytes, size_t length);

/* Makes a directory and its parents. AORTA_IO when it cannot be made. */
AORTA_MUST_USE aorta_status aorta_directory_make(const char *path);

/* Checks that files can be made in a directory, or that the directory could be made below its nearest existing parent.
 * Leaves no file. `key` is the user's option (named in the message). AORTA_CONFIG if not. */
AORTA_MUST_USE aorta_status aorta_directory_check_writable(const char *path, const char *key);

/* Removes a directory with its contents; of a link only the link. Skips what cannot be removed. */
void aorta_directory_remove(const char *path);

/* Writes `bytes` bytes to a new file of an existing directory and removes it: the only check that is valid for every
 * file system, user and mount. Returns 0 or errno. */
AORTA_MUST_USE int aorta_directory_try(const char *path, size_t bytes);

/* Makes the directory of the file that `key` names, and checks that the file can be written, before any work is done.
 * A NULL `path` is fine. AORTA_CONFIG if the file cannot be written. */
AORTA_MUST_USE aorta_status aorta_file_prepare(const char *path, const char *key);

/* "a/b" from "a" and what the format makes. Callers need no check: a path that is too long is cut to a length for
 * which every system call fails (ENAMETOOLONG). */
struct aorta_file_path {
    char text[PATH_MAX + 1];
};
struct aorta_file_path aorta_path_in(const char *directory, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
