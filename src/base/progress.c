#include "base/progress.h"

#include "base/clock.h"

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

static void print_bar(const struct aorta_progress *progress) {
    char bar[BAR_WIDTH + 1];
    int64_t filled = progress->done * BAR_WIDTH / progress->total;
    for (int i = 0; i < BAR_WIDTH; i++) bar[i] = i < filled ? '#' : '.';
    bar[BAR_WIDTH] = '\0';
    fprintf(progress->stream, "[%s] ", bar);
}

static void print_eta(const struct aorta_progress *progress, double rate) {
    if (progress->total <= progress->done || rate <= 0) return;
    int64_t seconds = (int64_t)((double)(progress->total - progress->done) / rate + 0.5);
    if (seconds >= 3600) {
        fprintf(progress->stream, ", ETA %lld:%02lld:%02lld", (long long)(seconds / 3600),
                (long long)(seconds / 60 % 60), (long long)(seconds % 60));
    } else {
        fprintf(progress->stream, ", ETA %lld:%02lld", (long long)(seconds / 60), (long long)(seconds % 60));
    }
}

static void print_state(const struct aorta_progress *progress, const char *note) {
    FILE *stream = progress->stream;
    double elapsed_s = (double)(progress->printed_ns - progress->started_ns) / (double)second_ns;
    double rate = elapsed_s > 0 ? (double)progress->done / elapsed_s : 0;
    if (progress->terminal) fputs("\r\033[K", stream); /* back to the start of the line, and empty it */
    fprintf(stream, "%s ", progress->label);
    if (progress->terminal && progress->total > 0) print_bar(progress);
    fprintf(stream, "%lld", (long long)progress->done);
    if (progress->total > 0) fprintf(stream, "/%lld", (long long)progress->total);
    fprintf(stream, " %s, %.3g %s/s", progress->unit, rate, progress->unit);
    print_eta(progress, rate);
    if (note) fprintf(stream, ", %s", note);
    if (!progress->terminal) fputc('\n', stream);
    fflush(stream);
}

void aorta_progress_update(struct aorta_progress *progress, int64_t done, const char *note) {
    progress->done = progress->total > 0 && done > progress->total ? progress->total : done;
    int64_t now_ns = aorta_clock_ns();
    if (now_ns - progress->printed_ns < progress->interval_ns) return;
    progress->printed_ns = now_ns;
    print_state(progress, note);
}

void aorta_progress_end(struct aorta_progress *progress) {
    progress->printed_ns = aorta_clock_ns();
    print_state(progress, NULL);
    if (progress->terminal) fputc('\n', progress->stream);
}
