"""torchvision's MViT on video clips: fp32 with PyTorch's defaults, or autocast to bf16.

clips.py [bf16]
"""
import sys

import torch
import torchvision

from steps import device, profiler, size, steps

gpu = device()
model = torchvision.models.video.mvit_v2_s(num_classes=40).to(gpu)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
x = torch.randn(size(8, 1), 3, 16, 224, 224, device=gpu)
y = torch.randint(40, (len(x),), device=gpu)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(28, 4)):
        with torch.autocast(gpu.type, dtype=torch.bfloat16, enabled="bf16" in sys.argv):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
