#!/usr/bin/env python3
"""Jobs with one known cause of lost time each: what the verdict says of them against what was lost.

    planted.py trainer OUT --aorta BIN [--gpus 2] [--modes captured one_by_one] [--cases NAME ...]   our own trainer
    planted.py record OUT [--gpus 2] [--groups NAME ...]   on a GPU machine: OUT/CASE/rankN.json.gz, OUT/measured.json
    planted.py check OUT --aorta BIN [--case NAME ...]     anywhere: the verdict on each recording beside the truth

`trainer` plants by training.inject (docs/train.md) into runs of `aorta train`, with the step captured and with
operations launched one by one, and checks them at once; about two minutes on two GPUs.

`record` and `check` are for PyTorch: a case plants one cause in a base job; both run in one process, so that machine,
clocks and memory are the same. The step is timed without a profiler and again while PyTorch's profiler records. The truth
is the step with the cause minus the step without it: without the profiler where the verdict's gains are of that step, else
as recorded.

`check` and `trainer` print a line per case: what was planted, what it cost, what the verdict names first (beside what
the base job itself loses most by) and what it promises; exit status 1 when a planted cause is not first in more than
one case, or a gain is off by more than 15%, or 1% of the step, beyond what the base varies by.
"""
import argparse
import contextlib
import gc
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIG = {
    "model": {"vocab_size": 60000, "embedding_dim": 192, "num_dense_features": 16, "dense_dim": 128, "model_dim": 768,
              "num_heads": 12, "num_layers": 8, "mlp_hidden_dim": 2048, "dropout": 0.1},
    "positions": 64, "sparse_features": 32}
WARMUP, TIMED, RECORDED = 4, 16, 3

# Bases: how the model is spread, samples of a rank, environment.
BASES = {
    "host": {"mode": "fsdp2", "batch": 8},      # the device waits for its host
    "device": {"mode": "ddp", "batch": 1024},    # the host waits for its device
    "sharded": {"mode": "fsdp2", "batch": 1536},
}
# Each group is one process: cases of one base that differ in what they plant; `env` needs a process of its own.
GROUPS = {
    "device": {"base": "device", "cases": [
        "none", "stray_kernels", "stray_kernels_small", "pause_rank", "pause_hidden", "loader", "loader_rank",
        "sync_layers", "item_layers", "pageable_copy", "collect_garbage", "slow_kernels_rank"]},
    "host": {"base": "host", "cases": [
        "none", "pause_rank", "pause_rank_small", "pause_all", "sync_layers", "sync_once", "loader", "loader_small",
        "cache_emptied", "none_again"]},
    "one_bucket": {"base": "device", "cases": ["one_bucket"]},
    "sharded": {"base": "sharded", "cases": ["none", "inline_reduce", "stray_kernels"]},
    "one_channel": {"base": "sharded", "cases": ["one_channel"], "env": {"NCCL_MAX_CTAS": "1", "NCCL_MAX_NCHANNELS": "1"}},
    "one_channel_host": {"base": "host", "cases": ["one_channel"], "env": {"NCCL_MAX_CTAS": "1", "NCCL_MAX_NCHANNELS": "1"}},
    "one_connection": {"base": "sharded", "cases": ["one_connection"], "env": {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}},
}
# case -> (base case's group, the verdict's cause, the rank at fault or None). "none" expects no cause of a size.
TRUTH = {
    "stray_kernels": ("straggler", 1), "stray_kernels_small": ("straggler", 1), "slow_kernels_rank": ("straggler", 1),
    "pause_rank": ("host_pause", 1), "pause_all": ("host_pause", None), "pause_hidden": (None, None),
    "pause_rank_small": ("host_pause", 1), "loader_small": ("data_wait", None), "sync_once": ("host_sync", None),
    "loader": ("data_wait", None), "loader_rank": ("data_wait", 1), "sync_layers": ("host_sync", None),
    "item_layers": ("host_sync", None), "pageable_copy": ("copy", None), "collect_garbage": ("host_pause", None),
    "cache_emptied": ("allocation", None), "one_bucket": ("exposed_collective", None),
    "inline_reduce": ("serialized_streams", None), "one_channel": ("slow_collective", None),
    "one_connection": ("serialized_streams", None),
}


