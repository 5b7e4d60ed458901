#!/usr/bin/env python3
"""Step time, overlap and memory of `aorta train` on GPUs against PyTorch on one model, in one visit.

    gpu_step_time.py [--aorta PROGRAM] [-n GPUS] [--steps 60] [--ways "fsdp, captured" ...] [--configs default large]
        [--torch fsdp ddp]

Medians over the steps after warm-up of rank 0; ratios are to PyTorch FSDP2 and DDP, the better of synchronised and
pipelined steps each. Then the cost of recording, and the gains of prefetch and overlap.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

from training import ROOT, median

WAYS = [  # name, overrides, flags
    ("fsdp, eager", ["compile.enabled=false"], []),
    ("fsdp, captured", ["compile.enabled=true"], []),
    ("ddp, eager", ["compile.enabled=false", "distributed.mode=ddp"], []),
    ("ddp, captured", ["compile.enabled=true", "distributed.mode=ddp"], []),
    ("fsdp, captured, not recorded", ["compile.enabled=true"], ["--no-record"]),
    ("fsdp, captured, timestamps", ["compile.enabled=true"], ["--no-kernel-timing"]),
    ("fsdp, eager, timestamps", ["compile.enabled=false"], ["--no-kernel-timing"]),
    ("fsdp, captured, no prefetch", ["compile.enabled=true", "fsdp.forward_prefetch=false",
                                     "fsdp.backward_prefetch=NONE"], []),
    ("fsdp, captured, no overlap", ["compile.enabled=true", "distributed.enable_overlap=false"], []),
]


def run(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"{' '.join(command)} ended with status {done.returncode}\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
        return None
    return done.stdout


def torch_side(config, mode, gpus, steps):
    text = run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(gpus),
                os.path.join(ROOT, "bench", "torch_gpu_step.py"), config, mode, str(steps)])
    lines = [line for line in (text or "").splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else None


def aorta_side(program, config, gpus, steps, overrides, flags):
    with tempfile.TemporaryDirectory() as directory:
        command = [program, "launch", "-n", str(gpus), "--", program, "train", "--config", config, "--quiet", *flags,
                   "--override", f"training.max_steps={steps}", f"training.output_dir={directory}", *overrides]
        if run(command) is None:
            return None
        with open(f"{directory}/rank_00_metrics.jsonl", encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        return lines[len(lines) // 3:]


def figure(lines, view, key):
    values = [line[view]["overlap"][key] for line in lines if line.get(view)]
    values = [value for value in values if value is not None]
    return median(values) if values else float("nan")


def show(name, lines, others):
    step = median([line["step_ms"] for line in lines if line["step_ms"]])
    ratios = "".join(f"  {step / other:6.3f} of {which}" for which, other in others)
    data = sum(line["data_wait_ms"] for line in lines) / len(lines)
    print(f"  {name:32} {step:9.3f} ms{ratios}  peak {lines[-1]['memory']['peak_bytes'] / 2**30:6.2f} GiB  "
          f"data wait {data:.2f} ms  loss {lines[-1]['loss']:.5f}", flush=True)
    for view in ("profile", "kernel_profile"):
        if lines[-1].get(view):
            keys = ("compute_ms", "comm_ms", "exposed_comm_ms", "span_ms", "overlap_ratio")
            print(f"    {lines[-1][view]['source']:7}" +
                  "".join(f"  {key} {figure(lines, view, key):.3f}" for key in keys), flush=True)
    return step


def measure(program, name, gpus, steps, ways, modes):
    config = os.path.join(ROOT, "config", f"{name}.yaml")
    others = []
    print(f"{name}.yaml on {gpus} GPUs")
    for mode in modes:
        side = torch_side(config, mode, gpus, 40)
        if side is None:
            continue
        best = min(side["step_ms"], side["pipelined_ms"])
        others.append((f"torch {mode}", best))
        print(f"  PyTorch {side['torch']} {mode:4} synchronised {side['step_ms']:.2f}, pipelined "
              f"{side['pipelined_ms']:.2f} ms, peak {side['peak_gib']:.2f} GiB", flush=True)
    for way, overrides, flags in WAYS:
        if ways and way not in ways:
            continue
        side = aorta_side(program, config, gpus, steps, overrides, flags)
        if side is None:
            continue
        show(way, side, others)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aorta", default=os.path.join(ROOT, "build", "release", "aorta"))
    parser.add_argument("-n", type=int, default=1, dest="gpus")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--ways", nargs="+", choices=[way[0] for way in WAYS], help="these only")
    parser.add_argument("--configs", nargs="+", default=["default", "large"])
    parser.add_argument("--torch", nargs="*", choices=["fsdp", "ddp"], default=["fsdp", "ddp"], help="PyTorch's side")
    arguments = parser.parse_args()
    for name in arguments.configs:
        measure(arguments.aorta, name, arguments.gpus, arguments.steps, arguments.ways,
                arguments.torch)


if __name__ == "__main__":
    main()
