"""EfficientNet sorts pictures. A stopwatch in hooks synchronises before and after each module, or the hooks are off.

stopwatch.py [off]
"""
import collections
import sys
import time

import torch
import torchvision

from steps import device, on_gpu, size, steps

gpu = device()
kind = size(torch.bfloat16, torch.float32)
net = size(torchvision.models.efficientnet_v2_s, torchvision.models.efficientnet_b0)
model = net(num_classes=100).to(gpu, kind, memory_format=torch.channels_last).eval()
x = torch.randn(size(160, 2), 3, size(224, 32), size(224, 32), device=gpu, dtype=kind).to(memory_format=torch.channels_last)
wait = torch.cuda.synchronize if on_gpu() else lambda: None
began, spent = {}, collections.Counter()


def now():
    wait()
    return time.perf_counter()


def begin(module, _):
    began[module] = now()


def end(module, *_):
    spent[type(module).__name__] += now() - began.pop(module)


if "off" not in sys.argv:
    for module in model.modules():
        if not list(module.children()):
            module.register_forward_pre_hook(begin)
            module.register_forward_hook(end)
right = torch.zeros((), device=gpu)
for i in steps(size(60, 8)):
    with torch.no_grad():
        right += (model(x).argmax(1) == i % 100).sum()
print(int(right), spent.most_common(3))
