"""Lightning: DenseNet finds 14 diseases in X-rays on all GPUs. Three numbers of each disease are logged in each step with
sync_dist=True, or as each rank's own.

xrays.py [own]
"""
import logging
import sys
import warnings

import pytorch_lightning as pl
import torch
import torchvision

from steps import RANKS, Watch, device, on_gpu, size

logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
warnings.filterwarnings("ignore")
diseases = 14
watch = Watch(size(45, 8))


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.body = torchvision.models.densenet121(num_classes=diseases).to(memory_format=torch.channels_last)

    def training_step(self, batch, _):
        x, y = batch
        scores = self.body(x).float()
        found = scores.detach() > 0
        for one in range(diseases):
            numbers = {"right": found[:, one] == (y[:, one] > 0), "found": found[:, one], "score": scores[:, one].detach()}
            for name, number in numbers.items():
                self.log(f"{name}_{one}", number.float().mean(), sync_dist="own" not in sys.argv)
        return torch.nn.functional.binary_cross_entropy_with_logits(scores, y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-4)


class Each(pl.Callback):
    def on_train_batch_end(self, *_):
        watch.step()


class Batches:
    """The same pictures in each step; they are on the device."""

    def __init__(self):
        gpu, side = device(), size(224, 32)
        self.x = torch.randn(size(64, 2), 3, side, side, device=gpu).to(memory_format=torch.channels_last)
        self.y = torch.randint(2, (len(self.x), diseases), device=gpu).float()

    def __len__(self):
        return watch.count

    def __iter__(self):
        return iter([(self.x, self.y)] * watch.count)


trainer = pl.Trainer(max_steps=watch.count, accelerator="gpu" if on_gpu() else "cpu", devices=RANKS, logger=False,
                     strategy="ddp" if RANKS > 1 else "auto", precision="bf16-mixed", callbacks=[Each()],
                     enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Net(), Batches())
