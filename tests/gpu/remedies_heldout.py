"""Pairs of programs that no constant of the remedies was fitted with, for `remedies.py --set heldout`: of other kinds than
those of remedies.py, whose parts they use (the module is passed as `parts`, so that neither imports the other).
"""

# As PAIRS of remedies.py.
PAIRS = [
    ("bart_vocabulary", "eager", "bart", ["alignment"], {"vocab": 50265}, {"vocab": 50304}, {}),
    ("whisper_attention", "eager", "whisper", ["attention"], {"attention": "eager"}, {"attention": "sdpa"}, {}),
    ("wave_tf32", "eager", "wave", ["precision=tf32"], {"precision": "fp32"}, {"precision": "tf32"}, {}),
    ("film_bf16", "eager", "film", ["precision=bf16"], {"precision": "tf32"}, {"precision": "bf16"}, {}),
    ("segmentation_layout", "eager", "segmentation", ["layout"], {"channels_last": False}, {"channels_last": True}, {}),
    ("convnext_bf16", "eager", "convnext", ["precision=bf16"], {"precision": "tf32"}, {"precision": "bf16"}, {}),
    ("towers_checkpoint", "eager", "towers", ["recompute"], {"checkpoint": True}, {"checkpoint": False}, {}),
    ("towers_attention", "eager", "towers", ["attention"], {"attention": "written"}, {"attention": "sdpa"}, {}),
    ("words_sparse", "eager", "words", ["embedding"], {"sparse": False}, {"sparse": True}, {}),
    ("efficientnet_optimizer", "eager", "efficientnet", ["optimizer"], {"optimizer": "loop"}, {"optimizer": "fused"}, {}),
    ("adapters_loop", "eager", "adapters", ["small_kernels=batching"], {"batched": False}, {"batched": True}, {}),
    ("gan_tf32", "eager", "gan", ["precision=tf32"], {"precision": "fp32"}, {"precision": "tf32"}, {}),
    ("graph_index", "eager", "graph", ["library=indexing"], {"select": False}, {"select": True}, {}),
    ("scan_logits", "eager", "scan", ["casts=logits"], {"cast": True}, {"cast": False}, {}),
    ("cross_two", "eager", "cross", ["attention", "precision=bf16"], {"attention": "written", "precision": "tf32"},
     {"attention": "sdpa", "precision": "bf16"}, {}),
    ("products_waves", "eager", "products", ["small_kernels=waves"], {"rows": 1536}, {"rows": 1408, "work": 1536 / 1408}, {}),
    # nothing to be had
    ("decoding_well", "eager", "decoding", [], {}, None, {}),
    ("film_well", "eager", "film_plain", [], {}, None, {}),
    ("rows_well", "eager", "rows", [], {}, None, {}),
    # compiled
    ("scan_fusion", "compiled", "scan", ["fusion"], {"compiled": False}, {"compiled": True}, {"cast": False}),
    ("wave_fusion", "compiled", "wave", ["fusion"], {"compiled": False}, {"compiled": True}, {"precision": "bf16"}),
]


