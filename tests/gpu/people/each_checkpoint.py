"""Lightning: ModelCheckpoint saves the state after every second step, or at the end.

each_checkpoint.py [end]
"""
import logging
import sys
import tempfile
import warnings

import pytorch_lightning as pl
import torch
import torchvision

from steps import Watch, on_gpu, size

logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
warnings.filterwarnings("ignore")
watch = Watch(size(60, 8))
seldom = 1000 if "end" in sys.argv else 2


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torchvision.models.resnet50(num_classes=100)

    def training_step(self, batch, _):
        x, y = batch
        loss = torch.nn.functional.cross_entropy(self.net(x), y)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class Each(pl.Callback):
    def on_train_batch_end(self, *_):
        watch.step()


side = size(160, 32)
data = torch.utils.data.TensorDataset(torch.rand(1024, 3, side, side), torch.randint(100, (1024,)))
loader = torch.utils.data.DataLoader(data, batch_size=size(64, 2), num_workers=4, persistent_workers=True, pin_memory=on_gpu())
with tempfile.TemporaryDirectory() as folder:
    saves = pl.callbacks.ModelCheckpoint(folder, every_n_train_steps=seldom, save_top_k=-1)
    trainer = pl.Trainer(max_steps=watch.count, accelerator="gpu" if on_gpu() else "cpu", devices=1, logger=False,
                         precision="bf16-mixed" if on_gpu() else "32-true", callbacks=[Each(), saves],
                         enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Net(), loader)
