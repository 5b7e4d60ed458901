/* Makes the command of a trial: aorta train, aorta hwq run, or a user's command, with the values of its point. */
#include "sparse/options.h"
#include "sweep/run.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static void add_launcher(struct aorta_words *words, const struct aorta_sweep_job *job) {
    if (job->ranks < 2) return;
    aorta_words_add_all(words, (const char *const[]){job->self, "launch", "-n", NULL});
    aorta_words_add(words, aorta_arena_printf(words->arena, "%d", job->ranks));
    aorta_words_add(words, "--");
}

/* ---- train ---- */

static void add_train(struct aorta_words *words, const struct aorta_sweep_job *job, const struct aorta_sweep_next *next,
                      const char *directory) {
    const struct aorta_sweep_space *space = &job->plan.space;
    add_launcher(words, job);
    aorta_words_add_all(words, (const char *const[]){job->self, "train", "--quiet", "--no-report", NULL});
    if (job->config) {
        aorta_words_add(words, "--config");
        aorta_words_add(words, job->config);
    }
    aorta_words_add(words, "--override");
    for (size_t i = 0; i < job->override_count; i++) aorta_words_add(words, job->overrides[i]);
    for (int i = 0; i < space->count; i++) {
        const char *value = aorta_sweep_value(space, next->cell, i);
        if (!space->knobs[i].environment && value)
            aorta_words_add(words, aorta_arena_printf(words->arena, "%s=%s", space->knobs[i].name, value));
    }
    if (next->steps)
        aorta_words_add(words, aorta_arena_printf(words->arena, "training.max_steps=%lld", (long long)next->steps));
    aorta_words_add(words, aorta_arena_printf(words->arena, "training.output_dir=%s/out", directory));
}

/* ---- hwq ---- */

static void add_hwq(struct aorta_words *words, const struct aorta_sweep_job *job, const struct aorta_sweep_next *next,
                    const char *directory) {
    const struct aorta_sweep_space *space = &job->plan.space;
    add_launcher(words, job);
    aorta_words_add_all(words, (const char *const[]){job->self, "hwq", "run", job->workload, NULL});
    for (int i = 0; i < space->count; i++) {
        const char *value = aorta_sweep_value(space, next->cell, i);
        if (space->knobs[i].environment || !value || !strcmp(value, "false")) continue;
        bool flag = !strcmp(value, "true");
        aorta_words_add(words,
                        aorta_arena_printf(words->arena, flag ? "--%s" : "--%s=%s", space->knobs[i].name, value));
    }
    if (next->steps)
        aorta_words_add(words, aorta_arena_printf(words->arena, "--iterations=%lld", (long long)next->steps));
    aorta_words_add(words, aorta_arena_printf(words->arena, "--output=%s/hwq.json", directory));
}

/* ---- a command ---- */

/* The value for the placeholder "{name}" at `at`; *length is the placeholder's. NULL if there is none. Environment
 * knobs are no placeholders, as the shell expands variables. */
static const char *placeholder(const struct aorta_sweep_job *job, const struct aorta_sweep_next *next,
                               const char *directory, const char *at, char steps[24], size_t *length) {
    const struct aorta_sweep_space *space = &job->plan.space;
    const char *end = *at == '{' ? strchr(at, '}') : NULL;
    if (!end) return NULL;
    *length = (size_t)(end - at) + 1;
    const size_t name = *length - 2;
    const int knob = aorta_sweep_knob_named(space, at + 1, name);
    if (knob >= 0 && !space->knobs[knob].environment) return aorta_sweep_value(space, next->cell, knob);
    if (name == strlen("directory") && strncmp(at + 1, "directory", name) == 0) return directory;
    if (name != strlen("steps") || strncmp(at + 1, "steps", name) != 0) return NULL;
    snprintf(steps, 24, "%lld", (long long)next->steps);
    return steps;
}

static void add_filled(struct aorta_words *words, const struct aorta_sweep_job *job,
                       const struct aorta_sweep_next *next, const char *directory, const char *word) {
    struct aorta_text text = {0};
    char steps[24];
    size_t length;
    for (const char *at = word; *at;) {
        const bool shells = at > word && at[-1] == '$'; /* ${name} */
        const char *value = shells ? NULL : placeholder(job, next, directory, at, steps, &length);
        if (value)
            aorta_text_puts(&text, value);
        else
            aorta_text_append(&text, at, 1);
        at += value ? length : 1;
    }
    aorta_words_add(words, aorta_text_move(&text, words->arena));
}

static void add_command(struct aorta_words *words, const struct aorta_sweep_job *job,
                        const struct aorta_sweep_next *next, const char *directory) {
    if (job->trace) {
        aorta_words_add_all(words, (const char *const[]){job->self, "trace", "run", "-o", NULL});
        aorta_words_add(words, aorta_arena_printf(words->arena, "%s/trace", directory));
        aorta_words_add(words, "--");
    }
    add_launcher(words, job);
    for (char *const *word = job->command; *word; word++) add_filled(words, job, next, directory, *word);
}

