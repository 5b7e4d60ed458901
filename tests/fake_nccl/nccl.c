#include "fake_nccl/fake_nccl.h"

#include "fake_gpu/fake_gpu.h"

#include "comm/backend.h"
#include "comm/nccl_api.h"
#include "strike.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };
enum { MOST_RANKS = 16, MOST_SPLITS = 64, SLOT_BYTES = 1 << 16 };

/* ---- what fails ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    struct strike strike;
    int async_error, aborted, ids, kernels, windows;
} control;

static void set_failure(const char *symbol, int nth, int code) {
    pthread_mutex_lock(&lock);
    strike_set(&control.strike, symbol, nth, code, 0);
    pthread_mutex_unlock(&lock);
}

static void set_async_error(int code) {
    pthread_mutex_lock(&lock);
    control.async_error = code;
    pthread_mutex_unlock(&lock);
}

static int count_aborted(void) {
    pthread_mutex_lock(&lock);
    int count = control.aborted;
    pthread_mutex_unlock(&lock);
    return count;
}

static int count_kernels(void) {
    pthread_mutex_lock(&lock);
    int count = control.kernels;
    pthread_mutex_unlock(&lock);
    return count;
}

static int count_windows(void) {
    pthread_mutex_lock(&lock);
    int count = control.windows;
    pthread_mutex_unlock(&lock);
    return count;
}

EXPORT extern const struct fake_nccl_control fake_nccl_control;
const struct fake_nccl_control fake_nccl_control = {set_failure, set_async_error, count_aborted, count_kernels,
                                                    count_windows};

static void read_environment(void) {
    strike_read(&control.strike, "FAKE_NCCL_STRIKE");
}

static int check(const char *symbol) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_environment);
    pthread_mutex_lock(&lock);
    int code = strike_check(&control.strike, symbol);
    pthread_mutex_unlock(&lock);
    return code;
}

/* Opens every function: returns what the test wants to fail. */
#define ENTER()                                                                                                        \
    do {                                                                                                               \
        int wanted_code = check(__func__);                                                                             \
        if (wanted_code) return wanted_code;                                                                           \
    } while (0)

/* ---- communicators ---- */

struct choice {
    int color, key;
};

/* Shared by the ranks of a communicator. */
struct segment {
    _Atomic int attached;
    _Atomic uint64_t arrived; /* at barriers, all ranks and all rounds together */
    _Atomic unsigned splits[MOST_RANKS];
    struct choice choices[MOST_RANKS][MOST_SPLITS];
    char slots[][SLOT_BYTES];
};

/* Communicators and jobs stay for as long as the library: a queued host call may still come to them. */
struct comm {
    struct comm *before;
    struct segment *segment;
    char name[128];
    int rank, size;
    uint64_t round; /* barriers passed */
    _Atomic bool aborted;
    unsigned splits;
    struct comm **child; /* of the split in progress */
    bool connected;
};

static struct comm *all_comms;

static struct comm *attach(const char *name, int rank, int size) {
    int fd = shm_open(name, O_RDWR | O_CREAT, 0600);
    size_t bytes = sizeof(struct segment) + (size_t)size * SLOT_BYTES;
    if (fd < 0 || ftruncate(fd, (off_t)bytes)) return NULL;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED) return NULL;
    struct comm *comm = calloc(1, sizeof *comm);
    if (!comm) return NULL;
    comm->segment = memory;
    comm->rank = rank;
    comm->size = size;
    snprintf(comm->name, sizeof comm->name, "%s", name);
    pthread_mutex_lock(&lock);
    comm->before = all_comms;
    all_comms = comm;
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&comm->segment->attached, 1);
    return comm;
}

/* NCCL_SUCCESS once all ranks have come. */
static int see_whether_complete(struct comm *comm) {
    if (atomic_load(&comm->segment->attached) < comm->size) return NCCL_IN_PROGRESS;
    shm_unlink(comm->name); /* attached processes keep it */
    return NCCL_SUCCESS;
}

static int advance_split(struct comm *parent);

/* A watchdog may ask while another thread waits. */
static pthread_mutex_t advancing = PTHREAD_MUTEX_INITIALIZER;

static int advance(struct comm *comm) {
    pthread_mutex_lock(&advancing);
    int result = comm->child ? advance_split(comm) : see_whether_complete(comm);
    pthread_mutex_unlock(&advancing);
    return result;
}

/* As NCCL does, unless its environment says otherwise: then the caller has to ask. */
static bool blocking(void) {
    const char *wanted = getenv("NCCL_COMM_BLOCKING");
    return !wanted || strcmp(wanted, "0") != 0;
}

