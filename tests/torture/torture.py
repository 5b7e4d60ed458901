#!/usr/bin/env python3
"""Runs the program under faults, at moments of chance, and checks that nothing is lost and nothing is left.

    torture.py [--aorta build/release/aorta] [--minutes 5 | --hours 8] [--seed N] [--only FAULT ...] [--workers N]
               [--every [--first N]] [--keep] [--output DIR]

After each attempt: the job has ended in time, its exit code says whether it is whole, a sentence says why not, all lines of
metrics are whole and none that was reported is missing, no process, file or shared memory is left, and nothing was printed
raw. Attempts take turns; `--every` takes the Nth call, N = 1, 2, …, instead of calls by chance (with --hours the default),
until a run has no Nth call. `--workers N` is N of these at once, each with a seed and, as root, processes and shared memory of
its own, and one table.
Each failure is printed with the command that repeats it, and its folder stays. The exit status is then 1. `--output DIR`
receives table.md, log (the failures) and wrong.tar.gz (their folders).
"""
import argparse
import collections
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

import faults
import inputs
from job import Wrong

HERE = os.path.dirname(os.path.abspath(__file__))
# The program of a bundle (tools/bundle), else of the build.
AORTA = next(filter(os.path.exists, [os.path.join(HERE, "aorta")]), os.path.join(HERE, "..", "..", "build", "release", "aorta"))
ALL = faults.FAULTS + inputs.FAULTS
TITLES = {
    "kill_rank": "a rank is killed, at any moment", "stop_rank": "a rank is stopped for good, at any moment",
    "slow_rank": "a rank stands still for less than the timeout", "kill_launcher": "the launcher is killed",
    "interrupt": "Ctrl-C or SIGTERM, once or twice",
    "interrupt_sparse": "the same, or SIGKILL, of the sparse pipeline", "interrupt_sweep": "the same of a sweep", "kill_workload": "a rank of an hwq workload is killed or stopped",
    "trace_run": "trace run or its program is killed, ended or stopped",
    "cut_link": "the link between two hosts is cut, for good or for a while",
    "port_noise": "strangers at every port of the job: silent, rubbish, pieces of handshakes",
    "device_call": "the Nth call of the CUDA driver fails", "device_call_of_two": "the same, with collectives, on one of two ranks",
    "nccl_call": "the Nth call of NCCL fails on one of two ranks", "mpi_call": "the Nth call of Open MPI fails on one of two ranks",
    "full_disk": "a disk of N KiB",
    "file_call": "the Nth write, rename, close or the like of a file fails (disk, quota, network file system)", "removed_directory": "the output directory is removed", "two_jobs": "two jobs in one directory",
    "clock_jumps": "the time of day jumps by hours", "mutated_input": "a mutated file (JSONL, trace, spool, result, YAML)",
    "hostile_name": "hostile names of files and labels",
}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aorta", default=AORTA)
    parser.add_argument("--tests", help="folder of the build's tests; default: tests beside the program")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--hours", type=float)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--attempt", type=int, help="this attempt alone, of the seed's")
    parser.add_argument("--only", nargs="*", choices=sorted(TITLES), default=sorted(TITLES))
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--first", type=int, default=1, metavar="N", help="with --every: begin with the Nth call")
    parser.add_argument("--keep", action="store_true", help="keep the folders of all attempts")
    parser.add_argument("--output", metavar="DIR", help="write the table and what was wrong to this directory")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--counts", help=argparse.SUPPRESS)  # a worker's results, as JSON
    return parser.parse_args()


class Counts:
    """What happened: by fault the results, and how many were wrong; calls by whether their failure changed anything."""

    def __init__(self):
        self.results, self.failures = collections.defaultdict(list), collections.Counter()
        self.harmless, self.harmful = set(), set()
        self.wrong = []

    def save(self, path):
        with open(path, "w", encoding="utf-8") as file:
            json.dump([self.results, self.failures, sorted(self.harmless), sorted(self.harmful), self.wrong], file)

    def add(self, path):
        with open(path, encoding="utf-8") as file:
            results, failures, harmless, harmful, wrong = json.load(file)
        for name, happened in results.items():
            self.results[name] += happened
        self.failures.update(failures)
        self.harmless.update(harmless)
        self.harmful.update(harmful)
        self.wrong += wrong


def run_attempt(bench, fault, number, seed):
    """What happened; None and a message: something is wrong."""
    bench.random.seed(f"{seed}.{number}")
    bench.fresh(number)
    try:
        return fault(bench), None
    except Wrong as wrong:
        return None, str(wrong)
    except Exception:  # pylint: disable=broad-exception-caught # the other attempts go on
        return None, f"the harness: {traceback.format_exc()}"


