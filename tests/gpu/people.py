#!/usr/bin/env python3
"""Ordinary programs as people write them: timed alone, then recorded as their owners would, and what aorta says of them.

    people.py record OUT --aorta BIN --gpus 1|2 [--seconds 500] [--only NAME ...]       on a GPU machine
    people.py check DIR --aorta BIN                                                     anywhere

The programs are the scripts of people/, each run as it stands: `python3 script` or torchrun with two processes. `record`
runs each alone first, then under `aorta trace run`, or with the profiler that the script has. OUT gets truth.json (ms a
step alone and recorded, rank 0) and people-1.tar.xz … people-6.tar.xz of at most 14 MB each, with a folder for each
program. A program that lacks a module, fails, finds no time within --seconds or does not fit is named and left out.
`check` prints the ten lines of each recording beside what is known of it.
"""
import argparse
import collections
import importlib.metadata
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from runs import end, last_lines, pack, read_json, run, torchrun, unpack

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "people")
ALONE_SECONDS, RECORDED_SECONDS, PACKING_SECONDS = 60, 90, 45
LIMIT_MB = 32                   # of one process's records
MODULES = ["torch", "torchvision", "transformers", "pytorch_lightning", "jax", "triton", "cupy-cuda13x", "cupy-cuda12x"]

# `gpus`: where it belongs; `ranks`: 2 runs under torchrun; `how`: "run" is `aorta trace run`, "profiler" the script's own.
# `twin`: the program that is the same without the cause; `beside`: a script that runs meanwhile.
Program = collections.namedtuple("Program", "name gpus ranks how script words what twin env beside")


def program(name, gpus, script, what, words=(), ranks=None, how="run", twin=None, env=None, beside=None):
    return Program(name, gpus, ranks or gpus, how, script, list(words), what, twin, env or {}, beside)


ONE = [
    program("item_each", 1, "item.py", "161 .item() a step for the gradients' norms", ["each"], twin="item_once"),
    program("item_once", 1, "item.py", "the norms stay on the device", ["once"]),
    program("item_none", 1, "item.py", "no norms", ["none"]),
    program("jax_read", 1, "jax_train.py", "float(loss) each step", ["1"], twin="jax_free"),
    program("jax_free", 1, "jax_train.py", "float(loss) each tenth step", ["10"]),
    program("graph", 1, "graph.py", "most time is in scatter and gather kernels"),
    program("gpt2_checkpoint", 1, "gpt2.py", "recorded with shapes; host-bound", how="profiler"),
    program("cycles", 1, "cycles.py", "two cycles of the profiler's schedule", how="profiler"),
    program("resnet", 1, "resnet.py", "compute-bound"),
    program("resnet_disturbed", 1, "resnet.py", "another process multiplies matrices on the GPU", twin="resnet",
            beside="burn.py"),
    program("gloo_cpu", 1, "gloo_cpu.py", "gloo on CPU tensors; nothing on a device", ranks=2),
    program("gloo_cpu_profiled", 1, "gloo_cpu_profiled.py", "gloo on CPU tensors", ranks=2, how="profiler"),
    program("triton_loop", 1, "triton_loop.py", "two Triton kernels in a loop"),
    program("trainer", 1, "trainer.py", "transformers' Trainer"),
    program("lightning", 1, "lightning_fit.py", "Lightning with a small net"),
    program("generate", 1, "generate.py", "a step is an answer of 32 tokens"),
    program("unequal", 1, "unequal.py", "sequences of other lengths in each step"),
    program("lstm", 1, "lstm.py", "the optimizer is a loop over parameters; loss.item() each step"),
    program("unet", 1, "unet.py", "copies from pageable memory and two .item() each step"),
    program("cupy_loop", 1, "cupy_loop.py", "float() of the shift each step"),
    program("compiled", 1, "compiled.py", "torch.compile"),
    program("vit_profiled", 1, "vit.py", "recorded without shapes; a pageable copy each step", how="profiler"),
    program("dlrm_profiled", 1, "dlrm.py", "batches are made on the host; recorded with stacks", how="profiler"),
    program("loader", 1, "loader.py", "the loader runs in the program's own thread"),
    program("policy", 1, "policy.py", "24 .item() a step, one for each action"),
]
TWO = [
    program("ddp_loader", 2, "ddp.py", "DDP with a loader; an all-reduce of the loss each step", ["nccl"]),
    program("accumulate_sync", 2, "accumulate.py", "all gradients are reduced four times a step", ["sync"],
            twin="accumulate_no_sync"),
    program("accumulate_no_sync", 2, "accumulate.py", "gradients are reduced once a step", ["no_sync"]),
    program("fsdp2_one_connection", 2, "fsdp.py", "CUDA_DEVICE_MAX_CONNECTIONS=1", ["2"], twin="fsdp2",
            env={"CUDA_DEVICE_MAX_CONNECTIONS": "1"}),
    program("fsdp2", 2, "fsdp.py", "FSDP2", ["2"]),
    program("moe", 2, "moe.py", "the first rank's experts get most tokens; tolist() each step"),
    program("pipeline", 2, "pipeline.py", "two stages; the bubble and waiting sends"),
    program("unequal_two", 2, "unequal.py", "DDP; the work of ranks differs by turns"),
    program("embeddings", 2, "embeddings.py", "all-to-all of pooled embeddings, nothing hides it"),
    program("gloo_ddp", 2, "ddp.py", "gradients go over gloo through the host", ["gloo"], twin="ddp_loader"),
    program("ddp_profiled", 2, "ddp.py", "DDP, each rank under torch.profiler", ["nccl"], how="profiler"),
    program("fsdp2_profiled", 2, "fsdp.py", "FSDP2, each rank under torch.profiler", ["2"], how="profiler"),
    program("zero", 2, "zero.py", "ZeroRedundancyOptimizer broadcasts parameters"),
    program("fsdp1", 2, "fsdp.py", "FSDP1", ["1"]),
    program("tensor_parallel", 2, "tensor_parallel.py", "all-reduces in the layers, nothing hides them"),
    program("saves", 2, "saves.py", "rank 0 writes a checkpoint each sixth step"),
    program("trainer_two", 2, "trainer.py", "Trainer under DDP"),
    program("lightning_two", 2, "lightning_fit.py", "Lightning under DDP, a small net"),
    program("buckets", 2, "buckets.py", "buckets of 1 MB"),
    program("jax_two", 2, "jax_two.py", "one process, two devices; batches are made on the host", ranks=1),
]
PROGRAMS = {one.name: one for one in ONE + TWO}


