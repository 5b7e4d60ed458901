/* Traces in archives, packed files and the standard input.
 *
 *     two.zip, two.tar.gz, two.tar.zst     run/rank0.json  ./run/rank1.json   one kernel each
 *                                          run/readme.txt                     no trace's name
 *                                          run/.old/rank2.json                hidden, as in folders
 *                                          ../rank3.json                      would leave the folder
 *     rank0.json.zst, .xz, .bz2, .lz4      one kernel */
#include "report/merge.h"
#include "trace/nsys_database.h"
#include "trace/open.h"
#include "trace/source.h"

#include "base/text.h"
#include "folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <zlib.h>

static char folder[FOLDER_PATH], temporary[FOLDER_PATH + 16];

static int make_folder(void **state) {
    (void)state;
    folder_make(folder, "packed");
    snprintf(temporary, sizeof temporary, "%s/temporary", folder);
    check_ok(aorta_directory_make(temporary));
    return setenv("TMPDIR", temporary, 1);
}

static int remove_folder(void **state) {
    (void)state;
    return folder_remove(folder);
}

static const char *sample(const char *name) {
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/packed/%s", TEST_DATA, name);
    return path;
}

static size_t entries_of(const char *path) {
    DIR *list = opendir(path);
    size_t count = 0;
    assert_non_null(list);
    for (const struct dirent *entry; (entry = readdir(list));) count += entry->d_name[0] != '.';
    closedir(list);
    return count;
}

/* Two ranks, named by the archive. */
static void check_two(const char *input, const char *shown) {
    struct aorta_trace_list list = {0};
    check_ok(aorta_trace_open_inputs(&input, 1, NULL, &list));
    assert_int_equal(list.count, 2);
    for (size_t i = 0; i < 2; i++) {
        char expected[600];
        snprintf(expected, sizeof expected, "%s/run/rank%zu.json", shown, i);
        assert_string_equal(list.items[i]->path, expected);
        assert_int_equal(list.items[i]->rank, i);
        assert_int_equal(list.items[i]->work_count, 1);
        assert_int_equal(list.items[i]->work[0].start_ns, 1000 * (int64_t)(1 + i));
    }
    assert_int_equal(entries_of(temporary), 1);
    aorta_trace_list_free(&list);
    assert_int_equal(entries_of(temporary), 0);
}

static void archives_are_folders(void **state) {
    (void)state;
    static const char *const names[] = {"two.zip", "two.tar.gz", "two.tar.zst"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) check_two(sample(names[i]), sample(names[i]));
}

static void packed_files_are_read_as_they_are(void **state) {
    (void)state;
    static const char *const names[] = {"rank0.json.zst", "rank0.json.xz", "rank0.json.bz2", "rank0.json.lz4"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct aorta_trace_list list = {0};
        const char *input = sample(names[i]);
        check_ok(aorta_trace_open_inputs(&input, 1, NULL, &list));
        assert_int_equal(list.count, 1);
        assert_string_equal(list.items[0]->path, input);
        assert_null(list.unpacked);
        assert_int_equal(list.items[0]->work_count, 1);
        aorta_trace_list_free(&list);
    }
}

/* Reads "-" from the file. */
static void from_input(const char *path, void (*check)(const char *input, const char *shown)) {
    const int former = dup(STDIN_FILENO), file = open(path, O_RDONLY);
    assert_true(former >= 0 && file >= 0 && dup2(file, STDIN_FILENO) == STDIN_FILENO);
    check("-", "standard input");
    assert_true(dup2(former, STDIN_FILENO) == STDIN_FILENO && !close(former) && !close(file));
}

static void check_one(const char *input, const char *shown) {
    struct aorta_trace_list list = {0};
    check_ok(aorta_trace_open_inputs(&input, 1, NULL, &list));
    assert_int_equal(list.count, 1);
    assert_string_equal(list.items[0]->path, shown);
    aorta_trace_list_free(&list);
    assert_int_equal(entries_of(temporary), 0);
}

static void check_broken(const char *input, const char *shown) {
    struct aorta_trace_list list = {0};
    (void)shown;
    check_fails(aorta_trace_open_inputs(&input, 1, NULL, &list), AORTA_USAGE, "standard input is no trace");
    aorta_trace_list_free(&list);
}

