#!/usr/bin/env python3
"""A trace that `aorta train` writes says what its metrics lines say: 0.1% on every step, eagerly and captured.

    tests/gpu/traces.py PROGRAM [CONFIG] [--ranks N] [--device cuda|cpu]

Reads with nothing but Python's json, compares compute, communication, copies and overlap of each traced step with
kernel_profile (profile where no kernels were traced), and ends with 1 when they differ by more.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile
from decimal import Decimal


def union(intervals):
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        elif end > start:
            merged.append([start, end])
    return merged


def length(merged):
    return sum(end - start for start, end in merged)


def intersection(a, b):
    both, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        start, end = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if start < end:
            both.append((start, end))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return both


def kind_of(event):
    if event["cat"] != "kernel":
        return "memcpy"
    return "comm" if "Collective name" in event["args"] or "nccl" in event["name"] else "compute"


def figures_by_step(path):
    with open(path) as file:
        trace = json.load(file, parse_float=Decimal)
    steps = {}
    for event in trace["traceEvents"]:
        if event.get("cat") not in ("kernel", "gpu_memcpy", "gpu_memset"):
            continue
        start, duration = (int(event[key]) * 1000 + round(event[key] % 1 * 1000) for key in ("ts", "dur"))
        kinds = steps.setdefault(event["args"]["step"], {"compute": [], "comm": [], "memcpy": []})
        kinds[kind_of(event)].append((start, start + duration))
    figures = {}
    for step, kinds in steps.items():
        compute, comm = union(kinds["compute"]), union(kinds["comm"])
        figures[step] = {"compute": length(compute), "comm": length(comm), "memcpy": length(union(kinds["memcpy"])),
                         "overlap": length(intersection(compute, comm))}
    return figures


def compare(output, rank):
    """The largest difference, as a share; prints a line for each step."""
    with open(os.path.join(output, f"rank_{rank:02d}_metrics.jsonl")) as file:
        lines = {line["global_step"]: line for line in map(json.loads, file)}
    paths = glob.glob(os.path.join(output, f"torch_profiler/rank{rank}/*.pt.trace.json"))
    if not paths:
        sys.exit(f"rank {rank} wrote no trace below {output}")
    worst = 0.0
    for step, ours in sorted((s, f) for path in paths for s, f in figures_by_step(path).items()):
        view = "kernel_profile" if "kernel_profile" in lines[step] else "profile"
        overlap = lines[step][view]["overlap"]
        theirs = {name: overlap[f"{name}_ms"] * 1e6 for name in ("compute", "comm", "memcpy")}
        theirs["overlap"] = overlap["overlap_ms"]["compute_comm"] * 1e6
        for name, value in theirs.items():
            difference = abs(ours[name] - value) / max(value, 1000.0)
            worst = max(worst, difference)
        print(f"  rank {rank} step {step} ({view}): " +
              ", ".join(f"{name} {ours[name] / 1e6:.6f} / {theirs[name] / 1e6:.6f} ms" for name in theirs))
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("config", nargs="?", default="config/quickstart.yaml")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    program = os.path.abspath(options.program)
    worst = 0.0
    for captured in ("false", "true"):
        with tempfile.TemporaryDirectory() as output:
            command = [program, "launch", "-n", str(options.ranks), "--", program, "train", "--quiet", "--config",
                       options.config, "--override", f"training.output_dir={output}", "training.max_steps=16",
                       f"device.kind={options.device}", f"compile.enabled={captured}", "profiling.enabled=true",
                       "profiling.wait=8", "profiling.active=4"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            print(f"compile.enabled={captured}: trace / metrics")
            worst = max([worst] + [compare(output, rank) for rank in range(options.ranks)])
    print(f"largest difference: {100 * worst:.4f}% (0.1% are allowed)")
    return worst > 0.001


if __name__ == "__main__":
    sys.exit(main())
