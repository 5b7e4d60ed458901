"""Lightning: a net learns; five metrics of each step are logged for the progress bar, or the loss of each fiftieth step.

bars.py [seldom]
"""
import logging
import sys
import warnings

import pytorch_lightning as pl
import torch
from torch import nn

from steps import Watch, on_gpu, size

logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
warnings.filterwarnings("ignore")
watch = Watch(size(150, 8))
often = "seldom" not in sys.argv


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        width = size(512, 16)
        self.net = nn.Sequential(nn.Linear(64, width), *[m for _ in range(size(12, 2)) for m in (nn.Linear(width, width), nn.ReLU())],
                                 nn.Linear(width, 10))

    def training_step(self, batch, number):
        x, y = batch
        scores = self.net(x)
        loss = nn.functional.cross_entropy(scores, y)
        if often:
            guess = scores.argmax(1)
            self.log_dict({"loss": loss, "right": (guess == y).float().mean(), "sure": scores.softmax(1).amax(1).mean(),
                           "spread": scores.std(), "zeros": (guess == 0).float().mean()}, prog_bar=True)
        elif number % 50 == 0:
            self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=on_gpu())


class Each(pl.Callback):
    def on_train_batch_end(self, *_):
        watch.step()


gpu = torch.device("cuda" if on_gpu() else "cpu")
data = [(torch.randn(1024, 64).to(gpu), torch.randint(10, (1024,)).to(gpu)) for _ in range(8)] * size(20, 1)
trainer = pl.Trainer(max_steps=watch.count, accelerator="gpu" if on_gpu() else "cpu", devices=1, logger=False,
                     callbacks=[Each()], enable_checkpointing=False, enable_model_summary=False)
trainer.fit(Net(), torch.utils.data.DataLoader(data, batch_size=None))
