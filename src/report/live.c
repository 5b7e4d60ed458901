#include "report/live.h"
#include "base/json.h"
#include "base/rows.h"
#include "base/text.h"
#include "report/phrases.h"
#include "report/verdict_text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The smallest changes that are reported: as a share of the step, and as a share of the cause's larger value. */
static const double CHANGE = 0.03, CAUSE_CHANGE = 0.25;
enum { CHANGES_SAID = 3 };

/* ---- what changed ---- */

static struct aorta_live_cause *find(struct aorta_live_state *state, const struct aorta_live_cause *like) {
    AORTA_EACH (struct aorta_live_cause, cause, state->causes, state->count)
        if (cause->cause == like->cause && cause->collective == like->collective && cause->rank == like->rank)
            return cause;
    return NULL;
}

static void read_state(const struct aorta_verdict *verdict, struct aorta_live_state *state) {
    *state = (struct aorta_live_state){.replayed = verdict->replay.known,
                                       .whole = verdict->whole,
                                       .ranks = verdict->rank_count,
                                       .step_ms = verdict->step_ms_p50};
    if (!(state->step_ms > 0)) state->step_ms = verdict->step_ms_mean;
    for (size_t i = 0; i < verdict->finding_count && state->count < AORTA_LIVE_CAUSES; i++) {
        const struct aorta_finding *finding = &verdict->findings[i];
        if (finding->remedy) continue; /* remedies are parts of compute */
        struct aorta_live_cause cause = {.cause = finding->cause,
                                         .rank = finding->cause == AORTA_CAUSE_STRAGGLER ? finding->rank : -1,
                                         .gain_ms = verdict->replay.known ? finding->gain_ms : NAN,
                                         .cost_ms = finding->cost_ms};
        if (aorta_cause_has_kind(finding->cause)) cause.collective = finding->collective;
        if (cause.rank >= 0 &&
            verdict->rank_count > 1) /* the cost is a mean over all ranks, but the straggler itself does not wait */
            cause.cost_ms *= (double)verdict->rank_count / (double)(verdict->rank_count - 1);
        if (!find(state, &cause)) state->causes[state->count++] = cause;
    }
}

/* The value of a cause that is compared between two states: its gain where both states have gains, else its cost.
 * Compute and stragglers are always compared by cost. */
static double value_of(const struct aorta_live_cause *cause, bool gains) {
    if (!cause) return 0;
    const bool taken = cause->cause == AORTA_CAUSE_COMPUTE || cause->cause == AORTA_CAUSE_STRAGGLER;
    return gains && !taken ? cause->gain_ms : cause->cost_ms;
}

struct change {
    const struct aorta_live_cause *cause;
    double from_ms, to_ms;
};

static void add_change(struct change change, double step_ms, struct change *changes, size_t *count) {
    const double by_ms = fabs(change.to_ms - change.from_ms), most_ms = fmax(change.from_ms, change.to_ms);
    if (!(by_ms >= CHANGE * step_ms) || by_ms < CAUSE_CHANGE * most_ms) return;
    size_t place = (*count)++;
    for (; place && fabs(changes[place - 1].to_ms - changes[place - 1].from_ms) < by_ms; place--)
        changes[place] = changes[place - 1];
    changes[place] = change;
}

/* The largest first. */
static size_t find_changes(struct aorta_live_state *reported, struct aorta_live_state *now,
                           struct change changes[2 * AORTA_LIVE_CAUSES]) {
    const bool gains = reported->replayed && now->replayed;
    size_t count = 0;
    AORTA_EACH (const struct aorta_live_cause, cause, now->causes, now->count) {
        const struct aorta_live_cause *before = find(reported, cause);
        add_change((struct change){cause, value_of(before, gains), value_of(cause, gains)}, reported->step_ms, changes,
                   &count);
    }
    for (size_t i = 0; i < reported->count; i++)
        if (!find(now, &reported->causes[i]))
            add_change((struct change){&reported->causes[i], value_of(&reported->causes[i], gains), 0},
                       reported->step_ms, changes, &count);
    return count;
}

/* "late kernel launches: 3.1 ms per step" */
static void say_cause(const struct aorta_live_cause *cause, double ms, struct aorta_text *out) {
    const struct aorta_verdict none = {0};
    const struct aorta_finding finding = {.cause = cause->cause, .collective = cause->collective, .rank = cause->rank};
    aorta_finding_name(&none, &finding, out);
    aorta_text_printf(out, ": %s ms per step", aorta_brief(ms).text);
}

