#!/usr/bin/env python3
"""growth.py AORTA COMMAND …: work grows about as its input does: four times the groups, threads, overlapping collectives, … of a
trace take less than eight times the processor time; what is quadratic takes sixteen."""
import json
import os
import resource
import subprocess
import sys
import tempfile

SMALL, FACTOR, LIMIT = 2500, 4, 8
START_S = 0.06  # of the program itself, twice


def event(category, name, start, length, thread, process=100, **args):
    return {"ph": "X", "cat": category, "name": name, "pid": process, "tid": thread, "ts": start, "dur": length, "args": args}


def launch(i, start, thread=1, length=0.5):
    return event("cuda_runtime", "cudaLaunchKernel", start, length, thread, correlation=i)


def kernel(i, start, length, stream=7, name="gemm", device=0):
    return event("kernel", name, start, length, stream, device, device=device, stream=stream, correlation=i)


def collective(i, start, length, stream, group):
    found = kernel(i, start, length, stream, "ncclDevKernel_AllReduce_Sum_f32_RING_LL")
    found["args"].update({"Collective name": "allreduce", "In msg nelems": 1000, "Group size": 2, "dtype": "Float",
                          "Process Group Name": str(group), "Process Group Ranks": "[0, 1]"})
    return found


def step(i, start, length):
    return event("user_annotation", f"ProfilerStep#{i}", start, length, 1)


SHAPES = {
    "groups": lambda n: [e for i in range(n) for e in (launch(i, 10 * i), collective(i, 10 * i + 3, 5, 20, i))],
    "threads": lambda n: [e for i in range(n) for e in (launch(i, 10 * i, 1000 + i), kernel(i, 10 * i + 3, 5))],
    "overlapping collectives": lambda n: [e for i in range(n) for e in (launch(i, i), collective(i, i + 3, 5 * n, 20 + i, 0))],
    "overlapping collectives of many groups":
        lambda n: [e for i in range(n) for e in (launch(i, i), collective(i, i + 3, 5 * n, 20 + i % 64, i))],
    "overlapping collectives between kernels":
        lambda n: [e for i in range(n // 2) for e in (launch(i, 4 * i), collective(i, 4 * i + 3, 20 * n, 20 + i, 0),
                                                      launch(n + i, 4 * i + 1), kernel(n + i, 4 * i + 4, 1))],
    "streams": lambda n: [e for i in range(n) for e in (launch(i, i), kernel(i, i + 3, 5 * n, 7 + i))],
    "steps": lambda n: [e for i in range(n) for e in (step(i, 10 * i, 10), launch(i, 10 * i), kernel(i, 10 * i + 3, 5))],
    "names": lambda n: [e for i in range(n) for e in (launch(i, 10 * i), kernel(i, 10 * i + 3, 5, 7, f"gemm_{i}"))],
    "nested ranges": lambda n: [e for i in range(n) for e in (event("user_annotation", f"a{i}", i, 2 * (n - i) + 10, 1),
                                                              launch(i, i), kernel(i, i + 3, 0.5))],
    "events at one time": lambda n: [e for i in range(n) for e in (launch(i, 5), collective(i, 7, 5, 20 + i % 8, i % 4))],
}


def write(path, events):
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2},
                   "traceEvents": events}, file)


def seconds(words):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    ended = subprocess.run(words, capture_output=True, check=False)
    if ended.returncode:
        sys.exit(f"{' '.join(words)}: exit {ended.returncode}: {ended.stderr[-300:]!r}")
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def main():
    aorta, commands, slow = sys.argv[1], sys.argv[2:], []
    with tempfile.TemporaryDirectory() as folder:
        for shape, make in SHAPES.items():
            paths = {}
            for count in (SMALL, FACTOR * SMALL):
                paths[count] = [os.path.join(folder, f"{count}.json")]
                write(paths[count][0], make(count))
            for command in commands:
                words = [aorta, *command.split(), *(["-o", os.path.join(folder, "out.json")] if "merge" in command else [])]
                few, many = (min(seconds(words + paths[count]) for _ in range(3)) for count in (SMALL, FACTOR * SMALL))
                print(f"{shape}, {command}: {few:.2f} s, {FACTOR} times as many {many:.2f} s")
                if many > LIMIT * few + START_S:
                    slow.append(f"{shape}, {command}")
    if slow:
        sys.exit(f"more than {LIMIT} times the time for {FACTOR} times as many: {'; '.join(slow)}")


if __name__ == "__main__":
    main()
