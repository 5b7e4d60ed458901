/* Classes and categories of kernels by name, short names, and mangled C++ names. */
#include "trace/kernel_names.h"

#include <ctype.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct writer {
    char *text;
    size_t size, length;
};

static void put(struct writer *writer, const char *bytes, size_t length) {
    if (writer->length + length >= writer->size) return; /* only the rest is lost */
    memcpy(writer->text + writer->length, bytes, length);
    writer->length += length;
    writer->text[writer->length] = '\0';
}

/* <source-name>: its length in decimal, then the name. Returns the name and moves *at to its end; NULL if there is
 * none. */
static const char *source_name(const char **at, size_t *length) {
    size_t count = 0;
    const char *name = *at;
    for (; isdigit((unsigned char)*name) && count < 100000; name++) count = 10 * count + (size_t)(*name - '0');
    if (name == *at || !count || strnlen(name, count) < count) return NULL;
    *at = name + count;
    *length = count;
    return name;
}

/* "Li4E", "Lb1E": the value of a template argument. Returns its end, or NULL if it is no such value. */
static const char *behind_literal(const char *at) {
    if (at[0] != 'L' || at[1] < 'a' || at[1] > 'z') return NULL;
    at += 2 + (at[2] == 'n');
    while (isdigit((unsigned char)*at)) at++;
    return *at == 'E' ? at + 1 : NULL;
}

/* Writes the named template arguments. Named parameters are included, as the end of the arguments is not searched
 * for. */
static void put_arguments(struct writer *writer, const char *at) {
    const char *separator = "<";
    while (*at) {
        size_t length;
        const char *behind = behind_literal(at), *name = behind ? NULL : source_name(&at, &length);
        if (name) {
            put(writer, separator, strlen(separator));
            put(writer, name, length);
            separator = ",";
        } else {
            at = behind ? behind : at + 1;
        }
    }
    put(writer, separator[0] == '<' ? "<>" : ">", separator[0] == '<' ? 2 : 1);
}

bool aorta_mangled_names(const char *name, char *text, size_t size) {
    struct writer writer = {.text = text, .size = size};
    if (!aorta_begins(name, "_Z") || !size) return false;
    const char *at = name + 2, *part;
    bool nested = *at == 'N', any = false;
    at += nested;
    while (nested && *at && strchr("KVrRO", *at)) at++;
    if (aorta_begins(at, "St")) at += 2; /* std:: */
    at += *at == 'L';                    /* static */
    put(&writer, "void ", 5);
    for (size_t length; (nested || !any) && (part = source_name(&at, &length)); any = true) {
        if (any) put(&writer, "::", 2);
        put(&writer, part, length);
    }
    if (!any) return false;
    if (*at == 'I') put_arguments(&writer, at + 1);
    put(&writer, "(", 1);
    return true;
}

/* Names seen in traces of NCCL 2.x, RCCL, PyTorch, vLLM, SGLang and TensorRT-LLM. A new library is a row. */

/* ---- the tables ---- */

/* A word that begins the kernel's own name, or a part of that name after a namespace, an underscore or a mangled
 * length. `operation` names the collective if the word implies it; NULL if only the rest of the name may. */
