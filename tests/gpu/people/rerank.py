"""Llama's layers score short answers to a question. Its weights are in fp32 under autocast, or in bf16.

rerank.py [half]
"""
import sys

import torch
import transformers

from steps import device, profiler, size, steps

gpu = device()
half = "half" in sys.argv
config = transformers.LlamaConfig(hidden_size=size(4096, 32), intermediate_size=size(14336, 64), num_hidden_layers=size(8, 2),
                                  num_attention_heads=size(32, 2), num_key_value_heads=size(8, 2), vocab_size=size(32000, 100),
                                  use_cache=False)
with gpu:
    model, score = transformers.LlamaModel(config).eval(), torch.nn.Linear(config.hidden_size, 1)
if half:
    model, score = model.to(torch.bfloat16), score.to(torch.bfloat16)
ids = torch.randint(config.vocab_size, (size(16, 2), size(48, 8)), device=gpu)
best = []
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(60, 16)):
        with torch.inference_mode(), torch.autocast(gpu.type, dtype=torch.bfloat16, enabled=not half):
            last = model(input_ids=ids).last_hidden_state[:, -1]
            best.append(score(last).squeeze(1).topk(2).indices)
        profile.step()
