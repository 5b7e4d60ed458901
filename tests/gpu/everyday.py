"""Everyday training and inference programs, for tests/gpu/unrecorded.py.

A program is a function of a `Place` that builds its model and returns a function that runs one step, or one that runs
steps forever and calls `on_step` after each (frameworks that own the loop). PROGRAMS lists them by importance.
"""
import collections
import os
import random
import time

import torch
from torch import nn
import torch.nn.functional as F


class Done(Exception):
    """Ends a loop that a framework owns."""


class Place:
    """Where a program runs: the device, and whether sizes are cut down for a try without a GPU."""

    def __init__(self, device, small):
        self.device, self.small = torch.device(device), small

    def batch(self, size):
        return min(size, 2) if self.small else size

    def depth(self, layers):
        return min(layers, 2) if self.small else layers

    def autocast(self, dtype=torch.bfloat16):
        return torch.autocast(self.device.type, dtype=torch.bfloat16 if self.device.type == "cpu" else dtype)

    def random(self, *shape):
        return torch.randn(*shape, device=self.device)

    def integers(self, high, *shape):
        return torch.randint(high, shape, device=self.device)


def training(model, optimizer, loss_of, after=None, autocast=None):
    """One plain step: gradients to None, forward, backward, update."""
    def step():
        optimizer.zero_grad(set_to_none=True)
        if autocast:
            with autocast():
                loss = loss_of(model)
        else:
            loss = loss_of(model)
        loss.backward()
        optimizer.step()
        if after:
            after(loss)
    return step


def regression(place, model, width, batch, optimizer, **options):
    x, y = place.random(place.batch(batch), width), place.random(place.batch(batch), width)
    return training(model, optimizer, lambda m: F.mse_loss(m(x), y), **options)


def tower(place, layers, width):
    pieces = []
    for _ in range(place.depth(layers)):
        pieces += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*pieces).to(place.device)


# ---- multilayer perceptrons and optimizers ----

def mlp_small(place):
    model = tower(place, 4, 256)
    return regression(place, model, 256, 128, torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9))


def mlp_wide(place):
    width = 256 if place.small else 8192
    model = tower(place, 8, width)
    return regression(place, model, width, 4096, torch.optim.SGD(model.parameters(), lr=1e-4))


def optimizer_program(place, layers, width=256, **options):
    model = tower(place, layers, width)
    return regression(place, model, width, 64, torch.optim.AdamW(model.parameters(), lr=1e-4, **options))


def optimizer_for(place):
    return optimizer_program(place, 120, foreach=False)


def optimizer_foreach(place):
    return optimizer_program(place, 200, foreach=True)


def optimizer_fused(place):
    return optimizer_program(place, 200, fused=place.device.type == "cuda")


def accumulate_clip(place):
    """Four micro-batches, clipping, a scheduler, and the loss is printed each step."""
    model = tower(place, 30, 512)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10000)
    x, y = place.random(place.batch(256), 512), place.random(place.batch(256), 512)

    def step():
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for _ in range(4):
            loss = F.mse_loss(model(x), y) / 4
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
    return step


def item_each_parameter(place):
    model = tower(place, 100, 512)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def watch(_):
        return sum(p.grad.norm().item() for p in model.parameters())
    return regression(place, model, 512, 256, optimizer, after=watch)


