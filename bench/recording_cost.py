#!/usr/bin/python3
"""What recording costs: the step time of `aorta train` with its ranges recorded against `--no-record`.

    recording_cost.py [--rounds 8] [--config bench/small.yaml]

Runs alternate and change places every round, so that a drift of the machine meets both alike.
"""
import argparse
import os
import sys

from training import ROOT, aorta_steps, median, processor

STEPS, WARMUP = 60, 10
AIM = 1.01


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--config", default=os.path.join(ROOT, "bench", "small.yaml"))
    arguments = parser.parse_args()

    options = {"on": (), "off": ("--no-record",)}
    times, ratios = {"on": [], "off": []}, []
    for number in range(arguments.rounds):
        medians = {}
        for which in ("on", "off") if number % 2 == 0 else ("off", "on"):
            steps = aorta_steps(arguments.config, STEPS, WARMUP, options[which])
            times[which] += steps
            medians[which] = median(steps)
        ratios.append(medians["on"] / medians["off"])
    on, off = median(times["on"]), median(times["off"])
    print(f"recording, {len(times['on'])} steps each, on {processor()}:")
    print(f"  on {on:.3f} ms, off {off:.3f} ms, ratio {on / off:.4f} (aim {AIM}: {'met' if on / off <= AIM else 'NOT met'})")
    print(f"  ratio of single rounds: {min(ratios):.4f} to {max(ratios):.4f}, median {median(ratios):.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
