"""Lightning: ResNet-50; the recall of each class is logged each step as a number, or as a tensor that stays on the device.

recalls.py [tensors]
"""
import logging
import sys
import warnings

import pytorch_lightning as pl
import torch
import torchvision

from steps import Watch, device, on_gpu, size

logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
warnings.filterwarnings("ignore")
tensors = "tensors" in sys.argv
classes = 40
watch = Watch(size(45, 8))


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.body = torchvision.models.resnet50(num_classes=classes).to(memory_format=torch.channels_last)

    def training_step(self, batch, _):
        x, y = batch
        scores = self.body(x)
        found = scores.argmax(1)
        for one in range(classes):
            wanted = y == one
            recall = ((found == one) & wanted).sum() / wanted.sum().clamp(min=1)
            self.log(f"recall_{one}", recall if tensors else recall.item())
        return torch.nn.functional.cross_entropy(scores, y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.9)


class Each(pl.Callback):
    def on_train_batch_end(self, *_):
        watch.step()


class Batches:
    """The same pictures in each step; they are on the device."""

    def __init__(self):
        gpu, side = device(), size(224, 32)
        self.x = torch.randn(size(96, 2), 3, side, side, device=gpu).to(memory_format=torch.channels_last)
        self.y = torch.randint(classes, (len(self.x),), device=gpu)

    def __len__(self):
        return watch.count

    def __iter__(self):
        return iter([(self.x, self.y)] * watch.count)


trainer = pl.Trainer(max_steps=watch.count, accelerator="gpu" if on_gpu() else "cpu", devices=1, logger=False,
                     precision="bf16-mixed", callbacks=[Each()], enable_checkpointing=False, enable_progress_bar=False,
                     enable_model_summary=False)
trainer.fit(Net(), Batches())
