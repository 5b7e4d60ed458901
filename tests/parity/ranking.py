"""The ranking transformer and one training step of it in PyTorch: what `aorta train` must compute.

Shapes: dense [batch, positions, features, width of a feature], categorical [batch, positions, sparse features] (ids),
target and importance [batch, positions]; scores [batch, positions].
"""
import torch
from torch import nn
from torch.nn import functional


class Ranking(nn.Module):
    """`model` is the section of that name of a configuration. The attributes' names are the parameters' names."""

    def __init__(self, model):
        super().__init__()
        width, hidden, dropout = model["model_dim"], model["mlp_hidden_dim"], model.get("dropout", 0.1)
        self.embedding = nn.Embedding(model["vocab_size"], model["embedding_dim"])
        self.dense_projection = nn.Linear(model["num_dense_features"] * model["dense_dim"], width)
        self.embedding_projection = nn.Linear(model["embedding_dim"], width)
        block = nn.TransformerEncoderLayer(d_model=width, nhead=model["num_heads"], dim_feedforward=hidden,
                                           dropout=dropout, activation="gelu", batch_first=True, norm_first=False)
        self.encoder = nn.TransformerEncoder(block, model["num_layers"], enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.scorer = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden, 1))

    def forward(self, dense, categorical):
        sparse = self.embedding(categorical).mean(dim=2)
        x = self.dense_projection(dense.flatten(start_dim=2)) + self.embedding_projection(sparse)
        return self.scorer(self.norm(self.encoder(x))).squeeze(dim=-1)


def loss_of(model, batch):
    """Binary cross-entropy per position, weighted by importance; the mean over all positions."""
    scores = model(batch["dense"], batch["categorical"])
    return functional.binary_cross_entropy_with_logits(scores, batch["target"], weight=batch["importance"])


def learning_rate(config, step):
    """The learning rate of step `step`, from 0 on: rises linearly over warmup_steps, then falls linearly to 0 at total_steps."""
    peak = config.get("optimizer", {}).get("lr", 2e-4)
    schedule = config.get("scheduler", {})
    warmup, total = schedule.get("warmup_steps", 200), schedule.get("total_steps", 2000)
    if total <= 0:
        return peak
    if step < warmup:
        return peak * (step + 1) / warmup
    if step >= total:
        return 0.0
    return peak * (total - step) / (total - warmup)


def adamw(config, parameters, **options):
    settings = config.get("optimizer", {})
    return torch.optim.AdamW(parameters, lr=settings.get("lr", 2e-4), betas=tuple(settings.get("betas", (0.9, 0.98))),
                             eps=settings.get("eps", 1e-8), weight_decay=settings.get("weight_decay", 1e-2), **options)


def update(config, model, optimizer, step):
    """Clips the gradients in place and takes one optimizer step; the norm before clipping."""
    clip = config["training"].get("grad_clip_norm", 1.0)
    norm = nn.utils.clip_grad_norm_(model.parameters(), clip if clip and clip > 0 else float("inf"))
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(config, step)
    optimizer.step()
    return float(norm)


def as_tensors(arrays):
    """Arrays of a dump as float64 and int64 tensors."""
    return {name: torch.from_numpy(array.astype("f8" if array.dtype.kind == "f" else "i8"))
            for name, array in arrays.items()}
