#!/usr/bin/env python3
"""What a step takes without its recording: everyday programs timed alone, then recorded, and what aorta says of it.

    unrecorded.py record OUT [--seconds 350] [--aorta BIN] [--set everyday|heldout] [--only NAME ...] [--device cuda|cpu]
                                                                                              on a GPU machine
    unrecorded.py check DIR ... --aorta BIN                                                   anywhere

`record` runs each program of everyday.py in a process of its own, or of heldout.py, with which nothing was fitted. Steps are timed first, without a profiler: several
repeats of many steps, with the device synchronised only at the ends of each. Then PyTorch's profiler records a few
steps: plain, and for some programs with shapes, stacks, memory, and all of these. With --aorta some programs run
again under `aorta trace run`. OUT gets truth.json, and traces0.tar … and spools.tar.gz of less than 16 MiB each. What
does not fit, or takes more than --seconds, is left out by importance, and truth.json says so.

`check` analyses each recording of such folders and prints a line: ms a step alone (median and range of its repeats), as
recorded, as predicted with its range, and predicted by alone. A program is device-bound where its host was a twentieth
ahead when timed alone. Then, of each sort: the bias, the spread, how many are within 15% (device-bound: 10%) and how many
ranges meet that of the repeats. Exit status 1 when a device-bound one is further off, or the bias of the host-bound is
10% or more: a single one of these differs by as much from run to run as two of its own repeats.
"""
import argparse
import collections
import glob
import gzip
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

from runs import Started, read_json, write_json

HERE = os.path.dirname(os.path.abspath(__file__))
WARMUP, REPEATS, REPEAT_SECONDS = 8, 5, 0.3
PROGRAM_SECONDS = 40            # one program with its recordings; then it is ended
AT_ONCE = 8                     # programs that import at the same time
LARGEST_FILE = 3 << 20          # of a packed trace
LARGEST_TAR, TRACE_TARS = 15 << 20, 3
VARIANTS = {"plain": {}, "shapes": {"record_shapes": True}, "stacks": {"with_stack": True},
            "memory": {"profile_memory": True},
            "full": {"record_shapes": True, "with_stack": True, "profile_memory": True}}
STACK_STEPS = 3                 # Python's frames fill a file
RUN_UNDER_AORTA = ["bert_checkpoint", "optimizer_for", "dlrm", "resnet50_fp32", "gpt2_small_batch", "vit_b16",
                   "trainer_loop", "lightning_loop", "jax_loop", "triton_loop", "gloo_ddp", "optimizer_fused",
                   "item_each_parameter", "captured_step", "faster_rcnn", "t5", "lora", "spectral_gan"]


# ---- recording (on the GPU machine) ----

class Clock:
    """Times steps of a program that calls `next` after each."""

    def __init__(self, place):
        import torch
        self.synchronize = torch.cuda.synchronize if place.device.type == "cuda" else lambda: None
        self.repeats_ms, self.host_ms, self.steps = [], [], 0

    def warm_up(self):
        """Yields after each step it wants to have run; then self.steps is known."""
        for _ in range(WARMUP):
            yield
        self.synchronize()
        begin = time.perf_counter()
        for _ in range(4):
            yield
        self.synchronize()
        self.steps = min(2000, max(4, round(REPEAT_SECONDS * 4 / (time.perf_counter() - begin))))

    def repeats(self, count):
        for _ in range(count):
            self.synchronize()
            begin = time.perf_counter()
            for _ in range(self.steps):
                yield
            host = time.perf_counter()
            self.synchronize()
            self.repeats_ms.append((time.perf_counter() - begin) * 1e3 / self.steps)
            self.host_ms.append((host - begin) * 1e3 / self.steps)


def profiled(place, variant, active, path, result):
    """Records `active` steps as path; yields after each step it wants to have run."""
    import torch
    activities = [torch.profiler.ProfilerActivity.CPU]
    if place.device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    schedule = torch.profiler.schedule(wait=1, warmup=3, active=active, repeat=1)
    stamps = []
    with torch.profiler.profile(activities=activities, schedule=schedule, on_trace_ready=lambda _: None,
                                **VARIANTS[variant]) as profile:
        for i in range(4 + active):
            yield
            if i >= 3:
                stamps.append(time.perf_counter())
            profile.step()
    profile.export_chrome_trace(path)
    result["recorded_ms"][variant] = statistics.median(b - a for a, b in zip(stamps, stamps[1:])) * 1e3


