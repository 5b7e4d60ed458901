#!/usr/bin/env python3
"""Long and wide runs: memory, file descriptors and threads of every process stay flat.

    long_wide.py [--aorta build/release/aorta] [--only NAME] [--steps N]

Samples /proc of every rank. After the second third of the samples, descriptors and threads must not have grown at all and
memory by no more than GROWTH. Prints a table; exit status 1 when something grows or fails.
"""
import argparse
import os
import statistics
import sys
import tempfile
import time

from faults import CONFIG
from job import Job, read, remove

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
GROWTH = 0.02  # of the memory after the first third; a leak of 100 bytes a step is 1 MB in 10 000 steps
SLACK_KB = 1024
TINY = ["model.num_layers=2", "training.epochs=100000", "dataset.num_samples=2000", "logging.level=warning"]


def sample(pid):
    """KiB of its own (shared memory, Open MPI's between the ranks, is of all), descriptors, threads; None: it is gone."""
    status = dict(line.split(b":", 1) for line in read(f"/proc/{pid}/status").splitlines() if b":" in line)
    if b"RssAnon" not in status:
        return None
    try:
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None
    return int(status[b"RssAnon"].split()[0]), descriptors, int(status[b"Threads"])


def watch(job, word):
    """rank -> its samples, until the job ends."""
    samples = {}
    pids = {}
    while job.running():
        if not pids or job.elapsed() < 20:
            pids.update(job.ranks(word))
        for rank, pid in pids.items():
            taken = sample(pid)
            if taken:
                samples.setdefault(rank, []).append(taken)
        time.sleep(0.25)
    return samples


def growth(samples):
    """Greatest growth of any rank between the second and the last third: KiB, descriptors, threads; and the last figures.
    Medians: a file that is open for the moment of one sample is no growth."""
    worst, last = [0, 0, 0], [0, 0, 0]
    for taken in samples.values():
        if len(taken) < 9:
            continue
        # While a process ends its threads and descriptors go: the last samples are left out.
        third = len(taken) // 3
        early, late = taken[third:2 * third], taken[2 * third:-2] or taken[2 * third:]
        for i in range(3):
            before, after = (int(statistics.median(row[i] for row in rows)) for rows in (early, late))
            worst[i], last[i] = max(worst[i], after - before), max(last[i], after)
    return worst, last


def train(aorta, ranks, steps, *words):
    settings = ["training.output_dir=out", f"training.max_steps={steps}", "distributed.timeout_s=600", *TINY, *words]
    return [aorta, "launch", "-n", str(ranks), "--", aorta, "train", "--no-report", "--config", "tiny.yaml", "--override",
            *settings], "train"


def streams(aorta, count, iterations):
    return [aorta, "hwq", "run", "tiny_kernel_stress", "--device", "cpu", "--streams", str(count), "--iterations",
            str(iterations), "-q", "-o", "result.json"], "hwq"


def run(name, command, word, limit_s):
    """A row of the table, and whether it is as it should be."""
    folder = tempfile.mkdtemp(prefix="aorta-long-")
    with open(os.path.join(folder, "tiny.yaml"), "w", encoding="utf-8") as file:
        file.write(CONFIG)
    job = Job(folder, command, limit_s)
    samples = watch(job, word)
    code, seconds = job.wait(), job.elapsed()
    worst, last = growth(samples)
    counted = sum(len(taken) for taken in samples.values())
    good = code == 0 and worst[0] <= SLACK_KB + GROWTH * last[0] and not worst[1] and not worst[2] and last[0] > 0
    if not good:
        print(f"{name}: exit {code}, {counted} samples, growth {worst}: {job.output()[-400:]}")
    remove(folder)
    return (f"| {name} | {seconds:.0f} s | {last[0] / 1024:.1f} MiB, {worst[0] / 1024:+.2f} | {last[1]}, {worst[1]:+d} | "
            f"{last[2]}, {worst[2]:+d} |"), good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aorta", default=os.path.join(ROOT, "build", "release", "aorta"))
    parser.add_argument("--only", choices=["long", "ranks", "streams"])
    parser.add_argument("--steps", type=int, default=10000)
    parser.add_argument("--ranks", type=int, default=64)
    arguments = parser.parse_args()
    aorta = os.path.abspath(arguments.aorta)
    runs = {"long": (f"{arguments.steps} steps, 2 ranks", *train(aorta, 2, arguments.steps), 3600),
            "ranks": (f"{arguments.ranks} ranks, 100 steps", *train(aorta, arguments.ranks, 100, "fsdp.use_orig_params=false"), 3600),
            "streams": ("64 streams, 2000 iterations", *streams(aorta, 64, 2000), 1800)}
    lines, all_good = [], True
    for name, row in runs.items():
        if arguments.only in (None, name):
            line, good = run(*row)
            lines.append(line)
            all_good &= good
    print("| run | time | memory of the largest rank, growth | descriptors, growth | threads, growth |\n| --- | --- | --- | --- | --- |")
    print("\n".join(lines))
    return 0 if all_good else 1


if __name__ == "__main__":
    sys.exit(main())
