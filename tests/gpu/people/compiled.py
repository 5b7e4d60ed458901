"""An encoder under torch.compile."""
import torch
from torch import nn

from steps import device, size, steps

gpu = device()
layer = nn.TransformerEncoderLayer(size(512, 32), 8, size(2048, 64), dropout=0.1, batch_first=True)
model = nn.TransformerEncoder(layer, size(6, 2), enable_nested_tensor=False).to(gpu)
run = torch.compile(model) if gpu.type == "cuda" else model
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=gpu.type == "cuda")
x = torch.randn(size(16, 2), size(256, 8), size(512, 32), device=gpu)
for i in steps(size(60, 8)):
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        loss = (run(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
