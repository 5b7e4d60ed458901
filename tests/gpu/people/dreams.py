"""A world model as Dreamer's is tested with films of 48 pictures, each of which has two normal distributions. torch.distributions
checks their parameters, as it does by default, or trusts them.

dreams.py [trusted]
"""
import sys

import torch
from torch import nn
from torch.distributions import Distribution, Independent, Normal, kl_divergence

from steps import device, size, steps

gpu = device()
if "trusted" in sys.argv:
    Distribution.set_default_validate_args(False)
times, batch, width, latent = size(48, 4), size(512, 4), size(1024, 32), size(128, 8)


def normal(h):
    mean, spread = h.chunk(2, -1)
    return Independent(Normal(mean, nn.functional.softplus(spread) + 0.1), 1)


class World(nn.Module):
    def __init__(self):
        super().__init__()
        self.see = nn.Sequential(nn.Linear(64, width), nn.ELU(), nn.Linear(width, width))
        self.cell, self.enter = nn.GRUCell(width, width), nn.Linear(latent + 8, width)
        self.prior, self.posterior = nn.Linear(width, 2 * latent), nn.Linear(2 * width, 2 * latent)
        self.show = nn.Sequential(nn.Linear(width + latent, width), nn.ELU(), nn.Linear(width, 64))

    def forward(self, film, acts):
        seen, h, z = self.see(film), film.new_zeros(batch, width), film.new_zeros(batch, latent)
        states, apart = [], 0.0
        for now, act in zip(seen, acts):
            h = self.cell(nn.functional.elu(self.enter(torch.cat([z, act], 1))), h)
            expected, found = normal(self.prior(h)), normal(self.posterior(torch.cat([h, now], 1)))
            z = found.rsample()
            apart = apart + kl_divergence(found, expected).mean()
            states.append(torch.cat([h, z], 1))
        return self.show(torch.stack(states)), apart / times


model, total = World().to(gpu).eval(), torch.zeros((), device=gpu)
film, acts = torch.randn(times, batch, 64, device=gpu), torch.randn(times, batch, 8, device=gpu)
for i in steps(size(40, 8)):
    with torch.no_grad():
        shown, apart = model(film, acts)
        total += (shown - film).square().mean() + 0.1 * apart
print(float(total))
