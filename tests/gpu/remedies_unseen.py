"""Pairs of programs for `remedies.py --set unseen`, written after the rules were: of other kinds than both other sets.
`parts` is remedies.py, as in remedies_heldout.py.
"""

# As PAIRS of remedies.py.
PAIRS = [
    ("t5_vocabulary", "eager", "t5", ["alignment"], {"vocab": 32101}, {"vocab": 32128}, {}),
    ("t5_bf16", "eager", "t5", ["precision=bf16"], {"precision": "tf32"}, {"precision": "bf16"}, {}),
    ("swin_bf16", "eager", "swin", ["precision=bf16"], {"precision": "tf32"}, {"precision": "bf16"}, {}),
    ("regnet_tf32", "eager", "regnet", ["precision=tf32"], {"precision": "fp32"}, {"precision": "tf32"}, {}),
    ("densenet_layout", "eager", "densenet", ["layout"], {"channels_last": False}, {"channels_last": True}, {}),
    ("clip_checkpoint", "eager", "clip", ["recompute"], {"checkpoint": True}, {"checkpoint": False}, {}),
    ("clip_attention", "eager", "clip", ["attention"], {"attention": "eager"}, {"attention": "sdpa"}, {}),
    ("mixer_optimizer", "eager", "mixer", ["optimizer"], {"optimizer": "loop"}, {"optimizer": "fused"}, {"width": 1024}),
    ("ranking_sparse", "eager", "ranking", ["embedding"], {"sparse": False}, {"sparse": True}, {}),
    ("denoiser_tf32", "eager", "denoiser", ["precision=tf32"], {"precision": "fp32"}, {"precision": "tf32"}, {}),
    ("mixer_two", "eager", "mixer", ["precision=bf16", "optimizer"], {"precision": "fp32", "optimizer": "foreach"},
     {"precision": "bf16", "optimizer": "fused"}, {"batch": 64}),
    # nothing to be had
    ("wide_well", "eager", "wide", [], {}, None, {}),
    ("decode_attention_well", "eager", "decode_attention", [], {}, None, {}),
    ("copies_well", "eager", "copies", [], {}, None, {}),
    # compiled
    ("gated_fusion", "compiled", "gated", ["fusion"], {"compiled": False}, {"compiled": True}, {}),
    ("mixer_fusion", "compiled", "mixer", ["fusion"], {"compiled": False}, {"compiled": True}, {}),
]