def two_optimizers_gan(place):
    depth, batch = (8, 2) if place.small else (64, 64)
    generator = nn.Sequential(
        nn.ConvTranspose2d(100, depth * 8, 4, 1, 0, bias=False), nn.BatchNorm2d(depth * 8), nn.ReLU(True),
        nn.ConvTranspose2d(depth * 8, depth * 4, 4, 2, 1, bias=False), nn.BatchNorm2d(depth * 4), nn.ReLU(True),
        nn.ConvTranspose2d(depth * 4, depth * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(depth * 2), nn.ReLU(True),
        nn.ConvTranspose2d(depth * 2, 3, 4, 2, 1), nn.Tanh()).to(place.device)
    critic = nn.Sequential(
        nn.Conv2d(3, depth, 4, 2, 1), nn.LeakyReLU(0.2, True),
        nn.Conv2d(depth, depth * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(depth * 2), nn.LeakyReLU(0.2, True),
        nn.Conv2d(depth * 2, depth * 4, 4, 2, 1, bias=False), nn.BatchNorm2d(depth * 4), nn.LeakyReLU(0.2, True),
        nn.Conv2d(depth * 4, 1, 4, 1, 0)).to(place.device)
    of_generator = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    of_critic = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
    real = place.random(batch, 3, 32, 32)

    def step():
        noise = torch.randn(batch, 100, 1, 1, device=place.device)
        fake = generator(noise)
        of_critic.zero_grad()
        loss = F.softplus(-critic(real)).mean() + F.softplus(critic(fake.detach())).mean()
        loss.backward()
        of_critic.step()
        of_generator.zero_grad()
        loss = F.softplus(-critic(fake)).mean()
        loss.backward()
        of_generator.step()
    return step


# ---- pictures ----

def picture_training(place, model, batch, size, channels_last=False, autocast=None, classes=1000):
    model = model.to(place.device)
    batch, size = place.batch(batch), 32 if place.small else size
    x, y = place.random(batch, 3, size, size), place.integers(classes, batch)
    if channels_last:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    return training(model, optimizer, lambda m: F.cross_entropy(m(x), y), autocast=autocast)


def resnet50_fp32(place):
    import torchvision
    return picture_training(place, torchvision.models.resnet50(), 64, 224)


def resnet18_small_batch(place):
    import torchvision
    return picture_training(place, torchvision.models.resnet18(), 8, 224, True, place.autocast)


def vit_b16(place):
    import torchvision
    size = 32 if place.small else 224
    model = torchvision.models.VisionTransformer(size, 16, place.depth(12), 12, 768, 3072)
    return picture_training(place, model, 32, 224, autocast=place.autocast)


def vit_batch8(place):
    import torchvision
    size = 32 if place.small else 224
    model = torchvision.models.VisionTransformer(size, 16, place.depth(12), 12, 768, 3072)
    return picture_training(place, model, 8, 224, autocast=place.autocast)


def efficientnet(place):
    import torchvision
    return picture_training(place, torchvision.models.efficientnet_b0(), 32, 224, autocast=place.autocast)


def resnet50_scaler(place):
    """fp16 with a gradient scaler, which waits for the device at each update."""
    import torchvision
    model = torchvision.models.resnet50().to(place.device)
    size = 32 if place.small else 224
    x, y = place.random(place.batch(32), 3, size, size), place.integers(1000, place.batch(32))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scaler = torch.amp.GradScaler(place.device.type, enabled=place.device.type == "cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with place.autocast(torch.float16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return step


def resnet_inference(place):
    import torchvision
    model = torchvision.models.resnet50().to(place.device).eval()
    x = place.random(1, 3, 32 if place.small else 224, 32 if place.small else 224)

    def step():
        with torch.inference_mode():
            model(x)
    return step


class Samples(torch.utils.data.Dataset):
    """Pictures whose decoding takes a while."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return torch.full((3, 64, 64), float(index % 7)), index % 10


def loader_bound(place):
    import torchvision
    model = torchvision.models.resnet18(num_classes=10).to(place.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = iter(torch.utils.data.DataLoader(Samples(0.002), batch_size=place.batch(32), num_workers=4, pin_memory=True))

    def step():
        x, y = next(loader)
        x, y = x.to(place.device, non_blocking=True), y.to(place.device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return step


def pageable_batch(place):
    """The batch is copied from pageable memory and the loss is read each step."""
    import torchvision
    model = torchvision.models.resnet18(num_classes=10).to(place.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    size = place.batch(128)
    x, y = torch.randn(size, 3, 64, 64), torch.randint(10, (size,))

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x.to(place.device)), y.to(place.device))
        loss.backward()
        optimizer.step()
        return loss.item()
    return step


class Residual(nn.Module):
    def __init__(self, width, times):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, width), nn.GroupNorm(8, width)
        self.conv1, self.conv2 = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.time = nn.Linear(times, width)

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(t))[:, :, None, None]
        return x + self.conv2(F.silu(self.norm2(h)))


class Attend(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.attention = nn.GroupNorm(8, width), nn.MultiheadAttention(width, 4, batch_first=True)

    def forward(self, x):
        b, c, h, w = x.shape
        flat = self.norm(x).flatten(2).transpose(1, 2)
        return x + self.attention(flat, flat, flat, need_weights=False)[0].transpose(1, 2).reshape(b, c, h, w)


class Unet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList([Residual(width, 128) for _ in range(4)])
        self.narrow = nn.Conv2d(width, width * 2, 3, 2, 1)
        self.middle = nn.ModuleList([Residual(width * 2, 128) for _ in range(4)])
        self.attend = nn.ModuleList([Attend(width * 2) for _ in range(4)])
        self.widen = nn.ConvTranspose2d(width * 2, width, 4, 2, 1)
        self.up = nn.ModuleList([Residual(width, 128) for _ in range(4)])
        self.leave = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x, t):
        h = self.enter(x)
        for block in self.down:
            h = block(h, t)
        skip, h = h, self.narrow(h)
        for block, attend in zip(self.middle, self.attend):
            h = attend(block(h, t))
        h = self.widen(h) + skip
        for block in self.up:
            h = block(h, t)
        return self.leave(h)


def diffusion_unet(place):
    model = Unet(64).to(place.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    noise_of = torch.linspace(0.99, 0.01, 1000, device=place.device)
    averaged = [p.detach().clone() for p in model.parameters()]
    frequencies = torch.exp(torch.linspace(0, -9, 64, device=place.device))
    x = place.random(place.batch(16), 3, 32, 32)

    def step():
        optimizer.zero_grad(set_to_none=True)
        t = torch.randint(1000, (len(x),), device=place.device)
        keep = noise_of[t][:, None, None, None]
        noise = torch.randn_like(x)
        phase = t[:, None].float() * frequencies[None]
        with place.autocast():
            predicted = model(keep.sqrt() * x + (1 - keep).sqrt() * noise, torch.cat([phase.sin(), phase.cos()], 1))
        F.mse_loss(predicted.float(), noise).backward()
        optimizer.step()
        with torch.no_grad():
            for average, parameter in zip(averaged, model.parameters()):
                average.lerp_(parameter, 1e-3)
    return step


# ---- text ----

def bert(place, batch, length, checkpoint=False, training_mode=True):
    import transformers
    config = transformers.BertConfig(num_hidden_layers=place.depth(12))
    model = transformers.BertForMaskedLM(config).to(place.device)
    model.train(training_mode)
    if checkpoint:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    ids = place.integers(30000, place.batch(batch), length)
    mask = torch.ones_like(ids)
    if not training_mode:
        def answer():
            with torch.no_grad(), place.autocast():
                return model(input_ids=ids, attention_mask=mask).logits
        return answer
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    return training(model, optimizer, lambda m: m(input_ids=ids, attention_mask=mask, labels=ids).loss,
                    autocast=place.autocast)


def bert_checkpoint(place):
    return bert(place, 8, 128, checkpoint=True)


def bert_plain(place):
    return bert(place, 32, 256)


def bert_inference(place):
    return bert(place, 4, 128, training_mode=False)


def gpt2(place, batch, length, layers=12):
    import transformers
    config = transformers.GPT2Config(n_layer=place.depth(layers))
    model = transformers.GPT2LMHeadModel(config).to(place.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=place.device.type == "cuda")
    ids = place.integers(50000, place.batch(batch), 32 if place.small else length)
    return training(model, optimizer, lambda m: m(input_ids=ids, labels=ids).loss, autocast=place.autocast)


def gpt2_small_batch(place):
    return gpt2(place, 2, 256)


def gpt2_large_batch(place):
    return gpt2(place, 16, 1024)


def gpt2_generate(place):
    import transformers
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=place.depth(12))).to(place.device).eval()
    ids = place.integers(50000, place.batch(4), 16)

    def step():
        with torch.inference_mode(), place.autocast():
            model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False,
                           pad_token_id=50256, eos_token_id=None)
    return step


def llama(place):
    import transformers
    config = transformers.LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=place.depth(12),
                                      num_attention_heads=16, num_key_value_heads=4, vocab_size=32000)
    model = transformers.LlamaForCausalLM(config).to(place.device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    ids = place.integers(32000, place.batch(4), 512)
    return training(model, optimizer, lambda m: m(input_ids=ids, labels=ids).loss)


def encoder_eager(place):
    layer = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.1, batch_first=True)
    model = nn.TransformerEncoder(layer, place.depth(8), enable_nested_tensor=False).to(place.device)
    x, y = place.random(place.batch(16), 128, 512), place.random(place.batch(16), 128, 512)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    return training(model, optimizer, lambda m: F.mse_loss(m(x), y))


def lstm_cudnn(place):
    model = nn.ModuleDict({"embed": nn.Embedding(10000, 512), "lstm": nn.LSTM(512, 512, 2, batch_first=True),
                           "head": nn.Linear(512, 10000)}).to(place.device)
    ids = place.integers(10000, place.batch(32), 64)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def loss_of(m):
        return F.cross_entropy(m["head"](m["lstm"](m["embed"](ids))[0]).flatten(0, 1), ids.flatten())
    return training(model, optimizer, loss_of)


def lstm_cells(place):
    cell, head = nn.LSTMCell(256, 256).to(place.device), nn.Linear(256, 256).to(place.device)
    parameters = list(cell.parameters()) + list(head.parameters())
    optimizer = torch.optim.RMSprop(parameters, lr=1e-3)
    x = place.random(48, place.batch(64), 256)

    def step():
        optimizer.zero_grad()
        h, c, loss = torch.zeros_like(x[0]), torch.zeros_like(x[0]), 0
        for t in range(len(x)):
            h, c = cell(x[t], (h, c))
            loss = loss + F.mse_loss(head(h), x[t])
        loss.backward()
        optimizer.step()
    return step


# ---- recommenders, graphs, experts, control ----

class Dlrm(nn.Module):
    def __init__(self, tables, rows, width):
        super().__init__()
        self.tables = nn.ModuleList([nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables)])
        self.bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(pairs + width, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1))
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, dense, bags, offsets):
        low = self.bottom(dense)
        all_of = torch.stack([low] + [table(bag, offsets) for table, bag in zip(self.tables, bags)], 1)
        product = torch.bmm(all_of, all_of.transpose(1, 2))
        return self.top(torch.cat([low, product[:, self.pairs[0], self.pairs[1]]], 1))


def dlrm(place):
    batch = place.batch(2048)
    model = Dlrm(26, 1000 if place.small else 20000, 64).to(place.device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
    dense, label = place.random(batch, 13), torch.rand(batch, 1, device=place.device)
    bags = [place.integers(1000, batch * 4) for _ in range(26)]
    offsets = torch.arange(0, batch * 4, 4, device=place.device)
    return training(model, optimizer, lambda m: F.binary_cross_entropy_with_logits(m(dense, bags, offsets), label))


def graph_network(place):
    """Messages along edges, summed by node."""
    nodes, edges = (100, 200) if place.small else (20000, 200000)
    source, target = place.integers(nodes, edges), place.integers(nodes, edges)
    layers = nn.ModuleList([nn.Linear(128, 128) for _ in range(16)]).to(place.device)
    norms = nn.ModuleList([nn.LayerNorm(128) for _ in range(16)]).to(place.device)
    optimizer = torch.optim.AdamW([*layers.parameters(), *norms.parameters()], lr=1e-3)
    x, y = place.random(nodes, 128), place.random(nodes, 128)

    def loss_of(_):
        h = x
        for layer, norm in zip(layers, norms):
            message = F.relu(layer(h))[source]
            h = norm(h + torch.zeros_like(h).index_add_(0, target, message))
        return F.mse_loss(h, y)
    return training(layers, optimizer, loss_of)


def experts_loop(place):
    """A mixture of experts as a loop with nonzero, which waits for the device once per expert."""
    experts = nn.ModuleList([nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 512)) for _ in range(16)])
    model = nn.ModuleDict({"gate": nn.Linear(512, 16), "experts": experts}).to(place.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x, y = place.random(place.batch(2048), 512), place.random(place.batch(2048), 512)

    def loss_of(m):
        weight, chosen = m["gate"](x).softmax(-1).topk(2)
        out = torch.zeros_like(x)
        for number, expert in enumerate(m["experts"]):
            token, place_of = (chosen == number).nonzero(as_tuple=True)
            out = out.index_add(0, token, expert(x[token]) * weight[token, place_of, None])
        return F.mse_loss(out, y)
    return training(model, optimizer, loss_of)


def policy_gradient(place):
    """Acts in an environment on the host, an action at a time, then learns."""
    policy = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4)).to(place.device)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)

    def step():
        state, logs, rewards = [0.1] * 8, [], []
        for _ in range(32):
            logits = policy(torch.tensor(state, device=place.device))
            chosen = torch.distributions.Categorical(logits=logits)
            action = chosen.sample()
            logs.append(chosen.log_prob(action))
            moved = action.item()
            state = [0.9 * s + 0.1 * (moved - 1.5) + 0.01 * random.random() for s in state]
            rewards.append(-sum(s * s for s in state))
        loss = -(torch.stack(logs) * torch.tensor(rewards, device=place.device)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return step


def two_streams(place):
    """Two branches on streams of their own, joined by events each layer."""
    if place.device.type != "cuda":
        return mlp_small(place)
    a, b = tower(place, 24, 1024), tower(place, 24, 1024)
    optimizer = torch.optim.SGD([*a.parameters(), *b.parameters()], lr=1e-4)
    x, y = place.random(1024, 1024), place.random(1024, 1024)
    side = torch.cuda.Stream()

    def step():
        optimizer.zero_grad(set_to_none=True)
        left, right = x, x
        for i in range(0, len(a), 2):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                right = a[i + 1](a[i](right))
            left = b[i + 1](b[i](left))
            torch.cuda.current_stream().wait_stream(side)
        F.mse_loss(left + right, y).backward()
        optimizer.step()
    return step


# ---- compiled, captured ----

def compiled_encoder(place):
    layer = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, place.depth(4), enable_nested_tensor=False).to(place.device)
    x, y = place.random(place.batch(8), 128, 512), place.random(place.batch(8), 128, 512)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    compiled = model if place.small else torch.compile(model)
    return training(compiled, optimizer, lambda m: F.mse_loss(m(x), y))


def compiled_graphs(place):
    """torch.compile(mode="reduce-overhead"): CUDA graphs."""
    model = tower(place, 12, 512)
    x, y = place.random(place.batch(128), 512), place.random(place.batch(128), 512)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    compiled = model if place.small else torch.compile(model, mode="reduce-overhead")
    return training(compiled, optimizer, lambda m: F.mse_loss(m(x), y))


def captured_step(place):
    if place.device.type != "cuda":
        return mlp_small(place)
    model = tower(place, 60, 512)
    step = regression(place, model, 512, 256, torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=True))
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


# ---- frameworks that own the loop ----

def lightning_loop(place):
    import logging
    import warnings
    import pytorch_lightning as pl
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")

    class Net(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.body = tower(place, 20, 512)

        def training_step(self, batch, _):
            x, y = batch
            loss = F.mse_loss(self.body(x), y)
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-4)

    data = torch.utils.data.TensorDataset(torch.randn(4096, 512), torch.randn(4096, 512))

    def drive(on_step):
        class Each(pl.Callback):
            def on_train_batch_end(self, *_):
                on_step()
        accelerator = "gpu" if place.device.type == "cuda" else "cpu"
        trainer = pl.Trainer(max_steps=1 << 20, accelerator=accelerator, devices=1, logger=False, callbacks=[Each()],
                             enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
        trainer.fit(Net(), torch.utils.data.DataLoader(data, batch_size=64, shuffle=True))
    return drive


def trainer_loop(place):
    import transformers
    transformers.logging.set_verbosity_error()
    config = transformers.BertConfig(hidden_size=256, num_hidden_layers=place.depth(6), num_attention_heads=4,
                                     intermediate_size=1024)
    model = transformers.BertForSequenceClassification(config)

    class Sentences(torch.utils.data.Dataset):
        def __len__(self):
            return 1 << 16

        def __getitem__(self, index):
            ids = torch.randint(30000, (64,))
            return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": index % 2}

    def drive(on_step):
        class Each(transformers.TrainerCallback):
            def on_step_end(self, *_, **__):
                on_step()
        folder = os.path.join("/tmp", f"trainer-{os.getpid()}")
        settings = transformers.TrainingArguments(
            folder, per_device_train_batch_size=16, max_steps=1 << 20, report_to=[], save_strategy="no",
            logging_steps=1 << 20, bf16=place.device.type == "cuda", disable_tqdm=True)
        transformers.Trainer(model=model, args=settings, train_dataset=Sentences(), callbacks=[Each()]).train()
    return drive


def gloo_ddp(place):
    """DistributedDataParallel over gloo with a second process on the same GPU."""
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE="2")
    child = os.fork()
    rank = 1 if child == 0 else 0
    os.environ["RANK"] = str(rank)

    def run(on_step):
        torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
        model = nn.parallel.DistributedDataParallel(tower(place, 8, 1024), bucket_cap_mb=8)
        one = regression(place, model, 1024, 256, torch.optim.SGD(model.parameters(), lr=1e-4))
        while True:
            one()
            on_step()
    if rank == 1:
        try:
            run(lambda: None)
        except BaseException:  # rank 0 has ended
            os._exit(0)

    def drive(on_step):
        try:
            run(on_step)
        finally:
            os.kill(child, 9)
            os.waitpid(child, 0)
    return drive


# ---- only under `aorta trace run` ----

def jax_loop(place):
    """JAX: the loss is read each step."""
    import jax
    import jax.numpy as jnp
    layers, width, batch = 8, 1024, 512
    keys = jax.random.split(jax.random.PRNGKey(0), layers)
    weights = [jax.random.normal(key, (width, width)) * 0.03 for key in keys]
    x = jax.random.normal(keys[0], (batch, width))

    def loss_of(weights):
        h = x
        for weight in weights:
            h = jax.nn.relu(h @ weight)
        return jnp.mean((h - x) ** 2)

    @jax.jit
    def update(weights):
        loss, gradients = jax.value_and_grad(loss_of)(weights)
        return [w - 1e-3 * g for w, g in zip(weights, gradients)], loss

    def drive(on_step):
        nonlocal weights
        while True:
            weights, loss = update(weights)
            float(loss)
            on_step()
    return drive


def triton_loop(place):
    """One Triton kernel again and again; it is compiled at the first launch."""
    global tl
    import triton
    import triton.language as tl

    @triton.jit
    def add_kernel(x, y, out, count, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = at < count
        tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)

    count = 1 << 20
    x, y = place.random(count), place.random(count)
    out = torch.empty_like(x)

    def step():
        add_kernel[(count // 1024,)](x, y, out, count, BLOCK=1024)
    return step


# How a program is recorded: active steps, its recordings besides a plain one, whether it drives its own loop, and what
# it imports.
Program = collections.namedtuple("Program", "function active variants drives imports")
SHAPES, ALL = ("shapes",), ("shapes", "stacks", "memory", "full")
VISION, LIGHTNING = ("torchvision",), ("pytorch_lightning",)
BERT, GPT2, LLAMA = (("transformers", f"transformers.models.{name}.modeling_{name}") for name in ("bert", "gpt2", "llama"))


def program(function, active=5, variants=SHAPES, drives=False, imports=()):
    return Program(function, active, variants, drives, imports)


PROGRAMS = {p.function.__name__: p for p in [
    program(bert_checkpoint, 3, SHAPES, imports=BERT), program(vit_b16, 4, imports=VISION), program(optimizer_for, 4),
    program(dlrm, 5, ALL), program(resnet50_fp32, 4, imports=VISION), program(gpt2_small_batch, 4, ALL, imports=GPT2),
    program(mlp_small, 8, ALL), program(item_each_parameter, 4), program(optimizer_fused, 4), program(lstm_cells, 4),
    program(diffusion_unet, 4), program(gpt2_large_batch, 4, imports=GPT2), program(optimizer_foreach, 4),
    program(experts_loop, 4), program(two_optimizers_gan), program(lightning_loop, 6, ALL, True, LIGHTNING),
    program(trainer_loop, 5, SHAPES, True, (*BERT, "transformers.trainer")),
    program(compiled_encoder, imports=("torch._dynamo", "torch._inductor.compile_fx")),
    program(pageable_batch, imports=VISION), program(accumulate_clip, 4, ALL), program(graph_network),
    program(policy_gradient, 4), program(bert_inference, imports=BERT), program(encoder_eager),
    program(gpt2_generate, 4, imports=GPT2), program(resnet_inference, 8, imports=VISION),
    program(loader_bound, imports=VISION), program(lstm_cudnn), program(captured_step),
    program(resnet18_small_batch, 5, ALL, imports=VISION), program(two_streams), program(mlp_wide),
    program(gloo_ddp, 5, SHAPES, True), program(vit_batch8, 4, imports=VISION), program(bert_plain, 4, imports=BERT),
    program(efficientnet, 3, imports=VISION), program(llama, 3, imports=LLAMA),
    program(resnet50_scaler, 4, imports=VISION),
    program(compiled_graphs, imports=("torch._dynamo", "torch._inductor.compile_fx")),
]}
RUN_ONLY = {p.function.__name__: p for p in [program(jax_loop, drives=True, imports=("jax",)),
                                             program(triton_loop, imports=("triton",))]}