static const struct {
    const char *word;
    enum aorta_kernel_class class;
    const char *operation;
} words[] = {
    {"aorta_stamp", AORTA_KERNEL_STAMP, NULL}, /* the GPU driver's own (src/device/gpu/launch.c) */
    {"aorta_told", AORTA_KERNEL_CLOCK, NULL},
    {"aorta_clock", AORTA_KERNEL_CLOCK, NULL},
    {"hwq_mark", AORTA_KERNEL_STAMP, NULL}, /* of aorta hwq (src/hwq/kernels/kernels.cu) */
    {"hwq_hold", AORTA_KERNEL_GATE, NULL},
    {"aorta_collective", AORTA_KERNEL_COLLECTIVE,
     NULL}, /* our name for unnamed kernels: measure/kineto_write_events.c, aorta_collective_… */
    {"nccl", AORTA_KERNEL_COLLECTIVE, NULL}, /* ncclDevKernel_AllGather_RING_LL, ncclKernel_…, ncclSymkDevKernel_… */
    {"rccl", AORTA_KERNEL_COLLECTIVE, NULL},  /* rcclDevKernel_…; most of RCCL's are called nccl… */
    {"msccl", AORTA_KERNEL_COLLECTIVE, NULL}, /* RCCL's MSCCL and MSCCL++ algorithms: mscclKernel_Sum_half_… */
    {"cross_device_reduce", AORTA_KERNEL_COLLECTIVE, "AllReduce"}, /* vLLM and SGLang: cross_device_reduce_1stage */
    {"one_shot_all_reduce", AORTA_KERNEL_COLLECTIVE, "AllReduce"}, /* PyTorch's symmetric memory */
    {"two_shot_all_reduce", AORTA_KERNEL_COLLECTIVE, "AllReduce"},
    {"multimem_all_reduce", AORTA_KERNEL_COLLECTIVE, "AllReduce"},
    {"multimem_one_shot_all_reduce", AORTA_KERNEL_COLLECTIVE, "AllReduce"},
    {"multimem_all_gather", AORTA_KERNEL_COLLECTIVE, "AllGather"},
    {"multimem_reduce_scatter", AORTA_KERNEL_COLLECTIVE, "ReduceScatter"},
    {"multimem_one_shot_reduce", AORTA_KERNEL_COLLECTIVE, NULL},
    {"symmetric_memory::barrier", AORTA_KERNEL_COLLECTIVE, "collective_barrier"},
    {"allToAllV", AORTA_KERNEL_COLLECTIVE, "AllToAll"}, /* its all_to_all_vdev over NVSHMEM */
    {"exchangeSplitAndOffset", AORTA_KERNEL_COLLECTIVE, "AllToAll"},
    {"oneShotAllReduceKernel", AORTA_KERNEL_COLLECTIVE, "AllReduce"}, /* TensorRT-LLM */
    {"twoShotAllReduceKernel", AORTA_KERNEL_COLLECTIVE, "AllReduce"},
    {"allreduce_fusion_kernel", AORTA_KERNEL_COLLECTIVE, "AllReduce"},
    {"oneshotAllreduceFusionKernel", AORTA_KERNEL_COLLECTIVE, "AllReduce"}, /* and FlashInfer */
    {"twoshotAllreduceKernel", AORTA_KERNEL_COLLECTIVE, "AllReduce"},
    {"lamportAllReduce", AORTA_KERNEL_COLLECTIVE, "AllReduce"},
    {"allreduce_prototype", AORTA_KERNEL_COLLECTIVE, "AllReduce"},             /* vLLM's quick reduce on ROCm */
    {"reduce_scatter_cross_device", AORTA_KERNEL_COLLECTIVE, "ReduceScatter"}, /* aiter */
    {"allgather_lastdim", AORTA_KERNEL_COLLECTIVE, "AllGather"},
    {"allgather_vec", AORTA_KERNEL_COLLECTIVE, "AllGather"},
    {"userbuffers_fp16_sum_inplace", AORTA_KERNEL_COLLECTIVE, NULL}, /* Transformer Engine: …_rw, …_rw_ag, …_rr_rs */
    {"kuserbuffers", AORTA_KERNEL_COLLECTIVE, "SendRecv"},           /* kuserbuffers_pushsend, …_pullrecv */
    {"oneccl", AORTA_KERNEL_COLLECTIVE, NULL},                       /* Intel's: oneccl_allreduce_pcie */
    /* Kernels of Iris, aiter, Triton-distributed and SGLang copy between GPUs without a library. */
    {"iris_all", AORTA_KERNEL_COLLECTIVE, NULL}, /* iris_allgather_push_kernel */
    {"iris_reduce_scatter", AORTA_KERNEL_COLLECTIVE, NULL},
    {"persistent_all_", AORTA_KERNEL_COLLECTIVE, NULL},
    {"persistent_reduce_scatter", AORTA_KERNEL_COLLECTIVE, NULL},
    {"all_gather_push", AORTA_KERNEL_COLLECTIVE, NULL},
    {"all_gather_pull", AORTA_KERNEL_COLLECTIVE, NULL},
    {"all_gather_m_kernel", AORTA_KERNEL_COLLECTIVE, NULL},
    {"all_reduce_push", AORTA_KERNEL_COLLECTIVE, NULL},
    {"reduce_scatter_push", AORTA_KERNEL_COLLECTIVE, NULL},
    {"reduce_scatter_pull", AORTA_KERNEL_COLLECTIVE, NULL},
    {"reduce_scatter_m_kernel", AORTA_KERNEL_COLLECTIVE, NULL},
    /* Dispatch of tokens to experts and combine, across ranks: DeepEP and its forks, MORI, TensorRT-LLM. */
    {"ep::internode", AORTA_KERNEL_COLLECTIVE, "AllToAll"}, /* deep_ep::internode::dispatch, …_ll::combine */
    {"ep::intranode", AORTA_KERNEL_COLLECTIVE, "AllToAll"},
    {"EpDispatch", AORTA_KERNEL_COLLECTIVE, "AllToAll"}, /* mori::moe::EpDispatchIntraNodeKernel */
    {"EpCombine", AORTA_KERNEL_COLLECTIVE, "AllToAll"},
    {"moeAllToAllKernel", AORTA_KERNEL_COLLECTIVE, "AllToAll"},
    {"moeAlltoAllKernel", AORTA_KERNEL_COLLECTIVE, "AllToAll"},
    {"moeA2ADispatch", AORTA_KERNEL_COLLECTIVE, "AllToAll"},
    {"moeA2ACombine", AORTA_KERNEL_COLLECTIVE, "AllToAll"},
    {"pplx", AORTA_KERNEL_COLLECTIVE, "AllToAll"}, /* pplx-kernels: pplx::…::dispatchKernel, combineKernel */
    {"a2a_dispatch", AORTA_KERNEL_COLLECTIVE, "AllToAll"},
    {"a2a_combine", AORTA_KERNEL_COLLECTIVE, "AllToAll"},
    /* NVSHMEM's and rocSHMEM's collectives on a stream. */
    {"alltoall_on_stream", AORTA_KERNEL_COLLECTIVE, "AllToAll"},
    {"fcollect_on_stream", AORTA_KERNEL_COLLECTIVE, "AllGather"},
    {"rdxn_on_stream", AORTA_KERNEL_COLLECTIVE, "AllReduce"},
    {"broadcast_on_stream", AORTA_KERNEL_COLLECTIVE, "Broadcast"},
    {"barrier_on_stream", AORTA_KERNEL_COLLECTIVE, "collective_barrier"},
    {"barrier_all_on_stream", AORTA_KERNEL_COLLECTIVE, "collective_barrier"},
    {"nvshmem", AORTA_KERNEL_COLLECTIVE, NULL},
    {"rocshmem", AORTA_KERNEL_COLLECTIVE, NULL},
};