# ---- recording (a process of torchrun) ----

class Job:
    """One model on this rank, with places where a case does its harm."""

    def __init__(self, base, bucket_mb):
        import torch
        import torch.distributed as dist
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        sys.path.insert(0, os.path.join(HERE, "..", "parity"))
        from ranking import Ranking, loss_of
        self.torch, self.dist, self.loss_of = torch, dist, loss_of
        self.rank = dist.get_rank()
        self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.manual_seed(0)
        model = Ranking(CONFIG["model"]).to(self.device)
        self.layers = list(model.encoder.layers)
        if base["mode"] == "ddp":
            self.model = torch.nn.parallel.DistributedDataParallel(
                model, device_ids=[self.device.index], gradient_as_bucket_view=True, bucket_cap_mb=bucket_mb)
        else:
            policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
            for layer in self.layers:
                fully_shard(layer, mp_policy=policy)
            self.model = fully_shard(model, mp_policy=policy)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4, fused=True)
        shape = (base["batch"], CONFIG["positions"])
        options = {"device": self.device, "generator": torch.Generator(device=self.device).manual_seed(self.rank)}
        m = CONFIG["model"]
        self.batch = {
            "dense": torch.randn(*shape, m["num_dense_features"], m["dense_dim"], **options),
            "categorical": torch.randint(m["vocab_size"], (*shape, CONFIG["sparse_features"]), **options),
            "target": torch.rand(*shape, **options), "importance": torch.rand(*shape, **options)}
        self.square = torch.randn(4096, 4096, device=self.device)

    def step(self, plant):
        torch = self.torch
        plant.get("begin", idle)(self)
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = self.loss_of(self.model, self.batch)
        plant.get("middle", idle)(self)
        loss.backward()
        plant.get("end", idle)(self)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, foreach=True)
        self.optimizer.step()

    def products(self, count):
        for _ in range(count):
            self.torch.mm(self.square, self.square)

    def load(self, seconds):
        """A DataLoader whose sample takes this long."""
        if not hasattr(self, "loader"):
            torch = self.torch

            class Samples(torch.utils.data.Dataset):
                def __len__(self):
                    return 1 << 20

                def __getitem__(self, index):
                    time.sleep(Samples.seconds)
                    return index
            self.samples = Samples
            self.loader = iter(torch.utils.data.DataLoader(Samples(), batch_size=1))
        self.samples.seconds = seconds
        next(self.loader)

    def copy_pageable(self):
        if not hasattr(self, "pageable"):
            self.pageable = self.batch["dense"][: len(self.batch["dense"]) // 4].cpu()
        self.batch["dense"][: len(self.pageable)] = self.pageable.to(self.device)

    def reduce_inline(self):
        if not hasattr(self, "extra"):
            self.extra = self.torch.zeros(512 << 20, device=self.device)
        self.dist.all_reduce(self.extra)


def idle(job):
    pass


def only(rank, what):
    return lambda job: what(job) if job.rank == rank else None


def each_layer(what):
    return {"layer": what}


PLANTS = {
    "none": {},
    "stray_kernels": {"middle": only(1, lambda job: job.products(8))},
    "stray_kernels_small": {"middle": only(1, lambda job: job.products(1))},
    "slow_kernels_rank": {"stretch": 1},
    "pause_rank": {"middle": only(1, lambda job: time.sleep(0.12 if job.busy else 0.03))},
    "pause_all": {"middle": lambda job: time.sleep(0.03)},
    "pause_hidden": {"middle": lambda job: time.sleep(0.008)},
    "pause_rank_small": {"middle": only(1, lambda job: time.sleep(0.006))},
    "loader": {"begin": lambda job: job.load(0.16 if job.busy else 0.04)},
    "loader_small": {"begin": lambda job: job.load(0.008)},
    "sync_once": {"end": lambda job: job.torch.cuda.synchronize()},
    "none_again": {},
    "loader_rank": {"begin": only(1, lambda job: job.load(0.16))},
    "sync_layers": each_layer(lambda job: job.torch.cuda.synchronize()),
    "item_layers": each_layer(lambda job: job.batch["target"].sum().item()),
    "pageable_copy": {"begin": lambda job: job.copy_pageable()},
    "collect_garbage": {"middle": lambda job: [gc.collect() for _ in range(3)]},
    "cache_emptied": {"begin": lambda job: job.torch.cuda.empty_cache()},
    "one_bucket": {},
    "inline_reduce": {"end": lambda job: job.reduce_inline()},
    "one_channel": {}, "one_connection": {},
}


@contextlib.contextmanager
def planted(job, plant):
    """Hooks of the layers, and a second stream that takes multiprocessors from one rank."""
    handles = []
    if "layer" in plant:
        handles = [layer.register_forward_hook(lambda *_: plant["layer"](job) and None) for layer in job.layers]
    if plant.get("stretch") == job.rank:
        def stretch(module, arguments, output):
            for _ in range(3):
                module.linear1(arguments[0].detach())
        handles = [layer.register_forward_hook(stretch) for layer in job.layers]
    yield
    for handle in handles:
        handle.remove()


def run_case(job, name, out):
    """(ms a step, ms a step while recorded), of the slower rank; out=None: the same without a file, to warm up."""
    torch, plant = job.torch, PLANTS[name]
    with planted(job, plant):
        for _ in range(WARMUP):
            job.step(plant)
        torch.cuda.synchronize()
        job.dist.barrier()
        begin = time.perf_counter()
        for _ in range(TIMED):
            job.step(plant)
        torch.cuda.synchronize()
        plain_ms = (time.perf_counter() - begin) * 1e3 / TIMED
        job.dist.barrier()
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        schedule = torch.profiler.schedule(wait=0, warmup=2, active=RECORDED)
        with torch.profiler.profile(activities=activities, schedule=schedule, record_shapes=True) as profile:
            for i in range(2 + RECORDED):
                if i == 2:
                    torch.cuda.synchronize()
                    begin = time.perf_counter()
                job.step(plant)
                if i < 1 + RECORDED:
                    profile.step()
            torch.cuda.synchronize()
            recorded_ms = (time.perf_counter() - begin) * 1e3 / RECORDED
        if out:
            folder = os.path.join(out, name)
            os.makedirs(folder, exist_ok=True)
            profile.export_chrome_trace(os.path.join(folder, f"rank{job.rank}.json.gz"))
    figures = torch.tensor([plain_ms, recorded_ms], device=job.device)
    job.dist.all_reduce(figures, op=job.dist.ReduceOp.MAX)
    return figures.tolist()


def record_group(name, out):
    import torch
    import torch.distributed as dist
    group = GROUPS[name]
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    job = Job(BASES[group["base"]], 4096 if name == "one_bucket" else 25)
    job.busy = group["base"] != "host"
    measured = {}
    run_case(job, group["cases"][0], None)  # the profiler's first recording takes longer
    for case in group["cases"]:
        plain_ms, recorded_ms = run_case(job, case, os.path.join(out, name))
        measured[f"{name}/{case}"] = {"plain_ms": plain_ms, "recorded_ms": recorded_ms}
        if job.rank == 0:
            print(f"{name}/{case}: {plain_ms:.2f} ms a step, {recorded_ms:.2f} while recorded", flush=True)
    if job.rank == 0:
        with open(os.path.join(out, f"{name}.json"), "w", encoding="utf-8") as file:
            json.dump(measured, file)
    dist.barrier()
    dist.destroy_process_group()


def record(arguments):
    os.makedirs(arguments.out, exist_ok=True)
    measured = {}
    for name in arguments.groups or GROUPS:
        environment = {**os.environ, **GROUPS[name].get("env", {})}
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node",
                   str(arguments.gpus), os.path.abspath(__file__), "group", name, arguments.out]
        try:
            subprocess.run(command, env=environment, check=True, timeout=240)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            print(f"{name}: {error}", flush=True)
        path = os.path.join(arguments.out, f"{name}.json")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                measured.update(json.load(file))
    with open(os.path.join(arguments.out, "measured.json"), "w", encoding="utf-8") as file:
        json.dump(measured, file, indent=1)
    return 0


