#include "job/mpirun.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#define SHARED_MEMORY "/dev/shm" /* Open MPI's directory of shared memory */
#define SEGMENT_BYTES 4456448.0  /* 4 MiB and its header */

struct setting {
    const char *name, *value;
};

/* Open MPI reads its parameters from OMPI_MCA_*; `ompi_info --all` explains each. */
static const struct setting mpirun_settings[] = {
    {"OMPI_MCA_plm", "isolated"},                   /* this host only: no ssh, no batch system */
    {"OMPI_MCA_ras", "^slurm,gridengine,tm,lsf"},   /* a batch system's allocation is not ours to use */
    {"OMPI_MCA_rmaps_base_oversubscribe", "1"},     /* more ranks than cores are fine */
    {"OMPI_MCA_hwloc_base_binding_policy", "none"}, /* the streams of a rank need all its cores */
    {"OMPI_MCA_pml", "ob1"},                        /* no probing of network libraries, which warn when they */
    {"OMPI_MCA_btl", "self,vader"},                 /* find no hardware: shared memory is all we need */
    {"OMPI_MCA_odls_base_sigkill_timeout", "1"},    /* after a rank has ended, the other ranks can only wait for it */
    {"OMPI_MCA_orte_execute_quiet", "1"},           /* our launcher reports what happened */
    {"PMIX_MCA_gds", "hash"},                       /* version 5 leaves files of its own in TMPDIR when it is killed */
};

static const struct setting root_settings[] = {
    {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
};

static const char *const foreign_prefixes[] = {
    "OMPI_COMM_WORLD_", "OMPI_MCA_orte_", "OMPI_MCA_ess_", "PMIX_",       "PMI_",          "SLURM_PROCID",
    "SLURM_STEP",       "RANK=",          "LOCAL_RANK=",   "GROUP_RANK=", "TORCHELASTIC_", "AORTA_STATE_DIR=",
};

static void apply(const struct setting *settings, size_t count) {
    for (size_t i = 0; i < count; i++) setenv(settings[i].name, settings[i].value, 0);
}

static bool runnable(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

bool aorta_program_find(const char *name, char path[PATH_MAX]) {
    if (strchr(name, '/')) return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX && runnable(path);
    const char *rest = getenv("PATH");
    while (rest && *rest) {
        int length = (int)strcspn(rest, ":");
        int printed = snprintf(path, PATH_MAX, "%.*s/%s", length, length ? rest : ".", name);
        if (printed < PATH_MAX && runnable(path)) return true;
        rest += length;
        if (*rest == ':') rest++;
    }
    return false;
}

bool aorta_mpirun_find(char path[PATH_MAX]) {
    return aorta_program_find("mpirun.openmpi", path) || aorta_program_find("mpirun", path);
}

/* Containers often forbid reading another process's memory; Open MPI then fails in the middle of a transfer. */
static bool memory_readable(void) {
    char from = 1, to = 0;
    struct iovec local = {&to, 1}, remote = {&from, 1};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1;
}

bool aorta_mpirun_shared_memory(int ranks, struct aorta_temporary *directory) {
    struct statvfs info;
    const double needed = (double)ranks * SEGMENT_BYTES;
    if (statvfs(SHARED_MEMORY, &info) || (double)info.f_bavail * (double)info.f_frsize < needed) return false;
    aorta_status failed = aorta_temporary_make_in(SHARED_MEMORY, "aorta-launch-", directory);
    aorta_status_free(failed);
    return !failed;
}

void aorta_mpirun_environment(const char *directory, const char *shared) {
    setenv("OMPI_MCA_btl_vader_backing_directory", *shared ? shared : directory, 0);
    setenv("OMPI_MCA_orte_tmpdir_base", directory, 0); /* its files go with the directory, however it ends */
    if (!memory_readable()) setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
    if (geteuid() == 0) apply(root_settings, sizeof root_settings / sizeof *root_settings);
    apply(mpirun_settings, sizeof mpirun_settings / sizeof *mpirun_settings);
}

static bool foreign(const char *entry) {
    for (size_t i = 0; i < sizeof foreign_prefixes / sizeof *foreign_prefixes; i++)
        if (!strncmp(entry, foreign_prefixes[i], strlen(foreign_prefixes[i]))) return true;
    return false;
}

void aorta_foreign_ranks_clear(void) {
    for (size_t i = 0; environ[i];) {
        size_t length = strcspn(environ[i], "=");
        char *name = foreign(environ[i]) ? strndup(environ[i], length) : NULL;
        if (name && unsetenv(name) == 0) { /* the later entries have moved up */
            free(name);
            continue;
        }
        free(name);
        i++;
    }
}
