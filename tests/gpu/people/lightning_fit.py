"""Lightning: a small autoencoder with logging of each step and a progress bar."""
import logging
import warnings

import pytorch_lightning as pl
import torch
from torch import nn

from steps import RANKS, Watch, on_gpu, size

logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
warnings.filterwarnings("ignore")
watch = Watch(size(80, 8))


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Conv2d(1, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(),
                                    nn.Flatten(), nn.Linear(64 * 49, 64))
        self.decode = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 784))

    def training_step(self, batch, _):
        x, _ = batch
        loss = nn.functional.mse_loss(self.decode(self.encode(x)), x.flatten(1))
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


class Each(pl.Callback):
    def on_train_batch_end(self, *_):
        watch.step()


data = torch.utils.data.TensorDataset(torch.rand(60000, 1, 28, 28), torch.zeros(60000))
loader = torch.utils.data.DataLoader(data, batch_size=128, shuffle=True, num_workers=2)
trainer = pl.Trainer(max_steps=watch.count, accelerator="gpu" if on_gpu() else "cpu", devices=RANKS, logger=False,
                     strategy="ddp" if RANKS > 1 else "auto", callbacks=[Each()], enable_checkpointing=False,
                     enable_model_summary=False)
trainer.fit(Net(), loader)
