#!/usr/bin/env python3
"""Programs in a worse and a better form: whether the verdict on the worse form names the cause, and whether its gain is true.

    pairs.py [OUT] --aorta BIN [--set fourth] [--gpus 2] [--budget 400] [--only NAME ...] [--parallel] on a GPU machine
    pairs.py OUT --aorta BIN --check                                                                   anywhere

The programs are scripts of people/, and CUDA programs, which nvcc builds first. The verdict was developed with the set first. The
other sets were written later, with other programs. Both forms are timed without a profiler (median of three blocks of steps). The
worse form is then recorded by `aorta trace run`, and for some pairs also by the torch.profiler in the script. `aorta trace analyze
--json` of the recording is compared with the times. Programs import in groups and then wait for their turn, so that nothing else
runs while one is timed.
--parallel times pairs of one GPU two at a time, one on each GPU.

A gain is right within 30% of the true one; "range" marks a printed range that has the true gain but not its middle within 30%.
Where nothing marks the program's step and the verdict's is a part of it (a third or less), shares of the step are compared. Nothing
marks the steps of CUDA programs: of these, shares are always compared.
Pairs whose true gain is below 3% of the step are not counted. OUT ($OUT, else /tmp/aorta-pairs) gets pairs.jsonl (a line per
recording, written at once), pairs.txt, pairs.json, and recordings of at most 8 MB each in pairs-1.tar.xz …, which --check reads.
Pairs for which the budget has no time are named. The exit status is 0.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

from people import machine
from runs import Started, Visit, last_lines, pack, read_json, table, torchrun, unpack, write_json

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "people")
AT_ONCE = 16                    # programs that import at the same time
IMPORT_SECONDS, RUN_SECONDS, PACKING_SECONDS = 60, 45, 20
LARGEST, PACKS = 8_000_000, 4   # a packed recording; files of them
LIMIT_MB = 32                   # of one process's records
NEAR, DECISIVE, PARTS = 0.3, 0.03, 3

# `causes`: any of these is right; `advice`: what its fix has to contain, a pattern; `more`: how many times the better form has
# the micro-batches of the worse; `rank`: who is at fault; `how`: who records; `gpus`: how many are needed.
Pair = collections.namedtuple("Pair", "name ranks script worse better causes advice more rank how gpus")


def pair(name, ranks, script, worse, better, causes, advice=None, more=None, rank=None, how=("run",), gpus=None):
    return Pair(name, ranks, script, worse.split(), better.split(), causes.split(), advice, more, rank, how, gpus or ranks)


BOTH = ("run", "profiler")
LAUNCHES = "host_launch small_kernels fusion library"
FIRST = [
    pair("pipeline_2", 2, "pipeline.py", "2", "4", "pipeline_bubble", more=2),
    pair("pipeline_4", 2, "pipeline.py", "4", "8", "pipeline_bubble", more=2, how=BOTH),
    pair("pipeline_8", 2, "pipeline.py", "8", "16", "pipeline_bubble", more=2),
    pair("moe", 2, "moe.py", "", "balanced", "straggler", rank=0, how=BOTH),
    pair("by_hand", 2, "by_hand.py", "", "ddp", "exposed_collective serialized_streams", how=BOTH),
    pair("ring", 2, "ring.py", "", "during", "exposed_collective serialized_streams", how=BOTH),
    pair("slow_rank", 2, "slow_rank.py", "", "even", "straggler", rank=1),
    pair("accumulate", 2, "accumulate.py", "sync", "no_sync", "exposed_collective", advice="no_sync"),
    pair("inputs", 1, "inputs.py", "", "ahead", "copy", how=BOTH),
    pair("offload", 1, "offload.py", "", "device", "copy", how=BOTH),
    pair("cells", 1, "cells.py", "", "whole", LAUNCHES, advice=r"LSTM|cuDNN", how=BOTH),
    pair("adamw", 1, "adamw.py", "", "fused", "optimizer", how=BOTH),
    pair("loader", 1, "loader.py", "0", "8", "data_wait host_pause", advice="DataLoader workers"),
    pair("item", 1, "item.py", "each", "once", "host_sync"),
    pair("gather_copies", 2, "gather.py", "copies", "copies ahead", "exposed_collective copy serialized_streams"),
    pair("gather_nccl", 2, "gather.py", "nccl", "nccl ahead", "exposed_collective serialized_streams"),
    pair("checkpoint", 1, "checkpoint.py", "", "stored", "recompute"),
    pair("products", 1, "products.py", "", "tf32", "precision"),
    pair("captured", 1, "captured.py", "", "graph", "host_launch"),
    pair("layout", 1, "resnet.py", "first", "last", "layout"),
    pair("pointwise", 1, "pointwise.py", "", "compiled", "fusion"),
]
SECOND = [
    pair("alibi", 1, "alibi.py", "", "fused", "attention", how=BOTH),
    pair("vocabulary", 1, "vocabulary.py", "", "narrow", "casts fusion", how=BOTH),
    pair("decode", 1, "decode.py", "", "graph", "host_launch"),
    pair("eager_jax", 1, "eager_jax.py", "", "jit", "host_launch", advice="jax.jit"),
    pair("detect", 1, "detect.py", "", "weights", "host_sync"),
    pair("scores", 1, "scores.py", "", "during", "copy host_sync"),
    pair("emptied", 1, "emptied.py", "", "cached", "allocation", advice="empty_cache"),
    pair("tidy", 1, "tidy.py", "", "auto", "host_pause", advice="garbage|gc"),
    pair("factors", 1, "factors.py", "", "sparse", "embedding"),
    pair("fourier", 1, "fourier.py", "", "single", "precision"),
    pair("one_unit", 2, "one_unit.py", "", "layers", "exposed_collective", how=BOTH),
    pair("sync_norms", 2, "sync_norms.py", "", "own", "exposed_collective slow_collective host_sync", how=BOTH),
    pair("stages", 2, "stages.py", "12", "8", "straggler", rank=0, how=BOTH),
    pair("translate", 2, "translate.py", "", "sorted", "straggler"),
    pair("broadcasts", 2, "broadcasts.py", "", "flat", "exposed_collective slow_collective"),
    pair("slow_disk", 2, "slow_disk.py", "", "fast", "data_wait host_pause straggler", rank=1),
]
THIRD = [
    pair("whisper", 1, "speech.py", "", "half", "precision", how=BOTH),
    pair("roberta", 1, "roberta.py", "", "sdpa", "attention", how=BOTH),
    pair("ensemble", 1, "ensemble.py", "", "batched", "small_kernels host_launch", how=BOTH),
    pair("flow", 1, "flow.py", "", "compiled", "fusion", how=BOTH),
    pair("rows", 1, "rows.py", "", "grid", "host_launch small_kernels"),
    pair("recalls", 1, "recalls.py", "", "tensors", "host_sync"),
    pair("masked", 1, "masked.py", "0", "6", "data_wait host_pause", advice="DataLoader workers"),
    pair("journal", 1, "journal.py", "", "end", "host_pause"),
    pair("jax_inputs", 1, "jax_inputs.py", "", "resident", "copy data_wait host_sync"),
    pair("uncached", 1, "uncached.py", "", "cached", "allocation"),
    pair("genes", 1, "genes.py", "", "padded", "alignment"),
    pair("sharpen", 1, "sharpen.py", "", "last", "layout"),
    pair("micro_batches", 2, "micro_batches.py", "", "last", "exposed_collective", advice="gradient_sync", how=BOTH),
    pair("prefetch", 2, "prefetch.py", "", "before", "exposed_collective serialized_streams"),
]
FOURTH = [
    pair("ema_weights", 1, "ema_weights.py", "", "foreach", f"{LAUNCHES} optimizer", how=BOTH),
    pair("hand_clip", 1, "hand_clip.py", "", "library", "host_sync"),
    pair("quantiles", 1, "quantiles.py", "", "seldom", "host_sync"),
    pair("anomaly_mode", 1, "anomaly_mode.py", "", "off", "host_sync", how=BOTH),
    pair("no_cache", 1, "no_cache.py", "", "cache", "recompute", advice="cache"),
    pair("repeatable", 1, "repeatable.py", "", "atomic", "library", advice="determin"),
    pair("jax_scores", 1, "jax_scores.py", "", "device", "host_sync host_pause"),
    pair("denoise", 1, "denoise.py", "", "fused", "attention", how=BOTH),
    pair("loss_scale", 1, "loss_scale.py", "", "blind", "host_sync"),
    pair("lengths", 1, "lengths.py", "", "padded", "host_pause", advice="pad"),
    pair("many_worlds", 1, "many_worlds.py", "", "batched", "host_sync host_launch small_kernels"),
    pair("heston", 1, "heston.py", "", "kernel", "fusion"),
    pair("saved_on_host", 1, "saved_on_host.py", "", "device", "copy", how=BOTH),
    pair("lora_base", 1, "lora_base.py", "", "wide", "fusion casts", how=BOTH),
    pair("one_process", 1, "one_process.py", "", "two", "exposed_collective host_launch host_pause copy",
         advice="DistributedDataParallel|DDP", gpus=2),
    pair("each_loss", 2, "each_loss.py", "", "seldom", "host_sync exposed_collective"),
    pair("unused", 2, "unused.py", "", "default", "exposed_collective slow_collective", advice="bucket|unused", how=BOTH),
    pair("answers", 2, "answers.py", "", "tensors", "host_pause host_sync"),
    pair("offloaded", 2, "offloaded.py", "", "device", "host_pause copy"),
    pair("ulysses", 2, "ulysses.py", "", "half", "exposed_collective serialized_streams casts", how=BOTH),
    pair("no_peer", 2, "no_peer.py", "", "peer", "slow_collective exposed_collective"),
    pair("distill", 2, "distill.py", "", "shared", "straggler", rank=0, how=BOTH),
]
FIFTH = [
    pair("relations", 1, "relations.py", "", "once", "host_sync host_launch small_kernels", how=BOTH),
    pair("grown_cache", 1, "grown_cache.py", "", "space", "copy allocation casts"),
    pair("leapfrog", 1, "leapfrog.py", "", "inside", LAUNCHES),
    pair("jax_attention", 1, "jax_attention.py", "", "fused", "attention"),
    pair("next_item", 1, "next_item.py", "", "whole", "alignment", how=BOTH),
    pair("wide_attention", 1, "wide_attention.py", "", "half", "precision attention casts", how=BOTH),
    pair("muon", 1, "muon.py", "", "batched", f"optimizer {LAUNCHES}", how=BOTH),
    pair("rerank", 1, "rerank.py", "", "half", "casts precision", how=BOTH),
    pair("short_epochs", 1, "short_epochs.py", "", "persist", "data_wait host_pause"),
    pair("targets", 1, "targets.py", "", "together", "copy host_sync host_launch"),
    pair("overflow", 1, "overflow.py", "", "always", "host_sync"),
    pair("gelu", 1, "gelu.py", "", "library", "fusion casts library", how=BOTH),
    pair("regathered", 2, "regathered.py", "", "stay", "exposed_collective", how=BOTH),
    pair("gallery", 2, "gallery.py", "", "seldom", "straggler host_pause host_sync copy", rank=0),
]
SIXTH = [
    pair("stopwatch", 1, "stopwatch.py", "", "off", "host_sync"),
    pair("small_batches", 1, "small_batches.py", "", "one", "host_launch small_kernels"),
    pair("table_rows", 1, "table_rows.py", "", "batches", "data_wait host_pause"),
    pair("repairs", 1, "repairs.py", "", "seldom", "host_pause host_sync"),
    pair("each_mask", 1, "each_mask.py", "", "once", "copy host_pause host_sync"),
    pair("codes", 1, "codes.py", "", "causal", "attention", how=BOTH),
    pair("codebook", 1, "codebook.py", "", "cdist", "fusion library", how=BOTH),
    pair("bins", 1, "bins.py", "", "embedding", "library embedding", how=BOTH),
    pair("layer_decay", 1, "layer_decay.py", "", "grouped", f"optimizer {LAUNCHES}", how=BOTH),
    pair("citations", 1, "citations.py", "", "cached", "recompute"),
    pair("dreams", 1, "dreams.py", "", "trusted", "host_sync host_launch"),
]
SEVENTH = [
    pair("grouped_heads", 1, "grouped_heads.py", "", "shared", "casts fusion copy attention", how=BOTH),
    pair("flex", 1, "flex.py", "", "compiled", "attention", how=BOTH),
    pair("jax_wide", 1, "jax_wide.py", "", "narrow", "precision"),
    pair("jax_exact", 1, "jax_exact.py", "", "usual", "precision"),
    pair("nucleus", 1, "nucleus.py", "", "best", "library"),
    pair("one_by_one_adam", 1, "one_by_one_adam.py", "", "fused", f"optimizer {LAUNCHES}", advice="fused", how=BOTH),
    pair("trainer_wide", 1, "trainer_wide.py", "", "bf16", "precision"),
    pair("table_on_host", 1, "table_on_host.py", "", "device", "copy host_pause host_sync data_wait"),
    pair("augment", 1, "augment.py", "", "device", "data_wait host_pause copy"),
    pair("split_heads", 1, "split_heads.py", "", "joined", LAUNCHES, how=BOTH),
    pair("small_buckets", 2, "small_buckets.py", "", "usual", "exposed_collective slow_collective host_launch", advice="bucket"),
    pair("gloo_gpu", 2, "gloo_gpu.py", "", "nccl", "host_collective exposed_collective slow_collective copy", advice="nccl|NCCL"),
    pair("wide_shards", 2, "wide_shards.py", "", "bf16", "precision", how=BOTH),
    pair("stop_and_time", 2, "stop_and_time.py", "", "free", "host_sync"),
]
EIGHTH = [
    pair("rain", 1, "rain.py", "", "tf32", "precision"),
    pair("watched", 1, "watched.py", "", "blind", "attention", how=BOTH),
    pair("topics", 1, "topics.py", "", "pool", "allocation"),
    pair("jax_adam", 1, "jax_adam.py", "", "jit", f"optimizer {LAUNCHES}", advice="jax.jit"),
    pair("holter", 1, "holter.py", "", "cudnn", "library"),
    pair("swapped", 1, "swapped.py", "", "resident", "copy"),
    pair("gated", 1, "gated.py", "", "inside", "casts fusion", how=BOTH),
    pair("replay", 1, "replay.py", "", "device", "data_wait host_pause copy host_sync"),
    pair("mask_buffers", 2, "mask_buffers.py", "", "own", "exposed_collective slow_collective", how=BOTH),
    pair("joined_halves", 2, "joined_halves.py", "", "apart", "exposed_collective serialized_streams"),
    pair("whole_norms", 2, "whole_norms.py", "", "shards", "exposed_collective slow_collective host_launch"),
    pair("xrays", 2, "xrays.py", "", "own", "host_sync exposed_collective slow_collective"),
]
NINTH = [
    pair("experts", 1, "experts.py", "", "grouped", "host_sync host_launch small_kernels", how=BOTH),
    pair("mixtral", 1, "mixtral.py", "", "grouped", "host_sync host_launch small_kernels", how=BOTH),
    pair("birds", 1, "birds.py", "", "last", "layout", how=BOTH),
    pair("clips", 1, "clips.py", "", "bf16", "precision", how=BOTH),
    pair("jax_lengths", 1, "jax_lengths.py", "", "padded", "host_pause", advice="pad"),
    pair("columns", 1, "columns.py", "", "grid", "few_blocks", how=BOTH),
    pair("llama", 1, "llama.py", "", "compiled", "fusion", how=BOTH),
    pair("each_checkpoint", 1, "each_checkpoint.py", "", "end", "host_pause copy host_sync"),
    pair("selective", 1, "selective.py", "", "sums", LAUNCHES, how=BOTH),
    pair("vocoder", 1, "vocoder.py", "", "once", f"{LAUNCHES} recompute", how=BOTH),
    pair("matcher", 1, "matcher.py", "", "near", "host_sync host_pause"),
    pair("jax_watch", 1, "jax_watch.py", "", "end", "host_sync"),
    pair("packed", 1, "packed.py", "", "once", "casts fusion recompute", how=BOTH),
    pair("host_adam", 1, "host_adam.py", "", "device", "copy host_pause host_sync"),
    pair("scheduled", 2, "scheduled.py", "2", "4", "pipeline_bubble", more=2, how=BOTH),
    pair("contrast", 2, "contrast.py", "", "once", "exposed_collective slow_collective host_launch", how=BOTH),
]
TENTH = [
    pair("frames", 1, "frames.cu", "", "own", "serialized_streams"),
    pair("jacobi", 1, "jacobi.cu", "", "seldom", "host_sync"),
    pair("chunks", 1, "chunks.cu", "", "streams", "copy"),
    pair("scratch", 1, "scratch.cu", "", "given", "allocation"),
    pair("tiles", 1, "tiles.cu", "", "large", "few_blocks"),
    pair("total", 1, "total.cu", "", "grid", "few_blocks"),
    pair("particles", 1, "particles.cu", "", "graph", LAUNCHES),
    pair("spectrum", 1, "spectrum.cu", "", "once", "host_pause allocation"),
    pair("small_gemms", 1, "small_gemms.cu", "", "batched", LAUNCHES),
    pair("checked", 1, "checked.cu", "", "blind", "host_sync"),
    pair("reader", 1, "reader.cu", "", "ahead", "data_wait host_pause"),
    pair("results", 1, "results.cu", "", "during", "copy host_pause"),
    pair("waves", 1, "waves.py", "", "fused", "fusion"),
    pair("halo", 2, "halo.cu", "", "during", "exposed_collective host_collective copy host_pause host_sync"),
    pair("gradients", 1, "gradients.cu", "", "own", "exposed_collective serialized_streams", gpus=2),
    pair("compress", 2, "compress.py", "", "hook", "exposed_collective precision slow_collective", advice="bf16|half", how=BOTH),
]
ELEVENTH = [
    pair("brightness", 1, "brightness.cu", "", "last", "host_sync"),
    pair("ranking", 1, "ranking.cu", "", "space", "allocation"),
    pair("parcels", 1, "parcels.cu", "", "joined", "copy host_launch"),
    pair("meetings", 1, "meetings.cu", "", "events", "host_sync"),
    pair("snapshots", 1, "snapshots.cu", "", "beside", "host_pause copy"),
    pair("recaptured", 1, "recaptured.cu", "", "once", "host_pause host_launch"),
    pair("pinned_each", 1, "pinned_each.cu", "", "given", "allocation host_pause"),
    pair("handles", 1, "handles.cu", "", "given", "host_pause allocation"),
    pair("tensors", 2, "tensors.cu", "", "joined", "exposed_collective slow_collective host_launch"),
]
TWELFTH = [
    pair("scan", 1, "scan.py", "", "unrolled", LAUNCHES),
    pair("inverses", 1, "inverses.py", "", "batched", f"host_sync {LAUNCHES}"),
    pair("volumes", 1, "volumes.py", "", "bf16", "precision", how=BOTH),
    pair("noise", 1, "noise.py", "", "device", "copy host_pause data_wait host_sync"),
    pair("stops", 1, "stops.py", "", "seldom", "host_sync"),
    pair("dots", 1, "dots.py", "", "tf32", "precision", how=BOTH),
    pair("samples", 1, "samples.py", "", "device", "copy host_pause data_wait host_sync"),
    pair("jax_report", 1, "jax_report.py", "", "back", "host_sync host_pause copy"),
    pair("requests", 1, "requests.py", "", "together", LAUNCHES, how=BOTH),
    pair("cropped", 1, "cropped.py", "", "batch", LAUNCHES),
    pair("histograms", 1, "histograms.py", "", "seldom", "copy host_pause host_sync"),
    pair("members", 1, "members.py", "", "vmap", LAUNCHES),
]
THIRTEENTH = [
    pair("doubles", 1, "doubles.py", "", "floats", "precision", how=BOTH),
    pair("orbits", 1, "orbits.py", "", "narrow", "precision"),
    pair("branches", 1, "branches.py", "", "multiply", "host_sync"),
    pair("pixels", 1, "pixels.py", "", "bytes", "copy host_pause data_wait host_sync"),
    pair("features", 1, "features.py", "", "joined", f"{LAUNCHES} embedding", how=BOTH),
    pair("confusion", 1, "confusion.py", "", "device", f"host_sync {LAUNCHES}"),
    pair("guidance", 1, "guidance.py", "", "together", LAUNCHES, how=BOTH),
    pair("whitened", 1, "whitened.py", "", "plain", f"{LAUNCHES} recompute", how=BOTH),
    pair("convolutions", 1, "convolutions.py", "", "tried", "library layout", advice="benchmark", how=BOTH),
    pair("beams", 1, "beams.py", "", "noted", "copy casts fusion embedding", how=BOTH),
    pair("letters", 1, "letters.py", "", "scan", f"host_sync {LAUNCHES}"),
    pair("bars", 1, "bars.py", "", "seldom", f"host_sync {LAUNCHES}"),
    pair("compiled_small", 1, "compiled_small.py", "", "graph", "host_launch", how=BOTH),
    pair("managed", 1, "managed.cu", "", "copied", "copy host_pause host_sync"),
]
FOURTEENTH = [
    pair("sentences", 1, "sentences.py", "", "host", "host_sync copy", how=BOTH),
    pair("slices", 1, "slices.py", "", "whole", f"attention {LAUNCHES}", how=BOTH),
    pair("reviews", 1, "reviews.py", "", "before", "data_wait host_pause"),
    pair("jax_lambda", 1, "jax_lambda.py", "", "once", "host_pause"),
    pair("eight_bits", 1, "eight_bits.py", "", "wide", "casts fusion", how=BOTH),
    pair("prices", 1, "prices.py", "", "unfolded", LAUNCHES, how=BOTH),
    pair("padded_loss", 1, "padded_loss.py", "", "weights", "host_sync", how=BOTH),
    pair("finite", 1, "finite.py", "", "trusted", "host_sync"),
    pair("preconditioned", 1, "preconditioned.py", "", "seldom", "host_sync library optimizer recompute"),
    pair("towers", 1, "towers.py", "", "beside", "serialized_streams few_blocks small_kernels"),
    pair("jax_average", 1, "jax_average.py", "", "device", "copy host_pause host_sync"),
    pair("callbacks", 1, "callbacks.cu", "", "own", "host_pause launch_latency copy serialized_streams"),
    pair("polls", 1, "polls.cu", "", "once", "host_pause host_sync"),
    pair("symbols", 1, "symbols.cu", "", "arguments", "copy host_launch"),
]
FIFTEENTH = [
    pair("compile_sizes", 1, "compile_sizes.py", "", "variables", f"{LAUNCHES} host_pause", advice="dynamic|sizes|recompil", how=BOTH),
    pair("losses_on_host", 1, "losses_on_host.py", "", "device", "copy host_pause host_sync"),
    pair("gradient_norms", 1, "gradient_norms.py", "", "together", "host_sync", how=BOTH),
    pair("penalties", 1, "penalties.py", "", "decay", LAUNCHES, how=BOTH),
    pair("jax_values", 1, "jax_values.py", "", "together", f"host_sync {LAUNCHES}"),
    pair("cupy_rows", 1, "cupy_rows.py", "", "once", LAUNCHES),
    pair("spectrograms", 1, "spectrograms.py", "", "device", "data_wait host_pause copy"),
    pair("one_text", 1, "one_text.py", "", "batch", LAUNCHES, how=BOTH),
    pair("pageable", 1, "pageable.cu", "", "pinned", "copy"),
    pair("swaps", 1, "swaps.cu", "", "names", "copy casts"),
]
SETS = {"first": FIRST, "second": SECOND, "third": THIRD, "fourth": FOURTH, "fifth": FIFTH, "sixth": SIXTH, "seventh": SEVENTH,
        "eighth": EIGHTH, "ninth": NINTH, "tenth": TENTH, "eleventh": ELEVENTH, "twelfth": TWELFTH,
        "thirteenth": THIRTEENTH, "fourteenth": FOURTEENTH,
        "fifteenth": FIFTEENTH}
PAIRS = {one.name: one for group in SETS.values() for one in group}


# ---- the verdict ----

def analysis_of(aorta, path):
    """(analysis, None) or (None, the error)."""
    done = subprocess.run([aorta, "trace", "analyze", "--json", *path], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        return None, done.stderr.strip()[-300:]
    try:
        return json.loads(done.stdout), None
    except ValueError as error:
        return None, str(error)


def figures_of(block):
    """(low, high) of a block's printed gain in ms; None where it has no gain."""
    numbers = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", block["figure"] or "")]
    return (numbers[0], numbers[-1]) if block["gains"] and numbers else None