static void standard_input_may_be_any_of_these(void **state) {
    (void)state;
    from_input(sample("two.tar.gz"), check_two);
    from_input(sample("rank0.json.zst"), check_one);
    from_input(TEST_DATA "/fsdp2_rank0.json", check_one);
    from_input(TEST_DATA "/nsys.sql", check_broken);
}

static void check_endless(const char *input, const char *shown) {
    struct aorta_trace_list list = {0};
    char says[64];
    snprintf(says, sizeof says, "%s is no trace", shown);
    alarm(20);
    check_fails(aorta_trace_open_inputs(&input, 1, NULL, &list), AORTA_USAGE, says);
    alarm(0);
    assert_null(list.unpacked); /* nothing was written */
    aorta_trace_list_free(&list);
}

static void input_is_checked_before_it_is_copied(void **state) {
    (void)state;
    from_input("/dev/zero", check_endless);
}

static aorta_status read_letters(void *from, char *buffer, size_t capacity, size_t *got) {
    (void)from;
    memset(buffer, 'a', capacity);
    *got = capacity;
    return NULL;
}

static aorta_status say_limit(const char *shown) {
    return AORTA_ERROR(AORTA_FORMAT, "%s: the limit", shown);
}

static void what_is_copied_has_a_limit(void **state) {
    (void)state;
    char path[FOLDER_PATH + 16];
    struct stat facts;
    struct unpack_origin origin = {read_letters, NULL, "letters", 1 << 20, say_limit};
    snprintf(path, sizeof path, "%s/letters", folder);
    check_fails(aorta_unpack_write(&origin, path), AORTA_FORMAT, "letters: the limit");
    assert_int_equal(stat(path, &facts), 0);
    assert_true(facts.st_size <= 1 << 20);
    assert_int_equal(unlink(path), 0);
}

/* SQLite needs a plain file. */
static void a_packed_database_is_unpacked(void **state) {
    (void)state;
    char path[FOLDER_PATH + 16], packed[FOLDER_PATH + 16], *bytes;
    size_t length;
    snprintf(path, sizeof path, "%s/a.sqlite", folder);
    snprintf(packed, sizeof packed, "%s/a.sqlite.gz", folder);
    make_nsys_database(path);
    check_ok(aorta_file_read(path, &bytes, &length));
    gzFile file = gzopen(packed, "wb1");
    assert_true(file && gzwrite(file, bytes, (unsigned)length) == (int)length && gzclose(file) == Z_OK);
    free(bytes);
    assert_int_equal(unlink(path), 0);
    const char *const inputs[] = {packed, folder};
    for (size_t i = 0; i < 2; i++) {
        struct aorta_trace_list list = {0};
        check_ok(aorta_trace_open_inputs(&inputs[i], 1, NULL, &list));
        assert_int_equal(list.count, 3);
        assert_string_equal(list.items[0]->path, packed);
        aorta_trace_list_free(&list);
    }
    assert_int_equal(unlink(packed), 0);
}

static void copy_sample(const char *name, size_t most, const char *to) {
    char *bytes;
    size_t length;
    check_ok(aorta_file_read(sample(name), &bytes, &length));
    check_ok(aorta_file_replace(to, bytes, length < most ? length : most));
    free(bytes);
}

/* In a folder an archive counts where nothing else is: what it holds may lie there, unpacked. */
static void an_archive_in_a_folder_yields(void **state) {
    (void)state;
    char archive[FOLDER_PATH + 16], file[FOLDER_PATH + 32];
    const char *const input = folder;
    snprintf(archive, sizeof archive, "%s/two.zip", folder);
    snprintf(file, sizeof file, "%s/rank0.json.xz", folder);
    copy_sample("two.zip", SIZE_MAX, archive);
    check_two(folder, archive);
    copy_sample("rank0.json.xz", SIZE_MAX, file);
    struct aorta_trace_list list = {0};
    check_ok(aorta_trace_open_inputs(&input, 1, NULL, &list));
    assert_int_equal(list.count, 1);
    assert_string_equal(list.items[0]->path, file);
    aorta_trace_list_free(&list);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(unlink(archive), 0);
}

