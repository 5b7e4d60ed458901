/* The direction of a copy is read from the names that CUPTI, Kineto, rocprofv3 and HIP give it. */
#include "check.h"
#include "trace/trace.h"

static void directions_of_names(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum aorta_copied how;
    } rows[] = {{"Memcpy HtoD", AORTA_COPIED_TO_DEVICE},
                {"Memcpy HtoD (Pageable -> Device)", AORTA_COPIED_TO_DEVICE},
                {"MEMORY_COPY_HOST_TO_DEVICE", AORTA_COPIED_TO_DEVICE},
                {"Memcpy DtoH (Device -> Pinned)", AORTA_COPIED_TO_HOST},
                {"CopyDeviceToHost", AORTA_COPIED_TO_HOST},
                {"Memcpy (Device -> Pageable)", AORTA_COPIED_TO_HOST},
                {"Memcpy DtoD (Device -> Device)", AORTA_COPIED_WITHIN},
                {"MEMORY_COPY_DEVICE_TO_DEVICE", AORTA_COPIED_WITHIN},
                {"CopyDeviceToDevice", AORTA_COPIED_WITHIN},
                {"Memcpy PtoP", AORTA_COPIED_BETWEEN},
                {"Memcpy PtoP (Device -> Device)", AORTA_COPIED_BETWEEN},
                {"copy peer to peer", AORTA_COPIED_BETWEEN},
                {"Memcpy", AORTA_COPIED_UNKNOWN}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (aorta_copied_how(rows[i].name) != rows[i].how) fail_msg("%s", rows[i].name);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(directions_of_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
