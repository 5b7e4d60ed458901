"""Lightning: a forecast of 16 quantiles, whose losses the progress bar shows after each step, or after each fiftieth.

quantiles.py [seldom]
"""
import logging
import sys
import warnings

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import TQDMProgressBar
from torch import nn

from steps import Watch, device, on_gpu, size

logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
warnings.filterwarnings("ignore")
width, wanted = size(4096, 32), [(i + 1) / 17 for i in range(16)]
watch = Watch(size(45, 8))


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        layers = [m for _ in range(size(8, 2)) for m in (nn.Linear(width, width), nn.ReLU())]
        self.body = nn.Sequential(*layers, nn.Linear(width, len(wanted)))

    def training_step(self, batch, _):
        x, y = batch
        error = y - self.body(x)
        losses = [torch.max(share * error[:, i], (share - 1) * error[:, i]).mean() for i, share in enumerate(wanted)]
        for share, loss in zip(wanted, losses):
            self.log(f"loss_{share:.2f}", loss, prog_bar=True)
        return torch.stack(losses).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.001)


class Each(pl.Callback):
    def on_train_batch_end(self, *_):
        watch.step()


class Batches:
    """The same rows in each step; they are on the device."""

    def __init__(self):
        self.x = torch.randn(size(8192, 8), width, device=device())
        self.y = self.x.sum(1, keepdim=True)

    def __len__(self):
        return watch.count

    def __iter__(self):
        return iter([(self.x, self.y)] * watch.count)


bar = TQDMProgressBar(refresh_rate=50 if "seldom" in sys.argv else 1)
trainer = pl.Trainer(max_steps=watch.count, accelerator="gpu" if on_gpu() else "cpu", devices=1, logger=False,
                     precision="bf16-mixed", callbacks=[Each(), bar], enable_checkpointing=False, enable_model_summary=False)
trainer.fit(Net(), Batches())
