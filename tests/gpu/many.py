#!/usr/bin/env python3
"""Everything that needs four or eight GPUs, in one visit: our trainer next to PyTorch, `whatif` next to real runs, collectives of
process groups, PyTorch programs under `aorta trace run`, and ranks that die or stop.

    many.py GPUS [OUT] --aorta BIN [--budget 580] [--only PART ...]

  part      about  what it shows
  train     150 s  default.yaml and large.yaml with full_shard, hybrid_shard in nodes of two and ddp, captured: step, hidden share,
                   exposed time; PyTorch FSDP2 and DDP on the same model
  whatif     40 s  4 and 8 ranks predicted from recordings of two, next to the measured step: within 15% (large.yaml: 10%), and the
                   assumption that causes the largest error
  programs  290 s  pipelines of 4 stages, one slow rank, FSDP2 with HSDP, tensor parallel x data parallel, as pairs.py evaluates them
  hwq        50 s  `hwq run comms_compute_overlap` with process groups of half the GPUs: bus bandwidth next to PyTorch's in the same
                   groups
  death      50 s  ranks that are killed or stopped: named within distributed.timeout_s

Each command has its own process and time limit; a part that fails stops nothing else. OUT ($OUT, else /tmp/aorta-many) gets
many.jsonl (a line per row as it is measured), many.txt with the table, and the recordings in many-1.tar.xz …. The exit status is 0.
"""
import argparse
import json
import os
import re
import shutil
import sys
import tempfile

import killed_rank
import pairs
from people import machine
from runs import Visit, last_lines, pack, run, table, torchrun

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
STEPS = {"large": 24}
USUAL_STEPS = 40
WAYS = {"full_shard": [], "ddp": ["distributed.mode=ddp"],
        "hybrid_shard": ["fsdp.sharding_strategy=hybrid_shard", "fsdp.hybrid_shard_gpus_per_node=2"]}
GOALS = {"large": 0.10}
USUAL_GOAL = 0.15
COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]
MEBIBYTES = 128


class Runs:
    """Commands in the visit's folder of work; a failed one is printed and has no result."""

    def __init__(self, visit, options, work):
        self.visit, self.options, self.work, self.done = visit, options, work, {}
        self.lines = []

    def run(self, name, command, seconds):
        """The log of a command that ended well, else None."""
        log = os.path.join(self.work, f"{name}.log")
        left = self.visit.left() - pairs.PACKING_SECONDS
        if left < 10:
            self.fail(name, "no time")
            return None
        status = run(command, dict(os.environ), log, min(seconds, left))
        if status == 0:
            return log
        self.fail(name, f"{'took too long' if status is None else f'status {status}'}: {last_lines(log)}")
        return None

    def fail(self, name, why):
        self.visit.say(f"{name} FAILED: {why}")
        self.visit.row(case=name, failed=why)
        self.lines.append([name.split(".")[0], name.split(".")[-1], "FAILED", "", why[:60]])

    def show(self, part, case, measured, compared, outcome, **figures):
        self.lines.append([part, case, measured, compared, outcome])
        self.visit.say("  ".join(self.lines[-1]))
        self.visit.row(part=part, case=case, measured=measured, compared=compared, outcome=outcome, **figures)

    def json(self, name, command, seconds=40):
        """What a command prints as JSON, else None; its log has both streams, so standard output goes to a file of its own."""
        path = os.path.join(self.work, f"{name}.json")
        log = self.run(name, ["sh", "-c", 'out=$1; shift; exec "$@" >"$out"', "sh", path, *command], seconds)
        if log is None:
            return None
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def config(self, name):
        return os.path.join(ROOT, "config", f"{name}.yaml")

    def trained(self, config, way, ranks):
        """The figures of a run of `aorta train`; each run is made once. Its directory is that of its name."""
        name = f"{config}_{way}_{ranks}"
        if name in self.done:
            return self.done[name]
        overrides = [f"training.max_steps={STEPS.get(config, USUAL_STEPS)}", "compile.enabled=true",
                     f"training.output_dir={os.path.join(self.work, name)}", *WAYS[way]]
        command = [self.options.aorta, "launch", "-n", str(ranks), "--", self.options.aorta, "train", "--quiet", "--config",
                   self.config(config), "--override", *overrides]
        figures = None
        if self.run(f"train.{name}", command, 100):
            with open(os.path.join(self.work, name, "summary.json"), encoding="utf-8") as file:
                figures = next(iter(json.load(file)["labels"].values()))
        self.done[name] = figures
        return figures


