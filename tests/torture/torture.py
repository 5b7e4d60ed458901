#!/usr/bin/env python3
"""Runs the program under faults, at moments of chance, and checks that nothing is lost and nothing is left.

    torture.py [--aorta build/release/aorta] [--minutes 5 | --hours 8] [--seed N] [--only FAULT ...]
               [--every [--first N]] [--keep] [--markdown FILE]

After each attempt: the job has ended in time, its exit code says whether it is whole, a sentence says why not, all lines of
metrics are whole and none that was reported is missing, no process, file or shared memory is left, and nothing was printed
raw. Attempts take turns; `--every` takes the Nth call, N = 1, 2, …, instead of calls by chance (with --hours the default),
until a run has no Nth call.
What is wrong is printed with the command that repeats it, and its folder stays. Exit status 1 then.
"""
import argparse
import collections
import os
import random
import shutil
import sys
import tempfile
import time

import faults
import inputs
from job import Wrong

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
ALL = faults.FAULTS + inputs.FAULTS
TITLES = {
    "kill_rank": "a rank is killed, at any moment", "stop_rank": "a rank is stopped for good, at any moment",
    "slow_rank": "a rank stands still for less than the timeout", "kill_launcher": "the launcher is killed",
    "interrupt": "Ctrl-C or SIGTERM, once or twice",
    "interrupt_sparse": "the same, or SIGKILL, of the sparse pipeline", "interrupt_sweep": "the same of a sweep", "kill_workload": "a rank of an hwq workload is killed or stopped",
    "trace_run": "trace run or its program is killed, ended or stopped",
    "cut_link": "the link between two hosts is cut, for good or for a while",
    "device_call": "the Nth call of the CUDA driver fails", "device_call_of_two": "the same, with collectives, on one of two ranks",
    "nccl_call": "the Nth call of NCCL fails on one of two ranks", "mpi_call": "the Nth call of Open MPI fails on one of two ranks",
    "full_disk": "a disk of N KiB", "removed_directory": "the output directory is removed", "two_jobs": "two jobs in one directory",
    "clock_jumps": "the time of day jumps by hours", "mutated_input": "a mutated file (JSONL, trace, result, YAML)",
    "hostile_name": "hostile names of files and labels",
}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aorta", default=os.path.join(ROOT, "build", "release", "aorta"))
    parser.add_argument("--tests", help="folder of the build's tests; default: tests beside the program")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--hours", type=float)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--attempt", type=int, help="this attempt alone, of the seed's")
    parser.add_argument("--only", nargs="*", choices=sorted(TITLES), default=sorted(TITLES))
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--first", type=int, default=1, metavar="N", help="with --every: begin with the Nth call")
    parser.add_argument("--keep", action="store_true", help="keep the folders of all attempts")
    parser.add_argument("--markdown", help="write the table to this file")
    return parser.parse_args()


def run_attempt(bench, fault, number, seed):
    """What happened; None and a message: something is wrong."""
    bench.random.seed(f"{seed}.{number}")
    bench.fresh(number)
    try:
        return fault(bench), None
    except Wrong as wrong:
        return None, str(wrong)


def table(results, failures, seconds, seed):
    lines = [f"{sum(len(rows) for rows in results.values())} attempts in {seconds / 60:.1f} minutes, seed {seed}.", "",
             "| fault or input | tried | what happened | lost, left or wrong |", "| --- | --- | --- | --- |"]
    for name in sorted(results, key=list(TITLES).index):
        happened = collections.Counter(result for result in results[name] if result)
        text = "; ".join(f"{count} × {what}" for what, count in happened.most_common(4))
        lines.append(f"| {TITLES[name]} | {len(results[name])} | {text} | {failures[name] or 'nothing'} |")
    return "\n".join(lines) + "\n"


def main():
    arguments = parse()
    root = tempfile.mkdtemp(prefix="aorta-torture-")
    aorta = os.path.abspath(arguments.aorta)
    tests = os.path.abspath(arguments.tests or os.path.join(os.path.dirname(aorta), "tests"))
    bench = faults.Bench(aorta, tests, root, arguments.seed, arguments.every or arguments.hours is not None, arguments.first)
    chosen = [fault for fault in ALL if fault.__name__ in arguments.only]
    results, failures = collections.defaultdict(list), collections.Counter()
    begin, budget = time.monotonic(), (arguments.hours * 60 if arguments.hours else arguments.minutes) * 60
    number = arguments.attempt or 0
    print(f"torture: seed {arguments.seed}, folders in {root}", flush=True)
    while time.monotonic() - begin < budget or number < (arguments.attempt or 0) + 1:
        if not (left := [fault for fault in chosen if fault.__name__ not in bench.done]):
            break
        fault = left[number % len(left)]
        happened, wrong = run_attempt(bench, fault, number, arguments.seed)
        results[fault.__name__].append(happened)
        if wrong:
            failures[fault.__name__] += 1
            print(f"WRONG in attempt {number}, {fault.__name__}: {wrong}\n  its folder: {bench.folder}\n  again: {sys.argv[0]} "
                  f"--aorta {arguments.aorta} --seed {arguments.seed} --attempt {number} --only {' '.join(arguments.only)}", flush=True)
        elif not arguments.keep:
            shutil.rmtree(bench.folder, ignore_errors=True)
        number += 1
        if arguments.attempt is not None:
            break
    text = table(results, failures, time.monotonic() - begin, arguments.seed)
    if bench.harmless:
        text += f"\nCalls whose failure changed nothing, at least once: {', '.join(sorted(bench.harmless))}.\n"
    if bench.harmful:
        text += f"\nCalls whose failure ended the run, at least once: {', '.join(sorted(bench.harmful))}.\n"
    print(text)
    if arguments.markdown:
        with open(arguments.markdown, "w", encoding="utf-8") as file:
            file.write(text)
    if not failures and not arguments.keep:
        shutil.rmtree(root, ignore_errors=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