static void broken_ones_name_the_file(void **state) {
    (void)state;
    static const struct {
        const char *from, *name, *says;
        size_t length;
        enum aorta_code code;
    } files[] = {
        {"two.zip", "cut.zip", "/cut.zip", 200, AORTA_FORMAT},
        {"two.tar.gz", "cut.tar.gz", "/cut.tar.gz", 150, AORTA_FORMAT},
        {"two.zip", "none.zip", "/none.zip", 30, AORTA_FORMAT},
        {"rank0.json.zst", "cut.json.zst", "/cut.json.zst", 60, AORTA_FORMAT},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[FOLDER_PATH + 32];
        const char *const input = path;
        struct aorta_trace_list list = {0};
        snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        copy_sample(files[i].from, files[i].length, path);
        check_fails(aorta_trace_open_inputs(&input, 1, NULL, &list), files[i].code, files[i].says);
        aorta_trace_list_free(&list);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(entries_of(temporary), 0);
    }
}

/* 100 MB of zeros in a hundred bytes or so, by the name of a trace. */
static void what_unpacks_without_end_is_refused(void **state) {
    (void)state;
    const char *const input = sample("zeros.db.bz2");
    struct aorta_trace_list list = {0};
    check_fails(aorta_trace_open_inputs(&input, 1, NULL, &list), AORTA_FORMAT,
                "zeros.db.bz2: unpacks to more than 1000 times its size");
    aorta_trace_list_free(&list);
    assert_int_equal(entries_of(temporary), 0);
}

/* The same in a member that no reader wants. */
static void what_is_skipped_has_an_end(void **state) {
    (void)state;
    const char *const input = sample("zeros.tar.bz2");
    struct aorta_trace_list list = {0};
    check_fails(aorta_trace_open_inputs(&input, 1, NULL, &list), AORTA_FORMAT,
                "zeros.tar.bz2: unpacks to more than 1000 times its size");
    aorta_trace_list_free(&list);
}

/* ---- archives by their members ---- */

enum { BLOCK = 512, FILE_TYPE = '0', HARD = '1', SYMBOLIC = '2', FIFO = '6' };

/* A member of a tar: a file's content is the trace of a rank that the sample has, or nothing. */
static void put_member(struct aorta_text *tar, const char *name, char type, const char *link, const char *content) {
    char head[BLOCK] = {0};
    unsigned sum = 0;
    snprintf(head, 100, "%s", name);
    snprintf(head + 100, 8, "%07o", 0644);
    snprintf(head + 124, 12, "%011o", (unsigned)strlen(content));
    snprintf(head + 136, 12, "%011o", 0);
    memset(head + 148, ' ', 8);
    head[156] = type;
    snprintf(head + 157, 100, "%s", link);
    memcpy(head + 257, "ustar\00000", 8);
    for (int i = 0; i < BLOCK; i++) sum += (unsigned char)head[i];
    snprintf(head + 148, 8, "%06o", sum);
    aorta_text_append(tar, head, BLOCK);
    aorta_text_puts(tar, content);
    memset(head, 0, BLOCK);
    aorta_text_append(tar, head, (BLOCK - strlen(content) % BLOCK) % BLOCK);
}

/* A trace of one kernel that starts at `start_us`. */
static const char *kernel_at(int start_us) {
    static char text[400];
    snprintf(
        text, sizeof text,
        "{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"pid\": 0, \"tid\": 7, \"ts\": %d, "
        "\"dur\": 2, \"args\": {\"device\": 0, \"stream\": 7}}]}",
        start_us);
    return text;
}

static void read_tar(struct aorta_text *tar, struct aorta_trace_list *list) {
    char path[FOLDER_PATH + 16];
    const char *const input = path;
    snprintf(path, sizeof path, "%s/made.tar", folder);
    for (int i = 0; i < 2; i++) aorta_text_append(tar, (const char[BLOCK]){0}, BLOCK);
    check_ok(aorta_text_check(tar));
    check_ok(aorta_file_replace(path, tar->data, tar->length));
    aorta_text_free(tar);
    check_ok(aorta_trace_open_inputs(&input, 1, NULL, list));
    assert_int_equal(unlink(path), 0);
}

static void check_rank(const struct aorta_trace_list *list, size_t at, const char *name, int64_t start_us) {
    const struct aorta_trace *trace = list->items[at];
    assert_string_equal(strrchr(trace->path, '/') + 1, name);
    assert_int_equal(trace->work[0].start_ns, 1000 * start_us);
}

