#!/usr/bin/env python3
"""The clock of a GPU as `aorta train` and `aorta hwq run` report it, compared with nvidia-smi and with itself.

    clocks.py --aorta BIN/aorta --config config/large.yaml [--ranks N] [--steps N] [--workload NAME] [--override KEY=VALUE ...]

Prints what summary.json holds for each rank, how far the driver's counters went between readings, what reading costs, and
the sentence on it. Changes no setting of the device. Exit status 1 when something does not fit.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def train(options, directory, *words):
    ranks = [options.aorta, "launch", "-n", str(options.ranks), "--"] if options.ranks > 1 else []
    printed = run(ranks + [options.aorta, "train", "--config", options.config, "--quiet", *words, "--override",
                           "device.kind=cuda", f"training.max_steps={options.steps}",
                           f"training.output_dir={directory}", *options.override])
    with open(os.path.join(directory, "summary.json")) as file:
        (label,) = json.load(file)["labels"].values()
    lines = []
    for rank in range(options.ranks):
        with open(os.path.join(directory, f"rank_{rank:02}_metrics.jsonl")) as file:
            lines.append([json.loads(line) for line in file])
    return printed, label, lines


def nvidia_smi():
    """Highest SM clock and power limit of the first device; None without the program."""
    if not shutil.which("nvidia-smi"):
        return None
    fields = run(["nvidia-smi", "-i", "0", "--query-gpu=clocks.max.sm,enforced.power.limit",
                  "--format=csv,noheader,nounits"]).split(",")
    return [float(field) for field in fields]


def show_counters(lines):
    """Each counter's steps from reading to reading, as shares of the time between."""
    readings = [line["clocks"] for line in lines if line.get("clocks")]
    for key in ("power_capped_ms", "thermal_capped_ms"):
        pairs = [(a, b) for a, b in zip(readings, readings[1:]) if a[key] is not None and b[key] is not None]
        shares = [(b[key] - a[key]) / ((b["at_ns"] - a["at_ns"]) / 1e6) for a, b in pairs]
        print(f"  {key}: {' '.join(f'{share:.2f}' for share in shares[:20]) or 'not served, or one reading'}")
    print("  clocks:", " ".join(f"{r['sm_clock_mhz']:.0f}" for r in readings[:20] if r["sm_clock_mhz"]),
          "by", sorted({name for r in readings for name in r["limited_by"] or []}))


def look(clocks, printed, what):
    """The faults of a `clocks` object and of the printed text, as a list of sentences."""
    if not clocks:
        return [f"{what}: no clocks"]
    wrong, smi = [], nvidia_smi()
    highest, limit, median = clocks["sm_clock_max_mhz"], clocks["power_limit_w"], clocks["sm_clock_mhz"]["p50"]
    if smi and (highest != smi[0] or abs(limit - smi[1]) > 0.01):
        wrong.append(f"{what}: {highest} MHz, {limit} W at most; nvidia-smi says {smi}")
    low = highest is not None and median < 0.97 * highest
    said = " MHz (" in printed
    if low != said or low != bool(clocks["text"]):
        wrong.append(f"{what}: {median} of {highest} MHz, said: {said}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aorta", required=True)
    parser.add_argument("--config", required=True)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--workload", default="large_gemm_only", help="of aorta hwq run")
    parser.add_argument("--override", nargs="+", default=[])
    options = parser.parse_args()
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        printed, label, lines = train(options, os.path.join(folder, "plain"))
        print(printed)
        for one in label["ranks"]:
            print(f"rank {one['rank']}:", json.dumps(one["clocks"] or one["clocks_reason"]))
            show_counters(lines[one["rank"]])
        wrong += look(label["clocks"], printed, "train")
        step = label["step_ms"]["p50"]
        _, label, lines = train(options, os.path.join(folder, "each"), "--device-metrics")
        took = [line["device_metrics"]["read_ms"] for line in lines[0] if line.get("device_metrics")]
        print(f"a reading takes {statistics.median(took):.3f} ms (at most {max(took):.3f}); "
              f"step {step:.3f} ms with one in a second, {label['step_ms']['p50']:.3f} ms with one in each step")
        result = os.path.join(folder, "hwq.json")
        printed = run([options.aorta, "hwq", "run", options.workload, "--device", "cuda", "--iterations", "30",
                       "--output", result])
        with open(result) as file:
            result = json.load(file)
        print(f"hwq {options.workload}:", json.dumps(result["clocks"]), *result["findings"], sep="\n  ")
        wrong += look(result["clocks"], printed, "hwq")
    print("\n".join(f"FAILED  {sentence}" for sentence in wrong) or "ok")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