def whole_plan(place, program, out, result):
    """All of a program: steps alone, its recordings, steps alone again. The result is written at each stage."""
    name, clock = program.function.__name__, Clock(place)

    def keep():
        write_json(os.path.join(out, f"{name}.json"), result)
    yield from clock.warm_up()
    yield from clock.repeats(REPEATS)
    result.update(repeats_ms=clock.repeats_ms, host_ms=clock.host_ms, steps=clock.steps, recorded_ms={})
    keep()
    for variant in ("plain", *program.variants):
        active = STACK_STEPS if variant in ("stacks", "full") else program.active
        yield from profiled(place, variant, active, os.path.join(out, f"{name}.{variant}.json"), result)
        keep()
    again = Clock(place)
    again.steps = clock.steps
    yield from again.repeats(2)
    result["after_ms"] = again.repeats_ms
    keep()


def timed_plan(place, out, name, result):
    clock = Clock(place)
    yield from clock.warm_up()
    clock.steps = max(clock.steps, 12)
    yield from clock.repeats(2)
    result.update(repeats_ms=clock.repeats_ms, host_ms=clock.host_ms, steps=clock.steps)
    write_json(os.path.join(out, f"{name}.json"), result)


def programs(of_set=None):
    """By name; of all sets unless one is named."""
    import everyday
    import heldout
    sets = {"everyday": everyday.PROGRAMS, "under aorta": everyday.RUN_ONLY, "heldout": heldout.HELDOUT}
    return sets[of_set] if of_set else {name: one for all_of in sets.values() for name, one in all_of.items()}


def follow(plan, program, place):
    """Runs steps of the program until the plan ends."""
    import everyday

    def on_step():
        try:
            next(plan)
        except StopIteration:
            raise everyday.Done from None
    body = program.function(place)
    try:
        if program.drives:
            body(on_step)
        while True:
            body()
            on_step()
    except everyday.Done:
        pass


def run_program(name, out, device, under_aorta, gate):
    """In a process of its own; with a gate it waits, after its imports, until that file exists."""
    import importlib
    import torch
    sys.path.insert(0, HERE)
    import everyday
    program = programs()[name]
    for module in program.imports:
        importlib.import_module(module)
    if gate:
        write_json(gate + ".ready0", {})
        while not os.path.exists(gate):
            time.sleep(0.02)
    torch.manual_seed(0)
    place = everyday.Place(device, device == "cpu")
    result = {}
    plan = timed_plan(place, out, name, result) if under_aorta else whole_plan(place, program, out, result)
    follow(plan, program, place)


def started(name, options, before=(), more=()):
    """A program that waits for its turn."""
    gate = os.path.join(options.work, f"{name}.gate{'.aorta' if before else ''}")
    return Started([*before, sys.executable, os.path.abspath(__file__), "program", name, options.work, "--device",
                    options.device, "--gate", gate, *more], gate)


def in_turn(names, start, seconds, deadline):
    """Starts programs AT_ONCE at a time and yields (name, status, output) of one after the other; status "no time"."""
    for first in range(0, len(names), AT_ONCE):
        batch = names[first:first + AT_ONCE]
        if deadline - time.monotonic() < 15:
            yield from ((name, "no time", "") for name in batch)
            continue
        waiting = {name: start(name) for name in batch}
        for one in waiting.values():
            one.wait_ready(min(40, deadline - time.monotonic()))
        for name, one in waiting.items():
            left = deadline - time.monotonic()
            if left < 6:
                one.end()
                yield name, "no time", ""
            else:
                yield (name, *one.finish(min(seconds, left)))


def pack(path):
    """Packs a trace; the packed size."""
    with open(path, "rb") as source, gzip.open(path + ".gz", "wb", compresslevel=6) as target:
        shutil.copyfileobj(source, target, 1 << 20)
    os.remove(path)
    return os.path.getsize(path + ".gz")


def machine():
    import torch
    about = {"torch": torch.__version__, "cpus": os.cpu_count()}
    for key, words in {"gpu": ["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,clocks.mem", "--format=csv,noheader"],
                       "cpu": ["sh", "-c", "grep -m1 'model name' /proc/cpuinfo"]}.items():
        try:
            about[key] = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False).stdout.strip()
        except OSError:
            pass
    return about


def say_result(name, result):
    print(f"{name}: {result['step_ms']:.3f} ms alone ({min(result['repeats_ms']):.3f} to {max(result['repeats_ms']):.3f}), "
          f"host {statistics.median(result['host_ms']):.3f}; recorded "
          + ", ".join(f"{k} {v:.2f}" for k, v in result.get("recorded_ms", {}).items()), flush=True)


