/* Reads a command line by its rows. */
#include "base/lines.h"
#include "cli/cli.h"
#include "config/option.h"
#include "device/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const struct aorta_cli_syntax *syntax;
    int argc, next; /* argv[next] is read next */
    char **argv;
    void *values;
    struct aorta_cli_line *line;
    bool *given; /* per option */
};

static const char *argument_name(const struct aorta_option *option) {
    static const char *const names[AORTA_OPTION_TYPE_COUNT] = {
        [AORTA_OPTION_INT] = "N",
        [AORTA_OPTION_DOUBLE] = "X",
        [AORTA_OPTION_STRING] = "TEXT",
        [AORTA_OPTION_CHOICE] = "NAME",
        [AORTA_OPTION_DOUBLES_2] = "X,Y",
        [AORTA_OPTION_INT_LIST] = "N,…",
        [AORTA_OPTION_STRING_LIST] = "TEXT",
    };
    return option->argument ? option->argument : names[option->type];
}

static bool is_flag(const struct aorta_option *option) {
    return option->type == AORTA_OPTION_BOOL;
}

/* ---- storing ---- */

static aorta_status wrong_value(const struct aorta_option *option, const char *text) {
    struct aorta_text message = {0};
    struct aorta_option given = *option;
    if (aorta_option_takes_null(option)) given.fallback = ""; /* who wants null leaves the option out */
    aorta_text_printf(&message, "--%s: found \"%s\"; expected ", option->key, text);
    aorta_option_describe(&given, &message);
    if (option->type == AORTA_OPTION_INT_LIST) aorta_text_puts(&message, " such as 2,4,8");
    const char *nearest = option->choices ? aorta_option_nearest_choice(option, text) : NULL;
    if (nearest) aorta_text_printf(&message, "; did you mean %s", nearest);
    return aorta_text_error(&message, AORTA_USAGE);
}

static aorta_status store_scalars(struct reader *reader, const struct aorta_option *option,
                                  const struct aorta_scalar *scalars, size_t count, bool list, const char *text) {
    const bool fits = aorta_option_store(option, scalars, count, list, reader->values, &reader->line->arena);
    return fits ? NULL : wrong_value(option, text);
}

/* Stores a comma-separated list of numbers: "1,2,4". */
static aorta_status store_numbers(struct reader *reader, const struct aorta_option *option, const char *text) {
    size_t count = 1;
    for (const char *c = text; *c; c++) count += *c == ',';
    struct aorta_scalar *scalars = aorta_arena_alloc(&reader->line->arena, count * sizeof *scalars);
    char *parts = aorta_arena_strdup(&reader->line->arena, text);
    if (!scalars || !parts) return NULL;
    for (size_t i = 0; i < count; i++) scalars[i].text = strsep(&parts, ",");
    return store_scalars(reader, option, scalars, count, true, text);
}

/* Adds a text to those given before; the default goes when the first one comes. */
static aorta_status store_text(struct reader *reader, const struct aorta_option *option, const char *text, bool first) {
    struct aorta_string_list list = {0};
    if (!first) memcpy(&list, (const char *)reader->values + option->offset, sizeof list);
    struct aorta_scalar *scalars = aorta_arena_alloc(&reader->line->arena, (list.count + 1) * sizeof *scalars);
    if (!scalars) return NULL;
    for (size_t i = 0; i < list.count; i++) scalars[i] = (struct aorta_scalar){list.items[i], true};
    scalars[list.count] = (struct aorta_scalar){text, true};
    return store_scalars(reader, option, scalars, list.count + 1, true, text);
}

/* Options of every command. */
#define AT(member) offsetof(struct aorta_cli_line, member)
static const struct aorta_choice colors[] = {{"auto", 0}, {"always", 1}, {"never", 2}, {0}};
static const struct aorta_option common[] = {
    {"color", AORTA_OPTION_STRING, AT(color), "auto", .choices = colors, .argument = "auto|always|never",
     .help = "colors; auto: on a terminal, unless NO_COLOR is set"},
    {"full-names", AORTA_OPTION_BOOL, AT(full_names), "false", .help = "print whole names of kernels and operations"}};
enum { COMMON = sizeof common / sizeof *common };

