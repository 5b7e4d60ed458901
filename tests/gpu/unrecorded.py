#!/usr/bin/env python3
"""What a step takes without its recording: everyday programs timed alone, then recorded.

    unrecorded.py record OUT [--seconds 350] [--aorta BIN] [--only NAME ...] [--device cuda|cpu]   on a GPU machine

`record` runs each program of everyday.py in a process of its own. Steps are timed first, without a profiler: several
repeats of many steps, with the device synchronised only at the ends of each. Then PyTorch's profiler records a few
steps: plain, and for some programs with shapes, stacks, memory, and all of these. With --aorta some programs run
again under `aorta trace run`. OUT gets truth.json, and traces0.tar … traces4.tar and spools.tar.gz of less than
16 MiB each. What does not fit, or takes more than --seconds, is left out by importance, and truth.json says so.
"""
import argparse
import concurrent.futures
import glob
import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
WARMUP, REPEATS, REPEAT_SECONDS = 8, 5, 0.3
PROGRAM_SECONDS = 40            # one program with its recordings; then it is ended
LARGEST_FILE = 3 << 20          # of a packed trace
LARGEST_TAR, TRACE_TARS = 15 << 20, 3
VARIANTS = {"plain": {}, "shapes": {"record_shapes": True}, "stacks": {"with_stack": True},
            "memory": {"profile_memory": True},
            "full": {"record_shapes": True, "with_stack": True, "profile_memory": True}}
STACK_STEPS = 3                 # Python's frames fill a file
RUN_UNDER_AORTA = ["bert_checkpoint", "optimizer_for", "dlrm", "resnet50_fp32", "gpt2_small_batch", "vit_b16",
                   "trainer_loop", "lightning_loop", "jax_loop", "triton_loop", "gloo_ddp", "optimizer_fused",
                   "item_each_parameter", "captured_step"]


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


def run_program(name, out, device, under_aorta):
    """In a process of its own."""
    import torch
    sys.path.insert(0, HERE)
    import everyday
    torch.manual_seed(0)
    place = everyday.Place(device, device == "cpu")
    program = {**everyday.PROGRAMS, **everyday.RUN_ONLY}[name]
    result = {}
    plan = timed_plan(place, out, name, result) if under_aorta else whole_plan(place, program, out, result)
    follow(plan, program, place)


def write_json(path, content):
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
    os.replace(path + ".new", path)


def read_json(path):
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def import_ahead():
    """Imports what takes long once, in the process whose children run the programs; none may touch the GPU."""
    sys.path.insert(0, HERE)
    import everyday  # noqa: F401
    for module in ("torchvision", "transformers", "pytorch_lightning", "torch.profiler", "torch._dynamo",
                   "torch._inductor.compile_fx", "transformers.models.bert.modeling_bert",
                   "transformers.models.gpt2.modeling_gpt2", "transformers.models.llama.modeling_llama",
                   "transformers.trainer"):
        try:
            __import__(module)
        except Exception as error:  # a machine without it runs the other programs
            print(f"no {module}: {str(error)[:100]}", flush=True)


