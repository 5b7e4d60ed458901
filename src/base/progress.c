#include "base/progress.h"

#include "base/clock.h"
#include "base/text.h"

#include <unistd.h>

enum { BAR_WIDTH = 24 };

static const int64_t second_ns = 1000000000;

void aorta_progress_begin(struct aorta_progress *progress, FILE *stream, const char *label, const char *unit,
                          int64_t total) {
    bool terminal = isatty(fileno(stream)) == 1;
    *progress = (struct aorta_progress){.stream = stream,
                                        .label = label,
                                        .unit = unit,
                                        .total = total,
                                        .started_ns = aorta_clock_ns(),
                                        .interval_ns = terminal ? second_ns / 10 : 10 * second_ns,
                                        .terminal = terminal};
    progress->printed_ns = progress->started_ns;
}

static void add_bar(const struct aorta_progress *progress, struct aorta_text *line) {
    char bar[BAR_WIDTH + 1];
    int64_t filled = progress->done * BAR_WIDTH / progress->total;
    for (int i = 0; i < BAR_WIDTH; i++) bar[i] = i < filled ? '#' : '.';
    bar[BAR_WIDTH] = '\0';
    aorta_text_printf(line, "[%s] ", bar);
}

static void add_eta(const struct aorta_progress *progress, double rate, struct aorta_text *line) {
    if (progress->total <= progress->done || rate <= 0) return;
    int64_t seconds = (int64_t)((double)(progress->total - progress->done) / rate + 0.5);
    if (seconds >= 3600) {
        aorta_text_printf(line, ", ETA %lld:%02lld:%02lld", (long long)(seconds / 3600), (long long)(seconds / 60 % 60),
                          (long long)(seconds % 60));
    } else {
        aorta_text_printf(line, ", ETA %lld:%02lld", (long long)(seconds / 60), (long long)(seconds % 60));
    }
}

static void add_state(const struct aorta_progress *progress, const char *note, struct aorta_text *line) {
    double elapsed_s = (double)(progress->printed_ns - progress->started_ns) / (double)second_ns;
    double rate = elapsed_s > 0 ? (double)progress->done / elapsed_s : 0;
    if (progress->terminal) aorta_text_puts(line, "\r\033[K"); /* back to the start of the line, and empty it */
    aorta_text_printf(line, "%s ", progress->label);
    if (progress->terminal && progress->total > 0) add_bar(progress, line);
    aorta_text_printf(line, "%lld", (long long)progress->done);
    if (progress->total > 0) aorta_text_printf(line, "/%lld", (long long)progress->total);
    aorta_text_printf(line, " %s, %.3g %s/s", progress->unit, rate, progress->unit);
    add_eta(progress, rate, line);
    if (note) aorta_text_printf(line, ", %s", note);
}

/* In one piece: other ranks write to the same place. Without memory there is nothing to be seen. */
static void print_state(const struct aorta_progress *progress, const char *note, bool last) {
    struct aorta_text line = {0};
    add_state(progress, note, &line);
    if (last || !progress->terminal) aorta_text_puts(&line, "\n");
    aorta_status status = aorta_text_check(&line);
    if (!status) fputs(line.data, progress->stream);
    aorta_status_free(status);
    aorta_text_free(&line);
    fflush(progress->stream);
}

void aorta_progress_update(struct aorta_progress *progress, int64_t done, const char *note) {
    progress->done = progress->total > 0 && done > progress->total ? progress->total : done;
    int64_t now_ns = aorta_clock_ns();
    if (now_ns - progress->printed_ns < progress->interval_ns) return;
    progress->printed_ns = now_ns;
    print_state(progress, note, false);
}

void aorta_progress_end(struct aorta_progress *progress) {
    progress->printed_ns = aorta_clock_ns();
    print_state(progress, NULL, true);
}