# ---- our trainer and PyTorch ----

def torch_step(runs, config, mode):
    """ms of PyTorch's step: the better of synchronised and pipelined."""
    script = os.path.join(ROOT, "bench", "torch_gpu_step.py")
    log = runs.run(f"torch.{config}_{mode}", torchrun(runs.options.gpus, [script, runs.config(config), mode, "12"]), 90)
    if log is None:
        return None
    with open(log, encoding="utf-8") as file:
        found = [json.loads(line) for line in file if line.startswith("{")]
    return min(found[-1]["step_ms"], found[-1]["pipelined_ms"]) if found else None


def train(runs):
    for config in runs.options.configs:
        theirs = {mode: torch_step(runs, config, mode) for mode in ("fsdp", "ddp")}
        compared = ", ".join(f"PyTorch {mode} {pairs.number(ms)} ms" for mode, ms in theirs.items())
        for way in WAYS:
            found = runs.trained(config, way, runs.options.gpus)
            if not found:
                continue
            step, hidden = found["step_ms"]["p50"], found["overlap_ratio_total"]
            exposed, other = found["exposed_comm_ms"]["mean"], theirs["ddp" if way == "ddp" else "fsdp"]
            runs.show("train", f"{config} {way}", f"{step:.3g} ms, hidden {pairs.number(hidden)}, exposed {exposed:.3g} ms",
                      compared, f"{step / other:.3f} of PyTorch's step" if other else "-", step_ms=step, hidden=hidden,
                      exposed_ms=exposed, torch_ms=theirs)


# ---- whatif ----

def transfer_ms(kind, size, ranks, latency_ms, ms_per_byte):
    """As docs/whatif.md has it, within a node."""
    steps = (ranks - 1).bit_length()
    ring = (ranks - 1) * latency_ms + size * (ranks - 1) / ranks * ms_per_byte
    if kind == "all_reduce":
        return min(2 * ring, 2 * steps * latency_ms + 2 * size * ms_per_byte)
    if kind == "broadcast":
        return min(steps * (latency_ms + size * ms_per_byte),
                   (steps + ranks - 1) * latency_ms + 2 * size * (ranks - 1) / ranks * ms_per_byte)
    return ring if kind in COLLECTIVES else 0.0


def by_size(analysis):
    """{(kind, bytes): (count, ms of transfer, ms of waiting) per step}, means of the ranks."""
    found = {}
    for rank in analysis["ranks"]:
        for row in rank["collective_sizes"]:
            count = row["count_per_step"] or 0
            transfer = row["transfer_ms_per_step"]
            figures = (count, count * row["min_ms"] if transfer is None else transfer, row["wait_ms_per_step"] or 0)
            found.setdefault((row["kind"], row["bytes_each"]), []).append(figures)
    ranks = len(analysis["ranks"]) or 1
    return {key: tuple(sum(column) / ranks for column in zip(*rows)) for key, rows in found.items()}


def errors_of(link, small, large, ranks, compute):
    """({assumption: ms per step that it adds to the prediction}, the size with the largest error of transfer)."""
    latency, bandwidth = (link["latency_us"] or 0) * 1e-3, link["bandwidth_gbytes_per_s"]
    per_byte = 1e-6 / bandwidth if bandwidth else 0
    sizes = {}
    for key, (count, transfer, _) in small.items():
        if key in large:
            more = transfer_ms(*key, ranks, latency, per_byte) - transfer_ms(*key, 2, latency, per_byte)
            sizes[key] = transfer + count * more - large[key][1]
    worst = max(sizes, key=lambda key: abs(sizes[key]), default=None)
    waits = [sum(row[2] for row in rows.values()) for rows in (small, large)]
    return {"bandwidth by size": sum(sizes.values()), "arrival spread": waits[0] - waits[1],
            "compute (contention, power)": compute[0] - compute[1]}, \
        f"{worst[0]} of {worst[1] / 1e6:.1f} MB {sizes[worst]:+.2f} ms" if worst else "no common size"


