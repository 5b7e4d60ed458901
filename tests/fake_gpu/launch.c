/* The fake libcuda: modules, their functions, and launching them. */
#include "fake_gpu/cuda.h"
#include "fake_gpu/objects.h"
#include "fake_gpu/queues.h"
#include "fake_gpu/records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- modules and their functions ---- */

struct module {
    char *text;
    struct fake_function *functions;
};

EXPORT int cuModuleLoadData(void **module, const void *image);
int cuModuleLoadData(void **module, const void *image) {
    ENTER();
    if (strncmp(image, "fake code\n", 10) != 0) return INVALID_IMAGE;
    struct module *made = calloc(1, sizeof *made);
    made->text = strdup(image);
    fake_hold(made);
    *module = made;
    return 0;
}

EXPORT int cuModuleUnload(void *module);
int cuModuleUnload(void *module) {
    int wanted = fake_check(__func__); /* what is destroyed is gone all the same */
    struct module *gone = module;
    fake_let_go(gone);
    while (gone->functions) {
        struct fake_function *function = gone->functions;
        gone->functions = function->next;
        free(function);
    }
    free(gone->text);
    free(gone);
    return wanted;
}

EXPORT int cuModuleGetFunction(void **function, void *module, const char *name);
int cuModuleGetFunction(void **function, void *module, const char *name) {
    ENTER();
    struct module *of = module;
    const struct fake_kernel *kernel = fake_find_kernel(of->text, name);
    if (!kernel) return NOT_FOUND;
    struct fake_function *made = calloc(1, sizeof *made);
    snprintf(made->name, sizeof made->name, "%s", name);
    made->kernel = (struct aorta_kernel){.name = made->name, .cpu = kernel->run};
    made->bytes = kernel->bytes;
    made->next = of->functions;
    of->functions = made;
    *function = made;
    return 0;
}

EXPORT int cuFuncSetAttribute(void *function, int attribute, int value);
int cuFuncSetAttribute(void *function, int attribute, int value) {
    ENTER();
    (void)function;
    return attribute == 8 && value <= 227 * 1024 ? 0 : INVALID_VALUE;
}

EXPORT int cuFuncGetParamInfo(void *function, size_t index, size_t *offset, size_t *bytes);
int cuFuncGetParamInfo(void *function, size_t index, size_t *offset, size_t *bytes) {
    ENTER();
    const struct fake_function *known = function;
    *offset = 0;
    *bytes = known->bytes;
    if (!index && fake_does_nothing(known)) return NOT_SUPPORTED;
    return index || !*bytes ? INVALID_VALUE : 0;
}

EXPORT int cuFuncLoad(void *function);
int cuFuncLoad(void *function) {
    ENTER();
    return function ? 0 : INVALID_VALUE;
}

/* ---- launching ---- */

int fake_launch_as_kernel(void *stream, const char *name, void (*function)(void *user), void *user) {
    const int result = fake_check("cuLaunchHostFunc");
    if (result) return result;
    struct fake_record *record = fake_record_begin(stream, FAKE_KERNEL, name, 0);
    int queued = fake_queue_call(stream, function, user);
    fake_record_end(stream, record);
    return queued;
}

EXPORT int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared_bytes, void *stream, void **parameters, void **extra);
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared_bytes, void *stream, void **parameters, void **extra) {
    ENTER();
    (void)shared_bytes, (void)extra;
    if (!gx || !gy || !gz || !bx || !by || !bz || bx * by * bz > 1024) return INVALID_VALUE;
    const struct fake_function *known = function;
    fake_queues_enter(stream);
    struct fake_record *record = fake_record_begin(stream, FAKE_KERNEL, known->name, 0);
    int result = fake_code(fake_run(stream, known, parameters[0]));
    fake_record_end(stream, record);
    fake_queues_leave(stream);
    return result;
}
