#!/usr/bin/env python3
"""Pairs of programs, one worse and one better form of each: what the remedies of compute promise against what they bring.

    remedies.py record OUT [--seconds 330] [--set fitted|heldout|unseen] [--groups eager compiled] [--names NAME ...]
                                                                                on a machine with one GPU
    remedies.py check OUT --aorta BIN [--names NAME ...]                        anywhere
    remedies.py list                                                            the pairs

The sets `heldout` and `unseen` (remedies_heldout.py, remedies_unseen.py) have pairs that no constant was fitted with.

`record` times both forms without a profiler (median step), records three steps of each with PyTorch's profiler
(with shapes; of some also without), and writes OUT/truth.json and OUT/traces-N.tar. It does the pairs in order and
stops before --seconds are over. A pair without a better form is a program that has nothing to gain.

`check` prints a line per pair: the time that the better form saves per step, the gain that `aorta whatif --remedy`
promises, both figures for the kernels' time alone (from the two recordings, which the host does not limit), and the first
row of the verdict. A gain is right within 25%, or 2% of the step. The first row is right if it is the planted remedy, or
if the remedies before the planted one promise more. A program that has nothing to gain may be promised at most a quarter
of the step. Exit status 1 when more than one pair in ten is wrong.
Models are made from configurations, with random weights; nothing is fetched.
"""
import argparse
import contextlib
import gc
import gzip
import json
import os
import statistics
import subprocess
import sys
import tarfile
import time
import traceback

import remedies_heldout
import remedies_unseen

WARMUP, RECORDED = 2, 3
TAR_LIMIT = 15 << 20