/* Searched in the name of a collective kernel, in this order, ignoring case and underscores. Send and receive count as
 * all-to-all, which is made of them. */
static const struct {
    const char *word;
    enum aorta_collective collective;
} operations[] = {
    {"reduce_scatter", AORTA_REDUCE_SCATTER},
    {"all_reduce", AORTA_ALL_REDUCE},
    {"all_gather", AORTA_ALL_GATHER},
    {"broadcast", AORTA_BROADCAST},
    {"all_to_all", AORTA_ALL_TO_ALL},
    {"collective_barrier", AORTA_BARRIER},
    {"send_recv", AORTA_ALL_TO_ALL},
    {"bcast", AORTA_BROADCAST},
    {"inplace_gpu_rw_ag", AORTA_ALL_GATHER},
    {"inplace_gpu_rr_ag", AORTA_ALL_GATHER},
    {"inplace_gpu_rr_rs", AORTA_REDUCE_SCATTER},
};

static bool begins_with(const char *text, size_t length, const char *word) {
    for (size_t i = 0; *word; word++) {
        if (*word == '_') continue;
        while (i < length && text[i] == '_') i++;
        if (i == length || tolower((unsigned char)text[i++]) != *word) return false;
    }
    return true;
}

static bool find_operation(const char *text, size_t length, enum aorta_collective *kind) {
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++)
        for (size_t at = 0; at < length; at++)
            if (begins_with(text + at, length - at, operations[i].word)) {
                *kind = operations[i].collective;
                return true;
            }
    return false;
}

