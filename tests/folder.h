/* A folder of a test's own. */
#ifndef AORTA_TESTS_FOLDER_H
#define AORTA_TESTS_FOLDER_H

#include "check.h"

#include <ftw.h>
#include <stdlib.h>

enum { FOLDER_PATH = 32 };

/* Makes /tmp/aorta_NAME_XXXXXX; a name has at most 13 letters. */
static inline void folder_make(char path[FOLDER_PATH], const char *name) {
    snprintf(path, FOLDER_PATH, "/tmp/aorta_%s_XXXXXX", name);
    assert_non_null(mkdtemp(path));
}

static inline int folder_remove_one(const char *path, const struct stat *info, int kind, struct FTW *place) {
    (void)info, (void)kind, (void)place;
    return remove(path);
}

/* Removes it with all that is in it. 0, or what remove returned. */
static inline int folder_remove(const char *path) {
    return nftw(path, folder_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
