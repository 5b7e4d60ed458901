/* The inputs of an operation, from a file's lists, and the work of attention over a cache. */
#ifndef AORTA_TRACE_OPERATION_INPUTS_H
#define AORTA_TRACE_OPERATION_INPUTS_H

#include "trace/trace.h"

enum { AORTA_INPUT_RANK = 8, AORTA_INPUTS = 16 };

struct aorta_input {
    bool tensor; /* by its type */
    bool list;   /* a list of tensors, whose types are not in the file */
    int rank;    /* -1: unknown shape */
    int64_t size[AORTA_INPUT_RANK];
    int64_t stride[AORTA_INPUT_RANK]; /* elements; where `strided` */
    bool strided;
    int bytes;  /* of an element; 0: not known */
    int packed; /* numbers in an element: 2 of four bits */
    enum aorta_arithmetic arithmetic;
    double list_elements;          /* of a list: elements of all its tensors */
    struct aorta_json_value value; /* if it is no tensor */
};

struct aorta_inputs {
    struct aorta_input items[AORTA_INPUTS];
    int count; /* more inputs than AORTA_INPUTS are ignored */
    bool typed;
};

/* PyTorch's types of elements (c10/core/ScalarType.h). */
struct aorta_element {
    const char *name; /* "Long"; NULL: another row has it */
    const char *cxx;  /* the type of inputs in traces: "long int"; NULL: never seen */
    int bytes;
    enum aorta_arithmetic arithmetic;
};
/* NULL: not known. */
const struct aorta_element *aorta_element_of_input(struct aorta_json_value type);
const struct aorta_element *aorta_element_named(const char *name);
const struct aorta_element *aorta_element_of_code(int64_t code); /* PyTorch's number, as aten::empty has it */

void aorta_inputs_read(const struct aorta_operation *operation, struct aorta_inputs *inputs);
/* A text of the trace as JSON; empty for NONE. */
struct aorta_json_value aorta_trace_json(const struct aorta_trace *trace, uint32_t text);

/* ---- attention over a cache of keys, from the lengths of a step's requests ----
 *
 * The inputs of such an operation show how many queries there are, but not how many keys each query reads. vLLM
 * (detailed_trace_annotation), SGLang (detailed_annotations) and ATOM write sums over the requests into the name of the
 * step's range: "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37…)". Here sq means
 * queries, sk keys, sqsq and sqsk their products. A query reads its own key and all keys before it, so these sums are
 * sufficient.
 *
 * Layers with a window read fewer keys, and no file has the window's length. They use another kernel or are faster. So
 * of all operations of one shape in a step, only those are counted that take about as long as the longest. */

/* Sums over the requests of a step. */
struct aorta_request_lengths {
    double queries, keys, queries_squared, queries_by_keys;
};
/* False if the range has no lengths. */
bool aorta_request_lengths_read(const char *range, struct aorta_request_lengths *lengths);
/* The work of the operation for these requests. `cache_bytes`: bytes per element of the cache if it is not among the
 * inputs; 0 if unknown. False if the work is unknown or the lengths do not fit. */
bool aorta_request_attention(const struct aorta_operation *operation, const struct aorta_request_lengths *lengths,
                             int cache_bytes, struct aorta_work_amount *amount);
/* Sets the amounts of attention in each step, where lengths are known. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_count_requests(struct aorta_trace *trace);

#endif