static void say_change(const struct change *change, struct aorta_text *out) {
    const struct aorta_live_cause *cause = change->cause;
    const double gone_ms = CAUSE_CHANGE * change->from_ms;
    const bool gone = change->to_ms < gone_ms;
    const bool one_rank = cause->cause == AORTA_CAUSE_STRAGGLER && cause->rank >= 0;
    if (one_rank && gone) {
        aorta_text_printf(out, "rank %d is no longer late (before: by %s ms per step)", cause->rank,
                          aorta_brief(change->from_ms).text);
        return;
    }
    if (one_rank)
        aorta_text_printf(out, "rank %d is late by %s ms per step", cause->rank, aorta_brief(change->to_ms).text);
    else
        say_cause(cause, change->to_ms, out);
    aorta_text_printf(out, " (before: %s)", aorta_brief(change->from_ms).text);
}

static void say_time(int64_t time_ms, struct aorta_text *out) {
    char when[16] = "";
    const time_t seconds = (time_t)(time_ms / 1000);
    struct tm local;
    if (localtime_r(&seconds, &local)) strftime(when, sizeof when, "%H:%M:%S", &local);
    aorta_text_puts(out, when);
}

/* A window that lacks ranks or steps reports no change, since the last window of a job is often incomplete. The second
 * such window in a row becomes the new reference if it has steps. `gone` names the processes that have ended. */
static bool shows_less(struct aorta_live *live, const struct aorta_live_state *now) {
    const struct aorta_live_state *reported = &live->reported;
    const bool less = now->ranks < reported->ranks || (now->whole && !reported->whole);
    live->less = less ? live->less + 1 : 0;
    if (live->less > 1 && !now->whole) live->reported = *now;
    return less;
}

static void say_changes(struct aorta_live *live, const struct aorta_live_window *window, struct aorta_text *out) {
    struct aorta_live_state now, *reported = &live->reported;
    struct change changes[2 * AORTA_LIVE_CAUSES];
    read_state(window->verdict, &now);
    if (!live->any) {
        live->reported = now;
        live->any = true;
        return;
    }
    if (shows_less(live, &now)) return;
    const size_t count = find_changes(reported, &now, changes);
    const bool step = fabs(now.step_ms - reported->step_ms) >= CHANGE * reported->step_ms;
    if (!count && !step) return;
    aorta_text_puts(out, "since ");
    say_time(window->start_ms, out);
    for (size_t i = 0; i < count && i < CHANGES_SAID; i++) {
        aorta_text_puts(out, i ? "; " : " ");
        say_change(&changes[i], out);
    }
    if (step)
        aorta_text_printf(out, "%sa step takes %s ms (before: %s)", count ? "; " : " ", aorta_brief(now.step_ms).text,
                          aorta_brief(reported->step_ms).text);
    live->reported = now;
    live->changes++;
}

/* ---- figures ---- */

struct figures {
    const char *start;
    int64_t length_ns, ranks, steps, lost, windows, changes;
    double step_ms, step_p50_ms, step_p10_ms, step_p90_ms;
    double compute_ms, comm_ms, exposed_ms, idle_ms, overlap_ratio, evaluated_s;
};

#define AT(member) offsetof(struct figures, member)
#define MS(key, member, text)                                                                                          \
    { (key), AORTA_ROW_NUMBER, AT(member), .unit = "ms", .decimals = 6, .help = (text) }
static const struct aorta_row figure_rows[] = {
    {"window_start", AORTA_ROW_TEXT, AT(start), .help = "when the window began, UTC"},
    {"window_ms", AORTA_ROW_NS, AT(length_ns), .unit = "ms", .help = "length of the window"},
    {"windows", AORTA_ROW_INT, AT(windows), .help = "windows evaluated so far"},
    {"changes", AORTA_ROW_INT, AT(changes), .help = "changes of the verdict said so far"},
    {"ranks", AORTA_ROW_INT, AT(ranks), .help = "ranks with work in the window"},
    {"steps", AORTA_ROW_INT, AT(steps), .help = "steps of each rank in the window"},
    MS("step_ms", step_ms, "from step to step, mean of the window"),
    MS("step_p50_ms", step_p50_ms, "from step to step, median of the window"),
    MS("step_p10_ms", step_p10_ms, "from step to step, tenth percentile of the window"),
    MS("step_p90_ms", step_p90_ms, "from step to step, ninetieth percentile of the window"),
    MS("compute_ms", compute_ms, "compute of a step, mean over ranks"),
    MS("comm_ms", comm_ms, "communication of a step, mean over ranks"),
    MS("exposed_comm_ms", exposed_ms, "communication per step without compute"),
    MS("idle_ms", idle_ms, "per step in which the device does nothing"),
    {"overlap_ratio", AORTA_ROW_NUMBER, AT(overlap_ratio), .unit = "share", .decimals = 6, .reason = "no communication",
     .help = "part of the communication that is hidden behind compute"},
    {"lost_records", AORTA_ROW_INT, AT(lost), .help = "records of the window that were lost"},
    {"evaluated_s", AORTA_ROW_NUMBER, AT(evaluated_s), .unit = "s", .decimals = 3,
     .help = "what reading and analyzing the window took"},
    {0},
};
#undef MS
#undef AT

