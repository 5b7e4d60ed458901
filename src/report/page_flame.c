/* The flame view of a recording: modules and operations by the work that was launched within them. */
#include "analysis/call_trees.h"
#include "report/page_recordings.h"

#include <stdlib.h>

/* Key and value: [[parent, name, ms in all, ms itself], …], of all ranks; nodes below a five thousandth of the whole
 * are left out. */
static void write_nodes(const struct aorta_call_trees *trees, const double *within, uint32_t *numbers,
                        struct aorta_json *json) {
    static const double least = 1.0 / 5000;
    uint32_t written = 0;
    aorta_json_key_array(json, "flame");
    for (size_t i = 0; i < trees->count; i++) {
        const uint32_t parent = trees->nodes[i].parent;
        numbers[i] = UINT32_MAX;
        if (i && (numbers[parent] == UINT32_MAX || within[i] < least * within[0])) continue;
        char name[512];
        numbers[i] = written++;
        aorta_json_array(json);
        aorta_json_int(json, i ? (int64_t)numbers[parent] : -1);
        aorta_json_string(json, i ? aorta_call_trees_name(trees, (uint32_t)i, name, sizeof name) : "all work");
        aorta_json_fixed(json, within[i] / 1e6, 6);
        aorta_json_fixed(json, trees->ns[i] / 1e6, 6);
        aorta_json_array_end(json);
    }
    aorta_json_array_end(json);
}

aorta_status aorta_page_flame(const struct aorta_trace_analysis *analysis, struct aorta_json *json) {
    const struct aorta_trace_compare_input input = {.path = "", .label = "", .analysis = analysis};
    struct aorta_call_trees trees;
    aorta_status status = aorta_call_trees_make(&input, 1, &trees);
    double *within = calloc(trees.count + 1, sizeof *within);
    uint32_t *numbers = calloc(trees.count + 1, sizeof *numbers);
    if (!status && (!within || !numbers))
        status = AORTA_ERROR(AORTA_MEMORY, "no memory for a tree of %zu operations", trees.count);
    for (size_t i = trees.count; !status && i-- > 0;) { /* parents come before their children */
        within[i] += trees.ns[i];
        if (i) within[trees.nodes[i].parent] += within[i];
    }
    if (!status && trees.any) write_nodes(&trees, within, numbers, json);
    free(within);
    free(numbers);
    aorta_call_trees_free(&trees);
    return status;
}
