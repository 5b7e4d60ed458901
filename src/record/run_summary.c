/* Recorded and lost work, in sentences for the user. */
#include "measure/cupti_advice.h"
#include "record/run.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

enum { COMMAND_SHOWN = 60 };

static void put_command(const struct aorta_spool_facts *facts, struct aorta_text *out) {
    bool cut = strlen(facts->command) > COMMAND_SHOWN;
    aorta_text_printf(out, "process %d", facts->process.pid);
    if (facts->command[0]) aorta_text_printf(out, " (%.*s%s)", COMMAND_SHOWN, facts->command, cut ? " …" : "");
}

static void put_version(const struct aorta_spool_process *process, struct aorta_text *out) {
    uint32_t version = process->cupti;
    if (version >= 100000) /* since CUDA 13 the number is major, minor, patch */
        aorta_text_printf(out, "CUPTI %u.%u.%u", version / 10000, version / 100 % 100, version % 100);
    else
        aorta_text_printf(out, "CUPTI 12 (interface %u)", version);
    if (process->driver)
        aorta_text_printf(out, ", driver for CUDA %u.%u", process->driver / 1000, process->driver % 1000 / 10);
}

static double seconds_before(int64_t from_ns, int64_t to_ns) {
    return (double)(to_ns - from_ns) * 1e-9;
}

/* Whether the process still runs: one that the program started and did not wait for goes on writing. */
static bool still_runs(const struct aorta_spool_facts *facts) {
    return facts->head.state == AORTA_SPOOL_RECORDING && facts->process.pid > 0 &&
           (kill(facts->process.pid, 0) == 0 || errno == EPERM);
}

static void put_ending(const struct aorta_spool_facts *facts, struct aorta_text *out) {
    int64_t begun_ns = facts->head.begun_ns ? facts->head.begun_ns : facts->process.start_ns;
    double until_s = seconds_before(begun_ns, facts->head.last_ns);
    double delay_s = seconds_before(facts->process.start_ns, begun_ns);
    if (delay_s >= 0.1) aorta_text_printf(out, "; recording began %.1f s after CUDA's start", delay_s);
    switch (facts->head.state) {
    case AORTA_SPOOL_RECORDING:
        if (still_runs(facts))
            aorta_text_puts(out, "; still runs: its later work is not in these figures");
        else
            aorta_text_puts(out, "; ended by a signal, exec or _exit: its last moments are missing");
        break;
    case AORTA_SPOOL_TAKEN:
        aorta_text_printf(out, "; recorded for %.1f s, then %s", until_s, facts->note);
        break;
    case AORTA_SPOOL_FAILED:
        aorta_text_printf(out, "; recorded for %.1f s, then writing failed: %s", until_s,
                          strerror((int)facts->head.result));
        break;
    case AORTA_SPOOL_FULL:
        aorta_text_printf(out, "; recorded for %.1f s, then its file was full (--limit-mb)", until_s);
        break;
    case AORTA_SPOOL_STOPPED:
        aorta_text_printf(out, "; recorded for %.1f s, as --duration says", until_s);
        break;
    }
    uint32_t parts = facts->process.parts;
    if ((parts & AORTA_SPOOL_PARTS_KNOWN) && !(parts & AORTA_SPOOL_WAITS))
        aorta_text_puts(out, parts & AORTA_SPOOL_LAUNCHES ? "; calls that wait were not recorded, as --record says"
                                                          : "; the host's calls were not recorded, as --record says");
    if (facts->note[0] && facts->head.state != AORTA_SPOOL_TAKEN) aorta_text_printf(out, "; %s", facts->note);
    if (facts->head.lost)
        aorta_text_printf(out, "; %llu records were lost, because they came faster than they could be written",
                          (unsigned long long)facts->head.lost);
    if (facts->cut_bytes) aorta_text_puts(out, "; the last record was cut");
}

