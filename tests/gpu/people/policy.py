"""Reinforcement: 24 actions in an environment on the host, then an update."""
import random

import torch
from torch import nn

from steps import device, size, steps

gpu = device()
policy = nn.Sequential(nn.Linear(8, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 4)).to(gpu)
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
for i in steps(size(60, 8)):
    state, logs, rewards = [0.1] * 8, [], []
    for _ in range(24):
        chosen = torch.distributions.Categorical(logits=policy(torch.tensor(state, device=gpu)))
        action = chosen.sample()
        logs.append(chosen.log_prob(action))
        move = action.item()
        state = [0.9 * s + 0.1 * (move - 1.5) + 0.01 * random.random() for s in state]
        rewards.append(-sum(s * s for s in state))
    loss = -(torch.stack(logs) * torch.tensor(rewards, device=gpu)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