# name, group, program, remedies (in the words of `aorta whatif --remedy`), worse form, better form (None: nothing to be had),
# options of both. `work` in a form: how much more of the same work it does; `bare`: recorded without shapes too.
PAIRS = [
    # large gains first: what the analysis must not miss
    ("gpt2_vocabulary", "eager", "gpt2", ["alignment"], {"vocab": 50257}, {"vocab": 50304}, {"bare": True}),
    ("gpt2_attention", "eager", "gpt2", ["attention"], {"attention": "eager"}, {"attention": "sdpa"}, {"bare": True}),
    ("resnet50_tf32", "eager", "resnet", ["precision=tf32"], {"precision": "fp32"}, {"precision": "tf32"}, {"bare": True}),
    ("resnet50_bf16", "eager", "resnet", ["precision=bf16"], {"precision": "tf32"}, {"precision": "bf16"},
     {"channels_last": True, "bare": True}),
    ("resnet50_layout", "eager", "resnet", ["layout"], {"channels_last": False}, {"channels_last": True}, {"bare": True}),
    ("llama_tf32", "eager", "llama", ["precision=tf32"], {"precision": "fp32"}, {"precision": "tf32"}, {}),
    ("llama_bf16", "eager", "llama", ["precision=bf16"], {"precision": "tf32"}, {"precision": "bf16"}, {}),
    ("gpt2_checkpoint", "eager", "gpt2", ["recompute"], {"checkpoint": True}, {"checkpoint": False}, {"bare": True}),
    ("decoder_pointwise", "compiled", "decoder", ["fusion"], {"compiled": False}, {"compiled": True}, {"bare": True}),
    ("adamw_loop", "eager", "gpt2", ["optimizer"], {"optimizer": "loop"}, {"optimizer": "fused"}, {"batch": 4}),
    ("adamw_foreach", "eager", "llama", ["optimizer"], {"optimizer": "foreach"}, {"optimizer": "fused"},
     {"batch": 1, "width": 2048, "layers": 6}),
    ("dlrm_dense_gradients", "eager", "dlrm", ["embedding"], {"sparse": False}, {"sparse": True}, {"bare": True}),
    ("logits_cast", "eager", "head", ["casts=logits"], {"cast": True}, {"cast": False}, {}),
    ("unet_layout", "eager", "unet", ["layout"], {"channels_last": False}, {"channels_last": True}, {}),
    ("dit_attention", "eager", "dit", ["attention"], {"attention": "written"}, {"attention": "sdpa"}, {}),
    # two at once
    ("bert_two", "eager", "bert", ["attention", "alignment"], {"vocab": 30522, "attention": "eager"},
     {"vocab": 30528, "attention": "sdpa"}, {}),
    ("dit_two", "eager", "dit", ["attention", "precision=bf16"], {"attention": "written", "precision": "tf32"},
     {"attention": "sdpa", "precision": "bf16"}, {}),
    ("resnet50_two", "eager", "resnet", ["precision=bf16", "layout"], {"precision": "tf32", "channels_last": False},
     {"precision": "bf16", "channels_last": True}, {}),
    # nothing to be had
    ("mlp_well", "eager", "mlp", [], {}, None, {}),
    ("flash_well", "eager", "long_attention", [], {}, None, {}),
    ("convolutions_well", "eager", "convolutions", [], {}, None, {}),
    ("adamw_well", "eager", "parameters", [], {}, None, {}),
    ("prefill_well", "eager", "prefill", [], {}, None, {}),
    ("decoder_well", "compiled", "decoder", [], {"compiled": True, "norm": "module"}, None, {}),
    ("resnet_inference_well", "compiled", "resnet_inference", [], {"compiled": True}, None, {}),
    # the rest
    ("casts_round", "eager", "decoder", ["casts=copies"], {"round_trip": True}, {"round_trip": False}, {"norm": "module"}),
    ("experts_loop", "eager", "experts", ["small_kernels=batching"], {"batched": False}, {"batched": True}, {}),
    ("gather_backward", "eager", "gather", ["library=indexing"], {"select": False}, {"select": True}, {}),
    ("unet_tf32", "eager", "unet", ["precision=tf32"], {"precision": "fp32"}, {"precision": "tf32"}, {}),
    ("vit_bf16", "eager", "vit", ["precision=bf16"], {"precision": "tf32"}, {"precision": "bf16"}, {}),
    ("small_bert_tf32", "eager", "bert", ["precision=tf32"], {"precision": "fp32"}, {"precision": "tf32"},
     {"batch": 8, "positions": 128, "vocab": 30528}),
    ("llama_checkpoint", "eager", "llama", ["recompute"], {"checkpoint": True}, {"checkpoint": False}, {}),
    ("head_alignment", "eager", "head", ["alignment"], {"vocab": 32003}, {"vocab": 32064}, {"cast": False}),
    ("dlrm_small_tables", "eager", "dlrm", ["embedding"], {"sparse": False}, {"sparse": True},
     {"rows": 100000, "batch": 4096}),
    ("waves", "eager", "mlp", ["small_kernels=waves"], {"rows": 2176}, {"rows": 2048, "work": 2176 / 2048}, {"width": 4096}),
    ("autotune", "eager", "unet", ["library=slow"], {"benchmark": False}, {"benchmark": True}, {"channels_last": True}),
    ("pointwise_only", "compiled", "pointwise", ["fusion"], {"compiled": False}, {"compiled": True}, {}),
    ("unet_compiled", "compiled", "unet", ["fusion"], {"compiled": False}, {"compiled": True},
     {"channels_last": True, "blocks": 1}),
    ("resnet18_compiled", "compiled", "resnet", ["fusion"], {"compiled": False}, {"compiled": True},
     {"channels_last": True, "depth": 18}),
    ("gpt2_compiled", "compiled", "gpt2", ["fusion"], {"compiled": False}, {"compiled": True}, {"layers": 4}),
]


# ---- the parts of a program ----

def precise(torch, precision):
    """How fp32 products run from here on."""
    torch.backends.cuda.matmul.allow_tf32 = precision != "fp32"
    torch.backends.cudnn.allow_tf32 = precision != "fp32"


def cast(torch, precision):
    return torch.autocast("cuda", dtype=torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()


def optimizer_of(torch, parameters, kind):
    if kind == "sgd":
        return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, foreach=True)
    return torch.optim.AdamW(parameters, lr=1e-4, fused=kind == "fused", foreach=kind == "foreach")


def training(torch, model, loss_of, precision="bf16", optimizer="fused", compiled=False):
    """A step: forward, loss, backward, optimizer."""
    precise(torch, precision)
    if precision == "pure":
        model.to(torch.bfloat16)
    updates = optimizer_of(torch, list(model.parameters()), optimizer)
    called = torch.compile(model) if compiled else model

    def step():
        updates.zero_grad(set_to_none=True)
        with cast(torch, precision):
            loss = loss_of(called)
        loss.backward()
        updates.step()
    return step


