#!/usr/bin/env python3
"""How fast kernels are launched: tiny_kernel_stress beside the same launches in plain C on CUDA's driver.

    hwq_launch_rate.py [--bin BUILD] [--streams 1 8 32 64] [--rounds 3] [--device cuda]

BUILD holds aorta and bench_plain_launch (default: build/release, where the latter lies in bench/). The sides take
turns; each figure is the median over the rounds of the median iteration, ours from the gate before an iteration's first
kernel to its end on the device's clock, plain from the first launch to the last synchronisation on the host's.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

from training import ROOT, median

AIM = 0.95


def program(directory, name):
    for path in (os.path.join(directory, name), os.path.join(directory, "bench", name)):
        if os.path.exists(path):
            return path
    sys.exit(f"{name} is not in {directory}: build it first")


def run(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with status {done.returncode}\n{done.stderr[-800:]}")
    return done.stdout


def ours(aorta, streams, graph, device):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "result.json")
        run([aorta, "hwq", "run", "tiny_kernel_stress", "--streams", str(streams), "--iterations", "30", "--warmup", "5",
             "--device", device, "-q", "-o", path, *(["--graph"] if graph else [])])
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
    return result["figures"]["launches_per_iteration"]["value"] / result["latency_ms"]["p50"] * 1e3


def plain(bench, streams, graph):
    ms, launches = run([bench, str(streams), "graph" if graph else "eager"]).split()
    return int(launches) / float(ms) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 8, 32, 64])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    aorta, bench = program(arguments.bin, "aorta"), program(arguments.bin, "bench_plain_launch")
    print("launches a second            ours        plain   ratio")
    for graph in (False, True):
        for streams in arguments.streams:
            sides = {"ours": [], "plain": []}
            for _ in range(arguments.rounds):
                sides["ours"].append(ours(aorta, streams, graph, arguments.device))
                sides["plain"].append(plain(bench, streams, graph))
            a, b = median(sides["ours"]), median(sides["plain"])
            print(f"{'graph' if graph else 'eager'}, {streams:2} streams  {a:12.0f} {b:12.0f}  {a / b:6.3f} "
                  f"(aim {AIM}: {'met' if a / b >= AIM else 'NOT met'})", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
