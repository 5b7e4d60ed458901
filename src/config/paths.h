/* What a command reads and writes, by the rows of its options and by its operands. Nothing is written over what is
 * read, and no two outputs have one name, whatever the names look like: links, relative paths, folders that are not
 * there yet. */
#ifndef AORTA_CONFIG_PATHS_H
#define AORTA_CONFIG_PATHS_H

#include "config/option.h"

struct aorta_path {
    const char *name; /* of the option with what is put before it: "--html"; of an operand "". In the arena */
    const char *path; /* borrowed */
    enum aorta_path_use use;
    const char *const *files; /* as of the row */
};

/* Zero-initialise; ends with aorta_paths_free. */
struct aorta_paths {
    struct aorta_path *items;
    size_t count, capacity;
    struct aorta_arena arena;
};
void aorta_paths_free(struct aorta_paths *paths);

/* All rows that name paths, with what `values` holds of them; null and the empty text are none. `prefix`: "--" of
 * command lines, "" of configuration keys. */
AORTA_MUST_USE aorta_status aorta_paths_add_rows(struct aorta_paths *paths, const struct aorta_option *rows,
                                                 size_t count, const void *values, const char *prefix);
/* Operands that are read. */
AORTA_MUST_USE aorta_status aorta_paths_add_operands(struct aorta_paths *paths, char *const *operands, int count);

/* AORTA_USAGE names the option and the path:
 *   - a file that is written is one that is read, or lies in a folder that is read (pages and empty files may: nobody
 *     reads them);
 *   - a folder receives a file of the name of one that is read;
 *   - two outputs have one name, or one is a file that another's folder receives.
 * Outputs that are no files (pipes, /dev/null) and descriptors (what a shell names below /dev/fd) meet no others; a
 * descriptor of a file that is read is refused as the file is. */
AORTA_MUST_USE aorta_status aorta_paths_check(const struct aorta_paths *paths);

#endif
