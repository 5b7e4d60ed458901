#!/usr/bin/python3
"""Reading traces: ours against a plain reader in Python (json, sorting, unions of intervals), in one run.

    trace_read.py [FILE ...] [--rounds 5] [--megabytes 1024] [--python-megabytes 1024] [--linear 10 100 1024 [4096]]

FILEs are traces of one run (default: the two fsdp2 traces of ../shared/traces, or those below AORTA_TRACES); they are
read together. Then one generated trace (bench/generate_trace.py), then larger and larger ones, ours only. Both sides
give the same figures or the benchmark fails. Processor time says more than time on a busy machine. `analyze` is the
whole command, from start to end, as a user runs it.
Python needs some ten times a file's size in memory: --python-megabytes makes its generated file smaller (0: none).
"""
import argparse
import glob
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from decimal import Decimal

from training import AORTA, ROOT, median, processor

OURS = os.path.join(ROOT, "build", "release", "bench", "bench_trace_read")
GENERATE = os.path.join(ROOT, "bench", "generate_trace.py")
HTA_S = 1.3  # Holistic Trace Analysis, loading the two fsdp2 traces on a machine of two cores
AIMS = {"hta": 20, "seconds": 4.0, "mib": 300}


# ---- the other side ----

def union(intervals):
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1][1] = end
        else:
            merged.append([start, end])
    return merged


def length(intervals):
    return sum(end - start for start, end in intervals)


