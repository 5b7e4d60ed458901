/* Finds which of a reader's keys a text is; fast, for inner loops. */
#ifndef AORTA_FORMATS_KEYS_H
#define AORTA_FORMATS_KEYS_H

#include "formats/json_stream.h"

enum { AORTA_KEY_SLOTS = 256 };

struct aorta_key_row {
    const char *name;
    uint8_t number; /* what is found; several rows may share one (names that changed) */
};

struct aorta_keys {
    const struct aorta_key_row *rows;
    uint8_t slots[AORTA_KEY_SLOTS]; /* row + 1; 0: free */
    uint8_t lengths[AORTA_KEY_SLOTS / 2];
};

/* At most 127 rows, borrowed; names differ and have 1 to 255 bytes. */
void aorta_keys_make(struct aorta_keys *keys, const struct aorta_key_row *rows, size_t count);
/* -1: none of them. */
int aorta_keys_find(const struct aorta_keys *keys, struct aorta_json_value key);

#endif
