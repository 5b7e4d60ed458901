#!/usr/bin/env python3
"""The cost of `aorta trace run` for a PyTorch job, part by part.

    trace_run_cost.py --aorta BIN/aorta --script torch_fsdp2.py --config default.yaml [--gpus N] [--rounds R]
                      [--seconds S] [--ways WAY ...] [--only stages parts settings] [--out FILE.json]

Three measurements, for three questions:

* stages: what does a user pay, and is it the recording, or CUPTI itself being loaded? Processes that take turns, timed
  by what the script prints: the job as it is; the library loaded and CUPTI never opened; opened; its subscription taken
  and given back; callbacks registered and nothing enabled; kernels only; everything. And three processes that measure
  themselves, once: "window" is recorded by `aorta trace run` for some seconds (--delay, --duration), its steps timed
before, while CUPTI records by turns nothing, kernels and everything, and after CUPTI was let go; "ladder"
  begins with nothing ever enabled, then calls, copies and kernels are recorded and not recorded, one after another;
  "torch.profiler" is as "window", with PyTorch's own profiler, the best known tool. No process begins that would end
  after --seconds (190), by the time of the earlier ones. --ways replaces the usual (plain, all, kernels,
  torch.profiler).
* parts: what does each kind of record cost? One process, recorded by `aorta trace run`; when the script is done (it
  calls torch.distributed.destroy_process_group), its step runs on, and CUPTI records by turns nothing,
  kernels, copies too, and so on. Turns change place every round and are compared with "nothing" of the same round, so
  that neither another process nor a drift of the machine comes between.
* settings: would other settings be cheaper? "nothing" against everything with other settings of CUPTI or of the library
  (SETTINGS below), each in its own process, to be compared with the parts.

Steps are measured twice: each one followed by a synchronisation (median), and in a row (mean). With default.yaml on one
H100 about three minutes for the stages and as many for parts and settings. Exit status 1 when a job fails; the aim (3%) is only
reported.
"""
import argparse
import collections
import ctypes
import glob
import json
import math
import os
import re
import runpy
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

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
    "all": (["--record", "all"], {}, RECORDED),
    "kernels": (["--record", "kernels"], {}, RECORDED),
    "torch.profiler": (None, {}, ""),
    "window": (["--delay", "12", "--duration", "12"], {}, "as --duration says"),
    "ladder": ([], {"AORTA_TRACE_STAGE": "registered"}, RECORDED),
    "registered": ([], {"AORTA_TRACE_STAGE": "registered"}, "AORTA_TRACE_STAGE=registered"),
    "subscribed": ([], {"AORTA_TRACE_STAGE": "subscribed"}, "AORTA_TRACE_STAGE=subscribed"),
    "opened": ([], {"AORTA_TRACE_STAGE": "opened"}, "AORTA_TRACE_STAGE=opened"),
    "loaded": ([], {"AORTA_TRACE_STAGE": "loaded"}, "AORTA_TRACE_STAGE=loaded"),
}
USUAL_STAGES = ["plain", "all", "kernels", "torch.profiler"]
MEASURE_THEMSELVES = ("window", "ladder", "torch.profiler")
WINDOW_TURNS = {"nothing": "nothing", "kernels": "kernels", "everything": "waits and memory"}  # up to this row of PARTS
LADDER = [[], ["launches by the runtime", "launches by the driver", "waits and memory"], [], ["copies and fills"], [],
          ["kernels"], []]
LADDER_TURNS = 4
MARGIN_SECONDS = 1.5  # CUPTI is left alone so long before the window ends
QUIET_TURNS = 5       # before and after, where nothing is recorded

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
    with open(os.path.join(ROOT, "src", "record", "inject", "records.c"), encoding="utf-8") as file:
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
    """Switches CUPTI's records without the knowledge of the library, which takes all that arrive."""

    def __init__(self, cupti, on):
        self.cupti, self.calls, self.on, self.flushing = cupti, calls_of_the_library(), set(on), None
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
        self.record_only(PARTS[:PARTS.index(last) + 1])

    def record_only(self, wished):
        wished = set(wished)
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


