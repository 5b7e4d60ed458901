"""A net learns from a table that is in memory. The loader takes each row alone and stacks 2048 of them, or indexes a batch at once.

table_rows.py [batches]
"""
import sys

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

from steps import device, size, steps

gpu = device()
count, batch, columns, width = size(45, 8), size(2048, 16), 96, size(4096, 32)


class Table(Dataset):
    def __init__(self):
        rows = count * batch
        self.numbers, self.shop, self.price = torch.randn(rows, columns), torch.randint(500, (rows,)), torch.rand(rows)

    def __len__(self):
        return len(self.price)

    def __getitem__(self, index):
        return self.numbers[index], self.shop[index], self.price[index]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.shops = nn.Embedding(500, 32)
        layers = [m for _ in range(size(14, 2)) for m in (nn.Linear(width, width, device=gpu), nn.ReLU())]
        self.body = nn.Sequential(nn.Linear(columns + 32, width), nn.ReLU(), *layers, nn.Linear(width, 1))

    def forward(self, numbers, shop):
        return self.body(torch.cat([numbers, self.shops(shop)], 1))[:, 0]


table = Table()
if "batches" in sys.argv:
    loader = DataLoader(table, batch_size=None, sampler=BatchSampler(RandomSampler(table), batch, False))
else:
    loader = DataLoader(table, batch_size=batch, shuffle=True)
model = Net().to(gpu)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for i, (numbers, shop, price) in zip(steps(count), loader):
    numbers, shop, price = numbers.to(gpu), shop.to(gpu), price.to(gpu)
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        loss = nn.functional.mse_loss(model(numbers, shop).float(), price)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
