#include "record/inject/names.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

static bool add(struct aorta_inject_names *names, struct aorta_inject_name *slot, struct aorta_spool *spool,
                const char *text, size_t length, uint32_t hash) {
    bool full = names->count >= AORTA_INJECT_NAME_SLOTS / 2 || names->bytes + length > AORTA_INJECT_NAME_BYTES;
    char *copy = full ? NULL : strndup(text, length);
    if (!copy) return false;
    names->count++;
    names->bytes += length;
    *slot = (struct aorta_inject_name){copy, hash, (uint32_t)names->count};
    struct aorta_spool_text record = {.id = slot->id, .length = (uint32_t)length};
    aorta_spool_put_texts(spool, AORTA_SPOOL_TEXT, &record, sizeof record, &text, &length, 1);
    return true;
}

/* The slot that has the text, made when it is new; NULL: it is full. */
static const struct aorta_inject_name *find(struct aorta_inject_names *names, struct aorta_spool *spool,
                                            const char *text) {
    size_t length = strnlen(text, AORTA_INJECT_NAME_LONGEST);
    uint32_t hash = (uint32_t)aorta_hash_bytes(text, length);
    for (uint32_t i = hash;; i++) {
        struct aorta_inject_name *slot = &names->slots[i % AORTA_INJECT_NAME_SLOTS];
        if (!slot->text) return add(names, slot, spool, text, length, hash) ? slot : NULL;
        if (slot->hash == hash && strncmp(slot->text, text, length) == 0 && !slot->text[length]) return slot;
    }
}

uint32_t aorta_inject_name(struct aorta_inject_names *names, struct aorta_spool *spool, const char *text) {
    if (!text) return 0;
    uintptr_t address = (uintptr_t)text;
    struct aorta_inject_name_place *seen = &names->places[(address ^ address >> 12) % AORTA_INJECT_NAME_PLACES];
    if (seen->place == text && strcmp(seen->name->text, text) == 0) return seen->name->id;
    const struct aorta_inject_name *name = find(names, spool, text);
    if (name) *seen = (struct aorta_inject_name_place){text, name};
    return name ? name->id : 0;
}

void aorta_inject_names_free(struct aorta_inject_names *names) {
    for (size_t i = 0; i < AORTA_INJECT_NAME_SLOTS; i++) free(names->slots[i].text);
    memset(names, 0, sizeof *names);
}
