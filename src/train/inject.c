/* Causes of lost time that training.inject plants: what a value says, and the work that loses the time. */
#include "base/clock.h"
#include "train/context.h"

#include <string.h>
#include <time.h>

/* ---- causes that can be planted ---- */

enum parameter { RANK, MS, MIB, PER, KIND, EVERY, PARAMETERS };
enum { PER_STEP, PER_LAYER, VALUE_SIZE = 32 };

static const struct aorta_choice places[] = {{"step", PER_STEP}, {"layer", PER_LAYER}, {0}};
static const struct aorta_choice collectives[] = {
    {"all_gather", AORTA_ALL_GATHER}, {"reduce_scatter", AORTA_REDUCE_SCATTER}, {"all_reduce", AORTA_ALL_REDUCE}, {0}};

static const struct {
    const char *name, *what;
    const struct aorta_choice *choices; /* NULL: a number from min to max */
    double min, max, unless_given;
    bool whole;
} parameters[PARAMETERS] = {
    [RANK] = {"rank", "a rank's number", NULL, 0, 1 << 20, -1, true},
    [MS] = {"ms", "milliseconds from 0.001 to 60000", NULL, 0.001, 60000, 0, false},
    [MIB] = {"mib", "MiB from 0.001 to 1048576", NULL, 0.001, 1048576, 0, false},
    [PER] = {"per", "step or layer", places, 0, 0, PER_STEP, false},
    [KIND] = {"kind", "all_gather, reduce_scatter or all_reduce", collectives, 0, 0, 0, false},
    [EVERY] = {"every", "a whole number from 1 on", NULL, 1, 1 << 20, 2, true},
};

#define BIT(parameter) (1U << (parameter))

#define AT(member) offsetof(struct aorta_injected, member)

static const struct injection {
    const char *name, *usage;
    unsigned needed, taken;    /* bits of parameters: required; optional */
    enum parameter amount;     /* the parameter that is added up, in ns or bytes; PARAMETERS: counts the items */
    size_t per_step, in_layer; /* offset of the int64_t: per step, or with per=layer */
} injections[] = {
    {"slow_rank", "slow_rank:rank=R,ms=N[,per=step|layer]", BIT(RANK) | BIT(MS), BIT(PER), MS, AT(step_kernel_ns),
     AT(layer_kernel_ns)},
    {"host_pause", "host_pause:ms=N[,rank=R]", BIT(MS), BIT(RANK), MS, AT(pause_ns), 0},
    {"slow_loader", "slow_loader:ms=N[,rank=R]", BIT(MS), BIT(RANK), MS, AT(loader_ns), 0},
    {"sync", "sync:per=step|layer[,rank=R]", BIT(PER), BIT(RANK), PARAMETERS, AT(sync_step), AT(sync_layer)},
    {"slow_collective", "slow_collective:kind=all_gather|reduce_scatter|all_reduce,ms=N[,every=M]", BIT(KIND) | BIT(MS),
     BIT(EVERY), MS, AT(collectives), 0},
    {"allocation", "allocation:mib=N[,rank=R]", BIT(MIB), BIT(RANK), MIB, AT(memory_bytes), 0},
    {"copy", "copy:mib=N[,rank=R]", BIT(MIB), BIT(RANK), MIB, AT(copy_bytes), 0},
};
enum { INJECTIONS = sizeof injections / sizeof *injections };

static void add(const struct injection *injection, const double *values, struct aorta_injected *injected) {
    const double units[PARAMETERS] = {[MS] = 1e6, [MIB] = 1048576};
    const bool counted = injection->amount == PARAMETERS;
    const int64_t amount = counted ? 1 : (int64_t)(values[injection->amount] * units[injection->amount]);
    size_t place = (int)values[PER] == PER_LAYER ? injection->in_layer : injection->per_step;
    if (injection->needed & BIT(KIND)) {
        place += (size_t)values[KIND] * sizeof *injected->collectives;
        injected->collectives[(int)values[KIND]].every = (int64_t)values[EVERY];
    }
    *(int64_t *)(void *)((char *)injected + place) += amount;
}

/* ---- reading ---- */

/* While an item is read. */
struct item {
    const struct aorta_train_options *options;
    const char *text;
    const struct injection *injection;
    double values[PARAMETERS];
    unsigned given;
};

