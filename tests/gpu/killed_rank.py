#!/usr/bin/env python3
"""A rank that is killed, or stopped for good, in the middle of a run: the remaining ranks end in time, name
that rank, and leave whole files.

    killed_rank.py --aorta BIN/aorta --config config/default.yaml --ranks N [--device cuda]
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

TIMEOUT_S = 15


def lines_of(path):
    """The whole lines of a file that is being written, perhaps faster than it can be parsed."""
    try:
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file.read().split("\n")[:-1]]
    except FileNotFoundError:
        return []


def descends(process, ancestor):
    """Another run on this machine may have ranks, too."""
    while process > 1 and process != ancestor:
        try:
            with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
                process = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return process == ancestor


def rank_process(launcher, rank):
    """The process of a rank below the launcher, by its environment."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                environment = file.read().split(b"\0")
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                command = file.read().split(b"\0")
        except OSError:
            continue
        mine = int(entry) != launcher and f"RANK={rank}".encode() in environment
        if mine and len(command) > 1 and command[1] == b"train" and descends(int(entry), launcher):
            return int(entry)
    return None


def text_after(path, begin):
    with open(path, encoding="utf-8", errors="replace") as file:
        file.seek(begin)
        return file.read()


def attempt(options, directory, how, captured):
    command = [options.aorta, "launch", "-n", str(options.ranks), "--", options.aorta, "train", "--config",
               options.config, "--no-report", "--quiet", "--override", f"training.output_dir={directory}",
               f"device.kind={options.device}", "training.max_steps=1000000", "training.epochs=1000000",
               f"distributed.timeout_s={TIMEOUT_S}", f"compile.enabled={str(captured).lower()}"]
    victim = options.ranks - 1
    with open(os.path.join(directory, "log"), "w+", encoding="utf-8") as log:
        run = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        begun = time.monotonic()
        while len(lines_of(os.path.join(directory, "rank_00_metrics.jsonl"))) < 20:
            if run.poll() is not None or time.monotonic() - begun > 120:
                run.kill()
                log.seek(0)
                return [f"no 20 steps were made: {log.read()[-500:]}"]
            time.sleep(0.1)
        pid = rank_process(run.pid, victim)
        if pid is None:
            run.kill()
            return [f"the process of rank {victim} was not found"]
        before = log.seek(0, os.SEEK_END)
        os.kill(pid, how)
        struck = time.monotonic()
        named = None
        while run.poll() is None:
            if time.monotonic() - struck > 3 * TIMEOUT_S + 30:
                run.kill()
                return ["the job hangs"]
            if named is None and f"rank {victim}" in text_after(log.name, before):
                named = time.monotonic() - struck
            time.sleep(0.1)
        status, took = run.returncode, time.monotonic() - struck
        text = text_after(log.name, before)
        if named is None and f"rank {victim}" in text:
            named = took
    wrong = []
    if status == 0:
        wrong.append("exit status 0")
    if f"rank {victim}" not in text:
        wrong.append(f"rank {victim} is not named: {text[-400:]}")
    steps = [len(lines_of(os.path.join(directory, f"rank_{rank:02d}_metrics.jsonl"))) for rank in range(options.ranks)]
    if min(steps) < 20:
        wrong.append(f"whole lines by rank: {steps}")
    message = next((line for line in text.splitlines() if f"rank {victim}" in line), "").strip()
    seconds = "-" if named is None else f"{named:.1f}"
    print(f"{'FAILED ' if wrong else 'ok     '} {signal.Signals(how).name} {'captured' if captured else 'eager'}: named after "
          f"{seconds} s, ended after {took:.1f} s, status {status}, lines {steps}: {message[:200]}", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aorta", required=True)
    parser.add_argument("--config", required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    failed = False
    for how, captured in ((signal.SIGKILL, False), (signal.SIGKILL, True), (signal.SIGSTOP, True)):
        with tempfile.TemporaryDirectory() as directory:
            wrong = attempt(options, directory, how, captured)
        for sentence in wrong:
            print(f"        {sentence}", flush=True)
        failed |= bool(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