def table(counts, seconds, seed, workers):
    tried = sum(len(rows) for rows in counts.results.values())
    side_by_side = f" on each of {workers} workers" if workers > 1 else ""
    lines = [f"{tried} attempts in {seconds / 60:.1f} minutes{side_by_side}, seed {seed}.", "",
             "| fault or input | tried | what happened | lost, left or wrong |", "| --- | --- | --- | --- |"]
    for name in sorted(counts.results, key=list(TITLES).index):
        happened = collections.Counter(result for result in counts.results[name] if result)
        text = "; ".join(f"{count} × {what}" for what, count in happened.most_common(4))
        lines.append(f"| {TITLES[name]} | {len(counts.results[name])} | {text} | {counts.failures[name] or 'nothing'} |")
    text = "\n".join(lines) + "\n"
    if counts.harmless:
        text += f"\nCalls whose failure changed nothing, at least once: {', '.join(sorted(counts.harmless))}.\n"
    if counts.harmful:
        text += f"\nCalls whose failure ended the run, at least once: {', '.join(sorted(counts.harmful))}.\n"
    return text


def attempts(arguments, root, budget_s):
    """One attempt after the other until the time is over; what is wrong is printed at once."""
    counts, begin, number = Counts(), time.monotonic(), arguments.attempt or 0
    aorta = os.path.abspath(arguments.aorta)
    tests = os.path.abspath(arguments.tests or os.path.join(os.path.dirname(aorta), "tests"))
    bench = faults.Bench(aorta, tests, root, arguments.seed, arguments.every or arguments.hours is not None, arguments.first)
    chosen = [fault for fault in ALL if fault.__name__ in arguments.only]
    while time.monotonic() - begin < budget_s or number < (arguments.attempt or 0) + 1:
        if not (left := [fault for fault in chosen if fault.__name__ not in bench.done]):
            break
        fault = left[number % len(left)]
        happened, wrong = run_attempt(bench, fault, number, arguments.seed)
        counts.results[fault.__name__].append(happened)
        if wrong:
            counts.failures[fault.__name__] += 1
            counts.wrong.append(f"attempt {number} of seed {arguments.seed}, {fault.__name__}: {wrong}")
            print(f"WRONG in attempt {number}, {fault.__name__}: {wrong}\n  its folder: {bench.folder}\n  again: {sys.argv[0]} "
                  f"--aorta {arguments.aorta} --seed {arguments.seed} --attempt {number} --only {' '.join(arguments.only)}", flush=True)
        elif not arguments.keep:
            shutil.rmtree(bench.folder, ignore_errors=True)
        number += 1
        if arguments.attempt is not None:
            break
    counts.harmless, counts.harmful = bench.harmless, bench.harmful
    return counts


def side_by_side(arguments, root, budget_s):
    """Workers, each this program with a seed of its own; they see no process and no shared memory of each other."""
    alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", 'mount -t tmpfs shm /dev/shm && exec "$@"', "sh"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        alone = []
    paths = [os.path.join(root, f"{i}.json") for i in range(arguments.workers)]
    workers = [subprocess.Popen([*alone, sys.executable, os.path.abspath(__file__), "--aorta", os.path.abspath(arguments.aorta),
                                 *(["--tests", os.path.abspath(arguments.tests)] if arguments.tests else []), "--minutes", str(budget_s / 60), "--seed",
                                 str(arguments.seed + i), "--counts", path, "--only", *arguments.only], env={**os.environ, "TMPDIR": root})
               for i, path in enumerate(paths)]
    counts = Counts()
    for worker, path in zip(workers, paths):
        worker.wait()
        if os.path.exists(path):
            counts.add(path)
        else:
            counts.failures["harness"] += 1
            counts.wrong.append(f"a worker ended with {worker.returncode} without its results")
            print(f"WRONG: {counts.wrong[-1]}", flush=True)
    return counts


def write_output(directory, root, text, counts):
    os.makedirs(directory, exist_ok=True)
    for name, content in (("table.md", text), ("log", "\n".join(counts.wrong) + "\n" if counts.wrong else "nothing was wrong\n")):
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            file.write(content)
    if counts.wrong:  # what passed has no folder any more
        subprocess.run(["tar", "-czf", os.path.join(directory, "wrong.tar.gz"), "--exclude=cache", "--exclude=corpus", "--warning=no-file-changed",
                        "-C", os.path.dirname(root), os.path.basename(root)], check=False)


def main():
    arguments = parse()
    root = tempfile.mkdtemp(prefix="aorta-torture-")
    begin, budget_s = time.monotonic(), (arguments.hours * 60 if arguments.hours else arguments.minutes) * 60
    print(f"torture: seed {arguments.seed}, folders in {root}", flush=True)
    counts = (side_by_side if arguments.workers > 1 else attempts)(arguments, root, budget_s)
    if arguments.counts:
        counts.save(arguments.counts)
    else:
        text = table(counts, time.monotonic() - begin, arguments.seed, arguments.workers)
        print(text)
        if arguments.output:
            write_output(arguments.output, root, text, counts)
    if not counts.failures and not arguments.keep:
        shutil.rmtree(root, ignore_errors=True)
    return 1 if counts.failures else 0


if __name__ == "__main__":
    sys.exit(main())