bool aorta_collective_in(const char *text, enum aorta_collective *kind) {
    static const char *const exchanges[] = {"send", "recv", "isend", "irecv"}; /* PyTorch's */
    const bool is_exchange = aorta_is_one_of(text, exchanges, sizeof exchanges / sizeof *exchanges);
    if (is_exchange) *kind = AORTA_ALL_TO_ALL;
    return is_exchange || find_operation(text, strlen(text), kind);
}

/* ---- patterns of the user ---- */

struct aorta_kernel_patterns {
    regex_t *items;
    size_t count, capacity;
};

aorta_status aorta_kernel_patterns_add(struct aorta_kernel_patterns **patterns, const char *regex) {
    regex_t compiled;
    int error = regcomp(&compiled, regex, REG_EXTENDED | REG_NOSUB);
    if (error) {
        char reason[128];
        regerror(error, &compiled, reason, sizeof reason);
        return AORTA_ERROR(AORTA_USAGE, "\"%s\" is not a regular expression (POSIX extended): %s", regex, reason);
    }
    struct aorta_kernel_patterns *set = *patterns ? *patterns : calloc(1, sizeof *set);
    if (!set || !aorta_array_fit(&set->items, &set->capacity, set->count + 1, sizeof *set->items)) {
        regfree(&compiled);
        if (!*patterns) free(set);
        return AORTA_ERROR(AORTA_MEMORY, "no memory for the pattern \"%s\"", regex);
    }
    set->items[set->count++] = compiled;
    *patterns = set;
    return NULL;
}

void aorta_kernel_patterns_free(struct aorta_kernel_patterns *patterns) {
    if (!patterns) return;
    for (size_t i = 0; i < patterns->count; i++) regfree(&patterns->items[i]);
    free(patterns->items);
    free(patterns);
}

bool aorta_kernel_patterns_match(const struct aorta_kernel_patterns *patterns, const char *name) {
    for (size_t i = 0; patterns && i < patterns->count; i++)
        if (regexec(&patterns->items[i], name, 0, NULL, 0) == 0) return true;
    return false;
}

/* ---- matching ---- */

/* The name without its parameters and template arguments: a reduction over an nccl type is no collective. */
static size_t head_length(const char *name) {
    static const char anonymous[] = "(anonymous namespace)", unnamed[] = "<unnamed>";
    size_t length = 0;
    for (;;) {
        length += strcspn(name + length, "<(");
        if (aorta_begins(name + length, anonymous))
            length += sizeof anonymous - 1;
        else if (aorta_begins(name + length, unnamed))
            length += sizeof unnamed - 1;
        else
            return length;
    }
}

/* The text after the pair of brackets, "<" or "(", that the text begins with; the whole text if the pair is not
 * closed. */
static const char *behind_brackets(const char *text) {
    int round = 0, angle = 0;
    for (const char *at = text; *at; at++) {
        round += (*at == '(') - (*at == ')');
        if (!round) angle += (*at == '<') - (*at == '>'); /* "(8)>(0)" compares */
        if (!round && !angle) return at + 1;
    }
    return text;
}

/* The name without a return type that is a condition of the template:
 * "std::enable_if<(((8)>(0)))&&…, void>::type vllm::fused_add_rms_norm_kernel<…>(…)". */
static const char *own_name(const char *name) {
    static const char type[] = "::type";
    const char *found = aorta_begins(name, "typename ") ? name + 9 : name;
    if (!aorta_begins(found, "std::enable_if")) return name;
    const char *arguments = strchr(found, '<'), *end = arguments ? behind_brackets(arguments) : NULL;
    if (!end || end == arguments) return name;
    if (aorta_begins(end, type)) end += sizeof type - 1;
    return *end == ' ' ? end + 1 : name;
}

static bool contains_word(const char *head, size_t length, const char *word) {
    for (const char *at = head; (at = memmem(at, length - (size_t)(at - head), word, strlen(word))); at++)
        if (at == head || !isalpha((unsigned char)at[-1])) return true;
    return false;
}

static struct aorta_kernel_kind collective_by(const char *text, size_t length) {
    struct aorta_kernel_kind kind = {.class = AORTA_KERNEL_COLLECTIVE};
    kind.named = find_operation(text, length, &kind.collective);
    return kind;
}