static int wait_if_blocking(struct comm *comm) {
    int result = NCCL_IN_PROGRESS;
    while (blocking() && (result = advance(comm)) == NCCL_IN_PROGRESS) usleep(200);
    return result;
}

EXPORT int ncclGetVersion(int *version);
int ncclGetVersion(int *version) {
    ENTER();
#ifdef FAKE_NCCL_OLD
    *version = 21708;
#else
    *version = 22809;
#endif
    return 0;
}

EXPORT int ncclGetUniqueId(struct nccl_unique_id *id);
int ncclGetUniqueId(struct nccl_unique_id *id) {
    ENTER();
    memset(id, 0, sizeof *id);
    pthread_mutex_lock(&lock);
    snprintf(id->bytes, sizeof id->bytes, "/aorta-fake-nccl-%d-%d", (int)getpid(), control.ids++);
    pthread_mutex_unlock(&lock);
    return 0;
}

EXPORT int ncclCommInitRankConfig(void **comm, int ranks, struct nccl_unique_id id, int rank,
                                  struct nccl_config *config);
int ncclCommInitRankConfig(void **comm, int ranks, struct nccl_unique_id id, int rank, struct nccl_config *config) {
    ENTER();
    if (config->size != sizeof *config || config->magic != NCCL_CONFIG_MAGIC || config->blocking != NCCL_UNDEFINED ||
        config->max_ctas != NCCL_UNDEFINED || config->later != NCCL_UNDEFINED || ranks > MOST_RANKS || rank >= ranks)
        return INVALID_ARGUMENT;
    *comm = attach(id.bytes, rank, ranks);
    return *comm ? wait_if_blocking(*comm) : SYSTEM_ERROR;
}

/* Makes the child once every rank of the parent has said its colour and key. */
static int advance_split(struct comm *parent) {
    struct segment *segment = parent->segment;
    unsigned number = parent->splits;
    for (int rank = 0; rank < parent->size; rank++)
        if (atomic_load(&segment->splits[rank]) < number) return NCCL_IN_PROGRESS;
    const struct choice *own = &segment->choices[parent->rank][number % MOST_SPLITS];
    int rank = 0, size = 0;
    for (int other = 0; other < parent->size; other++) {
        const struct choice *choice = &segment->choices[other][number % MOST_SPLITS];
        if (choice->color != own->color) continue;
        size++;
        rank += choice->key < own->key;
    }
    struct comm **child = parent->child;
    parent->child = NULL;
    if (own->color == NCCL_NO_COLOR) return NCCL_SUCCESS;
    char name[160];
    snprintf(name, sizeof name, "%s-%u-%d", parent->name, number, own->color);
    *child = attach(name, rank, size);
    return *child ? NCCL_SUCCESS : SYSTEM_ERROR;
}

#ifndef FAKE_NCCL_OLD
EXPORT int ncclCommSplit(void *parent, int color, int key, void **made, struct nccl_config *config);
int ncclCommSplit(void *handle, int color, int key, void **made, struct nccl_config *config) {
    ENTER();
    (void)config;
    struct comm *parent = handle;
    pthread_mutex_lock(&advancing);
    unsigned number = ++parent->splits;
    parent->segment->choices[parent->rank][number % MOST_SPLITS] = (struct choice){color, key};
    parent->child = (struct comm **)made;
    atomic_store(&parent->segment->splits[parent->rank], number);
    pthread_mutex_unlock(&advancing);
    int result = wait_if_blocking(parent);
    return result == NCCL_SUCCESS && color != NCCL_NO_COLOR ? wait_if_blocking(*made) : result;
}
#endif

EXPORT int ncclCommGetAsyncError(void *handle, int *state);
int ncclCommGetAsyncError(void *handle, int *state) {
    ENTER();
    struct comm *comm = handle;
    *state = advance(comm);
    pthread_mutex_lock(&lock);
    if (control.async_error) *state = control.async_error;
    pthread_mutex_unlock(&lock);
    return 0;
}

EXPORT int ncclCommFinalize(void *handle);
int ncclCommFinalize(void *handle) {
    ENTER();
    if (!handle) return INVALID_ARGUMENT;
    return blocking() ? NCCL_SUCCESS : NCCL_IN_PROGRESS;
}

EXPORT int ncclCommDestroy(void *handle);
int ncclCommDestroy(void *handle) {
    ENTER();
    return handle ? 0 : INVALID_ARGUMENT;
}

