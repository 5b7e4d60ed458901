#include "table.h"

#include "base/files.h"
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static const struct aorta_range_limits one_up = {.min = 1, .max = INFINITY};
static const struct aorta_range_limits share = {.min = 0, .max = 1, .below_max = true};
static const struct aorta_range_limits four = {.min = 1, .max = 4};
static const struct aorta_range_limits positive = {.min = 0, .max = INFINITY, .above_min = true};
static const struct aorta_choice shapes[] = {{"round", ROUND}, {"circle", ROUND}, {"square", SQUARE}, {0}};
static const struct aorta_choice links[] = {{"none", 0}, {"no", 0}, {"wire", 1}, {0}};

#define AT(member) offsetof(struct sample, member)
static const struct aorta_option rows[] = {
    {"main.count", AORTA_OPTION_INT, AT(count), "8", .limits = &one_up, .help = "how many"},
    {"main.limit", AORTA_OPTION_INT, AT(limit), "null", .nullable = true, .limits = &four, .help = "at most"},
    {"main.index", AORTA_OPTION_INT, AT(index), "null", .nullable = true, .when_null = -1, .help = "which"},
    {"main.rate", AORTA_OPTION_DOUBLE, AT(rate), "2e-4", .limits = &positive, .help = "how fast"},
    {"main.ratio", AORTA_OPTION_DOUBLE, AT(ratio), "0.1", .limits = &share, .help = "which part"},
    {"main.pair", AORTA_OPTION_DOUBLES_2, AT(pair), "[0.9, 0.98]", .limits = &share, .help = "two of them"},
    {"main.on", AORTA_OPTION_BOOL, AT(on), "true", .help = "whether | or not"},
    {"main.maybe", AORTA_OPTION_BOOL, AT(maybe), "null", .nullable = true, .when_null = 1, .help = "perhaps"},
    {"text.name", AORTA_OPTION_STRING, AT(name), "artifacts", .help = "called"},
    {"text.path", AORTA_OPTION_STRING, AT(path), "null", .nullable = true, .help = "where"},
    {"text.link", AORTA_OPTION_STRING, AT(link), "none", .choices = links, .help = "over what"},
    {"text.inner.shape", AORTA_OPTION_CHOICE, AT(shape), "round", .choices = shapes, .help = "which form"},
    {"text.inner.steps", AORTA_OPTION_INT_LIST, AT(steps), "null", .nullable = true, .limits = &one_up, .help = "when"},
    {"text.inner.words", AORTA_OPTION_STRING_LIST, AT(words), "[a, b]", .help = "said"},
    {"more.options", AORTA_OPTION_MAP, AT(options), "{}", .nullable = true, .help = "nothing"},
};
#undef AT

static const struct aorta_option_absent absent[] = {{"later", "comes later"}};

const struct aorta_option_table sample_table = {
    .rows = rows, .count = sizeof rows / sizeof *rows, .absent = absent, .absent_count = 1};

static char directory[64]; /* of this test program */

static void remove_directory(void) {
    static const char *const names[] = {"a.yaml", "a.json", "b.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(names[i]);
    rmdir(directory);
}

const char *sample_file(const char *name, const char *content) {
    if (!*directory) {
        strcpy(directory, "/tmp/aorta_config_XXXXXX");
        assert_non_null(mkdtemp(directory));
        assert_int_equal(chdir(directory), 0); /* messages then name the file alone */
        atexit(remove_directory);
    }
    check_ok(aorta_file_replace(name, content, strlen(content)));
    return name;
}

aorta_status sample_load(const char *content, struct sample *sample, struct aorta_config *config) {
    return aorta_config_load(&sample_table, sample_file("a.yaml", content), NULL, 0, sample, config);
}

aorta_status sample_override(const char *override, struct sample *sample, struct aorta_config *config) {
    return aorta_config_load(&sample_table, NULL, &override, 1, sample, config);
}