static void fill_figures(const struct aorta_live *live, const struct aorta_live_window *window, char start[32],
                         struct figures *figures) {
    const time_t seconds = (time_t)(window->start_ms / 1000);
    const struct aorta_verdict *verdict = window->verdict;
    struct tm utc;
    if (!gmtime_r(&seconds, &utc) || !strftime(start, 32, "%Y-%m-%dT%H:%M:%SZ", &utc)) start[0] = '\0';
    const bool stepped = verdict && !verdict->whole;
    *figures = (struct figures){.start = start,
                                .length_ns = window->length_ms * 1000000,
                                .ranks = verdict ? (int64_t)verdict->rank_count : 0,
                                .steps = stepped ? (int64_t)verdict->iterations : 0,
                                .lost = (int64_t)window->lost,
                                .windows = live->windows,
                                .changes = live->changes,
                                .step_ms = stepped ? verdict->step_ms_mean : NAN,
                                .step_p50_ms = stepped ? verdict->step_ms_p50 : NAN,
                                .step_p10_ms = stepped ? verdict->step_ms_p10 : NAN,
                                .step_p90_ms = stepped ? verdict->step_ms_p90 : NAN,
                                .compute_ms = verdict ? verdict->compute_ms : NAN,
                                .comm_ms = verdict ? verdict->comm_ms : NAN,
                                .exposed_ms = verdict ? verdict->exposed_ms : NAN,
                                .idle_ms = verdict ? verdict->idle_ms : NAN,
                                .overlap_ratio = verdict ? verdict->overlap_ratio : NAN,
                                .evaluated_s = window->evaluated_s};
}

/* ---- what is written ---- */

static void write_json(const struct aorta_live_window *window, const struct figures *figures,
                       struct aorta_live_said *said) {
    struct aorta_json json;
    struct aorta_reasons reasons = {0};
    aorta_json_output(&json, &said->json, 0, 1);
    aorta_rows_members(figure_rows, figures, 0, &json, &reasons);
    aorta_json_key_string(&json, "headline", said->headline.data);
    aorta_json_key_string(&json, "change", said->change.data);
    aorta_json_key_array(&json, "gone");
    for (const char *line = NULL; (line = aorta_text_next(&window->gone, line));) aorta_json_string(&json, line);
    aorta_json_array_end(&json);
    if (window->verdict) aorta_verdict_json(window->verdict, &json);
    if (window->reason) aorta_json_key_string(&json, "reason", window->reason);
    aorta_reasons_json(&reasons, &json);
    aorta_json_output_end(&json);
}

/* The value of a number's row, in Prometheus's base units. NaN: not known, or no number. */
static double gauge_of(const struct aorta_row *row, const struct figures *figures) {
    const double value = aorta_row_value(row, figures, 0).number;
    if (row->type == AORTA_ROW_NS) return value * 1e-9;
    return row->unit && strcmp(row->unit, "ms") == 0 ? value * 1e-3 : value;
}

/* "step_ms" becomes aorta_step_seconds: Prometheus uses base units. */
static void gauge_name(const struct aorta_row *row, char name[64]) {
    const char *const unit = row->unit ? row->unit : "";
    const size_t cut = strcmp(unit, "ms") == 0 ? strlen("_ms") : strcmp(unit, "s") == 0 ? strlen("_s") : 0;
    snprintf(name, 64, "aorta_%.*s%s", (int)(strlen(row->key) - cut), row->key, cut ? "_seconds" : "");
}

