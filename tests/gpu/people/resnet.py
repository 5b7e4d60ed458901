"""ResNet-50 in bf16 and channels last on batches that lie on the device."""
import torch
import torchvision

from steps import device, size, steps

gpu = device()
model = torchvision.models.resnet50().to(gpu, memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
x = torch.randn(size(64, 2), 3, size(224, 32), size(224, 32), device=gpu).to(memory_format=torch.channels_last)
y = torch.randint(1000, (len(x),), device=gpu)
for i in steps(size(60, 8)):
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
