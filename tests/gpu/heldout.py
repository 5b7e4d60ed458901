"""Programs that no constant of the analysis was fitted with, for `unrecorded.py --set heldout`: of other kinds than those
of everyday.py. A program is a function of a Place, as there. By importance.
"""
import math
import os
import random

import torch
from torch import nn
import torch.nn.functional as F

from everyday import BERT, LLAMA, SHAPES, VISION, program, regression, tower, training


# ---- pictures, films, sound ----

def faster_rcnn(place):
    """Detection: proposals and matches whose number the device says."""
    import torchvision
    build = torchvision.models.detection.fasterrcnn_resnet50_fpn
    size = 64 if place.small else 320
    model = build(weights=None, weights_backbone=None, num_classes=21, min_size=size, max_size=size).to(place.device)
    pictures = [torch.rand(3, size, size, device=place.device) for _ in range(2)]
    box = torch.tensor([[4.0, 4.0, 30.0, 40.0], [10.0, 20.0, 50.0, 60.0]], device=place.device)
    targets = [{"boxes": box, "labels": torch.tensor([1, 2], device=place.device)} for _ in pictures]
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    return training(model, optimizer, lambda m: sum(m(pictures, targets).values()))


def segmentation(place):
    """DeepLab: dilated convolutions, with a class for each pixel."""
    import torchvision
    model = torchvision.models.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=21)
    model = model.to(place.device)
    size = 64 if place.small else 256
    x, y = place.random(place.batch(16), 3, size, size), place.integers(21, place.batch(16), size, size)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return training(model, optimizer, lambda m: F.cross_entropy(m(x)["out"].float(), y), autocast=place.autocast)


def swin_small_batch(place):
    import torchvision
    model = torchvision.models.swin_t(weights=None).to(place.device)
    size = 64 if place.small else 224
    x, y = place.random(place.batch(4), 3, size, size), place.integers(1000, place.batch(4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    return training(model, optimizer, lambda m: F.cross_entropy(m(x), y), autocast=place.autocast)


def film(place):
    """3-D convolutions."""
    import torchvision
    model = torchvision.models.video.r3d_18(weights=None, num_classes=10).to(place.device)
    size = 32 if place.small else 112
    x, y = place.random(place.batch(16), 3, 8, size, size), place.integers(10, place.batch(16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return training(model, optimizer, lambda m: F.cross_entropy(m(x), y), autocast=place.autocast)


class Wave(nn.Module):
    """Gated dilated convolutions along time, as WaveNet."""

    def __init__(self, width, layers):
        super().__init__()
        self.enter, self.leave = nn.Conv1d(1, width, 1), nn.Conv1d(width, 256, 1)
        self.dilated = nn.ModuleList([nn.Conv1d(width, 2 * width, 2, dilation=2 ** (i % 8)) for i in range(layers)])
        self.out = nn.ModuleList([nn.Conv1d(width, 2 * width, 1) for _ in range(layers)])

    def forward(self, x):
        h, stored = self.enter(x), 0
        for dilated, out in zip(self.dilated, self.out):
            a, b = dilated(F.pad(h, (dilated.dilation[0], 0))).chunk(2, 1)
            more, keep = out(torch.tanh(a) * torch.sigmoid(b)).chunk(2, 1)
            h, stored = h + more, stored + keep
        return self.leave(F.relu(stored))


def wave_sound(place):
    model = Wave(64, place.depth(24)).to(place.device)
    x = place.random(place.batch(4), 1, 512 if place.small else 4096)
    y = place.integers(256, len(x), x.shape[-1])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return training(model, optimizer, lambda m: F.cross_entropy(m(x), y))


def spectral_gan(place):
    """A critic with spectral norm, which takes a step of a power iteration at each call."""
    norm = torch.nn.utils.parametrizations.spectral_norm
    width = 8 if place.small else 64
    critic = nn.Sequential(
        norm(nn.Conv2d(3, width, 3, 1, 1)), nn.LeakyReLU(0.1), norm(nn.Conv2d(width, width, 4, 2, 1)), nn.LeakyReLU(0.1),
        norm(nn.Conv2d(width, width * 2, 3, 1, 1)), nn.LeakyReLU(0.1), norm(nn.Conv2d(width * 2, width * 2, 4, 2, 1)),
        nn.LeakyReLU(0.1), norm(nn.Conv2d(width * 2, width * 4, 3, 1, 1)), nn.LeakyReLU(0.1), nn.Flatten(),
        norm(nn.Linear(width * 4 * 64, 1))).to(place.device)
    generator = nn.Sequential(
        nn.Linear(128, width * 4 * 64), nn.Unflatten(1, (width * 4, 8, 8)), nn.Upsample(scale_factor=2),
        nn.Conv2d(width * 4, width * 2, 3, 1, 1), nn.BatchNorm2d(width * 2), nn.ReLU(), nn.Upsample(scale_factor=2),
        nn.Conv2d(width * 2, width, 3, 1, 1), nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, 3, 3, 1, 1),
        nn.Tanh()).to(place.device)
    of_critic = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.0, 0.9))
    of_generator = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.0, 0.9))
    real = place.random(place.batch(32), 3, 32, 32)

    def step():
        for _ in range(2):
            fake = generator(place.random(len(real), 128)).detach()
            of_critic.zero_grad()
            (F.relu(1 - critic(real)).mean() + F.relu(1 + critic(fake)).mean()).backward()
            of_critic.step()
        of_generator.zero_grad()
        (-critic(generator(place.random(len(real), 128))).mean()).backward()
        of_generator.step()
    return step


