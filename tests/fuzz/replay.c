/* Runs the inputs in the folders given, in builds without libFuzzer. Each stands in memory of its own size, so that the
 * address sanitizer sees what reads past it. */
#include "base/files.h"
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(aorta_status status) {
    fprintf(stderr, "%s\n", aorta_status_message(status));
    aorta_status_free(status);
    return EXIT_FAILURE;
}

static aorta_status run_file(const char *path) {
    char *bytes;
    size_t length;
    AORTA_TRY(aorta_file_read(path, &bytes, &length));
    uint8_t *exact = malloc(length ? length : 1);
    if (exact) {
        memcpy(exact, bytes, length);
        LLVMFuzzerTestOneInput(exact, length);
    }
    free(bytes);
    free(exact);
    return exact ? NULL : AORTA_ERROR(AORTA_MEMORY, "%s: no host memory for it", path);
}

static aorta_status run_folder(const char *folder, size_t *count) {
    DIR *directory = opendir(folder);
    if (!directory) return AORTA_ERROR(AORTA_IO, "%s cannot be opened", folder);
    aorta_status status = NULL;
    const struct dirent *entry;
    while (!status && (entry = readdir(directory))) {
        if (entry->d_name[0] == '.') continue;
        status = run_file(aorta_path_in(folder, "%s", entry->d_name).text);
        (*count)++;
    }
    closedir(directory);
    return status;
}

int main(int argc, char **argv) {
    size_t count = 0;
    for (int i = 1; i < argc; i++) {
        aorta_status status = run_folder(argv[i], &count);
        if (status) return fail(status);
    }
    if (!count) {
        fprintf(stderr, "replay: no inputs; give the folders that hold them\n");
        return EXIT_FAILURE;
    }
    printf("%zu inputs\n", count);
    return EXIT_SUCCESS;
}
