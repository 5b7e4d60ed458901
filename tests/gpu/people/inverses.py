"""Tracks of 64 objects are filtered (Kalman): the covariances are inverted one after the other, or all at once.

inverses.py [batched]
"""
import sys

import torch

from steps import device, size, steps

gpu = device()
objects, states, seen = 64, size(32, 4), size(16, 2)
move = torch.eye(states, device=gpu) + 0.01 * torch.randn(states, states, device=gpu)
see = torch.randn(seen, states, device=gpu) / states ** 0.5
noise, blur = 1e-2 * torch.eye(states, device=gpu), 1e-1 * torch.eye(seen, device=gpu)
place = torch.zeros(objects, states, 1, device=gpu)
spread = torch.eye(states, device=gpu).repeat(objects, 1, 1)
sights = torch.randn(size(40, 8), objects, seen, 1, device=gpu)
for i in steps(size(40, 8)):
    place, spread = move @ place, move @ spread @ move.T + noise
    surprise = see @ spread @ see.T + blur
    if "batched" in sys.argv:
        inverse = torch.linalg.inv(surprise)
    else:
        inverse = torch.stack([torch.linalg.inv(one) for one in surprise])
    gain = spread @ see.T @ inverse
    place = place + gain @ (sights[i] - see @ place)
    spread = spread - gain @ see @ spread
print(place.norm().item())
