"""transformers' Trainer teaches BERT to tag words. A step has four batches of 12 texts, whose gradients are accumulated as for a
small GPU, or one batch of 48.

small_batches.py [one]
"""
import sys
import tempfile

import torch
import transformers

from steps import Watch, on_gpu, size

transformers.logging.set_verbosity_error()
parts = 1 if "one" in sys.argv else 4
config = transformers.BertConfig(hidden_size=size(768, 32), num_hidden_layers=size(8, 2), num_attention_heads=size(12, 2),
                                 intermediate_size=size(3072, 64), vocab_size=size(30528, 200), num_labels=9)
model = transformers.BertForTokenClassification(config)
watch = Watch(size(40, 8))
length, batch = size(256, 16), size(48, 4)


class Texts(torch.utils.data.Dataset):
    def __init__(self):
        self.ids = torch.randint(1, config.vocab_size, (1024, length))
        self.tags = torch.randint(9, (1024, length))

    def __len__(self):
        return watch.count * batch

    def __getitem__(self, index):
        row = index % len(self.ids)
        return {"input_ids": self.ids[row], "labels": self.tags[row]}


class Each(transformers.TrainerCallback):
    def on_step_end(self, *_, **__):
        watch.step()


with tempfile.TemporaryDirectory() as folder:
    settings = transformers.TrainingArguments(
        folder, per_device_train_batch_size=batch // parts, gradient_accumulation_steps=parts, max_steps=watch.count,
        report_to=[], save_strategy="no", logging_steps=1000, logging_nan_inf_filter=False, bf16=on_gpu(), disable_tqdm=True)
    transformers.Trainer(model=model, args=settings, train_dataset=Texts(), callbacks=[Each()]).train()
