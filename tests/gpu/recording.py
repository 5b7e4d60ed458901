#!/usr/bin/env python3
"""What recording costs, and whether the figures of `aorta train` are those of `aorta trace run` on the same job.

    tests/gpu/recording.py PROGRAM [--ranks N] [--configs default large] [--steps 120] [--rounds 2] [--ways captured ...]

Step times: median of rank 0 over the steps after the warm-up, in rounds that take turns: without recording
(--no-record), with timestamps (--no-kernel-timing), with kernel records (--kernel-timing). Figures: medians over the
same steps and ranks of the records that train took, and of those that `aorta trace run` took of the job without
recording, cut at the kernel that begins a step. These are different runs: where a card is at its limit of power, clocks
differ from run to run, and communication waits for the slower rank. Exit status 1 when figures of captured steps differ by more than
--tolerance (0.5%), when kernels have no range, or records were lost.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

from trace_run import Work, common, length, read_spools, union

WARM_UP = 30  # steps: the first are not captured, find the library's fastest ways, and meet clocks that still rise
MEASURES = re.compile(r"^aorta_(stamp|clock)")
VARIANTS = {"off": ["--no-record"], "timestamps": ["--no-kernel-timing"], "records": ["--kernel-timing"]}
FIGURES = ("kernels", "compute", "comm", "overlap")


def median(values):
    return statistics.median(values) if values else float("nan")


def run(options, config, captured, flags, output, wrap=()):
    command = [*wrap, options.program, "launch", "-n", str(options.ranks), "--", options.program, "train", "--quiet",
               "--no-report", *flags, "--config", config, "--override", f"training.output_dir={output}",
               f"training.max_steps={options.steps}", "device.kind=cuda", f"compile.enabled={str(captured).lower()}",
               *options.override]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-3000:]}")


def read_lines(output, rank):
    with open(os.path.join(output, f"rank_{rank:02d}_metrics.jsonl"), encoding="utf-8") as file:
        return [line for line in map(json.loads, file) if line["global_step"] >= WARM_UP]


def spans(view):
    """Kernels of a view, with what it says of them."""
    kinds = {"compute": "compute", "collective": "comm"}
    return [Work(round(r["start_ms"] * 1e6), round(r["end_ms"] * 1e6), r["tag"], kinds.get(r["metadata"]["kind"], "copy"))
            for r in view["ranges"]]


def figures(work):
    parts = {kind: union(sorted(w for w in work if w.kind == kind)) for kind in ("compute", "comm")}
    return {"kernels": len([w for w in work if w.kind == "compute"]), "compute": length(parts["compute"]) / 1e6,
            "comm": length(parts["comm"]) / 1e6, "overlap": common(parts["compute"], parts["comm"]) / 1e6}


def of_train(lines):
    steps = [figures(spans(line["kernel_profile"])) for line in lines if line.get("kernel_profile")]
    return {name: median([step[name] for step in steps]) for name in FIGURES}


def of_trace(work):
    work = [w for w in work if not MEASURES.match(w.name)]
    begins = [i for i, w in enumerate(work) if w.name.startswith("step_begin")]
    steps = [figures(work[a:b]) for a, b in zip(begins[WARM_UP:-1], begins[WARM_UP + 1:])]
    return {name: median([step[name] for step in steps]) for name in FIGURES}


def mean(values):
    return {name: sum(v[name] for v in values) / len(values) for name in FIGURES}


def check_join(lines):
    """Records lost, and kernels without a range, in the worst step."""
    views = [line["kernel_profile"] for line in lines]
    lost = sum(view["dropped"] for view in views)
    return lost, max(len(view["ranges"]) - view["attributed"] for view in views), len(views[-1]["ranges"])


def way(options, config, captured):
    name = f"{os.path.basename(config)}, {'captured' if captured else 'one by one'}, {options.ranks} rank(s)"
    times = {variant: [] for variant in VARIANTS}
    recorded, fine = [], True
    for number in range(options.rounds):
        for variant in list(VARIANTS)[::-1 if number % 2 else 1]:
            with tempfile.TemporaryDirectory() as output:
                run(options, config, captured, VARIANTS[variant], output)
                times[variant].append(median([line["step_ms"] for line in read_lines(output, 0)]))
                if variant != "records":
                    continue
                lines = [read_lines(output, rank) for rank in range(options.ranks)]
                recorded.append(mean([of_train(of) for of in lines]))
                joins = [check_join(of) for of in lines]
                fine = fine and all(lost == 0 for lost, _, _ in joins)
                print(f"  {name}: lost, without a range (most), kernels of a rank's step: {joins}", flush=True)
    off = median(times["off"])
    print(f"{name}: step {off:.3f} ms without recording; " + "; ".join(
        f"{variant} {median(of):.3f} ({median(of) / off - 1:+.1%}, rounds {', '.join(f'{t:.3f}' for t in of)})"
        for variant, of in times.items()), flush=True)
    with tempfile.TemporaryDirectory() as output:
        spool = os.path.join(output, "spool")
        run(options, config, captured, ["--no-record"], output, (options.program, "trace", "run", "--output", spool,
                                                                 "--record", "kernels", "--"))
        traced = mean([of_trace(work) for work in read_spools(spool).values()])
    own = mean(recorded)
    for figure in FIGURES[:4 if options.ranks > 1 else 2]:  # collectives of one rank are copies
        share = own[figure] / traced[figure] - 1 if traced[figure] else float("nan")
        bad = captured and not abs(share) <= options.tolerance
        fine = fine and not bad
        print(f"  {figure}: train {own[figure]:.4f}, trace run {traced[figure]:.4f}: {share:+.2%}{'  TOO FAR' * bad}",
              flush=True)
    return fine


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--configs", nargs="+", default=["default"])
    parser.add_argument("--ways", nargs="+", default=["captured", "one-by-one"])
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--tolerance", type=float, default=0.005)
    parser.add_argument("--override", nargs="+", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    options.program = os.path.abspath(options.program)
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "config")
    begun, fine = time.time(), True
    for config in options.configs:
        path = config if os.path.exists(config) else os.path.join(folder, f"{config}.yaml")
        for one in options.ways:
            fine = way(options, path, one == "captured") and fine
    print(f"{time.time() - begun:.0f} s")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
