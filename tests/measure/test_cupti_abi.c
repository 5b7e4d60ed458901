/* Our declarations of CUPTI against NVIDIA's headers, where these are installed: a wrong one does not compile. */
#include "check.h"
#include "measure/cupti_abi.h"

#if __has_include(<cupti.h>) && __has_include(<cuda.h>)
#include <cupti.h>

#if CUPTI_API_VERSION >= 130000
typedef CUpti_ActivityKernel10 vendor_kernel;
typedef CUpti_ActivityMemcpy6 vendor_memcpy;
#elif CUPTI_API_VERSION >= 26
typedef CUpti_ActivityKernel9 vendor_kernel;
typedef CUpti_ActivityMemcpy6 vendor_memcpy;
#else
typedef CUpti_ActivityKernel9 vendor_kernel;
typedef CUpti_ActivityMemcpy5 vendor_memcpy;
#endif

#define SAME(ours, our_member, theirs, their_member)                                                                   \
    _Static_assert(offsetof(struct ours, our_member) == offsetof(theirs, their_member) &&                              \
                       sizeof(((struct ours *)0)->our_member) == sizeof(((theirs *)0)->their_member),                  \
                   #our_member " has another offset")
#define TIMES_AND_PLACE(ours, theirs)                                                                                  \
    SAME(ours, kind, theirs, kind);                                                                                    \
    SAME(ours, start, theirs, start);                                                                                  \
    SAME(ours, end, theirs, end);                                                                                      \
    SAME(ours, device, theirs, deviceId);                                                                              \
    SAME(ours, context, theirs, contextId);                                                                            \
    SAME(ours, stream, theirs, streamId);                                                                              \
    SAME(ours, correlation, theirs, correlationId);                                                                    \
    SAME(ours, graph_node, theirs, graphNodeId);                                                                       \
    SAME(ours, graph, theirs, graphId);                                                                                \
    SAME(ours, channel, theirs, channelID);                                                                            \
    SAME(ours, channel_type, theirs, channelType);                                                                     \
    _Static_assert(sizeof(struct ours) <= sizeof(theirs), "longer than the record")

TIMES_AND_PLACE(aorta_cupti_kernel, vendor_kernel);
SAME(aorta_cupti_kernel, registers_per_thread, vendor_kernel, registersPerThread);
SAME(aorta_cupti_kernel, grid[0], vendor_kernel, gridX);
SAME(aorta_cupti_kernel, grid[2], vendor_kernel, gridZ);
SAME(aorta_cupti_kernel, block[0], vendor_kernel, blockX);
SAME(aorta_cupti_kernel, block[2], vendor_kernel, blockZ);
SAME(aorta_cupti_kernel, static_shared, vendor_kernel, staticSharedMemory);
SAME(aorta_cupti_kernel, dynamic_shared, vendor_kernel, dynamicSharedMemory);
SAME(aorta_cupti_kernel, name, vendor_kernel, name);
TIMES_AND_PLACE(aorta_cupti_memcpy, vendor_memcpy);
SAME(aorta_cupti_memcpy, copy_kind, vendor_memcpy, copyKind);
SAME(aorta_cupti_memcpy, bytes, vendor_memcpy, bytes);
TIMES_AND_PLACE(aorta_cupti_memcpy_peer, CUpti_ActivityMemcpyPtoP4);
SAME(aorta_cupti_memcpy_peer, copy_kind, CUpti_ActivityMemcpyPtoP4, copyKind);
SAME(aorta_cupti_memcpy_peer, bytes, CUpti_ActivityMemcpyPtoP4, bytes);
TIMES_AND_PLACE(aorta_cupti_memset, CUpti_ActivityMemset4);
SAME(aorta_cupti_memset, bytes, CUpti_ActivityMemset4, bytes);
SAME(aorta_cupti_activity, kind, CUpti_Activity, kind);
SAME(aorta_cupti_call, id, CUpti_ActivityAPI, cbid);
SAME(aorta_cupti_call, start, CUpti_ActivityAPI, start);
SAME(aorta_cupti_call, end, CUpti_ActivityAPI, end);
SAME(aorta_cupti_call, thread, CUpti_ActivityAPI, threadId);
SAME(aorta_cupti_call, correlation, CUpti_ActivityAPI, correlationId);
SAME(aorta_cupti_marker, flags, CUpti_ActivityMarker2, flags);
SAME(aorta_cupti_marker, timestamp, CUpti_ActivityMarker2, timestamp);
SAME(aorta_cupti_marker, id, CUpti_ActivityMarker2, id);
SAME(aorta_cupti_marker, object, CUpti_ActivityMarker2, objectId);
SAME(aorta_cupti_marker, name, CUpti_ActivityMarker2, name);

SAME(aorta_cupti_callback, site, CUpti_CallbackData, callbackSite);
SAME(aorta_cupti_callback, correlation, CUpti_CallbackData, correlationId);
SAME(aorta_cupti_resource, descriptor, CUpti_ResourceData, resourceDescriptor);
SAME(aorta_cupti_graph, node, CUpti_GraphData, node);
SAME(aorta_cupti_graph, original_node, CUpti_GraphData, originalNode);

#define VALUE(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs " has another value")
VALUE(AORTA_CUPTI_DOMAIN_RESOURCE, CUPTI_CB_DOMAIN_RESOURCE);
VALUE(AORTA_CUPTI_DEVICE_GET_ATTRIBUTE, CUPTI_DRIVER_TRACE_CBID_cuDeviceGetAttribute);
VALUE(AORTA_CUPTI_GRAPHNODE_CREATED, CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED);
VALUE(AORTA_CUPTI_GRAPHNODE_CLONED, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED);
VALUE(AORTA_CUPTI_SITE_ENTER, CUPTI_API_ENTER);
VALUE(AORTA_CUPTI_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY);
VALUE(AORTA_CUPTI_KIND_MEMSET, CUPTI_ACTIVITY_KIND_MEMSET);
VALUE(AORTA_CUPTI_KIND_KERNEL, CUPTI_ACTIVITY_KIND_KERNEL);
VALUE(AORTA_CUPTI_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
VALUE(AORTA_CUPTI_KIND_DRIVER, CUPTI_ACTIVITY_KIND_DRIVER);
VALUE(AORTA_CUPTI_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_RUNTIME);
VALUE(AORTA_CUPTI_KIND_MARKER, CUPTI_ACTIVITY_KIND_MARKER);
VALUE(AORTA_CUPTI_MARKER_START, CUPTI_ACTIVITY_FLAG_MARKER_START);
VALUE(AORTA_CUPTI_MARKER_END, CUPTI_ACTIVITY_FLAG_MARKER_END);
VALUE(AORTA_CUPTI_KIND_MEMCPY_PEER, CUPTI_ACTIVITY_KIND_MEMCPY2);
VALUE(AORTA_CUPTI_FLUSH_FORCED, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
#if CUPTI_API_VERSION >= 21 /* CUDA 12.3 */
VALUE(AORTA_CUPTI_ATTRIBUTE_BUFFER_PER_THREAD, CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER);
#endif
VALUE(AORTA_CUPTI_SUCCESS, CUPTI_SUCCESS);
VALUE(AORTA_CUPTI_MAX_LIMIT_REACHED, CUPTI_ERROR_MAX_LIMIT_REACHED);
VALUE(AORTA_CUPTI_NOT_COMPATIBLE, CUPTI_ERROR_NOT_COMPATIBLE);
VALUE(AORTA_CUPTI_NOT_INITIALIZED, CUPTI_ERROR_NOT_INITIALIZED);
VALUE(AORTA_CUPTI_VIRTUALIZED, CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED);
VALUE(AORTA_CUPTI_INSUFFICIENT_PRIVILEGES, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
VALUE(AORTA_CUPTI_OLD_PROFILER_API, CUPTI_ERROR_OLD_PROFILER_API_INITIALIZED);
VALUE(AORTA_CUPTI_MULTIPLE_SUBSCRIBERS, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
VALUE(AORTA_CUPTI_VIRTUALIZED_PRIVILEGES, CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES);
VALUE(AORTA_CUPTI_CONFIDENTIAL_COMPUTING, CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED);
VALUE(AORTA_CUPTI_MIG_DEVICE, CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED);
VALUE(AORTA_CUPTI_WSL_DEVICE, CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED);
VALUE(AORTA_CUPTI_DOMAIN_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API);
VALUE(AORTA_CUPTI_DOMAIN_RUNTIME, CUPTI_CB_DOMAIN_RUNTIME_API);
VALUE(AORTA_CUPTI_SITE_EXIT, CUPTI_API_EXIT);
_Static_assert(offsetof(CUpti_CallbackData, callbackSite) == 0 && sizeof(CUpti_ApiCallbackSite) == 4, "call site");

/* Their enums are uint32_t here; everything else in each signature is compared. */
_Static_assert(sizeof(CUptiResult) == 4 && sizeof(CUpti_ActivityKind) == 4 && sizeof(CUpti_CallbackDomain) == 4 &&
                   sizeof(CUpti_CallbackId) == 4 && sizeof(CUpti_ActivityAttribute) == 4,
               "an enum is not 32 bits wide");
#define SIGNATURE(function, ...)                                                                                       \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&function), CUptiResult (*)(__VA_ARGS__)),                  \
                   #function " has another signature")
SIGNATURE(cuptiGetVersion, uint32_t *);
SIGNATURE(cuptiGetResultString, CUptiResult, const char **);
SIGNATURE(cuptiSubscribe, CUpti_SubscriberHandle *, CUpti_CallbackFunc, void *);
SIGNATURE(cuptiUnsubscribe, CUpti_SubscriberHandle);
SIGNATURE(cuptiEnableDomain, uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain);
SIGNATURE(cuptiFinalize, void);
SIGNATURE(cuptiActivityRegisterCallbacks, CUpti_BuffersCallbackRequestFunc, CUpti_BuffersCallbackCompleteFunc);
SIGNATURE(cuptiActivityRegisterTimestampCallback, CUpti_TimestampCallbackFunc);
SIGNATURE(cuptiActivityEnable, CUpti_ActivityKind);
SIGNATURE(cuptiActivityDisable, CUpti_ActivityKind);
SIGNATURE(cuptiActivityFlushAll, uint32_t);
SIGNATURE(cuptiActivitySetAttribute, CUpti_ActivityAttribute, size_t *, void *);
SIGNATURE(cuptiActivityEnableDriverApi, CUpti_CallbackId, uint8_t);
SIGNATURE(cuptiActivityEnableRuntimeApi, CUpti_CallbackId, uint8_t);
SIGNATURE(cuptiGetTimestamp, uint64_t *);
SIGNATURE(cuptiActivityGetNextRecord, uint8_t *, size_t, CUpti_Activity **);
SIGNATURE(cuptiActivityGetNumDroppedRecords, CUcontext, uint32_t, size_t *);
_Static_assert(__builtin_types_compatible_p(CUpti_BuffersCallbackRequestFunc, aorta_cupti_request), "request");
_Static_assert(__builtin_types_compatible_p(CUpti_BuffersCallbackCompleteFunc,
                                            void (*)(CUcontext, uint32_t, uint8_t *, size_t, size_t)),
               "complete");
_Static_assert(__builtin_types_compatible_p(CUpti_TimestampCallbackFunc, aorta_cupti_clock), "clock");
_Static_assert(sizeof(CUcontext) == sizeof(void *) && sizeof(CUpti_SubscriberHandle) == sizeof(void *), "handles");

static void declarations(void **state) {
    (void)state;
    print_message("compiled against CUPTI %d\n", CUPTI_API_VERSION);
}
#else
static void declarations(void **state) {
    (void)state;
    print_message("skipped: CUPTI's headers are not installed here\n");
    skip();
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(declarations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
