#!/usr/bin/env python3
"""What `aorta trace run` costs a PyTorch job, part by part.

    trace_run_cost.py --aorta BIN/aorta --script torch_fsdp2.py --config default.yaml [--gpus N] [--rounds R]
                      [--only processes stages parts settings] [--out FILE.json]

Four measurements, for four questions:

* processes: what does a user pay? The job as it is, with `--record kernels`, and with everything, by turns, each in a
  process of its own; the figures are those that the script prints.
* stages: what costs it, the recording or being there at all? Processes that take turns: the job as it is; the library
  loaded and CUPTI never opened; opened; its subscription taken and given back; callbacks registered and nothing enabled;
  kernels only; everything; the window to record over before the steps that are timed, with CUPTI finalized and with it
  left in; the window still ahead; and PyTorch's own profiler around the steps, as the best known tool. As many rounds
  as fit into --seconds (150), at least one, at most --rounds; --ways chooses some.
* parts: what does each kind of record cost? One process, recorded by `aorta trace run`; when the script is done (it
  calls torch.distributed.destroy_process_group), its step runs on, and CUPTI is told by turns to record nothing,
  kernels, copies too, and so on. Turns change place every round and are compared with "nothing" of the same round, so
  that neither another process nor a drift of the machine comes between.
* settings: would others be cheaper? "nothing" against everything with other settings of CUPTI or of the library
  (SETTINGS below), each in a process of its own, to be compared with the parts.

Steps are measured twice: each one followed by a synchronisation (median), and in a row (mean). With default.yaml on one
H100 about six minutes. Exit status 1 when a job fails; the aim (3%) is only reported.
"""
import argparse
import collections
import ctypes
import json
import os
import re
import runpy
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
AIM = 1.03
SETTLE_STEPS, SYNCHRONISED_STEPS, PIPELINED_STEPS = 2, 8, 8

# CUpti_ActivityKind, CUpti_ActivityAttribute
KERNEL, MEMCPY, MEMSET, MEMCPY_PEER = 10, 1, 2, 22
HOST_PINNED = 8

# name: arguments of `aorta trace run` (None: without it), environment of the library, words that must be printed
RECORDED = "aorta trace run: rank 0: process"
STAGES = {
    "plain": (None, {}, ""),
    "loaded": ([], {"AORTA_TRACE_STAGE": "loaded"}, "AORTA_TRACE_STAGE=loaded"),
    "opened": ([], {"AORTA_TRACE_STAGE": "opened"}, "AORTA_TRACE_STAGE=opened"),
    "subscribed": ([], {"AORTA_TRACE_STAGE": "subscribed"}, "AORTA_TRACE_STAGE=subscribed"),
    "registered": ([], {"AORTA_TRACE_STAGE": "registered"}, "AORTA_TRACE_STAGE=registered"),
    "kernels": (["--record", "kernels"], {}, RECORDED),
    "all": (["--record", "all"], {}, RECORDED),
    "over": (["--duration", "0.3"], {}, "initialised CUDA|as --duration says"),
    "over-attached": (["--duration", "0.3"], {"AORTA_TRACE_DETACH": "0"}, "initialised CUDA|as --duration says"),
    "ahead": (["--delay", "600"], {}, "initialised CUDA"),
    "torch.profiler": (None, {}, r"torch\.profiler recorded [1-9]"),
}

# What is recorded in each turn; each has all of those before it.
PARTS = ["nothing", "kernels", "copies and fills", "launches by the runtime", "launches by the driver",
         "waits and memory", "a flush five times a second"]
KINDS = {"kernels": [KERNEL], "copies and fills": [MEMCPY, MEMSET, MEMCPY_PEER]}

# name, environment of the library, attributes of CUPTI, ms between two rounds of CUPTI's worker thread (0: its choice)
SETTINGS = [
    ("CUPTI's times in pinned host memory", {}, {HOST_PINNED: 1}, 0),
    ("buffers of 1 MB", {"AORTA_TRACE_BUFFER_KB": "1024"}, {}, 0),
    ("CUPTI's worker every 100 ms", {}, {}, 100),
]


# ---- inside the job ----

def calls_of_the_library():
    """{part: [(runtime or driver, number)]} from the library's own table."""
    with open(os.path.join(ROOT, "src", "trace", "inject", "calls.c"), encoding="utf-8") as file:
        rows = re.findall(r'\{AORTA_CUPTI_KIND_(\w+), (\d+), "(\w+)"\}', file.read())
    calls = collections.defaultdict(list)
    for kind, number, name in rows:
        launches = any(word in name for word in ("Launch", "Memcpy", "Memset"))
        calls[f"launches by the {kind.lower()}" if launches else "waits and memory"].append((kind, int(number)))
    return calls


