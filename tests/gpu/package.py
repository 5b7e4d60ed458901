#!/usr/bin/env python3
"""The wheel in PyTorch's environment: seconds from the file to a verdict, and what its calls cost a training.

    package.py WHEEL        on a GPU machine with PyTorch, without network; makes and removes an environment of its own

Prints: seconds to install and to the first verdict of `aorta trace run`; the ten lines of `aorta.verdict()`; how long its
handler holds training up, beside a handler that only writes the trace; a step alone and within `aorta.record()`, which
alternate. Exit status 1 where a verdict or the launches of a recording are missing, which begins late (`record()`,
`trace run --delay`).
"""
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time

MODEL = """
import torch, time
from torch import nn
torch.set_float32_matmul_precision("high")
layers = [nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True, norm_first=True) for _ in range(6)]
model = nn.Sequential(*layers).cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
x = torch.randn(16, 256, 768, device="cuda")
def step():
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
def timed(steps):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1e3 / steps
"""
TRAIN = MODEL + "timed(40)\n"
COST = MODEL + """
import aorta, os, statistics, tempfile
timed(20)
handler_ms = {"export": [], "verdict": []}
def watched(name, handler):
    def call(profiler):
        begin = time.perf_counter()
        handler(profiler)
        handler_ms[name].append((time.perf_counter() - begin) * 1e3)
    return call
def profiled(handler, cycles):
    schedule = torch.profiler.schedule(wait=2, warmup=2, active=4, repeat=cycles)
    with torch.profiler.profile(schedule=schedule, on_trace_ready=handler) as profiler:
        for _ in range(8 * cycles + 4):
            step()
            profiler.step()
folder = tempfile.mkdtemp()
verdict = aorta.verdict()
export = lambda profiler: profiler.export_chrome_trace(os.path.join(folder, "trace.json"))
for _ in range(3):
    profiled(watched("export", export), 1)
    profiled(watched("verdict", verdict), 1)
found = verdict.result()
median = statistics.median
print(f"a cycle's end holds training up for {median(handler_ms['export']):.0f} ms where the trace is written, "
      f"{median(handler_ms['verdict']):.0f} ms with the verdict; {len(found.tables)} tables")
"""
# In a process of its own: PyTorch's profiler keeps CUPTI once it has it.
RECORD = MODEL + """
import aorta, statistics, sys
timed(20)
alone, recorded = [], []
for i in range(9):
    alone.append(timed(30))
    with aorta.record() as recording:
        recorded.append(timed(30))
    if i in (0, 8):     # the first of the process, and one for which CUPTI's calls were switched off before
        print(recording, file=sys.stderr)
        causes = recording.analysis.data["ranks"][0]["idle_causes_ms"]
        print(f"recording {i}: idle {causes}", file=sys.stderr)
        assert causes["host_launch"] is not None and causes["host_sync"] is not None, "no launches were recorded"
median = statistics.median
print(f"a step alone {median(alone):.3f} ms, within record() {median(recorded):.3f} ms, after it {timed(30):.3f} ms")
"""


def environment(folder, wheel):
    """A new one that also sees this Python's packages; seconds that pip took."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = os.path.join(folder, "bin", "python3")
    site = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], check=True,
                          capture_output=True, text=True).stdout.strip()
    with open(os.path.join(site, "parent.pth"), "w", encoding="utf-8") as file:
        file.write(sysconfig.get_path("purelib") + "\n")
    begin = time.perf_counter()
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-index", wheel], check=True)
    return python, time.perf_counter() - begin


def main(wheel):
    folder = tempfile.mkdtemp(prefix="aorta-package-")
    try:
        python, seconds = environment(os.path.join(folder, "env"), os.path.abspath(wheel))
        script = os.path.join(folder, "train.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(TRAIN)
        begin = time.perf_counter()
        run = subprocess.run([os.path.join(folder, "env/bin/aorta"), "trace", "run", "--", python, script], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder)
        print(f"pip install {seconds:.1f} s; aorta trace run, the training's start included, "
              f"{time.perf_counter() - begin:.1f} s")
        print(run.stdout[run.stdout.find("Verdict: "):])
        late = os.path.join(folder, "late.py")
        with open(late, "w", encoding="utf-8") as file:
            file.write(MODEL + "timed(200)\n")
        delayed = subprocess.run([os.path.join(folder, "env/bin/aorta"), "trace", "run", "--json", "--delay", "1.5", "--",
                                  python, late], text=True, capture_output=True, cwd=folder)
        causes = json.loads(delayed.stdout)["ranks"][0]["idle_causes_ms"]
        print("trace run --delay 1.5: idle", causes)
        parts = [subprocess.run([python, "-c", code], text=True, capture_output=True, cwd=folder)
                 for code in (COST, RECORD)]
        for part in parts:
            print(part.stderr)
            print(part.stdout)
        good = all(part.returncode == 0 and "Verdict: " in part.stderr for part in parts)
        return 0 if "Verdict: " in run.stdout and good and causes["host_launch"] is not None else 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
