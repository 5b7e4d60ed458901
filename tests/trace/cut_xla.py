#!/usr/bin/python3
"""Cuts both files that JAX's profiler wrote of one run to what began before a moment, for tests/trace/test_xplane.c.

    cut_xla.py DIR MICROSECONDS tests/trace/data        DIR has vm.xplane.pb and vm.trace.json.gz
"""
import gzip
import json
import os
import sys


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        begin = at
        key, at = varint(data, at)
        value = None
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            size = 8 if key & 7 == 1 else 4
            value, at = data[at:at + size], at + size
        yield key >> 3, value, data[begin:at]


def encode(number, data):
    def digits(value):
        out = bytearray()
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        return bytes(out) + bytes([value])
    return digits(number << 3 | 2) + digits(len(data)) + data


def get(data, number, otherwise=0):
    return next((value for n, value, _ in fields(data) if n == number), otherwise)


def cut_line(line, until, names, stats):
    """The line without late events, b"" if no event is left. Notes the numbers that the remaining events use."""
    start, out, remaining = get(line, 3), b"", False
    for number, value, raw in fields(line):
        if number == 4:
            if start + get(value, 2) // 1000 >= until:
                continue
            remaining = True
            names.add(get(value, 1))
            for stat in (v for n, v, _ in fields(value) if n == 4):
                stats |= {get(stat, 1), get(stat, 7)}
        out += raw
    return out if remaining else b""


def cut_plane(plane, until):
    """With the names and arguments that are still used."""
    names, stats, out = set(), {get(v, 1) for n, v, _ in fields(plane) if n == 6}, b""
    for number, value, raw in fields(plane):
        if number == 3:
            line = cut_line(value, until, names, stats)
            out += encode(3, line) if line else b""
        elif number in (1, 2, 6) or number == 4 and get(value, 1) in names or number == 5 and get(value, 1) in stats:
            out += raw
    return out


def main():
    folder, until, target = sys.argv[1], int(float(sys.argv[2]) * 1000), sys.argv[3]
    with open(os.path.join(folder, "vm.xplane.pb"), "rb") as file:
        space = file.read()
    wanted = (b"/device:", b"/host:CPU", b"Task Environment")
    planes = [cut_plane(v, until) for n, v, _ in fields(space) if n == 1 and get(v, 2, b"").startswith(wanted)]
    with open(os.path.join(target, "jax.xplane.pb"), "wb") as file:
        file.write(b"".join(encode(1, plane) for plane in planes))
    with gzip.open(os.path.join(folder, "vm.trace.json.gz")) as file:
        trace = json.load(file)
    trace["traceEvents"] = [e for e in trace["traceEvents"] if e.get("ph") != "X" or e["ts"] * 1000 < until]
    with open(os.path.join(target, "jax.trace.json"), "w") as file:
        json.dump(trace, file, separators=(",", ":"))


main()
