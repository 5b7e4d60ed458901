#!/usr/bin/python3
"""Runs `aorta train` on one, two and four ranks under every sharding, and holds each run's dump against PyTorch.

    live.py --aorta build/release/aorta [--keep DIRECTORY] [NAME ...]

NAME picks runs (default all; a wrong one lists them). Exit status 1 when a run fails or differs from PyTorch.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))

# name: ranks and what is overridden in live.yaml
RUNS = {
    "one-rank-fsdp": (1, {}),
    "one-rank-ddp": (1, {"distributed.mode": "ddp"}),
    "one-rank-accumulation": (1, {"training.gradient_accumulation": 3}),
    "full-shard": (2, {"fsdp.sharding_strategy": "full_shard"}),
    "full-shard-flat": (2, {"fsdp.sharding_strategy": "full_shard", "fsdp.use_orig_params": False}),
    "full-shard-accumulation": (2, {"fsdp.sharding_strategy": "full_shard", "training.gradient_accumulation": 2}),
    "shard-grad-op": (2, {"fsdp.sharding_strategy": "shard_grad_op"}),
    "no-shard": (2, {"fsdp.sharding_strategy": "no_shard"}),
    "hybrid-shard": (4, {"fsdp.sharding_strategy": "hybrid_shard", "fsdp.hybrid_shard_gpus_per_node": 2}),
    "ddp": (2, {"distributed.mode": "ddp"}),
    "ddp-small-buckets": (2, {"distributed.mode": "ddp", "distributed.bucket_cap_mb": 0.01,
                              "distributed.enable_overlap": True}),
    "ddp-stress": (2, {"distributed.mode": "ddp", "distributed.enable_overlap": True,
                       "distributed.overlap_reduce_scatter": True}),
    "captured": (2, {"compile.enabled": True}),
    "one-stream": (2, {"streams.count": 1}),
}

# On GPUs only.
GPU_RUNS = {
    "symmetric": (2, {"fsdp.symmetric_memory": True, "fsdp.use_orig_params": False}),
    "symmetric-captured": (2, {"fsdp.symmetric_memory": True, "fsdp.use_orig_params": False,
                               "compile.enabled": True}),
}


def overridden(config, overrides):
    """A copy of the configuration with dotted keys set."""
    copy = {section: dict(keys) for section, keys in config.items()}
    for key, value in overrides.items():
        section, name = key.split(".")
        copy.setdefault(section, {})[name] = value
    return copy


def run(aorta, config, directory, ranks):
    """Trains and checks in `directory`; the exit status of what failed, else 0."""
    os.makedirs(directory)
    config = overridden(config, {"training.output_dir": directory, "training.dump_dir": f"{directory}/dump"})
    path = f"{directory}/config.yaml"
    with open(path, "w", encoding="utf-8") as file:
        yaml.safe_dump(config, file, sort_keys=False)
    train = [aorta, "train", "--config", path]
    if ranks > 1:
        train = [aorta, "launch", "-n", str(ranks), "--", *train]
    done = subprocess.run(train, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        print(f"  FAILED {' '.join(train)}: exit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.returncode
    check = [sys.executable, f"{HERE}/reference.py", f"{directory}/dump", "--config", path]
    return subprocess.run(check, stdin=subprocess.DEVNULL, check=False).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aorta", default="build/release/aorta")
    parser.add_argument("--keep", help="leave the runs here instead of in a temporary directory; must not exist")
    parser.add_argument("--device", default="cpu", help="device.kind of the runs (default %(default)s)")
    parser.add_argument("--ranks", type=int, default=4, help="leaves out runs of more ranks (default %(default)s)")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    runs = RUNS if arguments.device == "cpu" else {**RUNS, **GPU_RUNS}
    unknown = set(arguments.names) - set(runs)
    if unknown:
        parser.error(f"no run {', '.join(sorted(unknown))}; there are {', '.join(runs)}")
    with open(f"{HERE}/live.yaml", encoding="utf-8") as file:
        config = yaml.safe_load(file)

    failed = []
    with tempfile.TemporaryDirectory() as temporary:
        place = os.path.abspath(arguments.keep or temporary)
        for name in arguments.names or runs:
            ranks, overrides = runs[name]
            if ranks > arguments.ranks:
                print(f"{name}: left out, it needs {ranks} ranks", flush=True)
                continue
            overrides = {**overrides, "device.kind": arguments.device}
            print(f"{name} ({ranks} rank{'s' if ranks > 1 else ''}):", flush=True)
            if run(os.path.abspath(arguments.aorta), overridden(config, overrides), f"{place}/{name}", ranks) != 0:
                failed.append(name)
    print(f"parity: {'FAILED for ' + ', '.join(failed) if failed else 'holds for all runs'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