def take_parts(plan, step):
    import torch

    cupti = loaded_cupti()
    for attribute, value in plan["attributes"].items():
        byte, size = ctypes.c_uint8(value), ctypes.c_size_t(1)
        result = cupti.cuptiActivitySetAttribute(int(attribute), ctypes.byref(size), ctypes.byref(byte))
        if result:
            raise RuntimeError(f"cuptiActivitySetAttribute({attribute}): CUPTI's error {result}")
    if plan["worker_ms"]:
        cupti.cuptiActivityFlushPeriod(ctypes.c_uint32(plan["worker_ms"]))
    rounds, recording = [], Recording(cupti, PARTS[:-1])
    for number in range(plan["rounds"]):
        turns = plan["parts"] if number % 2 == 0 else plan["parts"][::-1]
        taken = {}
        for part in turns:
            torch.cuda.synchronize()
            recording.record(part)
            taken[part] = one_turn(step, torch.cuda.synchronize)
        rounds.append(taken)
    recording.record(PARTS[-2])
    return rounds


def agreed(value):
    """Rank 0's: all ranks must take the same steps."""
    import torch.distributed as dist

    if dist.get_world_size() == 1:
        return value
    values = [value]
    dist.broadcast_object_list(values, src=0)
    return values[0]


def phase():
    """Where this process's recording is: the head in src/trace/spool_format.h."""
    recording, stopped = 0, 7
    names = glob.glob(os.path.join(os.environ["AORTA_TRACE_SPOOL"], f"{os.getpid()}-*.spool"))
    if not names:
        raise RuntimeError("this process has no recording: is CUDA's driver real?")
    with open(names[0], "rb") as file:
        head = file.read(72)
    state, begun_ns = struct.unpack_from("<I", head, 24)[0], struct.unpack_from("<q", head, 64)[0]
    if state not in (recording, stopped):
        raise RuntimeError(f"the recording ended in state {state}")
    return "over" if state == stopped else "window" if begun_ns else "before"


def take_window(plan, step):
    """{turn: times}; the first turn of each phase is not counted, since something changed within or just before it."""
    import torch

    taken = collections.defaultdict(list)
    one_turn(step, torch.cuda.synchronize)
    while agreed(phase()) == "before":
        times = one_turn(step, torch.cuda.synchronize)
        if agreed(phase()) == "before":
            taken["before"].append(times)
    end = time.monotonic() + plan["window_seconds"] - MARGIN_SECONDS
    recording = Recording(loaded_cupti(), PARTS[:-1])
    one_turn(step, torch.cuda.synchronize)
    turns = list(WINDOW_TURNS)
    while agreed(time.monotonic() < end):
        for part in turns:
            if not agreed(time.monotonic() < end):
                break
            torch.cuda.synchronize()
            recording.record(WINDOW_TURNS[part])
            taken[part].append(one_turn(step, torch.cuda.synchronize))
        turns = turns[::-1]
    recording.record(WINDOW_TURNS["everything"])
    while agreed(phase()) != "over":
        time.sleep(0.1)
    time.sleep(1)  # CUPTI is let go at the next call
    one_turn(step, torch.cuda.synchronize)
    for _ in range(QUIET_TURNS):
        taken["after"].append(one_turn(step, torch.cuda.synchronize))
    return taken


def take_ladder(_plan, step):
    """The cost of CUPTI after it was on and is off again: one part after another, in a process without any."""
    import torch

    taken, recording = {}, Recording(loaded_cupti(), [])
    for number, wished in enumerate(LADDER):
        torch.cuda.synchronize()
        recording.record_only(wished)
        one_turn(step, torch.cuda.synchronize)
        name = f"{number}: {wished[0] if len(wished) == 1 else 'calls' if wished else 'nothing'}" if number else "before"
        taken[name] = [one_turn(step, torch.cuda.synchronize) for _ in range(LADDER_TURNS)]
    return taken


