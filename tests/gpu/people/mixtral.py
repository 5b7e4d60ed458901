"""transformers: Mixtral is trained with its loop over experts, or with one grouped product for all.

mixtral.py [grouped]
"""
import sys

import torch
from transformers import MixtralConfig, MixtralForCausalLM

from steps import device, profiler, size, steps

gpu = device()
config = MixtralConfig(hidden_size=size(1024, 32), intermediate_size=size(1792, 64), num_hidden_layers=size(6, 2),
                       num_attention_heads=size(16, 2), num_key_value_heads=size(8, 1), num_local_experts=size(32, 4),
                       num_experts_per_tok=2, vocab_size=size(32000, 100), output_router_logits=False,
                       experts_implementation="grouped_mm" if "grouped" in sys.argv else "eager")
model = MixtralForCausalLM(config).to(gpu, torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=gpu.type == "cuda")
tokens = torch.randint(config.vocab_size, (size(4, 1), size(1024, 16)), device=gpu)
with profiler(active=3) as profile:
    for i in steps(size(32, 4)):
        loss = model(tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