def programs(parts):
    """By name: functions of torch and a form's options that make one step."""
    training, inference = parts.training, parts.inference

    def t5(torch, vocab=32128, precision="bf16", batch=16):
        import transformers
        config = transformers.T5Config(vocab_size=vocab, d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8, dropout_rate=0.0,
                                       decoder_start_token_id=0, pad_token_id=0)
        model = transformers.T5ForConditionalGeneration(config).cuda().train()
        tokens = torch.randint(5, vocab, (batch, 512), device="cuda")
        return training(torch, model, lambda net: net(input_ids=tokens, labels=tokens, use_cache=False).loss, precision)

    def vision(torch, name, batch, precision="bf16", channels_last=False, size=224):
        import torchvision
        model = getattr(torchvision.models, name)(weights=None).cuda().train()
        x, y = torch.randn(batch, 3, size, size, device="cuda"), torch.randint(1000, (batch,), device="cuda")
        if channels_last:
            model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
        return training(torch, model, lambda net: torch.nn.functional.cross_entropy(net(x), y), precision, "sgd")

    def swin(torch, precision="bf16"):
        return vision(torch, "swin_t", 64, precision)

    def regnet(torch, precision="tf32"):
        return vision(torch, "regnet_y_8gf", 64, precision)

    def densenet(torch, channels_last=False):
        return vision(torch, "densenet121", 64, "bf16", channels_last)

    def clip(torch, attention="sdpa", checkpoint=False, batch=64):
        import transformers
        config = transformers.CLIPVisionConfig(hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12,
                                               image_size=224, patch_size=14, attn_implementation=attention)
        model = transformers.CLIPVisionModel(config).cuda().train()
        if checkpoint:
            model.gradient_checkpointing_enable()
        x = torch.randn(batch, 3, 224, 224, device="cuda")
        return training(torch, model, lambda net: net(pixel_values=x).pooler_output.float().square().mean())

    def mixer(torch, optimizer="fused", precision="bf16", compiled=False, batch=128, width=768, layers=12, places=196):
        nn = torch.nn

        def branch(size, hidden):
            return nn.Sequential(nn.Linear(size, hidden), nn.GELU(), nn.Linear(hidden, size))

        class Mixer(nn.Module):
            def __init__(self):
                super().__init__()
                self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
                self.across = nn.ModuleList(branch(places, 384) for _ in range(layers))
                self.along = nn.ModuleList(branch(width, 4 * width) for _ in range(layers))

            def forward(self, x):
                for i, (across, along) in enumerate(zip(self.across, self.along)):
                    x = x + across(self.norms[2 * i](x).transpose(1, 2)).transpose(1, 2)
                    x = x + along(self.norms[2 * i + 1](x))
                return x.mean(1)
        with torch.device("cuda"):
            model, x = Mixer(), torch.randn(batch, places, width)
        return training(torch, model, lambda net: net(x).float().square().mean(), precision, optimizer, compiled)

    def ranking(torch, sparse=True, batch=8192, tables=12, rows=400000, width=64):
        nn = torch.nn

        class Ranking(nn.Module):
            def __init__(self):
                super().__init__()
                self.tables = nn.ModuleList(nn.Embedding(rows, width, sparse=sparse) for _ in range(tables))
                self.top = nn.Sequential(nn.Linear(tables * width, 1024), nn.ReLU(), nn.Linear(1024, 1))

            def forward(self, ids):
                return self.top(torch.cat([table(ids[i]) for i, table in enumerate(self.tables)], 1))
        with torch.device("cuda"):
            model, ids = Ranking(), torch.randint(rows, (tables, batch))
        dense = torch.optim.SGD(model.top.parameters(), lr=1e-3)
        tables_of = torch.optim.SGD(model.tables.parameters(), lr=1e-3)

        def step():
            dense.zero_grad(set_to_none=True)
            tables_of.zero_grad(set_to_none=True)
            model(ids).square().mean().backward()
            dense.step()
            tables_of.step()
        return step

    def denoiser(torch, precision="tf32", batch=16, width=128, size=64):
        nn = torch.nn

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
                self.na, self.nb = nn.GroupNorm(8, width), nn.GroupNorm(8, width)

            def forward(self, x):
                y = self.a(nn.functional.silu(self.na(x)))
                return x + self.b(nn.functional.silu(self.nb(y)))
        with torch.device("cuda"):
            model = nn.Sequential(nn.Conv2d(4, width, 3, padding=1), *(Block() for _ in range(8)), nn.Conv2d(width, 4, 3, padding=1))
            x, noise = torch.randn(batch, 4, size, size), torch.randn(batch, 4, size, size)
        return training(torch, model, lambda net: (net(x) - noise).square().mean(), precision)

    def gated(torch, compiled=False, batch=8, positions=2048, width=1024, layers=6):
        """Gated units with norms written out, and rotations: chains of pointwise kernels."""
        nn = torch.nn

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.gain = nn.Parameter(torch.ones(width))
                self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(2 * width, width, bias=False)

            def forward(self, x, cosine, sine):
                y = x * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6) * self.gain
                half = y.chunk(2, -1)
                y = torch.cat([half[0] * cosine - half[1] * sine, half[0] * sine + half[1] * cosine], -1)
                a, b = self.up(y).chunk(2, -1)
                return x + self.down(torch.sigmoid(a) * a * b)

        class Gated(nn.Module):
            def __init__(self):
                super().__init__()
                self.blocks = nn.ModuleList(Block() for _ in range(layers))

            def forward(self, x, cosine, sine):
                for block in self.blocks:
                    x = block(x, cosine, sine)
                return x
        with torch.device("cuda"):
            angles = torch.arange(positions)[:, None] * torch.rand(width // 2)
            model, x = Gated(), torch.randn(batch, positions, width)
        return training(torch, model, lambda net: net(x, angles.cos(), angles.sin()).float().square().mean(), "bf16", "fused", compiled)

    # ---- done well ----

    def wide(torch, rows=8192, width=8192, layers=6):
        with torch.device("cuda"):
            model = torch.nn.Sequential(*(torch.nn.Linear(width, width, bias=False) for _ in range(layers)))
            x = torch.randn(rows, width, dtype=torch.bfloat16)
        return training(torch, model, lambda net: net(x).sum(), "pure")

    def decode_attention(torch, batch=64, heads=32, positions=8192):
        """Attention of one new token to a cache: bound by reading it."""
        q = torch.randn(batch, heads, 1, 128, device="cuda", dtype=torch.bfloat16)
        k, v = (torch.randn(batch, heads, positions, 128, device="cuda", dtype=torch.bfloat16) for _ in range(2))

        def step():
            with torch.no_grad():
                for _ in range(4):
                    torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return step

    def copies(torch, count=48, size=1 << 27):
        a, b = (torch.empty(size, device="cuda", dtype=torch.uint8) for _ in range(2))

        def step():
            for _ in range(count):
                b.copy_(a)
        return step

    return {one.__name__: one for one in (t5, swin, regnet, densenet, clip, mixer, ranking, denoiser, gated, wide, decode_attention,
                                          copies)}