def inference(torch, model, inputs, precision="pure", compiled=False):
    precise(torch, precision)
    model.eval()
    called = torch.compile(model) if compiled else model

    def step():
        with torch.no_grad(), cast(torch, precision):
            called(inputs)
    return step


# ---- programs: torchvision ----

def resnet(torch, precision="bf16", channels_last=False, compiled=False, depth=50, batch=128):
    import torchvision
    model = getattr(torchvision.models, f"resnet{depth}")().cuda().train()
    x, y = torch.randn(batch, 3, 224, 224, device="cuda"), torch.randint(1000, (batch,), device="cuda")
    if channels_last:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    return training(torch, model, lambda net: torch.nn.functional.cross_entropy(net(x), y), precision, "sgd", compiled)


def resnet_inference(torch, compiled=True, batch=256):
    import torchvision
    model = torchvision.models.resnet18().cuda().to(torch.bfloat16).to(memory_format=torch.channels_last)
    x = torch.randn(batch, 3, 224, 224, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    return inference(torch, model, x, "pure", compiled)


def vit(torch, precision="bf16", batch=64):
    import torchvision
    model = torchvision.models.vit_b_16().cuda().train()
    x, y = torch.randn(batch, 3, 224, 224, device="cuda"), torch.randint(1000, (batch,), device="cuda")
    return training(torch, model, lambda net: torch.nn.functional.cross_entropy(net(x), y), precision)


# ---- programs: transformers ----

def language(torch, model, vocab, batch, positions, precision, optimizer, checkpoint, compiled=False):
    model.train()
    if checkpoint:
        model.gradient_checkpointing_enable()
    tokens = torch.randint(vocab, (batch, positions), device="cuda")
    return training(torch, model, lambda net: net(input_ids=tokens, labels=tokens, **no_cache(checkpoint)).loss, precision,
                    optimizer, compiled)


def no_cache(checkpoint):
    return {"use_cache": False} if checkpoint is not None else {}


def gpt2(torch, vocab=50304, attention="sdpa", checkpoint=False, precision="bf16", optimizer="fused", batch=8, layers=12,
         compiled=False):
    import transformers
    config = transformers.GPT2Config(vocab_size=vocab, n_layer=layers, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                                     attn_implementation=attention, bos_token_id=0, eos_token_id=0)
    model = transformers.GPT2LMHeadModel(config).cuda()
    return language(torch, model, vocab, batch, 1024, precision, optimizer, checkpoint, compiled)


def llama(torch, precision="bf16", checkpoint=False, optimizer="fused", batch=4, width=1024, layers=8):
    import transformers
    config = transformers.LlamaConfig(vocab_size=32000, hidden_size=width, intermediate_size=width * 11 // 4,
                                      num_hidden_layers=layers, num_attention_heads=width // 64, num_key_value_heads=width // 128,
                                      max_position_embeddings=2048, attn_implementation="sdpa")
    model = transformers.LlamaForCausalLM(config).cuda()
    return language(torch, model, 32000, batch, 1024, precision, optimizer, checkpoint)


def bert(torch, vocab=30522, attention="sdpa", precision="bf16", batch=32, positions=512):
    import transformers
    config = transformers.BertConfig(vocab_size=vocab, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                                     attn_implementation=attention)
    model = transformers.BertForMaskedLM(config).cuda()
    return language(torch, model, vocab, batch, positions, precision, "fused", None)


# ---- programs: plain PyTorch ----

def decoder_model(torch, width, layers, norm, round_trip):
    nn, functional = torch.nn, torch.nn.functional

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))

        def forward(self, x):  # as LLaMA's published code
            y = x.float()
            y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
            return (y * self.weight).to(x.dtype)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            make = Norm if norm == "written" else lambda: nn.LayerNorm(width)
            self.norm1, self.norm2 = make(), make()
            self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
            self.gate, self.up = nn.Linear(width, 4 * width, bias=False), nn.Linear(width, 4 * width, bias=False)
            self.down = nn.Linear(4 * width, width, bias=False)

        def rotate(self, x, cos, sin):
            a, b = x.chunk(2, -1)
            return x * cos + torch.cat((-b, a), -1) * sin

        def forward(self, x, cos, sin):
            batch, positions, _ = x.shape
            if round_trip:
                x = x.float().to(torch.bfloat16)
            q, k, v = (t.view(batch, positions, -1, 64).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
            if norm == "written":
                q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(batch, positions, width))
            y = self.norm2(x)
            y = functional.silu(self.gate(y)) * self.up(y)
            if round_trip:
                y = y.transpose(0, 1).contiguous().transpose(0, 1).contiguous()
            return x + self.down(y)

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(Block() for _ in range(layers))

        def forward(self, x, cos, sin):
            for block in self.blocks:
                x = block(x, cos, sin)
            return x
    return Decoder()


