"""A ViT under torch.profiler as the first example of its documentation has it: no shapes."""
import torch
import torchvision

from steps import device, profiler, size, steps

gpu = device()
side = size(224, 32)
model = torchvision.models.VisionTransformer(side, 16, size(12, 2), 12, 768, size(3072, 64)).to(gpu)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
pictures, labels = torch.rand(size(256, 8), 3, side, side), torch.randint(1000, (size(256, 8),))
batch = size(32, 2)
with profiler() as profile:
    for i in steps(size(40, 16)):
        at = i * batch % len(pictures)
        x, y = pictures[at:at + batch].to(gpu), labels[at:at + batch].to(gpu)
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
