#include "device/gpu_rig.h"
#include "folder.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- the fake ---- */

static char folder[FOLDER_PATH]; /* of the cache */

int make_cache(void **state) {
    (void)state;
    folder_make(folder, "cache");
    return 0;
}

int remove_cache(void **state) {
    (void)state;
    return folder_remove(folder);
}

const char *cache_folder(void) {
    return folder;
}

void use_libraries(const char *subfolder) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", FAKE_GPU, subfolder);
    setenv("AORTA_LIBRARY_PATH", path, 1);
}

void use_old_management(void) {
    setenv("AORTA_LIBRARY_PATH", FAKE_GPU "/old_nvml:" FAKE_GPU "/cuda", 1);
}

const struct fake_gpu_control *control(void) {
    void *library = dlopen(FAKE_GPU "/cuda/libcuda.so.1", RTLD_NOW);
    assert_non_null(library);
    const struct fake_gpu_control *found = dlsym(library, "fake_gpu_control");
    assert_non_null(found);
    return found;
}

int reset_fake(void **state) {
    (void)state;
    use_libraries("cuda");
    setenv("AORTA_CACHE_DIR", folder, 1);
    control()->strike(NULL, 0, 0, 0);
    control()->set_devices(1);
    control()->set_version(13000);
    control()->set_fill_rate(0);
    return 0;
}

struct aorta_device *open_gpu(void) {
    struct aorta_device *device;
    check_ok(aorta_device_open(AORTA_DEVICE_CUDA, 0, &device));
    return device;
}

struct aorta_stream *open_stream(struct aorta_device *device, const char *name) {
    struct aorta_stream *stream;
    check_ok(aorta_stream_create(device, name, AORTA_PRIORITY_HIGH, &stream));
    return stream;
}

/* ---- kernels ---- */

static aorta_status run_add(const void *args) {
    const struct add_args *a = args;
    __atomic_fetch_add(a->sum, a->value, __ATOMIC_RELAXED); /* the host may look at any time */
    return NULL;
}

static aorta_status run_fault(const void *args) {
    (void)args;
    return AORTA_ERROR(AORTA_DEVICE, "a fault on the device");
}

/* The fake finds them in the program by name. */
extern const struct fake_kernel fake_kernel_add, fake_kernel_fault;
const struct fake_kernel fake_kernel_add = {run_add, sizeof(struct add_args)};
const struct fake_kernel fake_kernel_fault = {run_fault, 0};

const struct aorta_gpu_source rig_source = {"test.cu", "add(struct add_args) fault()"};
const struct aorta_gpu_entry add_entry = {&rig_source, "add"}, fault_entry = {&rig_source, "fault"};
const struct aorta_gpu_grid one_block = {.blocks = {1}};

aorta_status queue_add(struct aorta_stream *stream, int64_t *sum, int64_t value) {
    struct add_args args = {sum, value};
    return aorta_gpu_launch(stream, &add_entry, one_block, &args, sizeof args);
}

aorta_status no_failure(void *user) {
    (void)user;
    return NULL;
}

void do_nothing(void *user) {
    (void)user;
}

/* ---- kernels that write their times ---- */

static const struct aorta_gpu_source timed = {"timed.cu", "nap(int64_t) add(struct add_args)"};
static const struct aorta_gpu_entry nap_entry = {&timed, "nap"}, timed_add_entry = {&timed, "add"};

aorta_status nap(struct aorta_stream *stream, int64_t ns) {
    return aorta_gpu_launch(stream, &nap_entry, one_block, &ns, sizeof ns);
}

aorta_status queue_timed_add(struct aorta_stream *stream, int64_t *sum, int64_t value) {
    struct add_args args = {sum, value};
    return aorta_gpu_launch(stream, &timed_add_entry, one_block, &args, sizeof args);
}

struct stamp_rig open_stamp_rig(void) {
    struct stamp_rig rig = {.device = open_gpu()};
    void *memory;
    rig.a = open_stream(rig.device, "a");
    rig.b = open_stream(rig.device, "b");
    check_ok(aorta_event_create(rig.device, &rig.fork));
    check_ok(aorta_event_create(rig.device, &rig.join));
    check_ok(aorta_pinned_alloc(rig.device, STAMP_SLOTS * sizeof(int64_t), "stamps", &memory));
    rig.slots = memory;
    memset(rig.slots, 0, STAMP_SLOTS * sizeof(int64_t));
    return rig;
}

void close_stamp_rig(struct stamp_rig *rig) {
    aorta_event_destroy(rig->fork);
    aorta_event_destroy(rig->join);
    if (rig->a) aorta_stream_destroy(rig->a);
    aorta_stream_destroy(rig->b);
    aorta_pinned_free(rig->device, rig->slots);
    aorta_device_close(rig->device);
}