def programs(parts):
    """By name: functions of torch and a form's options that make one step."""
    training, inference, precise = parts.training, parts.inference, parts.precise

    # ---- torchvision ----

    def segmentation(torch, channels_last=False, batch=16, size=384):
        import torchvision
        model = torchvision.models.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=21).cuda()
        x, y = torch.randn(batch, 3, size, size, device="cuda"), torch.randint(21, (batch, size, size), device="cuda")
        if channels_last:
            model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
        return training(torch, model, lambda net: torch.nn.functional.cross_entropy(net(x)["out"], y), "bf16", "sgd")

    def convnext(torch, precision="bf16", batch=64):
        import torchvision
        model = torchvision.models.convnext_tiny(weights=None).cuda().train()
        x, y = torch.randn(batch, 3, 224, 224, device="cuda"), torch.randint(1000, (batch,), device="cuda")
        return training(torch, model, lambda net: torch.nn.functional.cross_entropy(net(x), y), precision)

    def film(torch, precision="bf16", batch=32):
        import torchvision
        model = torchvision.models.video.r3d_18(weights=None, num_classes=10).cuda().train()
        x, y = torch.randn(batch, 3, 8, 112, 112, device="cuda"), torch.randint(10, (batch,), device="cuda")
        return training(torch, model, lambda net: torch.nn.functional.cross_entropy(net(x), y), precision, "sgd")

    def efficientnet(torch, optimizer="fused", batch=64):
        import torchvision
        model = torchvision.models.efficientnet_v2_s(weights=None).cuda().train().to(memory_format=torch.channels_last)
        x, y = torch.randn(batch, 3, 224, 224, device="cuda"), torch.randint(1000, (batch,), device="cuda")
        x = x.to(memory_format=torch.channels_last)
        return training(torch, model, lambda net: torch.nn.functional.cross_entropy(net(x), y), "bf16", optimizer)

    # ---- transformers ----

    def bart(torch, vocab=50304, batch=16):
        import transformers
        config = transformers.BartConfig(vocab_size=vocab, d_model=768, encoder_layers=4, decoder_layers=4,
                                         encoder_attention_heads=12, decoder_attention_heads=12, encoder_ffn_dim=3072,
                                         decoder_ffn_dim=3072, dropout=0.0, attn_implementation="sdpa")
        model = transformers.BartForConditionalGeneration(config).cuda().train()
        tokens = torch.randint(5, vocab, (batch, 512), device="cuda")
        return training(torch, model, lambda net: net(input_ids=tokens, labels=tokens, use_cache=False).loss)

    def whisper(torch, attention="sdpa", batch=16):
        import transformers
        config = transformers.WhisperConfig(d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
                                            decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048,
                                            vocab_size=51872, attn_implementation=attention)
        model = transformers.WhisperForConditionalGeneration(config).cuda().train()
        sound, text = torch.randn(batch, 80, 3000, device="cuda"), torch.randint(50000, (batch, 128), device="cuda")
        return training(torch, model, lambda net: net(input_features=sound, labels=text, use_cache=False).loss)

    # ---- plain PyTorch ----

    def wave(torch, precision="bf16", compiled=False, batch=16, width=256, times=8192, layers=16):
        nn, functional = torch.nn, torch.nn.functional

        class Wave(nn.Module):
            def __init__(self):
                super().__init__()
                self.enter, self.leave = nn.Conv1d(1, width, 1), nn.Conv1d(width, 256, 1)
                self.dilated = nn.ModuleList(
                    nn.Conv1d(width, 2 * width, 3, padding=2 ** (i % 8), dilation=2 ** (i % 8)) for i in range(layers))
                self.out = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(layers))

            def forward(self, x):
                h = self.enter(x)
                for dilated, out in zip(self.dilated, self.out):
                    a, b = dilated(h).chunk(2, 1)
                    h = h + out(torch.tanh(a) * torch.sigmoid(b))
                return self.leave(functional.relu(h))
        model, x = Wave().cuda(), torch.randn(batch, 1, times, device="cuda")
        return training(torch, model, lambda net: net(x).float().square().mean(), precision, compiled=compiled)

    def towers(torch, checkpoint=False, attention="sdpa", batch=256, width=768, layers=6):
        """Pictures and words, contrasted."""
        from torch.utils.checkpoint import checkpoint as again
        nn, functional = torch.nn, torch.nn.functional

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
                self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
                self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

            def forward(self, x):
                q, k, v = (t.unflatten(-1, (-1, 64)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
                if attention == "sdpa":
                    y = functional.scaled_dot_product_attention(q, k, v)
                else:
                    y = torch.softmax(torch.matmul(q, k.transpose(-2, -1)) / 8.0, -1) @ v
                x = x + self.out(y.transpose(1, 2).flatten(2))
                return x + self.down(functional.gelu(self.up(self.norm2(x))))

        class Towers(nn.Module):
            def __init__(self):
                super().__init__()
                self.patches, self.words = nn.Conv2d(3, width, 16, 16), nn.Embedding(30000, width)
                self.pictures, self.texts = (nn.ModuleList(Block() for _ in range(layers)) for _ in range(2))

            def run(self, blocks, x):
                for block in blocks:
                    x = again(block, x, use_reentrant=False) if checkpoint else block(x)
                return functional.normalize(x.mean(1).float(), dim=-1)

            def forward(self, pictures, texts):
                a = self.run(self.pictures, self.patches(pictures).flatten(2).transpose(1, 2))
                return a @ self.run(self.texts, self.words(texts)).t() * 20.0
        model = Towers().cuda()
        pictures, texts = torch.randn(batch, 3, 224, 224, device="cuda"), torch.randint(30000, (batch, 64), device="cuda")
        same = torch.arange(batch, device="cuda")
        return training(torch, model, lambda net: functional.cross_entropy(net(pictures, texts), same))

    def words(torch, sparse=False, rows=1000000, width=128, batch=65536):
        """Skip-grams with negative samples."""
        nn, functional = torch.nn, torch.nn.functional
        with torch.device("cuda"):
            tables = nn.ModuleList(nn.Embedding(rows, width, sparse=sparse) for _ in range(2))
            centre, near = torch.randint(rows, (batch,)), torch.randint(rows, (batch, 6))
            label = torch.zeros(batch, 6)
            label[:, 0] = 1
        updates = torch.optim.SGD(tables.parameters(), lr=0.1)

        def step():
            updates.zero_grad(set_to_none=True)
            scores = (tables[0](centre)[:, None] * tables[1](near)).sum(-1)
            functional.binary_cross_entropy_with_logits(scores, label).backward()
            updates.step()
        return step

    def adapters(torch, batched=False, count=48, rows=256, width=1024, rank=64):
        """An adapter of low rank for each of many clients."""
        with torch.device("cuda"):
            down = torch.nn.Parameter(torch.randn(count, width, rank, dtype=torch.bfloat16) * 0.03)
            up = torch.nn.Parameter(torch.randn(count, rank, width, dtype=torch.bfloat16) * 0.03)
            x = torch.randn(count, rows, width, dtype=torch.bfloat16)
        precise(torch, "bf16")

        def step():
            if batched:
                y = torch.bmm(torch.bmm(x, down), up)
            else:
                y = torch.stack([one @ a @ b for one, a, b in zip(x.unbind(), down.unbind(), up.unbind())])
            torch.autograd.grad(y.float().square().mean(), (down, up))
        return step

    def gan(torch, precision="tf32", batch=256, width=128):
        nn, functional = torch.nn, torch.nn.functional
        norm = nn.utils.parametrizations.spectral_norm
        precise(torch, precision)
        critic = nn.Sequential(
            norm(nn.Conv2d(3, width, 3, 1, 1)), nn.LeakyReLU(0.1), norm(nn.Conv2d(width, width, 4, 2, 1)), nn.LeakyReLU(0.1),
            norm(nn.Conv2d(width, 2 * width, 3, 1, 1)), nn.LeakyReLU(0.1), norm(nn.Conv2d(2 * width, 2 * width, 4, 2, 1)),
            nn.LeakyReLU(0.1), norm(nn.Conv2d(2 * width, 4 * width, 3, 1, 1)), nn.LeakyReLU(0.1), nn.Flatten(),
            nn.Linear(4 * width * 256, 1)).cuda()
        generator = nn.Sequential(
            nn.Linear(128, 4 * width * 256), nn.Unflatten(1, (4 * width, 16, 16)), nn.Upsample(scale_factor=2),
            nn.Conv2d(4 * width, 2 * width, 3, 1, 1), nn.BatchNorm2d(2 * width), nn.ReLU(), nn.Upsample(scale_factor=2),
            nn.Conv2d(2 * width, width, 3, 1, 1), nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, 3, 3, 1, 1), nn.Tanh()).cuda()
        of_critic = torch.optim.Adam(critic.parameters(), lr=1e-4, fused=True)
        of_generator = torch.optim.Adam(generator.parameters(), lr=1e-4, fused=True)
        real, noise = torch.randn(batch, 3, 64, 64, device="cuda"), torch.randn(batch, 128, device="cuda")

        def step():
            fake = generator(noise)
            of_critic.zero_grad(set_to_none=True)
            (functional.relu(1 - critic(real)).mean() + functional.relu(1 + critic(fake.detach())).mean()).backward()
            of_critic.step()
            of_generator.zero_grad(set_to_none=True)
            (-critic(fake).mean()).backward()
            of_generator.step()
        return step

    def graph(torch, select=True, nodes=100000, edges=1000000, width=128):
        """Messages along edges: rows of nodes by advanced indexing, whose gradient sorts, or by index_select."""
        nn = torch.nn
        with torch.device("cuda"):
            source, target = torch.randint(nodes, (edges,)), torch.randint(nodes, (edges,))
            layers = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
            x = torch.randn(nodes, width)

        def loss_of(net):
            h = x
            for layer in net:
                h = torch.relu(layer(h))
                message = h.index_select(0, source) if select else h[source]
                h = torch.zeros_like(h).index_add_(0, target, message)
            return h.square().mean()
        return training(torch, layers, loss_of, "tf32")

    def scan(torch, cast=True, compiled=False, batch=8, positions=1024, width=1024, layers=6, vocab=32000):
        """A language model of gated linear recurrences, whose scan is a cumulative sum."""
        nn, functional = torch.nn, torch.nn.functional

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.LayerNorm(width)
                self.enter, self.leave = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)

            def forward(self, x):
                keep, bring, gate = self.enter(self.norm(x)).chunk(3, -1)
                logs = functional.logsigmoid(keep.float() + 4.0).cumsum(1).clamp(min=-30.0)
                h = torch.exp(logs) * torch.cumsum(torch.exp(-logs) * bring.float(), 1)
                return x + self.leave((h * functional.silu(gate.float())).to(x.dtype))

        class Scan(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed, self.head = nn.Embedding(vocab, width), nn.Linear(width, vocab, bias=False)
                self.blocks = nn.ModuleList(Block() for _ in range(layers))

            def forward(self, ids):
                x = self.embed(ids)
                for block in self.blocks:
                    x = block(x)
                return self.head(x)
        with torch.device("cuda"):
            model, ids = Scan(), torch.randint(vocab, (batch, positions))

        def loss_of(net):
            logits = net(ids).flatten(0, 1)
            return functional.cross_entropy(logits.float() if cast else logits, ids.flatten())
        return training(torch, model, loss_of, "pure", compiled=compiled)

    def cross(torch, attention="sdpa", precision="bf16", batch=8, side=64, width=320, layers=4):
        """Blocks of a latent diffusion model: attention to itself and to words."""
        nn, functional = torch.nn, torch.nn.functional

        def attend(*of):
            q, k, v = (t.unflatten(-1, (-1, 64)).transpose(1, 2) for t in of)
            if attention == "sdpa":
                y = functional.scaled_dot_product_attention(q, k, v)
            else:
                y = torch.softmax(q @ k.transpose(-2, -1) * 0.125, -1) @ v
            return y.transpose(1, 2).flatten(2)

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm, self.conv = nn.GroupNorm(32, width), nn.Conv2d(width, width, 3, padding=1)
                self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
                self.qkv, self.out, self.q = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Linear(width, width)
                self.kv, self.out2 = nn.Linear(768, 2 * width), nn.Linear(width, width)
                self.up, self.down = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

            def forward(self, x, text):
                x = x + self.conv(functional.silu(self.norm(x)))
                y = x.flatten(2).transpose(1, 2)
                y = y + self.out(attend(*self.qkv(self.norms[0](y)).chunk(3, -1)))
                y = y + self.out2(attend(self.q(self.norms[1](y)), *self.kv(text).chunk(2, -1)))
                a, b = self.up(self.norms[2](y)).chunk(2, -1)
                return (y + self.down(a * functional.gelu(b))).transpose(1, 2).reshape(x.shape)

        class Cross(nn.Module):
            def __init__(self):
                super().__init__()
                self.blocks = nn.ModuleList(Block() for _ in range(layers))

            def forward(self, x, text):
                for block in self.blocks:
                    x = block(x, text)
                return x
        with torch.device("cuda"):
            model, x, text = Cross(), torch.randn(batch, width, side, side), torch.randn(batch, 77, 768)
        return training(torch, model, lambda net: net(x, text).float().square().mean(), precision)

    def products(torch, rows=1408, width=8192, out=1536, layers=24):
        """Products whose blocks fill the card once, or little more than once."""
        class Beside(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = torch.nn.ModuleList(torch.nn.Linear(width, out, bias=False) for _ in range(layers))

            def forward(self, x):
                for layer in self.layers:
                    layer(x)
        with torch.device("cuda"), torch.no_grad():
            model, x = Beside().to(torch.bfloat16), torch.randn(rows, width, dtype=torch.bfloat16)
        return inference(torch, model, x)

    # ---- done well ----

    def decoding(torch, width=8192, layers=8, batch=8):
        """One token: each weight is read once."""
        with torch.device("cuda"), torch.no_grad():
            model = torch.nn.Sequential(*(torch.nn.Linear(width, width, bias=False) for _ in range(layers))).to(torch.bfloat16)
            x = torch.randn(batch, width, dtype=torch.bfloat16)
        return inference(torch, model, x)

    def film_plain(torch, batch=8, channels=128, layers=6):
        with torch.device("cuda"):
            model = torch.nn.Sequential(*(torch.nn.Conv3d(channels, channels, 3, padding=1, bias=False) for _ in range(layers)))
            model = model.to(memory_format=torch.channels_last_3d)
            x = torch.randn(batch, channels, 8, 56, 56, dtype=torch.bfloat16).to(memory_format=torch.channels_last_3d)
        return training(torch, model, lambda net: net(x).sum(), "pure", "sgd")

    def rows(torch, count=64, size=1 << 25):
        """One pass over a large tensor for each kernel."""
        x = torch.randn(size, device="cuda", dtype=torch.bfloat16)
        out = torch.empty_like(x)

        def step():
            for _ in range(count):
                torch.exp(x, out=out)
        return step

    return {one.__name__: one for one in (segmentation, convnext, film, efficientnet, bart, whisper, wave, towers, words, adapters,
                                          gan, graph, scan, cross, products, decoding, film_plain, rows)}
