/* A small table with one row of each kind, and a file with a test's contents. */
#ifndef AORTA_TESTS_CONFIG_TABLE_H
#define AORTA_TESTS_CONFIG_TABLE_H

#include "config/config.h"

enum shape { ROUND, SQUARE };

struct sample {
    int64_t count, limit, index;
    double rate, ratio, pair[2];
    bool on, maybe;
    const char *name, *path, *link, *options;
    enum shape shape;
    struct aorta_int_list steps;
    struct aorta_string_list words;
};

extern const struct aorta_option_table sample_table;

/* Writes a file in a directory of this test's own and returns its path; the next call with the same name replaces it.
 */
const char *sample_file(const char *name, const char *content);

aorta_status sample_load(const char *content, struct sample *sample, struct aorta_config *config);
aorta_status sample_override(const char *override, struct sample *sample, struct aorta_config *config);

#endif
