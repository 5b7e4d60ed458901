#!/usr/bin/env python3
"""bf16 and fp16 against fp32: the losses of 100 steps of the same run, step by step.

    precision.py --aorta BIN/aorta --config config/default.yaml [--ranks N] [--device cuda] [--steps 100]

Prints the largest and the mean relative distance of each. Exit status 1 when the mean, or any running mean over ten
steps, is off by more than 1%: single steps see one batch, whose loss alone scatters by more than that.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

TOLERANCE, WINDOW = 0.01, 10


def losses(options, directory, precision):
    command = [options.aorta, "train", "--config", options.config, "--no-report", "--quiet", "--override",
               f"training.output_dir={directory}", f"device.kind={options.device}", "model.dropout=0",
               f"training.mixed_precision={precision}", f"training.max_steps={options.steps}"]
    if options.ranks > 1:
        command = [options.aorta, "launch", "-n", str(options.ranks), "--", *command]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        sys.exit(f"FAILED  {precision}: exit status {done.returncode}: {(done.stderr or done.stdout)[-600:]}")
    with open(os.path.join(directory, "rank_00_metrics.jsonl"), encoding="utf-8") as file:
        return [json.loads(line)["loss"] for line in file]


def means(values):
    return [sum(values[i:i + WINDOW]) / WINDOW for i in range(len(values) - WINDOW + 1)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aorta", required=True)
    parser.add_argument("--config", required=True)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        exact = losses(options, os.path.join(folder, "none"), "none")
        for precision in ("bf16", "fp16"):
            found = losses(options, os.path.join(folder, precision), precision)
            single = [abs(a / b - 1) for a, b in zip(found, exact)]
            running = [abs(a / b - 1) for a, b in zip(means(found), means(exact))]
            wrong = len(found) != len(exact) or max(running) > TOLERANCE
            failed |= wrong
            print(f"{'FAILED ' if wrong else 'ok     '} {precision}: {len(found)} steps, off by {max(single):.2e} at most, "
                  f"{sum(single) / len(single):.2e} in the mean; means over {WINDOW} steps by {max(running):.2e}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