struct aorta_kernel_kind aorta_kernel_classify(const char *name, const struct aorta_kernel_patterns *patterns) {
    if (aorta_kernel_patterns_match(patterns, name)) return collective_by(name, head_length(name));
    name = own_name(name);
    const size_t length = head_length(name);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (!contains_word(name, length, words[i].word)) continue;
        if (words[i].class != AORTA_KERNEL_COLLECTIVE) return (struct aorta_kernel_kind){.class = words[i].class};
        const char *operation = words[i].operation;
        return operation ? collective_by(operation, strlen(operation)) : collective_by(name, length);
    }
    return (struct aorta_kernel_kind){.class = AORTA_KERNEL_COMPUTE};
}

bool aorta_has_any(const char *text, const char *const *parts) {
    while (*parts && !strcasestr(text, *parts)) parts++;
    return *parts;
}

bool aorta_kernel_may_communicate(const char *name) {
    static const char *const parts[] = {"dispatch",  "combine",    "a2a",        "alltoall",       "all_to_all",
                                        "allreduce", "all_reduce", "all_gather", "reduce_scatter", NULL};
    char head[256];
    if (aorta_kernel_category(name) != AORTA_CATEGORY_OTHER) return false;
    name = own_name(name);
    snprintf(head, sizeof head, "%.*s", (int)head_length(name), name);
    return aorta_has_any(head, parts);
}

/* "void my::dispatch<8>(int)": my::dispatch. */
void aorta_kernel_pattern_of(const char *name, char *pattern, size_t size) {
    name = own_name(name);
    const size_t end = head_length(name);
    size_t begin = end;
    while (begin > 0 && name[begin - 1] != ' ') begin--;
    snprintf(pattern, size, "%.*s", (int)(end - begin), name + begin);
}

bool aorta_kernel_only_measures(enum aorta_kernel_class class) {
    return class != AORTA_KERNEL_COMPUTE && class != AORTA_KERNEL_COLLECTIVE;
}

/* ---- short names ---- */

