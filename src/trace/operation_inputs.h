/* The inputs of an operation, read from the lists that a file has of them. */
#ifndef AORTA_TRACE_OPERATION_INPUTS_H
#define AORTA_TRACE_OPERATION_INPUTS_H

#include "trace/operations.h"

struct aorta_trace;

enum { AORTA_INPUT_RANK = 8, AORTA_INPUTS = 16 };

struct aorta_input {
    bool tensor; /* the type says so */
    bool list;   /* of tensors: their types are not in the file */
    int rank;    /* -1: its shape cannot be understood */
    int64_t size[AORTA_INPUT_RANK];
    int64_t stride[AORTA_INPUT_RANK]; /* elements; where `strided` */
    bool strided;
    int bytes;  /* of an element; 0: not known */
    int packed; /* numbers in an element: 2 of four bits */
    enum aorta_arithmetic arithmetic;
    double list_elements;          /* of a list: of all its tensors */
    struct aorta_json_value value; /* of what is no tensor */
};

struct aorta_inputs {
    struct aorta_input items[AORTA_INPUTS];
    int count; /* more inputs than AORTA_INPUTS are ignored */
    bool typed;
};

void aorta_inputs_read(const struct aorta_operation *operation, struct aorta_inputs *inputs);
/* A text of the trace that is JSON; NONE: of no length. */
struct aorta_json_value aorta_trace_json(const struct aorta_trace *trace, uint32_t text);
/* Whether a JSON string is this text. */
bool aorta_value_is_text(struct aorta_json_value value, const char *text);

#endif
