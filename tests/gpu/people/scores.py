"""DeepLab's scores of all classes are copied to the host, for a mean over several models: by .cpu(), or into pinned memory during
the next batch.

scores.py [during]
"""
import sys

import torch
import torchvision

from steps import device, on_gpu, size, steps

gpu = device()
during = "during" in sys.argv and on_gpu()
model = torchvision.models.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None).to(gpu).eval()
batch, side = size(8, 2), size(320, 32)
pictures = torch.rand(batch, 3, side, side, device=gpu)
found = [torch.empty(batch, 21, side, side, pin_memory=during) for _ in range(4)]
copying = torch.cuda.Stream() if during else None
for i in steps(size(40, 8)):
    with torch.no_grad(), torch.autocast(gpu.type, dtype=torch.bfloat16):
        scores = model(pictures)["out"].float().softmax(1)
    if not during:
        found[i % 4] = scores.cpu()
        continue
    copying.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(copying):
        found[i % 4].copy_(scores, non_blocking=True)
    scores.record_stream(copying)
