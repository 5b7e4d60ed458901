// Holds src/comm/nccl_api.h and nccl.def against the vendor's own header: a wrong signature, number or offset does not
// compile. C++ because its templates can take function types apart; nothing here runs. See check_nccl_signatures.
#include <cstddef>
#include <type_traits>

#ifdef CHECK_RCCL
#define __HIP_PLATFORM_AMD__
#include <rccl/rccl.h>
#else
#include <nccl.h>
#endif

#if NCCL_VERSION_CODE < 22700
#define AORTA_NCCL_BEFORE_WINDOWS
#endif
#include "comm/nccl_api.h"

// Ours and theirs agree when both are pointers, enums or integers of one size, or the id, which travels by value.
template <class Ours, class Theirs> constexpr bool agrees() {
    if (std::is_same_v<Theirs, ncclUniqueId>) return std::is_same_v<Ours, nccl_unique_id> && sizeof(Ours) == sizeof(Theirs);
    if (std::is_pointer_v<Ours>) return std::is_pointer_v<Theirs>;
    if (std::is_enum_v<Theirs>) return std::is_integral_v<Ours> && sizeof(Ours) == sizeof(Theirs);
    return std::is_integral_v<Ours> && std::is_integral_v<Theirs> && sizeof(Ours) == sizeof(Theirs) &&
           std::is_signed_v<Ours> == std::is_signed_v<Theirs>;
}

template <class R1, class... A1, class R2, class... A2> constexpr bool same(R1 (*)(A1...), R2 (*)(A2...)) {
    if constexpr (sizeof...(A1) != sizeof...(A2))
        return false;
    else
        return agrees<R1, R2>() && (agrees<A1, A2>() && ...);
}

#define ROW(member, symbol, required, ...)                                                                                  \
    static_assert(same(decltype(nccl_api::member){}, decltype(+symbol){}), #member " is not declared as " #symbol " is");
#include "comm/nccl.def"
#undef ROW

static_assert(NCCL_SUCCESS == (int)ncclSuccess && NCCL_IN_PROGRESS == (int)ncclInProgress);
static_assert(NCCL_SUM == (int)ncclSum && NCCL_MAX == (int)ncclMax);
static_assert(NCCL_UINT8 == (int)ncclUint8 && NCCL_INT32 == (int)ncclInt32 && NCCL_INT64 == (int)ncclInt64);
static_assert(NCCL_FLOAT16 == (int)ncclFloat16 && NCCL_FLOAT32 == (int)ncclFloat32 &&
              NCCL_BFLOAT16 == (int)ncclBfloat16);
#ifndef AORTA_NCCL_BEFORE_WINDOWS
static_assert(NCCL_WINDOW_SYMMETRIC == NCCL_WIN_COLL_SYMMETRIC);
#ifdef NCCL_WIN_REQUIRED_ALIGNMENT
static_assert(NCCL_WINDOW_ALIGNMENT == NCCL_WIN_REQUIRED_ALIGNMENT);
#endif
#endif
static_assert(NCCL_NO_COLOR == NCCL_SPLIT_NOCOLOR && NCCL_UNDEFINED == NCCL_CONFIG_UNDEF_INT);
static_assert(sizeof(nccl_unique_id) == NCCL_UNIQUE_ID_BYTES && alignof(nccl_unique_id) == alignof(ncclUniqueId));

// Later versions only add to the end.
#define SAME_PLACE(ours, theirs) static_assert(offsetof(nccl_config, ours) == offsetof(ncclConfig_t, theirs))
SAME_PLACE(size, size);
SAME_PLACE(magic, magic);
SAME_PLACE(version, version);
SAME_PLACE(blocking, blocking);
SAME_PLACE(cga_cluster_size, cgaClusterSize);
SAME_PLACE(min_ctas, minCTAs);
SAME_PLACE(max_ctas, maxCTAs);
SAME_PLACE(net_name, netName);
SAME_PLACE(split_share, splitShare);
static_assert(sizeof(nccl_config) <= sizeof(ncclConfig_t));
constexpr ncclConfig_t initial = NCCL_CONFIG_INITIALIZER;
static_assert(initial.magic == NCCL_CONFIG_MAGIC && initial.version >= NCCL_CONFIG_VERSION);
