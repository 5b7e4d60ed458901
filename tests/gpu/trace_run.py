#!/usr/bin/env python3
"""`aorta trace run` on a PyTorch job against PyTorch's own profiler, and what being recorded costs.

    trace_run.py --aorta BIN/aorta --script torch_fsdp2.py --config default.yaml [--gpus N] [--rounds R] [--out DIR]

Each round runs the job three times: as it is, under `aorta trace run`, and with PyTorch's profiler around its last three
steps (recording CUDA's side only, so that the host is not slowed down more than need be). CUPTI serves one client, so
the two can never see the very same steps; they see steps of the same kind, and the medians of each rank are compared.
Steps are cut at the ends of the optimizer's kernels, in both recordings by the same code, which reads the spools itself.

Compared, within --tolerance (1%): kernels per step (exactly), time of compute, copies, transfer of collectives (without
waiting for the other rank: the shortest of the ranks for each), and overlap (as a share of communication, in points).
The step time may grow by at most --growth (3%). The span of a step is also printed but has no bound: PyTorch's
profiler changes it. At the end the job runs with both at once: it must end well, its own trace must be whole, and
`aorta trace run` must say that the other has CUPTI. Exit status 1 when something is outside.
"""
import argparse
import collections
import glob
import gzip
import json
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile

COLLECTIVE = re.compile(r"nccl|rccl|cross_device_reduce", re.IGNORECASE)
OPTIMIZER = re.compile(r"FusedAdam|fused_adam", re.IGNORECASE)
WARMUP_STEPS = 10  # of the script, before the steps it times
PROFILED_STEPS = 3

Work = collections.namedtuple("Work", "start end name kind")  # ns; kind: compute, comm, copy

# PyTorch's profiler as the script starts it, but without the host's side.
LIGHT_PROFILER = """
import runpy, sys, torch
class Light(torch.profiler.profile):
    def __init__(self, **kwargs):
        super().__init__(activities=[torch.profiler.ProfilerActivity.CUDA])
torch.profiler.profile = Light
sys.argv = sys.argv[1:]
sys.path.insert(0, __import__("os").path.dirname(__import__("os").path.abspath(sys.argv[0])))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


# ---- reading both kinds of recording ----

def read_spool(path):
    """(rank, work) of one process: the layout of src/trace/spool_format.h."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:8] != b"AORTASPL" or struct.unpack_from("<I", data, 8)[0] != 1:
        raise RuntimeError(f"{path}: no spool of version 1")
    at, rank, texts, work = struct.unpack_from("<I", data, 12)[0], -1, {}, []
    while at + 8 <= len(data):
        size, kind, _ = struct.unpack_from("<IHH", data, at)
        if at + size > len(data):
            break
        if kind == 1:
            rank = struct.unpack_from("<i", data, at + 16)[0]
        elif kind == 2:
            number, length = struct.unpack_from("<II", data, at + 8)
            texts[number] = data[at + 16:at + 16 + length].decode(errors="replace")
        elif kind == 4:
            start, end = struct.unpack_from("<qq", data, at + 8)
            name = texts.get(struct.unpack_from("<I", data, at + 28)[0], "?")
            work.append(Work(start, end, name, "comm" if COLLECTIVE.search(name) else "compute"))
        elif kind in (5, 6):
            start, end = struct.unpack_from("<qq", data, at + 8)
            work.append(Work(start, end, "copy", "copy"))
        at += size
    return rank, sorted(work)


def read_spools(folder):
    found = [read_spool(path) for path in glob.glob(os.path.join(folder, "*.spool"))]
    return {rank: work for rank, work in found if work}


def nanoseconds(text):
    """Microseconds with decimals, exactly: a double has not enough digits for the time of day."""
    whole, _, part = str(text).partition(".")
    return int(whole) * 1000 + int((part + "000")[:3])


