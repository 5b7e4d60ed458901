#!/usr/bin/python3
"""Cuts a small Kineto trace out of a large one, keeping the text of what it keeps, and prints its exact figures.

    cut.py TRACE[.gz] OUT [--around REGEX] [--work 24]

The cut has the head, so many kernels and copies from just before the first kernel whose name fits and whose
launch is in the file, their launches and
operations, the annotations and requests around these, waiting calls in between, and one event of every other sort.
The figures are for tests/trace/test_kineto_read.c.
"""
import argparse
import decimal
import gzip
import json
import re

CALLS = ("cuda_runtime", "cuda_driver")
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")


def events_of(text):
    """(raw text, value) of every event, and the text before and after them."""
    decoder = json.JSONDecoder()
    place = text.index("[", text.index('"traceEvents"')) + 1
    head, found = text[:place], []
    while True:
        while text[place] in " \r\n\t,":
            place += 1
        if text[place] == "]":
            return head, found, text[place:]
        value, end = decoder.raw_decode(text, place)
        found.append((text[place:end], value))
        place = end


def nanoseconds(event):
    start = int(decimal.Decimal(str(event["ts"])) * 1000)
    return start, start + int(decimal.Decimal(str(event["dur"])) * 1000)


def union(intervals):
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def length(intervals):
    return sum(end - start for start, end in union(intervals))


def choose(events, pattern, count):
    work = sorted((e["ts"], i) for i, (_, e) in enumerate(events) if e.get("cat") in DEVICE)
    launched = {e["args"].get("correlation") for _, e in events if e.get("cat") in CALLS}
    first = next(n for n, (_, i) in enumerate(work) if re.search(pattern, events[i][1]["name"])
                 and events[i][1]["args"].get("correlation") in launched)
    first = max(0, first - count // 3)
    picked = {i for _, i in work[first:first + count]}
    chosen = [events[i][1] for i in picked]
    correlations = {e["args"].get("correlation") for e in chosen}
    operations = {e["args"].get("External id") for e in chosen}
    launches = []
    for i, (_, e) in enumerate(events):
        arguments = e.get("args", {})
        if e.get("cat") in CALLS and arguments.get("correlation") in correlations:
            picked.add(i)
            launches.append(e)
        if e.get("cat") == "cpu_op" and arguments.get("External id") in operations:
            picked.add(i)
    low, high = min(e["ts"] for e in launches), max(e["ts"] for e in launches)
    sorts = set()
    for i, (_, e) in enumerate(events):
        around = [l for l in launches if e.get("ph") == "X" and l["tid"] == e.get("tid") and
                  float(e["ts"]) <= l["ts"] <= float(e["ts"]) + float(e["dur"])]
        if e.get("name") == "record_param_comms" and around:
            picked.add(i)
        if e.get("cat") == "user_annotation" and (around or "ProfilerStep" in e["name"]):
            picked.add(i)
        if "Synchronize" in e.get("name", "") and e.get("cat") == "cuda_runtime" and low <= e["ts"] <= high:
            picked.add(i)
        sort = (e.get("ph"), e.get("cat"), e["name"] if e.get("ph") == "M" else "")
        if sort not in sorts and e.get("cat") not in DEVICE + ("cpu_op",):
            sorts.add(sort)
            picked.add(i)
    return sorted(picked)


def figures(events):
    device = [e for e in events if e.get("cat") in DEVICE]
    kernels = [e for e in device if e["cat"] == "kernel"]
    comm = [nanoseconds(e) for e in kernels if re.match("nccl|rccl", e["name"])]
    compute = [nanoseconds(e) for e in kernels if not re.match("nccl|rccl", e["name"])]
    every = [nanoseconds(e) for e in device]
    overlap = length(comm) + length(compute) - length(comm + compute)
    return {"events": len(events), "work": len(device), "compute": length(compute), "comm": length(comm),
            "overlap": overlap, "busy": length(every), "first": min(s for s, _ in every), "last": max(e for _, e in every)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("out")
    parser.add_argument("--around", default=".")
    parser.add_argument("--work", type=int, default=24)
    arguments = parser.parse_args()
    opener = gzip.open if arguments.trace.endswith(".gz") else open
    with opener(arguments.trace, "rt") as file:
        head, events, tail = events_of(file.read())
    if len(head) > 20000:  # a long description before the events
        head = '{\n"traceEvents": ['
    picked = [events[i] for i in choose(events, arguments.around, arguments.work)]
    with open(arguments.out, "w") as file:
        file.write(head + "\n  " + ",\n  ".join(raw for raw, _ in picked) + "\n  " + tail)
    print(arguments.out, figures([value for _, value in picked]))


if __name__ == "__main__":
    main()
