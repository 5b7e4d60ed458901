#!/usr/bin/python3
"""How much of the step of config/default.yaml's model is matrix products, and how these compare with the same products
called alone: one rank, one thread, fp32.

    gemm_share.py [--rounds 2]

The products of the step are its recorded ranges; alone they are measured by bench_ops_gemm. Both run in turn.
"""
import argparse
import collections
import json
import os
import re
import sys

from training import ROOT, aorta_lines, median, processor, run

STEPS, WARMUP = 6, 2
FUNCTIONS = {"linear_forward": "forward", "linear_backward_input": "dx", "linear_backward_weight": "dweight"}
ALONE = re.compile(r"(forward|dx|dweight) +fp32 +(\d+) x +(\d+) x +(\d+) +[\d.]+ us +([\d.]+) us")


def products_alone():
    """{(product, flops): ms} of each product called alone."""
    times = collections.defaultdict(list)
    for line in run([os.path.join(ROOT, "build", "release", "bench", "bench_ops_gemm")]).splitlines():
        match = ALONE.search(line)
        if match:
            product, *sizes, microseconds = match.groups()
            flops = 2 * int(sizes[0]) * int(sizes[1]) * int(sizes[2])
            times[product, flops].append(float(microseconds) / 1e3)
    return {key: median(values) for key, values in times.items()}


def products_of(line):
    """[(product, flops, ms)] of one step."""
    return [(FUNCTIONS[entry["metadata"]["function"]], round(entry["metadata"]["flops"]), entry["duration_ms"])
            for entry in line["profile"]["ranges"] if entry["metadata"]["function"] in FUNCTIONS
            and "flops" in entry["metadata"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()

    steps, in_step, alone = [], collections.defaultdict(list), collections.defaultdict(list)
    per_step = collections.Counter()
    for _ in range(arguments.rounds):
        for line in aorta_lines(os.path.join(ROOT, "config", "default.yaml"), STEPS, WARMUP):
            steps.append((line["step_ms"], sum(ms for _, _, ms in products_of(line))))
            per_step = collections.Counter((product, flops) for product, flops, _ in products_of(line))
            for product, flops, ms in products_of(line):
                in_step[product, flops].append(ms)
        for key, ms in products_alone().items():
            alone[key].append(ms)

    share = median([products / step for step, products in steps])
    print(f"matrix products in the step of config/default.yaml, fp32, one thread, on {processor()}:")
    print(f"  step {median([step for step, _ in steps]):.1f} ms, products {share:.1%} of it")
    known = [key for key in per_step if key in alone]
    inside = sum(per_step[key] * median(in_step[key]) for key in known)
    apart = sum(per_step[key] * median(alone[key]) for key in known)
    for key in sorted(known, key=lambda key: -per_step[key] * median(in_step[key])):
        product, flops = key
        print(f"  {per_step[key]:3} x {product:8} {flops / 1e9:5.2f} GFLOP: in the step {median(in_step[key]):7.2f} ms,"
              f" alone {median(alone[key]):7.2f} ms")
    if not known:
        sys.exit("no product of the step is among those of bench_ops_gemm")
    print(f"  these {sum(per_step[key] for key in known)} of {sum(per_step.values())} products: in the step {inside:.1f} ms,"
          f" alone {apart:.1f} ms, ratio {inside / apart:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
