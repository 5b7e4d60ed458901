"""A recommender: tables are split over ranks and exchanged by all-to-all, the tower is DDP."""
import torch
from torch import nn
from torch.distributed.nn.functional import all_to_all_single
from torch.nn.parallel import DistributedDataParallel

from steps import RANKS, join, leave, size, steps

gpu = join()
tables, rows, width, batch = size(16, 2), size(200000, 100), 64, size(4096, 8)
local = nn.ModuleList([nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables)]).to(gpu)
tower = DistributedDataParallel(nn.Sequential(nn.Linear(tables * RANKS * width, 1024), nn.ReLU(), nn.Linear(1024, 512),
                                              nn.ReLU(), nn.Linear(512, 1)).to(gpu))
of_tables = torch.optim.Adagrad(local.parameters(), lr=0.01)
of_tower = torch.optim.Adam(tower.parameters(), lr=1e-3)
for i in steps(size(40, 8)):
    bags = torch.randint(rows, (tables, batch * RANKS, 10)).to(gpu)
    label = torch.rand(batch, 1).to(gpu)
    found = torch.stack([table(bag) for table, bag in zip(local, bags)], 1).reshape(RANKS * batch, -1)
    mine = all_to_all_single(torch.empty_like(found), found)
    mine = mine.reshape(RANKS, batch, -1).transpose(0, 1).reshape(batch, -1)
    loss = nn.functional.binary_cross_entropy_with_logits(tower(mine), label)
    of_tables.zero_grad()
    of_tower.zero_grad()
    loss.backward()
    of_tables.step()
    of_tower.step()
leave()
