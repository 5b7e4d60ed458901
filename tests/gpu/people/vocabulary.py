"""Llama in bf16 with a large vocabulary: the loss of transformers, which widens the scores to fp32, or of the scores in bf16.

vocabulary.py [narrow]
"""
import sys

import torch
import transformers

from steps import device, profiler, size, steps

gpu = device()
narrow = "narrow" in sys.argv
config = transformers.LlamaConfig(hidden_size=size(2048, 32), intermediate_size=size(5632, 64), num_hidden_layers=size(4, 2),
                                  num_attention_heads=size(32, 2), num_key_value_heads=size(8, 2),
                                  vocab_size=size(128256, 500), use_cache=False)
with gpu:
    model = transformers.LlamaForCausalLM(config)
model = model.to(gpu, torch.bfloat16).train()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
ids = torch.randint(config.vocab_size, (size(8, 1), size(1024, 8)), device=gpu)
following = torch.nn.functional.pad(ids[:, 1:], (0, 1), value=-100)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(32, 16)):
        if narrow:
            scores = model(input_ids=ids).logits
            loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), following.flatten())
        else:
            loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
