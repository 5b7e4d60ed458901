#include "config/reader.h"

#include <string.h>

aorta_status aorta_option_store_default(const struct aorta_option *option, void *values, struct aorta_arena *arena) {
    aorta_status status = NULL;
    if (option->type == AORTA_OPTION_TREE || option->type == AORTA_OPTION_MAP) {
        aorta_option_store(option, &(struct aorta_scalar){option->fallback, false}, 1, false, values, arena, &status);
        return status;
    }
    yaml_document_t document;
    AORTA_TRY(aorta_yaml_load(option->fallback, strlen(option->fallback), option->key, false, &document));
    const yaml_node_t *root = yaml_document_get_root_node(&document);
    struct aorta_scalar *scalars;
    size_t count;
    bool list;
    bool fits = root && aorta_yaml_scalars(&document, root, arena, &scalars, &count, &list) &&
                aorta_option_store(option, scalars, count, list, values, arena, &status);
    if (!fits && !status) {
        status = AORTA_ERROR(AORTA_INTERNAL, "the default of %s does not fit its own row: %s", option->key,
                             option->fallback);
    }
    yaml_document_delete(&document);
    return status;
}