static aorta_status store_common(struct reader *reader, const struct aorta_option *option, const char *text) {
    const struct aorta_scalar scalar = {text, option->type == AORTA_OPTION_STRING};
    const bool fits = aorta_option_store(option, &scalar, 1, false, reader->line, &reader->line->arena);
    return fits ? NULL : wrong_value(option, text);
}

static aorta_status store(struct reader *reader, const struct aorta_option *option, const char *text) {
    if (option >= common && option < common + COMMON) return store_common(reader, option, text);
    bool *given = &reader->given[option - reader->syntax->options];
    bool first = !*given;
    *given = true;
    enum aorta_option_type type = option->type;
    if (type == AORTA_OPTION_STRING_LIST) return store_text(reader, option, text, first);
    if (type == AORTA_OPTION_INT_LIST || type == AORTA_OPTION_DOUBLES_2) return store_numbers(reader, option, text);
    /* counts as quoted: the shell has removed quotes, and "no" may be a directory */
    struct aorta_scalar scalar = {text, type == AORTA_OPTION_STRING};
    return store_scalars(reader, option, &scalar, 1, false, text);
}

/* ---- options ---- */

static const struct aorta_option *find_in(const struct aorta_option *options, size_t count, const char *name,
                                          size_t length) {
    for (size_t i = 0; i < count; i++)
        if (strlen(options[i].key) == length && strncmp(options[i].key, name, length) == 0) return &options[i];
    return NULL;
}

static const struct aorta_option *find_long(const struct aorta_cli_syntax *syntax, const char *name, size_t length) {
    const struct aorta_option *own = find_in(syntax->options, syntax->option_count, name, length);
    return own ? own : find_in(common, COMMON, name, length);
}

static const struct aorta_option *find_letter(const struct aorta_cli_syntax *syntax, char letter) {
    for (size_t i = 0; i < syntax->option_count; i++)
        if (letter && syntax->options[i].letter == letter) return &syntax->options[i];
    return NULL;
}

/* The only option with this prefix, as GNU programs accept it. NULL if there is none, or several. */
static const char *begun(const char *word, const char *const *names, size_t count) {
    const char *found = NULL;
    for (size_t i = 0; i < count; i++) {
        if (strncmp(names[i], word, strlen(word)) != 0) continue;
        if (found) return NULL;
        found = names[i];
    }
    return found;
}

static aorta_status unknown_option(const struct reader *reader, const char *word) {
    const char *names[64];
    size_t count = 0;
    for (size_t i = 0; i < reader->syntax->option_count && count < 60; i++)
        names[count++] = reader->syntax->options[i].key;
    for (int i = 0; i < COMMON; i++) names[count++] = common[i].key;
    names[count++] = "help";
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    const bool is_long = strncmp(name, "--", 2) == 0;
    const char *nearest = is_long ? aorta_nearest(name + 2, names, count) : NULL;
    if (is_long && !nearest) nearest = begun(name + 2, names, count);
    if (nearest) return AORTA_ERROR(AORTA_USAGE, "unknown option %s; did you mean --%s?", name, nearest);
    return AORTA_ERROR(AORTA_USAGE, "unknown option %s; --help lists the options", name);
}

static bool looks_like_option(const char *word) {
    return word[0] == '-' && word[1] && !strchr(".0123456789", word[1]);
}

static aorta_status missing_value(const struct aorta_option *option) {
    return AORTA_ERROR(AORTA_USAGE, "--%s needs a value: --%s %s", option->key, option->key, argument_name(option));
}

/* `attached` is what stood in the same word ("--name=VALUE", "-nVALUE"), or NULL. */
static aorta_status read_option(struct reader *reader, const struct aorta_option *option, const char *attached) {
    if (attached) return store(reader, option, attached);
    if (is_flag(option)) return store(reader, option, "true");
    if (reader->next == reader->argc || looks_like_option(reader->argv[reader->next])) return missing_value(option);
    do {
        AORTA_TRY(store(reader, option, reader->argv[reader->next++]));
    } while (option->several && reader->next < reader->argc && !looks_like_option(reader->argv[reader->next]));
    return NULL;
}