def record_programs(options, truth, names, deadline):
    sizes = {}
    for name, status, output in in_turn(names, lambda name: started(name, options), PROGRAM_SECONDS, deadline):
        result = read_json(os.path.join(options.work, f"{name}.json"))
        if result is None or "repeats_ms" not in result:
            truth["left_out"].append(f"{name}: {status or 'took too long'}")
            print(f"{name}: FAILED ({status})\n{output[-600:]}", flush=True)
            continue
        if status:
            result["ended_early"] = status
            print(f"{name}: {status}\n{output[-600:]}", flush=True)
        result["step_ms"] = statistics.median(result["repeats_ms"])
        truth["programs"][name] = result
        for path in glob.glob(os.path.join(options.work, f"{name}.*.json")):
            sizes[path + ".gz"] = pack(path)
        say_result(name, result)
        write_json(os.path.join(options.out, "truth.json"), truth)
    return sizes


def record_under_aorta(options, truth, deadline):
    """Programs under `aorta trace run`; the folder with a recording of each."""
    spools = os.path.join(options.work, "spools")
    os.makedirs(spools)
    known = {**programs(options.set), **(programs("under aorta") if options.set == "everyday" else {})}
    names = [n for n in RUN_UNDER_AORTA if n in known and (not options.only or n in options.only)]

    def start(name):
        path = os.path.join(options.work, f"{name}.json")
        if os.path.exists(path):
            os.remove(path)
        return started(name, options, [os.path.abspath(options.aorta), "trace", "run", "-o", os.path.join(spools, name), "--json",
                                       "--limit-mb", "64", "--"], ["--under-aorta"])
    for name, status, output in in_turn(names, start, PROGRAM_SECONDS, deadline):
        result = read_json(os.path.join(options.work, f"{name}.json"))
        if status != 0 or result is None:
            truth["left_out"].append(f"{name} under aorta: {status or 'took too long'}")
            print(f"{name} under aorta: FAILED ({status})\n{output[-600:]}", flush=True)
            shutil.rmtree(os.path.join(spools, name), ignore_errors=True)
            continue
        truth["under_aorta"][name] = {"repeats_ms": result["repeats_ms"], "step_ms": statistics.median(result["repeats_ms"])}
        print(f"{name} under aorta: {truth['under_aorta'][name]['step_ms']:.3f} ms a step", flush=True)
    return spools


def fill_tars(options, truth, sizes):
    """Traces by importance of their variant, then program, until the tar files are full."""
    order = list(truth["programs"])

    def importance(path):
        name, variant = os.path.basename(path).split(".")[:2]
        return ({"shapes": 0, "plain": 1}.get(variant, 0.5), order.index(name))
    bins = [[0, []] for _ in range(TRACE_TARS)]
    for path in sorted(sizes, key=importance):
        place = next((b for b in bins if b[0] + sizes[path] + 2048 <= LARGEST_TAR), None)
        if sizes[path] > LARGEST_FILE or place is None:
            truth["left_out"].append(f"{os.path.basename(path)}: {sizes[path] >> 10} KiB")
            continue
        place[0] += sizes[path] + 2048
        place[1].append(path)
    for number, (_, paths) in enumerate(bins):
        if paths:
            with tarfile.open(os.path.join(options.out, f"traces{number}.tar"), "w") as tar:
                for path in paths:
                    tar.add(path, os.path.basename(path))


def pack_spools(options, truth, spools):
    """As many recordings as fit, by importance."""
    path, names = os.path.join(options.out, "spools.tar.gz"), [n for n in RUN_UNDER_AORTA if n in truth["under_aorta"]]
    while names:
        with tarfile.open(path, "w:gz", compresslevel=6) as tar:
            for name in names:
                for file in glob.glob(os.path.join(spools, name, "*.spool")):
                    tar.add(file, os.path.join(name, os.path.basename(file)))
        if os.path.getsize(path) <= LARGEST_TAR:
            return
        truth["left_out"].append(f"spool of {names.pop()}: no place")
    if os.path.exists(path):
        os.remove(path)