class Cross(nn.Module):
    """A block of a latent diffusion model: attention to itself, to the words, and a gated product."""

    def __init__(self, width, words):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(3)])
        self.q, self.kv, self.out = nn.Linear(width, 3 * width), nn.Linear(words, 2 * width), nn.Linear(width, width)
        self.q2, self.out2 = nn.Linear(width, width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    @staticmethod
    def attend(*parts):
        q, k, v = (p.unflatten(-1, (-1, 40)).transpose(1, 2) for p in parts)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    def forward(self, x, words):
        x = x + self.out(self.attend(*self.q(self.norms[0](x)).chunk(3, -1)))
        x = x + self.out2(self.attend(self.q2(self.norms[1](x)), *self.kv(words).chunk(2, -1)))
        a, b = self.up(self.norms[2](x)).chunk(2, -1)
        return x + self.down(a * F.gelu(b))


def latent_diffusion(place):
    """Four denoising steps with guidance: a UNet with attention to words, in fp16, inference."""
    width, words = 80 if place.small else 320, 128 if place.small else 768

    class Block(nn.Module):
        def __init__(self, wide):
            super().__init__()
            self.norm, self.conv, self.cross = nn.GroupNorm(8, wide), nn.Conv2d(wide, wide, 3, padding=1), Cross(wide, words)

        def forward(self, x, text):
            x = x + self.conv(F.silu(self.norm(x)))
            b, c, h, w = x.shape
            return x + self.cross(x.flatten(2).transpose(1, 2), text).transpose(1, 2).reshape(b, c, h, w)
    parts = nn.ModuleDict({
        "enter": nn.Conv2d(4, width, 3, padding=1), "down": nn.ModuleList([Block(width) for _ in range(2)]),
        "narrow": nn.Conv2d(width, 2 * width, 3, 2, 1), "middle": nn.ModuleList([Block(2 * width) for _ in range(3)]),
        "widen": nn.ConvTranspose2d(2 * width, width, 4, 2, 1), "up": nn.ModuleList([Block(width) for _ in range(2)]),
        "leave": nn.Conv2d(width, 4, 3, padding=1)})
    dtype = torch.float32 if place.small else torch.float16
    parts = parts.to(place.device, dtype).eval()
    text = place.random(2, 77, words).to(dtype)
    first = place.random(1, 4, 32, 32).to(dtype)

    def predict(x):
        h = parts["enter"](x)
        for block in parts["down"]:
            h = block(h, text)
        skip, h = h, parts["narrow"](h)
        for block in parts["middle"]:
            h = block(h, text)
        h = parts["widen"](h) + skip
        for block in parts["up"]:
            h = block(h, text)
        return parts["leave"](h)

    def step():
        with torch.no_grad():
            x = first
            for i in range(4):
                free, guided = predict(torch.cat([x, x])).chunk(2)
                noise = free + 7.5 * (guided - free)
                x = (x - 0.1 * (i + 1) * noise).clamp(-4, 4)
    return step


# ---- text and speech ----

def t5(place):
    """Encoder and decoder."""
    import transformers
    config = transformers.T5Config(d_model=512, d_ff=1024, num_layers=place.depth(6), num_heads=8, decoder_start_token_id=0)
    model = transformers.T5ForConditionalGeneration(config).to(place.device)
    ids = place.integers(30000, place.batch(8), 128)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    return training(model, optimizer, lambda m: m(input_ids=ids, labels=ids[:, :64].contiguous()).loss, autocast=place.autocast)


def whisper(place):
    """Speech to text: two convolutions, encoder and decoder."""
    import transformers
    config = transformers.WhisperConfig(d_model=384, encoder_layers=place.depth(4), decoder_layers=place.depth(4),
                                        encoder_attention_heads=6, decoder_attention_heads=6, encoder_ffn_dim=1536,
                                        decoder_ffn_dim=1536)
    model = transformers.WhisperForConditionalGeneration(config).to(place.device)
    sound, text = place.random(place.batch(16), 80, 3000), place.integers(50000, place.batch(16), 64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    return training(model, optimizer, lambda m: m(input_features=sound, labels=text).loss, autocast=place.autocast)


class Adapted(nn.Module):
    """A frozen layer plus a product of low rank (LoRA)."""

    def __init__(self, layer, rank=8):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.a, self.b = nn.Linear(layer.in_features, rank, bias=False), nn.Linear(rank, layer.out_features, bias=False)

    def forward(self, x):
        return self.layer(x) + 2.0 * self.b(self.a(x))


def lora(place):
    import transformers
    config = transformers.LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=place.depth(16),
                                      num_attention_heads=16, num_key_value_heads=4, vocab_size=32000)
    model = transformers.LlamaForCausalLM(config).requires_grad_(False)
    for layer in model.model.layers:
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(layer.self_attn, name, Adapted(getattr(layer.self_attn, name)))
    model.to(place.device, torch.bfloat16)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    ids = place.integers(32000, place.batch(2), 256)
    return training(model, optimizer, lambda m: m(input_ids=ids, labels=ids).loss)


def cached_decoding(place):
    """A token at a time against cached keys and values; each token is read by the host."""
    width, layers, heads, longest = 1024, place.depth(12), 16, 256
    blocks = nn.ModuleList([nn.ModuleDict({
        "norm": nn.LayerNorm(width), "qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width),
        "norm2": nn.LayerNorm(width), "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width)})
        for _ in range(layers)])
    embed, batch = nn.Embedding(8192, width), place.batch(8)
    dtype = torch.float32 if place.small else torch.bfloat16
    blocks, embed = blocks.to(place.device, dtype), embed.to(place.device, dtype)
    keys = torch.zeros(layers, batch, heads, longest, width // heads, device=place.device, dtype=dtype)
    values = torch.zeros_like(keys)

    def one(token, at):
        x = embed(token)
        for i, block in enumerate(blocks):
            q, k, v = block["qkv"](block["norm"](x)).view(batch, 3, heads, 1, -1).unbind(1)
            keys[i, :, :, at:at + 1], values[i, :, :, at:at + 1] = k, v
            y = F.scaled_dot_product_attention(q, keys[i, :, :, :at + 1], values[i, :, :, :at + 1])
            x = x + block["out"](y.reshape(batch, width))
            x = x + block["down"](F.gelu(block["up"](block["norm2"](x))))
        return (x @ embed.weight.t()).argmax(-1)

    def step():
        with torch.no_grad():
            token = torch.zeros(batch, dtype=torch.long, device=place.device)
            for at in range(8):
                token = one(token, at)
                if token.tolist()[0] < 0:
                    break
    return step


def transducer(place):
    """An RNN transducer, whose loss goes along the diagonals of a lattice."""
    batch, times, words, names = place.batch(4), 32, 8, 128
    encoder, predictor = nn.LSTM(80, 256, 2, batch_first=True), nn.LSTM(64, 256, batch_first=True)
    model = nn.ModuleDict({"encoder": encoder, "embed": nn.Embedding(names, 64), "predictor": predictor,
                           "join": nn.Linear(256, names)}).to(place.device)
    sound, text = place.random(batch, times, 80), place.integers(names - 1, batch, words) + 1
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def loss_of(m):
        a = m["encoder"](sound)[0]
        b = m["predictor"](F.pad(m["embed"](text), (0, 0, 1, 0)))[0]
        logs = m["join"](torch.tanh(a[:, :, None] + b[:, None])).log_softmax(-1)
        blank = logs[..., 0]
        emit = logs[:, :, :-1].gather(-1, text[:, None, :, None].expand(-1, times, -1, -1))[..., 0]
        row = F.pad(emit[:, 0].cumsum(-1), (1, 0))
        for t in range(1, times):
            after = row + blank[:, t - 1]
            cells = [after[:, 0]]
            for u in range(1, words + 1):
                cells.append(torch.logaddexp(after[:, u], cells[-1] + emit[:, t, u - 1]))
            row = torch.stack(cells, 1)
        return -(row[:, -1] + blank[:, -1, -1]).mean()
    return training(model, optimizer, loss_of)


def state_space(place):
    """Selective scans, as Mamba's, over chunks of time."""
    width, states, times = 256, 16, 64

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.enter = nn.LayerNorm(width), nn.Linear(width, 4 * width)
            self.conv = nn.Conv1d(2 * width, 2 * width, 4, groups=2 * width, padding=3)
            self.select, self.leave = nn.Linear(2 * width, 2 * states + 1), nn.Linear(2 * width, width)
            self.decay = nn.Parameter(torch.rand(2 * width, states))

        def forward(self, x):
            y, gate = self.enter(self.norm(x)).chunk(2, -1)
            y = F.silu(self.conv(y.transpose(1, 2))[..., :times].transpose(1, 2))
            b, c, delta = self.select(y).split([states, states, 1], -1)
            delta = F.softplus(delta)
            keep = torch.exp(-delta[..., None] * self.decay)
            bring = (delta * y)[..., None] * b[:, :, None]
            h, out = torch.zeros_like(bring[:, 0]), []
            for t in range(times):
                h = keep[:, t] * h + bring[:, t]
                out.append((h * c[:, t, None]).sum(-1))
            return x + self.leave(torch.stack(out, 1) * F.silu(gate))
    model = nn.Sequential(*[Layer() for _ in range(place.depth(3))]).to(place.device)
    x, y = place.random(place.batch(8), times, width), place.random(place.batch(8), times, width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    return training(model, optimizer, lambda m: F.mse_loss(m(x), y))


def two_towers(place):
    """Pictures and words, contrasted."""
    layer = nn.TransformerEncoderLayer
    width = 512

    def encoder(layers):
        return nn.TransformerEncoder(layer(width, 8, 4 * width, dropout=0.0, batch_first=True), place.depth(layers),
                                     enable_nested_tensor=False)
    model = nn.ModuleDict({"patches": nn.Conv2d(3, width, 32, 32), "pictures": encoder(8), "words": nn.Embedding(30000, width),
                           "texts": encoder(6), "scale": nn.Linear(1, 1)}).to(place.device)
    pictures, texts = place.random(place.batch(256), 3, 224, 224), place.integers(30000, place.batch(256), 64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def loss_of(m):
        a = F.normalize(m["pictures"](m["patches"](pictures).flatten(2).transpose(1, 2)).mean(1), dim=-1)
        b = F.normalize(m["texts"](m["words"](texts))[:, -1], dim=-1)
        logits = (a @ b.t()).float() * m["scale"].weight.exp()
        same = torch.arange(len(logits), device=place.device)
        return (F.cross_entropy(logits, same) + F.cross_entropy(logits.t(), same)) / 2
    return training(model, optimizer, loss_of, autocast=place.autocast)


# ---- graphs, recommenders, control ----

def attention_graph(place):
    """Graph attention: softmax over the edges of a node."""
    nodes, edges, heads, wide = (100, 300, 4, 16) if place.small else (4000, 40000, 4, 32)
    source, target = place.integers(nodes, edges), place.integers(nodes, edges)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.project, self.norm = nn.Linear(heads * wide, heads * wide), nn.LayerNorm(heads * wide)
            self.of_source, self.of_target = (nn.Parameter(torch.randn(heads, wide) * 0.1) for _ in range(2))

        def forward(self, x):
            h = self.project(x).view(nodes, heads, wide)
            score = F.leaky_relu((h * self.of_source).sum(-1)[source] + (h * self.of_target).sum(-1)[target], 0.2)
            weight = (score - score.max()).exp()
            total = torch.zeros(nodes, heads, device=x.device).index_add_(0, target, weight)
            message = h[source] * (weight / (total[target] + 1e-9))[..., None]
            return self.norm(x + torch.zeros_like(h).index_add_(0, target, message).flatten(1))
    model = nn.Sequential(*[Layer() for _ in range(place.depth(8))]).to(place.device)
    x, y = place.random(nodes, heads * wide), place.random(nodes, heads * wide)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return training(model, optimizer, lambda m: F.mse_loss(m(x), y))


def sparse_tables(place):
    """Embeddings with sparse gradients, and two optimizers."""
    batch, tables = place.batch(1024), 12
    model = nn.ModuleList([nn.Embedding(1000 if place.small else 200000, 32, sparse=True) for _ in range(tables)])
    model = model.to(place.device)
    top = nn.Sequential(nn.Linear(32 * tables, 256), nn.ReLU(), nn.Linear(256, 1)).to(place.device)
    of_tables, of_top = torch.optim.SparseAdam(list(model.parameters())), torch.optim.Adam(top.parameters())
    ids, label = place.integers(1000, tables, batch), torch.rand(batch, 1, device=place.device)

    def step():
        of_tables.zero_grad()
        of_top.zero_grad()
        found = torch.cat([table(ids[i]) for i, table in enumerate(model)], 1)
        F.binary_cross_entropy_with_logits(top(found), label).backward()
        of_tables.step()
        of_top.step()
    return step


def policy_on_device(place):
    """PPO: an environment on the device, then epochs over what was seen."""
    count, length = place.batch(512), 16
    actor = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2)).to(place.device)
    critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)).to(place.device)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=3e-4)
    state = [place.random(count, 4) * 0.1]

    def play():
        stored = []
        for _ in range(length):
            x = state[0]
            logs = actor(x).log_softmax(-1)
            action = torch.multinomial(logs.exp(), 1)
            push = action[:, 0].float() * 2 - 1
            place_, speed, angle, turn = x.unbind(1)
            moved = torch.stack([place_ + 0.02 * speed, speed + 0.1 * push, angle + 0.02 * turn,
                                 turn + 0.1 * angle - 0.1 * push], 1)
            fell = (angle.abs() > 0.2) | (place_.abs() > 2.4)
            state[0] = torch.where(fell[:, None], torch.zeros_like(moved), moved)
            stored.append((x, action, logs.gather(1, action), 1.0 - fell.float(), critic(x)[:, 0]))
        return stored

    def step():
        with torch.no_grad():
            stored = play()
            gain, gains = torch.zeros(count, device=place.device), []
            after = critic(state[0])[:, 0]
            for _, _, _, reward, value in reversed(stored):
                gain = reward + 0.99 * after - value + 0.94 * gain
                gains.append(gain)
                after = value
        states, actions, logs = (torch.cat([row[i] for row in stored]) for i in range(3))
        gains = torch.cat(gains[::-1])
        for _ in range(4):
            ratio = (actor(states).log_softmax(-1).gather(1, actions) - logs).exp()[:, 0]
            loss = -torch.minimum(ratio * gains, ratio.clamp(0.8, 1.2) * gains).mean() + (critic(states)[:, 0] - gains).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(actor.parameters(), 0.5)
            optimizer.step()
    return step


def gradient_of_each(place):
    """A gradient for each sample (torch.func), clipped and summed, as private training does."""
    from torch.func import functional_call, grad, vmap
    model = tower(place, 6, 256)
    names = dict(model.named_parameters())
    x, y = place.random(place.batch(64), 256), place.random(place.batch(64), 256)

    def loss_of(values, one, goal):
        return F.mse_loss(functional_call(model, values, (one[None],)), goal[None])
    each = vmap(grad(loss_of), in_dims=(None, 0, 0))

    def step():
        with torch.no_grad():
            found = each({name: p.detach() for name, p in names.items()}, x, y)
            size = sum(g.flatten(1).pow(2).sum(1) for g in found.values()).sqrt()
            scale = (1.0 / (size + 1e-6)).clamp(max=1.0)
            for name, p in names.items():
                g = torch.einsum("b,b...->...", scale, found[name])
                p.sub_(1e-3 * (g + 0.01 * torch.randn_like(g)))
    return step


# ---- loaders, shards, 8 bits ----

class Prepared(torch.utils.data.Dataset):
    """Pictures that are turned and normalised on the host."""

    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        x = torch.rand(3, 96, 96)
        if random.random() < 0.5:
            x = x.flip(-1)
        return (x - 0.5) / 0.25, index % 10


def loader_in_the_loop(place):
    """No processes of a loader: the program's own thread prepares each sample."""
    model = nn.Sequential(nn.Conv2d(3, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 128, 3, 2, 1), nn.ReLU(),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)).to(place.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = iter(torch.utils.data.DataLoader(Prepared(), batch_size=place.batch(32), num_workers=0))

    def step():
        x, y = next(loader)
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(x.to(place.device)), y.to(place.device)).backward()
        optimizer.step()
    return step


