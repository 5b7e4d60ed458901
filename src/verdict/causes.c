#include "verdict/causes.h"
#include "verdict/verdict_internal.h"

#include <string.h>

#define AORTA_REMEDY_GAIN_TEXT                                                                                         \
    "Replay with kernels that take as long as the rule says (docs/remedies.md). The range says how sure the rule is."
#define AORTA_REMEDY_MEASURED                                                                                          \
    {                                                                                                                  \
        "{operations*operations take|operation takes} {touched#} of {kernels}"                                         \
        "[; {kernel_gain#} ms of kernels and {launch_gain} of launches can go][; {after} of the gain remain after "    \
        "the other fixes][; {upper_bound}][ ({upper_bound.text})][; {waits_for_host}]"                                 \
        "[; {with_attention}][; in 16 bits {in_16_bits} instead][; needs {memory} of memory]"                          \
    }
#define AORTA_REMEDY_WORST                                                                                             \
    { "{operation.name}[ {operation.shape}][, {operation.count}], {operation}" }

static const struct aorta_cause_row rows[AORTA_CAUSE_COUNT] = {
#define CAUSE(name_, key_, removal_, description_, late_, free_, off_, on_, ...)                                       \
    [AORTA_CAUSE_##name_] = {.key = key_, __VA_ARGS__},
#include "replay/causes.def"
#undef CAUSE
};

const struct aorta_cause_row *aorta_cause_row(enum aorta_cause cause) {
    return &rows[cause];
}

enum aorta_cause aorta_cause_named(const char *key) {
    int cause = 0;
    while (cause < AORTA_CAUSE_COUNT && strcmp(rows[cause].key, key) != 0) cause++;
    return (enum aorta_cause)cause;
}

const char *aorta_cause_name(enum aorta_cause cause) {
    return (unsigned)cause < AORTA_CAUSE_COUNT ? rows[cause].key : "unknown";
}

bool aorta_cause_has_kind(enum aorta_cause cause) {
    return rows[cause].by_kind;
}
