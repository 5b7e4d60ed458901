"""A ViT is fine-tuned with a smaller rate for lower layers (BEiT). Each parameter is a group of AdamW, or all of one rate and decay
are.

layer_decay.py [grouped]
"""
import collections
import re
import sys

import torch
from torchvision.models.vision_transformer import VisionTransformer

from steps import device, profiler, size, steps

gpu = device()
depth = size(12, 2)
model = VisionTransformer(size(224, 32), 16, depth, size(6, 2), size(384, 32), size(1536, 64), num_classes=100).to(gpu)


def settings(name, p):
    """A parameter's rate and decay."""
    layer = re.search(r"encoder_layer_(\d+)", name)
    number = int(layer[1]) + 1 if layer else depth + 1 if name.startswith(("heads", "encoder.ln")) else 0
    return 1e-3 * 0.75 ** (depth + 1 - number), 0.0 if p.ndim < 2 else 0.05


groups = collections.defaultdict(list)
for name, p in model.named_parameters():
    rate, decay = settings(name, p)
    groups[(rate, decay) if "grouped" in sys.argv else (rate, decay, name)].append(p)
optimizer = torch.optim.AdamW([{"params": params, "lr": key[0], "weight_decay": key[1]} for key, params in groups.items()])
x = torch.randn(size(80, 2), 3, size(224, 32), size(224, 32), device=gpu)
y = torch.randint(100, (len(x),), device=gpu)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(40, 16)):
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