static aorta_status read_word(struct reader *reader, const char *word) {
    const struct aorta_option *option;
    if (strncmp(word, "--", 2) == 0) {
        size_t length = strcspn(word + 2, "=");
        option = find_long(reader->syntax, word + 2, length);
        if (option) return read_option(reader, option, word[2 + length] ? word + 3 + length : NULL);
    } else {
        option = find_letter(reader->syntax, word[1]);
        if (option && !(is_flag(option) && word[2])) return read_option(reader, option, word[2] ? word + 2 : NULL);
    }
    return unknown_option(reader, word);
}

/* ---- the line ---- */

static aorta_status check_required(const struct reader *reader) {
    const struct aorta_cli_syntax *syntax = reader->syntax;
    for (size_t i = 0; i < syntax->option_count; i++) {
        const struct aorta_option *option = &syntax->options[i];
        if (!option->required || reader->given[i]) continue;
        return AORTA_ERROR(AORTA_USAGE, "--%s %s is missing; usage: %s", option->key, argument_name(option),
                           syntax->usage);
    }
    return NULL;
}

static const struct help_form {
    const char *word;
    void (*print)(const struct aorta_cli_syntax *syntax, struct aorta_text *text);
} help_forms[] = {{"--help", aorta_cli_help_text},
                  {"-h", aorta_cli_help_text},
                  {"--help=man", aorta_cli_manual},
                  {"--help=words", aorta_cli_words}};

/* NULL: the word does not ask for help. */
static const struct help_form *help_form(const char *word) {
    for (size_t i = 0; i < sizeof help_forms / sizeof *help_forms; i++)
        if (strcmp(word, help_forms[i].word) == 0) return &help_forms[i];
    return NULL;
}

bool aorta_cli_asks_for_help(const char *word) {
    return help_form(word) != NULL;
}

static aorta_status print_help(const struct help_form *form, const struct aorta_cli_syntax *syntax) {
    struct aorta_text text = {0};
    form->print(syntax, &text);
    return aorta_cli_print(&text, NULL, false);
}

static aorta_status add_operand(struct reader *reader, char *word) {
    if (!reader->syntax->operands && !reader->syntax->command)
        return AORTA_ERROR(AORTA_USAGE, "unexpected argument \"%s\"; usage: %s", word, reader->syntax->usage);
    reader->line->operands[reader->line->operand_count++] = word;
    return NULL;
}

static aorta_status read_line(struct reader *reader) {
    const struct aorta_cli_syntax *syntax = reader->syntax;
    bool only_operands = false;
    while (reader->next < reader->argc) {
        char *word = reader->argv[reader->next++];
        const struct help_form *form = help_form(word);
        if (only_operands || word[0] != '-' || !word[1]) {
            AORTA_TRY(add_operand(reader, word));
            only_operands |= syntax->command; /* the rest belongs to the command */
        } else if (strcmp(word, "--") == 0) {
            only_operands = true;
        } else if (form) {
            reader->line->help = true;
            return print_help(form, syntax);
        } else {
            AORTA_TRY(read_word(reader, word));
        }
    }
    return check_required(reader);
}

static aorta_status prepare(struct reader *reader) {
    const struct aorta_cli_syntax *syntax = reader->syntax;
    struct aorta_arena *arena = &reader->line->arena;
    reader->given = aorta_arena_alloc(arena, syntax->option_count * sizeof *reader->given + 1);
    reader->line->operands = aorta_arena_alloc(arena, ((size_t)reader->argc + 1) * sizeof *reader->line->operands);
    AORTA_TRY(aorta_arena_check(arena, "the command line"));
    reader->line->given = reader->given;
    for (size_t i = 0; i < syntax->option_count; i++)
        AORTA_TRY(aorta_option_store_default(&syntax->options[i], reader->values, arena));
    for (int i = 0; i < COMMON; i++) AORTA_TRY(aorta_option_store_default(&common[i], reader->line, arena));
    return NULL;
}

aorta_status aorta_cli_only(const struct aorta_cli_syntax *syntax, const struct aorta_cli_line *line, const char *mode,
                            const char *const *allowed) {
    for (size_t i = 0; i < syntax->option_count; i++) {
        const char *key = syntax->options[i].key;
        if (line->given[i] && !aorta_is_one_of(key, allowed, SIZE_MAX))
            return AORTA_ERROR(AORTA_USAGE, "--%s has no effect with %s, which runs nothing: leave one of them out",
                               key, mode);
    }
    return NULL;
}

