"""Reinforcement: 16 pendulums on the host ask the policy on the device, one after the other, or all at once.

many_worlds.py [batched]
"""
import sys

import numpy as np
import torch
from torch import nn

from steps import device, size, steps

gpu = device()
batched = "batched" in sys.argv
worlds, times = size(16, 3), size(16, 3)
policy = nn.Sequential(nn.Linear(3, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 3)).to(gpu)
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-4)
rng = np.random.default_rng(0)
angle, speed = rng.uniform(-np.pi, np.pi, worlds), rng.uniform(-1, 1, worlds)


def choose(seen):
    """Actions for rows of observations."""
    with torch.no_grad():
        chances = policy(torch.as_tensor(seen, device=gpu)).softmax(-1)
        return torch.multinomial(chances, 1)[:, 0].cpu().numpy()


for i in steps(size(30, 8)):
    states, actions, rewards = [], [], []
    for _ in range(times):
        seen = np.stack([np.cos(angle), np.sin(angle), speed], 1).astype(np.float32)
        action = choose(seen) if batched else np.concatenate([choose(seen[one:one + 1]) for one in range(worlds)])
        speed = np.clip(speed + 0.05 * (15 * np.sin(angle) + 6 * (action - 1)), -8, 8)
        angle = (angle + 0.05 * speed + np.pi) % (2 * np.pi) - np.pi
        states.append(seen)
        actions.append(action)
        rewards.append(-(angle ** 2 + 0.1 * speed ** 2))
    gains = np.cumsum(np.array(rewards)[::-1], 0)[::-1]
    gains = torch.as_tensor(((gains - gains.mean()) / gains.std()).ravel().astype(np.float32), device=gpu)
    states, actions = torch.as_tensor(np.concatenate(states), device=gpu), torch.as_tensor(np.concatenate(actions), device=gpu)
    for _ in range(4):
        logs = policy(states).log_softmax(-1).gather(1, actions[:, None])[:, 0]
        optimizer.zero_grad()
        (-logs * gains).mean().backward()
        optimizer.step()
