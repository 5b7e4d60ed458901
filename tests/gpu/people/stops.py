"""GPT-2 of transformers writes 48 tokens for 64 prompts; the program looks after each token whether all are done, or each 16th.

stops.py [seldom]
"""
import sys

import torch
import transformers

from steps import device, size, steps

gpu = device()
config = transformers.GPT2Config(n_layer=size(6, 1), n_embd=size(768, 32), n_head=size(12, 2))
model = transformers.GPT2LMHeadModel(config).to(gpu, torch.bfloat16).eval()
every, end = 16 if "seldom" in sys.argv else 1, 50256
prompts = torch.randint(50000, (size(64, 2), size(64, 4)), device=gpu)


def write(prompts, longest):
    cache, token, text = None, prompts, []
    done = torch.zeros(len(prompts), dtype=torch.bool, device=gpu)
    for i in range(longest):
        said = model(token, past_key_values=cache, use_cache=True)
        cache, token = said.past_key_values, said.logits[:, -1:].argmax(-1)
        done |= token[:, 0] == end
        text.append(token)
        if i % every == every - 1 and done.all().item():
            break
    return torch.cat(text, 1)


with torch.no_grad():
    for i in steps(size(12, 8)):
        text = write(prompts, size(48, 4))
print(text.shape)