static bool in_name(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

/* The end of a template argument that is alone. */
static size_t name_length(const char *name, size_t length) {
    size_t end = strcspn(name, ">,");
    return end < length ? end : length;
}

/* CUTLASS's kernels are all called this; their template argument distinguishes them. */
static bool says_nothing(const char *name, size_t length) {
    static const char *const generic[] = {"Kernel", "Kernel2", "device_kernel"};
    for (size_t i = 0; i < sizeof generic / sizeof generic[0]; i++)
        if (strlen(generic[i]) == length && strncmp(name, generic[i], length) == 0) return true;
    return false;
}

/* "gemvx::kernel": the namespace is part of a name that is too general alone. */
static size_t with_namespace(const char *name, size_t from, size_t end) {
    const bool any = says_nothing(name + from, end - from) || (end - from == 6 && !strncmp(name + from, "kernel", 6));
    if (!any || from < 3 || name[from - 1] != ':' || !in_name(name[from - 3])) return from;
    for (from -= 2; from > 0 && in_name(name[from - 1]);) from--;
    return from;
}

/* The function that a generic kernel of PyTorch ("vectorized_elementwise_kernel") applies: the first functor among its
 * template arguments. *length is 0 if there is none. */
static const char *find_functor(const char *arguments, size_t *length) {
    static const char *const marks[] = {"Functor", "functor", "_kernel_cuda", "_kernel_impl", "Ops"};
    *length = 0;
    for (const char *at = arguments; *at;) {
        size_t word = 0;
        while (in_name(at[word])) word++;
        for (size_t i = 0; word && i < sizeof marks / sizeof marks[0]; i++) {
            bool wrapper = aorta_begins(at, "gpu_kernel_impl"); /* holds the functor */
            if (wrapper || !memmem(at, word, marks[i], strlen(marks[i]))) continue;
            *length = word;
            return at;
        }
        at += word ? word : 1;
    }
    return NULL;
}

static bool is_generic(const char *name, size_t length) {
    static const char *const parts[] = {"elementwise_kernel", "apply_kernel", "reduce_kernel"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (memmem(name, length, parts[i], strlen(parts[i]))) return true;
    return false;
}

/* A name that is cut ends in an ellipsis. */
static const char *put_name(char *text, size_t size, const char *name) {
    static const char ellipsis[] = "…";
    size_t length = strlen(name);
    if (length >= size) {
        size_t shown = size > sizeof ellipsis ? size - sizeof ellipsis : 0;
        while (shown > 0 && ((unsigned char)name[shown] & 0xc0) == 0x80) shown--; /* no half characters */
        snprintf(text, size, "%.*s%s", (int)shown, name, shown ? ellipsis : "");
        return text;
    }
    memmove(text, name, length + 1);
    return text;
}

/* Finds the part of the name that identifies the kernel. */
static void find_words(const char *name, size_t *first, size_t *end) {
    size_t length = head_length(name), from = length;
    while (from > 0 && in_name(name[from - 1])) from--;
    /* Names that are not C++ keep their words (a copy: "Memcpy HtoD (Pinned -> Device)"; our own operations). */
    bool qualified = from > 1 && name[from - 1] == ':', typed = from > 0 && name[from - 1] == ' ';
    bool plain = from == length || !(qualified || (typed && name[length]));
    bool several = plain && memchr(name, ' ', length);
    if (plain) from = 0;
    *first = from;
    *end = several || !length ? strlen(name) : from + name_length(name + from, length - from);
}

static const char *short_demangled(const char *name, char *text, size_t size) {
    enum { DEEPEST = 8 }; /* limited, as names come from files of any origin */
    size_t from, end, functor_length = 0;
    name = own_name(name);
    find_words(name, &from, &end);
    for (int depth = 0; depth < DEEPEST && name[end] == '<' && says_nothing(name + from, end - from); depth++) {
        name += end + 1;
        find_words(name, &from, &end);
    }
    from = with_namespace(name, from, end);
    const char *functor = NULL;
    if (name[end] == '<' && is_generic(name + from, end - from)) functor = find_functor(name + end, &functor_length);
    char whole[1024];
    if (functor)
        snprintf(whole, sizeof whole, "%.*s<%.*s>", (int)(end - from), name + from, (int)functor_length, functor);
    else
        snprintf(whole, sizeof whole, "%.*s", (int)(end - from), name + from);
    return put_name(text, size, whole);
}

const char *aorta_kernel_short_name(const char *name, char *text, size_t size) {
    enum { READABLE = 128 }; /* Tensile's names have some 300 characters */
    char names[512];
    if (size > READABLE) size = READABLE;
    return short_demangled(aorta_mangled_names(name, names, sizeof names) ? names : name, text, size);
}

struct row {
    const char *part;
    enum aorta_category category;
    bool product;
};
static const struct row rows[] = {
#define KERNEL(part, category, product) {part, AORTA_CATEGORY_##category, product},
#include "trace/categories.def"
#undef KERNEL
};

static const struct {
    const char *name;
    enum aorta_work_class class;
} categories[AORTA_CATEGORY_COUNT] = {
    {"gemm", AORTA_WORK_GEMM},
    {"experts", AORTA_WORK_GEMM},
    {"convolution", AORTA_WORK_GEMM}, /* convolutions run as matrix products */
    {"attention", AORTA_WORK_ATTENTION},
    {"norm", AORTA_WORK_REDUCTION},
    {"activation", AORTA_WORK_POINTWISE},
    {"rope", AORTA_WORK_POINTWISE},
    {"cache", AORTA_WORK_POINTWISE},
    {"quantisation", AORTA_WORK_POINTWISE},
    {"routing", AORTA_WORK_REDUCTION},
    {"sampling", AORTA_WORK_REDUCTION},
    {"softmax", AORTA_WORK_REDUCTION},
    {"lookup", AORTA_WORK_POINTWISE},
    {"sort", AORTA_WORK_REDUCTION},
    {"optimizer", AORTA_WORK_POINTWISE},
    {"copy_kernel", AORTA_WORK_POINTWISE},
    {"elementwise", AORTA_WORK_POINTWISE},
    {"reduction", AORTA_WORK_REDUCTION},
    {"other", AORTA_WORK_OTHER},
};

const char *aorta_category_name(enum aorta_category category) {
    return categories[category].name;
}

static const struct row *find_row(const char *kernel) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *part = rows[i].part;
        if (*part == '^' ? aorta_begins(kernel, part + 1) : strstr(kernel, part) != NULL) return &rows[i];
    }
    return NULL;
}

