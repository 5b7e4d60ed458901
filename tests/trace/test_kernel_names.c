#include "base/files.h"
#include "check.h"
#include "trace/kernel_names.h"

#include <stdlib.h>
#include <string.h>

struct row {
    const char *name;
    const char *kind; /* "compute", "stamp", "clock", "gate", "collective" (which one is not said), or the
                         collective */
};

static const char *word_for(struct aorta_kernel_kind kind) {
    static const char *const words[] = {[AORTA_KERNEL_COMPUTE] = "compute",
                                        [AORTA_KERNEL_STAMP] = "stamp",
                                        [AORTA_KERNEL_CLOCK] = "clock",
                                        [AORTA_KERNEL_GATE] = "gate"};
    if (kind.class != AORTA_KERNEL_COLLECTIVE) return words[kind.class];
    return kind.named ? aorta_collective_name(kind.collective) : "collective";
}

static void check_name(const char *name, const char *kind) {
    const char *found = word_for(aorta_kernel_classify(name, NULL));
    if (strcmp(found, kind) != 0) print_error("%s: expected %s, got %s\n", name, kind, found);
    assert_string_equal(found, kind);
}

static void known_names(void **state) {
    (void)state;
    static const struct row rows[] = {
        {"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_gather"},
        {"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "reduce_scatter"},
        {"ncclDevKernel_AllReduce_Sum_f32_TREE_LL", "all_reduce"},
        {"ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "broadcast"},
        {"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "all_to_all"},
        {"ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)", "collective"},
        {"ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)", "all_reduce"},
        {"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", "all_to_all"},
        {"void ncclKernel_AllGather_RING_LL_Sum_int8_t<8>(ncclDevComm*)", "all_gather"},
        {"ncclSymDevKernel_AllReduce_AGxLL_R_sum_bf16(ncclSymDevArgs)", "all_reduce"},
        {"ncclSymkDevKernel_AllGather_LLMC(ncclSymkDevWorkArgs)", "all_gather"},
        {"_Z23ncclDevKernel_Generic_124ncclDevKernelArgsStorageILm4096EE.kd", "collective"},
        {"ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "collective"},
        {"ncclDevKernelDebug_Generic_4(ncclDevKernelArgsStorage<4096ul>)", "collective"},
        {"rcclDevKernel_AllToAll", "all_to_all"},
        {"mscclKernel_Sum_hip_bfloat16_Simple_false(ncclDevComm*, mscclAlgo*, mscclWork*)", "collective"},
        {"_Z39mscclKernel_MinMax_uint8_t_Simple_falseP11ncclDevCommP9mscclAlgoP9mscclWork.kd", "collective"},
        {"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals)", "all_reduce"},
        {"void sglang::cross_device_reduce_2stage<float, 4>(sglang::RankData*)", "all_reduce"},
        {"void c10d::symmetric_memory::(anonymous namespace)::one_shot_all_reduce_kernel<float, 16>(float**)",
         "all_reduce"},
        {"void tensorrt_llm::kernels::twoShotAllReduceKernel<half, 8, true>(AllReduceParams)", "all_reduce"},
        {"void aiter::reduce_scatter_cross_device_store<__bf16, 8>(RankData*)", "reduce_scatter"},
        {"_ZN5aiter33reduce_scatter_cross_device_storeIDF16bLi8EEEvPNS_8RankDataE", "reduce_scatter"},
        {"void userbuffers_fp16_sum_inplace_gpu_rr_rs_oop_fp8<4, __half>(int)", "reduce_scatter"},
        {"userbuffers_fp16_sum_inplace_gpu_rw_ag", "all_gather"},
        {"userbuffers_fp16_sum_inplace_gpu_mc", "collective"},
        {"kuserbuffers_pushsend(int)", "all_to_all"},
        {"void dpsk::ep::internode::dispatch<false, 8, false>(int4*)", "all_to_all"},
        {"void deep_ep::internode_ll::combine<true, 7168>(void*)", "all_to_all"},
        {"void deep_ep::intranode::notify_dispatch<8>(int const*)", "all_to_all"},
        {"void mori::moe::EpDispatchIntraNodeKernel<__hip_bfloat16>(Args)", "all_to_all"},
        {"void tensorrt_llm::kernels::moe_comm::moeAllToAllKernel<true>(Args)", "all_to_all"},
        {"void c10d::symmetric_memory::(anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(int)",
         "all_reduce"},
        {"void c10d::symmetric_memory::allToAllV<8>(void*)", "all_to_all"},
        {"void pplx::(anonymous namespace)::dispatchKernel<8, false, true>(int)", "all_to_all"},
        {"void a2a_dispatch_send_kernel<8>(int)", "all_to_all"},
        {"void tensorrt_llm::kernels::mnnvl_throughput::moeA2ADispatchKernel<1>(int)", "all_to_all"},
        {"void flashinfer::trtllm_mnnvl_allreduce::oneshotAllreduceFusionKernel<4>(int)", "all_reduce"},
        {"void alltoall_on_stream_kernel<int>(int)", "all_to_all"},
        {"void rdxn_on_stream_kernel<float, (rdxn_ops)1>(int)", "all_reduce"},
        {"nvshmemi_transfer_rma_p2p", "collective"},
        {"void aiter::allgather_lastdim<half, 8>(int)", "all_gather"},
        {"oneccl_allreduce_pcie", "all_reduce"},
        {"oneccl_reduce_scatter<float>(int)", "reduce_scatter"},
        {"oneccl_alltoallv_small", "all_to_all"},
        {"oneccl_sendrecv", "all_to_all"},
        {"oneccl_memcpy", "collective"},
        {"iris_allgather_push_kernel_fused", "all_gather"},
        {"_all_gather_push_kernel", "all_gather"},
        {"all_gather_push", "all_gather"},
        {"persistent_all_reduce_ring", "all_reduce"},
        {"persistent_all_to_all", "all_to_all"},
        {"persistent_matmul", "compute"},
        {"iris_gemm", "compute"},
        {"aorta_stamp", "stamp"},
        {"aorta_stamp(stamp_args)", "stamp"},
        {"aorta_stamp_room_96", "stamp"},
        {"aorta_clock_ping", "clock"},
        {"hwq_mark(aorta_hwq_mark)", "stamp"},
        {"hwq_hold", "gate"},
        /* no collectives, although the words occur */
        {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, ncclFunction> >(float)", "compute"},
        {"void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int)", "compute"},
        {"convert_inccl_layout", "compute"},
        {"void deep_ep::layout::get_dispatch_layout<256>(long const*)", "compute"},
        {"void step::internode_sort(int)", "compute"},
        {"add_to(ncclDevComm*)", "compute"},
        {"__amd_rocclr_copyBuffer", "compute"},
        {"void (anonymous namespace)::elementwise<ncclDataType_t>(int)", "compute"},
        {"layer_norm_forward", "compute"},
        {"", "compute"},
        {"(", "compute"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) check_name(rows[i].name, rows[i].kind);
}

static void some_only_measure(void **state) {
    (void)state;
    static const struct {
        const char *name;
        bool measures;
    } rows[] = {{"aorta_stamp(stamp_args)", true},
                {"aorta_clock_set", true},
                {"hwq_hold(aorta_hwq_hold)", true},
                {"hwq_mark", true},
                {"hwq_chain", false},
                {"spin", false},
                {"ncclDevKernel_AllGather_RING_LL", false},
                {"threshold_kernel", false},
                {"aorta_collective_all_reduce", false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(aorta_kernel_only_measures(aorta_kernel_classify(rows[i].name, NULL).class), rows[i].measures);
}

/* Names of real traces (PyTorch with NCCL on H100/H200, with RCCL on MI250 and MI300; rocprofv3). */
static void recorded_names(void **state) {
    (void)state;
    char *text;
    size_t length;
    int count = 0;
    check_ok(aorta_file_read(TEST_DATA "/kernel_names.txt", &text, &length));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), count++) {
        char *tab = strchr(line, '\t');
        assert_non_null(tab);
        *tab = '\0';
        check_name(tab + 1, line);
    }
    assert_true(count > 80);
    free(text);
}

static void own_patterns(void **state) {
    (void)state;
    struct aorta_kernel_patterns *patterns = NULL;
    check_ok(aorta_kernel_patterns_add(&patterns, "^my_exchange"));
    check_ok(aorta_kernel_patterns_add(&patterns, "fused_(gemm|norm)_.*AllReduce"));
    static const struct row rows[] = {
        {"my_exchange_v2", "collective"},   {"my_exchange_AllGather", "all_gather"},
        {"not_my_exchange", "compute"},     {"fused_gemm_bf16_AllReduce", "all_reduce"},
        {"fused_add_AllReduce", "compute"}, {"ncclDevKernel_AllGather_RING_LL", "all_gather"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_string_equal(word_for(aorta_kernel_classify(rows[i].name, patterns)), rows[i].kind);
    check_fails(aorta_kernel_patterns_add(&patterns, "broken("), AORTA_USAGE, "\"broken(\"");
    assert_string_equal(word_for(aorta_kernel_classify("my_exchange_v2", patterns)), "collective");
    aorta_kernel_patterns_free(patterns);
    patterns = NULL;
    check_fails(aorta_kernel_patterns_add(&patterns, "[z-a]"), AORTA_USAGE, "[z-a]");
    assert_null(patterns);
    aorta_kernel_patterns_free(NULL);
}

static void names_fit_a_line(void **state) {
    (void)state;
    static const struct {
        const char *name, *short_name;
    } cases[] = {
        {"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "ncclDevKernel_AllGather_RING_LL"},
        {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> "
         ">(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
         "vectorized_elementwise_kernel<CUDAFunctor_add>"},
        {"void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<"
         "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}> >(int)",
         "elementwise_kernel<direct_copy_kernel_cuda>"},
        {"void at::native::(anonymous namespace)::CatArrayBatchedCopy<unsigned short, 4>(int)", "CatArrayBatchedCopy"},
        {"void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(cutlass_80_simt_sgemm::Params)",
         "cutlass_80_simt_sgemm_128x32_8x5_nn_align1"},
        {"Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pinned -> Device)"},
        {"copy host to device", "copy host to device"},
        {"linear_forward", "linear_forward"},
        {"nvjet_sm90_tst_64x64_64x13_4x2_h_bz_TNT", "nvjet_sm90_tst_64x64_64x13_4x2_h_bz_TNT"},
        {"", ""},
        {"(", "("},
        {"_Z31ncclDevKernel_AllGather_RING_LL24ncclDevKernelArgsStorageILm4096EE", "ncclDevKernel_AllGather_RING_LL"},
        {"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_",
         "vectorized_elementwise_kernel<CUDAFunctor_add>"},
        {"_ZN7cutlass7Kernel2I42cutlass_80_simt_sgemm_128x32_8x5_nn_align1EEvNT_6ParamsE",
         "cutlass_80_simt_sgemm_128x32_8x5_nn_align1"},
        {"_ZN5outer12_GLOBAL__N_14fillEv", "fill"},
        {"_ZL4fillPf", "fill"},
        {"_Znonsense", "_Znonsense"},
        {"_Z99short", "_Z99short"},
        {"_Z", "_Z"},
        {"_ZN", "_ZN"},
        {"f<", "f"},
        {"std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, __half, false>(cublasGemvParams)",
         "gemvx::kernel"},
        {"void my::Kernel2(int)", "my::Kernel2"},
        {"void (anonymous namespace)::kernel<int>(int)", "kernel"},
        {"::kernel<int>(int)", "kernel"},
        {"_ZN5gemvx6kernelIiEEvT_", "gemvx::kernel"},
        {"std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type "
         "vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, long)",
         "fused_add_rms_norm_kernel"},
        {"typename std::enable_if<true, void>::type norm<float>(int)", "norm"},
        {"std::enable_if_t<true, void> norm(int)", "norm"},
        {"std::enable_if<true", "enable_if"},
        {"std::enable_if<", "enable_if"},
        {"std::enable_if<true>", "enable_if"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256], tight[12];
        assert_string_equal(aorta_kernel_short_name(cases[i].name, text, sizeof text), cases[i].short_name);
        aorta_kernel_short_name(cases[i].name, tight, sizeof tight);
        if (strlen(text) < sizeof tight) {
            assert_string_equal(tight, text);
            continue;
        }
        assert_memory_equal(tight, text, 8);
        assert_string_equal(tight + 8, "…");
    }
}

/* Templates within templates to any depth: a damaged or made-up trace must not exhaust the stack. */
/* Tensile's names are longer than a line: 127 bytes of them are shown, the ellipsis's three included. */
static void long_names_are_cut(void **state) {
    (void)state;
    char name[300], text[300];
    memset(name, 'x', sizeof name - 1);
    memcpy(name, "Cijk_Ailk_Bljk_", 15);
    name[sizeof name - 1] = '\0';
    aorta_kernel_short_name(name, text, sizeof text);
    assert_int_equal(strlen(text), 127);
    assert_memory_equal(text, name, 124);
    assert_string_equal(text + 124, "…");
}

static void deep_names_return(void **state) {
    (void)state;
    enum { DEPTH = 50000 };
    static const char layer[] = "Kernel<";
    size_t length = sizeof layer - 1;
    char *name = malloc(DEPTH * length + 1), text[32];
    assert_non_null(name);
    for (size_t i = 0; i < DEPTH; i++) memcpy(name + i * length, layer, length + 1);
    assert_string_equal(aorta_kernel_short_name(name, text, sizeof text), "Kernel");
    free(name);
}

/* Without a library the names are those of the C++ library. */
static void mangled_names_are_read(void **state) {
    (void)state;
    static const char *const names[] = {
        "_Z31ncclDevKernel_AllGather_RING_LL24ncclDevKernelArgsStorageILm4096EE",
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_",
        ("_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_14func_wrapper_tIfZNS0_11sum_functorIfffEclERNS_"
         "14TensorIteratorEEUlffE_EEjfLi4EEEEEvT1_"),
        "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIdNS0_7MeanOpsIdddEEjdLi4EEEEEvT1_",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char mine[128], its[128], cut[256];
        char *demangled = aorta_demangle(names[i]);
        if (!demangled) skip(); /* no C++ library is here */
        aorta_kernel_short_name(names[i], mine, sizeof mine);
        assert_string_equal(mine, aorta_kernel_short_name(demangled, its, sizeof its));
        free(demangled);
        for (size_t length = 0; length < strlen(names[i]); length++) { /* recorders cut long names */
            snprintf(cut, sizeof cut, "%.*s", (int)length, names[i]);
            aorta_kernel_short_name(cut, mine, sizeof mine);
        }
    }
}

static void matrix_products_by_name(void **state) {
    (void)state;
    static const char *const yes[] = {"nvjet_sm90_tst_64x64_64x13_4x2_h_bz_TNT",
                                      "Cijk_Ailk_Bljk_BBS_BH_MT64x64x64_MI16x16x16x1",
                                      "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
                                      "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt64x128x32",
                                      "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl",
                                      "sm80_xmma_wgrad_implicit_gemm_indexed"};
    static const char *const no[] = {"relu", "vectorized_elementwise_kernel", "batched_transpose_32x32_half",
                                     "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "flash_fwd_kernel"};
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) assert_true(aorta_kernel_is_gemm(yes[i]));
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++) assert_false(aorta_kernel_is_gemm(no[i]));
}

/* ---- names of kernels as traces of training and inference have them, and what they are for ---- */

static void categories_by_name(void **state) {
    (void)state;
    static const struct {
        const char *name, *category;
        bool product;
    } rows[] = {
        {"bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_swiGlu_dynBatch_sm100f", "experts", true},
        {"_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu", "experts", true},
        {"fused_moe_kernel", "experts", true},
        {"void cutlass::device_kernel<dpsk::grouped_gemm::cuda::fp8_dptp128c_acc::GemmKernel>()", "experts", true},
        {"_finalize_matmul_scatter_bf16", "routing", false},
        {"_topk_forward", "routing", false},
        {"void moe::dev::routing::routingIndicesHistogramKernel<int>(int)", "routing", false},
        {"void moe::dev::finalize::finalizeKernelVecLoad<int>(int)", "routing", false},
        {"void vllm::moe::moe_align_block_size_kernel<int>(int*)", "routing", false},
        {"fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext", "attention", false},
        {"_ZN7ck_tile6kentryILi2ENS_38FmhaBatchPrefillWithPagedKVCacheKernelINS_40BlockFmhaBatch", "attention", false},
        {"void flashinfer::BatchDecodeWithPagedKVCacheKernel<128>(int)", "attention", false},
        {"kernel_unified_attention_3d", "attention", false},
        {"qk_int_sv_f8_attn_kernel", "attention", false},
        {"void cutlass::device_kernel<flash::FlashAttnFwdSm90<int>>()", "attention", false},
        {"_ZN5aiter24pa_fwd_bf16", "attention", false},
        {"triton_tem_fused_flex_attention_0", "attention", false},
        {"void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, unsigned char>(int)", "cache", false},
        {"void (anonymous namespace)::store_kvcache<2048l, 4, false, long>()", "cache", false},
        {"create_flashinfer_kv_indices_triton", "cache", false},
        {"std::enable_if<true, void>::type vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>()", "norm", false},
        {"_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi64ELi8ELb0EEvPT0_", "norm", false},
        {"void flashinfer::norm::RMSNormKernel<8>()", "norm", false},
        {"void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)", "rope", false},
        {"void vllm::act_and_mul_kernel<c10::BFloat16, &silu_kernel>()", "activation", false},
        {"_ZN7sgl_hip10activation18act_and_mul_kernelI14__hip_bfloat16", "activation", false},
        {"void tensorrt_llm::kernels::quantize_with_block_size<(int)2, __nv_bfloat16>()", "quantisation", false},
        {"void cuda::per_token_cast_to_fp8_with_channels<__nv_bfloat16>()", "quantisation", false},
        {"void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024>()", "sampling", false},
        {"triton_poi_fused_constant_pad_nd_moe_forward_0", "elementwise", false},
        {"triton_red_fused_native_layer_norm_3", "norm", false},
        {"triton_tem_fused_mm_4", "gemm", true},
        {"void cublasLt::splitKreduce_kernel<32, 16, int>()", "gemm", false},
        {"void fbgemm_gpu::split_embedding_backward_codegen_adagrad_unweighted_kernel()", "lookup", false},
        {"void at::native::vectorized_elementwise_kernel<4, at::native::direct_copy_kernel_cuda>", "copy_kernel",
         false},
        {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor>", "optimizer", false},
        {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>", "reduction", false},
        {"void at::native::(anonymous namespace)::cunn_SoftMaxForward<4>", "softmax", false},
        {"sm80_xmma_wgrad_implicit_gemm_indexed", "convolution", true},
        {"loop_add_fusion", "elementwise", false},
        {"my_own_kernel", "other", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *category = aorta_category_name(aorta_kernel_category(rows[i].name));
        if (strcmp(category, rows[i].category) != 0) fail_msg("%s: %s", rows[i].name, category);
        assert_int_equal(aorta_kernel_is_gemm(rows[i].name), rows[i].product);
    }
}

static void what_may_communicate(void **state) {
    (void)state;
    static const struct {
        const char *name;
        bool may;
    } rows[] = {
        {"void mine::Dispatch<8>(int)", true}, /* in whatever case */
        {"my_combine_v2", true},
        {"void mine::worker<my_dispatch>(int)", false},    /* an argument's name */
        {"_matmul_ogs_combine", false},                    /* known as something else */
        {"void vllm::merge_attn_states_combine()", false}, /* likewise */
        {"my_own_kernel", false},
    };
    char pattern[64];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(aorta_kernel_may_communicate(rows[i].name), rows[i].may);
    aorta_kernel_pattern_of("void mine::Dispatch<8>(int)", pattern, sizeof pattern);
    assert_string_equal(pattern, "mine::Dispatch");
    aorta_kernel_pattern_of("my_combine_v2", pattern, sizeof pattern);
    assert_string_equal(pattern, "my_combine_v2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_names_are_cut),     cmocka_unit_test(known_names),
        cmocka_unit_test(some_only_measure),      cmocka_unit_test(recorded_names),
        cmocka_unit_test(own_patterns),           cmocka_unit_test(names_fit_a_line),
        cmocka_unit_test(deep_names_return),      cmocka_unit_test(matrix_products_by_name),
        cmocka_unit_test(mangled_names_are_read), cmocka_unit_test(categories_by_name),
        cmocka_unit_test(what_may_communicate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
