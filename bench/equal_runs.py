#!/usr/bin/python3
"""What `aorta report` and `aorta sweep --compare` call different: pairs of equal runs and of equal sweeps, and runs with
a layer more (some 20%).

    bench/equal_runs.py build/release/aorta [--runs 12] [--steps 60] [--ranks 2] [--device cpu] [--load N] [--sweeps N]
                        [--keep DIR]

Makes the runs in turns, so that other work of the machine affects both. Compares each run with its next one (equal), and
the equal runs with those that do more, one of each and all of each. --load N: with N processes that do nothing but keep
a processor busy. Prints what is called different, and what equal runs differ by, assumed or measured. Exit code 1: more
than one of 20 pairs of equal runs or sweeps differ, or, without --load, the difference of all runs is not found.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile


class Load:
    """Processes that keep processors busy."""

    def __init__(self, count):
        self.count, self.processes = count, []

    def __enter__(self):
        self.processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(self.count)]

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


def train(options, directory, layers):
    overrides = [f"training.max_steps={options.steps}", f"training.output_dir={directory}", f"device.kind={options.device}",
                 f"model.num_layers={layers}", "model.model_dim=128", "model.mlp_hidden_dim=512"]
    command = [options.aorta, "launch", "-n", str(options.ranks), "--", options.aorta, "train", "--quiet", "--no-report",
               "--config", os.path.join(os.path.dirname(__file__), "..", "config", "quickstart.yaml"), "--override", *overrides]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def compare(options, folder, reference, candidate):
    command = [options.aorta, "report", "--json", "--no-pictures", "--output", f"{folder}/report", "--reference", "a",
               "--candidate", "b"]
    for label, runs in (("a", reference), ("b", candidate)):
        for run in runs:
            command += ["--log-dir", run, "--label", label]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["comparison"]


def sweep(options, directory):
    config = os.path.join(os.path.dirname(__file__), "..", "config", "quickstart.yaml")
    command = [options.aorta, "sweep", "-o", directory, "-q", "-n", str(options.ranks), "--steps", str(options.steps // 3),
               "--config", config, "--override", "model.model_dim=128", "model.mlp_hidden_dim=512",
               f"device.kind={options.device}", "--grid", "fsdp.forward_prefetch=true,false", "fsdp.use_orig_params=true,false"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def compare_sweeps(options, first, second):
    done = subprocess.run([options.aorta, "sweep", "--compare", first, second, "--json"], check=True, capture_output=True,
                          text=True)
    found = json.loads(done.stdout)["comparisons"][0]
    differs = found["p_value"] < 0.05
    points = len(found["changes"])
    print(f"{os.path.basename(first)} and {os.path.basename(second)}: p {found['p_value']:.2g}, {points} figures of points count, "
          f"{'DIFFERS' if differs else 'alike'}", flush=True)
    return differs or points > 0


def say(what, comparison):
    step = comparison["metrics"]["step_ms"]
    different = [key for key, row in comparison["metrics"].items() if row["significant"] and key != "step_ms"]
    print(f"{what:28} {step['reference']:9.3f} {step['candidate']:9.3f} {step['delta_percent']:+7.1f}%  p {step['p_value']:.2g}"
          f"  equal runs {step['between_runs_percent']:.2g}%  {'DIFFERS' if step['significant'] else 'alike'}"
          f"{'; ' + ', '.join(different) if different else ''}", flush=True)
    return step["significant"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("aorta")
    parser.add_argument("--runs", type=int, default=12, help="equal ones; half as many do more")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--load", type=int, default=0, help="busy processes meanwhile")
    parser.add_argument("--sweeps", type=int, default=0, help="equal sweeps, compared in pairs")
    parser.add_argument("--keep", help="folder for the runs; default: they are removed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or temporary
        equal, more = [], []
        sweeps = [f"{folder}/sweep{i}" for i in range(options.sweeps)]
        with Load(options.load):
            for directory in sweeps:
                sweep(options, directory)
            for i in range(options.runs):
                equal.append(f"{folder}/equal{i}")
                train(options, equal[-1], 4)
                if i % 2:
                    more.append(f"{folder}/more{i}")
                    train(options, more[-1], 5)
        pairs = max(0, options.sweeps - 1)
        swept = sum(compare_sweeps(options, sweeps[i], sweeps[i + 1]) for i in range(pairs))
        wolves = sum(say(f"equal {i} and {i + 1}", compare(options, folder, [equal[i]], [equal[i + 1]]))
                     for i in range(options.runs - 1))
        found = sum(say(f"equal {2 * i} and a layer more", compare(options, folder, [equal[2 * i]], [more[i]]))
                    for i in range(len(more)))
        whole = compare(options, folder, equal, more)
        sure = say(f"all {len(equal)} and all {len(more)}", whole)
        halves = say("even and odd equal runs", compare(options, folder, equal[::2], equal[1::2]))
    print(f"{wolves} of {options.runs - 1} pairs of equal runs called different, their halves {'too' if halves else 'not'};"
          f" a layer more found in {found} of {len(more)} pairs, of all runs together: {'yes' if sure else 'no'}")
    if pairs:
        print(f"{swept} of {pairs} pairs of equal sweeps called different")
    print(whole["largest_change"], whole["between_runs"])
    bad = 20 * wolves > options.runs - 1 or 20 * swept > pairs
    return 1 if bad or halves or not (sure or options.load) else 0


if __name__ == "__main__":
    sys.exit(main())
