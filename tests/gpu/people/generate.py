"""GPT-2 writes 32 tokens with sampling; a step is an answer."""
import torch
import transformers

from steps import device, size, steps

gpu = device()
model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=size(12, 2))).to(gpu).eval()
for i in steps(size(12, 8)):
    ids = torch.randint(50000, (4, 32)).to(gpu)
    with torch.inference_mode(), torch.autocast(gpu.type, dtype=torch.bfloat16):
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=size(32, 3), do_sample=True, top_k=50,
                             pad_token_id=50256, eos_token_id=None)
print(out.shape)
