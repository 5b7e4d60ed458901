"""GPT-2 of transformers learns under autocast. Its activation is the default, gelu_new, which is written out, or PyTorch's function
of the same values.

gelu.py [library]
"""
import sys

import torch
import transformers

from steps import device, profiler, size, steps

gpu = device()
kind = "gelu_pytorch_tanh" if "library" in sys.argv else "gelu_new"
config = transformers.GPT2Config(n_layer=size(8, 2), n_embd=size(768, 24), n_positions=size(512, 16), vocab_size=size(16384, 128),
                                 bos_token_id=0, eos_token_id=0, activation_function=kind, resid_pdrop=0.0, embd_pdrop=0.0,
                                 attn_pdrop=0.0, use_cache=False)
model = transformers.GPT2LMHeadModel(config).to(gpu).train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
ids = torch.randint(config.vocab_size, (size(16, 2), config.n_positions), device=gpu)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(36, 16)):
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
