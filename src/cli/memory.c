/* How commands that read recordings take memory. */
#include "cli/cli.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Where the kernel has pages of 2 MiB for who asks for them (transparent_hugepage is madvise), the place from `from` on
 * gets these. */
static void ask_for_huge_pages(uintptr_t from, uintptr_t end) {
    const uintptr_t page = (uintptr_t)2 << 20, first = (from + page - 1) / page * page;
    if (first < end) (void)!madvise((void *)first, end - first, MADV_HUGEPAGE);
}

/* Stages of an analysis take and give back hundreds of arrays of megabytes. By itself glibc returns each to the kernel,
 * or has a heap for every thread; on a virtual machine the page faults of new ones took more time than the analysis.
 * Place that is not touched takes no memory. */
void aorta_cli_one_heap(void) {
    enum { PLACE = 1 << 30, FIRST = 1 << 20, LARGEST = 32 << 20, NEVER = -1 };
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, LARGEST); /* that glibc takes */
    mallopt(M_TRIM_THRESHOLD, NEVER);
    mallopt(M_TOP_PAD, PLACE);
    void *first = malloc(FIRST);
    const uintptr_t from = (uintptr_t)first, end = (uintptr_t)sbrk(0);
    if (from < end && end - from <= (uintptr_t)PLACE + 2 * FIRST) ask_for_huge_pages(from, end);
    free(first);
    mallopt(M_TOP_PAD, FIRST);
}
