/* Names of kernels as traces of training and inference have them, and what they are for. */
#include "check.h"
#include "trace/kernel_names.h"

#include <string.h>

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
    const struct CMUnitTest tests[] = {cmocka_unit_test(categories_by_name), cmocka_unit_test(what_may_communicate)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