static void write_gauge(const char *name, const char *help, const char *labels, double value, struct aorta_text *out) {
    if (help) aorta_text_printf(out, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
    if (!isnan(value)) aorta_text_printf(out, "%s%s %.9g\n", name, labels, value);
}

static void write_cause_gauges(const struct aorta_verdict *verdict, bool gains, struct aorta_text *out) {
    const char *const name = gains ? "aorta_cause_gain_seconds" : "aorta_cause_cost_seconds";
    const char *help = gains ? "how much shorter a step is without the cause" : "what the cause takes of a step";
    AORTA_EACH (const struct aorta_finding, finding, verdict->findings, verdict->finding_count) {
        char labels[256];
        if (gains && !verdict->replay.known) continue;
        if (finding->remedy && !gains) continue;
        snprintf(labels, sizeof labels, "{cause=\"%s\",kind=\"%s\",rank=\"%.*d\",remedy=\"%s\"}",
                 aorta_cause_name(finding->cause),
                 aorta_cause_has_kind(finding->cause) ? aorta_collective_name(finding->collective) : "",
                 finding->rank < 0 ? 0 : 1, finding->rank < 0 ? 0 : finding->rank,
                 finding->remedy ? finding->remedy : "");
        write_gauge(name, help, labels, (gains ? finding->gain_ms : finding->cost_ms) * 1e-3, out);
        help = NULL;
    }
}

static void write_gauges(const struct aorta_live_window *window, const struct figures *figures,
                         struct aorta_text *out) {
    write_gauge("aorta_window_start_seconds", "when the window began, unix time", "", (double)window->start_ms * 1e-3,
                out);
    for (const struct aorta_row *row = figure_rows; row->key; row++) {
        char name[64];
        if (row->type == AORTA_ROW_TEXT) continue;
        gauge_name(row, name);
        write_gauge(name, row->help, "", gauge_of(row, figures), out);
    }
    if (!window->verdict) return;
    write_cause_gauges(window->verdict, false, out);
    write_cause_gauges(window->verdict, true, out);
}

/* Times stay in ms, as in all of AORTA's output. */
static void add_scalar(struct aorta_live_said *said, const char *name, double value) {
    if (said->scalar_count == AORTA_LIVE_SCALARS) return;
    struct aorta_board_scalar *scalar = &said->scalars[said->scalar_count++];
    snprintf(scalar->tag, sizeof scalar->tag, "aorta/%s", name);
    scalar->value = value;
}

static void write_scalars(const struct aorta_live_window *window, const struct figures *figures,
                          struct aorta_live_said *said) {
    for (const struct aorta_row *row = figure_rows; row->key; row++) {
        const bool number = row->type == AORTA_ROW_NUMBER || row->type == AORTA_ROW_INT;
        add_scalar(said, row->key, number ? aorta_row_value(row, figures, 0).number : NAN);
    }
    for (size_t i = 0; window->verdict && i < window->verdict->finding_count; i++) {
        const struct aorta_finding *finding = &window->verdict->findings[i];
        const bool kind = aorta_cause_has_kind(finding->cause);
        char name[64];
        if (finding->remedy) continue;
        snprintf(name, sizeof name, "cost_ms/%s%s%s", aorta_cause_name(finding->cause), kind ? "_" : "",
                 kind ? aorta_collective_name(finding->collective) : "");
        add_scalar(said, name, finding->cost_ms);
    }
}

static void say_headline(const struct aorta_live_window *window, struct aorta_text *out) {
    say_time(window->start_ms, out);
    aorta_text_puts(out, " ");
    if (!window->verdict) {
        aorta_text_puts(out, window->reason ? window->reason : "nothing was recorded");
        return;
    }
    aorta_text_puts(out, "Verdict: ");
    aorta_verdict_headline(window->verdict, out);
    if (!window->verdict->whole)
        aorta_text_printf(out, "; %s of %s, p50 %s ms",
                          aorta_counted((long long)window->verdict->iterations, "step").text,
                          aorta_counted((long long)window->verdict->rank_count, "rank").text,
                          aorta_brief(window->verdict->step_ms_p50).text);
}

aorta_status aorta_live_take(struct aorta_live *live, const struct aorta_live_window *window,
                             struct aorta_live_said *said) {
    struct figures figures;
    char start[32];
    said->first = window->verdict && !live->any;
    live->windows++;
    say_headline(window, &said->headline);
    if (window->verdict && window->verdict->finding_count) say_changes(live, window, &said->change);
    fill_figures(live, window, start, &figures);
    write_json(window, &figures, said);
    write_gauges(window, &figures, &said->gauges);
    write_scalars(window, &figures, said);
    said->number = live->windows;
    said->headline.failed |= said->change.failed || said->json.failed || said->gauges.failed;
    return aorta_text_check(&said->headline);
}

void aorta_live_said_free(struct aorta_live_said *said) {
    aorta_text_free(&said->headline);
    aorta_text_free(&said->change);
    aorta_text_free(&said->json);
    aorta_text_free(&said->gauges);
}

/* ---- TFRecords ---- */

/* Castagnoli's polynomial, reflected. No table is needed, as events have a few hundred bytes. */
static uint32_t crc32c(const uint8_t *bytes, size_t length) {
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    return ~crc;
}

static uint32_t masked(const uint8_t *bytes, size_t length) {
    const uint32_t crc = crc32c(bytes, length);
    return (crc >> 15 | crc << 17) + 0xa282ead8;
}

static void put_fixed(uint64_t value, int bytes, struct aorta_text *out) {
    for (int i = 0; i < bytes; i++) aorta_text_append(out, &(char){(char)(value >> 8 * i)}, 1);
}

/* Frees the event. */
static aorta_status write_record(struct aorta_tensorboard *board, struct aorta_text *event) {
    struct aorta_text record = {0};
    put_fixed(event->length, 8, &record);
    if (!record.failed) put_fixed(masked((const uint8_t *)record.data, 8), 4, &record);
    aorta_text_append(&record, event->data, event->length);
    put_fixed(masked((const uint8_t *)event->data, event->length), 4, &record);
    aorta_text_end(event, &record);
    aorta_status status = aorta_text_check(&record);
    if (!status && (fwrite(record.data, 1, record.length, board->file) != record.length || fflush(board->file) != 0)) {
        status = AORTA_ERROR(AORTA_IO, "%s: %s", board->path.text, strerror(errno));
        clearerr(board->file);
    }
    aorta_text_free(&record);
    return status;
}

/* ---- protocol buffers ---- */

enum wire { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
enum field { WALL_TIME = 1, STEP = 2, FILE_VERSION = 3, SUMMARY = 5, VALUE = 1, TAG = 1, SIMPLE_VALUE = 2 };

static void put_varint(uint64_t value, struct aorta_text *out) {
    for (; value >= 0x80; value >>= 7) aorta_text_append(out, &(char){(char)(value | 0x80)}, 1);
    aorta_text_append(out, &(char){(char)value}, 1);
}

static void put_key(enum field field, enum wire wire, struct aorta_text *out) {
    put_varint((uint64_t)field << 3 | wire, out);
}

static void put_bytes(enum field field, const char *bytes, size_t length, struct aorta_text *out) {
    put_key(field, BYTES, out);
    put_varint(length, out);
    aorta_text_append(out, bytes, length);
}

static void begin_event(double wall_s, int64_t step, struct aorta_text *out) {
    uint64_t bits;
    memcpy(&bits, &wall_s, sizeof bits);
    put_key(WALL_TIME, FIXED64, out);
    put_fixed(bits, 8, out);
    put_key(STEP, VARINT, out);
    put_varint((uint64_t)step, out);
}

static void put_scalar(const struct aorta_board_scalar *scalar, struct aorta_text *summary) {
    const float value = (float)scalar->value;
    uint32_t bits;
    struct aorta_text one = {0};
    memcpy(&bits, &value, sizeof bits);
    put_bytes(TAG, scalar->tag, strlen(scalar->tag), &one);
    put_key(SIMPLE_VALUE, FIXED32, &one);
    put_fixed(bits, 4, &one);
    if (one.data) put_bytes(VALUE, one.data, one.length, summary);
    aorta_text_end(&one, summary);
}

/* ---- files ---- */

static aorta_status write_version(struct aorta_tensorboard *board) {
    static const char version[] = "brain.Event:2";
    struct aorta_text event = {0};
    begin_event((double)time(NULL), 0, &event);
    put_bytes(FILE_VERSION, version, strlen(version), &event);
    return write_record(board, &event);
}

aorta_status aorta_tensorboard_open(const char *directory, struct aorta_tensorboard *board) {
    char host[128] = "host";
    *board = (struct aorta_tensorboard){0};
    AORTA_TRY(aorta_directory_make(directory));
    gethostname(host, sizeof host - 1);
    board->path =
        aorta_path_in(directory, "events.out.tfevents.%lld.%s.%d.aorta", (long long)time(NULL), host, (int)getpid());
    board->file = fopen(board->path.text, "wbe");
    if (!board->file) return AORTA_ERROR(AORTA_IO, "%s: %s", board->path.text, strerror(errno));
    return write_version(board);
}

aorta_status aorta_tensorboard_write(struct aorta_tensorboard *board, double wall_s, int64_t step,
                                     const struct aorta_board_scalar *scalars, size_t count) {
    struct aorta_text event = {0}, summary = {0};
    for (size_t i = 0; i < count; i++)
        if (!isnan(scalars[i].value)) put_scalar(&scalars[i], &summary);
    begin_event(wall_s, step, &event);
    put_bytes(SUMMARY, summary.data ? summary.data : "", summary.length, &event);
    aorta_text_end(&summary, &event);
    return write_record(board, &event);
}

void aorta_tensorboard_close(const struct aorta_tensorboard *board) {
    if (board->file) fclose(board->file);
}
