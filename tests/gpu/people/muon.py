"""A ViT with Muon. Its optimizer makes updates orthogonal (Newton-Schulz) matrix after matrix, or all of a shape in one batch.

muon.py [batched]
"""
import collections
import sys

import torch
from torchvision.models.vision_transformer import VisionTransformer

from steps import device, profiler, size, steps

gpu = device()
half = torch.bfloat16


def orthogonal(g):
    """A matrix, or a batch of matrices."""
    x = g.to(half)
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    def __init__(self, matrices, lr=0.02, batched=False):
        super().__init__(matrices, {"lr": lr})
        shapes = collections.defaultdict(list)
        for p in self.param_groups[0]["params"]:
            shapes[p.shape].append(p)
            self.state[p]["momentum"] = torch.zeros_like(p)
        self.groups = list(shapes.values()) if batched else [[p] for group in shapes.values() for p in group]

    @torch.no_grad()
    def step(self):
        lr = self.param_groups[0]["lr"]
        for group in self.groups:
            momenta = [self.state[p]["momentum"] for p in group]
            torch._foreach_lerp_(momenta, [p.grad for p in group], 0.05)
            updates = orthogonal(torch.stack(momenta)).to(group[0].dtype).unbind() if len(group) > 1 else [orthogonal(momenta[0])]
            for p, update in zip(group, updates):
                p.add_(update, alpha=-lr)


model = VisionTransformer(size(224, 32), 16, size(12, 2), size(6, 2), size(384, 32), size(1536, 64), num_classes=100).to(gpu)
matrices = [p for p in model.encoder.parameters() if p.ndim == 2]
muon = Muon(matrices, batched="batched" in sys.argv)
rest = torch.optim.SGD([p for p in model.parameters() if all(p is not m for m in matrices)], lr=0.01)
x = torch.randn(size(96, 2), 3, size(224, 32), size(224, 32), device=gpu)
y = torch.randint(100, (len(x),), device=gpu)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(36, 16)):
        with torch.autocast(gpu.type, dtype=half):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        model.zero_grad()
        loss.backward()
        muon.step()
        rest.step()
        profile.step()
