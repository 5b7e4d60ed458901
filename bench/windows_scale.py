#!/usr/bin/env python3
"""Time and memory of `aorta trace watch` for a window of many ranks.

    windows_scale.py --aorta BIN/aorta SPOOL [SPOOL …] [--ranks 8,64,512] [--late RANK:MS] [-- OPTIONS …]

SPOOL is a recording by `aorta trace run -o` of a rank of a job with data parallelism. The ranks take copies of them by
turns, with a rank, a process number and a node of their own (eight ranks each).
With --late that rank's all-reduces begin later by MS, and those of all other ranks end with it, in a second window; the
change must be named. OPTIONS go to `aorta trace watch`. Prints the size of the window, its steps, seconds of processor
and wall, and the most memory; exit status 1 where a window has no verdict or the change is not named.
"""
import argparse
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time

HEAD, PROCESS, TEXT, KERNEL, COPY, FILL, CALL, NOTE = 80, 1, 2, 4, 5, 6, 7, 9
STATE_AT, WINDOW_CLOSED = 24, 8


def padded(data):
    return data + bytes(-len(data) % 8)


def records(data):
    at = HEAD
    while at + 8 <= len(data):
        size, kind = struct.unpack_from("<IH", data, at)
        if size < 8 or at + size > len(data):
            break
        yield kind, data[at:at + size]
        at += size


class Spool:
    """A recording as parts that stay and those that differ from rank to rank."""

    def __init__(self, path):
        with open(path, "rb") as file:
            data = file.read()
        self.head = bytearray(data[:HEAD])
        struct.pack_into("<I", self.head, STATE_AT, WINDOW_CLOSED)
        self.rows, self.collectives, named = [], 0, set()
        self.first_ns, self.last_ns = None, 0
        for kind, row in records(data):
            if kind == TEXT:
                number, length = struct.unpack_from("<II", row, 8)
                if b"ncclDevKernel" in row[16:16 + length]:
                    named.add(number)
            is_collective = False
            if kind in (KERNEL, COPY, FILL, CALL):
                start, end = struct.unpack_from("<qq", row, 8)
                self.first_ns = start if self.first_ns is None else min(self.first_ns, start)
                self.last_ns = max(self.last_ns, end)
                is_collective = kind == KERNEL and struct.unpack_from("<I", row, 28)[0] in named
                self.collectives += is_collective
            self.rows.append((kind, is_collective, row))
        begin_ns = self.last_ns - (self.last_ns - self.first_ns) * 3 // 10     # what is before begins the program
        self.rows = [(kind, is_collective, row) for kind, is_collective, row in self.rows
                     if kind not in (KERNEL, COPY, FILL, CALL) or struct.unpack_from("<q", row, 8)[0] >= begin_ns]
        self.first_ns = begin_ns

    def write(self, path, rank, world, shift_ns, starts_ns, ends_ns):
        """Times move by shift_ns; starts and ends of collectives by so much more."""
        out = [bytes(self.head)]
        for kind, is_collective, row in self.rows:
            if kind == PROCESS:
                command, library, host = struct.unpack_from("<III", row, 48)
                fields = list(struct.unpack_from("<iiiiii", row, 8))
                fields[0], fields[2], fields[3], fields[4], fields[5] = 10000 + rank, rank, world, rank % 8, 8
                node = b"node%04d" % (rank // 8)
                texts = row[64:64 + command + library] + node
                row = (struct.pack("<IHH", 64 + len(padded(texts)), PROCESS, 0) + struct.pack("<6i", *fields) + row[32:48]
                       + struct.pack("<III", command, library, len(node)) + row[60:64] + padded(texts))
            elif kind in (KERNEL, COPY, FILL, CALL):
                start, end = struct.unpack_from("<qq", row, 8)
                row = bytearray(row)
                struct.pack_into("<qq", row, 8, start + shift_ns + (starts_ns if is_collective else 0),
                                 end + shift_ns + (ends_ns if is_collective else 0))
            out.append(bytes(row))
        with open(path, "wb") as file:
            file.write(b"".join(out))


def make_window(spools, folder, number, ranks, late_rank, late_ns):
    first_ns = min(spool.first_ns for spool in spools)
    length_ms = max(spool.last_ns for spool in spools) // 1000000 + 1 - first_ns // 1000000
    start_ms = (first_ns // 1000000 // length_ms + number) * length_ms
    window = os.path.join(folder, f"window-{start_ms}-{length_ms}")
    os.mkdir(window)
    shift_ns = start_ms * 1000000 - first_ns
    late_now = late_ns if number else 0
    for rank in range(ranks):
        spools[rank % len(spools)].write(os.path.join(window, f"{10000 + rank}-0.spool"), rank, ranks, shift_ns,
                                         late_now if rank == late_rank else 0, late_now)
    return sum(os.path.getsize(os.path.join(window, name)) for name in os.listdir(window))


def watch(aorta, folder, options):
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    lines = os.path.join(folder, "lines.jsonl")
    process = subprocess.Popen([aorta, "trace", "watch", folder, "--once", "--json-lines", lines, *options],
                               stderr=subprocess.PIPE, text=True)
    words = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(lines, encoding="utf-8") as file:
        windows = [json.loads(line) for line in file]
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return status, words, windows, wall, cpu, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aorta", required=True)
    parser.add_argument("--ranks", default="8,64,512")
    parser.add_argument("--late", default="5:3")
    parser.add_argument("spools", nargs="+")
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    arguments = parser.parse_args(words[:split])
    options = words[split + 1:]
    late_rank, late_ms = arguments.late.split(":")
    spools = [Spool(path) for path in arguments.spools]
    print(f"{(spools[0].last_ns - spools[0].first_ns) * 1e-9:.2f} s and {spools[0].collectives} collectives of a rank; "
          "seconds and memory of one window")
    print("ranks  MB of a window  steps  processor s  wall s  memory MB  change")
    good = True
    for ranks in map(int, arguments.ranks.split(",")):
        with tempfile.TemporaryDirectory(prefix="aorta-windows-") as folder:
            size = [make_window(spools, folder, number, ranks, int(late_rank), int(float(late_ms) * 1e6))
                    for number in range(2)][0]
            status, words, windows, wall, cpu, memory = watch(arguments.aorta, folder, options)
        change = windows[-1]["change"] or ""
        good &= status == 0 and all(w.get("step_ms") for w in windows) and f"rank {late_rank} is late by" in change
        count = len(windows)
        print(f"{ranks:5}  {size / 1e6:14.1f}  {windows[-1]['steps']:5}  {cpu / count:11.2f}  {wall / count:6.2f}  "
              f"{memory:9.0f}  {change}", flush=True)
        if status:
            print(words, file=sys.stderr)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
