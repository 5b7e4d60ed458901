"""transformers: a classifier reads texts one by one, as a web service does, or all of them as one batch.

one_text.py [batch]
"""
import sys

import torch
from transformers import BertConfig, BertForSequenceClassification

from steps import device, profiler, size, steps

gpu = device()
config = BertConfig(vocab_size=size(30522, 100), hidden_size=size(768, 16), num_hidden_layers=size(12, 2),
                    num_attention_heads=size(12, 2), intermediate_size=size(3072, 32))
model = BertForSequenceClassification(config).to(gpu, torch.bfloat16).eval()
texts = torch.randint(config.vocab_size, (size(16, 2), size(64, 8)), device=gpu)
with torch.no_grad(), profiler() as profile:
    for _ in steps(size(40, 8)):
        if "batch" in sys.argv:
            model(input_ids=texts)
        else:
            for text in texts:
                model(input_ids=text[None])
        profile.step()
