/* An old libcuda, without graphs. */
__attribute__((visibility("default"))) int cuInit(unsigned flags);
int cuInit(unsigned flags) {
    return (int)flags;
}