def read_kineto(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        trace = json.load(file, parse_float=str)
    work = []
    for event in trace["traceEvents"]:
        kind = event.get("cat")
        if kind == "kernel":
            kind = "comm" if COLLECTIVE.search(event["name"]) else "compute"
        elif kind in ("gpu_memcpy", "gpu_memset"):
            kind = "copy"
        else:
            continue
        start = nanoseconds(event["ts"])
        work.append(Work(start, start + nanoseconds(event["dur"]), event["name"], kind))
    return sorted(work)


def read_kinetos(folder):
    paths = glob.glob(os.path.join(folder, "*_rank*.pt.trace.json.gz"))
    return {int(re.search(r"_rank(\d+)\.", path).group(1)): read_kineto(path) for path in paths}


# ---- figures ----

def union(work):
    """Disjoint intervals in order."""
    merged = []
    for item in work:
        if merged and item.start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], item.end)
        else:
            merged.append([item.start, item.end])
    return merged


def length(intervals):
    return sum(end - start for start, end in intervals)


def common(a, b):
    total, i, j = 0, 0, 0
    while i < len(a) and j < len(b):
        total += max(0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return total


def cut(work, steps):
    """The work of each step: steps end with the optimizer's last kernel."""
    ends = [item.end for item in work if OPTIMIZER.search(item.name)]
    if not ends or len(ends) % steps:
        raise RuntimeError(f"{len(ends)} kernels of the optimizer in {steps} steps: steps cannot be separated")
    ends = sorted(ends)[len(ends) // steps - 1::len(ends) // steps]
    pieces, before = [], work[0].start - 1
    for end in ends:
        pieces.append([item for item in work if before < item.end <= end])
        before = end
    return pieces


def figures_of(piece):
    by_kind = {kind: union([w for w in piece if w.kind == kind]) for kind in ("compute", "comm", "copy")}
    comm = length(by_kind["comm"])
    return {
        "kernels": sum(w.kind != "copy" for w in piece),
        "compute": length(by_kind["compute"]),
        "comm": comm,
        "copy": length(by_kind["copy"]),
        "overlap": common(by_kind["compute"], by_kind["comm"]) / comm if comm else 0.0,
        "span": max(w.end for w in piece) - piece[0].start,
    }


def transfer(pieces_of_ranks):
    """Sum over a step's collectives of the shortest time any rank spent in it."""
    series = [[w.end - w.start for w in piece if w.kind == "comm"] for piece in pieces_of_ranks]
    if len({len(times) for times in series}) != 1:
        return None
    return sum(min(times) for times in zip(*series))


def collect(ranks, steps, keep):
    """Samples of each figure, {(figure, rank): [last `keep` steps]}; ranks differ in what runs on them."""
    pieces = {rank: cut(work, steps)[-keep:] for rank, work in ranks.items()}
    samples = collections.defaultdict(list)
    for rank, own in pieces.items():
        for name, value in (item for piece in own for item in figures_of(piece).items()):
            samples[name, rank].append(value)
    for i in range(keep):
        value = transfer([own[i] for own in pieces.values()])
        if value is None:
            raise RuntimeError("the ranks of a step have different numbers of collectives")
        samples["transfer", 0].append(value)
    return samples


def middle(samples, name):
    """The mean over ranks of their medians; None without samples."""
    medians = [statistics.median(values) for (figure, _), values in samples.items() if figure == name]
    return statistics.mean(medians) if medians else None


# ---- running ----

def command(options, profiler):
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={options.gpus}"]
    if profiler:
        light = os.path.join(options.out, "light_profiler.py")
        with open(light, "w", encoding="utf-8") as file:
            file.write(LIGHT_PROFILER)
        words += [light]
    words += [options.script, options.config, f"mode={options.mode}", f"steps={options.steps}"]
    return words + ([f"trace={profiler}"] if profiler else [])


def run(words, log):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=280, check=False)
    with open(log, "w", encoding="utf-8") as file:
        file.write(done.stdout + done.stderr)
    found = re.search(r"step_ms_p50=([\d.]+) step_ms_pipelined=([\d.]+)", done.stdout + done.stderr)
    if done.returncode or not found:
        raise RuntimeError(f"exit status {done.returncode}: {' '.join(words[:4])} …: {(done.stdout + done.stderr)[-1500:]}")
    return float(found.group(1)), float(found.group(2)), done.stdout + done.stderr


def one_round(options, number, times, ours, theirs):
    folder = os.path.join(options.out, f"round{number}")
    spools, kineto = os.path.join(folder, "spools"), os.path.join(folder, "kineto")
    os.makedirs(kineto)
    times["plain"].append(run(command(options, None), os.path.join(folder, "plain.log"))[:2])
    traced = [options.aorta, "trace", "run", "-o", spools, "--", *command(options, None)]
    *step, output = run(traced, os.path.join(folder, "traced.log"))
    times["traced"].append(step)
    if number == 0:
        print(output)
    times["profiled"].append(run(command(options, kineto), os.path.join(folder, "profiled.log"))[:2])
    samples = collect(read_spools(spools), WARMUP_STEPS + 2 * options.steps, options.steps)
    for key, values in samples.items():
        ours[key] += values
    for key, values in collect(read_kinetos(kineto), PROFILED_STEPS, PROFILED_STEPS).items():
        theirs[key] += values


def both_at_once(options):
    """The faults when the job profiles itself while it is recorded, as a list of sentences."""
    folder = os.path.join(options.out, "both")
    spools, kineto = os.path.join(folder, "spools"), os.path.join(folder, "kineto")
    os.makedirs(kineto)
    words = [options.aorta, "trace", "run", "-o", spools, "--", *command(options, kineto)]
    output = run(words, os.path.join(folder, "both.log"))[2]
    wrong = []
    for rank, work in sorted(read_kinetos(kineto).items()):
        kernels = sum(w.kind != "copy" for w in work)
        print(f"both at once: PyTorch's own trace of rank {rank} has {kernels} kernels")
        if kernels == 0:
            wrong.append(f"PyTorch's own trace of rank {rank} is empty")
    if "has CUPTI in this process" not in output:
        wrong.append("aorta trace run did not say that the other profiler has CUPTI")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aorta", required=True)
    parser.add_argument("--script", required=True)
    parser.add_argument("--config", required=True)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--mode", default="fsdp2")
    parser.add_argument("--tolerance", type=float, default=0.01)
    parser.add_argument("--growth", type=float, default=0.03)
    parser.add_argument("--out", help="keeps recordings and logs; default: a temporary directory")
    parser.add_argument("--no-both", action="store_true", help="leave out the run with both profilers")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        options.out = os.path.abspath(options.out or temporary)
        os.makedirs(options.out, exist_ok=True)
        return compare(options)


def compare(options):
    times, ours, theirs = (collections.defaultdict(list) for _ in range(3))
    wrong = []
    for number in range(options.rounds):
        one_round(options, number, times, ours, theirs)
    print(f"{'per step, medians':22} {'aorta trace run':>16} {'torch.profiler':>16} {'ratio':>8}")
    for name in ("kernels", "compute", "transfer", "comm", "copy", "overlap", "span"):
        a, b = middle(ours, name), middle(theirs, name)
        scale, unit = (1, "") if name in ("kernels", "overlap") else (1e6, " ms")
        ratio = a / b if b else float("nan")
        print(f"{name + unit:22} {a / scale:16.4f} {b / scale:16.4f} {ratio:8.4f}")
        if name == "kernels" and a != b:
            wrong.append(f"kernels per step: {a} and {b}")
        if name in ("compute", "transfer", "copy") and b and abs(ratio - 1) > options.tolerance:
            wrong.append(f"{name}: ratio {ratio:.4f}")
        if name == "overlap" and abs(a - b) > options.tolerance:
            wrong.append(f"overlap: {a:.4f} and {b:.4f} of communication")
    for i, name in enumerate(("synchronised", "pipelined")):
        plain, traced, profiled = (statistics.median(t[i] for t in times[k]) for k in ("plain", "traced", "profiled"))
        print(f"step, {name:12}: {plain:.3f} ms plain, {traced:.3f} under aorta trace run ({traced / plain - 1:+.2%}), "
              f"{profiled:.3f} in the runs for torch.profiler (not yet profiling)")
        if traced > plain * (1 + options.growth):
            wrong.append(f"{name} step grows by {traced / plain - 1:.2%}")
    if not options.no_both:
        wrong += both_at_once(options)
    for sentence in wrong:
        print(f"OUTSIDE: {sentence}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