def take_profiler(plan, step):
    """As above, with PyTorch's profiler: only the GPU's side, and as most use it, with the host's."""
    import torch

    cpu, cuda = torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA
    taken = collections.defaultdict(list)
    one_turn(step, torch.cuda.synchronize)
    for _ in range(QUIET_TURNS):
        taken["before"].append(one_turn(step, torch.cuda.synchronize))
    for _ in range(plan["rounds"]):
        for name, activities in (("CUDA", [cuda]), ("CPU and CUDA", [cpu, cuda])):
            profiler = torch.profiler.profile(activities=activities)
            profiler.start()
            taken[name].append(one_turn(step, torch.cuda.synchronize))
            profiler.stop()
            results = getattr(profiler.profiler, "kineto_results", None)
            count = len(results.events()) if results else len(profiler.events())
            if not count:
                raise RuntimeError("torch.profiler recorded nothing")
            print(f"torch.profiler, {name}: {count} events", flush=True)
        taken["after"].append(one_turn(step, torch.cuda.synchronize))
    return taken


TAKE = {"parts": take_parts, "window": take_window, "ladder": take_ladder, "torch.profiler": take_profiler}


def inside(plan, words):
    """Runs the script, and takes the measurement with its step when it is done."""
    import torch.distributed as dist

    end = dist.destroy_process_group

    def measure_first(*arguments, **named):
        taken = TAKE[plan["measure"]](plan, sys._getframe(1).f_globals["step"])
        if int(os.environ.get("RANK", "0")) == 0:
            with open(plan["result"], "w", encoding="utf-8") as file:
                json.dump(taken, file)
        end(*arguments, **named)

    dist.destroy_process_group = measure_first
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


def run_inside(options, plan, recorder, environment, expected):
    """The job's own measurements."""
    with tempfile.TemporaryDirectory() as folder:
        plan = {**plan, "result": os.path.join(folder, "result.json")}
        plan_file = os.path.join(folder, "plan.json")
        with open(plan_file, "w", encoding="utf-8") as file:
            json.dump(plan, file)
        words = [os.path.abspath(__file__), "--inside", plan_file, options.script, options.config,
                 f"mode={options.mode}", "steps=5"]
        command, environment = job(options, words, environment)
        output = run([*recorder, *command], environment)
        check_said(output, expected)
        with open(plan["result"], encoding="utf-8") as file:
            return json.load(file)


def check_said(output, expected):
    if expected not in output:
        raise RuntimeError(f'"{expected}" was not said, so nothing was paid: {output[-1500:]}')


def parts(options, name, rounds, turns, environment, attributes, worker_ms):
    plan = {"measure": "parts", "rounds": rounds, "parts": turns, "attributes": attributes, "worker_ms": worker_ms}
    taken = run_inside(options, plan, [options.aorta, "trace", "run", "--"], environment, RECORDED)
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


def one_stage(options, way):
    """A process's (synchronised, pipelined), or what it measured itself."""
    arguments, environment, expected = STAGES[way]
    recorder = [] if arguments is None else [options.aorta, "trace", "run", *arguments, "--"]
    if way in MEASURE_THEMSELVES:
        seconds = float(arguments[arguments.index("--duration") + 1]) if way == "window" else 0
        plan = {"measure": way, "rounds": QUIET_TURNS, "window_seconds": seconds}
        return run_inside(options, plan, recorder, environment, expected)
    command, environment = job(options, [options.script, options.config, f"mode={options.mode}",
                                         f"steps={options.steps}"], environment)
    output = run([*recorder, *command], environment)
    check_said(output, expected)
    return step_times(output)


class Budget:
    """Whether a process still fits, by what those of its kind took, else the longest."""

    def __init__(self, seconds):
        self.begin, self.seconds, self.took = time.monotonic(), seconds, {}

    def spent(self):
        return time.monotonic() - self.begin

    def has_time(self, way):
        likely = self.took.get(way, max(self.took.values(), default=0))
        return self.spent() + likely <= self.seconds

    def use(self, way, work):
        since = time.monotonic()
        try:
            return work()
        finally:
            self.took[way] = max(self.took.get(way, 0), time.monotonic() - since)


