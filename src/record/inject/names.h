/* Texts of a spool, each written once: bounded, so that a process that makes up names does not use unlimited memory.
 *
 * A text usually repeats at one address, so the last text at this address is compared first: hashing long kernel names
 * would take processor time from the program. */
#ifndef AORTA_RECORD_INJECT_NAMES_H
#define AORTA_RECORD_INJECT_NAMES_H

#include "record/inject/spool.h"

enum { AORTA_INJECT_NAME_SLOTS = 1 << 15, AORTA_INJECT_NAME_BYTES = 32 << 20, AORTA_INJECT_NAME_LONGEST = 16 << 10 };
enum { AORTA_INJECT_NAME_PLACES = 1 << 12 };

struct aorta_inject_name {
    char *text;
    uint32_t hash, id;
};

struct aorta_inject_name_place {
    const char *place; /* only compared: the text there may have gone */
    const struct aorta_inject_name *name;
};

struct aorta_inject_names { /* zero-initialise */
    struct aorta_inject_name slots[AORTA_INJECT_NAME_SLOTS];
    struct aorta_inject_name_place places[AORTA_INJECT_NAME_PLACES];
    size_t count, bytes;
};

/* The text's number, written to the spool when it is new; 0 when it is full or there is no text. */
uint32_t aorta_inject_name(struct aorta_inject_names *names, struct aorta_spool *spool, const char *text);
void aorta_inject_names_free(struct aorta_inject_names *names);

#endif