def loaded_cupti():
    with open("/proc/self/maps", encoding="utf-8") as file:
        paths = {line.split()[-1] for line in file if "libcupti.so" in line}
    if not paths:
        raise RuntimeError("no libcupti is loaded: is this PyTorch built for CUDA?")
    return ctypes.CDLL(sorted(paths)[0])


class Recording:
    """Switches what CUPTI records, behind the back of the library, which takes what comes."""

    def __init__(self, cupti):
        self.cupti, self.calls, self.on, self.flushing = cupti, calls_of_the_library(), set(PARTS[:-1]), None
        self.stop = threading.Event()

    def flush_often(self):
        while not self.stop.wait(0.2):
            self.cupti.cuptiActivityFlushAll(0)

    def switch(self, part, on):
        for kind in KINDS.get(part, []):
            (self.cupti.cuptiActivityEnable if on else self.cupti.cuptiActivityDisable)(kind)
        for kind, number in self.calls.get(part, []):
            choose = getattr(self.cupti, f"cuptiActivityEnable{kind.capitalize()}Api")
            choose(ctypes.c_uint32(number), ctypes.c_uint8(on))

    def record(self, last):
        """All parts up to `last`."""
        wished = set(PARTS[:PARTS.index(last) + 1])
        for part in PARTS:
            if (part in wished) != (part in self.on):
                self.switch(part, part in wished)
        self.on = wished
        flush = PARTS[-1] in wished
        if flush and not self.flushing:
            self.stop.clear()
            self.flushing = threading.Thread(target=self.flush_often, daemon=True)
            self.flushing.start()
        elif not flush and self.flushing:
            self.stop.set()
            self.flushing.join()
            self.flushing = None


def one_turn(step, synchronize):
    for _ in range(SETTLE_STEPS):
        step()
    synchronize()
    times = []
    for _ in range(SYNCHRONISED_STEPS):
        begin = time.perf_counter()
        step()
        synchronize()
        times.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    for _ in range(PIPELINED_STEPS):
        step()
    synchronize()
    return statistics.median(times) * 1e3, (time.perf_counter() - begin) / PIPELINED_STEPS * 1e3


def inside(plan, words):
    import torch
    import torch.distributed as dist

    cupti = loaded_cupti()
    for attribute, value in plan["attributes"].items():
        byte, size = ctypes.c_uint8(value), ctypes.c_size_t(1)
        result = cupti.cuptiActivitySetAttribute(int(attribute), ctypes.byref(size), ctypes.byref(byte))
        if result:
            raise RuntimeError(f"cuptiActivitySetAttribute({attribute}): CUPTI's error {result}")
    if plan["worker_ms"]:
        cupti.cuptiActivityFlushPeriod(ctypes.c_uint32(plan["worker_ms"]))
    end = dist.destroy_process_group

    def measure_first(*arguments, **named):
        step, rounds = sys._getframe(1).f_globals["step"], []
        recording = Recording(cupti)
        for number in range(plan["rounds"]):
            turns = plan["parts"] if number % 2 == 0 else plan["parts"][::-1]
            taken = {}
            for part in turns:
                torch.cuda.synchronize()
                recording.record(part)
                taken[part] = one_turn(step, torch.cuda.synchronize)
            rounds.append(taken)
        recording.record(PARTS[-2])
        if int(os.environ.get("RANK", "0")) == 0:
            with open(plan["result"], "w", encoding="utf-8") as file:
                json.dump(rounds, file)
        end(*arguments, **named)

    dist.destroy_process_group = measure_first
    sys.argv = words
    sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
    runpy.run_path(words[0], run_name="__main__")


def profiled(words):
    """The job with PyTorch's profiler, recording CUDA's side, from the end of its warm-up until all steps are timed."""
    import torch
    import torch.distributed as dist

    activities = [torch.profiler.ProfilerActivity.CUDA]
    profiler = torch.profiler.profile(activities=activities)
    started = []
    barrier, end = dist.barrier, dist.destroy_process_group

    def start_at_first(*arguments, **named):
        barrier(*arguments, **named)
        if not started:
            started.append(True)
            profiler.start()

    def stop_first(*arguments, **named):
        profiler.stop()
        results = getattr(profiler.profiler, "kineto_results", None)
        count = len(results.events()) if results else len(profiler.events())
        print(f"torch.profiler recorded {count} events", flush=True)
        end(*arguments, **named)

    dist.barrier, dist.destroy_process_group = start_at_first, stop_first
    sys.argv = words
    sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
    runpy.run_path(words[0], run_name="__main__")