def stages(options):
    budget = Budget(options.seconds)
    chosen = [way for way in STAGES if way in ("plain", *options.ways)]
    times, inner, failed = {way: [] for way in chosen if way not in MEASURE_THEMSELVES}, {}, {}
    for number in range(options.rounds):
        for way in chosen if number % 2 == 0 else chosen[::-1]:
            if way in failed or way in inner or not budget.has_time(way):
                continue
            try:
                taken = budget.use(way, lambda: one_stage(options, way))
                if way in times:
                    times[way].append(taken)
                else:
                    inner[way] = taken
            except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:  # a failure must not hide the remaining results
                failed[way] = f"{error}"
    took = ", ".join(f"{way} {seconds:.0f}" for way, seconds in budget.took.items())
    print(f"stages: {options.steps} steps synchronised, as many pipelined; {budget.spent():.0f} s (a process of {took})")
    show_stages(times)
    for way, taken in inner.items():
        show_inner(way, taken)
    for way, error in failed.items():
        print(f"  {way} FAILED: {error}")
    sys.stdout.flush()
    return {"times": times, "inner": inner, "failed": failed}


def show_stages(times):
    if not times["plain"]:
        print("  nothing to compare with: the job alone did not run")
        return
    for which, title in enumerate(("synchronised", "pipelined")):
        middles = {way: statistics.median(one[which] for one in taken) for way, taken in times.items() if taken}
        plain = middles["plain"]
        for way, middle in middles.items():
            each = " ".join(f"{one[which]:.3f}" for one in times[way])
            print(f"  {title:14} {way:12} {middle:8.3f} ms {middle / plain - 1:+7.2%}   each {each}")
        if "all" in middles:
            met = middles["all"] <= AIM * plain
            print(f"  {title:14} aim, at most {AIM - 1:.0%} for all: {'met' if met else 'NOT met'}")


def show_inner(way, taken):
    """Against what the same process took before it was recorded."""
    print(f"within one process, {way}: turns of {SYNCHRONISED_STEPS} + {PIPELINED_STEPS} steps")
    for which, title in enumerate(("synchronised", "pipelined")):
        before = statistics.median(turn[which] for turn in taken["before"]) if taken.get("before") else math.nan
        for name, turns in taken.items():
            each = [turn[which] for turn in turns]
            middle = statistics.median(each)
            print(f"  {title:14} {name:18} {middle:8.3f} ms {middle / before - 1:+7.2%}   "
                  f"{len(each)} turns, {min(each):.3f} to {max(each):.3f}")


def main():
    if sys.argv[1:2] == ["--inside"]:
        with open(sys.argv[2], encoding="utf-8") as file:
            return inside(json.load(file), sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aorta", required=True)
    parser.add_argument("--script", required=True)
    parser.add_argument("--config", required=True)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9, help="of processes, if --seconds are enough")
    parser.add_argument("--turns", type=int, default=6, help="rounds of turns within a process")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--mode", default="fsdp2")
    parser.add_argument("--seconds", type=float, default=190, help="for the stages")
    parser.add_argument("--ways", nargs="+", choices=STAGES, default=USUAL_STAGES,
                        help="stages to measure; the job alone always is")
    measurements = ["stages", "parts", "settings"]
    parser.add_argument("--only", nargs="+", choices=measurements, default=measurements)
    parser.add_argument("--out", help="all samples as JSON")
    options = parser.parse_args()
    options.aorta, options.script = os.path.abspath(options.aorta), os.path.abspath(options.script)
    samples = {}
    if "stages" in options.only:
        samples["stages"] = stages(options)
    if "parts" in options.only:
        samples["parts"] = parts(options, "parts", options.turns, PARTS, {}, {}, 0)
    if "settings" in options.only:
        for name, environment, attributes, worker_ms in SETTINGS:
            try:
                samples[name] = parts(options, name, options.turns, [PARTS[0], PARTS[-2]], environment, attributes,
                                      worker_ms)
            except (RuntimeError, subprocess.TimeoutExpired) as error:  # a setting may be refused; all other settings count
                print(f"{name}: {error}", flush=True)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(samples, file, indent=1)
    return 1 if samples.get("stages", {}).get("failed") else 0


if __name__ == "__main__":
    sys.exit(main())