def loader_of_two(place):
    """Two processes of a loader, slower than the step."""
    model = tower(place, 16, 512)
    first = nn.Linear(3 * 96 * 96, 512).to(place.device)
    optimizer = torch.optim.SGD([*model.parameters(), *first.parameters()], lr=0.001)
    loader = iter(torch.utils.data.DataLoader(Prepared(), batch_size=place.batch(64), num_workers=2))

    def step():
        x, y = next(loader)
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(first(x.to(place.device).flatten(1))), y.to(place.device)).backward()
        optimizer.step()
    return step


def sharded_alone(place):
    """FSDP over one rank."""
    if place.device.type != "cuda":
        return regression(place, tower(place, 2, 64), 64, 8, torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1))
    import socket
    from torch.distributed.fsdp import fully_shard
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE="1", RANK="0", LOCAL_RANK="0")
    torch.cuda.set_device(0)
    torch.distributed.init_process_group("nccl", rank=0, world_size=1)
    layer = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 8, enable_nested_tensor=False).to(place.device)
    for block in model.layers:
        fully_shard(block)
    fully_shard(model)
    x, y = place.random(8, 128, 512), place.random(8, 128, 512)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    return training(model, optimizer, lambda m: F.mse_loss(m(x), y))


class Eight(nn.Module):
    """A product with weights in 8 bits and a scale for each row, widened at each call."""

    def __init__(self, width, out):
        super().__init__()
        self.register_buffer("weight", torch.randint(-127, 127, (out, width), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(out, 1) / (127 * math.sqrt(width)))

    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype) * self.scale.to(x.dtype))


