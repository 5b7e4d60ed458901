/* The fake libnvrtc: "compiles" a source into a line that says so and the source itself. A source with "#error" in it
 * does not compile. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static const char log_text[] = "fake.cu(1): error: as the source wants it";
enum { COMPILATION = 6 };

struct program {
    char *source;
    int failed;
};

EXPORT int nvrtcVersion(int *major, int *minor);
int nvrtcVersion(int *major, int *minor) {
    *major = 13;
    *minor = 0;
    return 0;
}

EXPORT int nvrtcCreateProgram(void **program, const char *source, const char *name, int count,
                              const char *const *headers, const char *const *names);
int nvrtcCreateProgram(void **program, const char *source, const char *name, int count, const char *const *headers,
                       const char *const *names) {
    (void)name, (void)count, (void)headers, (void)names;
    struct program *made = calloc(1, sizeof *made);
    if (asprintf(&made->source, "fake code\n%s", source) < 0) return 1;
    *program = made;
    return 0;
}

EXPORT int nvrtcDestroyProgram(void **program);
int nvrtcDestroyProgram(void **program) {
    struct program *gone = *program;
    free(gone->source);
    free(gone);
    return 0;
}

EXPORT int nvrtcCompileProgram(void *program, int count, const char *const *options);
int nvrtcCompileProgram(void *program, int count, const char *const *options) {
    struct program *of = program;
    if (count < 1 || strcmp(options[0], "--gpu-architecture=sm_90a") != 0) return 5;
    of->failed = strstr(of->source, "#error") != NULL;
    return of->failed ? COMPILATION : 0;
}

EXPORT int nvrtcGetProgramLogSize(void *program, size_t *bytes);
int nvrtcGetProgramLogSize(void *program, size_t *bytes) {
    *bytes = ((struct program *)program)->failed ? sizeof log_text : 1;
    return 0;
}

EXPORT int nvrtcGetProgramLog(void *program, char *log);
int nvrtcGetProgramLog(void *program, char *log) {
    strcpy(log, ((struct program *)program)->failed ? log_text : "");
    return 0;
}

EXPORT int nvrtcGetCUBINSize(void *program, size_t *bytes);
int nvrtcGetCUBINSize(void *program, size_t *bytes) {
    *bytes = strlen(((struct program *)program)->source) + 1;
    return 0;
}

EXPORT int nvrtcGetCUBIN(void *program, char *code);
int nvrtcGetCUBIN(void *program, char *code) {
    strcpy(code, ((struct program *)program)->source);
    return 0;
}

EXPORT const char *nvrtcGetErrorString(int error);
const char *nvrtcGetErrorString(int error) {
    return error == COMPILATION ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_INVALID_OPTION";
}
