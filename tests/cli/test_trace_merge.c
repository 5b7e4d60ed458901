/* aorta trace merge and compare as a user runs them. */
#include "check.h"
#include "place.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define ZERO TRACE_DATA "/whole/fsdp2_rank0.json.gz "
#define ONE TRACE_DATA "/whole/fsdp2_rank1.json.gz "

static const struct {
    const char *words;
    int exit_code;
    const char *output; /* a part of it; $OUT: a file that is not there yet */
} calls[] = {
    {"merge --help", 0, "-o, --output FILE"},
    {"merge " ZERO ONE "-o $OUT.json.gz", 0, "2 ranks on one clock, residual 1.015 us"},
    {"merge " ZERO ONE "--output=$OUT.json", 0, "rank 0 came last to 81 of 81 shared collectives"},
    {"merge $FOLDER -o $OUT.json", 0, "2 ranks on one clock"},
    {"merge " ZERO ONE "empty.json -o /dev/null", 0, "2 ranks on one clock"}, /* as of a launcher */
    {"merge $TWICE -o $OUT.json", 0, "2 ranks on one clock"},
    {"analyze $TWICE", 0, "note     3 × "},
    {"merge -q $FOLDER -o $TWICE/both.json; " AORTA_PROGRAM " trace analyze $TWICE; rm $TWICE/both.json", 0,
     "note     both.json: a merged file: skipped\n"},
    {"merge $FOLDER -o $FOLDER/one.json.gz", 2, "is one of the files to read (of "},
    {"merge " ZERO ONE "-o - 2>$OUT.err | grep -c '^\"traceEvents'; cat $OUT.err; rm $OUT.err", 0,
     "1\n2 ranks on one clock"},
    {"analyze $FOLDER/../plain.json --html $FOLDER/../plain.json", 2, "plain.json is one of the files to read"},
    {"merge -q " ZERO ONE "-o /dev/null", 0, "2 ranks on one clock, residual 1.015 us; written to /dev/null\n"},
    {"merge -q " ZERO ONE "-o /dev/null | wc -l", 0, "1\n"},
    /* Two ranks of one job: a rank that waits has no slow link. */
    {"compare " ZERO ONE, 0, "  note        ranks 0 and 1 of one job: aorta trace analyze with both files says which"},
    {"compare " ZERO ONE "| grep -c bandwidth; true", 0, "0\n"},
    {"compare " ZERO ZERO "| grep -c 'of one job'; true", 0, "0\n"},
    /* A factor above ten times. Unchanged rows and tables are not printed. */
    {"compare " ZERO ONE "| grep '^  all_gather: exposed' | tr -s ' '", 0, "2.249 155.519 +153.270 69.2x\n"},
    {"compare " ZERO ONE, 0, " ms (69.2x)\n"},
    {"compare " ZERO ZERO "| tail -n 3 | tr -s ' '", 0,
     "timeline\n recording 439.774 439.774 +0.000 +0.0%\n"
     "unchanged: categories, kernels, collectives (--json has all)\n"},
    {"merge " ZERO ONE "-o /dev/null", 0, " events of\n  fsdp2_rank1.json.gz\n"}, /* lines of 100 columns, base names */
    {"compare " ZERO ONE, 0, "  test        fsdp2_rank1: 1 rank\n"},
    {"compare -q " ZERO ONE "--markdown", 2, "--quiet prints the answer alone: give it without --markdown"},
    {"merge " ZERO ONE "-o /dev/null", 0, "2 ranks on one clock"},
    {"merge " ZERO ONE, 2, "--output"},
    {"merge " ZERO ONE "--tracks -o - 2>/dev/null | grep -q 'critical_path.*\"pid\": 0' && echo on it", 0, "on it"},
    {"merge " ZERO ONE "--tracks -o - 2>/dev/null | grep -q '\"C\", \"name\": \"queue length\"' && echo counted", 0,
     "counted"},
    {"merge - --tracks -o /dev/null <" ZERO, 0, "events of standard input"},
    {"analyze " ZERO ONE "--by path --top 1", 0, "host, between calls"},
    {"merge -o $OUT.json", 2, "no files to merge; give the trace of each rank"},
    {"merge " ZERO ZERO ONE "-o $OUT.json", 0, "rank0.json.gz (1 equal file skipped)"},
    {"merge " ZERO "$FOLDER/../plain.json -o $OUT.json", 2, "are both of rank 0; give one file of each rank"},
    {"merge /nowhere.json -o $OUT.json", 2, "cannot open /nowhere.json"},
    {"merge " ZERO "-o /proc/x/y.json", 2, "--output: the directory /proc/x cannot be made"},
    {"merge " ZERO "-o /tmp", 2, "--output: /tmp is a directory; name a file"},
    {"merge " ZERO "--comm-pattern '(' -o $OUT.json", 2, "is not a regular expression"},
    {"compare --help", 0, "--threshold X"},
    {"compare " ZERO ZERO, 0, " equals "},
    {"compare " ZERO ONE, 0, " mark their steps): recording\n  440 -> 443 ms (+0.8%)\n  note        "},
    {"compare " ZERO ONE "--json", 0, "\"schema_version\": 1"},
    {"compare " ZERO ONE "--threshold 0.005", 1, "takes 0.8% longer than"},
    {"compare " ZERO ONE "--threshold 0.05", 0, "  threshold   passed: takes no more than 5% longer"},
    {"compare " ZERO ONE "--threshold -1", 2, "--threshold: found \"-1\""},
    {"compare " ZERO ONE ONE ZERO "--label a --label a --label b --label b", 0,
     "  base        a: 1 rank in 2 recordings"},
    {"compare " ZERO ONE "$FOLDER/one.json.gz --label a --label b --label a", 0,
     "  base        a: 1 rank in 2 recordings"},
    {"compare " ZERO ONE ONE "--label a --label b --label c --json | grep -c '\"label\": \"[abc]\"'", 0, "3"},
    {"compare " ZERO ONE "--label a", 2, "1 --label for 2 recordings; give one for each, or none"},
    {"compare " ZERO ONE "--label a --label ''", 2, "rank1.json.gz is empty"},
    {"compare " ZERO ONE "--label a --label a", 2, "all recordings have the label \"a\""},
    {"compare " ZERO ONE ZERO "--label a --label b --label a", 2, "the label \"a\" has "},
    {"compare " ZERO, 2, "give a base and at least one test to compare with it"},
    {"compare " ZERO "/nowhere", 2, "aorta: cannot open /nowhere: No such file"},
    {"merge " ZERO "--out $OUT.json", 2, "unknown option --out; did you mean --output?"},
};