def eight_bits(place):
    """Inference with weights in 8 bits."""
    width = 128 if place.small else 2048
    model = nn.Sequential(*[nn.Sequential(Eight(width, 2 * width), nn.GELU(), Eight(2 * width, width), nn.LayerNorm(width))
                            for _ in range(place.depth(12))]).to(place.device)
    x = place.random(place.batch(64), width)

    def step():
        with torch.no_grad(), place.autocast():
            return model(x)
    return step


HELDOUT = {p.function.__name__: p for p in [
    program(faster_rcnn, 4, imports=VISION), program(t5, 4, imports=("transformers", "transformers.models.t5.modeling_t5")),
    program(state_space, 3), program(loader_of_two, 6), program(lora, 4, imports=LLAMA), program(spectral_gan, 4),
    program(attention_graph), program(cached_decoding, 4), program(two_towers, 3), program(policy_on_device, 4),
    program(transducer, 3), program(sparse_tables), program(swin_small_batch, 4, imports=VISION),
    program(loader_in_the_loop, 6), program(gradient_of_each), program(latent_diffusion, 4),
    program(whisper, 4, imports=("transformers", "transformers.models.whisper.modeling_whisper")),
    program(sharded_alone, 4), program(wave_sound, 4), program(segmentation, 4, imports=VISION),
    program(film, 4, imports=VISION), program(eight_bits, 5),
]}
