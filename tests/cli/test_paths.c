/* No command writes over its inputs. Walks all commands and all their option rows, so that new commands and options are
 * covered. __wrap_aorta_cli_parse (linked with --wrap) sees the rows of the command that is called. */
#include "base/files.h"
#include "check.h"
#include "cli/cli.h"
#include "config/option.h"
#include "folder.h"
#include "train/options.h"

#include <fcntl.h>
#include <unistd.h>

enum { MOST_ROWS = 64, MOST_WORDS = 64 };

static struct {
    struct aorta_option rows[MOST_ROWS];
    size_t count;
    bool reads_operands;
} seen;

/* NOLINTBEGIN(bugprone-reserved-identifier): so ld's --wrap calls them. */
aorta_status __real_aorta_cli_parse(const struct aorta_cli_syntax *syntax, int argc, char **argv, void *values,
                                    struct aorta_cli_line *line);
aorta_status __wrap_aorta_cli_parse(const struct aorta_cli_syntax *syntax, int argc, char **argv, void *values,
                                    struct aorta_cli_line *line);
/* NOLINTEND(bugprone-reserved-identifier) */
aorta_status __wrap_aorta_cli_parse(const struct aorta_cli_syntax *syntax, int argc, char **argv, void *values,
                                    struct aorta_cli_line *line) {
    assert_true(syntax->option_count <= MOST_ROWS);
    if (syntax->option_count) memcpy(seen.rows, syntax->options, syntax->option_count * sizeof *seen.rows);
    seen.count = syntax->option_count;
    seen.reads_operands = syntax->reads_operands;
    return __real_aorta_cli_parse(syntax, argc, argv, values, line);
}

/* ---- all commands ---- */

typedef int visit(const char *name, const struct aorta_command *command); /* how many cases it tried */

/* Help goes to the standard output, where only the tests' results belong. */
static void look_at(const struct aorta_command *command) {
    char name[64], help[] = "--help";
    snprintf(name, sizeof name, "%s", command->name);
    fflush(stdout);
    const int saved = dup(STDOUT_FILENO), nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(nothing, STDOUT_FILENO);
    aorta_status status = aorta_cli_command_run(command, 2, (char *[]){name, help, NULL});
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    close(nothing);
    check_ok(status);
}

static int each_command(const struct aorta_command_group *group, visit *look) {
    int tried = 0;
    for (const struct aorta_command *command = group->commands; command->name; command++) {
        char name[128];
        snprintf(name, sizeof name, "%s %s", group->name, command->name);
        seen.count = 0;
        if (command->group) {
            tried += each_command(command->group, look);
            continue;
        }
        look_at(command);
        tried += look(name, command);
    }
    return tried;
}

/* ---- every option that takes a path says what it does with it ---- */

static bool names_path(const struct aorta_option *row) {
    static const char *const words[] = {"FILE", "DIR", "OUT", "PATH", "RUN", "TEMPLATE"};
    for (size_t i = 0; row->argument && i < sizeof words / sizeof *words; i++)
        if (strcmp(row->argument, words[i]) == 0) return true;
    return false;
}

static int check_rows(const char *name, const struct aorta_command *command) {
    int paths = 0;
    (void)command;
    for (size_t i = 0; i < seen.count; i++) {
        const struct aorta_option *row = &seen.rows[i];
        if (names_path(row) != (row->path != AORTA_PATH_NONE) || (row->path == AORTA_PATH_FOLDER) != (row->files != 0))
            fail_msg("%s --%s %s: its row does not say what is done with the path", name, row->key, row->argument);
        paths += row->path != AORTA_PATH_NONE;
    }
    return paths;
}

static void test_rows_say_what_they_do_with_paths(void **state) {
    (void)state;
    assert_true(each_command(&aorta_cli_program, check_rows) > 20);
}

/* ---- the lines that are tried ---- */

struct words {
    char *items[MOST_WORDS];
    int count;
};

static void put(struct words *words, const char *format, const char *text) {
    assert_true(words->count + 1 < MOST_WORDS);
    assert_true(asprintf(&words->items[words->count++], format, text) > 0);
}