def whatif_of(runs, name, *words):
    return runs.json(f"whatif.{name}", [runs.options.aorta, "whatif", os.path.join(runs.work, name), "--json", *words])


def sizes_of(runs, name):
    return runs.json(f"sizes.{name}", [runs.options.aorta, "trace", "analyze", "--json", os.path.join(runs.work, name)])


def predict(runs, config, way):
    small = runs.trained(config, way, 2)
    counts = [ranks for ranks in (4, 8) if ranks <= runs.options.gpus]
    if not small or not counts:
        return
    found = whatif_of(runs, f"{config}_{way}_2", "--ranks", ",".join(map(str, counts)))
    sizes = sizes_of(runs, f"{config}_{way}_2")
    for ranks in counts:
        large = runs.trained(config, way, ranks)
        target = large and whatif_of(runs, f"{config}_{way}_{ranks}")
        if not found or not target:
            continue
        predicted = next(row["step_ms"] for row in found["steps"] if row["ranks"] == ranks)
        off, goal = predicted / target["measured_ms"] - 1, GOALS.get(config, USUAL_GOAL)
        errors, worst = {}, ""
        theirs = sizes_of(runs, f"{config}_{way}_{ranks}")
        if sizes and theirs and found["recorded_link"]:
            errors, worst = errors_of(found["recorded_link"], by_size(sizes), by_size(theirs), ranks,
                                      [one["compute_ms"]["mean"] for one in (small, large)])
        why = max(errors, key=lambda key: abs(errors[key]), default=None)
        runs.show("whatif", f"{config} {way} 2 -> {ranks}", f"predicted {predicted:.3f} ms",
                  f"measured {target['measured_ms']:.3f} ms (2 ranks: {found['measured_ms']:.3f})",
                  f"{100 * off:+.1f}%, goal {100 * goal:.0f}%: {'ok' if abs(off) <= goal else 'off'}", errors_ms=errors, worst=worst,
                  link=found["recorded_link"], fit=found.get("fit"))
        if why:
            runs.visit.say("    largest error: " + why + "; " + ", ".join(f"{key} {ms:+.2f} ms" for key, ms in errors.items())
                           + f"; largest size: {worst}")


def whatif(runs):
    for config in runs.options.configs:
        for way in ("full_shard", "ddp"):
            predict(runs, config, way)


# ---- collectives of process groups ----