# ---- checking ----

def base_of(name):
    """The group with the cases without a cause that this one is compared with."""
    group = name.split("/")[0]
    return {"one_bucket": "device", "one_channel": "sharded", "one_channel_host": "host",
            "one_connection": "sharded"}.get(group, group)


def base_steps(name, measured, which):
    """Steps without a cause, ms: several, as a host-bound job varies from run to run."""
    return [one[which] for key, one in measured.items() if key.startswith(base_of(name) + "/none")]


def verdict_of(aorta, folder):
    done = subprocess.run([aorta, "trace", "analyze", "--json", folder], capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr.strip()
    analysis = json.loads(done.stdout)
    return analysis, ""


def first_row(rows, own):
    """The first row that is not the base job's own largest loss."""
    for row in rows:
        if row["cause"] != own:
            return row
    return {"cause": "nothing"}


def compare(name, expected, rank, step, base, rows, own):
    """(the planted cause is first, the gain is right), and prints the line. `base`: steps without it, ms; `own`: what
    the base job loses most by."""
    harmless = expected is None
    lost, spread = step - sum(base) / len(base), (max(base) - min(base)) / 2
    first = first_row(rows, None if harmless else own)
    gain = first.get("gain_ms") or 0
    tolerance = max(0.15 * lost, 0.01 * step) + spread
    if lost < 0.01 * step + spread:  # hidden, nothing planted, or less than the base varies by
        right, close = harmless or gain < 0.05 * step + spread, True
    else:
        right = first["cause"] == expected and (rank is None or first.get("rank") == rank)
        close = abs(gain - lost) <= tolerance
    print(f"{name:28} planted {expected or '-':18} lost {lost:7.2f} ± {spread:4.1f} of {step:7.2f} ms   "
          f"first {first['cause']:18} rank {first.get('rank')!s:4} gain {gain:7.2f}"
          f"{'' if right else '   NOT FIRST'}{'' if close else '   GAIN OFF'}", flush=True)
    return right, close


def largest_loss(rows):
    """What a job without a planted cause loses most by, if that is a tenth of its step; else None."""
    return rows[0]["cause"] if rows and (rows[0].get("gain_share") or 0) >= 0.1 else None


def outcome(results):
    wrong = sum(not right for right, _ in results)
    off = sum(not close for _, close in results)
    print(f"{len(results)} cases, {wrong} with another cause first, {off} with a gain that is off")
    return 0 if wrong <= 1 and off == 0 else 1


def check_case(aorta, out, name, measured, own):
    case = name.split("/")[1]
    expected, rank = TRUTH.get(case, (None, None))
    analysis, error = verdict_of(aorta, os.path.join(out, name))
    if analysis is None:
        print(f"{name:28} {error}")
        return False, False
    which = "plain_ms" if (analysis["replay"] or {}).get("unrecorded_ms") else "recorded_ms"
    return compare(name, expected, rank, measured[name][which], base_steps(name, measured, which),
                   analysis["verdict"], own)


def own_loss(aorta, out, name):
    analysis, _ = verdict_of(aorta, os.path.join(out, base_of(name), "none"))
    return largest_loss(analysis["verdict"] if analysis else [])


def check(arguments):
    with open(os.path.join(arguments.out, "measured.json"), encoding="utf-8") as file:
        measured = json.load(file)
    names = [name for name in measured if not arguments.case or name in arguments.case]
    return outcome([check_case(arguments.aorta, arguments.out, name, measured,
                               own_loss(arguments.aorta, arguments.out, name)) for name in names])


# ---- our own trainer ----

NO_PREFETCH = ["fsdp.forward_prefetch=false", "fsdp.backward_prefetch=NONE"]
MODES = {"captured": ["compile.enabled=true"], "one_by_one": ["compile.enabled=false"]}
# case -> (what is planted, ms of it, other keys, the verdict's cause, the rank at fault, only this mode). Sizes are for
# steps of some milliseconds; --scale makes them longer where steps are.
TRAINER = {
    "none": (None, 0, [], None, None, None),
    "none_again": (None, 0, [], None, None, None),
    "slow_rank": ("slow_rank:rank=1,ms={}", 2, [], "straggler", 1, None),
    "slow_rank_small": ("slow_rank:rank=1,ms={}", 0.3, [], "straggler", 1, None),
    "pause": ("host_pause:ms={}", 12, [], "host_pause", None, None),
    "pause_rank": ("host_pause:ms={},rank=1", 12, [], "host_pause", 1, None),
    "loader": ("slow_loader:ms={}", 12, [], "data_wait", None, None),
    "loader_rank": ("slow_loader:ms={},rank=0", 12, [], "data_wait", 0, None),
    "sync": ("sync:per=step", 0, [], "host_sync", None, None),
    "sync_layers": ("sync:per=layer", 0, [], "host_sync", None, "one_by_one"),
    "slow_gathers": ("slow_collective:kind=all_gather,ms={}", 1, [], "slow_collective", None, None),
    "slow_reductions": ("slow_collective:kind=reduce_scatter,ms={}", 1, [], "slow_collective", None, None),
    "allocation": ("allocation:mib=512", 0, [], "allocation", None, None),
    "copy": ("copy:mib=64", 0, [], "copy", None, None),
    "no_prefetch": (None, 0, NO_PREFETCH, "exposed_collective", None, None),
}


def train(arguments, mode, case):
    """The run's figures of summary.json; None: it failed, which is printed."""
    item, ms, keys, _, _, _ = TRAINER[case]
    out = os.path.join(arguments.out, mode, case)
    overrides = [f"training.max_steps={arguments.steps}", f"training.output_dir={out}", "dataloader.num_workers=1",
                 *MODES[mode], *keys, *arguments.override]
    items = arguments.also + ([item.format(ms * arguments.scale)] if item else [])
    overrides.append(f"training.inject={json.dumps(items)}")
    command = [arguments.aorta, "launch", "-n", str(arguments.gpus), "--", arguments.aorta, "train", "--quiet",
               "--config", arguments.config, "--override", *overrides]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        error = done.stderr.strip() if done.returncode else ""
    except subprocess.TimeoutExpired as expired:
        error = str(expired)
    if error:
        print(f"{mode}/{case}: {error}", flush=True)
        return None
    with open(os.path.join(out, "summary.json"), encoding="utf-8") as file:
        return next(iter(json.load(file)["labels"].values()))


def train_mode(arguments, mode):
    cases = [case for case, row in TRAINER.items() if row[5] in (None, mode) and
             (not arguments.cases or case in arguments.cases or case.startswith("none"))]
    runs = {case: train(arguments, mode, case) for case in cases}
    base = [run["step_ms"]["p50"] for case, run in runs.items() if case.startswith("none") and run]
    if not base:
        return [(False, False)]
    own, results = largest_loss(runs["none"]["verdict"] if runs["none"] else []), []
    for case, run in runs.items():
        _, _, _, expected, rank, _ = TRAINER[case]
        results.append(compare(f"{mode}/{case}", expected, rank, run["step_ms"]["p50"], base, run["verdict"], own)
                       if run else (False, False))
    return results


def trainer(arguments):
    begin = time.perf_counter()
    results = [result for mode in arguments.modes for result in train_mode(arguments, mode)]
    print(f"{time.perf_counter() - begin:.0f} s")
    return outcome(results)


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "group":
        return record_group(sys.argv[2], sys.argv[3])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("record")
    one.add_argument("out")
    one.add_argument("--gpus", type=int, default=2)
    one.add_argument("--groups", nargs="*", choices=GROUPS)
    one.set_defaults(run=record)
    two = commands.add_parser("check")
    two.add_argument("out")
    two.add_argument("--aorta", required=True)
    two.add_argument("--case", nargs="*")
    two.set_defaults(run=check)
    three = commands.add_parser("trainer")
    three.add_argument("out")
    three.add_argument("--aorta", required=True)
    three.add_argument("--gpus", type=int, default=2)
    three.add_argument("--modes", nargs="*", choices=MODES, default=list(MODES))
    three.add_argument("--cases", nargs="*", choices=TRAINER)
    three.add_argument("--config", default=os.path.join(HERE, "..", "..", "config", "default.yaml"))
    three.add_argument("--steps", type=int, default=80)
    three.add_argument("--scale", type=float, default=1, help="how much longer what is planted takes")
    three.add_argument("--also", nargs="*", default=[], help="items of training.inject that all runs have")
    three.add_argument("--override", nargs="*", default=[], help="keys of all runs, as of aorta train")
    three.set_defaults(run=trainer)
    arguments = parser.parse_args()
    return arguments.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