static aorta_status item_error(const struct item *item, const char *problem, const char *word, size_t length) {
    struct aorta_text usage = {0};
    if (item->injection)
        aorta_text_puts(&usage, item->injection->usage);
    else
        for (int i = 0; i < INJECTIONS; i++) aorta_text_printf(&usage, "%s%s", i ? "; " : "", injections[i].usage);
    aorta_status status = aorta_config_error(
        &item->options->config, "training.inject", "\"%s\": %s \"%.*s\"; %s %s", item->text, problem, (int)length, word,
        item->injection ? "right would be" : "there are", usage.data ? usage.data : "");
    aorta_text_free(&usage);
    return status;
}

static bool read_choice(const struct aorta_choice *choices, const char *text, double *value) {
    for (; choices->name; choices++) {
        if (strcmp(choices->name, text) != 0) continue;
        *value = choices->value;
        return true;
    }
    return false;
}

static bool read_value(enum parameter parameter, const char *text, double *value) {
    int64_t whole;
    if (parameters[parameter].choices) return read_choice(parameters[parameter].choices, text, value);
    if (parameters[parameter].whole && !aorta_scalar_int(text, &whole)) return false;
    return aorta_scalar_double(text, value) && *value >= parameters[parameter].min &&
           *value <= parameters[parameter].max;
}

/* "ms=20" */
static aorta_status read_parameter(struct item *item, const char *text, size_t length) {
    const char *sign = memchr(text, '=', length);
    size_t name = sign ? (size_t)(sign - text) : length;
    char value[VALUE_SIZE];
    int at = 0;
    while (at < PARAMETERS && (strlen(parameters[at].name) != name || strncmp(parameters[at].name, text, name) != 0))
        at++;
    if (at == PARAMETERS || !((item->injection->needed | item->injection->taken) & BIT(at)))
        return item_error(item, "it does not take", text, name);
    if (!sign || length - name - 1 >= sizeof value) return item_error(item, "no value in", text, length);
    memcpy(value, sign + 1, length - name - 1);
    value[length - name - 1] = '\0';
    if (!read_value((enum parameter)at, value, &item->values[at]))
        return aorta_config_error(&item->options->config, "training.inject", "\"%s\": %s is \"%s\"; it takes %s",
                                  item->text, parameters[at].name, value, parameters[at].what);
    item->given |= BIT(at);
    return NULL;
}

static aorta_status check_needed(const struct item *item) {
    for (int i = 0; i < PARAMETERS; i++)
        if (item->injection->needed & ~item->given & BIT(i))
            return item_error(item, "it needs", parameters[i].name, strlen(parameters[i].name));
    return NULL;
}

/* "slow_rank:rank=1,ms=20" */
static aorta_status read_item(struct item *item) {
    size_t name = strcspn(item->text, ":");
    for (int i = 0; i < PARAMETERS; i++) item->values[i] = parameters[i].unless_given;
    for (int i = 0; i < INJECTIONS; i++)
        if (strlen(injections[i].name) == name && strncmp(injections[i].name, item->text, name) == 0)
            item->injection = &injections[i];
    if (!item->injection) return item_error(item, "no cause is called", item->text, name);
    for (const char *at = item->text + name; *at;) {
        size_t length = strcspn(++at, ",");
        AORTA_TRY(read_parameter(item, at, length));
        at += length;
    }
    return check_needed(item);
}

static aorta_status check_capture(const struct item *item) {
    bool captured = aorta_compile_captures(&item->options->compile);
    if (item->injection->per_step != AT(sync_step) || (int)item->values[PER] != PER_LAYER || !captured) return NULL;
    return aorta_config_error(&item->options->config, "training.inject",
                              "\"%s\": the host cannot wait within a captured step; set compile.enabled to false or "
                              "use per=step",
                              item->text);
}

aorta_status aorta_injections_read(const struct aorta_train_options *options, int rank,
                                   struct aorta_injected *injected) {
    *injected = (struct aorta_injected){0};
    const struct aorta_string_list *list = &options->training.inject;
    for (size_t i = 0; i < list->count; i++) {
        struct item item = {.options = options, .text = list->items[i]};
        AORTA_TRY(read_item(&item));
        AORTA_TRY(check_capture(&item));
        if (rank < 0 || item.values[RANK] < 0 || (int)item.values[RANK] == rank)
            add(item.injection, item.values, injected);
    }
    return NULL;
}

