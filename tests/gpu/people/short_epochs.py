"""ResNet-34 on a small set of pictures with short epochs. The loader starts its workers again for each epoch, or they persist.

short_epochs.py [persist]
"""
import sys

import torch
import torchvision

from steps import Watch, device, size

gpu = device()
epochs, each, batch, side = 4, size(25, 4), size(64, 2), size(160, 32)


class Pictures(torch.utils.data.Dataset):
    def __init__(self):
        self.pictures = torch.randint(256, (each * batch, 3, side + 16, side + 16), dtype=torch.uint8)
        self.classes = torch.randint(10, (each * batch,))

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, index):
        top, left = torch.randint(16, (2,)).tolist()
        picture = self.pictures[index, :, top:top + side, left:left + side]
        return picture.flip(-1) if top % 2 else picture.clone(), self.classes[index]


loader = torch.utils.data.DataLoader(Pictures(), batch, shuffle=True, num_workers=4, pin_memory=gpu.type == "cuda",
                                     persistent_workers="persist" in sys.argv)
model = torchvision.models.resnet34(num_classes=10).to(gpu, memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
watch = Watch(epochs * each)
for epoch in range(epochs):
    for x, y in loader:
        x, y = x.to(gpu, non_blocking=True), y.to(gpu, non_blocking=True)
        x = (x.float() / 127.5 - 1).to(memory_format=torch.channels_last)
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        watch.step()
