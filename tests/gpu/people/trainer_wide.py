"""transformers' Trainer teaches a small GPT-2, as its arguments are by default, or with bf16=True.

trainer_wide.py [bf16]
"""
import sys
import tempfile

import torch
import transformers

from steps import Watch, size

transformers.logging.set_verbosity_error()
config = transformers.GPT2Config(n_embd=size(1024, 32), n_layer=size(8, 2), n_head=size(16, 2), n_positions=512, vocab_size=32000)
model = transformers.GPT2LMHeadModel(config)
watch = Watch(size(36, 8))


class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 14

    def __getitem__(self, index):
        text = torch.randint(1, 32000, (size(512, 8),))
        return {"input_ids": text, "labels": text}


class Each(transformers.TrainerCallback):
    def on_step_end(self, *_, **__):
        watch.step()


with tempfile.TemporaryDirectory() as folder:
    settings = transformers.TrainingArguments(
        folder, per_device_train_batch_size=size(16, 2), max_steps=watch.count, report_to=[], save_strategy="no",
        logging_steps=10, bf16="bf16" in sys.argv and torch.cuda.is_available(), tf32=False if torch.cuda.is_available() else None,
        disable_tqdm=True)
    transformers.Trainer(model=model, args=settings, train_dataset=Texts(), callbacks=[Each()]).train()
