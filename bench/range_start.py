#!/usr/bin/env python3
"""Where ranges of collectives begin on NVIDIA GPUs: profiling.collective_start held against the kernels themselves.

    range_start.py [--aorta PROGRAM] [-n GPUS] [--config config/large.yaml] [--steps 60] [--rounds 2]
                   [--starts stream room before] [--override KEY=VALUE ...]

For each way, from runs with the kernel tracer: communication by ranges and by kernels, and by how much a range begins
before (-) or after (+) the kernel of its collective, and ends. From runs without it: the step time, beside that of runs
that record nothing. Steps are captured; rounds alternate.
"""
import argparse
import json
import os
import sys
import tempfile

from training import AORTA, ROOT, median, run

WARMUP = 10


def lines_of(arguments, flags, overrides):
    with tempfile.TemporaryDirectory() as directory:
        run([arguments.aorta, "launch", "-n", str(arguments.gpus), "--", arguments.aorta, "train", "--config",
             arguments.config, "--quiet", *flags, "--override", "compile.enabled=true", "compile.fullgraph=true",
             f"training.max_steps={WARMUP + arguments.steps}", f"training.output_dir={directory}", *overrides])
        with open(f"{directory}/rank_00_metrics.jsonl", encoding="utf-8") as file:
            return [json.loads(line) for line in file][WARMUP:]


def collectives(profile):
    """(collective, group size, group, number, stream) to start and end in us on the device clock, and whether its range
    began with room."""
    found = {}
    for one in profile["ranges"]:
        about = one["metadata"]
        if about["kind"] == "collective":
            key = (about["collective"], about["group_size"], about["group"], about["sequence"], one["stream"])
            origin = profile["origin_ns"] / 1e3
            found[key] = (origin + one["start_ms"] * 1e3, origin + one["end_ms"] * 1e3, "reached_ms" in about)
    return found


def compare(lines, found):
    for line in lines:
        if "kernel_profile" not in line:
            continue
        found["range"].append(line["profile"]["overlap"]["comm_ms"])
        found["kernel"].append(line["kernel_profile"]["overlap"]["comm_ms"])
        ranges, kernels = collectives(line["profile"]), collectives(line["kernel_profile"])
        for key in ranges.keys() & kernels.keys():
            found["start"].append(ranges[key][0] - kernels[key][0])
            found["end"].append(ranges[key][1] - kernels[key][1])
            found["room"].append(ranges[key][2])


def spread(values):
    values = sorted(values)
    at = lambda share: values[min(len(values) - 1, int(share * len(values)))]
    return f"{at(0.05):+.1f} / {median(values):+.1f} / {at(0.95):+.1f}, mean {sum(values) / len(values):+.1f} us"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aorta", default=AORTA)
    parser.add_argument("-n", "--gpus", type=int, default=2)
    parser.add_argument("--config", default=os.path.join(ROOT, "config", "large.yaml"))
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--starts", nargs="+", default=["stream", "room", "before", "kernel"])
    parser.add_argument("--override", nargs="+", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()

    found = {start: {"range": [], "kernel": [], "start": [], "end": [], "room": [], "step": []}
             for start in arguments.starts}
    plain = []
    for _ in range(arguments.rounds):
        plain += [line["step_ms"] for line in lines_of(arguments, ["--no-record"], arguments.override)]
        for start in arguments.starts:
            overrides = [f"profiling.collective_start={start}", *arguments.override]
            found[start]["step"] += [line["step_ms"] for line in lines_of(arguments, [], overrides)]
            compare(lines_of(arguments, ["--kernel-timing"], overrides), found[start])
    off = median(plain)
    print(f"{os.path.basename(arguments.config)}, {arguments.gpus} GPUs, captured; nothing recorded: {off:.3f} ms a step")
    for start, of in found.items():
        step = median(of["step"])
        print(f"{start}: step {step:.3f} ms ({step / off - 1:+.2%})")
        if not of["start"]:
            print("  no collective was traced")
            continue
        ranges, kernels = median(of["range"]), median(of["kernel"])
        print(f"  communication: ranges {ranges:.3f} ms, kernels {kernels:.3f} ms ({ranges / kernels - 1:+.1%}); "
              f"{sum(of['room'])} of {len(of['room'])} ranges began with room")
        print(f"  a range begins {spread(of['start'])} (5%, median, 95%) from its kernel, ends {spread(of['end'])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
