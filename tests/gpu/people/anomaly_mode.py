"""An encoder is trained with autograd's search for anomalies left on, or off.

anomaly_mode.py [off]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
torch.autograd.set_detect_anomaly("off" not in sys.argv)
width = size(1024, 32)
layer = nn.TransformerEncoderLayer(width, size(16, 2), 4 * width, dropout=0.0, batch_first=True, norm_first=True)
embed, head = nn.Embedding(8000, width).to(gpu), nn.Linear(width, 8000).to(gpu)
body = nn.TransformerEncoder(layer, size(8, 2), enable_nested_tensor=False).to(gpu)
optimizer = torch.optim.AdamW([*embed.parameters(), *body.parameters(), *head.parameters()], lr=1e-4)
text = torch.randint(8000, (size(16, 2), size(512, 8)), device=gpu)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(36, 16)):
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(head(body(embed(text))).flatten(0, 1), text.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
