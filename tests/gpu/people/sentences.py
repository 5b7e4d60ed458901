"""An LSTM reads sentences of many lengths, which lie on the device, so that packing them waits, or on the host.

sentences.py [host]
"""
import sys

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from steps import device, profiler, size, steps

gpu = device()
batch, longest, width = size(128, 4), size(48, 6), size(256, 8)
model = nn.LSTM(width, width, size(2, 1), batch_first=True).to(gpu)
head = nn.Linear(width, 2).to(gpu)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=1e-2)
x, y = torch.randn(batch, longest, width, device=gpu), torch.randint(2, (batch,), device=gpu)
lengths = torch.randint(1, longest + 1, (batch,))
if "host" not in sys.argv:
    lengths = lengths.to(gpu)
with profiler() as profile:
    for _ in steps(size(60, 8)):
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        _, (state, _) = model(packed)
        loss = nn.functional.cross_entropy(head(state[-1]), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
