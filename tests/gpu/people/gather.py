"""Weights are split over the ranks and gathered before each layer, by NCCL or by copies from symmetric memory: on the stream of
the products, or one layer ahead on another stream.

gather.py nccl|copies [ahead]
"""
import sys

import torch
import torch.distributed as dist

from steps import RANKS, join, leave, profiler, steps

copies, ahead = "copies" in sys.argv, "ahead" in sys.argv
gpu = join()
layers, width, half = 10, 8192, torch.bfloat16
shape = (layers, width // RANKS, width)
if copies:
    import torch.distributed._symmetric_memory as symmetric
    parts = symmetric.empty(*shape, dtype=half, device=gpu)
    memory = symmetric.rendezvous(parts, dist.group.WORLD)
    theirs = [memory.get_buffer(rank, shape, half) for rank in range(RANKS)]
else:
    parts = torch.empty(shape, dtype=half, device=gpu)
parts.normal_(std=width ** -0.5)
whole = [torch.empty(width, width, dtype=half, device=gpu) for _ in range(2)]
fetched, used = ([torch.cuda.Event() for _ in range(2)] for _ in range(2))
main = torch.cuda.current_stream()
side = torch.cuda.Stream() if ahead else main
x = torch.randn(2048, width, dtype=half, device=gpu)


def fetch(layer):
    place = layer % 2
    with torch.cuda.stream(side):
        side.wait_event(used[place])
        if copies:
            for rank, part in enumerate(whole[place].chunk(RANKS)):
                part.copy_(theirs[rank][layer])
        else:
            dist.all_gather_into_tensor(whole[place], parts[layer])
        fetched[place].record()


with profiler(active=3, record_shapes=True) as profile:
    for i in steps(40):
        if copies:
            memory.barrier()
            side.wait_stream(main)
        h = x
        if ahead:
            fetch(0)
        for layer in range(layers):
            if not ahead:
                fetch(layer)
            elif layer + 1 < layers:
                fetch(layer + 1)
            main.wait_event(fetched[layer % 2])
            h = torch.relu(h @ whole[layer % 2].t())
            used[layer % 2].record()
        profile.step()
leave()