def in_child(function, seconds):
    """Runs it in a forked child; its exit status, or None when it was ended after `seconds`."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setpgid(0, 0)
            function()
            status = 0
        except BaseException as error:
            import traceback
            traceback.print_exc(limit=-3)
            print(f"{type(error).__name__}: {str(error)[:300]}", flush=True)
        sys.stdout.flush()
        os._exit(status)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    try:
        os.killpg(child, 9)
    except ProcessLookupError:
        os.kill(child, 9)
    os.waitpid(child, 0)
    return None


def touch_device(device):
    import torch
    torch.zeros(1, device=device)


def run_apart(name, options, forkable, seconds):
    """One program with its recordings, by a fork of what was imported or by a program of its own."""
    def run():
        run_program(name, options.work, options.device, False)
    if forkable:
        return in_child(run, seconds)
    words = [sys.executable, os.path.abspath(__file__), "program", name, options.work, "--device", options.device]
    try:
        return subprocess.run(words, timeout=seconds, check=False).returncode
    except subprocess.TimeoutExpired:
        return None


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


def record_programs(options, truth, names, deadline):
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # the question for a GPU must not start CUDA in this process
    import_ahead()
    forkable = in_child(lambda: touch_device(options.device), 60) == 0
    print(f"imports done; {'forking' if forkable else 'a program for each'}; {deadline - time.monotonic():.0f} s left", flush=True)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        sizes = {}
        for name in names:
            begin = time.monotonic()
            if deadline - begin < 8:
                truth["left_out"].append(f"{name}: no time")
                continue
            status = run_apart(name, options, forkable, min(PROGRAM_SECONDS, deadline - begin))
            result = read_json(os.path.join(options.work, f"{name}.json"))
            if result is None or "repeats_ms" not in result:
                truth["left_out"].append(f"{name}: {'took too long' if status is None else f'exit status {status}'}")
                print(f"{name}: FAILED ({status})", flush=True)
                continue
            if status:
                result["ended_early"] = status
            result["step_ms"] = statistics.median(result["repeats_ms"])
            truth["programs"][name] = result
            for path in glob.glob(os.path.join(options.work, f"{name}.*.json")):
                sizes[path + ".gz"] = pool.submit(pack, path)
            print(f"{name}: {result['step_ms']:.3f} ms alone ({min(result['repeats_ms']):.3f} to {max(result['repeats_ms']):.3f}), host "
                  f"{statistics.median(result['host_ms']):.3f}; recorded "
                  + ", ".join(f"{k} {v:.2f}" for k, v in result.get("recorded_ms", {}).items())
                  + f"   [{time.monotonic() - begin:.1f} s]", flush=True)
            write_json(os.path.join(options.out, "truth.json"), truth)
    return {path: size.result() for path, size in sizes.items()}


def record_under_aorta(options, truth, deadline):
    """Programs under `aorta trace run`; the folder with a recording of each."""
    spools = os.path.join(options.work, "spools")
    os.makedirs(spools)
    for name in [n for n in RUN_UNDER_AORTA if not options.only or n in options.only]:
        begin = time.monotonic()
        if deadline - begin < 15:
            truth["left_out"].append(f"{name} under aorta: no time")
            continue
        folder = os.path.join(spools, name)
        words = [os.path.abspath(options.aorta), "trace", "run", "-o", folder, "--json", "--limit-mb", "64", "--", sys.executable,
                 os.path.abspath(__file__), "program", name, options.work, "--device", options.device, "--under-aorta"]
        path = os.path.join(options.work, f"{name}.json")
        if os.path.exists(path):
            os.remove(path)
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=min(60, deadline - begin), check=False)
        except subprocess.TimeoutExpired:
            truth["left_out"].append(f"{name} under aorta: took too long")
            continue
        result = read_json(path)
        if done.returncode or result is None:
            truth["left_out"].append(f"{name} under aorta: {done.stderr.strip()[-300:]}")
            print(f"{name} under aorta: FAILED\n{done.stderr[-600:]}", flush=True)
            shutil.rmtree(folder, ignore_errors=True)
            continue
        truth["under_aorta"][name] = {"repeats_ms": result["repeats_ms"], "step_ms": statistics.median(result["repeats_ms"])}
        print(f"{name} under aorta: {truth['under_aorta'][name]['step_ms']:.3f} ms a step   [{time.monotonic() - begin:.1f} s]",
              flush=True)
    return spools


def fill_tars(options, truth, sizes):
    """Traces by importance of their variant, then program, until the tar files are full."""
    order = list(truth["programs"])

    def importance(path):
        name, variant = os.path.basename(path).split(".")[:2]
        return (list(VARIANTS).index(variant) > 1, order.index(name), list(VARIANTS).index(variant))
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
        import everyday
        names = [n for n in everyday.PROGRAMS if not options.only or n in options.only]
        share = 0.68 if options.aorta else 0.93
        sizes = record_programs(options, truth, names, begin + options.seconds * share)
        fill_tars(options, truth, sizes)
        if options.aorta:
            pack_spools(options, truth, record_under_aorta(options, truth, begin + options.seconds * 0.95))
    write_json(os.path.join(options.out, "truth.json"), truth)
    for line in truth["left_out"]:
        print(f"left out: {line}")
    print(f"{len(truth['programs'])} programs, {len(sizes)} traces, {len(truth['under_aorta'])} under aorta, "
          f"{time.monotonic() - begin:.0f} s", flush=True)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True)
    one = what.add_parser("record")
    one.add_argument("out")
    one.add_argument("--seconds", type=float, default=350)
    one.add_argument("--aorta")
    one.add_argument("--only", nargs="+")
    one.add_argument("--device", default="cuda")
    one = what.add_parser("program", help="one program, in this process")
    one.add_argument("name")
    one.add_argument("out")
    one.add_argument("--device", default="cuda")
    one.add_argument("--under-aorta", action="store_true")
    options = parser.parse_args()
    if options.what == "record":
        return record(options)
    return run_program(options.name, options.out, options.device, options.under_aorta)


if __name__ == "__main__":
    sys.exit(main())
