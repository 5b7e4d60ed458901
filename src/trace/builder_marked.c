/* Ranges of NVTX and roctx. With torch.autograd.profiler.emit_nvtx PyTorch marks its operations so, and puts into their
 * names what differs from run to run: "aten::mm, seq = 500, op_id = 1001, sizes = [[8, 4], [4, 2]]"
 * (torch/csrc/profiler/util.cpp, getNvtxStr). They become operations with that name, number and these shapes. */
#include "trace/builder_internal.h"

#include <stdlib.h>
#include <string.h>

/* What stands behind a word in the name, before `end`; NULL: it is not there. */
static const char *behind(const char *name, const char *end, const char *word) {
    const char *found = memmem(name, (size_t)(end - name), word, strlen(word));
    return found ? found + strlen(word) : NULL;
}

static int64_t number_at(const char *at, const char *end) {
    int64_t number = 0;
    const char *from = at;
    for (; at < end && *at >= '0' && *at <= '9' && number < INT64_MAX / 16; at++) number = 10 * number + (*at - '0');
    return at > from ? number : -1;
}

/* From the bracket that opens to the one that closes; length 0: there are none. */
static struct aorta_json_value list_at(const char *at, const char *end) {
    int depth = 0;
    for (const char *to = at; at && to < end; to++) {
        depth += (*to == '[') - (*to == ']');
        if (depth <= 0) return (struct aorta_json_value){at, *to == ']' ? (size_t)(to + 1 - at) : 0};
    }
    return (struct aorta_json_value){0};
}

/* The end of the name proper. */
static const char *find_facts(const char *name, const char *end) {
    static const char *const words[] = {", seq = ", ", op_id = ", ", sizes = ["};
    const char *first = end;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *found = memmem(name, (size_t)(first - name), words[i], strlen(words[i]));
        if (found) first = found;
    }
    return first == name ? end : first;
}

/* Ranges of the program have no number of autograd, shapes or namespace. */
static bool is_operation(const char *name, const char *facts, const struct aorta_operation *operation) {
    return operation->sequence >= 0 || operation->dims.length > 2 || behind(name, facts, "::");
}

/* The request of a collective says nothing here, and hides the operation around it. */
static bool is_request(const char *name, const char *facts) {
    static const char request[] = "record_param_comms";
    return (size_t)(facts - name) == sizeof request - 1 && !memcmp(name, request, sizeof request - 1);
}

void aorta_trace_builder_marked(struct aorta_trace_builder *builder, const char *name,
                                struct aorta_trace_annotation range) {
    const char *end = name + strlen(name), *facts = find_facts(name, end);
    const char *sequence = behind(facts, end, ", seq = "), *sizes = behind(facts, end, ", sizes = ");
    const struct aorta_operation operation = {.name = name,
                                              .name_length = (size_t)(facts - name),
                                              .dims = list_at(sizes, end),
                                              .sequence = sequence ? number_at(sequence, end) : -1,
                                              .gradient = behind(name, facts, "Backward") != NULL};
    if (facts < end && is_request(name, facts)) return;
    range.name = aorta_trace_builder_text(builder, name, (size_t)(facts - name));
    if (facts < end && is_operation(name, facts, &operation))
        aorta_trace_builder_operation(builder, &range, -1, &operation);
    else
        aorta_trace_builder_annotation(builder, &range);
}
