"""GPT-2 of transformers with checkpoints of activations, under torch.profiler with shapes."""
import torch
import transformers

from steps import device, profiler, size, steps

gpu = device()
model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=size(12, 2), use_cache=False)).to(gpu)
model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
ids = torch.randint(50000, (size(4, 1), size(256, 8)), device=gpu)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(40, 14)):
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        profile.step()