enum aorta_category aorta_kernel_category(const char *kernel) {
    const struct row *row = find_row(kernel);
    return row ? row->category : AORTA_CATEGORY_OTHER;
}

enum aorta_category aorta_category_of_class(enum aorta_work_class class) {
    static const enum aorta_category of[AORTA_WORK_CLASS_COUNT] = {AORTA_CATEGORY_GEMM,      AORTA_CATEGORY_CONVOLUTION,
                                                                   AORTA_CATEGORY_ATTENTION, AORTA_CATEGORY_ELEMENTWISE,
                                                                   AORTA_CATEGORY_REDUCTION, AORTA_CATEGORY_OTHER};
    return of[class];
}

enum aorta_work_class aorta_kernel_work_class(const char *kernel) {
    return categories[aorta_kernel_category(kernel)].class;
}

bool aorta_kernel_is_gemm(const char *kernel) {
    const struct row *row = find_row(kernel);
    return row && row->product;
}

/* ---- copies ---- */

const char *aorta_copy_name(int64_t kind) {
    static const char *const names[] = {"Memcpy",      "Memcpy HtoD", "Memcpy DtoH", "Memcpy HtoA", "Memcpy AtoH",
                                        "Memcpy AtoA", "Memcpy AtoD", "Memcpy DtoA", "Memcpy DtoD", "Memcpy HtoH",
                                        "Memcpy PtoP", "Memcpy HtoD", "Memcpy DtoH", "Memcpy DtoD"};
    return names[kind > 0 && kind < (int64_t)(sizeof names / sizeof *names) ? kind : 0];
}

enum aorta_copied aorta_copied_how(const char *name) {
    static const struct {
        const char *word;
        enum aorta_copied copied;
    } ways[] = {{"PtoP", AORTA_COPIED_BETWEEN}, /* first: its details are "Device -> Device" */
                {"P2P", AORTA_COPIED_BETWEEN},
                {"PeerToPeer", AORTA_COPIED_BETWEEN},
                {"peer to peer", AORTA_COPIED_BETWEEN},
                {"HtoD", AORTA_COPIED_TO_DEVICE},
                {"HOST_TO_DEVICE", AORTA_COPIED_TO_DEVICE},
                {"HostToDevice", AORTA_COPIED_TO_DEVICE},
                {"DtoH", AORTA_COPIED_TO_HOST},
                {"DEVICE_TO_HOST", AORTA_COPIED_TO_HOST},
                {"DeviceToHost", AORTA_COPIED_TO_HOST},
                {"DtoD", AORTA_COPIED_WITHIN},
                {"D2D", AORTA_COPIED_WITHIN},
                {"device to device", AORTA_COPIED_WITHIN},
                {"DEVICE_TO_DEVICE", AORTA_COPIED_WITHIN},
                {"DeviceToDevice", AORTA_COPIED_WITHIN},
                {"Device -> Device", AORTA_COPIED_WITHIN},
                {"Device -> Host", AORTA_COPIED_TO_HOST},
                {"Device -> Pinned", AORTA_COPIED_TO_HOST},
                {"Device -> Pageable", AORTA_COPIED_TO_HOST},
                {"Host -> Device", AORTA_COPIED_TO_DEVICE},
                {"Pinned -> Device", AORTA_COPIED_TO_DEVICE},
                {"Pageable -> Device", AORTA_COPIED_TO_DEVICE}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strstr(name, ways[i].word)) return ways[i].copied;
    return AORTA_COPIED_UNKNOWN;
}

bool aorta_kernel_is_of_optimizer(const char *name) {
    static const char *const parts[] = {"adam", "sgd",     "optimizer", "lamb",
                                        "lion", "adagrad", "rmsprop",   "multi_tensor_apply"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *found = strcasestr(name, parts[i]);
        while (found && strncasecmp(found, "lambda", 6) == 0) found = strcasestr(found + 6, parts[i]);
        if (found) return true;
    }
    return false;
}
