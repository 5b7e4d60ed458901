/* The C++ library's demangler, in a file of its own so that a test can replace it. */
#include "trace/kernel_names.h"

#include <dlfcn.h>
#include <string.h>

/* The program is C, so the C++ library is loaded at run time. */
char *aorta_demangle(const char *name) {
    if (!aorta_begins(name, "_Z")) return NULL;
    void *library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);
    if (!library) library = dlopen("libc++abi.so.1", RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "__cxa_demangle") : NULL;
    char *(*demangle)(const char *name, char *buffer, size_t *length, int *status);
    memcpy(&demangle, &symbol, sizeof demangle);
    int status = -1;
    char *text = demangle ? demangle(name, NULL, NULL, &status) : NULL;
    if (library) dlclose(library);
    return text;
}