# ---- outside ----

def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def job(options, words, environment):
    """Command and environment of a job; a single rank needs no launcher, which would take seconds."""
    environment = {**os.environ, **environment}
    if options.gpus > 1:
        return [sys.executable, "-m", "torch.distributed.run", "--standalone",
                f"--nproc_per_node={options.gpus}", *words], environment
    environment.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    return [sys.executable, *words], environment


def run(command, environment):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180, check=False,
                          env=environment)
    output = done.stdout + done.stderr
    if done.returncode:
        raise RuntimeError(f"exit status {done.returncode}: {' '.join(command)}\n{output[-2000:]}")
    return output


def step_times(output):
    """(synchronised, pipelined) in ms, as the script prints them."""
    found = re.search(r"step_ms_p50=([\d.]+) step_ms_pipelined=([\d.]+)", output)
    if not found:
        raise RuntimeError(f"the script printed no step time: {output[-1000:]}")
    return float(found.group(1)), float(found.group(2))


def check_recorded(output):
    if "aorta trace run: rank 0: process" not in output:
        raise RuntimeError(f"nothing was recorded, so nothing was paid: {output[-1000:]}")


def parts(options, name, rounds, turns, environment, attributes, worker_ms):
    with tempfile.TemporaryDirectory() as folder:
        plan = {"rounds": rounds, "parts": turns, "attributes": attributes, "worker_ms": worker_ms,
                "result": os.path.join(folder, "result.json")}
        plan_file = os.path.join(folder, "plan.json")
        with open(plan_file, "w", encoding="utf-8") as file:
            json.dump(plan, file)
        words = [os.path.abspath(__file__), "--inside", plan_file, options.script, options.config,
                 f"mode={options.mode}", "steps=5"]
        command, environment = job(options, words, environment)
        output = run([options.aorta, "trace", "run", "--", *command], environment)
        with open(plan["result"], encoding="utf-8") as file:
            taken = json.load(file)
    check_recorded(output)
    print(f"{name}: {rounds} rounds of {SYNCHRONISED_STEPS} + {PIPELINED_STEPS} steps each; more than \"{turns[0]}\"")
    show_parts(taken, turns)
    return taken


def show_parts(taken, turns):
    for which, title in enumerate(("synchronised", "pipelined")):
        base = statistics.median(turn[turns[0]][which] for turn in taken)
        print(f"  {title:14} {turns[0]:28} {base:8.3f} ms")
        for part in turns[1:]:
            more = [turn[part][which] - turn[turns[0]][which] for turn in taken]
            middle = statistics.median(more)
            print(f"  {'':14} + {part:26} {middle:+8.3f} ms {middle / base:+7.2%}   "
                  f"rounds {min(more):+.3f} to {max(more):+.3f}")
    sys.stdout.flush()


def processes(options):
    ways = {"plain": [], "kernels": ["--record", "kernels"], "all": ["--record", "all"]}
    times = collections.defaultdict(list)
    for number in range(options.rounds):
        for way in list(ways) if number % 2 == 0 else list(ways)[::-1]:
            command, environment = job(options, [options.script, options.config, f"mode={options.mode}",
                                                 f"steps={options.steps}"], {})
            if way != "plain":
                command = [options.aorta, "trace", "run", *ways[way], "--", *command]
            output = run(command, environment)
            if way != "plain":
                check_recorded(output)
            times[way].append(step_times(output))
    print(f"processes: {options.rounds} of each, {options.steps} steps synchronised, as many pipelined")
    for which, title in enumerate(("synchronised", "pipelined")):
        plain = statistics.median(taken[which] for taken in times["plain"])
        for way, taken in times.items():
            middle = statistics.median(one[which] for one in taken)
            each = " ".join(f"{one[which]:.3f}" for one in taken)
            print(f"  {title:14} {way:10} {middle:8.3f} ms {middle / plain - 1:+7.2%}   each {each}")
        met = statistics.median(one[which] for one in times["all"]) <= AIM * plain
        print(f"  {title:14} aim, at most {AIM - 1:.0%} for all: {'met' if met else 'NOT met'}")
    sys.stdout.flush()
    return times