def gain_of_more(row, more):
    """(low, high) of the gain with `more` times the micro-batches: a fact of the finding, else from the bubble's cost."""
    words = {2: r"twice|double|_2x|x2", 4: r"four|quadruple|_4x|x4"}
    for fact in row["facts"]:
        if fact["unit"] == "ms" and more in words and re.search(words[more], fact["key"]):
            return fact["value"], fact["value"]
    gain = row["cost_ms"] * (1 - 1 / more)
    return gain, gain


def findings(analysis):
    """The printed findings in their order: (block of the view, its row of the verdict)."""
    rows = analysis["verdict"]
    for block in (analysis.get("verdict_view") or {}).get("blocks", []):
        yield block, rows[block["finding"]] if block["finding"] is not None else {"cause": block["cause"], "facts": []}


def is_named(one, block, row):
    fix = " ".join(block["fix"])
    return (block["cause"] in one.causes and (one.rank is None or row.get("rank") == one.rank)
            and (one.advice is None or re.search(one.advice, fix) is not None))


def named(row):
    return row["cause"] + (f" {row['collective']}" if row.get("collective") else "")


def evaluate(one, analysis, worse_ms, better_ms):
    """The figures of a recording against the two times."""
    found = list(findings(analysis))
    place = next((i for i, (block, row) in enumerate(found) if is_named(one, block, row)), None)
    predicted = None
    if place is not None:
        block, row = found[place]
        predicted = gain_of_more(row, one.more) if one.more and "cost_ms" in row else figures_of(block)
    true, replay = worse_ms - better_ms, analysis["replay"] or {}
    step = replay.get("unrecorded_ms") or replay.get("measured_ms")
    if predicted and step and (worse_ms >= PARTS * step or one.script.endswith(".cu")):
        predicted = [gain * worse_ms / step for gain in predicted]
    middle = statistics.mean(predicted) if predicted else None
    near = "no"
    if predicted and abs(middle - true) <= NEAR * abs(true):
        near = "yes"
    elif predicted and predicted[0] <= true <= predicted[1]:
        near = "range"
    return {"first": named(found[0][1]) if found else "nothing", "place": place, "predicted_ms": middle,
            "predicted_range_ms": predicted, "true_ms": true, "near": near, "alone_ms": worse_ms, "better_ms": better_ms,
            "verdict_step_ms": step,
            "verdict_range_ms": replay.get("unrecorded_range_ms"), "decisive": true >= DECISIVE * worse_ms,
            "headline": (analysis.get("verdict_view") or {}).get("headline")}


