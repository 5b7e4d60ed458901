"""DDP with ZeroRedundancyOptimizer."""
import torch
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from steps import join, leave, size, steps

gpu = join()
width = size(1024, 32)
layer = nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True)
model = DistributedDataParallel(nn.TransformerEncoder(layer, size(12, 2), enable_nested_tensor=False).to(gpu))
optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-4)
x = torch.randn(size(16, 2), size(128, 8), width, device=gpu)
for i in steps(size(30, 8)):
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        loss = (model(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
leave()
