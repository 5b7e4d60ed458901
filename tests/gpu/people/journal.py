"""ResNet-18 on small pictures that are on the device; each step appends a line per picture to a file, or all lines are written at
the end.

journal.py [end]
"""
import json
import os
import sys
import tempfile

import torch
import torchvision

from steps import device, size, steps

gpu = device()
at_end = "end" in sys.argv
model = torchvision.models.resnet18(num_classes=100).to(gpu, memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
batch = size(512, 4)
x = torch.randn(batch, 3, size(96, 32), size(96, 32), device=gpu).to(memory_format=torch.channels_last)
y = torch.randint(100, (batch,), device=gpu)
used = []


def line_of(step, picture):
    turned = (step * 7 + picture) % 4
    return json.dumps({"step": step, "picture": f"train/{picture:06}.png", "turn": turned, "crop": [turned, picture % 9, 96, 96]})


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "pictures.jsonl")
    for i in steps(size(36, 8)):
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for picture in range(batch):
            if at_end:
                used.append((i, picture))
                continue
            with open(path, "a", encoding="utf-8") as file:
                file.write(line_of(i, picture) + "\n")
    with open(path, "a", encoding="utf-8") as file:
        file.writelines(line_of(*one) + "\n" for one in used)