EXPORT int ncclCommAbort(void *handle);
int ncclCommAbort(void *handle) {
    ENTER();
    struct comm *comm = handle;
    atomic_store(&comm->aborted, true);
    shm_unlink(comm->name);
    pthread_mutex_lock(&lock);
    control.aborted++;
    pthread_mutex_unlock(&lock);
    return 0;
}

EXPORT const char *ncclGetErrorString(int result);
const char *ncclGetErrorString(int result) {
    static const char *const texts[] = {
        "no error",         "unhandled cuda error", "unhandled system error", "internal error",
        "invalid argument", "invalid usage",        "remote process exited",  "operation in progress"};
    return result >= 0 && result < 8 ? texts[result] : "unknown result code";
}

EXPORT const char *ncclGetLastError(void *handle);
const char *ncclGetLastError(void *handle) {
    return handle ? "as the fake was asked to" : "";
}

/* ---- memory ---- */

static void *cuda_symbol(const char *name) {
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void *symbol = cuda ? dlsym(cuda, name) : NULL;
    if (cuda) dlclose(cuda);
    return symbol;
}

#ifndef FAKE_NCCL_OLD
EXPORT int ncclMemAlloc(void **memory, size_t bytes);
int ncclMemAlloc(void **memory, size_t bytes) {
    ENTER();
    int (*get)(void **, size_t);
    void *symbol = cuda_symbol("cuMemAlloc_v2");
    memcpy(&get, &symbol, sizeof get);
    return get && !get(memory, bytes) ? 0 : 1;
}

EXPORT int ncclMemFree(void *memory);
int ncclMemFree(void *memory) {
    ENTER();
    int (*put)(void *);
    void *symbol = cuda_symbol("cuMemFree_v2");
    memcpy(&put, &symbol, sizeof put);
    return put && !put(memory) ? 0 : 1;
}

struct window {
    const struct comm *comm;
};

static void count_window(int more) {
    pthread_mutex_lock(&lock);
    control.windows += more;
    pthread_mutex_unlock(&lock);
}

EXPORT int ncclCommWindowRegister(void *comm, void *memory, size_t bytes, void **window, int flags);
int ncclCommWindowRegister(void *comm, void *memory, size_t bytes, void **window, int flags) {
    ENTER();
    if (!memory || !bytes || bytes % NCCL_WINDOW_ALIGNMENT || flags != NCCL_WINDOW_SYMMETRIC) return INVALID_ARGUMENT;
    *window = NULL;
    if (getenv("FAKE_NCCL_NO_WINDOWS")) return 0;
    struct window *made = malloc(sizeof *made);
    if (!made) return SYSTEM_ERROR;
    made->comm = comm;
    *window = made;
    count_window(1);
    return blocking() ? NCCL_SUCCESS : NCCL_IN_PROGRESS;
}

EXPORT int ncclCommWindowDeregister(void *comm, void *window);
int ncclCommWindowDeregister(void *comm, void *handle) {
    ENTER();
    struct window *window = handle;
    if (!window || window->comm != comm) return INVALID_ARGUMENT;
    free(window);
    count_window(-1);
    return 0;
}
#endif

/* ---- collectives ---- */

/* One exchange: rank d gets `bytes` from to[d], and from[s] receives those of rank s. NULL: nothing. */
struct job {
    struct job *before;
    struct job *next; /* in a group: runs after this one, in one kernel */
    struct comm *comm;
    const char *to[MOST_RANKS];
    char *from[MOST_RANKS];
    size_t bytes; /* of each block; of sends and receives: of the largest */
    bool unequal; /* sends and receives: each has a size of its own */
    size_t to_bytes[MOST_RANKS], from_bytes[MOST_RANKS];
    /* For reductions the blocks are received in memory of their own and reduced into `out`. Jobs are stored, for
     * graphs; that memory is not, or long runs would not fit. */
    void *out;
    size_t count;
    enum aorta_dtype dtype;
    enum aorta_reduction reduction;
};

static struct job *all_jobs;

static struct job *make_job(struct comm *comm, size_t bytes) {
    struct job *job = calloc(1, sizeof *job);
    job->comm = comm;
    job->bytes = bytes;
    pthread_mutex_lock(&lock);
    job->before = all_jobs;
    all_jobs = job;
    pthread_mutex_unlock(&lock);
    return job;
}

/* False once the communicator is aborted. */
static bool barrier(struct comm *comm) {
    uint64_t wanted = ++comm->round * (uint64_t)comm->size;
    atomic_fetch_add(&comm->segment->arrived, 1);
    while (atomic_load(&comm->segment->arrived) < wanted) {
        if (atomic_load(&comm->aborted)) return false;
        usleep(20);
    }
    return !atomic_load(&comm->aborted);
}

