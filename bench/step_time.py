#!/usr/bin/python3
"""Step time of `aorta train` against PyTorch on one model: one rank, one thread of arithmetic, fp32, on the CPU.

    step_time.py [--rounds 3] [--core N] [small] [default]

Both sides run in turn, in processes of their own, --rounds times; the figures are medians over all steps. PyTorch runs
as an expert would run it: OPENBLAS_CORETYPE set to the fastest value here (tried first, because
OpenBLAS does not know every processor), the faster of its optimizer loops, denormals flushed, its batch made once; and
once more with glibc's allocator set to keep its memory, which saves page faults (column "tuned malloc").
--core confines either side to one processor, so that our loader and optimizer threads have no processor of their own.
"""
import argparse
import json
import os
import sys

from training import ROOT, aorta_steps, median, pinned, processor, run

PYTHON = "/usr/bin/python3"  # Debian's, which has Debian's PyTorch
CORE_TYPES = ("", "SAPPHIRERAPIDS", "COOPERLAKE", "SKYLAKEX", "ZEN", "HASWELL")
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(4 << 30), "MALLOC_TRIM_THRESHOLD_": str(8 << 30),
               "MALLOC_TOP_PAD_": str(64 << 20)}
# name: configuration, steps and warm-up steps of one round
CASES = {"small": ("bench/small.yaml", 40, 5), "default": ("config/default.yaml", 6, 2)}
AIM = 0.8

GEMM = """
import time, torch
torch.set_num_threads(1)
a, b, times = torch.rand(512, 768), torch.rand(768, 2048), []
for _ in range(30):
    start = time.perf_counter(); a @ b; times.append(time.perf_counter() - start)
print(2 * 512 * 768 * 2048 / sorted(times)[10] / 1e9)
"""


def openblas_candidates():
    """{label: settings} to try: each core type, and what the caller's environment says, if it says something."""
    candidates = {name or "(unset)": {"OPENBLAS_CORETYPE": name} if name else {} for name in CORE_TYPES}
    found = {name: value for name, value in os.environ.items() if name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    if found:
        candidates["(environment) " + " ".join(found.values())] = found
    return candidates


def best_openblas():
    """The settings under which OpenBLAS multiplies fastest."""
    candidates, rates = openblas_candidates(), {}
    for label, settings in candidates.items():
        # A type whose instructions this processor lacks kills the process: not a candidate.
        try:
            rates[label] = float(run([PYTHON, "-c", GEMM], settings))
        except (SystemExit, ValueError):
            continue
        print(f"  OPENBLAS_CORETYPE={label:22} {rates[label]:6.0f} GFLOP/s", flush=True)
    return candidates[max(rates, key=rates.get)]


def torch_steps(config, steps, warmup, environment, core):
    command = [PYTHON, f"{ROOT}/bench/torch_step.py", config, "--steps", str(steps), "--warmup", str(warmup)]
    answer = json.loads(run(pinned(command, core), environment))
    return answer["step_ms"], answer


def compare(name, rounds, environment, core):
    """Runs one case and prints its line; the ratio to PyTorch without and with the tuned allocator."""
    path, steps, warmup = CASES[name]
    config = os.path.join(ROOT, path)
    ours, plain, tuned, answer = [], [], [], None
    for _ in range(rounds):
        ours += aorta_steps(config, steps, warmup, core=core)
        times, answer = torch_steps(config, steps, warmup, environment, core)
        plain += times
        times, answer = torch_steps(config, steps, warmup, {**environment, **KEEP_MEMORY}, core)
        tuned += times
    print(f"{name} ({answer['parameters'] / 1e6:.1f} M parameters, {len(ours)} steps each, PyTorch {answer['torch']}):")
    mine = median(ours)
    print(f"  aorta train             {mine:9.2f} ms")
    for label, theirs in (("PyTorch", median(plain)), ("PyTorch, tuned malloc", median(tuned))):
        print(f"  {label:23} {theirs:9.2f} ms   ratio {mine / theirs:.3f}"
              f" (aim {AIM}: {'met' if mine / theirs <= AIM else 'NOT met'})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--core", type=int)
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}; default: all")
    arguments = parser.parse_args()
    unknown = set(arguments.cases) - set(CASES)
    if unknown:
        parser.error(f"no case {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    print(f"step time, one rank, one thread, fp32, on {processor()}", flush=True)
    environment = best_openblas()
    for name in arguments.cases or CASES:
        compare(name, arguments.rounds, environment, arguments.core)
    return 0


if __name__ == "__main__":
    sys.exit(main())
