"""Pictures are decoded and turned in the program's own thread, or by processes of the loader.

loader.py [WORKERS]
"""
import sys

import torch
import torchvision

from steps import device, size, steps

gpu = device()
workers = int(sys.argv[1]) if len(sys.argv) > 1 else 0


class Pictures(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 16

    def __getitem__(self, index):
        picture = torch.rand(3, size(300, 40), size(300, 40), generator=torch.Generator().manual_seed(index))
        picture = torchvision.transforms.functional.resize(picture, [size(224, 32)] * 2, antialias=True)
        return (picture - picture.mean()) / picture.std(), index % 100


model = torchvision.models.resnet18(num_classes=100).to(gpu)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
batches = iter(torch.utils.data.DataLoader(Pictures(), size(16, 2), shuffle=True, num_workers=workers))
for i in steps(size(30, 8)):
    x, y = next(batches)
    loss = torch.nn.functional.cross_entropy(model(x.to(gpu)), y.to(gpu))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {i} loss {loss.item():.3f}")
