#include "formats/keys.h"

#include <stdbool.h>
#include <string.h>

static inline unsigned slot_of(const char *name, size_t length) {
    unsigned first = (unsigned char)name[0], last = (unsigned char)name[length - 1];
    return ((unsigned)length * 37 + first * 5 + last * 11) % AORTA_KEY_SLOTS;
}

void aorta_keys_make(struct aorta_keys *keys, const struct aorta_key_row *rows, size_t count) {
    memset(keys, 0, sizeof *keys);
    keys->rows = rows;
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(rows[i].name);
        unsigned slot = slot_of(rows[i].name, length);
        while (keys->slots[slot]) slot = (slot + 1) % AORTA_KEY_SLOTS;
        keys->slots[slot] = (uint8_t)(i + 1);
        keys->lengths[i] = (uint8_t)length;
    }
}

/* Both have this length, which is not 0. */
static inline bool is_same(const char *a, const char *b, size_t length) {
    uint64_t x, y, x_end, y_end;
    if (length > 16) return !memcmp(a, b, length);
    if (length < 8) {
        for (size_t i = 0; i < length; i++)
            if (a[i] != b[i]) return false;
        return true;
    }
    memcpy(&x, a, 8);
    memcpy(&y, b, 8);
    memcpy(&x_end, a + length - 8, 8);
    memcpy(&y_end, b + length - 8, 8);
    return x == y && x_end == y_end;
}

int aorta_keys_find(const struct aorta_keys *keys, struct aorta_json_value key) {
    if (!key.length) return -1;
    for (unsigned slot = slot_of(key.text, key.length); keys->slots[slot]; slot = (slot + 1) % AORTA_KEY_SLOTS) {
        unsigned row = keys->slots[slot] - 1u;
        if (keys->lengths[row] == key.length && is_same(keys->rows[row].name, key.text, key.length))
            return keys->rows[row].number;
    }
    return -1;
}
