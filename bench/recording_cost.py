#!/usr/bin/python3
"""The cost of recording: the step time of `aorta train` with its default recording against `--no-record`.

    recording_cost.py [--rounds 8] [--config bench/small.yaml] [--ranks 1] [--timestamps] [--steps 60]
                      [--override KEY=VALUE ...]

On NVIDIA GPUs that is by records of kernels, with --timestamps by timestamps. On GPUs: --config config/default.yaml
--ranks 2 --steps 150 --override device.kind=cuda compile.enabled=true training.mixed_precision=bf16.
Runs alternate and change places every round, so that a drift of the machine affects both equally.
"""
import argparse
import os
import sys

from training import AORTA, ROOT, aorta_steps, median, processor

STEPS, WARMUP = 60, 10


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--config", default=os.path.join(ROOT, "bench", "small.yaml"))
    parser.add_argument("--aorta", default=AORTA)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--timestamps", action="store_true", help="ranges by timestamps, also on NVIDIA GPUs")
    parser.add_argument("--override", nargs="+", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()

    what, aim = "recording", 1.01
    options = {"on": ("--no-kernel-timing",) if arguments.timestamps else (), "off": ("--no-record",)}
    times, ratios = {"on": [], "off": []}, []
    for number in range(arguments.rounds):
        medians = {}
        for which in ("on", "off") if number % 2 == 0 else ("off", "on"):
            steps = aorta_steps(arguments.config, arguments.steps, WARMUP, options[which], arguments.override,
                                aorta=arguments.aorta, ranks=arguments.ranks)
            times[which] += steps
            medians[which] = median(steps)
        ratios.append(medians["on"] / medians["off"])
    on, off = median(times["on"]), median(times["off"])
    print(f"{what}, {len(times['on'])} steps each, on {processor()}:")
    print(f"  on {on:.3f} ms, off {off:.3f} ms, ratio {on / off:.4f} (aim {aim}: {'met' if on / off <= aim else 'NOT met'})")
    print(f"  ratio of single rounds: {min(ratios):.4f} to {max(ratios):.4f}, median {median(ratios):.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
