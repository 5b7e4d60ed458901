"""Pictures are cropped, turned and normalised by the training loop, on the host with numpy, or on the device.

augment.py [device]
"""
import sys

import numpy as np
import torch
import torchvision

from steps import device, size, steps

gpu = device()
batch, side = size(64, 2), size(224, 32)
pictures = np.random.default_rng(0).integers(0, 256, (256, side + 32, side + 32, 3), dtype=np.uint8)
model = torchvision.models.resnet18().to(gpu, memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
labels = torch.randint(1000, (batch,), device=gpu)
mean, spread = (np.array(values, np.float32) for values in ((123.7, 116.3, 103.5), (58.4, 57.1, 57.4)))
rng = np.random.default_rng(1)


def on_host(chosen):
    out = np.empty((batch, side, side, 3), np.float32)
    for i, which in enumerate(chosen):
        top, left = rng.integers(0, 32, 2)
        picture = pictures[which, top:top + side, left:left + side]
        out[i] = ((picture[:, ::-1] if rng.random() < 0.5 else picture) - mean) / spread
    return torch.from_numpy(out).to(gpu).permute(0, 3, 1, 2)


stored = torch.from_numpy(pictures).to(gpu)
device_mean, device_spread = torch.tensor(mean, device=gpu), torch.tensor(spread, device=gpu)


def on_device(chosen):
    top, left = rng.integers(0, 32, 2)
    x = stored[torch.from_numpy(chosen)][:, top:top + side, left:left + side].float()
    turned = torch.rand(batch, 1, 1, 1, device=gpu) < 0.5
    x = torch.where(turned, x.flip(2), x)
    return ((x - device_mean) / device_spread).permute(0, 3, 1, 2)


make = on_device if "device" in sys.argv else on_host
for i in steps(size(40, 8)):
    x = make(rng.integers(0, len(pictures), batch))
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
