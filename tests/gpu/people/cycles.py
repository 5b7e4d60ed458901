"""A small GPT as in tutorials; the profiler's schedule has two cycles: trace_step4 and trace_step8."""
import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
width = size(512, 32)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (p.view(b, t, 8, -1).transpose(1, 2) for p in self.qkv(self.a(x)).split(width, 2))
        weight = (q @ k.transpose(-2, -1) * (width // 8) ** -0.5)
        weight = weight.masked_fill(torch.ones(t, t, device=x.device).tril() == 0, float("-inf")).softmax(-1)
        x = x + self.out((weight @ v).transpose(1, 2).reshape(b, t, width))
        return x + self.mlp(self.b(x))


embed, head = nn.Embedding(5000, width).to(gpu), nn.Linear(width, 5000).to(gpu)
blocks = nn.Sequential(*[Block() for _ in range(size(8, 2))]).to(gpu)
optimizer = torch.optim.AdamW([*embed.parameters(), *blocks.parameters(), *head.parameters()], lr=3e-4)
data = torch.randint(5000, (200000,))
with profiler(wait=1, warmup=1, active=2, repeat=2, record_shapes=True) as profile:
    for i in steps(size(40, 10)):
        at = torch.randint(len(data) - 257, (size(16, 2),))
        x = torch.stack([data[a:a + 256] for a in at]).to(gpu)
        y = torch.stack([data[a + 1:a + 257] for a in at]).to(gpu)
        loss = nn.functional.cross_entropy(head(blocks(embed(x))).flatten(0, 1), y.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        profile.step()
print(loss.item())
