/* Any text as process groups, a size or a shape of `aorta hwq`: an error that repeats it, or values within their
 * bounds; groups that are written out read the same. The first byte says which, the second how many ranks there are. */
#include "base/text.h"
#include "fuzz.h"
#include "hwq/workload.h"

#include <limits.h>

static void write_groups(const struct aorta_hwq_group_list *list, struct aorta_text *text) {
    for (int group = 0; group < list->groups; group++) {
        aorta_text_puts(text, group ? ",[" : "[");
        for (int i = list->first[group]; i < list->first[group + 1]; i++)
            aorta_text_printf(text, "%s%d", i > list->first[group] ? ", " : "", list->ranks[i]);
        aorta_text_puts(text, "]");
    }
}

static void check_groups(const struct aorta_hwq_group_list *list, int world_size) {
    struct aorta_hwq_group_list again;
    struct aorta_text text = {0};
    fuzz_require(list->groups > 0 && list->groups <= AORTA_HWQ_MOST_GROUPS && list->first[0] == 0);
    for (int group = 0; group < list->groups; group++) {
        fuzz_require(aorta_hwq_group_size(list, group) > 0);
        for (int rank = 0, count = 0; rank <= world_size; rank++) {
            count += aorta_hwq_group_has(list, group, rank);
            if (rank == world_size) fuzz_require(count == aorta_hwq_group_size(list, group));
        }
    }
    write_groups(list, &text);
    aorta_status status = aorta_hwq_groups_parse(text.data, world_size, &again);
    fuzz_require(!status && again.groups == list->groups);
    const size_t ranks = (size_t)list->first[list->groups];
    fuzz_require(!memcmp(again.first, list->first, ((size_t)list->groups + 1) * sizeof *again.first));
    fuzz_require(!memcmp(again.ranks, list->ranks, ranks * sizeof *again.ranks));
    aorta_text_free(&text);
}

static aorta_status parse(const char *text, int kind, int world_size) {
    static struct aorta_hwq_group_list list;
    int64_t bytes, shape[3];
    if (kind == 0) {
        AORTA_TRY(aorta_hwq_groups_parse(text, world_size, &list));
        check_groups(&list, world_size);
    } else if (kind == 1) {
        AORTA_TRY(aorta_hwq_size_parse("size", text, &bytes));
        fuzz_require(bytes >= 1 && bytes <= (int64_t)1 << 45);
    } else {
        AORTA_TRY(aorta_hwq_shape_parse("shape", text, shape));
        for (int i = 0; i < 3; i++) fuzz_require(shape[i] >= 1 && shape[i] <= 1 << 20);
    }
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    char *text = strndup((const char *)data + 2, size - 2);
    fuzz_require(text != NULL);
    aorta_status status = parse(text, data[0] % 3, 1 + data[1]);
    if (status) fuzz_require(aorta_status_code(status) == AORTA_USAGE && strstr(aorta_status_message(status), text));
    aorta_status_free(status);
    free(text);
    return 0;
}
