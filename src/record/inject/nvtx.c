/* Ranges of NVTX, which CUPTI records. */
#include "record/inject/cupti.h"
#include "record/inject/settings.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(void *get_export_table);
/* Called by NVTX where NVTX_INJECTION64_PATH names this library. CUPTI has the handlers that make records of ranges;
 * its path is known only inside the process. */
int InitializeInjectionNvtx2(void *get_export_table) {
    struct aorta_inject_cupti cupti;
    const char *nvtx = getenv(AORTA_INJECT_NVTX);
    if (!nvtx || strcmp(nvtx, "1") != 0 || !aorta_inject_cupti_open(&cupti, getenv(AORTA_INJECT_CUPTI))) return 0;
    int (*initialise)(void *get_export_table);
    void *symbol = dlsym(cupti.handle, "InitializeInjectionNvtx2");
    memcpy(&initialise, &symbol, sizeof initialise);
    return initialise ? initialise(get_export_table) : 0;
}
