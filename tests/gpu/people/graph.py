"""A graph network: attention over edges by scatter, without a library for graphs."""
import torch
from torch import nn

from steps import device, size, steps

gpu = device()
nodes, edges, width = size(50000, 50), size(800000, 100), 64
source, target = torch.randint(nodes, (2, edges), device=gpu)
x, y = torch.randn(nodes, width, device=gpu), torch.randint(40, (nodes,), device=gpu)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix, self.score = nn.Linear(width, width), nn.Linear(2 * width, 1)

    def forward(self, h):
        h = self.mix(h)
        score = nn.functional.leaky_relu(self.score(torch.cat([h[source], h[target]], 1))).squeeze(1)
        weight = (score - score.max()).exp()
        total = torch.zeros(nodes, device=gpu).scatter_add(0, target, weight)
        weight = weight / total[target].clamp_min(1e-9)
        return torch.zeros_like(h).scatter_add(0, target[:, None].expand(-1, width), h[source] * weight[:, None])


layers = nn.ModuleList([Attention() for _ in range(3)]).to(gpu)
head = nn.Linear(width, 40).to(gpu)
optimizer = torch.optim.Adam([*layers.parameters(), *head.parameters()], lr=5e-3)
for i in steps(size(40, 8)):
    h = x
    for layer in layers:
        h = nn.functional.elu(layer(h))
    loss = nn.functional.cross_entropy(head(h), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
