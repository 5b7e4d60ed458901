"""Weights stay in the host's memory and are copied to the device for each layer of each step, or once before the first.

offload.py [device]
"""
import sys

import torch

from steps import device, profiler, size, steps

gpu = device()
width = size(4096, 32)
weights = [torch.randn(width, width) * width ** -0.5 for _ in range(size(6, 2))]
if "device" in sys.argv:
    weights = [weight.to(gpu) for weight in weights]
x = torch.randn(size(2048, 8), width, device=gpu)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(24, 16)):
        h = x
        with torch.no_grad():
            for weight in weights:
                h = torch.relu(h @ weight.to(gpu))
        profile.step()
