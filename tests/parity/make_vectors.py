#!/usr/bin/python3
"""Makes tests/parity/data: a tiny model, three training steps of it by PyTorch in float64, stored as float32.

    make_vectors.py [DIRECTORY]

Per step S the file names are those of a parity dump: params_SSSS (before the step, and after the last), batch_SSSS_rank00,
grads_SSSS (before clipping). expected.json holds per step the loss, the gradient's norm and the learning rate.
The tests in C read them, so that parity with PyTorch is tested where PyTorch is not installed.
"""
import json
import os
import sys

import torch
import yaml

import tensors
from ranking import Ranking, adamw, as_tensors, learning_rate, loss_of, update

STEPS = 3
BATCH, POSITIONS, SPARSE = 4, 5, 3
CONFIG = {
    "training": {"batch_size": BATCH, "max_steps": STEPS, "grad_clip_norm": 0.15, "mixed_precision": "none", "seed": 7},
    # With a tiny eps Adam's step does not depend on the scale of the gradients, so that a wrong clipping factor would
    # stay hidden, and blows the noise in the key's bias, whose gradient is 0 in exact arithmetic, up to whole steps.
    "optimizer": {"name": "adamw", "lr": 0.01, "weight_decay": 0.1, "betas": [0.9, 0.98], "eps": 1e-3},
    "scheduler": {"warmup_steps": 2, "total_steps": 8},
    "dataset": {"num_samples": 64, "sequence_length": POSITIONS, "dense_dim": 6, "sparse_features": SPARSE,
                "vocab_size": 50, "num_dense_features": 2, "seed": 13},
    "model": {"vocab_size": 50, "embedding_dim": 12, "num_dense_features": 2, "dense_dim": 6, "model_dim": 16,
              "num_heads": 2, "num_layers": 2, "dropout": 0.0, "mlp_hidden_dim": 24},
}


def make_batch(generator):
    model = CONFIG["model"]
    shape = (BATCH, POSITIONS)
    return {
        "dense": torch.randn(*shape, model["num_dense_features"], model["dense_dim"], generator=generator),
        "categorical": torch.randint(model["vocab_size"], (*shape, SPARSE), generator=generator),
        "target": torch.rand(*shape, generator=generator),
        "importance": torch.rand(*shape, generator=generator),
    }


def numpy_of(named):
    return {name: tensor.detach().numpy() for name, tensor in named}


def main():
    directory = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
    os.makedirs(directory, exist_ok=True)

    def path(name):
        return os.path.join(directory, name)

    torch.manual_seed(7)
    generator = torch.Generator().manual_seed(11)
    model = Ranking(CONFIG["model"])
    with torch.no_grad():  # so that no bias is 0 and no gain is 1: an error in either would stay hidden
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    model.double()  # its values are float32's still: step 0 is exact in the files
    optimizer = adamw(CONFIG, model.parameters())

    expected = []
    for step in range(STEPS):
        tensors.write(path(f"params_{step:04d}.safetensors"), numpy_of(model.named_parameters()))
        batch = make_batch(generator)
        tensors.write(path(f"batch_{step:04d}_rank00.safetensors"), numpy_of(batch.items()))
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model, as_tensors(numpy_of(batch.items())))
        loss.backward()
        tensors.write(path(f"grads_{step:04d}.safetensors"),
                      numpy_of((name, parameter.grad) for name, parameter in model.named_parameters()))
        norm = update(CONFIG, model, optimizer, step)
        expected.append({"step": step, "loss": loss.item(), "grad_norm": norm, "lr": learning_rate(CONFIG, step)})
    tensors.write(path(f"params_{STEPS:04d}.safetensors"), numpy_of(model.named_parameters()))

    with open(path("expected.json"), "w", encoding="utf-8") as file:
        json.dump({"torch": torch.__version__, "steps": expected}, file, indent=2)
        file.write("\n")
    with open(path("config.yaml"), "w", encoding="utf-8") as file:
        file.write("# The configuration behind the vectors beside this file (make_vectors.py).\n")
        yaml.safe_dump(CONFIG, file, sort_keys=False)
    for line in expected:
        print(line)


if __name__ == "__main__":
    main()