# ---- recording ----

def command_of(one, script):
    words = [os.path.join(SCRIPTS, script), *one.words]
    if one.ranks == 1:
        return [sys.executable, *words]
    return torchrun(one.ranks, words)


def times(path):
    found = read_json(path)
    if not found:
        return None
    return {**found, "step_ms": statistics.median(found["blocks_ms"])}


def with_company(options, one, work):
    """Starts what runs beside a program, and waits until it is warm."""
    if not one.beside:
        return None
    with open(os.path.join(work, f"{one.name}.beside.log"), "w", encoding="utf-8") as log:
        process = subprocess.Popen([sys.executable, os.path.join(SCRIPTS, one.beside)], stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=log, start_new_session=True)
    time.sleep(options.company_seconds)
    return process


def record_one(options, one, work):
    """(the truth of a program, None) or (None, why there is none)."""
    folder = os.path.join(work, one.name)
    os.makedirs(folder)
    env = {**os.environ, **one.env, "PEOPLE_TIMES": os.path.join(work, f"{one.name}.alone.json")}
    log = os.path.join(work, f"{one.name}.alone.log")
    status = run(command_of(one, one.script), env, log, ALONE_SECONDS)
    alone = times(env["PEOPLE_TIMES"])
    if status or alone is None:
        return None, f"alone: {'took too long' if status is None else f'status {status}'}: {last_lines(log)}"
    env["PEOPLE_TIMES"] = os.path.join(work, f"{one.name}.recorded.json")
    command, log = command_of(one, one.script), os.path.join(folder, "output.txt")
    if one.how == "run":
        command = [options.aorta, "trace", "run", "-o", os.path.join(folder, "spool"), "--limit-mb", str(LIMIT_MB), "--",
                   *command]
    else:
        env["PEOPLE_TRACES"] = folder
    company = with_company(options, one, work)
    try:
        status = run(command, env, log, RECORDED_SECONDS)
    finally:
        if company:
            end(company)
    recorded = times(env["PEOPLE_TIMES"])
    if status or recorded is None:
        return None, f"recorded: {'took too long' if status is None else f'status {status}'}: {last_lines(log)}"
    return {"what": one.what, "how": one.how, "ranks": one.ranks, "twin": one.twin, "env": one.env, "alone": alone,
            "recorded": recorded}, None


def machine():
    about = {"cpus": os.cpu_count()}
    for module in MODULES:
        try:
            about[module] = importlib.metadata.version(module)
        except importlib.metadata.PackageNotFoundError:
            about[module] = None
    try:
        about["gpu"] = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], timeout=20,
                                      capture_output=True, text=True, check=False).stdout.split("\n")
    except OSError:
        pass
    return about


