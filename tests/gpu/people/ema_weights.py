"""ResNet-101 with a moving average of its weights: tensor after tensor of the state, or by torch._foreach.

ema_weights.py [foreach]
"""
import copy
import sys

import torch
import torchvision

from steps import device, profiler, size, steps

gpu = device()
foreach, keep = "foreach" in sys.argv, 0.9998
net = torchvision.models.resnet101(num_classes=100) if gpu.type == "cuda" else torchvision.models.resnet18(num_classes=100)
model = net.to(gpu, memory_format=torch.channels_last)
average = copy.deepcopy(model)
pairs = [(a, b) for a, b in zip(average.state_dict().values(), model.state_dict().values()) if a.is_floating_point()]
slow, fast = [a for a, _ in pairs], [b for _, b in pairs]
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
x = torch.randn(size(64, 2), 3, size(224, 32), size(224, 32), device=gpu).to(memory_format=torch.channels_last)
y = torch.randint(100, (len(x),), device=gpu)


def update():
    if foreach:
        torch._foreach_mul_(slow, keep)
        torch._foreach_add_(slow, fast, alpha=1 - keep)
        return
    for a, b in zip(average.state_dict().values(), model.state_dict().values()):
        a.copy_(keep * a + (1 - keep) * b)


with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(36, 16)):
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            update()
        profile.step()