# ---- running ----

# One process to be timed: `key` names its results, `how` is None where nothing records.
Job = collections.namedtuple("Job", "key one words how")


def jobs_of(pairs):
    """Each once: forms that several pairs share are timed once."""
    jobs = {}
    for one in pairs:
        for words in (one.worse, one.better):
            key = "_".join([one.script[:-3], *words])
            jobs.setdefault(key, Job(key, one, words, None))
        for how in one.how:
            jobs.setdefault(f"{one.name}.{how}", Job(f"{one.name}.{how}", one, one.worse, how))
    return list(jobs.values())


LIBRARIES = ["-lcublas", "-lcufft", "-lnccl"]


def build(source, folder):
    """Builds the program of a CUDA source in the folder. Returns why it was not built, or None."""
    program = os.path.join(folder, source[:-3])
    command = ["nvcc", "-O2", "-arch=native", "-o", program, os.path.join(SCRIPTS, source), *LIBRARIES]
    try:
        if source in ("halo.cu", "tensors.cu"):
            words = subprocess.run(["mpicc", "--showme"], capture_output=True, text=True, check=True).stdout.split()
            command += [word for word in words if word[:2] in ("-I", "-L", "-l")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"{source} was not built: {error}"
    return f"{source} was not built: {done.stderr[-300:]}" if done.returncode else None


class Bench:
    """Runs jobs of pairs; `results` has their times, `failed` why there are none."""

    def __init__(self, visit, aorta, work):
        self.visit, self.aorta, self.work = visit, aorta, work
        self.results, self.failed = {}, {}

    def build(self, pairs):
        """Builds the CUDA programs of these pairs; prints which could not be built."""
        sources = {one.script for one in pairs if one.script.endswith(".cu")}
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for wrong in filter(None, pool.map(lambda source: build(source, self.work), sources)):
                self.visit.say(wrong)

    def command(self, job):
        words = [os.path.join(SCRIPTS, job.one.script), *job.words]
        if words[0].endswith(".cu"):
            program = [os.path.join(self.work, job.one.script[:-3]), *job.words]
            return ["mpirun", "--allow-run-as-root", "-n", str(job.one.ranks), *program] if job.one.ranks > 1 else program
        return [sys.executable, *words] if job.one.ranks == 1 else torchrun(job.one.ranks, words)

    def start(self, job, gpu):
        gate, folder = os.path.join(self.work, f"{job.key}.gate"), os.path.join(self.work, job.key)
        env = {**os.environ, "PEOPLE_GATE": gate, "PEOPLE_TIMES": os.path.join(self.work, f"{job.key}.times.json")}
        if gpu is not None:
            env["CUDA_VISIBLE_DEVICES"] = str(gpu)
        command = self.command(job)
        if job.how:
            os.makedirs(folder)
        if job.how == "run":
            command = [self.aorta, "trace", "run", "-q", "-o", os.path.join(folder, "spool"), "--limit-mb", str(LIMIT_MB), "--",
                       *command]
        elif job.how:
            env["PEOPLE_TRACES"] = folder
        return Started(command, gate, job.one.ranks, env)

    def finish(self, job, started):
        left = self.visit.left() - PACKING_SECONDS
        if left < 8:
            started.end()
            self.failed[job.key] = "no time"
            return
        status, _ = started.finish(min(RUN_SECONDS, left))
        times = read_json(os.path.join(self.work, f"{job.key}.times.json"))
        if status or not times:
            why = "took too long" if status is None else f"status {status}"
            self.failed[job.key] = f"{why}: {last_lines(started.log)}"
            self.visit.say(f"{job.key} FAILED: {self.failed[job.key]}")
            return
        self.results[job.key] = {**times, "step_ms": statistics.median(times["blocks_ms"])}

    def batch(self, jobs, gpu=None):
        """Starts jobs together, lets one after the other go on."""
        waiting = [(job, self.start(job, gpu)) for job in jobs]
        try:
            for _, started in waiting:
                started.wait_ready(min(IMPORT_SECONDS, max(1, self.visit.left())))
            for job, started in waiting:
                self.finish(job, started)
        finally:
            for _, started in waiting:
                started.end()

    def recording(self, job_key):
        return recording(os.path.join(self.work, job_key))

    def show(self, pairs):
        """Rows of the recordings of these pairs; analysed together, as nothing is timed now."""
        wanted = [(one, how) for one in pairs for how in one.how]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            found = list(pool.map(lambda it: self.result(*it), wanted))
        for row in found:
            self.visit.row(**row)
            self.visit.say("  ".join(line_of(row)))
        return found

    def result(self, one, how):
        key = f"{one.name}.{how}"
        times = [self.results.get("_".join([one.script[:-3], *words])) for words in (one.worse, one.better)]
        row = {"pair": one.name, "how": how, "expected": one.causes}
        why = next((self.failed[k] for k in (key, *("_".join([one.script[:-3], *w]) for w in (one.worse, one.better)))
                    if k in self.failed), None)
        if why or None in times or key not in self.results:
            return {**row, "failed": why or "not run"}
        return {**row, "worse": times[0], "better": times[1], **analysed(self.aorta, one, self.recording(key), *times)}


def recording(folder):
    """What to analyse in a folder."""
    spool = os.path.join(folder, "spool")
    if os.path.isdir(spool):
        return [spool]
    return sorted(os.path.join(folder, file) for file in os.listdir(folder) if file.endswith(".json"))


def analysed(aorta, one, paths, worse, better):
    try:
        analysis, error = analysis_of(aorta, paths) if paths else (None, "nothing was recorded")
        if analysis:
            return evaluate(one, analysis, worse["step_ms"], better["step_ms"])
    except (subprocess.TimeoutExpired, OSError, KeyError, IndexError, TypeError) as wrong:
        error = f"{type(wrong).__name__}: {wrong}"
    return {"failed": error}


def run_pairs(bench, pairs, gpu=None):
    """All jobs of these pairs in groups; rows of each group as it ends."""
    rows, group = [], []
    for one in [*pairs, None]:
        if one and len(jobs_of([*group, one])) <= AT_ONCE:
            group.append(one)
            continue
        if bench.visit.left() > PACKING_SECONDS + 25:
            bench.batch([job for job in jobs_of(group) if job.key not in bench.results], gpu)
        rows += bench.show(group)
        group = [one]
    return rows


# ---- printing ----

HEAD = ["pair", "by", "expected", "named first", "top 3", "predicted ms", "true ms", "within 30%", "step alone",
        "step of verdict"]


def number(value):
    return "-" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def line_of(row):
    start = [row["pair"], row["how"], row["expected"][0]]
    if "failed" in row:
        return [*start, "FAILED", "", "", "", "", "", row["failed"][:80]]
    low, high = row["predicted_range_ms"] or (None, None)
    predicted = number(low) if low == high else f"{number(low)} to {number(high)}"
    place = row["place"]
    top = "no" if place is None or place > 2 else "first" if place == 0 else "yes"
    near = row["near"] if row["decisive"] else "no gain"
    return [*start, row["first"], top, predicted, number(row["true_ms"]), near, number(row["alone_ms"]),
            number(row["verdict_step_ms"])]


def is_right(row):
    return row["place"] is not None and row["place"] <= 2 and row["near"] == "yes"


def summary(rows):
    counted = [row for row in rows if "failed" not in row and row["decisive"]]
    if not counted:
        return ["no pair to count"]
    first = sum(row["place"] == 0 for row in counted)
    top = sum(row["place"] is not None and row["place"] <= 2 for row in counted)
    near, right = sum(row["near"] == "yes" for row in counted), sum(map(is_right, counted))
    steps = sum(abs(row["verdict_step_ms"] / row["alone_ms"] - 1) <= 0.15 for row in counted if row["verdict_step_ms"])
    return [f"{len(counted)} recordings of {len({row['pair'] for row in counted})} pairs with a true gain: named first {first}, in "
            f"the top three {top}, gain within 30% {near}, step within 15% {steps}",
            f"right (top three and gain): {right} of {len(counted)}, {10 * right / len(counted):.1f} of 10"]


def finish(visit, rows):
    visit.say("")
    for line in [*table(HEAD, [line_of(row) for row in rows]), "", *summary(rows)]:
        visit.say(line)


# ---- the two uses ----

def in_two(bench, pairs):
    """Pairs of one GPU on both GPUs at the same time, then those of two."""
    single = [one for one in pairs if one.gpus == 1]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        halves = list(pool.map(lambda gpu: run_pairs(bench, single[gpu::2], gpu), range(2)))
    return halves[0] + halves[1] + run_pairs(bench, [one for one in pairs if one.gpus > 1])


def record(options):
    visit = Visit("pairs", options.out, options.budget)
    visit.say(json.dumps(machine()))
    pairs = [one for one in PAIRS.values() if one.name in options.only] if options.only else SETS[options.set]
    pairs = [one for one in pairs if one.gpus <= options.gpus]
    with tempfile.TemporaryDirectory() as work:
        bench = Bench(visit, options.aorta, work)
        bench.build(pairs)
        rows = in_two(bench, pairs) if options.parallel and options.gpus > 1 else run_pairs(bench, pairs)
        finish(visit, rows)
        write_json(os.path.join(options.out, "pairs.json"), {"rows": rows})
        keys = [f"{row['pair']}.{row['how']}" for row in rows]
        keys = [key for key in keys if os.path.isdir(os.path.join(work, key))]
        for line in pack(work, keys, options.out, "pairs", LARGEST, PACKS):
            visit.say(f"left out: {line}")
    visit.say(f"{visit.seconds - visit.left():.0f} s")
    return 0


def check(options):
    stored = read_json(os.path.join(options.out, "pairs.json"))
    if stored is None:
        sys.exit(f"pairs.py: {options.out} has no pairs.json")
    rows = []
    with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory() as out:
        unpack(options.out, work)
        for row in stored["rows"]:
            folder = os.path.join(work, f"{row['pair']}.{row['how']}")
            if row["pair"] not in PAIRS or options.only and row["pair"] not in options.only:
                continue
            fresh = {key: row[key] for key in ("pair", "how", "expected", "worse", "better") if key in row}
            if "worse" not in row or not os.path.isdir(folder):
                rows.append({**fresh, "failed": row.get("failed") or "no recording"})
                continue
            one = PAIRS[row["pair"]]
            rows.append({**fresh, **analysed(options.aorta, one, recording(folder), row["worse"], row["better"])})
        finish(Visit("pairs", out, 0), rows)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", default=os.environ.get("OUT", "/tmp/aorta-pairs"))
    parser.add_argument("--aorta", required=True)
    parser.add_argument("--set", choices=SETS, default="first")
    parser.add_argument("--gpus", type=int, choices=[1, 2], default=2)
    parser.add_argument("--budget", type=float, default=400, help="seconds; pairs that find no time are named")
    parser.add_argument("--only", nargs="+", choices=PAIRS, metavar="NAME")
    parser.add_argument("--parallel", action="store_true", help="pairs of one GPU two at a time")
    parser.add_argument("--check", action="store_true", help="analyse the recordings of OUT again")
    options = parser.parse_args()
    options.aorta = shutil.which(options.aorta) or sys.exit(f"pairs.py: --aorta {options.aorta}: no such program")
    options.aorta = os.path.abspath(options.aorta)
    return check(options) if options.check else record(options)


if __name__ == "__main__":
    sys.exit(main())
