#!/usr/bin/env python3
"""Ranges of captured steps lie where their kernels do: compute, communication and overlap by both views of one run.

    tests/gpu/agreement.py PROGRAM [CONFIG] [--ranks N]

The views differ by what lies between the kernels of a range (docs/measurements.md has figures). What is allowed here is
more than that, and less than what a range shows whose stamps are of something else. Ends with 1 when they differ by more.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

# Shares of the kernels' figure: fewest, most.
ALLOWED = {"compute": (-0.03, 0.12), "comm": (-0.06, 0.06), "overlap": (-0.06, 0.10)}
ALONE = {"compute": (-0.03, 0.12), "comm": (-0.06, 0.25), "overlap": (-0.06, 0.35)}  # collectives are copies there
WARM_UP = 20  # steps: the first are not captured, and find the library's fastest ways


def figures(view):
    overlap = view["overlap"]
    return {"compute": overlap["compute_ms"], "comm": overlap["comm_ms"],
            "overlap": overlap["overlap_ms"]["compute_comm"]}


def sums(output, rank):
    """Of all steps behind the warm-up of which there are both views: by ranges, by kernels, and how many steps."""
    by_range, by_kernel, steps = dict.fromkeys(ALLOWED, 0.0), dict.fromkeys(ALLOWED, 0.0), 0
    with open(os.path.join(output, f"rank_{rank:02d}_metrics.jsonl")) as file:
        for line in map(json.loads, file):
            if line["global_step"] < WARM_UP or not line.get("profile") or not line.get("kernel_profile"):
                continue
            steps += 1
            ranges, kernels = figures(line["profile"]), figures(line["kernel_profile"])
            for name in ALLOWED:
                by_range[name] += ranges[name]
                by_kernel[name] += kernels[name]
    return by_range, by_kernel, steps


def judge(output, rank, allowed):
    by_range, by_kernel, steps = sums(output, rank)
    if steps < 10:
        sys.exit(f"rank {rank}: {steps} steps with both views")
    fine = True
    for name, (fewest, most) in allowed.items():
        share = by_range[name] / max(by_kernel[name], 1e-6) - 1
        fine = fine and fewest <= share <= most
        print(f"  rank {rank}: {name} {by_range[name] / steps:.3f} ms by ranges, {by_kernel[name] / steps:.3f} by kernels:"
              f" {share:+.1%} ({fewest:+.0%} to {most:+.0%} are allowed)")
    return fine


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("config", nargs="?", default="config/default.yaml")
    parser.add_argument("--ranks", type=int, default=1)
    options = parser.parse_args()
    program = os.path.abspath(options.program)
    with tempfile.TemporaryDirectory() as output:
        command = [program, "launch", "-n", str(options.ranks), "--", program, "train", "--quiet", "--kernel-timing",
                   "--config", options.config, "--override", f"training.output_dir={output}", "training.max_steps=60",
                   "device.kind=cuda", "compile.enabled=true"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        allowed = ALLOWED if options.ranks > 1 else ALONE
        return 0 if all([judge(output, rank, allowed) for rank in range(options.ranks)]) else 1


if __name__ == "__main__":
    sys.exit(main())