static void calls_end_as_they_should(void **state) {
    (void)state;
    char output[1 << 16], command[2048];
    assert_int_equal(system("mkdir in twice && cp " ZERO "in/zero.json.gz && cp " ONE "in/one.json.gz && "
                            "cp in/* twice && mkdir twice/z && ln twice/zero.json.gz twice/z/0.json.gz && "
                            "cp twice/*.gz twice/z && zcat in/zero.json.gz > plain.json && "
                            "echo '{\"traceEvents\": []}' > empty.json"),
                     0);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        snprintf(command, sizeof command, "OUT=%zu; FOLDER=in; TWICE=twice; " AORTA_PROGRAM " trace %s 2>&1", i,
                 calls[i].words);
        FILE *pipe = popen(command, "r");
        assert_non_null(pipe);
        output[fread(output, 1, sizeof output - 1, pipe)] = '\0';
        while (fread(command, 1, sizeof command, pipe)) {
        } /* more than is looked at */
        int status = pclose(pipe);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != calls[i].exit_code || !strstr(output, calls[i].output))
            print_error("aorta trace %s\nended with %d, expected %d and \"%s\":\n%s\n", calls[i].words,
                        WEXITSTATUS(status), calls[i].exit_code, calls[i].output, output);
        assert_int_equal(WEXITSTATUS(status), calls[i].exit_code);
        assert_non_null(strstr(output, calls[i].output));
    }
    /* The folders, what was merged, the links, and nothing of what failed. */
    assert_int_equal(system("ls | wc -l | grep -qx 12"), 0);
}

/* A file that may not grow: an error with its name, and nothing is left of it. */
static void a_full_disk_is_an_error(void **state) {
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* its runtime maps a file of its own, which the limit cuts */
#endif
    char output[4096];
    FILE *pipe = popen("folder=$(mktemp -d); (ulimit -f 8; " AORTA_PROGRAM " trace merge " ZERO ONE
                       "-o $folder/all.json 2>&1); echo \"exit $? of $(ls $folder | wc -l)\"; rm -r $folder",
                       "r");
    assert_non_null(pipe);
    output[fread(output, 1, sizeof output - 1, pipe)] = '\0';
    assert_int_equal(pclose(pipe), 0);
    assert_non_null(strstr(output, "all.json: File too large\nexit 1 of 0\n"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(calls_end_as_they_should),
                                       cmocka_unit_test(a_full_disk_is_an_error)};
    return cmocka_run_group_tests(tests, place_enter, place_leave);
}
