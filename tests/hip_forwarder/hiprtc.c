/* libhiprtc on a machine with NVIDIA's: forwarded to NVRTC, for the GPU of this machine. */
#include "device/gpu/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static struct gpu_compiler_api api;
static char architecture[64]; /* the option */
static aorta_status failure;

static void load(void) {
    struct aorta_library library;
    struct gpu_device device = {.driver.vendor = &aorta_gpu_cuda};
    failure = aorta_library_open(&aorta_gpu_cuda.compiler, &api, &library);
    if (!failure) failure = aorta_library_open(&aorta_gpu_cuda.driver, &device.driver.api, &library);
    if (failure) {
        fprintf(stderr, "HIP forwarder: %s\n", aorta_status_message(failure));
        return;
    }
    struct aorta_gpu_properties properties = {0};
    aorta_gpu_cuda.architecture(&device, &properties);
    aorta_gpu_cuda.architecture_option(&properties, architecture, sizeof architecture);
}

static bool ready(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return !failure;
}

enum { INTERNAL_ERROR = 11 };

#define FORWARD(name, member, parameters, arguments)                                                                   \
    EXPORT int name parameters;                                                                                        \
    int name parameters {                                                                                              \
        return ready() ? api.member arguments : INTERNAL_ERROR;                                                        \
    }

FORWARD(hiprtcVersion, version, (int *major, int *minor), (major, minor))
FORWARD(hiprtcCreateProgram, program_create,
        (void **program, const char *source, const char *name, int count, const char *const *headers,
         const char *const *names),
        (program, source, name, count, headers, names))
FORWARD(hiprtcDestroyProgram, program_destroy, (void **program), (program))
FORWARD(hiprtcGetProgramLogSize, log_bytes, (void *program, size_t *bytes), (program, bytes))
FORWARD(hiprtcGetProgramLog, log, (void *program, char *log), (program, log))
FORWARD(hiprtcGetCodeSize, code_bytes, (void *program, size_t *bytes), (program, bytes))
FORWARD(hiprtcGetCode, code, (void *program, char *code), (program, code))

EXPORT int hiprtcCompileProgram(void *program, int count, const char *const *options);
int hiprtcCompileProgram(void *program, int count, const char *const *options) {
    enum { MOST = 16 };
    const char *own[MOST];
    if (!ready() || count > MOST) return INTERNAL_ERROR;
    for (int i = 0; i < count; i++) {
        bool target = strncmp(options[i], "--offload-arch=", strlen("--offload-arch=")) == 0;
        own[i] = target ? architecture : options[i];
    }
    return api.program_compile(program, count, own);
}

EXPORT const char *hiprtcGetErrorString(int error);
const char *hiprtcGetErrorString(int error) {
    return ready() ? api.error_text(error) : "NVRTC could not be loaded";
}
