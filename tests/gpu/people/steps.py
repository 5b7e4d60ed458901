"""What the programs here share: a loop that times itself, PyTorch's profiler where one is asked for, the process's device.

PEOPLE_TIMES names the file of the times (rank 0 writes it), PEOPLE_TRACES the folder of the profiler's traces, PEOPLE_GATE
the file that lets the program go on after its imports. Without them a program runs as it is. Without a GPU sizes are small.
"""
import contextlib
import json
import os
import sys
import time

RANK, RANKS = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
LOCAL = int(os.environ.get("LOCAL_RANK", 0))
BLOCKS = 3


def wait_for_turn():
    """The programs import this module last."""
    gate = os.environ.get("PEOPLE_GATE")
    if not gate:
        return
    with open(f"{gate}.ready{RANK}", "w", encoding="utf-8"):
        pass
    while not os.path.exists(gate):
        time.sleep(0.02)


wait_for_turn()


def on_gpu():
    import torch
    return torch.cuda.is_available()


def device():
    """This rank's GPU (ranks share one where there are fewer), or the CPU."""
    import torch
    if not on_gpu():
        return torch.device("cpu")
    one = torch.device("cuda", LOCAL % torch.cuda.device_count())
    torch.cuda.set_device(one)
    return one


def size(large, small):
    return large if on_gpu() else small


def join(backend="nccl"):
    """Joins torchrun's ranks and returns this rank's device."""
    import torch
    one = device()
    torch.distributed.init_process_group(backend if on_gpu() else "gloo")
    return one


def leave():
    import torch
    torch.distributed.destroy_process_group()


def finish_device():
    torch = sys.modules.get("torch")
    if torch and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


class Watch:
    """Times blocks of steps between two synchronisations each; call `step` after each step."""

    def __init__(self, count, finish=finish_device):
        self.count, self.finish, self.done = count, finish, 0
        self.warm_up = max(3, count // 4)
        rest = count - self.warm_up
        self.ends = [self.warm_up + rest * (i + 1) // BLOCKS for i in range(BLOCKS)]
        self.blocks_ms, self.host_ms, self.begin, self.first = [], [], None, 0

    def step(self):
        self.done += 1
        if self.done != self.warm_up and self.done not in self.ends:
            return
        host = time.perf_counter()
        self.finish()
        now = time.perf_counter()
        if self.begin is not None:
            steps = self.done - self.first
            self.blocks_ms.append((now - self.begin) * 1e3 / steps)
            self.host_ms.append((host - self.begin) * 1e3 / steps)
        self.first, self.begin = self.done, time.perf_counter()
        if self.done == self.count:
            self.write()

    def write(self):
        path = os.environ.get("PEOPLE_TIMES")
        if path and RANK == 0:
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"blocks_ms": self.blocks_ms, "host_ms": self.host_ms, "steps": self.count}, file)


def steps(count, finish=finish_device):
    watch = Watch(count, finish)
    for i in range(count):
        yield i
        watch.step()


class Off:
    """In place of a profiler."""

    def step(self):
        pass


def profiler(wait=8, warmup=2, active=4, repeat=1, **options):
    """torch.profiler with a file for each cycle, as its documentation has it."""
    folder = os.environ.get("PEOPLE_TRACES")
    if not folder:
        return contextlib.nullcontext(Off())
    import torch

    def write(profile):
        name = f"trace_step{profile.step_num}.json" if RANKS == 1 else f"rank{RANK}_trace_step{profile.step_num}.json"
        profile.export_chrome_trace(os.path.join(folder, name))
    return torch.profiler.profile(schedule=torch.profiler.schedule(wait=wait, warmup=warmup, active=active, repeat=repeat),
                                  on_trace_ready=write, **options)