def overlap(a, b):
    i = j = total = 0
    while i < len(a) and j < len(b):
        total += max(0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return total


def plain_figures(path):
    """A careful script of some lines; decimals preserve the nanoseconds."""
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as file:
        trace = json.load(file)
    compute, comm, busy = [], [], []
    collective = re.compile("nccl|rccl|cross_device_reduce")
    for event in trace["traceEvents"]:
        if event.get("cat") not in ("kernel", "gpu_memcpy", "gpu_memset"):
            continue
        start = int(Decimal(str(event["ts"])) * 1000)
        interval = (start, start + int(Decimal(str(event["dur"])) * 1000))
        busy.append(interval)
        if event["cat"] == "kernel":
            (comm if collective.match(event["name"]) else compute).append(interval)
    compute, comm, busy = union(compute), union(comm), union(busy)
    return {"compute_ns": length(compute), "comm_ns": length(comm), "overlap_ns": overlap(compute, comm),
            "busy_ns": length(busy), "span_ns": busy[-1][1] - busy[0][0] if busy else 0}


# ---- running ----

def measured(command):
    """(seconds, peak MiB, processor seconds, output) of a command, by the kernel's account of the child."""
    with tempfile.TemporaryFile("w+") as out:
        start = time.monotonic()
        child = subprocess.Popen(command, stdout=out, stdin=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.monotonic() - start
        child.returncode = status
        if status != 0:
            sys.exit(f"{' '.join(command)} ended with status {status}")
        out.seek(0)
        return seconds, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime, out.read()


def figures_of(output):
    keys = ("compute_ns", "comm_ns", "overlap_ns", "busy_ns", "span_ns")
    return [{key: trace[key] for key in keys} for trace in json.loads(output)["traces"]]


def medians(runs):
    return median([run[0] for run in runs]), max(run[1] for run in runs), median([run[2] for run in runs])


def compare(files, rounds, python_rounds):
    """Alternates the sides; returns {side: (seconds, MiB)}."""
    sides = {"reader": [OURS, *files], "analyze": [AORTA, "trace", "analyze", *files, "--json"],
             "python": [sys.executable, os.path.abspath(__file__), "--plain", *files]}
    runs = {side: [] for side in sides}
    for number in range(rounds):
        for side, command in sides.items():
            if side != "python" or number < python_rounds:
                runs[side].append(measured(command))
    if runs["python"]:
        ours, theirs = figures_of(runs["reader"][0][3]), figures_of(runs["python"][0][3])
        if ours != theirs:
            sys.exit(f"the sides disagree:\n  ours   {ours}\n  Python {theirs}")
    return {side: medians(done) for side, done in runs.items() if done}


def line(what, side, other=None):
    seconds, mib, busy = side
    print(f"  {what:8} {seconds * 1e3:9.1f} ms, {busy * 1e3:9.1f} ms of processors, {mib:6.0f} MiB peak", end="")
    if other:
        print(f"; Python: {other[0] / seconds:.0f} times as long, {other[1] / mib:.0f} times the memory", end="")
    print(flush=True)


def show(title, result):
    print(title)
    for side in ("reader", "analyze", "python"):
        if side in result:
            line(side, result[side], result.get("python") if side != "python" else None)


def aim(met, text):
    print(f"  aim: {text}: {'met' if met else 'NOT met'}", flush=True)
    return met


def generated(folder, megabytes):
    path = os.path.join(folder, f"generated_{megabytes}.json")
    subprocess.run([sys.executable, GENERATE, path, "--megabytes", str(megabytes)], check=True)
    return path


def bench_files(files, rounds):
    result = compare(files, rounds, min(rounds, 3))
    show(f"{len(files)} files: {', '.join(os.path.basename(f) for f in files)}", result)
    if sum("fsdp2" in f for f in files) < 2:
        return True
    seconds = result["analyze"][0]
    return aim(seconds * AIMS["hta"] <= HTA_S,
               f"both files in at most {HTA_S / AIMS['hta'] * 1e3:.0f} ms, a twentieth of HTA's {HTA_S} s: median "
               f"{seconds * 1e3:.1f} ms, {HTA_S / seconds:.0f} times faster")


def bench_generated(folder, megabytes, python_megabytes, rounds):
    if python_megabytes and python_megabytes < megabytes:
        path = generated(folder, python_megabytes)
        show(f"generated, {python_megabytes} MiB (against Python)", compare([path], rounds, 1))
        os.unlink(path)
    path = generated(folder, megabytes)
    result = compare([path], rounds, 1 if python_megabytes >= megabytes else 0)
    os.unlink(path)
    show(f"generated, {megabytes} MiB of plain JSON", result)
    seconds, mib, _ = result["analyze"]
    limit = AIMS["seconds"] * megabytes / 1024
    fast = aim(seconds <= limit, f"{megabytes} MiB in at most {limit:.2f} s ({AIMS['seconds']:.0f} s for each GiB): "
                                 f"median {seconds:.2f} s")
    if megabytes > 1024:
        print(f"  no aim: memory is bounded for a GiB, this file has {megabytes} MiB; highest peak {mib:.0f} MiB")
        return fast
    return aim(mib <= AIMS["mib"], f"at most {AIMS['mib']} MiB of memory: highest peak {mib:.0f} MiB") and fast


def bench_linear(folder, sizes, rounds):
    rates = []
    print("time by size (reader)")
    for megabytes in sizes:
        path = generated(folder, megabytes)
        seconds, mib, busy = medians([measured([OURS, path]) for _ in range(rounds)])
        os.unlink(path)
        rates.append(busy / megabytes)
        print(f"  {megabytes:5} MiB {seconds * 1e3:9.1f} ms, {busy * 1e3:9.1f} ms of processors, "
              f"{busy * 1e6 / megabytes:5.0f} us per MiB, {mib:5.0f} MiB peak", flush=True)
    return len(rates) < 2 or aim(max(rates) <= 2 * min(rates), "linear: processor time per byte within a factor of 2")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--python-megabytes", type=int, default=1024)
    parser.add_argument("--linear", type=int, nargs="*", default=[10, 100, 1024])
    parser.add_argument("--plain", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.plain:
        print(json.dumps({"traces": [plain_figures(path) for path in arguments.files]}))
        return 0
    folder = os.environ.get("AORTA_TRACES", os.path.join(ROOT, "..", "shared", "traces"))
    files = arguments.files or sorted(glob.glob(os.path.join(folder, "fsdp2_default_rank*.json.gz")))
    print(f"on {processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; "
          f"medians of {arguments.rounds} (Python on generated files: 1)")
    met = bench_files(files, arguments.rounds) if files else True
    with tempfile.TemporaryDirectory() as scratch:
        if arguments.megabytes:
            met &= bench_generated(scratch, arguments.megabytes, arguments.python_megabytes, arguments.rounds)
        met &= bench_linear(scratch, arguments.linear, min(arguments.rounds, 3))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
