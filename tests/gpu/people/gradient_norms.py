"""The norm of each parameter's gradient is written down in each step: read one by one, or read together.

gradient_norms.py [together]
"""
import sys

import torch
import torchvision

from steps import device, profiler, size, steps

gpu = device()
model = torchvision.models.convnext_tiny().to(gpu).to(memory_format=torch.channels_last)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=gpu.type == "cuda")
x = torch.randn(size(64, 2), 3, size(160, 32), size(160, 32), device=gpu).to(memory_format=torch.channels_last)
y = torch.randint(1000, (len(x),), device=gpu)
journal = []
with profiler() as profile:
    for _ in steps(size(60, 8)):
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        gradients = [p.grad for p in model.parameters()]
        if "together" in sys.argv:
            journal.append(torch.stack(torch._foreach_norm(gradients)).tolist())
        else:
            journal.append([gradient.norm().item() for gradient in gradients])
        optimizer.step()
        profile.step()