static void links_lead_to_files_of_the_archive(void **state) {
    (void)state;
    struct aorta_text tar = {0};
    struct aorta_trace_list list = {0};
    put_member(&tar, "a/rank0.json", SYMBOLIC, "../blobs/./x/../r0", ""); /* before its file */
    put_member(&tar, "a/rank1.json", SYMBOLIC, "latest", "");
    put_member(&tar, "a/latest", SYMBOLIC, "../.cache/r1", "");
    put_member(&tar, ".cache/r1", FILE_TYPE, "", kernel_at(1));
    put_member(&tar, "blobs/r0", FILE_TYPE, "", kernel_at(0));
    put_member(&tar, "blobs/r2", FILE_TYPE, "", kernel_at(2));
    put_member(&tar, "a/rank2.json", HARD, "blobs/r2", "");
    read_tar(&tar, &list);
    assert_int_equal(list.count, 3);
    check_rank(&list, 0, "rank0.json", 0);
    check_rank(&list, 1, "rank1.json", 1);
    check_rank(&list, 2, "rank2.json", 2);
    assert_int_equal(list.items[0]->warnings[AORTA_REASON_SKIPPED].count, 0);
    aorta_trace_list_free(&list);
}

/* Two names of one file are one trace. */
static void links_to_traces_are_copies(void **state) {
    (void)state;
    struct aorta_text tar = {0};
    struct aorta_trace_list list = {0};
    put_member(&tar, "rank0.json", FILE_TYPE, "", kernel_at(0));
    put_member(&tar, "rank1.json", SYMBOLIC, "rank0.json", "");
    read_tar(&tar, &list);
    assert_int_equal(list.count, 1);
    assert_int_equal(list.items[0]->warnings[AORTA_REASON_SAME_FILE].count, 1);
    aorta_trace_list_free(&list);
}

static void what_is_not_read_is_named(void **state) {
    (void)state;
    static const char *const links[][2] = {
        {"rank1.json", "/etc/passwd"}, {"rank2.json", "../rank0.json"}, {"rank3.json", "nothing"},
        {"rank4.json", "rank5.json"},  {"rank5.json", "rank4.json"},    {"a/.rank6.json", "../rank0.json"},
    };
    static const char *const named[] = {"made.tar/rank1.json (a link to no file in the archive)",
                                        "made.tar/rank2.json (a link",
                                        "made.tar/rank3.json (a link",
                                        "made.tar/rank4.json (a link",
                                        "made.tar/rank5.json (a link",
                                        "made.tar/a/.rank6.json (hidden)",
                                        "made.tar/rank7.json (no regular file)",
                                        "made.tar/a/../../rank8?.json (leads out of the archive)"};
    struct aorta_text tar = {0};
    struct aorta_trace_list list = {0};
    put_member(&tar, "rank0.json", FILE_TYPE, "", kernel_at(0));
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) put_member(&tar, links[i][0], SYMBOLIC, links[i][1], "");
    put_member(&tar, "rank7.json", FIFO, "", "");
    put_member(&tar, "a/../../rank8\n.json", FILE_TYPE, "", kernel_at(8));
    read_tar(&tar, &list);
    assert_int_equal(list.count, 1);
    assert_int_equal(list.items[0]->warnings[AORTA_REASON_SKIPPED].count, sizeof named / sizeof *named);
    const char *text = aorta_trace_warning_text(list.items[0], AORTA_REASON_SKIPPED);
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (!strstr(text, named[i])) fail_msg("%s: not in: %s", named[i], text);
    assert_null(strstr(text, "aorta-unpacked-"));
    aorta_trace_list_free(&list);
}

static void any_number_of_other_members_is_passed(void **state) {
    (void)state;
    struct aorta_text tar = {0};
    struct aorta_trace_list list = {0};
    put_member(&tar, "rank0.json", FILE_TYPE, "", kernel_at(0));
    for (int i = 0; i < (1 << 16) + 2; i++) put_member(&tar, "notes.txt", FILE_TYPE, "", "");
    put_member(&tar, "rank1.json", FILE_TYPE, "", kernel_at(1));
    read_tar(&tar, &list);
    assert_int_equal(list.count, 2);
    aorta_trace_list_free(&list);
}

