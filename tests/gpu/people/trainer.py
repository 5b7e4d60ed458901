"""transformers' Trainer fine-tunes a small BERT; batches are padded by its collator."""
import random
import tempfile

import torch
import transformers

from steps import Watch, on_gpu, size

transformers.logging.set_verbosity_error()
config = transformers.BertConfig(hidden_size=size(512, 32), num_hidden_layers=size(8, 2), num_attention_heads=8,
                                 intermediate_size=size(2048, 64))
model = transformers.BertForSequenceClassification(config)
watch = Watch(size(40, 8))


class Sentences(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 14

    def __getitem__(self, index):
        length = 96 + random.randrange(2) * 32
        ids = torch.zeros(128, dtype=torch.long)
        ids[:length] = torch.randint(1, 30000, (length,))
        return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": index % 2}


class Each(transformers.TrainerCallback):
    def on_step_end(self, *_, **__):
        watch.step()


with tempfile.TemporaryDirectory() as folder:
    settings = transformers.TrainingArguments(
        folder, per_device_train_batch_size=16, max_steps=watch.count, report_to=[], save_strategy="no", logging_steps=5,
        bf16=on_gpu(), disable_tqdm=True, dataloader_num_workers=2)
    transformers.Trainer(model=model, args=settings, train_dataset=Sentences(), callbacks=[Each()]).train()