static aorta_status check_paths(const struct reader *reader) {
    const struct aorta_cli_syntax *syntax = reader->syntax;
    const struct aorta_cli_line *line = reader->line;
    struct aorta_paths paths = {0};
    aorta_paths_add_rows(&paths, syntax->options, syntax->option_count, reader->values, "--");
    if (syntax->reads_operands) aorta_paths_add_operands(&paths, line->operands, line->operand_count);
    aorta_status status = aorta_paths_check(&paths);
    aorta_arena_free(&paths.arena);
    return status;
}

aorta_status aorta_cli_parse(const struct aorta_cli_syntax *syntax, int argc, char **argv, void *values,
                             struct aorta_cli_line *line) {
    *line = (struct aorta_cli_line){0};
    struct reader reader = {.syntax = syntax, .argc = argc, .next = 1, .argv = argv, .values = values, .line = line};
    aorta_status status = prepare(&reader);
    if (!status) status = read_line(&reader);
    if (!status) status = aorta_arena_check(&line->arena, "the command line");
    if (!status && !line->help) status = check_paths(&reader);
    if (status) aorta_cli_free(line);
    return status;
}

void aorta_cli_free(struct aorta_cli_line *line) {
    aorta_arena_free(&line->arena);
    aorta_kernel_patterns_free(line->patterns);
    *line = (struct aorta_cli_line){0};
}

/* ---- help ---- */

static const struct aorta_option help_option = {.key = "help", .letter = 'h', .help = "print this text"};

const char *aorta_cli_argument_name(const struct aorta_option *option) {
    return is_flag(option) || option == &help_option ? NULL : argument_name(option);
}

enum { HELP_COLUMN = 30 };

/* Wraps each line of the words; the first one starts after `taken` columns. */
static void put_wrapped(struct aorta_text *text, const char *words, int taken, int indent) {
    char *copy = strdup(words), *rest = copy;
    if (!copy) text->failed = 1;
    for (const char *line; rest && (line = strsep(&rest, "\n")); taken = 0) {
        const struct aorta_lines lines = {.taken = taken, .indent = indent};
        aorta_text_lines(text, line, &lines);
    }
    free(copy);
}

static void put_option(struct aorta_text *text, const struct aorta_option *option) {
    const size_t begin = text->length;
    struct aorta_text right = {0};
    if (option->letter)
        aorta_text_printf(text, "  -%c, --%s", option->letter, option->key);
    else
        aorta_text_printf(text, "      --%s", option->key);
    if (!is_flag(option)) aorta_text_printf(text, " %s%s", argument_name(option), option->several ? " …" : "");
    const int used = text->failed ? 0 : aorta_columns(text->data + begin);
    aorta_text_puts(&right, option->help);
    if (option->path == AORTA_PATH_FILE) aorta_text_puts(&right, "; its directory is created if needed");
    if (option->choices && !strchr(argument_name(option), '|')) {
        aorta_text_puts(&right, ": ");
        aorta_option_describe(option, &right);
    }
    bool has_default = !option->required && !is_flag(option) && !aorta_option_takes_null(option);
    if (option->required) aorta_text_puts(&right, " (required)");
    if (has_default) aorta_text_printf(&right, " (default: %s)", option->fallback);
    if (used + 2 > HELP_COLUMN)
        aorta_text_printf(text, "\n%*s", HELP_COLUMN, "");
    else
        aorta_text_printf(text, "%*s", HELP_COLUMN - used, "");
    put_wrapped(text, right.data ? right.data : "", HELP_COLUMN, HELP_COLUMN);
    aorta_text_end(&right, text);
}

const struct aorta_option *aorta_cli_option(const struct aorta_cli_syntax *syntax, size_t index) {
    const size_t styled = syntax->styled ? COMMON : 0;
    if (index < syntax->option_count) return &syntax->options[index];
    index -= syntax->option_count;
    return index < styled ? &common[index] : index == styled ? &help_option : NULL;
}

void aorta_cli_help_text(const struct aorta_cli_syntax *syntax, struct aorta_text *text) {
    const struct aorta_option *option;
    aorta_text_puts(text, "Usage: ");
    put_wrapped(text, syntax->usage, 7, 9);
    aorta_text_puts(text, "\n");
    put_wrapped(text, syntax->about, 0, 0);
    aorta_text_puts(text, "\nOptions:\n");
    for (size_t i = 0; (option = aorta_cli_option(syntax, i)); i++) put_option(text, option);
    if (!syntax->footer) return;
    aorta_text_puts(text, "\n");
    put_wrapped(text, syntax->footer, 0, 0);
}