/* "run" with what has to stand before its options, as `aorta hwq run WORKLOAD`. */
static void begin(struct words *words, const char *name, const struct aorta_command *command) {
    *words = (struct words){0};
    put(words, "%s", command->name);
    if (strcmp(name, "aorta hwq run") == 0 || strcmp(name, "aorta hwq sweep") == 0) put(words, "%s", "moe");
    if (strcmp(name, "aorta hwq run-priority") == 0) put(words, "%s", "P0");
}

/* `row` NULL: an operand. */
static void put_path(struct words *words, const struct aorta_option *row, const char *path) {
    if (row) put(words, "--%s", row->key);
    put(words, "%s", path);
}

static void put_required(struct words *words, const struct aorta_option *but, const struct aorta_option *and) {
    for (size_t i = 0; i < seen.count; i++)
        if (seen.rows[i].required && &seen.rows[i] != but && &seen.rows[i] != and)
            put_path(words, &seen.rows[i], "unused");
}

static void expect_refused(const char *name, const struct aorta_command *command, struct words *words,
                           const char *message) {
    aorta_status status = aorta_cli_command_run(command, words->count, words->items);
    if (aorta_status_code(status) != AORTA_USAGE || !strstr(aorta_status_message(status), message)) {
        print_error("%s", name);
        for (int i = 1; i < words->count; i++) print_error(" %s", words->items[i]);
        print_error("\n");
    }
    check_fails(status, AORTA_USAGE, message);
    for (int i = 0; i < words->count; i++) free(words->items[i]);
}

/* A name that a folder receives: "rank_*_metrics.jsonl" as rank_00_metrics.jsonl. */
static void name_of(const char *pattern, char name[128]) {
    size_t length = 0;
    for (; *pattern; pattern++)
        length += (size_t)snprintf(name + length, 128 - length, *pattern == '*' ? "00" : "%c", *pattern);
}

/* ---- an output that is an input ---- */

/* As a shell does with 97<>PATH. */
static void open_as(const char *path, int descriptor) {
    const int file = open(path, O_RDWR | O_APPEND);
    assert_int_equal(dup2(file, descriptor), descriptor);
    close(file);
}

/*   made/in.json      a file          made/link.json    leads there         made/dir/           holds in.jsonl
 *   made/hard.json    the same file   made/dir2         leads to dir                                            */
static void make_files(void) {
    check_ok(aorta_directory_make("made/dir/deeper"));
    check_ok(aorta_file_replace("made/in.json", "{}", 2));
    check_ok(aorta_file_replace("made/dir/in.jsonl", "{}", 2));
    check_ok(aorta_file_replace("made/dir/deeper/in.jsonl", "{}", 2));
    assert_int_equal(symlink("in.json", "made/link.json"), 0);
    assert_int_equal(symlink("dir", "made/dir2"), 0);
    assert_int_equal(link("made/in.json", "made/hard.json"), 0);
    open_as("made/in.json", 97);
    open_as("made/dir/in.jsonl", 98);
}

