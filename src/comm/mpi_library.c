#include "comm/mpi_library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

static const char library_name[] = "libmpi.so.40";

static const struct symbol {
    const char *name;
    size_t offset;
} symbols[] = {
#define FUNCTION(name) {"MPI_" #name, offsetof(struct mpi_api, name)},
#define HANDLE(member, type, symbol) {#symbol, offsetof(struct mpi_api, member)},
#include "comm/mpi.def"
#undef FUNCTION
#undef HANDLE
};

/* The name of a symbol that is missing, or NULL. */
static const char *fill(void *library, struct mpi_api *api) {
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *address = dlsym(library, symbols[i].name);
        if (!address) return symbols[i].name;
        memcpy((char *)api + symbols[i].offset, &address, sizeof address);
    }
    return NULL;
}

/* The library stays loaded: Open MPI does not survive being unloaded. Its plugins look for its symbols among those of
 * the whole program. */
aorta_status mpi_load(struct mpi_api *api) {
    void *library = dlopen(library_name, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
    if (!library) {
        const char *reason = dlerror();
        return AORTA_ERROR(AORTA_UNSUPPORTED,
                           "collectives on host memory need Open MPI 4 or 5, which cannot be loaded (%s); Debian and "
                           "Ubuntu: apt install openmpi-bin",
                           reason ? reason : library_name);
    }
    const char *missing = fill(library, api);
    if (!missing) return NULL;
    return AORTA_ERROR(AORTA_UNSUPPORTED, "%s has no %s: it is not Open MPI 4 or 5", library_name, missing);
}

bool mpi_loaded(struct mpi_api *api) {
    void *library = dlopen(library_name, RTLD_NOW | RTLD_NOLOAD);
    if (!library) return false;
    bool usable = fill(library, api) == NULL;
    dlclose(library);
    return usable;
}
