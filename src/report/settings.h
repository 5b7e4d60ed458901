/* The configuration a run was made with, and what it was measured with, from config.json and environment.json in its
 * directory. */
#ifndef AORTA_REPORT_SETTINGS_H
#define AORTA_REPORT_SETTINGS_H

#include "base/settings.h"

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

#endif