aorta_status aorta_sweep_command(const struct aorta_sweep_job *job, const struct aorta_sweep_next *next,
                                 const char *directory, struct aorta_arena *arena, char ***result) {
    static void (*const makers[])(struct aorta_words *, const struct aorta_sweep_job *, const struct aorta_sweep_next *,
                                  const char *) = {add_train, add_hwq, add_command};
    struct aorta_words words = {.arena = arena};
    makers[job->target](&words, job, next, directory);
    *result = words.items;
    return aorta_arena_check(arena, "the command of a trial");
}

/* ---- checks ---- */

/* Checks only that each value fits its key, as values that exclude each other may occur in separate points. */
static aorta_status check_overrides(const char *path, const char *const *overrides, size_t count) {
    if (aorta_sparse_is_asked_for(path, overrides, count)) {
        struct aorta_sparse_options sparse;
        AORTA_TRY(aorta_sparse_options_read(path, overrides, count, &sparse));
        aorta_sparse_options_free(&sparse);
        return NULL;
    }
    struct aorta_train_options values;
    struct aorta_config config;
    AORTA_TRY(aorta_config_load(&aorta_train_option_table, path, overrides, count, &values, &config));
    aorta_config_free(&config);
    return NULL;
}

/* Knob values are checked as overrides; this changes the error to the --grid that the user wrote. */
static aorta_status as_grid(aorta_status status) {
    static const char override[] = "--override ";
    const char *message = status ? aorta_status_message(status) : "";
    if (strncmp(message, override, sizeof override - 1) != 0) return status;
    aorta_status wrong = AORTA_ERROR(aorta_status_code(status), "--grid %s", message + sizeof override - 1);
    aorta_status_free(status);
    return wrong;
}

/* The overrides of a job, with place for a knob's value after them; the caller frees them. */
static aorta_status take_overrides(const struct aorta_sweep_job *job, const char ***overrides) {
    *overrides = calloc(job->override_count + 2, sizeof **overrides);
    if (!*overrides) return AORTA_ERROR(AORTA_MEMORY, "no memory for the keys of a sweep");
    for (size_t i = 0; i < job->override_count; i++) (*overrides)[i] = job->overrides[i];
    return NULL;
}

/* `word` holds the text of the override. */
static aorta_status set_override(const struct aorta_sweep_job *job, const struct aorta_sweep_knob *knob, int value,
                                 struct aorta_text *word, const char **overrides) {
    aorta_text_clear(word);
    aorta_text_printf(word, "%s=%s", knob->name, knob->values[value]);
    overrides[job->override_count] = word->data;
    return aorta_text_check(word);
}

static aorta_status check_train(const struct aorta_sweep_job *job) {
    const struct aorta_sweep_space *space = &job->plan.space;
    const char **overrides;
    struct aorta_text word = {0};
    AORTA_TRY(take_overrides(job, &overrides));
    aorta_status status = check_overrides(job->config, overrides, job->override_count);
    for (int i = 0; !status && i < space->count; i++) {
        const struct aorta_sweep_knob *knob = &space->knobs[i];
        for (int v = 0; !status && !knob->environment && v < knob->count; v++) {
            status = set_override(job, knob, v, &word, overrides);
            if (!status) status = as_grid(check_overrides(job->config, overrides, job->override_count + 1));
        }
    }
    aorta_text_free(&word);
    free(overrides);
    return status;
}

/* ---- the point that the baseline is ---- */

/* The configuration with these overrides, as JSON; the caller frees it. */
static aorta_status effective(const char *config, const char *const *overrides, size_t count, struct aorta_text *text) {
    struct aorta_train_options values = {0};
    struct aorta_config loaded;
    struct aorta_json json;
    AORTA_TRY(aorta_config_load(&aorta_train_option_table, config, overrides, count, &values, &loaded));
    aorta_json_begin(&json, text, 0);
    aorta_config_write_json(&loaded, &json);
    aorta_config_free(&loaded);
    return aorta_text_check(text);
}

/* The index of the knob's value that equals the baseline's; *level is -1 if there is none. `overrides` has space for
 * one more. */
static aorta_status find_level(const struct aorta_sweep_job *job, const char **overrides,
                               const struct aorta_sweep_knob *knob, const char *base, int *level) {
    struct aorta_text word = {0}, text = {0};
    aorta_status status = NULL;
    *level = -1;
    for (int v = 0; v < knob->count && *level < 0 && !status; v++) {
        const char *set = knob->environment ? getenv(knob->name) : NULL;
        if (knob->environment) {
            if (strcmp(knob->values[v], set ? set : "unset") == 0) *level = v;
            continue;
        }
        aorta_text_clear(&text);
        status = set_override(job, knob, v, &word, overrides);
        if (!status) status = effective(job->config, overrides, job->override_count + 1, &text);
        if (!status && strcmp(text.data, base) == 0) *level = v;
    }
    aorta_text_free(&word);
    aorta_text_free(&text);
    return status;
}

