#!/usr/bin/python3
"""One side of step_time.py: training steps in PyTorch on one thread. Prints a JSON line with the time of each.

    torch_step.py CONFIG.yaml [--steps 10] [--warmup 3] [--profile]

The environment (OPENBLAS_CORETYPE, OMP_NUM_THREADS, ...) must be set before this starts: step_time.py does. The batch
is made once, so that PyTorch pays nothing for its data. --profile prints what each operation costs instead.
"""
import argparse
import json
import os
import sys
import time

import torch
import yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "parity"))
from ranking import Ranking, adamw, learning_rate, loss_of  # noqa: E402


def make_batch(config):
    data, generator = config["dataset"], torch.Generator().manual_seed(0)
    shape = (config["training"]["batch_size"], data["sequence_length"])
    return {
        "dense": torch.randn(*shape, data["num_dense_features"], data["dense_dim"], generator=generator),
        "categorical": torch.randint(data["vocab_size"], (*shape, data["sparse_features"]), generator=generator),
        "target": torch.rand(*shape, generator=generator),
        "importance": torch.rand(*shape, generator=generator),
    }


def make_step(config):
    torch.manual_seed(0)
    model = Ranking(config["model"]).train()
    parameters = list(model.parameters())
    optimizer = adamw(config, parameters, foreach=False)  # on the CPU foreach only adds temporaries
    batch, clip = make_batch(config), config["training"].get("grad_clip_norm", 1.0)

    def step(number):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, clip)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(config, number)
        optimizer.step()
        return loss.item()

    return step, sum(parameter.numel() for parameter in parameters)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    with open(arguments.config, encoding="utf-8") as file:
        config = yaml.safe_load(file)

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.set_flush_denormal(True)
    step, count = make_step(config)
    for number in range(arguments.warmup):
        step(number)
    if arguments.profile:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            for number in range(arguments.steps):
                step(arguments.warmup + number)
        print(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=30, max_name_column_width=60))
        return
    times = []
    for number in range(arguments.steps):
        start = time.perf_counter()
        step(arguments.warmup + number)
        times.append((time.perf_counter() - start) * 1e3)
    print(json.dumps({"torch": torch.__version__, "parameters": count, "step_ms": times}))


if __name__ == "__main__":
    main()