def record(options):
    begin = time.monotonic()
    options.aorta = os.path.abspath(options.aorta)
    if not os.access(options.aorta, os.X_OK):
        sys.exit(f"people.py: --aorta {options.aorta}: no such program")
    os.makedirs(options.out, exist_ok=True)
    truth = {"machine": machine(), "programs": {}, "left_out": []}
    print("missing:", ", ".join(m for m in MODULES if not truth["machine"][m]) or "nothing", flush=True)
    slowest = 0
    with tempfile.TemporaryDirectory() as work:
        for one in PROGRAMS.values():
            if one.gpus != options.gpus or options.only and one.name not in options.only:
                continue
            before = time.monotonic()
            if before + min(slowest, 40) - begin > options.seconds - PACKING_SECONDS:
                truth["left_out"].append(f"{one.name}: no time")
                continue
            result, why = record_one(options, one, work)
            took = time.monotonic() - before
            slowest = max(slowest, took)
            if result is None:
                truth["left_out"].append(f"{one.name}: {why}")
                print(f"{one.name}: {why} ({took:.0f} s)", flush=True)
                shutil.rmtree(os.path.join(work, one.name))
                continue
            truth["programs"][one.name] = result
            print(f"{one.name}: {result['alone']['step_ms']:.2f} ms alone, {result['recorded']['step_ms']:.2f} recorded "
                  f"({took:.0f} s)", flush=True)
        truth["left_out"] += pack(work, list(truth["programs"]), options.out, "people")
    with open(os.path.join(options.out, "truth.json"), "w", encoding="utf-8") as file:
        json.dump(truth, file, indent=1)
    for line in truth["left_out"]:
        print(f"left out: {line}")
    print(f"{len(truth['programs'])} programs, {time.monotonic() - begin:.0f} s", flush=True)
    return 0 if truth["programs"] else 1


# ---- checking ----

def recordings(folder):
    """What to analyse in a program's folder: its spools together, or each cycle's traces together."""
    if os.path.isdir(os.path.join(folder, "spool")):
        return {"": [os.path.join(folder, "spool")]}
    cycles = collections.defaultdict(list)
    for file in sorted(os.listdir(folder)):
        if file.endswith(".json"):
            cycles[file.split("trace_")[-1]].append(os.path.join(folder, file))
    return cycles


def check_one(options, programs, name, folder):
    """Prints what is known and what aorta says; whether it said something."""
    one = programs[name]
    alone, twin = one["alone"]["step_ms"], programs.get(one["twin"])
    print(f"\n==== {name} ({one['how']}): {one['what']}")
    print(f"     {alone:.2f} ms a step alone ({min(one['alone']['blocks_ms']):.2f} to {max(one['alone']['blocks_ms']):.2f}), "
          f"host {statistics.median(one['alone']['host_ms']):.2f}; recorded {one['recorded']['step_ms']:.2f}"
          + (f"; {one['twin']}: {twin['alone']['step_ms']:.2f} ms alone" if twin else ""), flush=True)
    fine = True
    for cycle, paths in recordings(folder).items():
        if cycle and len(recordings(folder)) > 1:
            print(f"---- {cycle}", flush=True)
        done = subprocess.run([options.aorta, "trace", "analyze", *options.flags, *paths], capture_output=True, text=True,
                              check=False)
        print(done.stdout + done.stderr, end="", flush=True)
        fine = fine and done.returncode == 0
    return fine


def check(options):
    truth = read_json(os.path.join(options.dir, "truth.json"))
    if truth is None:
        sys.exit(f"people.py: {options.dir} has no truth.json")
    missing, fine = [], True
    with tempfile.TemporaryDirectory() as work:
        unpack(options.dir, work)
        for name in truth["programs"]:
            folder = os.path.join(work, name)
            if not os.path.isdir(folder):
                missing.append(name)
                continue
            fine = check_one(options, truth["programs"], name, folder) and fine
    for line in truth["left_out"] + [f"{name}: no recording" for name in missing]:
        print(f"left out: {line}")
    return 0 if fine else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True)
    one = what.add_parser("record")
    one.add_argument("out")
    one.add_argument("--aorta", required=True)
    one.add_argument("--gpus", type=int, choices=[1, 2], required=True)
    one.add_argument("--seconds", type=float, default=500)
    one.add_argument("--only", nargs="+", choices=sorted(PROGRAMS), metavar="NAME")
    one.add_argument("--company-seconds", type=float, default=8, help=argparse.SUPPRESS)
    one = what.add_parser("check")
    one.add_argument("dir")
    one.add_argument("--aorta", required=True)
    one.add_argument("--flags", nargs="*", default=[], help="of trace analyze, as --flags=--json")
    options = parser.parse_args()
    return record(options) if options.what == "record" else check(options)


if __name__ == "__main__":
    sys.exit(main())
