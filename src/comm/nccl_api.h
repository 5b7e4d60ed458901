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

/* Results are enum ncclResult_t, types and reductions enums too; communicators, streams and windows are pointers. */
struct nccl_api {
#define ROW(member, symbol, required, result, parameters) result(*member) parameters;
#include "comm/nccl.def"
#undef ROW
};

#endif
