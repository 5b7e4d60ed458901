/* Unpacks gzip: by ISA-L where it was found when this was built (two to three times as fast), else by zlib. */
#ifndef AORTA_TRACE_INFLATE_H
#define AORTA_TRACE_INFLATE_H

#include <stdbool.h>
#include <stddef.h>

struct aorta_inflate {
    const unsigned char *in;
    unsigned char *out;
    size_t in_left, out_left; /* at most 2 GiB */
    const char *broken;       /* why, once it is */
    void *state;              /* the library's */
};

/* False: no memory. */
bool aorta_inflate_begin(struct aorta_inflate *bytes);
/* Unpacks until `in` is used up, `out` is full, or a member of the file has ended: true. Then the next call begins with
 * another member. */
bool aorta_inflate(struct aorta_inflate *bytes);
void aorta_inflate_end(struct aorta_inflate *bytes); /* also where it did not begin */

#endif
