/* Any bytes as an input of the trace commands: packed, an archive, or a trace. An error names the file; nothing of the
 * temporary folder is left or shown, and nothing is written outside it. The first byte chooses the name's ending. */
#include "base/status.h"
#include "fuzz.h"
#include "trace/open.h"

static const char *const names[] = {"x", "x.zip", "x.tar", "x.json.zst", "x.db.gz"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[FUZZ_PATH];
    const char *const input = path;
    struct aorta_trace_list list = {0};
    if (!size) return 0;
    fuzz_path(path, names[data[0] % (sizeof names / sizeof *names)]);
    fuzz_write(path, data + 1, size - 1);
    aorta_status status = aorta_trace_open_inputs(&input, 1, NULL, &list);
    unlink(path);
    fuzz_require(!status || !strstr(aorta_status_message(status), "aorta-unpacked-"));
    fuzz_require(!status || strstr(aorta_status_message(status), path));
    for (size_t i = 0; i < list.count; i++) fuzz_require(!strncmp(list.items[i]->path, path, strlen(path)));
    char folder[sizeof list.unpacked->path] = "";
    if (list.unpacked) strcpy(folder, list.unpacked->path);
    aorta_trace_list_free(&list);
    fuzz_require(!*folder || access(folder, F_OK));
    aorta_status_free(status);
    return 0;
}
