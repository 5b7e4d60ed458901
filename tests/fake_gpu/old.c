/* A libcuda of long ago: it has no graphs. */
__attribute__((visibility("default"))) int cuInit(unsigned flags);
int cuInit(unsigned flags) {
    return (int)flags;
}
