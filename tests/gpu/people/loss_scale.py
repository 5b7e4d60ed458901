"""Swin in fp16 with a scaler of the loss; each step reads the scale to see whether the scheduler may go on, or does not.

loss_scale.py [blind]
"""
import sys

import torch
import torchvision

from steps import device, size, steps

gpu = device()
model = torchvision.models.swin_t(num_classes=100).to(gpu)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=gpu.type == "cuda")
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 100)
scaler = torch.cuda.amp.GradScaler(enabled=gpu.type == "cuda")
x = torch.randn(size(48, 2), 3, size(224, 32), size(224, 32), device=gpu)
y = torch.randint(100, (len(x),), device=gpu)
for i in steps(size(40, 8)):
    with torch.autocast(gpu.type, dtype=size(torch.float16, torch.bfloat16)):
        loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    if "blind" in sys.argv:
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
    else:
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() >= before:
            scheduler.step()
