"""ResNet-50 whose batches are copied from pageable memory, or one step ahead from pinned memory.

inputs.py [ahead]
"""
import sys

import torch
import torchvision

from steps import device, on_gpu, profiler, size, steps

gpu = device()
ahead = "ahead" in sys.argv and on_gpu()
model = torchvision.models.resnet50().to(gpu, memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
side, batch = size(224, 32), size(128, 2)
batches = [torch.randn(batch, 3, side, side).to(memory_format=torch.channels_last) for _ in range(2)]
y = torch.randint(1000, (batch,), device=gpu)
if ahead:
    batches = [one.pin_memory() for one in batches]
    copying = torch.cuda.Stream()


def fetch(step):
    if not ahead:
        return batches[step % 2].to(gpu)
    with torch.cuda.stream(copying):
        return batches[step % 2].to(gpu, non_blocking=True)


following = fetch(0) if ahead else None
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(30, 16)):
        if ahead:
            torch.cuda.current_stream().wait_stream(copying)
            x = following
            x.record_stream(torch.cuda.current_stream())
            following = fetch(i + 1)
        else:
            x = fetch(i)
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