static int try_file(const char *name, const struct aorta_command *command, const struct aorta_option *output,
                    const struct aorta_option *input) {
    static const char *const pairs[][2] = {
        {"made/in.json", "made/in.json"},           {"made/dir/../in.json", "made/in.json"},
        {"made/link.json", "made/in.json"},         {"made/in.json", "made/link.json"},
        {"made/hard.json", "made/in.json"},         {"made/dir/in.jsonl", "made/dir"},
        {"made/dir2/in.jsonl", "made/dir/"},        {"made/dir/in.jsonl", "made/dir2"},
        {"made/dir/deeper/in.jsonl", "./made/dir"}, {"/dev/fd/97", "made/in.json"},
        {"/proc/self/fd/98", "made/dir"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct words words;
        begin(&words, name, command);
        put_path(&words, output, pairs[i][0]);
        put_required(&words, output, input);
        put_path(&words, input, pairs[i][1]);
        expect_refused(name, command, &words, "is one of the files to read");
    }
    return sizeof pairs / sizeof *pairs;
}

static int try_folder(const char *name, const struct aorta_command *command, const struct aorta_option *output,
                      const struct aorta_option *input) {
    int tried = 0;
    for (const char *const *pattern = output->files; *pattern; pattern++, tried++) {
        struct words words;
        char file[128], path[256];
        name_of(*pattern, file);
        snprintf(path, sizeof path, "results/%s", file);
        char *slash = strrchr(path, '/');
        *slash = '\0';
        check_ok(aorta_directory_make(path));
        *slash = '/';
        check_ok(aorta_file_replace(path, "{}", 2));
        begin(&words, name, command);
        put_path(&words, output, "./results/");
        put_required(&words, output, input);
        put_path(&words, input, path);
        expect_refused(name, command, &words, "is one of the files to read");
        assert_int_equal(folder_remove("results"), 0);
    }
    return tried;
}

static int try_inputs(const char *name, const struct aorta_command *command) {
    int tried = 0;
    for (size_t o = 0; o < seen.count; o++) {
        const struct aorta_option *output = &seen.rows[o];
        if (output->path != AORTA_PATH_FILE && output->path != AORTA_PATH_FOLDER) continue;
        for (size_t i = 0; i <= seen.count; i++) {
            const struct aorta_option *input = i < seen.count ? &seen.rows[i] : NULL;
            if (input ? input->path != AORTA_PATH_READ : !seen.reads_operands) continue;
            tried += (output->path == AORTA_PATH_FILE ? try_file : try_folder)(name, command, output, input);
        }
    }
    return tried;
}

static void test_output_is_an_input(void **state) {
    (void)state;
    char *bytes;
    size_t length;
    make_files();
    assert_true(each_command(&aorta_cli_program, try_inputs) > 50);
    static const char *const files[] = {"made/in.json", "made/dir/in.jsonl", "made/dir/deeper/in.jsonl"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        check_ok(aorta_file_read(files[i], &bytes, &length));
        assert_string_equal(bytes, "{}");
        free(bytes);
    }
    close(97);
    close(98);
}

/* ---- two outputs of one name ---- */

static void name_output(const struct aorta_option *row, const struct aorta_option *other, char path[256]) {
    const bool folder = row->path == AORTA_PATH_FOLDER;
    char name[128] = "new.json";
    if (!folder && other->path == AORTA_PATH_FOLDER) name_of(other->files[0], name);
    snprintf(path, 256, "later/dir%s%s", folder ? "" : "/", folder ? "" : name);
}

/* Folders may be one, as long as no file of theirs has one name. */
static bool may_be_one(const struct aorta_option *a, const struct aorta_option *b) {
    return a->path == AORTA_PATH_FOLDER && b->path == AORTA_PATH_FOLDER;
}

static int try_outputs(const char *name, const struct aorta_command *command) {
    int tried = 0;
    for (size_t a = 0; a < seen.count; a++)
        for (size_t b = 0; b < a; b++) {
            const struct aorta_option *one = &seen.rows[a], *two = &seen.rows[b];
            struct words words;
            char first[256], second[256];
            if (one->path < AORTA_PATH_FILE || two->path < AORTA_PATH_FILE || may_be_one(one, two)) continue;
            name_output(one, two, first);
            name_output(two, one, second);
            begin(&words, name, command);
            put_path(&words, one, first);
            put_path(&words, two, second);
            put_required(&words, one, two);
            expect_refused(name, command, &words, "both would write");
            tried++;
        }
    return tried;
}

static void test_two_outputs_of_one_name(void **state) {
    (void)state;
    assert_true(each_command(&aorta_cli_program, try_outputs) > 5);
    assert_int_not_equal(access("later", F_OK), 0);
}

/* ---- an output that cannot be written ---- */

/* Said before inputs are read, which can take minutes: those named here are not there. */
static int try_unwritable(const char *name, const struct aorta_command *command) {
    int tried = 0;
    for (size_t i = 0; i < seen.count; i++) {
        const struct aorta_option *output = &seen.rows[i];
        struct words words;
        if (output->path != AORTA_PATH_FILE && output->path != AORTA_PATH_FOLDER) continue;
        begin(&words, name, command);
        put_path(&words, output, "made/in.json/out");
        put_required(&words, output, NULL);
        for (int k = 0; k < 2 && seen.reads_operands; k++) put_path(&words, NULL, "unused");
        aorta_status status = aorta_cli_command_run(command, words.count, words.items);
        const bool other = aorta_status_code(status) == AORTA_USAGE; /* the line needs other words */
        if (!other && (aorta_status_code(status) != AORTA_CONFIG || !strstr(aorta_status_message(status), output->key)))
            fail_msg("%s --%s: %s", name, output->key, status ? aorta_status_message(status) : "done");
        aorta_status_free(status);
        for (int k = 0; k < words.count; k++) free(words.items[k]);
        tried += !other;
    }
    return tried;
}

static void test_unwritable_output(void **state) {
    (void)state;
    make_files();
    assert_true(each_command(&aorta_cli_program, try_unwritable) > 20);
}

/* ---- what is fine ---- */

/* A page that was written into the folder of a run is written again; it is no input. */
static void test_pages_are_replaced(void **state) {
    (void)state;
    struct aorta_paths paths = {0};
    char run[] = "pages", *const operands[] = {run};
    struct {
        const char *html, *output;
    } values = {"pages/page.html", "pages"};
    static const char *const files[] = {"summary.json", NULL};
    const struct aorta_option rows[] = {
        {.key = "html", .type = AORTA_OPTION_STRING, .offset = 0, .path = AORTA_PATH_FILE},
        {.key = "output",
         .type = AORTA_OPTION_STRING,
         .offset = sizeof(char *),
         .path = AORTA_PATH_FOLDER,
         .files = files},
    };
    check_ok(aorta_directory_make("pages"));
    check_ok(aorta_file_replace("pages/page.html", "<!doctype html><html>", 21));
    check_ok(aorta_file_replace("pages/summary.json", "{}", 2));
    aorta_paths_add_rows(&paths, rows, 2, &values, "--");
    aorta_paths_add_operands(&paths, operands, 1);
    check_ok(aorta_paths_check(&paths));
    paths.items[0].path = "/dev/null";
    check_ok(aorta_paths_check(&paths));
    paths.items[0].path = "pages/nowhere/../new.html";
    check_fails(aorta_paths_check(&paths), AORTA_USAGE, "--html: pages/nowhere/../new.html goes up");
    paths.items[0].path = "pages/nowhere/new.html";
    check_ok(aorta_paths_check(&paths));
    aorta_arena_free(&paths.arena);
}

/* ---- keys of aorta train ---- */

static void expect_train_refused(const char *config, const char *const *overrides, const char *message) {
    struct words words = {0};
    put(&words, "%s", "train");
    if (config) put(&words, "--config=%s", config);
    for (; *overrides; overrides++) put(&words, "--override=%s", *overrides);
    aorta_status status = aorta_cli_train(words.count, words.items);
    check_fails(status, AORTA_USAGE, message);
    for (int i = 0; i < words.count; i++) free(words.items[i]);
}

static void test_keys_of_train(void **state) {
    (void)state;
    int tried = 0;
    for (size_t i = 0; i < aorta_train_option_table.count; i++) {
        const struct aorta_option *row = &aorta_train_option_table.rows[i];
        for (const char *const *pattern = row->files; pattern && *pattern; pattern++, tried++) {
            char file[128], path[256], key[128], from[300];
            name_of(*pattern, file);
            snprintf(path, sizeof path, "run/%s", file);
            snprintf(key, sizeof key, "%s=run", row->key);
            snprintf(from, sizeof from, "training.init_from=%s", path);
            check_ok(aorta_directory_make("run"));
            check_ok(aorta_file_replace(path, "training:\n  seed: 1\n", 19));
            expect_train_refused(NULL, (const char *const[]){key, from, NULL}, "is one of the files to read");
            if (!strstr(path, ".json"))
                expect_train_refused(path, (const char *const[]){key, NULL}, "is one of the files to read");
            check_ok(aorta_file_replace(path, "{}", 2));
            expect_train_refused(path, (const char *const[]){key, NULL}, "is one of the files to read");
            assert_int_equal(folder_remove("run"), 0);
        }
    }
    assert_true(tried > 4);
}

/* ---- the folder ---- */

static char folder[FOLDER_PATH];

static int enter(void **state) {
    (void)state;
    folder_make(folder, "paths");
    return chdir(folder);
}

static int leave(void **state) {
    (void)state;
    return chdir("/") || folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_say_what_they_do_with_paths),
        cmocka_unit_test_setup_teardown(test_output_is_an_input, enter, leave),
        cmocka_unit_test_setup_teardown(test_two_outputs_of_one_name, enter, leave),
        cmocka_unit_test_setup_teardown(test_unwritable_output, enter, leave),
        cmocka_unit_test_setup_teardown(test_pages_are_replaced, enter, leave),
        cmocka_unit_test_setup_teardown(test_keys_of_train, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