def record(options):
    begin = time.monotonic()
    os.makedirs(options.out, exist_ok=True)
    sys.path.insert(0, HERE)
    truth = {"machine": machine(), "programs": {}, "under_aorta": {}, "left_out": []}
    with tempfile.TemporaryDirectory() as options.work:
        names = [n for n in programs(options.set) if not options.only or n in options.only]
        share = 0.74 if options.aorta else 0.95
        sizes = record_programs(options, truth, names, begin + options.seconds * share)
        fill_tars(options, truth, sizes)
        if options.aorta:
            pack_spools(options, truth, record_under_aorta(options, truth, begin + options.seconds * 0.97))
    write_json(os.path.join(options.out, "truth.json"), truth)
    for line in truth["left_out"]:
        print(f"left out: {line}")
    print(f"{len(truth['programs'])} programs, {len(sizes)} traces, {len(truth['under_aorta'])} under aorta, "
          f"{time.monotonic() - begin:.0f} s", flush=True)
    return 0


# ---- checking ----

def analysis_of(aorta, path):
    done = subprocess.run([aorta, "trace", "analyze", "--json", path], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{path}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def recordings_of(folder, work):
    """(name, sort, path) of all that a visit brought."""
    for tar in sorted(glob.glob(os.path.join(folder, "*.tar*"))):
        with tarfile.open(tar) as archive:
            archive.extractall(work, filter="data")
    for path in sorted(glob.glob(os.path.join(work, "*.json.gz"))):
        name, sort = os.path.basename(path).split(".")[:2]
        yield name, sort, path
    for path in sorted(glob.glob(os.path.join(work, "*", ""))):
        yield os.path.basename(os.path.dirname(path)), "trace run", path


def check_one(aorta, name, sort, path, truth):
    """The line of a recording: (host-bound, log of predicted by alone, whether the ranges meet)."""
    replay = analysis_of(aorta, path)["replay"]
    alone, repeats = truth["step_ms"], truth["repeats_ms"]
    recorded, predicted, ends = replay["measured_ms"], replay["unrecorded_ms"], replay["unrecorded_range_ms"]
    if not predicted:
        print(f"{name:22} {sort:10} {replay['unrecorded_reason'] or replay['reason']}")
        return None
    meets = ends[0] <= max(repeats) and ends[1] >= min(repeats)
    print(f"{name:22} {sort:10} alone {alone:8.2f} ({min(repeats):8.2f} to {max(repeats):8.2f})  recorded {recorded:8.2f}  "
          f"predicted {predicted:8.2f} ({ends[0]:8.2f} to {ends[1]:8.2f})  {predicted / alone:5.2f}{'' if meets else '  apart'}",
          flush=True)
    return statistics.median(truth["host_ms"]) > 0.95 * alone, math.log(predicted / alone), meets


def check(options):
    found = collections.defaultdict(list)
    for folder in options.folders:
        truth = read_json(os.path.join(folder, "truth.json"))["programs"]
        with tempfile.TemporaryDirectory() as work:
            for name, sort, path in recordings_of(folder, work):
                one = check_one(options.aorta, name, sort, path, truth[name]) if name in truth else None
                if one:
                    sort = "by trace run" if sort == "trace run" else "by torch.profiler"
                    found[("host" if one[0] else "device") + "-bound, " + sort].append(one[1:])
    wrong = False
    for sort, rows in sorted(found.items()):
        limit = 0.15 if sort.startswith("host") else 0.10
        errors = [error for error, _ in rows]
        bias = math.exp(statistics.mean(errors))
        near = sum(abs(math.expm1(error)) <= limit for error in errors)
        print(f"{sort}: {len(rows)}; predicted by alone {bias:.3f}, spread {statistics.pstdev(errors):.3f}; within {limit:.0%}: "
              f"{near}; ranges that meet: {sum(meets for _, meets in rows)}")
        wrong |= near < len(rows) if sort.startswith("device") else abs(math.log(bias)) > 0.1 and "torch" in sort
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True)
    one = what.add_parser("record")
    one.add_argument("out")
    one.add_argument("--seconds", type=float, default=350)
    one.add_argument("--aorta")
    one.add_argument("--set", choices=["everyday", "heldout"], default="everyday")
    one.add_argument("--only", nargs="+")
    one.add_argument("--device", default="cuda")
    one = what.add_parser("check")
    one.add_argument("folders", nargs="+")
    one.add_argument("--aorta", required=True)
    one = what.add_parser("program", help="one program, in this process")
    one.add_argument("name")
    one.add_argument("out")
    one.add_argument("--device", default="cuda")
    one.add_argument("--under-aorta", action="store_true")
    one.add_argument("--gate")
    options = parser.parse_args()
    if options.what == "record":
        return record(options)
    if options.what == "check":
        return check(options)
    return run_program(options.name, options.out, options.device, options.under_aorta, options.gate)


if __name__ == "__main__":
    sys.exit(main())
