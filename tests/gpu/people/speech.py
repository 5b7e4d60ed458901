"""Whisper's encoder of transformers hears half a minute for each of 16 recordings, in fp32 or in fp16.

speech.py [half]
"""
import sys

import torch
import transformers

from steps import device, on_gpu, profiler, size, steps

gpu = device()
kind = torch.float32 if "half" not in sys.argv else torch.float16 if on_gpu() else torch.bfloat16
config = transformers.WhisperConfig(d_model=size(768, 32), encoder_layers=size(8, 2), encoder_attention_heads=size(12, 2),
                                    encoder_ffn_dim=size(3072, 64), decoder_layers=1, decoder_attention_heads=size(12, 2),
                                    decoder_ffn_dim=64, max_source_positions=size(1500, 16))
with gpu:
    model = transformers.WhisperModel(config)
hear = model.encoder.to(gpu, kind).eval()
sound = torch.randn(size(16, 2), config.num_mel_bins, 2 * config.max_source_positions, device=gpu, dtype=kind)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(36, 16)):
        with torch.no_grad():
            heard = hear(sound).last_hidden_state
        profile.step()
print(heard.shape)
