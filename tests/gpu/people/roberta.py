"""RoBERTa of transformers in bf16 learns to sort texts of 512 words, with transformers' eager attention or PyTorch's.

roberta.py [sdpa]
"""
import sys

import torch
import transformers

from steps import device, profiler, size, steps

gpu = device()
attention = "sdpa" if "sdpa" in sys.argv else "eager"
config = transformers.RobertaConfig(hidden_size=size(768, 32), num_hidden_layers=size(10, 2), num_attention_heads=size(12, 2),
                                    intermediate_size=size(3072, 64), vocab_size=size(50304, 500),
                                    max_position_embeddings=size(520, 32), num_labels=6)
with gpu:
    model = transformers.AutoModelForSequenceClassification.from_config(config, attn_implementation=attention)
model = model.to(gpu, torch.bfloat16).train()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
ids = torch.randint(5, config.vocab_size, (size(24, 2), size(512, 16)), device=gpu)
labels = torch.randint(6, (len(ids),), device=gpu)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(40, 16)):
        loss = model(input_ids=ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
