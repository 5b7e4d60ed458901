#!/usr/bin/env python3
"""The sparse pipeline on GPUs: right numbers, the same losses in all pipelines, its step beside PyTorch's.

    sparse.py OUT --aorta BIN [--programs FOLDER] [--gpus 1] [--steps 30] [--torch] [--others]

FOLDER holds test_jagged_ops and sparse_pipelines of a build. On one GPU it takes about two minutes, with --torch
three. --others adds the other three files, with their verdicts. Exit status 1 when a test fails, or losses of two pipelines differ by more than 1e-5.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CONFIGS = HERE.parents[1] / "config" / "torchrec_dist"
PIPELINES = ("base", "sparse", "fused", "semi", "prefetch")
OTHERS = {  # the other files, and what a change of one key does to them
    "queue_contended": ("queue_contended", []),
    "overlap_ineff": ("overlap_ineff", []),
    "overlap_ineff, prefetch": ("overlap_ineff", ["PipelineConfig.pipeline=prefetch"]),
    "overlap_ineff, fused": ("overlap_ineff", ["RunOptions.compute_kernel=fused"]),
    "overlap_ineff, no cache": ("overlap_ineff", ["RunOptions.compute_kernel=fused_uvm"]),
    "overlap_latency": ("overlap_latency", []),
    "overlap_latency, sparse": ("overlap_latency", ["PipelineConfig.pipeline=sparse"]),
}
WARMUP = 5


def run(command, **options):
    result = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, check=False, **options)
    if result.returncode:
        print(f"{' '.join(str(word) for word in command)}: exit status {result.returncode}\n{result.stdout[-3000:]}")
    return result


def launched(args, words):
    return [args.aorta, "launch", "-n", args.gpus, "--", *words] if args.gpus > 1 else words


def check_programs(args):
    device = dict(os.environ, AORTA_TEST_DEVICE="cuda")
    programs = {path.name: path for name in ("test_jagged_ops", "sparse_pipelines")
                for path in pathlib.Path(args.programs).rglob(name)}
    failed = 0
    for name in ("test_jagged_ops", "sparse_pipelines"):
        words = [programs[name]] if name == "test_jagged_ops" else launched(args, [programs[name]])
        failed += run(words, env=device).returncode != 0
        print(f"{name}: {'failed' if failed else 'passed'}")
    return failed


def train(args, name, file, overrides):
    out = pathlib.Path(args.out) / name.replace(", ", "_").replace(" ", "_")
    words = [args.aorta, "train", "--config", CONFIGS / f"sparse_data_dist_{file}.yaml", "--override", *overrides,
             f"training.max_steps={args.steps}", f"training.output_dir={out}", "device.kind=cuda"]
    result = run(launched(args, words))
    if result.returncode:
        return None
    (out / "output.txt").write_text(result.stdout)
    lines = [json.loads(line) for line in (out / "rank_00_metrics.jsonl").read_text().splitlines()]
    printed = result.stdout.splitlines()
    first = next((i for i, line in enumerate(printed) if "Verdict" in line), len(printed))
    last = next((i for i, line in enumerate(printed) if line.startswith("Written")), len(printed))
    print(*(line for line in printed if "rows that batches needed" in line), *printed[first:last], sep="\n")
    return {"losses": [line["loss"] for line in lines],
            "step_ms": statistics.median(line["step_ms"] for line in lines[WARMUP:]),
            "id_exchange": hidden(lines[WARMUP:])}


def hidden(lines):
    """The share of the id exchange (stream reducescatter) beside which compute runs."""
    whole = covered = 0.0
    for line in lines:
        ranges = [r for r in line["profile"]["ranges"] if r["metadata"].get("source", "range") != "kernel"]
        compute = sorted((r["start_ms"], r["end_ms"]) for r in ranges if r["stream"] == "compute")
        for r in ranges:
            if r["stream"] != "reducescatter" or r["metadata"]["kind"] != "collective":
                continue
            whole += r["end_ms"] - r["start_ms"]
            at = r["start_ms"]
            for start, end in compute:
                start, end = max(start, at), min(end, r["end_ms"])
                if end > start:
                    covered += end - start
                    at = end
    return covered / whole if whole else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--aorta", required=True)
    parser.add_argument("--programs")
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--others", action="store_true")
    args = parser.parse_args()
    failed = check_programs(args) if args.programs else 0
    results = {pipeline: train(args, pipeline, "base", [f"PipelineConfig.pipeline={pipeline}"]) for pipeline in PIPELINES}
    for pipeline, result in results.items():
        if not result:
            failed += 1
            continue
        share = result["id_exchange"]
        print(f"{pipeline:9} step {result['step_ms']:.2f} ms, last loss {result['losses'][-1]:.6f}, id exchange beside "
              f"compute {'-' if share is None else f'{share:.1%}'}")
        first = results["base"]
        if first and any(abs(a - b) > 1e-5 * abs(b) for a, b in zip(result["losses"], first["losses"])):
            print(f"{pipeline}: losses differ from those of base")
            failed += 1
    for name, (file, overrides) in OTHERS.items() if args.others else ():
        print(f"\n{name}:", flush=True)
        result = train(args, name, file, overrides)
        failed += not result
        if result:
            print(f"step {result['step_ms']:.2f} ms (median), last loss {result['losses'][-1]:.6f}")
    if args.torch:
        words = ["torchrun", "--standalone", "--nproc_per_node", args.gpus, HERE.parents[1] / "bench" / "torch_sparse.py"]
        result = run(words)
        lines = [line for line in result.stdout.splitlines() if line.startswith("{")]
        if lines and results["sparse"]:
            other = json.loads(lines[-1])
            print(f"PyTorch: step {other['step_ms']:.2f} ms; ours, pipeline sparse: "
                  f"{results['sparse']['step_ms'] / other['step_ms']:.2f} of that")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
