/* Texts of a spool, each written once: bounded, so that a process that makes up names costs no memory without end. */
#ifndef AORTA_TRACE_INJECT_NAMES_H
#define AORTA_TRACE_INJECT_NAMES_H

#include "trace/inject/spool.h"

enum { AORTA_INJECT_NAME_SLOTS = 1 << 15, AORTA_INJECT_NAME_BYTES = 32 << 20, AORTA_INJECT_NAME_LONGEST = 16 << 10 };

struct aorta_inject_name {
    char *text;
    uint32_t hash, id;
};

struct aorta_inject_names { /* zero-initialise */
    struct aorta_inject_name slots[AORTA_INJECT_NAME_SLOTS];
    size_t count, bytes;
};

/* The text's number, written to the spool when it is new; 0 when there is no room or no text. */
uint32_t aorta_inject_name(struct aorta_inject_names *names, struct aorta_spool *spool, const char *text);
void aorta_inject_names_free(struct aorta_inject_names *names);

#endif
