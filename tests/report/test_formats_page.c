#include "base/files.h"
#include "check.h"
#include "report/schemas.h"

#include <stdlib.h>
#include <string.h>

/* docs/metrics-format.md is what the rows say. */
static void is_not_stale(void **state) {
    (void)state;
    struct aorta_text page = {0};
    char *bytes;
    size_t length;
    aorta_formats_page(&page);
    check_ok(aorta_text_check(&page));
    check_ok(aorta_file_read(AORTA_SOURCE "/docs/metrics-format.md", &bytes, &length));
    if (strcmp(bytes, page.data) != 0)
        fail_msg("docs/metrics-format.md is stale; make it again: build/release/aorta help formats --markdown > "
                 "docs/metrics-format.md");
    free(bytes);
    aorta_text_free(&page);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(is_not_stale)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