def decoder(torch, compiled=False, norm="written", round_trip=False, batch=8, positions=1024, width=1024, layers=4):
    with torch.device("cuda"):
        model = decoder_model(torch, width, layers, norm, round_trip)
        x = torch.randn(batch, positions, width, dtype=torch.bfloat16, requires_grad=True)
        angle = torch.randn(positions, 64, dtype=torch.float32)
        cos, sin = angle.cos().to(torch.bfloat16), angle.sin().to(torch.bfloat16)
    return training(torch, model, lambda net: net(x, cos, sin).float().square().mean(), "pure", compiled=compiled)


def head(torch, vocab=50304, cast=True, rows=8192, width=1024):
    """The end of a language model: projection to the vocabulary and loss."""
    functional = torch.nn.functional
    with torch.device("cuda"):
        model = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.GELU(), torch.nn.Linear(width, vocab, bias=False))
        x, y = torch.randn(rows, width, dtype=torch.bfloat16), torch.randint(vocab, (rows,))

    def loss_of(net):
        logits = net(x)
        return functional.cross_entropy(logits.float() if cast else logits, y)
    return training(torch, model, loss_of, "pure")


def mlp(torch, rows=8192, width=4096, layers=4):
    with torch.device("cuda"):
        model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(layers)))
        x = torch.randn(rows, width, dtype=torch.bfloat16)
    return training(torch, model, lambda net: net(x).sum(), "pure", "sgd")


def prefill(torch, width=4096, rows=8192):
    with torch.device("cuda"), torch.no_grad():
        model = torch.nn.Sequential(*(torch.nn.Linear(width, width, bias=False) for _ in range(8))).to(torch.bfloat16)
        x = torch.randn(rows, width, dtype=torch.bfloat16)
    return inference(torch, model, x)


def long_attention(torch, batch=2, heads=16, positions=8192, size=64):
    functional = torch.nn.functional
    q, k, v = (torch.randn(batch, heads, positions, size, device="cuda", dtype=torch.bfloat16, requires_grad=True)
               for _ in range(3))
    precise(torch, "bf16")
    ones = torch.ones_like(q)

    def step():
        torch.autograd.grad(functional.scaled_dot_product_attention(q, k, v, is_causal=True), (q, k, v), ones)
    return step


