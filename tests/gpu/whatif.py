#!/usr/bin/env python3
"""The predictions of `aorta whatif`, compared with the time of a run with those resources.

    whatif.py OUT --aorta BIN [--gpus 2] [--config FILE] [--steps 60] [--override KEY=VALUE ...]

Runs our own trainer as it is, with one NCCL channel, on one rank, and with an eighth of the batch; then predicts each
from another one:

    link      the run with one channel from the one with all, by its link, and the other way round
    ranks     all ranks from the run of one, by the link of the run of all
    batch     the small batch from the large one by the ratios of their times of compute and of copies, and the other
              way round

whatif fits a link to the other run's collectives. A prediction from the other run's compute or link tests the replay and
the model. It does not test the compute or the link of another machine. Prints a line per prediction; exit status 1 when
one of them is off by more than 15% of the measured step. Under three minutes on two GPUs; elsewhere, with a small
model: --config config/quickstart.yaml --steps 20 --batch 8 (there no run has another link, but for noise).
"""
import argparse
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOLERANCE = 0.15
BATCH_RATIO = 8
# run -> (ranks, None: all; environment; whether the batch is an eighth)
RUNS = {
    "base": (None, {}, False),
    "one_channel": (None, {"NCCL_MAX_CTAS": "1", "NCCL_MAX_NCHANNELS": "1"}, False),
    "one_rank": (1, {}, False),
    "small_batch": (None, {}, True),
}


def train(arguments, name):
    """False: the run failed, which is printed."""
    ranks, environment, small = RUNS[name]
    batch = max(1, arguments.batch // BATCH_RATIO) if small else arguments.batch
    overrides = [f"training.max_steps={arguments.steps}", f"training.output_dir={os.path.join(arguments.out, name)}",
                 f"training.batch_size={batch}", *arguments.override]
    command = [arguments.aorta, "launch", "-n", str(ranks or arguments.gpus), "--", arguments.aorta, "train", "--quiet",
               "--config", arguments.config, "--override", *overrides]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False,
                          env={**os.environ, **environment})
    if done.returncode:
        print(f"{name}: {done.stderr.strip()}", flush=True)
    return done.returncode == 0


def whatif(arguments, name, *options):
    """The figures; None: it failed, which is printed."""
    command = [arguments.aorta, "whatif", os.path.join(arguments.out, name), "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    if done.returncode:
        print(f"{' '.join(command)}: {done.stderr.strip()}", flush=True)
        return None
    return json.loads(done.stdout)


def mean_ms(arguments, name, figure):
    with open(os.path.join(arguments.out, name, "summary.json"), encoding="utf-8") as file:
        return next(iter(json.load(file)["labels"].values()))[figure]["mean"]


def link_options(figures):
    link = figures["recorded_link"]
    if not link or not link["bandwidth_gbytes_per_s"]:
        return None
    return ["--ranks-per-node", "1", "--bandwidth", f"{link['bandwidth_gbytes_per_s']}GB/s",
            "--latency", f"{max(link['latency_us'], 0.001)}us"]


def compare(arguments, figures, source, target, options, what):
    """Predicts the run `target` from the run `source`; whether that is near enough."""
    if not figures.get(source) or not figures.get(target) or options is None:
        print(f"{what:28} {source:>12} -> {target:12} not possible")
        return False
    ranks = str(figures[target]["recorded_ranks"])
    predicted = whatif(arguments, source, "--ranks", ranks, *options)
    if not predicted:
        return False
    step = next(row for row in predicted["steps"] if row["ranks"] == int(ranks))
    measured, before = figures[target]["measured_ms"], figures[source]["measured_ms"]
    off = (step["step_ms"] - measured) / measured
    print(f"{what:28} {source:>12} -> {target:12} from {before:9.3f}  predicted {step['step_ms']:9.3f}  "
          f"measured {measured:9.3f} ms  {100 * off:+6.1f}%", flush=True)
    return abs(off) <= TOLERANCE


def print_links(figures):
    for name, one in figures.items():
        link, fit = one and one["recorded_link"], one and one.get("fit")
        if link:
            bandwidth = link["bandwidth_gbytes_per_s"]
            print(f"{name}: link {link['latency_us']:.1f} us, {bandwidth or float('inf'):.1f} GB/s, fitted to "
                  f"{fit['collectives']} collectives in {fit['sizes']} sizes (median error {100 * fit['error']:.0f}%)")


def compare_all(arguments, figures):
    links = {name: link_options(one) if one else None for name, one in figures.items()}
    results = [
        compare(arguments, figures, "base", "one_channel", links.get("one_channel"), "link"),
        compare(arguments, figures, "one_channel", "base", links.get("base"), "link"),
        compare(arguments, figures, "one_rank", "base", links.get("base"), "ranks"),
    ]
    if figures.get("base") and figures.get("small_batch"):
        for source, target in (("base", "small_batch"), ("small_batch", "base")):
            factors = {option: mean_ms(arguments, source, figure) / mean_ms(arguments, target, figure)
                       for option, figure in (("--compute", "compute_ms"), ("--copies", "memcpy_ms"))}
            options = [word for option, factor in factors.items() for word in (option, f"{factor:.6f}x")]
            results.append(compare(arguments, figures, source, target, options,
                                   f"batch, compute {factors['--compute']:.3f}x"))
    else:
        results.append(False)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--aorta", required=True)
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--config", default=os.path.join(HERE, "..", "..", "config", "large.yaml"))
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--override", nargs="*", default=[], help="keys of all runs, as of aorta train")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    figures = {name: whatif(arguments, name) if train(arguments, name) else None for name in RUNS}
    print_links(figures)
    results = compare_all(arguments, figures)
    print(f"{time.perf_counter() - begin:.0f} s")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
