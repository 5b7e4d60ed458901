"""A language model of two LSTM layers: truncated in time, clipped, the loss is summed on the host."""
import torch
from torch import nn

from steps import device, size, steps

gpu = device()
width = size(650, 32)
embed, lstm, head = (m.to(gpu) for m in (nn.Embedding(10000, width), nn.LSTM(width, width, 2, dropout=0.5),
                                         nn.Linear(width, 10000)))
parameters = [*embed.parameters(), *lstm.parameters(), *head.parameters()]
text = torch.randint(10000, (4000, 20))
state, total, bptt = None, 0.0, 35
for i in steps(size(60, 8)):
    part = text[i * bptt:(i + 1) * bptt + 1].to(gpu)
    out, state = lstm(embed(part[:-1]), state)
    state = tuple(s.detach() for s in state)
    loss = nn.functional.cross_entropy(head(out).flatten(0, 1), part[1:].flatten())
    for p in parameters:
        p.grad = None
    loss.backward()
    nn.utils.clip_grad_norm_(parameters, 0.25)
    with torch.no_grad():
        for p in parameters:
            p.add_(p.grad, alpha=-20.0)
    total += loss.item()
print(total)
