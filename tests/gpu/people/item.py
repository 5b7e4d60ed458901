"""ResNet-50; gradients' norms are logged each step: by .item() for each parameter, as one tensor, or not at all."""
import sys

import torch
import torchvision

from steps import device, size, steps

how = sys.argv[1] if len(sys.argv) > 1 else "each"
gpu = device()
model = torchvision.models.resnet50().to(gpu)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
x = torch.randn(size(32, 2), 3, size(160, 32), size(160, 32), device=gpu)
y = torch.randint(1000, (len(x),), device=gpu)
log = []
for i in steps(size(40, 8)):
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    if how == "each":
        log.append({name: p.grad.norm().item() for name, p in model.named_parameters()})
    elif how == "once":
        log.append(torch.stack([p.grad.norm() for p in model.parameters()]))
    optimizer.step()
