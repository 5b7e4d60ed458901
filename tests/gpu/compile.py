#!/usr/bin/env python3
"""What torch.compile saves in training steps of known networks, and what the verdict on the step without it predicts.

    compile.py [OUT] --aorta BIN [--only NAME ...]   on a machine with one GPU, about five minutes
    compile.py OUT --aorta BIN --check               anywhere

A process per network compiles. When all are ready, each in turn times both forms (median of blocks of steps) and records three
steps of each with torch.profiler. OUT ($OUT, else /tmp/aorta-compile) gets compile-1.tar.xz …, which have NAME/times.json,
NAME/eager.json and NAME/compiled.json. "Pointwise" is the time of kernels in a step that are no products, convolutions or
attention. --check analyses the recordings again.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from runs import Started, last_lines, pack, read_json, unpack, write_json

NAMES = ("llama", "llama_long", "gpt2", "bert", "t5", "vit", "swin", "convnext", "resnet")
FORMS = ("eager", "compiled")
READY_SECONDS, TURN_SECONDS = 330, 60
STEPS = 3  # recorded


# ---- the networks ----

def language_model(name):
    """(model, arguments of a call) of transformers."""
    import torch
    import transformers as t
    ids = torch.randint(1, 30000, (8, 2048 if name == "llama_long" else 1024), device="cuda")
    part = ids[:, :512].contiguous()
    if name.startswith("llama"):
        config = t.LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=12, num_attention_heads=16,
                               num_key_value_heads=8, vocab_size=32000)
        return t.LlamaForCausalLM(config).to(torch.bfloat16), {"input_ids": ids, "labels": ids}
    if name == "gpt2":
        return t.GPT2LMHeadModel(t.GPT2Config(use_cache=False)), {"input_ids": ids, "labels": ids}
    if name == "bert":
        return t.BertForMaskedLM(t.BertConfig(vocab_size=30000)), {"input_ids": part, "labels": part}
    config = t.T5Config(d_model=512, d_ff=2048, num_layers=6, num_heads=8, vocab_size=30000, decoder_start_token_id=0)
    return t.T5ForConditionalGeneration(config), {"input_ids": part, "labels": part}


def picture_model(name):
    import torch
    import torchvision
    layout = torch.channels_last if name in ("convnext", "resnet") else torch.contiguous_format
    of = {"vit": "vit_b_16", "swin": "swin_t", "convnext": "convnext_tiny", "resnet": "resnet50"}
    model = getattr(torchvision.models, of[name])().to(memory_format=layout)
    return model, torch.randn(64, 3, 224, 224, device="cuda").to(memory_format=layout)


def make_step(name):
    """(model, a training step of it)."""
    import torch
    pictures = name in ("vit", "swin", "convnext", "resnet")
    model, inputs = picture_model(name) if pictures else language_model(name)
    model = model.cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    labels = torch.randint(1000, (64,), device="cuda")

    def step():
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=not name.startswith("llama")):
            loss = torch.nn.functional.cross_entropy(model(inputs), labels) if pictures else model(**inputs).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model, step


def timed(step):
    import torch
    blocks = []
    for _ in range(3):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(10):
            step()
        torch.cuda.synchronize()
        blocks.append((time.perf_counter() - begin) * 1e2)
    return statistics.median(blocks)


def recorded(step, path):
    import torch
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=STEPS)
    with torch.profiler.profile(schedule=schedule, record_shapes=True,
                                on_trace_ready=lambda profile: profile.export_chrome_trace(path)) as profile:
        for _ in range(STEPS + 2):
            step()
            profile.step()


def work(name, out):
    """One network's process."""
    import torch
    _, eager = make_step(name)
    model, compiled = make_step(name)
    model.compile()
    for _ in range(5):
        eager()
        compiled()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()  # the next network may need it
    gate = os.path.join(out, f"{name}.gate")
    write_json(f"{gate}.ready0", {})
    while not os.path.exists(gate):
        time.sleep(0.05)
    os.makedirs(os.path.join(out, name))
    times = {"eager_ms": timed(eager), "compiled_ms": timed(compiled)}
    for form, step in zip(FORMS, (eager, compiled)):
        recorded(step, os.path.join(out, name, f"{form}.json"))
    write_json(os.path.join(out, name, "times.json"), times)


# ---- the comparison ----

def pointwise_ms(path):
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    steps = sum(one.get("cat") == "user_annotation" and one["name"].startswith("ProfilerStep") for one in events)
    names = re.compile(r"nvjet|gemm|cutlass|xmma|flash|fmha|sdpa|conv|cudnn|[wd]grad|fprop")
    return sum(one["dur"] for one in events if one.get("cat") == "kernel" and not names.search(one["name"])) / steps / 1e3


def fusion_of(aorta, path):
    """The gain that the verdict prints for fusion, or "-"; and all it says first."""
    done = subprocess.run([aorta, "trace", "analyze", "--json", path], capture_output=True, text=True, check=False)
    view = json.loads(done.stdout)["verdict_view"] if done.returncode == 0 else {"blocks": [], "headline": done.stderr[:60]}
    figure = next((block["figure"] for block in view["blocks"] if block["cause"] == "fusion" and block["gains"]), "-")
    return re.sub(r"\s+", " ", figure), view["headline"]


def show(out, aorta):
    print("network      eager  compiled  saved  pointwise eager  compiled  saved  fusion by the verdict")
    for name in NAMES:
        times = read_json(os.path.join(out, name, "times.json"))
        if not times:
            continue
        traces = [os.path.join(out, name, f"{form}.json") for form in FORMS]
        before, after = map(pointwise_ms, traces)
        figure, headline = fusion_of(aorta, traces[0])
        print(f"{name:12} {times['eager_ms']:5.1f}  {times['compiled_ms']:8.1f}  {times['eager_ms'] - times['compiled_ms']:5.1f}"
              f"  {before:15.1f}  {after:8.1f}  {before - after:5.1f}  {figure:14}  {headline}", flush=True)


def record(options, folder):
    started = {}
    for name in options.only or NAMES:
        command = [sys.executable, os.path.abspath(__file__), folder, "--aorta", options.aorta, "--work", name]
        started[name] = Started(command, os.path.join(folder, f"{name}.gate"))
    try:
        until = time.monotonic() + READY_SECONDS
        for one in started.values():
            one.wait_ready(until - time.monotonic())
        for name, one in started.items():
            status, _ = one.finish(TURN_SECONDS)
            if status != 0:
                print(f"{name}: {'took too long' if status is None else last_lines(one.log)}", flush=True)
    finally:
        for one in started.values():
            one.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", default=os.environ.get("OUT", "/tmp/aorta-compile"))
    parser.add_argument("--aorta", required=True)
    parser.add_argument("--only", nargs="+", choices=NAMES, metavar="NAME")
    parser.add_argument("--check", action="store_true", help="analyse the recordings of OUT again")
    parser.add_argument("--work", choices=NAMES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options.out)
        return 0
    options.aorta = shutil.which(options.aorta) or sys.exit(f"compile.py: --aorta {options.aorta}: no such program")
    with tempfile.TemporaryDirectory() as folder:
        if options.check:
            unpack(options.out, folder)
        else:
            record(options, folder)
        show(folder, options.aorta)
        if not options.check:
            os.makedirs(options.out, exist_ok=True)
            names = [name for name in NAMES if os.path.exists(os.path.join(folder, name, "times.json"))]
            for line in pack(folder, names, options.out, "compile"):
                print(f"left out: {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
