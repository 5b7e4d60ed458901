"""Pictures are made from texts in latent steps. The encoder of texts and the decoder of latents go to the device for their turn and
back to the host, to save memory, or stay on the device.

swapped.py [resident]
"""
import sys

import torch
import transformers
from torch import nn

from steps import device, size, steps

gpu = device()
kind = size(torch.bfloat16, torch.float32)
resident = "resident" in sys.argv
batch, side, width, words, text_width = size(16, 1), size(32, 4), size(1024, 32), size(49408, 100), size(384, 16)
config = transformers.CLIPTextConfig(vocab_size=words, hidden_size=text_width, intermediate_size=4 * text_width,
                                     num_hidden_layers=size(6, 2), num_attention_heads=size(6, 2))
encoder = transformers.CLIPTextModel(config).to(kind).eval()


def larger(inner, outer):
    return [nn.Upsample(scale_factor=2), nn.Conv2d(inner, outer, 3, padding=1), nn.GroupNorm(8, outer), nn.SiLU()]


decoder = nn.Sequential(nn.Conv2d(4, 256, 3, padding=1), *larger(256, 256), *larger(256, 128), *larger(128, 64),
                        nn.Conv2d(64, 3, 3, padding=1)).to(kind)
layer = nn.TransformerDecoderLayer(width, size(16, 2), 4 * width, dropout=0.0, batch_first=True, norm_first=True)
denoiser = nn.ModuleDict({"enter": nn.Linear(16, width), "text": nn.Linear(text_width, width), "leave": nn.Linear(width, 16),
                          "body": nn.TransformerDecoder(layer, size(6, 2))}).to(gpu, kind)
if resident:
    encoder, decoder = encoder.to(gpu), decoder.to(gpu)


def use(module, *inputs):
    out = module.to(gpu)(*inputs)
    if not resident:
        module.to("cpu")
    return out


prompt = torch.randint(words - 2, (batch, 77), device=gpu)
for i in steps(size(40, 8)):
    with torch.no_grad():
        text = denoiser["text"](use(encoder, prompt).last_hidden_state)
        x = torch.randn(batch, side * side // 4, 16, device=gpu, dtype=kind)
        for _ in range(size(16, 2)):
            x = x - 0.1 * denoiser["leave"](denoiser["body"](denoiser["enter"](x), text))
        latents = nn.functional.pixel_shuffle(x.transpose(1, 2).unflatten(2, (side // 2, side // 2)), 2)
        pictures = use(decoder, latents)
print(tuple(pictures.shape))