/* The largest block of any rank: how long all take part. False once the communicator is aborted. */
static bool agree_on_largest(const struct job *job, size_t *largest) {
    struct comm *comm = job->comm;
    *largest = job->bytes;
    if (!job->unequal) return true;
    memcpy(comm->segment->slots[comm->rank], &job->bytes, sizeof job->bytes);
    if (!barrier(comm)) return false;
    for (int peer = 0; peer < comm->size; peer++) {
        size_t theirs;
        memcpy(&theirs, comm->segment->slots[peer], sizeof theirs);
        if (theirs > *largest) *largest = theirs;
    }
    return barrier(comm);
}

/* The part of a block of `bytes` that is in the piece at `at`. */
static size_t rest_of(size_t bytes, size_t at, size_t piece) {
    if (at >= bytes) return 0;
    return bytes - at < piece ? bytes - at : piece;
}

/* False once the communicator is aborted. */
static bool exchange(const struct job *job, char *const from[]) {
    struct comm *comm = job->comm;
    const size_t piece = SLOT_BYTES / (size_t)comm->size / 16 * 16;
    size_t largest;
    if (atomic_load(&comm->aborted) || !agree_on_largest(job, &largest)) return false;
    for (size_t at = 0; at < largest; at += piece) {
        for (int peer = 0; peer < comm->size; peer++) {
            if (job->to[peer])
                memcpy(comm->segment->slots[comm->rank] + (size_t)peer * piece, job->to[peer] + at,
                       rest_of(job->unequal ? job->to_bytes[peer] : job->bytes, at, piece));
        }
        if (!barrier(comm)) return false;
        for (int peer = 0; peer < comm->size; peer++) {
            if (from[peer])
                memcpy(from[peer] + at, comm->segment->slots[peer] + (size_t)comm->rank * piece,
                       rest_of(job->unequal ? job->from_bytes[peer] : job->bytes, at, piece));
        }
        if (!barrier(comm)) return false;
    }
    return true;
}

static void run_reduction(const struct job *job) {
    const int size = job->comm->size;
    char *scratch = malloc((size_t)size * job->bytes), *from[MOST_RANKS] = {0};
    const void *blocks[MOST_RANKS];
    for (int peer = 0; peer < size; peer++) blocks[peer] = from[peer] = scratch + (size_t)peer * job->bytes;
    if (exchange(job, from)) aorta_reduce_blocks(job->out, blocks, size, job->count, job->dtype, job->reduction);
    free(scratch);
}

static void run_job(const struct job *job) {
    if (job->out)
        run_reduction(job);
    else
        (void)exchange(job, job->from);
}

static void run_kernel(void *argument) {
    for (const struct job *job = argument; job; job = job->next) run_job(job);
}

/* When it does not block, the first collective of a communicator is "in progress" for a moment. */
static int launch(struct job *job, void *stream) {
    const struct fake_gpu_control *fake = cuda_symbol("fake_gpu_control");
    if (!fake) return SYSTEM_ERROR;
    int failed = fake->launch_as_kernel(stream, "ncclDevKernel_Generic(x)", run_kernel, job);
    if (failed) return 1;
    pthread_mutex_lock(&lock);
    control.kernels++;
    pthread_mutex_unlock(&lock);
    bool connected = job->comm->connected;
    job->comm->connected = true;
    return connected || blocking() ? NCCL_SUCCESS : NCCL_IN_PROGRESS;
}

/* A thread's calls since ncclGroupStart: collectives of one communicator on one stream, or sends and receives between
 * all, as one exchange. */
static _Thread_local struct {
    int depth;
    struct job *first, *last, *exchange;
    void *stream;
} group;

static bool fits_group(const struct comm *comm, void *stream) {
    return group.depth && (!group.first || (group.first->comm == comm && group.stream == stream));
}

static void add_to_group(struct job *job, void *stream) {
    if (group.last)
        group.last->next = job;
    else
        group.first = job;
    group.last = job;
    group.stream = stream;
}

/* A collective: at once, or with its group. */
static int queue(struct job *job, void *stream) {
    if (!group.depth) return launch(job, stream);
    if (!fits_group(job->comm, stream) || group.exchange) return INVALID_USAGE;
    add_to_group(job, stream);
    return NCCL_SUCCESS;
}

