"""DDP of a ViT with NCCL's copies between GPUs switched off by a variable, against a hang of another machine, or left on.

no_peer.py [peer]
"""
import os
import sys

import torch
import torchvision
from torch.nn.parallel import DistributedDataParallel

from steps import join, leave, size, steps

if "peer" not in sys.argv:
    os.environ["NCCL_P2P_DISABLE"] = "1"
gpu = join()
side = size(224, 32)
if gpu.type == "cuda":
    net = torchvision.models.vit_b_16(num_classes=100)
else:
    net = torchvision.models.VisionTransformer(side, 16, 2, 2, 32, 64, num_classes=100)
model = DistributedDataParallel(net.to(gpu))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
x = torch.randn(size(64, 2), 3, side, side, device=gpu)
y = torch.randint(100, (len(x),), device=gpu)
for i in steps(size(36, 8)):
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
leave()
