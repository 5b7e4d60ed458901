#include "place.h"

#include "folder.h"

#include <unistd.h>

static char folder[FOLDER_PATH];

int place_enter(void **state) {
    (void)state;
    folder_make(folder, "cli");
    return chdir(folder) || symlink(PROGRAM_FILE, "aorta") || symlink(SOURCE_TESTS, "tests") ||
           symlink(BUILD_TESTS, "built");
}

int place_leave(void **state) {
    (void)state;
    return chdir("/") || folder_remove(folder);
}
