"""Two ranks test ResNet-50; after each batch they exchange their scores as Python's objects, or as tensors.

answers.py [tensors]
"""
import sys

import torch
import torch.distributed as dist
import torchvision

from steps import RANKS, join, leave, size, steps

gpu = join()
model = torchvision.models.resnet50(num_classes=200).to(gpu, memory_format=torch.channels_last).eval()
x = torch.randn(size(320, 4), 3, size(224, 32), size(224, 32), device=gpu).to(memory_format=torch.channels_last)
found = []
for i in steps(size(40, 8)):
    with torch.no_grad(), torch.autocast(gpu.type, dtype=torch.bfloat16):
        scores = model(x).float().softmax(1)
    if "tensors" in sys.argv:
        everyone = [torch.empty_like(scores) for _ in range(RANKS)]
        dist.all_gather(everyone, scores)
        found += everyone
    else:
        everyone = [None] * RANKS
        dist.all_gather_object(everyone, [{"picture": i, "scores": row} for row in scores.tolist()])
        found += [answer for answers in everyone for answer in answers]
print(len(found))
leave()
