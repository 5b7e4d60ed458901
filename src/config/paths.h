/* The files that a command reads and writes, by the rows of its options and by its operands. No output replaces an
 * input, and no two outputs are one file, under any names: links, relative paths, folders that do not exist yet. */
#ifndef AORTA_CONFIG_PATHS_H
#define AORTA_CONFIG_PATHS_H

#include "config/option.h"

struct aorta_path {
    const char *name; /* of the option with its prefix: "--html"; of an operand "". In the arena */
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
 *   - a file that is written is one that is read, or is in a folder that is read (pages and empty files may: nothing
 *     reads them);
 *   - a folder receives a file of the name of one that is read;
 *   - two outputs have one name, or one is a file that another's folder receives.
 * Outputs that are no files (pipes, /dev/null) and descriptors (a shell's names below /dev/fd) conflict with no other;
 * a descriptor of a file that is read is refused as the file is. */
AORTA_MUST_USE aorta_status aorta_paths_check(const struct aorta_paths *paths);

#endif
