"""transformers: Llama is trained in bf16 by single operations, or compiled.

llama.py [compiled]
"""
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from steps import device, profiler, size, steps

gpu = device()
config = LlamaConfig(hidden_size=size(1024, 32), intermediate_size=size(2816, 64), num_hidden_layers=size(12, 2),
                     num_attention_heads=size(16, 2), num_key_value_heads=size(8, 1), vocab_size=size(32000, 100))
model = LlamaForCausalLM(config).to(gpu, torch.bfloat16)
if "compiled" in sys.argv:
    model.compile()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=gpu.type == "cuda")
tokens = torch.randint(config.vocab_size, (size(8, 1), size(2048, 16)), device=gpu)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(32, 4)):
        loss = model(tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
