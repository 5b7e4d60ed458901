#!/usr/bin/env python3
"""The sparse pipeline's step in PyTorch: all_to_all_single, embedding_bag, row-wise Adagrad; started by torchrun.

    torchrun --standalone --nproc_per_node N torch_sparse.py [--batch 8192] [--features 102 101] [--rows 100000] [STEPS]

Whole tables on ranks, as config/torchrec_dist/sparse_data_dist_base.yaml has them. The tables of a rank are one weight,
so that each kind of feature takes one call of embedding_bag, and gradients are sparse. One thing after the other, as a
training loop without a pipeline has it. Rank 0 prints a JSON line with the median of the steps' times.
"""
import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist

WARMUP = 5


class Kind:
    """The features with weights, or those without: table t belongs to rank t mod ranks."""

    def __init__(self, features, weighted, args, device):
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.weighted, self.batch, self.rows, self.dim = weighted, args.batch, args.rows, args.dim
        self.order = [f for r in range(self.ranks) for f in range(features) if f % self.ranks == r]
        self.shares = [len([f for f in range(features) if f % self.ranks == r]) for r in range(self.ranks)]
        self.own = self.shares[self.rank]
        bound = args.rows ** -0.5
        self.weight = torch.empty(max(self.own, 1) * args.rows, args.dim, device=device).uniform_(-bound, bound)
        self.state = torch.zeros(self.weight.shape[0], device=device)
        self.weight.requires_grad_(True)
        table = torch.arange(self.own, device=device).repeat_interleave(self.batch).repeat(self.ranks)
        self.base = table * args.rows

    def make_batch(self, generator, average):
        lengths = (torch.randn(len(self.order) * self.batch, generator=generator) + average).abs().int()
        count = int(lengths.sum())
        ids = torch.randint(self.rows, (count,), generator=generator)
        weights = torch.rand(count, generator=generator) if self.weighted else None
        return [None if t is None else t.pin_memory() for t in (lengths, ids, weights)]

    def exchange(self, tensor, send, receive):
        out = tensor.new_empty(sum(receive))
        dist.all_to_all_single(out, tensor, receive, send)
        return out

    def lookup(self, lengths, ids, weights):
        """Pooled rows [batch, own features of every rank, dim] of this rank's samples."""
        cells = [share * self.batch for share in self.shares]
        received = self.exchange(lengths, cells, [cells[self.rank]] * self.ranks)
        parts = torch.stack([torch.stack([part.sum() for part in lengths.split(cells)]),
                             torch.stack([part.sum() for part in received.split([cells[self.rank]] * self.ranks)])])
        send, receive = parts.tolist()
        ids = self.exchange(ids, send, receive)
        weights = self.exchange(weights, send, receive) if self.weighted else None
        offsets = torch.cat([received.new_zeros(1, dtype=torch.int64), received.cumsum(0)])
        rows = ids + self.base.repeat_interleave(received)
        self.pooled = torch.nn.functional.embedding_bag(rows, self.weight, offsets, mode="sum", sparse=True,
                                                        per_sample_weights=weights, include_last_offset=True)
        flat = self.pooled.detach().reshape(-1)
        self.sizes = [share * self.batch * self.dim for share in self.shares]
        self.out = self.exchange(flat, [self.sizes[self.rank]] * self.ranks, self.sizes)
        pieces = [piece.view(share, self.batch, self.dim).permute(1, 0, 2).reshape(self.batch, -1)
                  for piece, share in zip(self.out.split(self.sizes), self.shares)]
        return torch.cat(pieces, 1)

    def backward(self, gradient, lr):
        pieces = gradient.split([share * self.dim for share in self.shares], 1)
        flat = torch.cat([piece.reshape(self.batch, share, self.dim).permute(1, 0, 2).reshape(-1)
                          for piece, share in zip(pieces, self.shares)])
        back = self.exchange(flat, self.sizes, [self.sizes[self.rank]] * self.ranks)
        self.weight.grad = None
        self.pooled.backward(back.view_as(self.pooled))
        sparse = self.weight.grad.coalesce()
        rows, values = sparse.indices()[0], sparse.values()
        with torch.no_grad():
            self.state.index_add_(0, rows, values.square().mean(1))
            factor = lr / (self.state[rows].sqrt() + 1e-8)
            self.weight.index_add_(0, rows, values * -factor[:, None])


class Dense(torch.nn.Module):
    def __init__(self, floats, columns):
        super().__init__()
        self.bottom = torch.nn.Sequential(torch.nn.Linear(floats, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1024),
                                          torch.nn.ReLU())
        self.projection = torch.nn.Linear(columns, 1024)
        self.top = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512),
                                       torch.nn.ReLU(), torch.nn.Linear(512, 1))

    def forward(self, floats, pooled):
        return self.top(self.projection(pooled) * (1 + self.bottom(floats))).squeeze(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="?", type=int, default=20)
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--features", type=int, nargs=2, default=[103, 100])
    parser.add_argument("--rows", type=int, default=100000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--average", type=int, default=10)
    parser.add_argument("--floats", type=int, default=10)
    args = parser.parse_args()
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    torch.manual_seed(0)
    kinds = [Kind(args.features[0], False, args, device), Kind(args.features[1], True, args, device)]
    dense = Dense(args.floats, sum(args.features) * args.dim).to(device)
    generator = torch.Generator().manual_seed(1 + dist.get_rank())
    batches = [([kind.make_batch(generator, args.average) for kind in kinds],
                torch.randn(args.batch, args.floats, generator=generator).pin_memory(),
                torch.rand(args.batch, generator=generator).pin_memory()) for _ in range(3)]

    def step(number):
        lists, floats, labels = batches[number % len(batches)]
        lists = [[None if t is None else t.to(device, non_blocking=True) for t in one] for one in lists]
        floats, labels = floats.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        pooled = [kind.lookup(*one) for kind, one in zip(kinds, lists)]
        joined = torch.cat(pooled, 1).requires_grad_(True)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(dense(floats, joined), labels)
        dense.zero_grad(set_to_none=True)
        (loss / dist.get_world_size()).backward()
        flat = torch.cat([p.grad.reshape(-1) for p in dense.parameters()])
        dist.all_reduce(flat)
        with torch.no_grad():
            for p, g in zip(dense.parameters(), flat.split([p.numel() for p in dense.parameters()])):
                p -= 0.1 * g.view_as(p)
        for kind, gradient in zip(kinds, joined.grad.split([one.shape[1] for one in pooled], 1)):
            kind.backward(gradient, 0.1)
        return loss

    times = []
    for number in range(WARMUP + args.steps):
        torch.cuda.synchronize()
        dist.barrier()
        begin = time.perf_counter()
        loss = step(number)
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) * 1e3)
    if dist.get_rank() == 0:
        print(json.dumps({"ranks": dist.get_world_size(), "step_ms": statistics.median(times[WARMUP:]),
                          "loss": float(loss), "memory_gb": torch.cuda.max_memory_allocated() / 1e9}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
