/* The fake libcuda: modules, their functions, and launching them. */
#include "device/gpu/driver.h"
#include "fake_gpu/cuda.h"
#include "fake_gpu/held.h"
#include "fake_gpu/queues.h"

#include <pthread.h>
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

/* Stamps that take room have as many as their name says. */
static int registers_of(const char *name) {
    int registers = 32;
    sscanf(name, "aorta_stamp_room_%d", &registers);
    return registers;
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
    made->tells_times = strstr(of->text, "tell_end(times)") != NULL;
    made->registers = registers_of(name);
    made->next = of->functions;
    of->functions = made;
    *function = made;
    return 0;
}

EXPORT int cuFuncGetAttribute(int *value, int attribute, void *function);
int cuFuncGetAttribute(int *value, int attribute, void *function) {
    ENTER();
    const struct fake_function *known = function;
    *value = attribute == GPU_FUNCTION_REGISTERS      ? known->registers
             : attribute == GPU_FUNCTION_SHARED_BYTES ? known->shared_bytes
                                                      : 0;
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
    *offset = index ? known->bytes : 0;
    *bytes = index ? sizeof(struct gpu_times) : known->bytes;
    if (!index && fake_does_nothing(known)) return NOT_SUPPORTED;
    return index > known->tells_times || !*bytes ? INVALID_VALUE : 0;
}

EXPORT int cuFuncLoad(void *function);
int cuFuncLoad(void *function) {
    ENTER();
    return function ? 0 : INVALID_VALUE;
}

EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared_bytes);
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared_bytes) {
    ENTER();
    (void)function, (void)shared_bytes;
    *blocks = 2048 / threads;
    return 0;
}

EXPORT int cuKernelGetFunction(void **function, void *kernel);
int cuKernelGetFunction(void **function, void *kernel) {
    ENTER();
    *function = kernel;
    return 0;
}

/* ---- launching ---- */

/* Of calls that look like kernels; they stay, as the calls do. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_function *call_functions;

int fake_launch_as_kernel(void *stream, const struct fake_shape *shape, void (*function)(void *user), void *user) {
    struct fake_function *made = calloc(1, sizeof *made);
    made->registers = shape->registers;
    made->shared_bytes = shape->static_bytes;
    pthread_mutex_lock(&lock);
    made->next = call_functions;
    call_functions = made;
    pthread_mutex_unlock(&lock);
    struct fake_node *node = fake_capture_kernel(stream, made, (const unsigned[]){(unsigned)shape->threads, 1, 1},
                                                 (unsigned)shape->dynamic_bytes, (unsigned)shape->cluster);
    struct fake_call *call = NULL;
    const int result = fake_check("cuLaunchHostFunc");
    if (result) return result;
    int queued = fake_queue_call(stream, function, user, &call);
    fake_capture_done(stream);
    if (node) fake_capture_call(node, call);
    return queued;
}

EXPORT int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared_bytes, void *stream, void **parameters, void **extra);
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared_bytes, void *stream, void **parameters, void **extra) {
    ENTER();
    (void)extra;
    if (!gx || !gy || !gz || !bx || !by || !bz || bx * by * bz > 1024) return INVALID_VALUE;
    struct fake_function *known = function;
    const struct fake_call *awaited = fake_captured_awaited(stream);
    struct fake_node *node = fake_capture_kernel(stream, known, (const unsigned[]){bx, by, bz}, shared_bytes, 1);
    if (node) fake_capture_parameters(node, parameters);
    fake_queues_enter(stream);
    int result = fake_code(fake_run(stream, known, awaited, node, parameters));
    fake_capture_done(stream);
    fake_queues_leave(stream);
    return result;
}

/* CUlaunchConfig, with attributes of which only the cluster is looked at. */
struct launch_attribute {
    int id;
    char unused[4];
    unsigned value[16];
};
struct launch_config {
    unsigned grid[3], block[3], shared_bytes;
    void *stream;
    struct launch_attribute *attributes;
    unsigned attribute_count;
};

EXPORT int cuLaunchKernelEx(const struct launch_config *config, void *function, void **parameters, void **extra);
int cuLaunchKernelEx(const struct launch_config *config, void *function, void **parameters, void **extra) {
    ENTER();
    const unsigned *grid = config->grid, *block = config->block;
    for (unsigned i = 0; i < config->attribute_count; i++) {
        const struct launch_attribute *attribute = &config->attributes[i];
        if (attribute->id == 4 && (!attribute->value[0] || grid[0] % attribute->value[0])) return INVALID_VALUE;
    }
    return cuLaunchKernel(function, grid[0], grid[1], grid[2], block[0], block[1], block[2], config->shared_bytes,
                          config->stream, parameters, extra);
}