aorta_status aorta_injections_check(const struct aorta_train_options *options, int world_size) {
    const struct aorta_string_list *list = &options->training.inject;
    for (size_t i = 0; i < list->count; i++) {
        struct item item = {.options = options, .text = list->items[i]};
        AORTA_TRY(read_item(&item));
        if (item.values[RANK] >= world_size)
            return aorta_config_error(&options->config, "training.inject", "\"%s\": this run has %s, from 0", item.text,
                                      aorta_counted(world_size, "rank").text);
    }
    return NULL;
}

/* ---- life ---- */

aorta_status aorta_injections_open(struct aorta_train_context *context) {
    if (!context->options->training.inject.count) return NULL;
    struct aorta_injected *injected = aorta_arena_alloc(&context->arena, sizeof *injected);
    if (!injected) return aorta_arena_check(&context->arena, "training.inject");
    context->injected = injected;
    AORTA_TRY(aorta_injections_read(context->options, context->ranks.rank, injected));
    if (!injected->copy_bytes) return NULL;
    const size_t bytes = (size_t)injected->copy_bytes;
    AORTA_TRY(aorta_own_pinned(&context->owned, bytes, "training.inject", &injected->host));
    memset(injected->host, 0, bytes);
    return aorta_own_memory(&context->owned, bytes, "training.inject", &injected->device);
}

/* ---- in a step ---- */

/* Not recorded, as the pauses of real programs are not recorded either. */
static void pause_host(int64_t ns) {
    const struct timespec pause = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    nanosleep(&pause, NULL);
}

static aorta_status allocate(const struct aorta_train_context *c) {
    void *memory;
    int64_t start_ns = aorta_clock_ns();
    AORTA_TRY(aorta_device_alloc(c->device, (size_t)c->injected->memory_bytes, "training.inject", &memory));
    aorta_device_free(c->device, memory);
    return aorta_recorder_host(c->recorder, AORTA_HOST_ALLOCATION, start_ns, aorta_clock_ns());
}

aorta_status aorta_inject_before_step(const struct aorta_train_context *c) {
    if (!c->injected) return NULL;
    c->injected->steps++;
    for (int i = 0; i < AORTA_COLLECTIVE_COUNT; i++) c->injected->collectives[i].calls = 0;
    if (c->injected->pause_ns) pause_host(c->injected->pause_ns);
    return c->injected->memory_bytes ? allocate(c) : NULL;
}

aorta_status aorta_inject_after_step(const struct aorta_train_context *c) {
    return c->injected && c->injected->sync_step ? aorta_train_synchronize(c, aorta_train_compute(c)) : NULL;
}

aorta_status aorta_inject_before_forward(const struct aorta_train_context *c) {
    if (!c->injected || !c->injected->copy_bytes) return NULL;
    AORTA_TRY(aorta_train_begin_on(c, AORTA_ROLE_COMPUTE, AORTA_RANGE_COPY, "training.inject", "injected_copy",
                                   c->injected->copy_bytes));
    AORTA_TRY(
        aorta_copy(aorta_train_compute(c), c->injected->device, c->injected->host, (size_t)c->injected->copy_bytes));
    return aorta_train_end(c);
}

static aorta_status run_kernel(const struct aorta_train_context *c, int64_t ns) {
    if (!ns) return NULL;
    AORTA_TRY(
        aorta_train_begin_on(c, AORTA_ROLE_COMPUTE, AORTA_RANGE_COMPUTE, "training.inject", "injected_kernel", 0));
    AORTA_TRY(aorta_spin(aorta_train_compute(c), ns, NULL));
    return aorta_train_end(c);
}

aorta_status aorta_inject_after_forward(const struct aorta_train_context *c) {
    return c->injected ? run_kernel(c, c->injected->step_kernel_ns) : NULL;
}

aorta_status aorta_inject_after_layer(const struct aorta_train_context *c) {
    if (!c->injected) return NULL;
    AORTA_TRY(run_kernel(c, c->injected->layer_kernel_ns));
    return c->injected->sync_layer ? aorta_train_synchronize(c, aorta_train_compute(c)) : NULL;
}

aorta_status aorta_inject_into_collective(const struct aorta_train_context *c, enum aorta_collective kind,
                                          struct aorta_stream *stream) {
    if (!c->injected || !c->injected->collectives[kind].longer_ns) return NULL;
    /* Each step slows down different calls, so that calls of each size run both slow and fast. */
    int64_t number = c->injected->steps + c->injected->collectives[kind].calls++;
    if (number % c->injected->collectives[kind].every) return NULL;
    return aorta_spin(stream, c->injected->collectives[kind].longer_ns, NULL);
}