def convolutions(torch, batch=64, channels=256, size=56, layers=6):
    with torch.device("cuda"):
        model = torch.nn.Sequential(*(torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(layers)))
        model = model.to(memory_format=torch.channels_last)
        x = torch.randn(batch, channels, size, size, dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    return training(torch, model, lambda net: net(x).sum(), "pure", "sgd")


def parameters(torch, count=24, size=4096):
    """An optimizer and nothing else."""
    values = [torch.nn.Parameter(torch.randn(size, size, device="cuda")) for _ in range(count)]
    for value in values:
        value.grad = torch.randn_like(value)
    updates = optimizer_of(torch, values, "fused")
    return updates.step


def dlrm(torch, sparse=False, tables=26, rows=400000, width=64, batch=16384):
    nn = torch.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum", sparse=sparse) for _ in range(tables))
            self.bottom = nn.Sequential(nn.Linear(16, 512), nn.ReLU(), nn.Linear(512, width), nn.ReLU())
            pairs = (tables + 1) * tables // 2
            self.top = nn.Sequential(nn.Linear(pairs + width + (-(pairs + width)) % 8, 1024), nn.ReLU(), nn.Linear(1024, 512),
                                     nn.ReLU(), nn.Linear(512, 1))
            self.register_buffer("pick", torch.triu_indices(tables + 1, tables + 1, 1), False)
            self.padding = (-(pairs + width)) % 8

        def forward(self, dense, ids):
            x = self.bottom(dense)
            features = torch.stack([x] + [table(ids[i]) for i, table in enumerate(self.tables)], 1)
            products = torch.bmm(features, features.transpose(1, 2)).flatten(1)
            chosen = products.index_select(1, self.pick[0] * (tables + 1) + self.pick[1])
            return self.top(torch.nn.functional.pad(torch.cat((x, chosen), 1), (0, self.padding)))

    with torch.device("cuda"):
        model = Model()
        dense, ids = torch.randn(batch, 16), torch.randint(rows, (tables, batch, 1))
        target = torch.rand(batch, 1)
    precise(torch, "tf32")
    updates = torch.optim.SGD(model.parameters(), lr=1e-2)

    def step():
        updates.zero_grad(set_to_none=True)
        torch.nn.functional.binary_cross_entropy_with_logits(model(dense, ids), target).backward()
        updates.step()
    return step


def experts(torch, batched=False, count=64, rows=256, width=512):
    """A mixture of experts, with tokens already sorted: a loop over experts, or one batched product."""
    with torch.device("cuda"):
        first = torch.nn.Parameter(torch.randn(count, width, 2 * width, dtype=torch.bfloat16) * 0.02)
        second = torch.nn.Parameter(torch.randn(count, 2 * width, width, dtype=torch.bfloat16) * 0.02)
        x = torch.randn(count, rows, width, dtype=torch.bfloat16)
    precise(torch, "bf16")
    gelu = torch.nn.functional.gelu

    def step():
        if batched:
            y = torch.bmm(gelu(torch.bmm(x, first)), second)
        else:
            y = torch.stack([gelu(one @ a) @ b for one, a, b in zip(x.unbind(), first.unbind(), second.unbind())])
        torch.autograd.grad(y.sum(), (first, second))
    return step


def gather(torch, select=False, rows=100000, width=256, count=200000):
    """Rows of a table by advanced indexing, whose gradient sorts, or by index_select."""
    with torch.device("cuda"):
        table = torch.randn(rows, width, requires_grad=True)
        chosen = torch.randint(rows, (count,))
        ones = torch.ones(count, width)

    def step():
        picked = table.index_select(0, chosen) if select else table[chosen]
        torch.autograd.grad(picked, (table,), ones)
    return step


def pointwise(torch, compiled=False, rows=16384, width=4096):
    def chain(x, scale, shift):
        y = torch.nn.functional.gelu(x * scale + shift)
        y = (y - y.mean(-1, keepdim=True)) / (y.std(-1, keepdim=True) + 1e-5)
        return torch.tanh(y) * x
    x = torch.randn(rows, width, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    scale, shift = (torch.randn(width, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    called = torch.compile(chain) if compiled else chain
    ones = torch.ones_like(x)

    def step():
        torch.autograd.grad(called(x, scale, shift), (x,), ones)
    return step


# ---- programs: diffusion ----

def unet(torch, precision="bf16", channels_last=False, compiled=False, benchmark=False, blocks=2, batch=32, width=128, size=64):
    nn = torch.nn
    torch.backends.cudnn.benchmark = benchmark

    class Residual(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.norm1, self.conv1 = nn.GroupNorm(32, inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
            self.norm2, self.conv2 = nn.GroupNorm(32, outputs), nn.Conv2d(outputs, outputs, 3, padding=1)
            self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

        def forward(self, x):
            y = self.conv1(nn.functional.silu(self.norm1(x)))
            return self.skip(x) + self.conv2(nn.functional.silu(self.norm2(y)))

    class Unet(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Conv2d(4, width, 3, padding=1)
            self.down = nn.ModuleList(Residual(width, width) for _ in range(blocks))
            self.shrink = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
            self.middle = nn.ModuleList(Residual(2 * width, 2 * width) for _ in range(blocks))
            self.up = nn.ModuleList(Residual(3 * width if i == 0 else width, width) for i in range(blocks))
            self.last = nn.Conv2d(width, 4, 3, padding=1)

        def forward(self, x):
            x = self.first(x)
            for block in self.down:
                x = block(x)
            y = self.shrink(x)
            for block in self.middle:
                y = block(y)
            y = torch.cat((nn.functional.interpolate(y, scale_factor=2.0), x), 1)
            for block in self.up:
                y = block(y)
            return self.last(y)

    model = Unet().cuda()
    x = torch.randn(batch, 4, size, size, device="cuda")
    if channels_last:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    return training(torch, model, lambda net: net(x).float().square().mean(), precision, compiled=compiled)


def dit(torch, attention="sdpa", precision="bf16", batch=16, positions=1024, width=768, layers=6):
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width, elementwise_affine=False), nn.LayerNorm(width, elementwise_affine=False)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.first, self.second = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.modulate = nn.Linear(width, 6 * width)

        def attend(self, q, k, v):
            if attention == "sdpa":
                return functional.scaled_dot_product_attention(q, k, v)
            return torch.softmax(q @ k.transpose(-2, -1) * 0.125, -1) @ v

        def forward(self, x, condition):
            a, b, c, d, e, f = self.modulate(condition).unsqueeze(1).chunk(6, -1)
            y = self.norm1(x) * (1 + a) + b
            q, k, v = (t.view(batch, positions, -1, 64).transpose(1, 2) for t in self.qkv(y).chunk(3, -1))
            x = x + c * self.out(self.attend(q, k, v).transpose(1, 2).reshape(batch, positions, width))
            y = self.norm2(x) * (1 + d) + e
            return x + f * self.second(functional.gelu(self.first(y), approximate="tanh"))

    class Dit(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(Block() for _ in range(layers))

        def forward(self, x, condition):
            for block in self.blocks:
                x = block(x, condition)
            return x

    with torch.device("cuda"):
        model, x, condition = Dit(), torch.randn(batch, positions, width), torch.randn(batch, width)
    return training(torch, model, lambda net: net(x, condition).float().square().mean(), precision)


PROGRAMS = {program.__name__: program for program in (
    resnet, resnet_inference, vit, gpt2, llama, bert, decoder, head, mlp, prefill, long_attention, convolutions, parameters,
    dlrm, experts, gather, pointwise, unet, dit)}
PROGRAMS |= remedies_heldout.programs(sys.modules[__name__])
PROGRAMS |= remedies_unseen.programs(sys.modules[__name__])
SETS = {"fitted": PAIRS, "heldout": remedies_heldout.PAIRS, "unseen": remedies_unseen.PAIRS}
ALL_PAIRS = [pair for pairs in SETS.values() for pair in pairs]


# ---- recording ----

def timed(torch, step):
    """(median ms of a step, ms that the host takes to issue one)."""
    for _ in range(4):
        step()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    step()
    issued = time.perf_counter() - begin
    torch.cuda.synchronize()
    one = time.perf_counter() - begin
    count = max(8, min(60, int(1.5 / one)))
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    for event in events[:-1]:
        event.record()
        step()
    events[-1].record()
    torch.cuda.synchronize()
    # not the first: the host's lead over an empty queue is in it
    return statistics.median(a.elapsed_time(b) for a, b in zip(events[1:], events[2:])), issued * 1e3


def traced(torch, step, path, shapes):
    """Records three steps; ms a step while recorded."""
    schedule = torch.profiler.schedule(wait=0, warmup=WARMUP, active=RECORDED)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, schedule=schedule, record_shapes=shapes) as profile:
        for i in range(WARMUP + RECORDED):
            if i == WARMUP:
                torch.cuda.synchronize()
                begin = time.perf_counter()
            step()
            if i < WARMUP + RECORDED - 1:
                profile.step()
        torch.cuda.synchronize()
        recorded = (time.perf_counter() - begin) * 1e3 / RECORDED
    profile.export_chrome_trace(path + ".json")
    with open(path + ".json", "rb") as plain, gzip.open(path + ".json.gz", "wb", compresslevel=6) as packed:
        packed.write(plain.read())
    os.remove(path + ".json")
    return recorded


def clean(torch):
    gc.collect()
    torch.cuda.empty_cache()
    torch.backends.cudnn.benchmark = False


def form_of(torch, program, options, path, bare):
    """Times and records one form: figures for truth.json."""
    options = {key: value for key, value in options.items() if key != "work"}
    torch.manual_seed(0)
    step = PROGRAMS[program](torch, **options)
    step_ms, issue_ms = timed(torch, step)
    figures = {"step_ms": step_ms, "issue_ms": issue_ms, "memory_bytes": torch.cuda.max_memory_allocated()}
    torch.cuda.reset_peak_memory_stats()
    figures["recorded_ms"] = traced(torch, step, path, True)
    if bare:
        traced(torch, step, path + ".bare", False)
    del step
    clean(torch)
    return figures


def record_pair(torch, pair, folder):
    name, group, program, remedies, worse, better, common = pair
    bare, common = common.get("bare", False), {key: value for key, value in common.items() if key != "bare"}
    torch._dynamo.reset()
    row = {"name": name, "group": group, "program": program, "remedies": remedies,
           "worse": form_of(torch, program, {**common, **worse}, os.path.join(folder, f"{name}.worse"), bare)}
    if better is not None:
        torch._dynamo.reset()
        row["better"] = form_of(torch, program, {**common, **better}, os.path.join(folder, f"{name}.better"), False)
        row["better"]["step_ms"] *= better.get("work", 1)
    return row


def pack(folder, out):
    """Traces into tar files below TAR_LIMIT."""
    number, size, tar = 0, 0, None
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if tar is None or size + os.path.getsize(path) > TAR_LIMIT:
            if tar:
                tar.close()
            tar, size, number = tarfile.open(os.path.join(out, f"traces-{number}.tar"), "w"), 0, number + 1
        tar.add(path, name)
        size += os.path.getsize(path) + 1024
    if tar:
        tar.close()


def record(arguments):
    begin = time.monotonic()
    import tempfile
    import torch
    os.makedirs(arguments.out, exist_ok=True)
    truth = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "pairs": [], "failed": [], "left_out": []}
    with tempfile.TemporaryDirectory() as folder:
        traced(torch, lambda: torch.ones(1024, device="cuda").sum(), os.path.join(folder, "first"), True)  # takes seconds once
        os.remove(os.path.join(folder, "first.json.gz"))
        longest = {"eager": 12.0, "compiled": 50.0}
        for pair in SETS[arguments.set]:
            if pair[1] not in arguments.groups or arguments.names and pair[0] not in arguments.names:
                continue
            since = time.monotonic()
            if since - begin + longest[pair[1]] > arguments.seconds:
                truth["left_out"].append(pair[0])
                continue
            try:
                row = record_pair(torch, pair, folder)
                truth["pairs"].append(row)
                print(f"{pair[0]:24} {row['worse']['step_ms']:8.2f} -> {row.get('better', row['worse'])['step_ms']:8.2f} ms"
                      f"   issue {row['worse']['issue_ms']:7.2f}   {time.monotonic() - since:5.1f} s", flush=True)
            except Exception as error:
                truth["failed"].append({"name": pair[0], "error": repr(error)[:400]})
                print(f"{pair[0]}: {traceback.format_exc(limit=-4)}", flush=True)
                clean(torch)
        pack(folder, arguments.out)
    with open(os.path.join(arguments.out, "truth.json"), "w", encoding="utf-8") as file:
        json.dump(truth, file, indent=1)
    print(f"{len(truth['pairs'])} pairs, {len(truth['failed'])} failed, {len(truth['left_out'])} left out, "
          f"{time.monotonic() - begin:.0f} s")
    return 0 if truth["pairs"] else 1


# ---- checking ----

def printed(aorta, *arguments):
    done = subprocess.run([aorta, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[:300])
    return json.loads(done.stdout)


def kernels_ms(analysis):
    """Time of kernels a step, ms: what the verdict counts as compute."""
    return sum(row["cost_ms"] for row in analysis["verdict"] if row["cause"] == "compute")


def near(promised, measured, whole):
    return abs(promised - measured) <= max(0.25 * abs(measured), 0.02 * whole)


def promises(aorta, path, remedies):
    """(ms a step, ms of kernels) that the remedies save by themselves."""
    options = [word for remedy in remedies for word in ("--remedy", remedy)]
    found = printed(aorta, "whatif", path, *options, "--json")
    return found["replayed_ms"] - found["steps"][0]["step_ms"], found["kernels_saved_ms"]


def recording(folders, name):
    """The recording as `record` packed it, or as it was unpacked next to truth.json."""
    paths = [os.path.join(folder, name + end) for folder in folders for end in (".json.gz", ".json")]
    return next((path for path in paths if os.path.exists(path)), paths[0])


def check_pair(aorta, pair, folders):
    """(the step's gain is right, the kernels' is, the planted remedy is first), and prints the line."""
    name, worse = pair["name"], pair["worse"]
    path = recording(folders, f"{name}.worse")
    analysis = printed(aorta, "trace", "analyze", "--json", path)
    rows = [row for row in analysis["verdict"] if row.get("remedy")]
    said = f"{rows[0]['remedy']} {rows[0]['gain_ms']:.2f}" if rows else "-"
    if "better" not in pair:
        promised = sum(row["then_ms"] for row in rows)
        good = promised <= 0.25 * worse["step_ms"]
        print(f"{name:22} {'nothing to be had':30} {worse['step_ms']:7.2f} promised {promised:6.2f}   first {said}"
              f"{'' if good else '   PROMISED'}", flush=True)
        return good, good, good
    saved = worse["step_ms"] - pair["better"]["step_ms"]
    kernels = kernels_ms(analysis)
    better = printed(aorta, "trace", "analyze", "--json", recording(folders, f"{name}.better"))
    kernels_saved = kernels - kernels_ms(better)
    gain, kernels_gain = promises(aorta, path, pair["remedies"])
    right, kernels_right = near(gain, max(saved, 0), worse["step_ms"]), near(kernels_gain, max(kernels_saved, 0), kernels)
    mine = [row["then_ms"] for row in rows if any(row["remedy"] == one or row["cause"] == one for one in pair["remedies"])]
    first = saved < 0.02 * worse["step_ms"] or bool(mine) and max(mine) >= 0.95 * rows[0]["then_ms"] or bool(
        rows) and rows[0]["then_ms"] > saved
    print(f"{name:22} {'+'.join(pair['remedies']):30} {worse['step_ms']:7.2f} saved {saved:6.2f} promised {gain:6.2f}   "
          f"kernels {kernels:7.2f} saved {kernels_saved:6.2f} promised {kernels_gain:6.2f}   first {said}"
          f"{'' if right else '   STEP OFF'}{'' if kernels_right else '   KERNELS OFF'}{'' if first else '   NOT FIRST'}",
          flush=True)
    return right, kernels_right, first


def truths(folder):
    for root, _, files in os.walk(folder):
        if "truth.json" in files:
            with open(os.path.join(root, "truth.json"), encoding="utf-8") as file:
                yield root, json.load(file)


def check(arguments):
    import tempfile
    keys = {pair[0]: pair[3] for pair in ALL_PAIRS}
    results = []
    for root, truth in truths(arguments.out):
        with tempfile.TemporaryDirectory() as folder:
            for name in sorted(os.listdir(root)):
                if name.endswith(".tar"):
                    with tarfile.open(os.path.join(root, name)) as tar:
                        tar.extractall(folder, filter="data")
            for pair in truth["pairs"]:
                pair["remedies"] = keys.get(pair["name"], pair["remedies"])
                if not arguments.names or pair["name"] in arguments.names:
                    results.append(check_pair(arguments.aorta, pair, (folder, root)))
    right, kernels, first = (sum(one[i] for one in results) for i in range(3))
    print(f"{len(results)} pairs: {right} gains of the step right, {kernels} of the kernels, {first} planted first")
    return 0 if min(right, kernels, first) >= 0.9 * len(results) else 1


def show(arguments):
    for name, group, program, remedies, worse, better, common in ALL_PAIRS:
        print(f"{name:24} {group:9} {program:17} {' '.join(remedies) or 'nothing to be had':32} {worse} -> {better} {common}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("record")
    one.add_argument("out")
    one.add_argument("--seconds", type=float, default=330)
    one.add_argument("--set", choices=list(SETS), default="fitted")
    one.add_argument("--groups", nargs="*", choices=["eager", "compiled"], default=["eager", "compiled"])
    one.add_argument("--names", nargs="*", choices=[pair[0] for pair in ALL_PAIRS])
    one.set_defaults(run=record)
    two = commands.add_parser("check")
    two.add_argument("out")
    two.add_argument("--aorta", required=True)
    two.add_argument("--names", nargs="*")
    two.set_defaults(run=check)
    three = commands.add_parser("list")
    three.set_defaults(run=show)
    arguments = parser.parse_args()
    return arguments.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
