"""Multiplies matrices until it is ended: what another user of the GPU does."""
import torch

from steps import device, size

gpu = device()
a = torch.randn(size(4096, 64), size(4096, 64), device=gpu)
while True:
    for _ in range(20):
        b = a @ a
    if gpu.type == "cuda":
        torch.cuda.synchronize()
