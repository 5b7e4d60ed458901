/* A library that bears the name of CUDA's runtime. */
int cudaRuntimeGetVersion(int *version);
int cudaRuntimeGetVersion(int *version) {
    *version = 13000;
    return 0;
}