def hwq(runs):
    gpus, size = runs.options.gpus, max(2, runs.options.gpus // 2)
    groups = ",".join(str(list(range(first, first + size))).replace(" ", "") for first in range(0, gpus, size))
    script = os.path.join(ROOT, "bench", "torch_collectives.py")
    log = runs.run("hwq.torch", torchrun(gpus, [script, f"group={size}", str(MEBIBYTES)]), 90)
    theirs = {}
    if log:
        with open(log, encoding="utf-8") as file:
            theirs = next((json.loads(line) for line in file if line.startswith("{")), {})
    for collective in COLLECTIVES:
        path = os.path.join(runs.work, f"hwq_{collective}.json")
        command = [runs.options.aorta, "launch", "-n", str(gpus), "--", runs.options.aorta, "hwq", "run", "comms_compute_overlap",
                   "--process-groups", groups, "--real-collectives", "--collective", collective, "--comm-size", f"{MEBIBYTES}M",
                   "--iterations", "10", "--warmup", "3", "--quiet", "--output", path]
        if not runs.run(f"hwq.{collective}", command, 60):
            continue
        with open(path, encoding="utf-8") as file:
            figures = json.load(file)["figures"]
        ours, together = (figures[f"busbw_{which}"]["value"] for which in ("alone", "together"))
        other = next(iter(theirs.get(collective, {}).values()), None)
        runs.show("hwq", f"{collective} {groups}", f"{pairs.number(ours)} GB/s alone, {pairs.number(together)} with products",
                  f"PyTorch {pairs.number(other)} GB/s", f"{ours / other:.3f}" if ours and other else "-", busbw=ours,
                  busbw_together=together, torch=other)


# ---- programs under trace run ----

def programs_of(gpus):
    return [
        pairs.pair("pipeline_4", 4, "pipeline.py", "4", "16", "pipeline_bubble", more=4),
        pairs.pair("pipeline_twice", 4, "pipeline.py", "4", "8", "pipeline_bubble", more=2),
        pairs.pair("pipeline_tf32", 4, "pipeline.py", "4", "4 tf32", "precision"),
        pairs.pair("pipeline_16", 4, "pipeline.py", "16", "64", "pipeline_bubble", more=4),
        pairs.pair("slow_rank", gpus, "slow_rank.py", "", "even", "straggler", rank=gpus - 1),
        pairs.pair("hybrid", gpus, "fsdp.py", "hybrid", "2", "exposed_collective"),
        pairs.pair("tensor_data", gpus, "tensor_parallel.py", "pairs", "", "exposed_collective"),
    ]


def programs(runs):
    bench = pairs.Bench(runs.visit, runs.options.aorta, runs.work)
    chosen = [one for one in programs_of(runs.options.gpus)
              if one.ranks <= runs.options.gpus and one.name in (runs.options.programs or [one.name])]
    for row in pairs.run_pairs(bench, chosen):
        if "failed" in row:
            runs.lines.append(["programs", row["pair"], "FAILED", "", row["failed"][:60]])
            continue
        _, _, expected, first, top, predicted, true, near, alone, step = pairs.line_of(row)
        runs.lines.append(["programs", row["pair"], f"first {first}; {expected} in top 3: {top}",
                           f"gain {predicted} of {true} ms, step {step} of {alone} ms", near])


# ---- ranks that die ----

ATTEMPT = re.compile(r"(ok|FAILED)\s+(SIG\w+) (\w+): named after ([\d.]+|-) s, ended after ([\d.]+) s")


def death(runs):
    options = runs.options
    log = os.path.join(runs.work, "death.log")
    command = [sys.executable, os.path.join(HERE, "killed_rank.py"), "--aorta", options.aorta, "--config",
               runs.config(options.configs[0]), "--ranks", str(options.gpus), "--device", options.device]
    status = run(command, dict(os.environ), log, max(10, min(170, runs.visit.left() - pairs.PACKING_SECONDS)))
    with open(log, encoding="utf-8", errors="replace") as file:
        text = file.read()
    for mark, how, kind, named, ended in ATTEMPT.findall(text):
        late = named == "-" or float(named) > killed_rank.TIMEOUT_S
        runs.show("death", f"{how} {kind}, {options.gpus} ranks", f"named after {named} s, ended after {ended} s",
                  f"distributed.timeout_s {killed_rank.TIMEOUT_S}", mark if mark == "FAILED" else "late" if late else "ok")
    if status:
        runs.visit.say(text[-1500:])
    if status is None:
        runs.fail("death", "took too long")


PARTS = {"train": (train, 60), "whatif": (whatif, 50), "programs": (programs, 60), "hwq": (hwq, 40), "death": (death, 70)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpus", type=int)
    parser.add_argument("out", nargs="?", default=os.environ.get("OUT", "/tmp/aorta-many"))
    parser.add_argument("--aorta", required=True)
    parser.add_argument("--budget", type=float, default=580, help="seconds; parts that are left then are named")
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--programs", nargs="+", metavar="NAME", help="of the part programs, instead of all")
    parser.add_argument("--configs", nargs="+", default=["default", "large"])
    parser.add_argument("--device", default="cuda", help="of the ranks that die")
    options = parser.parse_args()
    options.aorta = os.path.abspath(shutil.which(options.aorta) or sys.exit(f"many.py: --aorta {options.aorta}: no such program"))
    visit = Visit("many", options.out, options.budget)
    visit.say(f"{options.gpus} GPUs, {json.dumps(machine())}")
    with tempfile.TemporaryDirectory() as work:
        runs = Runs(visit, options, work)
        for name in options.only or PARTS:
            function, least = PARTS[name]
            visit.part(name, lambda _, function=function: function(runs), least + pairs.PACKING_SECONDS)
        visit.say("")
        for line in table(["part", "case", "measured", "compared with", "outcome"], runs.lines):
            visit.say(line)
        names = [name for name in sorted(os.listdir(work)) if os.path.isdir(os.path.join(work, name))]
        for line in pack(work, names, options.out, "many", pairs.LARGEST, pairs.PACKS):
            visit.say(f"left out: {line}")
    visit.say(f"{visit.seconds - visit.left():.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