static aorta_status meaningless(const char *words) {
    return AORTA_ERROR(AORTA_USAGE, "--device: found \"%s\"; expected %s", words, AORTA_CLI_DEVICE_HELP);
}

static aorta_status open_index(enum aorta_device_kind kind, int index, struct aorta_device **device) {
    int count = 1;
    if (kind != AORTA_DEVICE_CPU) AORTA_TRY(aorta_gpu_count(kind, &count));
    if (index >= count)
        return AORTA_ERROR(AORTA_USAGE, "there is no device %s:%d; there %s %d, counted from 0",
                           aorta_device_kind_name(kind), index, count == 1 ? "is" : "are", count);
    return aorta_device_open(kind, index, device);
}

/* A number alone. */
static aorta_status open_any(int index, struct aorta_device **device, struct aorta_device_warning *warning) {
    enum aorta_device_kind kind;
    int count;
    AORTA_TRY(aorta_device_best_kind(&kind, &count));
    AORTA_TRY(open_index(kind, index, device));
    if (kind == AORTA_DEVICE_CPU)
        snprintf(
            warning->text, sizeof warning->text,
            "--device %d: there is no GPU here, so this runs on the CPU device; aorta info says what was looked for",
            index);
    return NULL;
}

static bool read_index(const char *text, int *index) {
    if (!*text || strspn(text, "0123456789") != strlen(text) || strlen(text) > 4) return false;
    *index = atoi(text);
    return true;
}

static bool read_kind(const char *text, size_t length, enum aorta_device_kind *kind) {
    static const enum aorta_device_kind kinds[] = {AORTA_DEVICE_CPU, AORTA_DEVICE_CUDA, AORTA_DEVICE_HIP};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *name = aorta_device_kind_name(kinds[i]);
        if (strlen(name) != length || strncmp(name, text, length) != 0) continue;
        *kind = kinds[i];
        return true;
    }
    return false;
}

static aorta_status open_words(const char *words, int local_rank, struct aorta_device **device,
                               struct aorta_device_warning *warning) {
    int index;
    enum aorta_device_kind kind;
    if (strcmp(words, "auto") == 0) return aorta_device_open_best(local_rank, device, warning);
    if (read_index(words, &index)) return open_any(index, device, warning);
    size_t length = strcspn(words, ":");
    if (!read_kind(words, length, &kind)) return meaningless(words);
    if (!words[length]) return aorta_device_open_local(kind, local_rank, device, warning);
    if (!read_index(words + length + 1, &index)) return meaningless(words);
    return open_index(kind, index, device);
}

aorta_status aorta_cli_open_device(const char *words, int local_rank, const struct aorta_log *log,
                                   struct aorta_device **device) {
    struct aorta_device_warning warning = {{0}};
    *device = NULL;
    aorta_status status = open_words(words, local_rank, device, &warning);
    /* A missing device is a mistake in the command line, whatever the reason. */
    if (aorta_status_code(status) == AORTA_UNSUPPORTED) return aorta_status_recode(status, AORTA_USAGE);
    AORTA_TRY(status);
    if (warning.text[0]) aorta_log(log, AORTA_LOG_WARNING, "%s", warning.text);
    return NULL;
}

/* Only errors that name a byte are about truncated files. */
aorta_status aorta_cli_name_recover(aorta_status status, bool recover) {
    const char *message = aorta_status_message(status);
    if (aorta_status_code(status) != AORTA_FORMAT || recover || !strstr(message, " byte ")) return status;
    if (strstr(message, "--recover")) return status;
    aorta_status named = AORTA_ERROR(AORTA_FORMAT, "%s; --recover takes the events before it", message);
    aorta_status_free(status);
    return named;
}

aorta_status aorta_cli_comm_patterns(struct aorta_cli_line *line, const struct aorta_string_list *list) {
    for (size_t i = 0; i < list->count; i++)
        AORTA_TRY(aorta_annotate(aorta_kernel_patterns_add(&line->patterns, list->items[i]), "--comm-pattern"));
    return NULL;
}
