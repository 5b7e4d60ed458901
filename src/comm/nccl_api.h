/* The functions of NCCL and RCCL that we call; the two have one interface. Facts from NCCL's nccl.h (2.18 to 2.28) and
 * RCCL's rccl.h; tests/comm/nccl_signatures.cc compares them with the vendor's header. */
#ifndef AORTA_COMM_NCCL_API_H
#define AORTA_COMM_NCCL_API_H

#include <limits.h>
#include <stddef.h>

enum nccl_result { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7 }; /* all other values are failures */
enum nccl_reduction { NCCL_SUM = 0, NCCL_MAX = 2 };
enum nccl_type {
    NCCL_UINT8 = 1,
    NCCL_INT32 = 2,
    NCCL_INT64 = 4,
    NCCL_FLOAT16 = 6,
    NCCL_FLOAT32 = 7,
    NCCL_BFLOAT16 = 9
};
enum { NCCL_NO_COLOR = -1, NCCL_UNDEFINED = INT_MIN };
enum { NCCL_WINDOW_SYMMETRIC = 1, NCCL_WINDOW_ALIGNMENT = 4096 };
#define NCCL_CONFIG_MAGIC 0xcafebeefu
#define NCCL_CONFIG_VERSION                                                                                            \
    21800 /* the layout below is that of 2.18; later versions add defaults for their members                           \
           */

struct nccl_unique_id {
    char bytes[128];
};

struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster_size, min_ctas, max_ctas;
    const char *net_name;
    int split_share;
    int later; /* where 2.18 had padding; must say NCCL_UNDEFINED */
};

/* Results are enum ncclResult_t, types and reductions enums too; communicators and streams are pointers. */
struct nccl_api {
    int (*version)(int *version);
    int (*unique_id)(struct nccl_unique_id *id);
    int (*init_rank)(void **comm, int ranks, struct nccl_unique_id id, int rank, struct nccl_config *config);
    int (*split)(void *comm, int color, int key, void **made,
                 struct nccl_config *config); /* may be NULL: before 2.18 */
    int (*finalize)(void *comm);
    int (*destroy)(void *comm);
    int (*abort)(void *comm);
    int (*async_error)(void *comm, int *result);
    const char *(*error_text)(int result);
    const char *(*last_error)(void *comm); /* may be NULL */
    int (*all_reduce)(const void *send, void *receive, size_t count, int type, int reduction, void *comm, void *stream);
    int (*reduce_scatter)(const void *send, void *receive, size_t receive_count, int type, int reduction, void *comm,
                          void *stream);
    int (*all_gather)(const void *send, void *receive, size_t send_count, int type, void *comm, void *stream);
    int (*broadcast)(const void *send, void *receive, size_t count, int type, int root, void *comm, void *stream);
    int (*send)(const void *send, size_t count, int type, int peer, void *comm, void *stream);
    int (*receive)(void *receive, size_t count, int type, int peer, void *comm, void *stream);
    int (*group_start)(void);
    int (*group_end)(void);
    /* May be NULL: before 2.27. Windows are pointers. */
    int (*memory_alloc)(void **memory, size_t bytes);
    int (*memory_free)(void *memory);
    int (*window_register)(void *comm, void *memory, size_t bytes, void **window, int flags);
    int (*window_deregister)(void *comm, void *window);
};

#endif