aorta_status aorta_sweep_find_equal(const struct aorta_sweep_job *job, int64_t *equal) {
    const struct aorta_sweep_space *space = &job->plan.space;
    *equal = 0;
    if (job->target != AORTA_SWEEP_TRAIN || !job->plan.baseline) return NULL;
    if (aorta_sparse_is_asked_for(job->config, job->overrides, job->override_count)) return NULL;
    const char **overrides;
    struct aorta_text base = {0};
    AORTA_TRY(take_overrides(job, &overrides));
    aorta_status status = effective(job->config, overrides, job->override_count, &base);
    int64_t cell = 0;
    for (int i = 0; i < space->count && !status && cell >= 0; i++) {
        int level;
        status = find_level(job, overrides, &space->knobs[i], base.data, &level);
        cell = status || level < 0 ? -1 : cell * space->knobs[i].count + level;
    }
    if (!status) *equal = cell + 1;
    aorta_text_free(&base);
    free(overrides);
    return status;
}

/* ---- what would fail ---- */

static bool has_placeholder(char *const *words, const char *name) {
    struct aorta_text text = {0};
    aorta_text_printf(&text, "{%s}", name);
    bool found = text.failed;
    for (; !found && *words; words++) found = strstr(*words, text.data) != NULL;
    aorta_text_free(&text);
    return found;
}

static aorta_status check_command(const struct aorta_sweep_job *job) {
    const struct aorta_sweep_space *space = &job->plan.space;
    for (int i = 0; i < space->count; i++) {
        const char *name = space->knobs[i].name;
        if (space->knobs[i].environment || has_placeholder(job->command, name)) continue;
        return AORTA_ERROR(AORTA_USAGE, "--grid %s: write {%s} in the command, where its values go", name, name);
    }
    if (!job->plan.steps || job->plan.method != AORTA_SWEEP_HALVING || has_placeholder(job->command, "steps"))
        return NULL;
    return AORTA_ERROR(AORTA_USAGE, "--search halving: write {steps} in the command, where the number of steps goes");
}

static aorta_status check_name(const struct aorta_sweep_knob *knob) {
    for (const char *at = knob->name; knob->environment && *at; at++)
        if (!isalnum((unsigned char)*at) && *at != '_')
            return AORTA_ERROR(AORTA_USAGE, "--env %s: no name of a variable", knob->name);
    return NULL;
}

bool aorta_sweep_has_baseline(const struct aorta_sweep_job *job) {
    const struct aorta_sweep_space *space = &job->plan.space;
    for (int i = 0; job->target == AORTA_SWEEP_COMMAND && i < space->count; i++)
        if (!space->knobs[i].environment && space->knobs[i].count > 1) return false;
    return true;
}

aorta_status aorta_sweep_check(const struct aorta_sweep_job *job) {
    const struct aorta_sweep_plan *plan = &job->plan;
    const int64_t most_points = 100000;
    if (!plan->space.count) return AORTA_ERROR(AORTA_USAGE, "no knobs: give --grid KEY=A,B or --env VAR=A,B");
    for (int i = 0; i < plan->space.count; i++) AORTA_TRY(check_name(&plan->space.knobs[i]));
    if (!plan->points && plan->method == AORTA_SWEEP_GRID && aorta_sweep_cells(&plan->space) > most_points)
        return AORTA_ERROR(AORTA_USAGE, "%lld combinations; --trials N or --search random takes some of them",
                           (long long)aorta_sweep_cells(&plan->space));
    if (plan->method == AORTA_SWEEP_HALVING && !plan->steps)
        return AORTA_ERROR(AORTA_USAGE, "--search halving needs --steps N, the steps of a whole trial");
    if (job->target == AORTA_SWEEP_TRAIN) return check_train(job);
    return job->target == AORTA_SWEEP_COMMAND ? check_command(job) : NULL;
}

aorta_status aorta_sweep_name(struct aorta_sweep_job *job, struct aorta_arena *arena) {
    struct aorta_text text = {0};
    if (job->target == AORTA_SWEEP_TRAIN) {
        aorta_text_printf(&text, "train %s", job->config ? job->config : "(defaults)");
        for (size_t i = 0; i < job->override_count; i++) aorta_text_printf(&text, " %s", job->overrides[i]);
    } else if (job->target == AORTA_SWEEP_HWQ) {
        aorta_text_printf(&text, "hwq run %s", job->workload);
    } else {
        for (char *const *word = job->command; *word; word++)
            aorta_text_printf(&text, "%s%s", word == job->command ? "" : " ", *word);
    }
    if (job->ranks > 1) aorta_text_printf(&text, " -n %d", job->ranks);
    job->plan.target = aorta_text_move(&text, arena);
    return aorta_arena_check(arena, "the name of a sweep");
}
