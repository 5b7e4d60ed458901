/* The configuration a run was made with, and what it was measured with, from config.json and environment.json in its
 * directory. */
#ifndef AORTA_REPORT_SETTINGS_H
#define AORTA_REPORT_SETTINGS_H

#include "base/arena.h"
#include "base/json.h"
#include "verdict/advice.h"

/* Every key as "section.key" with its value as text; strings and the table live in the arena. `device.kind` is the
 * device that the run was on (NULL: what the file says, perhaps "auto"), which is borrowed. A directory without the
 * file (one of the original toolkit) gives no settings. AORTA_FORMAT when the file is not a JSON object. */
AORTA_MUST_USE aorta_status aorta_settings_read(const char *directory, const char *device, struct aorta_arena *arena,
                                                struct aorta_settings *settings);

/* environment.json of aorta train, hwq, trace run or sweep: "host.name", "software.driver", "environment.NCCL_PROTO".
 * None without the file. AORTA_FORMAT. */
AORTA_MUST_USE aorta_status aorta_settings_environment(const char *directory, struct aorta_arena *arena,
                                                       struct aorta_settings *settings);

/* With another value a step does other work, so that times of steps do not compare. A key of a configuration, an option
 * of hwq or of a command. */
bool aorta_setting_changes_work(const char *key);

struct aorta_differences {    /* zero-initialise */
    struct aorta_arena arena; /* of the items; fails for all of them. Their strings are borrowed */
    struct aorta_setting_difference {
        const char *key, *reference, *candidate; /* NULL: not set */
    } * items;
    size_t count, capacity;
};

/* Adds what differs: in the order of the first, then what only the second has; a key once. Where one side has nothing
 * at all nothing is known, and nothing differs. */
void aorta_differences_add(struct aorta_differences *differences, const struct aorta_settings *reference,
                           const struct aorta_settings *candidate);
void aorta_differences_free(struct aorta_differences *differences);
/* "NCCL_PROTO is LL, was not set; …", nothing where nothing differs; and key and value of "differences". */
void aorta_differences_list(const struct aorta_differences *differences, struct aorta_text *out);
void aorta_differences_json(const struct aorta_differences *differences, struct aorta_json *json);

#endif
