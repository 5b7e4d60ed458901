/* The environment of a result: program, host, device, libraries, and the variables that change measurements. Every
 * result has it, so that a comparison can first name all differences. */
#ifndef AORTA_DEVICE_ENVIRONMENT_H
#define AORTA_DEVICE_ENVIRONMENT_H

#include "base/arena.h"
#include "base/json.h"
#include "device/device.h"

#include <stdbool.h>

struct aorta_environment { /* zero-initialise */
    struct aorta_arena arena;
    struct aorta_environment_item {
        const char *section, *key, *value;
    } * items;
    size_t count, capacity;
};

/* The sections aorta, host, device, software and environment (the variables). `device`: NULL when no device of this
 * process measured; then it lists the machine's GPUs. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_environment_take(struct aorta_device *device, struct aorta_environment *environment);
/* Adds one entry. A NULL or empty value is skipped. */
AORTA_MUST_USE aorta_status aorta_environment_add(struct aorta_environment *environment, const char *section,
                                                  const char *key, const char *value);
void aorta_environment_free(struct aorta_environment *environment);

extern const char aorta_environment_file[]; /* "environment.json" */
/* Writes it in the directory. AORTA_IO. */
AORTA_MUST_USE aorta_status aorta_environment_save(const struct aorta_environment *environment, const char *directory);

/* Takes the environment without a device of this process, and writes it. */
AORTA_MUST_USE aorta_status aorta_environment_of_host_save(const char *directory);

/* Whether a variable ("NAME" or "NAME=value") changes measurements. */
bool aorta_environment_matters(const char *variable);

/* "0.1.0", "794d1bc" or "794d1bc-dirty"; "unknown" where it was not built from a repository,
 * and in programs that link the library. */
extern const char aorta_version[], aorta_commit[];

#endif
