"""U-Net for segmentation in fp16 with a scaler; dice is computed on the host's side each step."""
import torch
from torch import nn

from steps import device, size, steps

gpu = device()


def double(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(True),
                         nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(True))


class UNet(nn.Module):
    def __init__(self, widths=(64, 128, 256, 512)):
        super().__init__()
        self.down = nn.ModuleList([double(a, b) for a, b in zip((3, *widths), widths)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths, widths[1:])])
        self.join = nn.ModuleList([double(2 * a, a) for a in widths[:-1]])
        self.last = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        left = []
        for layer in self.down:
            left.append(layer(x))
            x = nn.functional.max_pool2d(left[-1], 2)
        x = left.pop()
        for i in reversed(range(len(self.up))):
            x = self.join[i](torch.cat([left.pop(), self.up[i](x)], 1))
        return self.last(x)


model = UNet(size((64, 128, 256, 512), (8, 16))).to(gpu)
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-5, momentum=0.999)
scaler = torch.cuda.amp.GradScaler(enabled=gpu.type == "cuda")
side = size(256, 16)
pictures, masks = torch.rand(64, 3, side, side), torch.randint(2, (64, side, side))
batch = size(8, 2)
for i in steps(size(40, 8)):
    at = i * batch % (64 - batch)
    x, mask = pictures[at:at + batch].to(gpu), masks[at:at + batch].to(gpu)
    with torch.autocast(gpu.type, dtype=torch.float16 if gpu.type == "cuda" else torch.bfloat16):
        out = model(x)
        loss = nn.functional.cross_entropy(out.float(), mask)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    found = out.detach().argmax(1)
    dice = 2 * (found * mask).sum().item() / max(1, (found.sum() + mask.sum()).item())
print(dice)
