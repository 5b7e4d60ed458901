/* Settings of a run, and how the settings of two runs differ. */
#ifndef AORTA_BASE_SETTINGS_H
#define AORTA_BASE_SETTINGS_H

#include "base/rows.h"

/* One configuration key and the value in effect: "fsdp.forward_prefetch", "true". Borrowed. */
struct aorta_setting {
    const char *key, *value;
};

struct aorta_settings {
    struct aorta_setting *items;
    size_t count;
};
const char *aorta_settings_value(const struct aorta_settings *settings, const char *key); /* NULL: there is none */

struct aorta_differences {    /* zero-initialise */
    struct aorta_arena arena; /* of the items; fails for all of them. Their strings are borrowed */
    struct aorta_setting_difference {
        const char *key, *reference, *candidate; /* NULL: not set */
    } * items;
    size_t count, capacity;
};

/* Adds the settings that differ, each key once: in the order of the reference, then those that only the candidate has.
 * If one side has no settings they are unknown, and nothing is added. */
void aorta_differences_add(struct aorta_differences *differences, const struct aorta_settings *reference,
                           const struct aorta_settings *candidate);
void aorta_differences_free(struct aorta_differences *differences);
/* "NCCL_PROTO is LL, was not set; …", nothing if no setting differs; as JSON the key "differences". */
void aorta_differences_list(const struct aorta_differences *differences, struct aorta_text *out);
extern const struct aorta_row aorta_difference_rows[];
void aorta_differences_json(const struct aorta_differences *differences, struct aorta_json *json);

#endif