void aorta_trace_run_describe(const struct aorta_trace_run_record *record, struct aorta_text *out) {
    for (size_t i = 0; i < record->process_count; i++) {
        const struct aorta_trace_run_process *process = &record->processes[i];
        if (process->rank < 0) continue;
        aorta_text_printf(out, "rank %d: ", process->rank);
        put_command(&process->facts, out);
        aorta_text_printf(out, ", %lld kernels and copies", (long long)process->facts.work);
        if (i == 0) {
            aorta_text_puts(out, ", ");
            put_version(&process->facts.process, out);
        }
        int32_t named = process->facts.process.rank;
        if (named >= 0 && named != process->rank)
            aorta_text_printf(out, "; calls itself rank %d, as another process with more work does", named);
        put_ending(&process->facts, out);
        aorta_text_puts(out, "\n");
    }
}

/* ---- nothing ---- */

static void put_missing(const struct aorta_spool_facts *facts, struct aorta_text *out) {
    put_command(&facts[0], out);
    aorta_text_printf(out,
                      " uses CUDA, but no libcupti that suits it was found (%s). Install it (pip install "
                      "nvidia-cuda-cupti-cu12 or nvidia-cuda-cupti, or the toolkit's package cuda-cupti-13-0), or name "
                      "one with --cupti FILE\n",
                      facts->note);
}

static void put_refused(const struct aorta_spool_facts *facts, struct aorta_text *out) {
    const char *advice = aorta_cupti_advice(facts->head.result);
    put_command(facts, out);
    aorta_text_printf(out, ": CUPTI (%s) refused to record: %s%s%s\n", facts->library, facts->note, advice ? ": " : "",
                      advice ? advice : "");
}

static void put_why(const struct aorta_spool_facts *facts, struct aorta_text *out) {
    switch (facts->head.state) {
    case AORTA_SPOOL_MISSING:
        put_missing(facts, out);
        return;
    case AORTA_SPOOL_REFUSED:
        put_refused(facts, out);
        return;
    case AORTA_SPOOL_TAKEN:
        put_command(facts, out);
        aorta_text_printf(out,
                          ": %s; only one profiler can have it. Run the program without its own profiler "
                          "(torch.profiler, Nsight Systems, DCGM profiling), or analyse the trace which that one "
                          "writes (aorta trace analyze)\n",
                          facts->note);
        return;
    case AORTA_SPOOL_FAILED:
        put_command(facts, out);
        aorta_text_printf(out, ": nothing could be written: %s (-o names another place)\n",
                          strerror((int)facts->head.result));
        return;
    default:
        put_command(facts, out);
        aorta_text_printf(out, " initialised CUDA, but no kernel, copy or fill ended while it was recorded%s%s\n",
                          facts->note[0] ? "; " : "", facts->note);
        return;
    }
}

static void put_unseen(const struct aorta_cuda_search *search, struct aorta_text *out) {
    if (!search->driver_pid) {
        aorta_text_puts(out,
                        "none of its processes loaded CUDA's driver (libcuda.so.1): the program ran on the CPU, or "
                        "was over at once. For PyTorch see torch.cuda.is_available(); `aorta info` shows which "
                        "devices are there\n");
        return;
    }
    aorta_text_printf(out, "process %d loaded CUDA's driver, but the driver did not load the recording library: ",
                      (int)search->driver_pid);
    if (search->dropped)
        aorta_text_puts(out, "CUDA_INJECTION64_PATH had been taken out of its environment. sudo, env -i, ssh, srun and "
                             "containers do that: pass the variables on, or start `aorta trace run` inside\n");
    else
        aorta_text_puts(out, "the driver was never initialised (cuInit), or the process has more rights than its user "
                             "(setuid), in which case the driver ignores CUDA_INJECTION64_PATH\n");
}

void aorta_trace_run_explain_nothing(const struct aorta_trace_run_record *record,
                                     const struct aorta_trace_run_result *result, struct aorta_text *out) {
    aorta_text_puts(out, "no activity of a GPU was recorded: ");
    for (size_t i = 0; i < record->process_count; i++) put_why(&record->processes[i].facts, out);
    if (!record->process_count) put_unseen(&result->search, out);
}
