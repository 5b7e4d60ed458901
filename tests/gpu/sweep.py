#!/usr/bin/env python3
"""Whether `aorta sweep` finds a planted knob on GPUs, in `aorta train` and in a PyTorch job under `aorta trace run`.

    tests/gpu/sweep.py PROGRAM [--ranks N] [--config FILE] [--steps 40] [--output DIR] [--job "python3 job.py {steps}"]

The planted knob of `aorta train` is compile.enabled (captured steps are shorter), that of the PyTorch job
CUDA_LAUNCH_BLOCKING (each launch waits for its kernel). Beside it stands a variable that nothing reads. With several ranks a third sweep tries NCCL's channels and threads with prefetching, whose result is printed and
not checked. Exit status 1 when the planted knob is not the most important, its worse value is the best, or the other
one counts.
"""
import argparse
import json
import os
import shlex
import subprocess
import sys

USELESS = "AORTA_NOTHING"


def sweep(options, name, arguments, command=()):
    directory = os.path.join(options.output, name)
    line = [options.program, "sweep", "-o", directory, "--timeout-s", "120", *arguments, *(["--", *command] if command else [])]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    print(f"== {name}: {shlex.join(line)}\n{done.stdout}{done.stderr[-2000:]}", flush=True)
    if done.returncode:
        return None
    with open(os.path.join(directory, "sweep.json"), encoding="utf-8") as file:
        return json.load(file)


def check(name, result, planted, good):
    """Sentences about what is wrong."""
    if not result:
        return [f"{name}: the sweep failed"]
    knobs = {knob["name"]: knob for knob in result["knobs"]}
    wrong = []
    if not knobs[planted]["beats_noise"]:
        wrong.append(f"{name}: {planted} is called noise")
    if knobs[USELESS]["beats_noise"]:
        wrong.append(f"{name}: {USELESS} is said to count")
    if result["best"]["values"][planted] != good:
        wrong.append(f"{name}: the best has {planted}={result['best']['values'][planted]}")
    if max(knobs.values(), key=lambda knob: knob["importance"] or 0)["name"] != planted:
        wrong.append(f"{name}: {planted} is not the most important")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--config", default="config/default.yaml")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--output", default="sweeps")
    parser.add_argument("--job")
    options = parser.parse_args()
    shared = ["--steps", str(options.steps), "--repeats", "2", "--env", f"{USELESS}=1,2"]
    train = ["--config", options.config, "-n", str(options.ranks), "--override", "device.kind=cuda"]
    captured = sweep(options, "train", [*train, "--grid", "compile.enabled=true,false", *shared])
    wrong = check("train", captured, "compile.enabled", "true")
    if options.job:
        blocking = sweep(options, "job", [*shared, "CUDA_LAUNCH_BLOCKING=unset,1"], shlex.split(options.job))
        wrong += check("job", blocking, "CUDA_LAUNCH_BLOCKING", "unset")
    if options.ranks > 1:
        knobs = ["--env", "NCCL_MAX_CTAS=unset,4,16", "NCCL_NTHREADS=unset,256", "--grid", "fsdp.forward_prefetch=true,false"]
        if not sweep(options, "nccl", [*train, *knobs, "--steps", str(options.steps)]):
            wrong.append("nccl: the sweep failed")
    print("\n".join(wrong) or "ok")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
