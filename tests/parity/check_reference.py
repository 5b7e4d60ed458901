#!/usr/bin/python3
"""Holds reference.py itself: the vectors of data/, as a dump, must pass; with one thing altered they must not."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch  # noqa: F401 -- reference.py needs it
    import yaml  # noqa: F401

    import tensors
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))


def make_dump(directory):
    """data/ with the log lines that a run of one rank would have written."""
    shutil.copytree(f"{HERE}/data", f"{directory}/dump")
    with open(f"{HERE}/data/expected.json", encoding="utf-8") as file:
        steps = json.load(file)["steps"]
    write_log(directory, [{"rank": 0, "global_step": step["step"], "loss": step["loss"],
                           "grad_norm": step["grad_norm"], "lr": step["lr"]} for step in steps])


def write_log(directory, lines):
    with open(f"{directory}/rank_00_metrics.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def read_log(directory):
    with open(f"{directory}/rank_00_metrics.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def alter_tensor(directory, file, name, factor):
    path = f"{directory}/dump/{file}.safetensors"
    arrays = tensors.read(path)
    arrays[name] = arrays[name] * numpy.float32(factor)
    tensors.write(path, arrays)


def alter_log(directory, key, factor):
    lines = read_log(directory)
    lines[1][key] *= factor
    write_log(directory, lines)


def rename_parameter(directory):
    path = f"{directory}/dump/params_0000.safetensors"
    arrays = tensors.read(path)
    arrays["norm.gain"] = arrays.pop("norm.weight")
    tensors.write(path, arrays)


# what is done to the dump, and what reference.py must then say
CASES = {
    "nothing altered": (lambda d: None, 0, "0 outside"),
    "a gradient": (lambda d: alter_tensor(d, "grads_0001", "encoder.layers.1.norm2.weight", 1.001), 1,
                   "gradients step 1 encoder.layers.1.norm2.weight"),
    "a parameter": (lambda d: alter_tensor(d, "params_0003", "scorer.3.weight", 1.001), 1,
                    "parameters after step 2 scorer.3.weight"),
    "the loss": (lambda d: alter_log(d, "loss", 1.001), 1, "losses step 1 rank 0"),
    "the norm": (lambda d: alter_log(d, "grad_norm", 1.001), 1, "grad_norm step 1"),
    "the learning rate": (lambda d: alter_log(d, "lr", 0.5), 1, "lr step 1"),
    "not a number": (lambda d: alter_tensor(d, "grads_0002", "norm.bias", float("nan")), 1, "gradients step 2 norm.bias"),
    "a name": (rename_parameter, 1, "parameter names differ: missing ['norm.weight'], unknown ['norm.gain']"),
}


def main():
    failures = 0
    for what, (alter, status, message) in CASES.items():
        with tempfile.TemporaryDirectory() as directory:
            make_dump(directory)
            alter(directory)
            command = [sys.executable, f"{HERE}/reference.py", f"{directory}/dump", "--config", f"{HERE}/data/config.yaml"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != status or message not in done.stdout + done.stderr:
            failures += 1
            print(f"FAILED: {what}: expected status {status} and '{message}', got {done.returncode}:\n{done.stdout}{done.stderr}")
    print(f"{len(CASES) - failures} of {len(CASES)} cases as expected")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
