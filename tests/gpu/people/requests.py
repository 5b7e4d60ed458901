"""ResNet-50 answers 32 requests in bf16, one picture after the other, or all in one batch.

requests.py [together]
"""
import sys

import torch
import torchvision

from steps import device, profiler, size, steps

gpu = device()
net = torchvision.models.resnet50 if gpu.type == "cuda" else torchvision.models.resnet18
model = net().to(gpu, torch.bfloat16, memory_format=torch.channels_last).eval()
pictures = torch.rand(32, 3, size(224, 32), size(224, 32), device=gpu, dtype=torch.bfloat16)
pictures = pictures.to(memory_format=torch.channels_last)
with torch.no_grad(), profiler(wait=4, active=3) as profile:
    for i in steps(size(24, 8)):
        batches = [pictures] if "together" in sys.argv else pictures.split(1)
        best = torch.cat([model(batch).argmax(-1) for batch in batches])
        profile.step()
print(best.shape)