static void a_folder_names_what_it_does_not_read(void **state) {
    (void)state;
    char archive[FOLDER_PATH + 16], link[FOLDER_PATH + 16], file[FOLDER_PATH + 32], pointer[FOLDER_PATH + 16];
    const char *const input = folder;
    struct aorta_trace_list list = {0};
    snprintf(archive, sizeof archive, "%s/two.zip", folder);
    snprintf(file, sizeof file, "%s/rank0.json.xz", folder);
    snprintf(link, sizeof link, "%s/rank5.json", folder);
    snprintf(pointer, sizeof pointer, "%s/rank6.json", folder);
    copy_sample("two.zip", SIZE_MAX, archive);
    copy_sample("rank0.json.xz", SIZE_MAX, file);
    assert_int_equal(symlink("nowhere", link), 0);
    FILE *lfs = fopen(pointer, "w");
    assert_true(lfs && fputs("version https://git-lfs.github.com/spec/v1\noid sha256:abc\n", lfs) >= 0);
    assert_int_equal(fclose(lfs), 0);
    check_ok(aorta_trace_open_inputs(&input, 1, NULL, &list));
    assert_int_equal(list.count, 1);
    const char *text = aorta_trace_warning_text(list.items[0], AORTA_REASON_SKIPPED);
    assert_non_null(strstr(text, "rank5.json (a link to no file)"));
    assert_non_null(strstr(text, "rank6.json (a pointer of Git LFS: git lfs pull)"));
    assert_non_null(strstr(text, "two.zip (an archive next to traces"));
    aorta_trace_list_free(&list);
    assert_int_equal(unlink(file) + unlink(archive) + unlink(link) + unlink(pointer), 0);
}

/* 4,000 files of one size, of which two are the same: each is read once, not once for each pair. */
static void files_of_one_size_take_linear_time(void **state) {
    (void)state;
    enum { FILES = 4000 };
    char many[FOLDER_PATH + 16], path[FOLDER_PATH + 32];
    const char *const input = many;
    struct aorta_trace_list list = {0};
    snprintf(many, sizeof many, "%s/many", folder);
    check_ok(aorta_directory_make(many));
    for (int i = 0; i < FILES; i++) {
        const char *trace = kernel_at(10000 + (i == 1234 ? 17 : i));
        snprintf(path, sizeof path, "%s/%d.json", many, i);
        FILE *file = fopen(path, "w");
        assert_true(file && fputs(trace, file) >= 0 && fclose(file) == 0);
    }
    alarm(30);
    check_ok(aorta_trace_open_inputs(&input, 1, NULL, &list));
    alarm(0);
    assert_int_equal(list.count, FILES - 1);
    assert_int_equal(list.items[17]->work[0].start_ns, 10017000);
    assert_int_equal(list.items[17]->warnings[AORTA_REASON_SAME_FILE].count, 1);
    aorta_trace_list_free(&list);
    assert_int_equal(folder_remove(many), 0);
}

/* The merged file is that of the unpacked ones. */
static void archives_are_merged(void **state) {
    (void)state;
    char output[FOLDER_PATH + 16], *text;
    size_t length;
    const char *const input = sample("two.zip");
    snprintf(output, sizeof output, "%s/merged.json", folder);
    struct aorta_text report = {0};
    check_ok(aorta_trace_merge(&input, 1, output, NULL, NULL, false, &report));
    aorta_text_free(&report);
    check_ok(aorta_file_read(output, &text, &length));
    assert_non_null(strstr(text, "two.zip/run/rank1.json"));
    assert_null(strstr(text, "aorta-unpacked-"));
    free(text);
    assert_int_equal(unlink(output), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(archives_are_folders),
        cmocka_unit_test(packed_files_are_read_as_they_are),
        cmocka_unit_test(standard_input_may_be_any_of_these),
        cmocka_unit_test(input_is_checked_before_it_is_copied),
        cmocka_unit_test(what_is_copied_has_a_limit),
        cmocka_unit_test(a_packed_database_is_unpacked),
        cmocka_unit_test(an_archive_in_a_folder_yields),
        cmocka_unit_test(broken_ones_name_the_file),
        cmocka_unit_test(what_unpacks_without_end_is_refused),
        cmocka_unit_test(what_is_skipped_has_an_end),
        cmocka_unit_test(links_lead_to_files_of_the_archive),
        cmocka_unit_test(links_to_traces_are_copies),
        cmocka_unit_test(what_is_not_read_is_named),
        cmocka_unit_test(any_number_of_other_members_is_passed),
        cmocka_unit_test(a_folder_names_what_it_does_not_read),
        cmocka_unit_test(files_of_one_size_take_linear_time),
        cmocka_unit_test(archives_are_merged),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
