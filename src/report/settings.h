/* The configuration a run was made with, from config.json in its directory. */
#ifndef AORTA_REPORT_SETTINGS_H
#define AORTA_REPORT_SETTINGS_H

#include "base/arena.h"
#include "verdict/advice.h"

/* Every key as "section.key" with its value as text; strings and the table live in the arena. `device.kind` is the
 * device that the run was on (NULL: what the file says, perhaps "auto"), which is borrowed. A directory without the
 * file (one of the original toolkit) gives no settings. AORTA_FORMAT when the file is not a JSON object. */
AORTA_MUST_USE aorta_status aorta_settings_read(const char *directory, const char *device, struct aorta_arena *arena,
                                                struct aorta_settings *settings);

#endif
