#!/usr/bin/env python3
"""Memory that reading and analysing recordings of `aorta trace run` needs, relative to the size of their spools.

    recording_memory.py [--build build/release] [SPOOL ...]

Without spools three are made on the stand-in of a GPU: steps of many kernels, of four, and of one.
"""
import argparse
import glob
import os
import subprocess
import sys
import tempfile

MADE = [("layers", "4000"), ("flood", "60000"), ("hours", "200")]


def peak_mib(command):
    """Peak memory of the command, which runs in its own child, as the kernel stores the largest of all children."""
    code = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)")
    return float(subprocess.run([sys.executable, "-c", code, *command], check=True, capture_output=True, text=True).stdout)


def record(build, folder, name, number):
    environment = {**os.environ, "LD_LIBRARY_PATH": f"{build}/tests/fake_gpu/cuda", "FAKE_CUPTI": glob.glob(f"{build}/tests/fake_cupti/libcupti.so*")[0]}
    output = os.path.join(folder, name)
    subprocess.run([f"{build}/aorta", "trace", "run", "-o", output, "--limit-mb", "64", "--", f"{build}/tests/record/program", name, number],
                   env=environment, check=False, capture_output=True)
    return max(glob.glob(f"{output}/*.spool"), key=os.path.getsize)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "build", "release"))
    parser.add_argument("spools", nargs="*", metavar="SPOOL")
    arguments = parser.parse_args()
    build = os.path.abspath(arguments.build)
    with tempfile.TemporaryDirectory() as folder:
        program = peak_mib([f"{build}/aorta", "--version"])
        for path in arguments.spools or [record(build, folder, *made) for made in MADE]:
            mib = os.path.getsize(path) / (1 << 20)
            read, analysed = (peak_mib(command) - program for command in ([f"{build}/bench/bench_trace_read", path], [f"{build}/aorta", "trace", "analyze", path]))
            print(f"{os.path.basename(os.path.dirname(path))}: spool {mib:.1f} MiB; reading {read:.0f} MiB, {read / mib:.1f} times; "
                  f"analysing {analysed:.0f} MiB, {analysed / mib:.1f} times (the program itself: {program:.0f} MiB)")


if __name__ == "__main__":
    main()
