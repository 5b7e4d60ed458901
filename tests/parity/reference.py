#!/usr/bin/python3
"""Holds the dump of an `aorta train` run (training.dump_dir) against PyTorch in float64.

    reference.py DUMP_DIR --config CONFIG.yaml [--metrics DIR] [--tolerance 1e-4]

The run must have had dropout 0 and mixed_precision none, and dumped every step. For each step, all from what the run
itself dumped before it, so that no error hides behind an earlier one:
  losses       of each rank, against rank_RR_metrics.jsonl
  gradients    averaged over the ranks' batches
  grad_norm, lr  against rank_00_metrics.jsonl
  parameters   after AdamW with the dumped gradients: clipping, schedule, moments, decay
And once for the whole run, PyTorch left to itself from params_0000 on: the losses must stay together.
An error is ||ours - PyTorch|| / ||PyTorch|| per tensor. Exit status 1 when one exceeds the tolerance.
"""
import argparse
import glob
import json
import os
import re
import sys

import torch
import yaml

import tensors
from ranking import Ranking, adamw, as_tensors, learning_rate, loss_of, update


class Findings:
    """Collects errors; `limit` is the largest that passes."""

    def __init__(self, limit):
        self.limit, self.worst, self.failures, self.count = limit, {}, [], 0

    def hold(self, kind, what, ours, theirs):
        ours, theirs = torch.as_tensor(ours, dtype=torch.float64), torch.as_tensor(theirs, dtype=torch.float64)
        if ours.shape != theirs.shape:
            self.failures.append(f"{kind} {what}: shape {tuple(ours.shape)}, expected {tuple(theirs.shape)}")
            return
        error = float((ours - theirs).norm() / theirs.norm().clamp(min=1e-30))
        self.count += 1
        if error >= self.worst.get(kind, (0.0, ""))[0]:
            self.worst[kind] = (error, what)
        if not error <= self.limit:  # also when it is NaN
            self.failures.append(f"{kind} {what}: error {error:.2e}")


def load(dump, name):
    return as_tensors(tensors.read(os.path.join(dump, name + ".safetensors")))


def dumped_steps(dump):
    found = {int(re.search(r"grads_(\d+)", path).group(1)) for path in glob.glob(f"{dump}/grads_*.safetensors")}
    steps = sorted(found)
    if steps != list(range(len(steps))) or not steps:
        sys.exit(f"{dump}: the steps dumped are {steps}, needed are all from 0 on")
    return steps


def batches_of(dump, step):
    paths = sorted(glob.glob(f"{dump}/batch_{step:04d}_rank*.safetensors"))
    return [load(dump, os.path.basename(path).removesuffix(".safetensors")) for path in paths]


def logged_steps(directory):
    """{(rank, global_step): line} of all rank_RR_metrics.jsonl in a directory."""
    lines = {}
    for path in glob.glob(f"{directory}/rank_*_metrics.jsonl"):
        with open(path, encoding="utf-8") as file:
            for line in map(json.loads, file):
                lines[line["rank"], line["global_step"]] = line
    return lines


def backward(model, batches):
    """Gradients of the mean over ranks, left in the parameters; the losses of the ranks."""
    model.zero_grad(set_to_none=True)
    losses = [loss_of(model, batch) for batch in batches]
    (sum(losses) / len(losses)).backward()
    return [loss.item() for loss in losses]


def check_names(dump, model):
    ours, theirs = set(load(dump, "params_0000")), set(model.state_dict())
    if ours != theirs:
        sys.exit(f"parameter names differ: missing {sorted(theirs - ours)[:5]}, unknown {sorted(ours - theirs)[:5]}")


def check_steps(findings, config, dump, logged):
    """Every step from the run's own parameters and gradients."""
    model = Ranking(dict(config["model"], dropout=0.0)).double()
    updated = Ranking(dict(config["model"], dropout=0.0)).double()
    check_names(dump, model)
    updated.load_state_dict(load(dump, "params_0000"))
    optimizer = adamw(config, updated.parameters())
    for step in dumped_steps(dump):
        model.load_state_dict(load(dump, f"params_{step:04d}"))
        batches = batches_of(dump, step)
        ranks = {rank for rank, logged_step in logged if logged_step == step}
        if len(batches) != len(ranks):
            sys.exit(f"step {step}: {len(batches)} batches were dumped, {len(ranks)} ranks logged it")
        for rank, loss in enumerate(backward(model, batches)):
            findings.hold("losses", f"step {step} rank {rank}", logged[rank, step]["loss"], loss)
        gradients = load(dump, f"grads_{step:04d}")
        for name, parameter in model.named_parameters():
            findings.hold("gradients", f"step {step} {name}", gradients[name], parameter.grad)

        for name, parameter in updated.named_parameters():
            parameter.grad = gradients[name].clone()
        norm = update(config, updated, optimizer, step)
        findings.hold("grad_norm", f"step {step}", logged[0, step]["grad_norm"], norm)
        findings.hold("lr", f"step {step}", logged[0, step]["lr"], learning_rate(config, step))
        after = load(dump, f"params_{step + 1:04d}")
        before = model.state_dict()
        for name, parameter in updated.named_parameters():
            findings.hold("parameters", f"after step {step} {name}", after[name], parameter.detach())
            # What the step changed says more, where the rounding of float32 parameters does not drown it.
            change, rounding = parameter.detach() - before[name], before[name].norm() * 2.0**-24
            if rounding < 0.1 * findings.limit * change.norm():
                findings.hold("changes", f"in step {step} {name}", after[name] - before[name], change)


def check_run(findings, config, dump, logged):
    """PyTorch alone from the first parameters on."""
    model = Ranking(dict(config["model"], dropout=0.0)).double()
    model.load_state_dict(load(dump, "params_0000"))
    optimizer = adamw(config, model.parameters())
    for step in dumped_steps(dump):
        for rank, loss in enumerate(backward(model, batches_of(dump, step))):
            findings.hold("losses of the whole run", f"step {step} rank {rank}", logged[rank, step]["loss"], loss)
        update(config, model, optimizer, step)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dump")
    parser.add_argument("--config", required=True, help="the configuration the run had, overrides included")
    parser.add_argument("--metrics", help="where rank_RR_metrics.jsonl lie (default: beside the dump)")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    arguments = parser.parse_args()
    dump = arguments.dump.rstrip("/")
    with open(arguments.config, encoding="utf-8") as file:
        config = yaml.safe_load(file)
    logged = logged_steps(arguments.metrics or os.path.dirname(dump) or ".")
    if not logged:
        sys.exit("no rank_RR_metrics.jsonl found; name their directory with --metrics")

    findings = Findings(arguments.tolerance)
    check_steps(findings, config, dump, logged)
    check_run(findings, config, dump, logged)
    for kind, (error, what) in findings.worst.items():
        print(f"  {kind}: worst error {error:.1e} ({what})")
    for failure in findings.failures[:20]:
        print(f"  FAILED {failure}")
    print(f"  {findings.count} values compared, {len(findings.failures)} outside {arguments.tolerance:g}")
    return 1 if findings.failures else 0


if __name__ == "__main__":
    sys.exit(main())