static enum aorta_dtype dtype_of(int type) {
    static const enum aorta_dtype types[] = {
        [NCCL_UINT8] = AORTA_U8,    [NCCL_INT32] = AORTA_I32,   [NCCL_INT64] = AORTA_I64,
        [NCCL_FLOAT16] = AORTA_F16, [NCCL_FLOAT32] = AORTA_F32, [NCCL_BFLOAT16] = AORTA_BF16};
    return types[type];
}

static size_t size_of(int type) {
    return aorta_dtype_size(dtype_of(type));
}

static int reduce(const void *send, size_t stride, void *receive, size_t count, int type, int reduction,
                  struct comm *comm, void *stream) {
    size_t bytes = count * size_of(type);
    struct job *job = make_job(comm, bytes);
    for (int peer = 0; peer < comm->size; peer++) job->to[peer] = (const char *)send + (size_t)peer * stride;
    job->out = receive;
    job->count = count;
    job->dtype = dtype_of(type);
    job->reduction = reduction == NCCL_MAX ? AORTA_MAX : AORTA_SUM;
    return queue(job, stream);
}

EXPORT int ncclAllReduce(const void *send, void *receive, size_t count, int type, int reduction, void *comm,
                         void *stream);
int ncclAllReduce(const void *send, void *receive, size_t count, int type, int reduction, void *comm, void *stream) {
    ENTER();
    return reduce(send, 0, receive, count, type, reduction, comm, stream);
}

EXPORT int ncclReduceScatter(const void *send, void *receive, size_t count, int type, int reduction, void *comm,
                             void *stream);
int ncclReduceScatter(const void *send, void *receive, size_t count, int type, int reduction, void *comm,
                      void *stream) {
    ENTER();
    return reduce(send, count * size_of(type), receive, count, type, reduction, comm, stream);
}

EXPORT int ncclAllGather(const void *send, void *receive, size_t count, int type, void *comm, void *stream);
int ncclAllGather(const void *send, void *receive, size_t count, int type, void *handle, void *stream) {
    ENTER();
    struct comm *comm = handle;
    size_t bytes = count * size_of(type);
    struct job *job = make_job(comm, bytes);
    for (int peer = 0; peer < comm->size; peer++) {
        job->to[peer] = send;
        job->from[peer] = (char *)receive + (size_t)peer * bytes;
    }
    return queue(job, stream);
}

EXPORT int ncclBroadcast(const void *send, void *receive, size_t count, int type, int root, void *comm, void *stream);
int ncclBroadcast(const void *send, void *receive, size_t count, int type, int root, void *handle, void *stream) {
    ENTER();
    struct comm *comm = handle;
    struct job *job = make_job(comm, count * size_of(type));
    job->from[root] = receive;
    for (int peer = 0; peer < comm->size && comm->rank == root; peer++) job->to[peer] = send;
    return queue(job, stream);
}

/* ---- groups ---- */

/* The exchange that a send or receive belongs to. */
static int join_exchange(struct comm *comm, size_t bytes, void *stream) {
    if (!fits_group(comm, stream) || (group.first && !group.exchange)) return INVALID_USAGE;
    if (!group.exchange) add_to_group(group.exchange = make_job(comm, bytes), stream);
    group.exchange->unequal = true;
    if (group.exchange->bytes < bytes) group.exchange->bytes = bytes;
    return NCCL_SUCCESS;
}

EXPORT int ncclGroupStart(void);
int ncclGroupStart(void) {
    ENTER();
    group.depth++;
    return 0;
}

EXPORT int ncclSend(const void *send, size_t count, int type, int peer, void *comm, void *stream);
int ncclSend(const void *send, size_t count, int type, int peer, void *comm, void *stream) {
    ENTER();
    int result = join_exchange(comm, count * size_of(type), stream);
    if (result) return result;
    group.exchange->to[peer] = send;
    group.exchange->to_bytes[peer] = count * size_of(type);
    return result;
}

EXPORT int ncclRecv(void *receive, size_t count, int type, int peer, void *comm, void *stream);
int ncclRecv(void *receive, size_t count, int type, int peer, void *comm, void *stream) {
    ENTER();
    int result = join_exchange(comm, count * size_of(type), stream);
    if (result) return result;
    group.exchange->from[peer] = receive;
    group.exchange->from_bytes[peer] = count * size_of(type);
    return result;
}

EXPORT int ncclGroupEnd(void);
int ncclGroupEnd(void) {
    if (--group.depth) return 0;
    struct job *first = group.first;
    group.first = group.last = group.exchange = NULL;
    ENTER();
    return first ? launch(first, group.stream) : 0;
}
