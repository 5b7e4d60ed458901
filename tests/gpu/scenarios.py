#!/usr/bin/env python3
"""Contention scenarios, TF32 and device metrics of `aorta train` on a GPU: results stay, and what is asked for is seen.

    scenarios.py --aorta BIN/aorta --config config/default.yaml [--ranks N] [--device cuda] [--steps N]

Prints a line per run: the loss's distance from the plain run, and the median step. Exit status 1 when one is wrong.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

# name: (overrides, how far the last loss may be off, relative)
RUNS = {
    "plain": ([], 0.0),
    "chunks": (["workload.gemm_chunks=4"], 1e-4),
    "wait": (["workload.async_wait=true"], 1e-4),
    "cap": (["workload.occupancy_cap=0.5"], 1e-4),
    "captured": (["compile.enabled=true", "compile.fullgraph=true"], 1e-4),
    "captured-all": (["compile.enabled=true", "compile.fullgraph=true", "workload.gemm_chunks=4",
                      "workload.async_wait=true", "workload.occupancy_cap=0.5"], 1e-4),
    "tf32": (["device.allow_tf32=true"], 1e-2),
}


def train(options, directory, overrides):
    command = [options.aorta, "train", "--config", options.config, "--no-report", "--quiet", "--device-metrics",
               "--override", f"training.output_dir={directory}", f"device.kind={options.device}",
               "training.mixed_precision=none", "model.dropout=0", f"training.max_steps={options.steps}", *overrides]
    if options.ranks > 1:
        command = [options.aorta, "launch", "-n", str(options.ranks), "--", *command]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(f"exit status {done.returncode}: {(done.stderr or done.stdout)[-600:]}")
    with open(os.path.join(directory, "rank_00_metrics.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def functions(line):
    return [r["metadata"]["function"] for r in line["profile"]["ranges"]]


def look(name, lines, plain, tolerance, gpu):
    """The faults of a run, as a list of sentences."""
    wrong = []
    loss, expected = lines[-1]["loss"], plain[-1]["loss"]
    if abs(loss - expected) > tolerance * abs(expected):
        wrong.append(f"loss {loss}, not {expected}")
    waits = functions(lines[-1]).count("await_copy")
    if (waits > 0) != (name in ("wait", "captured-all")):
        wrong.append(f"{waits} waits for copies")
    if gpu and not lines[-1].get("device_metrics"):
        wrong.append(f"no device metrics: {lines[-1].get('null_reasons')}")
    if name == "tf32" and gpu and loss == expected:
        wrong.append("TF32 changed nothing")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aorta", required=True)
    parser.add_argument("--config", required=True)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args()
    gpu = options.device != "cpu"
    plain, failed = None, False
    with tempfile.TemporaryDirectory() as folder:
        for name, (overrides, tolerance) in RUNS.items():
            if name == "tf32" and not gpu:
                continue
            try:
                lines = train(options, os.path.join(folder, name), overrides)
                plain = plain or lines
                wrong = look(name, lines, plain, tolerance, gpu)
                off = abs(lines[-1]["loss"] / plain[-1]["loss"] - 1) if plain[-1]["loss"] else 0
                result = f"loss off by {off:.1e}, step {statistics.median(l['step_ms'] for l in lines[2:]):.2f} ms"
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                wrong, result = [str(error)], ""
                if name == "plain":
                    print(f"FAILED  plain: {error}")
                    return 1
            print(f"{'FAILED ' if wrong else 'ok     '} {name:13} {result} {'; '.join(wrong)}")
            failed |= bool(wrong)
        if gpu:
            metrics = dict(plain[-1]["device_metrics"])
            print("metrics", {key: value for key, value in metrics.items() if key != "null_reasons"})
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
