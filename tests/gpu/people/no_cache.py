"""GPT-2 of transformers answers prompts of 512 tokens with 8 tokens, without a cache of keys and values, or with one.

no_cache.py [cache]
"""
import sys

import torch
import transformers

from steps import device, size, steps

gpu = device()
config = transformers.GPT2Config(n_layer=size(8, 2), n_embd=size(2048, 32), n_head=size(16, 2))
with gpu:
    model = transformers.GPT2LMHeadModel(config)
model = model.to(gpu, torch.bfloat16).eval()
prompt = torch.randint(50000, (size(12, 2), size(512, 16)), device=gpu)
for i in steps(size(18, 8)):
    with torch.inference_mode():
        answer = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=size(8, 3), do_sample=False,
                                use_cache="cache" in sys.argv, pad_token_id=50256, eos_token_id=None)
print(answer.shape)