def one_stage(options, way):
    """Times of one process and the line that `aorta trace run` said about it."""
    arguments, variables, expected = STAGES[way]
    words = [options.script, options.config, f"mode={options.mode}", f"steps={options.steps}"]
    if way == "torch.profiler":
        words = [os.path.abspath(__file__), "--profiled", *words]
    command, environment = job(options, words, variables)
    if arguments is not None:
        command = [options.aorta, "trace", "run", *arguments, "--", *command]
    output = run(command, environment)
    if not re.search(expected, output):
        raise RuntimeError(f'expected "{expected}" in: {output[-1500:]}')
    said = re.search(rf".*({expected}).*", output) if expected else None
    return step_times(output), said.group(0).strip() if said else ""


def show_stages(times, said):
    if not times["plain"]:
        print("  nothing to compare with: the job alone did not run")
        return
    for which, title in enumerate(("synchronised", "pipelined")):
        plain = statistics.median(one[which] for one in times["plain"])
        for way, taken in times.items():
            if not taken:
                continue
            middle = statistics.median(one[which] for one in taken)
            each = " ".join(f"{one[which]:.3f}" for one in taken)
            print(f"  {title:14} {way:20} {middle:8.3f} ms {middle / plain - 1:+7.2%}   each {each}")
    for way, line in said.items():
        print(f"  {way}: {line}")


def stages(options):
    chosen = [way for way in STAGES if way in ("plain", *options.ways)]
    times, said, failed = {way: [] for way in chosen}, {}, {}
    begin, longest, done = time.monotonic(), 0.0, 0
    while done < options.rounds and (not done or time.monotonic() - begin + longest <= options.seconds):
        since = time.monotonic()
        for way in chosen if done % 2 == 0 else chosen[::-1]:
            if way in failed:
                continue
            try:
                taken, line = one_stage(options, way)
                times[way].append(taken)
                said[way] = line
            except (RuntimeError, subprocess.TimeoutExpired) as error:  # one way that fails must not hide the others
                failed[way] = f"{error}"
                traceback.print_exc()
        longest = max(longest, time.monotonic() - since)
        done += 1
    print(f"stages: {done} processes of each, {options.steps} steps synchronised, as many pipelined, "
          f"{time.monotonic() - begin:.0f} s")
    show_stages(times, {way: line for way, line in said.items() if line})
    for way, error in failed.items():
        print(f"  {way} FAILED: {error}")
    sys.stdout.flush()
    return {"times": times, "failed": failed, "said": said}


def main():
    if sys.argv[1:2] == ["--profiled"]:
        return profiled(sys.argv[2:])
    if sys.argv[1:2] == ["--inside"]:
        with open(sys.argv[2], encoding="utf-8") as file:
            return inside(json.load(file), sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aorta", required=True)
    parser.add_argument("--script", required=True)
    parser.add_argument("--config", required=True)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3, help="of processes")
    parser.add_argument("--turns", type=int, default=6, help="rounds of turns within a process")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--mode", default="fsdp2")
    parser.add_argument("--seconds", type=float, default=150, help="of the stages: no further round begins that would "
                                                                   "end later")
    parser.add_argument("--ways", nargs="+", choices=STAGES, default=list(STAGES), help="stages to measure; plain always")
    measurements = ["processes", "stages", "parts", "settings"]
    parser.add_argument("--only", nargs="+", choices=measurements, default=measurements)
    parser.add_argument("--out", help="all samples as JSON")
    options = parser.parse_args()
    options.aorta, options.script = os.path.abspath(options.aorta), os.path.abspath(options.script)
    samples = {}
    if "processes" in options.only:
        samples["processes"] = processes(options)
    if "stages" in options.only:
        samples["stages"] = stages(options)
    if "parts" in options.only:
        samples["parts"] = parts(options, "parts", options.turns, PARTS, {}, {}, 0)
    if "settings" in options.only:
        for name, environment, attributes, worker_ms in SETTINGS:
            try:
                samples[name] = parts(options, name, options.turns, [PARTS[0], PARTS[-2]], environment, attributes,
                                      worker_ms)
            except (RuntimeError, subprocess.TimeoutExpired) as error:  # a setting may be refused; the others count
                print(f"{name}: {error}", flush=True)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(samples, file, indent=1)
    return 1 if samples.get("stages", {}).get("failed") else 0


if __name__ == "__main__":
    sys.exit(main())
