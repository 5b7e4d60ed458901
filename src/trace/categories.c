#include "trace/kernel_names.h"

#include <string.h>

struct row {
    const char *part;
    enum aorta_category category;
    bool product;
};
static const struct row rows[] = {
#define KERNEL(part, category, product) {part, AORTA_CATEGORY_##category, product},
#include "trace/categories.def"
#undef KERNEL
};

static const struct {
    const char *name;
    enum aorta_work_class class;
} categories[AORTA_CATEGORY_COUNT] = {
    {"gemm", AORTA_WORK_GEMM},
    {"experts", AORTA_WORK_GEMM},
    {"convolution", AORTA_WORK_GEMM}, /* that is how they run */
    {"attention", AORTA_WORK_ATTENTION},
    {"norm", AORTA_WORK_REDUCTION},
    {"activation", AORTA_WORK_POINTWISE},
    {"rope", AORTA_WORK_POINTWISE},
    {"cache", AORTA_WORK_POINTWISE},
    {"quantisation", AORTA_WORK_POINTWISE},
    {"routing", AORTA_WORK_REDUCTION},
    {"sampling", AORTA_WORK_REDUCTION},
    {"softmax", AORTA_WORK_REDUCTION},
    {"lookup", AORTA_WORK_POINTWISE},
    {"sort", AORTA_WORK_REDUCTION},
    {"optimizer", AORTA_WORK_POINTWISE},
    {"copy_kernel", AORTA_WORK_POINTWISE},
    {"elementwise", AORTA_WORK_POINTWISE},
    {"reduction", AORTA_WORK_REDUCTION},
    {"other", AORTA_WORK_OTHER},
};

const char *aorta_category_name(enum aorta_category category) {
    return categories[category].name;
}

static const struct row *find_row(const char *kernel) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *part = rows[i].part;
        if (*part == '^' ? !strncmp(kernel, part + 1, strlen(part + 1)) : strstr(kernel, part) != NULL) return &rows[i];
    }
    return NULL;
}

enum aorta_category aorta_kernel_category(const char *kernel) {
    const struct row *row = find_row(kernel);
    return row ? row->category : AORTA_CATEGORY_OTHER;
}

enum aorta_category aorta_category_of_class(enum aorta_work_class class) {
    static const enum aorta_category of[AORTA_WORK_CLASS_COUNT] = {AORTA_CATEGORY_GEMM,      AORTA_CATEGORY_CONVOLUTION,
                                                                   AORTA_CATEGORY_ATTENTION, AORTA_CATEGORY_ELEMENTWISE,
                                                                   AORTA_CATEGORY_REDUCTION, AORTA_CATEGORY_OTHER};
    return of[class];
}

enum aorta_work_class aorta_kernel_work_class(const char *kernel) {
    return categories[aorta_kernel_category(kernel)].class;
}

bool aorta_kernel_is_gemm(const char *kernel) {
    const struct row *row = find_row(kernel);
    return row && row->product;
}
