#!/usr/bin/env python3
"""`aorta trace run --every` on a training of some minutes with a planted change at half time.

    live.py --aorta BIN/aorta [--seconds 120] [--window 10] [--alone 20]    on a machine with PyTorch and one GPU or more

The training runs alone for --alone seconds, then recorded for --seconds in windows. At half time the last rank gets
extra products of 4 ms a step (several GPUs: all ranks wait for it), or the host sleeps 4 ms before each step's loss is
read (one GPU). Prints the step time alone, and recorded before and after the change; the lines of `aorta`; and the CPU
share of its thread, and its most memory and disk. Exit status 1 where the change is not named within two windows that
follow the one it falls in, or the memory or the disk grow.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

TRAIN = r"""
import json, os, sys, time
import torch, torch.distributed as dist
from torch import nn
rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
seconds, plant = float(sys.argv[1]), sys.argv[2] == "plant"
torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
torch.set_float32_matmul_precision("high")
if world > 1:
    dist.init_process_group("nccl")
layers = [nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, norm_first=True) for _ in range(8)]
model = nn.Sequential(*layers).cuda()
if world > 1:
    model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
x, square = torch.randn(16, 512, 1024, device="cuda"), torch.randn(4096, 4096, device="cuda")
def timed(function, times):
    torch.cuda.synchronize(); begin = time.perf_counter()
    for _ in range(times): function()
    torch.cuda.synchronize(); return (time.perf_counter() - begin) / times
timed(lambda: square @ square, 20)
extra = max(1, round(0.004 / timed(lambda: square @ square, 50)))
def step(planted):
    if planted and world > 1 and rank == world - 1:
        for _ in range(extra): square @ square
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(x).square().mean()
    loss.backward()
    optimizer.step(); optimizer.zero_grad()
    if planted and world == 1: time.sleep(0.004)
    loss.item()
for _ in range(20): step(False)
count = torch.tensor([int(seconds / timed(lambda: step(False), 20))], device="cuda")
if world > 1: dist.broadcast(count, 0)
count, times, changed = int(count), ([], []), None
for i in range(count):
    planted = plant and i >= count // 2
    if planted and changed is None: changed = time.time()
    begin = time.perf_counter(); step(planted); times[planted].append((time.perf_counter() - begin) * 1e3)
if rank == 0:
    middle = lambda t: sorted(t)[len(t) // 2] if t else None
    print("RESULT " + json.dumps({"before_ms": middle(times[0]), "after_ms": middle(times[1]), "changed": changed,
                                  "steps": count}), flush=True)
if world > 1: dist.destroy_process_group()
"""


def folder_bytes(folder):
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.path.getsize(os.path.join(place, name))
            except OSError:
                pass
    return total


def look(process, folder, seen):
    """Memory, processor time and disk of `aorta`, once a second."""
    while process.poll() is None:
        try:
            with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
                memory = [int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS")][0]
            with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            seen.append((time.time(), memory, cpu, folder_bytes(folder) / 1e6))
        except (OSError, IndexError):
            pass
        time.sleep(1)


def result_of(output):
    return json.loads([line for line in output.splitlines() if line.startswith("RESULT ")][-1][7:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aorta", required=True)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--alone", type=float, default=20)
    parser.add_argument("--window", type=float, default=10)
    arguments = parser.parse_args()
    import torch
    gpus = torch.cuda.device_count()
    folder = tempfile.mkdtemp(prefix="aorta-live-")
    script, stored, lines = (os.path.join(folder, name) for name in ("train.py", "stored", "lines.jsonl"))
    with open(script, "w", encoding="utf-8") as file:
        file.write(TRAIN)
    command = ([sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(gpus), script] if gpus > 1
               else [sys.executable, script])
    alone = result_of(subprocess.run([*command, str(arguments.alone), "-"], check=True, capture_output=True,
                                     text=True).stdout)
    seen = []
    with open(os.path.join(folder, "words"), "w+", encoding="utf-8") as words:
        process = subprocess.Popen([os.path.abspath(arguments.aorta), "trace", "run", "--every", str(arguments.window),
                                    "-o", stored, "--json-lines", lines, "--prometheus", os.path.join(folder, "a.prom"),
                                    "--", *command, str(arguments.seconds), "plant"], stdout=subprocess.PIPE,
                                   stderr=words, text=True)
        watcher = threading.Thread(target=look, args=(process, stored, seen))
        watcher.start()
        output = process.stdout.read()
        process.wait()
        watcher.join()
        words.seek(0)
        print(words.read())
    recorded = result_of(output)
    with open(lines, encoding="utf-8") as file:
        windows = [json.loads(line) for line in file]
    for window in windows:
        print(window["window_start"], window["steps"], "steps", window["step_p50_ms"], "ms, evaluated in",
              window["evaluated_s"], "s:", window["change"])
    shutil.rmtree(folder)
    changed = recorded["changed"]
    starts = [time.mktime(time.strptime(w["window_start"], "%Y-%m-%dT%H:%M:%SZ")) - time.timezone for w in windows]
    falls = max(i for i, start in enumerate(starts) if start <= changed)
    wanted = (f"rank {gpus - 1} is late by",) if gpus > 1 else ("pause", "a step takes")
    named = [i for i, w in enumerate(windows) if i >= falls and any(word in (w["change"] or "") for word in wanted)]
    middle = len(seen) // 2
    most = [max(row[i] for row in part) for i in (1, 3) for part in (seen[5:middle], seen[middle:])]
    print(f"{gpus} GPUs; a step alone {alone['before_ms']:.2f} ms, recorded in windows {recorded['before_ms']:.2f}, after "
          f"the change {recorded['after_ms']:.2f}")
    print(f"the change falls into window {falls + 1} of {len(windows)} and is named in window "
          f"{named[0] + 1 if named else None}")
    print(f"aorta: {seen[-1][2]:.1f} s of a processor in {seen[-1][0] - seen[0][0]:.0f} s; most memory {most[0]:.0f} MB in "
          f"the first half, {most[1]:.0f} in the second; most disk {most[2]:.0f} and {most[3]:.0f} MB")
    flat = most[1] < 1.3 * most[0] + 50 and most[3] < 1.3 * most[2] + 20
    return 0 if process.returncode == 0 and named and named[0] <= falls + 2 and flat else 1


if __name__ == "__main__":
    sys.exit(main())
