#!/usr/bin/env python3
"""Everything about hardware queues that has to be shown on one GPU, in one visit of some six minutes.

    hwq_gpu.py DIRECTORY [--device cuda:0] [--parts rate,agreement,compare,map,workloads,optimizer] [--workloads NAME …]

DIRECTORY is an unpacked `make dist`, or one whose bin/ holds aorta, libaorta_inject.so and bench_hwq_launch_rate.
  rate        launches a second beside a plain loop on the driver, on 1, 8, 32 and 64 streams, eager and as a graph
  agreement   stamped gaps behind a gate beside those of the recording of the same run, pair by pair
  compare     neighbours among eleven runs of one thing are the same; ten that really do 10% more are found
  map         who shares a queue, with 1, 2, 4, 8, 32 connections and unset, three times each
  workloads   all at their default sizes on the fewest, 8 and 32 streams (within their range), verified
  optimizer   the host's part of zero_offload with 1, 4, 8 and 16 threads
Each part has its own limit of time and goes on after a failure. Results are packed into $OUT/hwq_gpu.tar.gz (default
/tmp), and what is printed is in $OUT/hwq_gpu.txt, too. Exit status 1 when something is not as it has to be.
"""
import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time

LIMITS = {"rate": 120, "agreement": 100, "compare": 150, "map": 90, "workloads": 300, "optimizer": 60}
AGREEMENT = ["tiny_kernel_stress", "hetero_kernels", "fsdp_tp", "graph_subgraphs", "grad_accum"]
# name: what one run gets, and what a run that does 10% more gets beside it
COMPARED = {
    "tiny_kernel_stress": (["--streams", "8", "--graph"], ["--chains", "110"]),
    "hetero_kernels": (["--streams", "8", "--gate"], ["--size", "4232"]),  # (4232 / 4096)³ = 1.103
}
LARGEST = 8 << 20  # bytes of a file that is packed: long recordings stay behind
ITERATIONS = {"zero_offload": 6, "large_gemm_only": 10}
# For a try of this script on the CPU device: --small.
SMALL = {
    "tiny_kernel_stress": ["--chains", "20"],
    "hetero_kernels": ["--size", "128"],
    "grad_accum": [],
    "zero_offload": ["--width", "512"],
}
SMALL_MORE = {"tiny_kernel_stress": ["--chains", "24"], "hetero_kernels": ["--size", "144"]}


class Visit:
    """Where programs and files are, and what was found wrong."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.failed, self.until = [], 0.0
        self.lines = []

    def say(self, text):
        print(text, flush=True)
        self.lines.append(text)

    def fail(self, text):
        self.failed.append(text)
        self.say(f"FAILED  {text}"[:400])

    def program(self, name):
        for place in ("bin", "bench", "tests"):
            path = os.path.join(self.options.directory, place, name)
            if os.path.exists(path):
                return path
        return os.path.join(self.options.directory, name)

    def file(self, name):
        return os.path.join(self.folder, name)

    def run(self, name, command, environment=None, limit=60):
        """Runs it with its output in the file `name`; its exit status, None when time was over."""
        env = dict(os.environ, **(environment or {}))
        for key in [k for k, value in (environment or {}).items() if value is None]:
            env.pop(key, None)
        left = min(limit, self.until - time.time())
        if left < 1:
            self.fail(f"{name}: the part's time is over")
            return None
        with open(self.file(name), "w", encoding="utf-8") as out, \
                open(self.file(name + ".err"), "w", encoding="utf-8") as err:
            try:
                return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, timeout=left,
                                      check=False).returncode
            except subprocess.TimeoutExpired:
                self.fail(f"{name}: not over after {left:.0f} s")
            except OSError as error:
                self.fail(f"{name}: {error}")
        return None

    def aorta(self, name, words, **more):
        return self.run(name, [self.program("aorta"), *words], **more)

    def text(self, name):
        with open(self.file(name), encoding="utf-8") as file:
            return file.read()

    def load(self, name):
        try:
            return json.loads(self.text(name))
        except (OSError, ValueError):
            return None

    def why(self, name):
        return " ".join(self.text(name + ".err").split())[-240:]

    def words(self, workload, more=()):
        small = SMALL.get(workload, []) if self.options.small else []
        return [workload, "--device", self.options.device, *small, *more]


def rate(visit):
    status = visit.run("rate", [visit.program("bench_hwq_launch_rate")], limit=LIMITS["rate"])
    if status is None:
        return
    visit.say(visit.text("rate").rstrip())
    if status:
        visit.fail(f"rate: exit status {status} {visit.why('rate')}")


def micro(value):
    return "null" if value is None else f"{value:.3f}"


def percent(value):
    return "null" if value is None else f"{100 * value:+.1f}%"


def relative(value, reference):
    return value / reference - 1 if value is not None and reference else None


def agreement(visit):
    for workload in AGREEMENT:
        name = f"agreement_{workload}"
        status = visit.aorta(name, ["hwq", "profile", "--agreement", "--json", "--device", visit.options.device,
                                    "--output", visit.file(name + "_files"), workload, "--streams", "8",
                                    "--iterations", "20"])
        found = visit.load(name)
        if status is None or not found:
            visit.fail(f"{name}: exit status {status}: {visit.why(name)}")
            continue
        both = found["recordings"][0]["agreement"]
        same = both["same_pairs"]
        if not same:
            visit.fail(f"{name}: {both['same_pairs_reason']}")
        for kind in ("intra_stream", "inter_stream"):
            every = both[kind]
            visit.say(f"{workload:<19} {kind[:5]}  all: stamped {micro(every['stamped_us'])} recorded "
                      f"{micro(every['recorded_us'])} us ({percent(relative(every['stamped_us'], every['recorded_us']))})")
            if not same:
                continue
            one = same[kind]
            visit.say(f"{'':26} same pairs: stamped {micro(one['stamped_us'])} ({percent(one['stamped_difference'])}), "
                      f"without start and end {micro(one['corrected_us'])} ({percent(one['corrected_difference'])}), "
                      f"recorded {micro(one['recorded_us'])} us; pairs off {micro(one['pair_difference_p50_us'])}, 90% "
                      f"{micro(one['pair_difference_p90_us'])} us ({one['pairs']}): within 10%: {one['within']}")
        if same:
            own, mark = same["offset_self"], same["offset_marked"]
            visit.say(f"{'':26} start and end: {micro(((own['start_ns'] or 0) - (own['end_ns'] or 0)) / 1e3)} us stamping "
                      f"itself, {micro(((mark['start_ns'] or 0) - (mark['end_ns'] or 0)) / 1e3)} us marking; tick "
                      f"{same['tick_ns']} ns; WITHIN 10%: {'yes' if same['within'] else 'no'}")
            if not same["within"]:
                visit.fail(f"{name}: not within 10%")


def compare_two(visit, name, first, second):
    status = visit.aorta(name, ["hwq", "compare", "--json", "--baseline", visit.file(first), "--test",
                                visit.file(second)])
    found = visit.load(name)
    if status is None or not found:
        visit.fail(f"{name}: exit status {status}: {visit.why(name)}")
        return None
    return found["pairs"][0]


def compare_workload(visit, workload, common, more):
    runs = 11
    if visit.options.small:
        more = SMALL_MORE[workload]
    for i in range(runs):
        for side, extra in (("same", []), ("more", more)):
            if side == "more" and i == runs - 1:
                continue
            name = f"compare_{workload}_{side}{i}"
            words = ["hwq", "run", *visit.words(workload, common), "--iterations", "100", "--quiet", "--output",
                     visit.file(name + ".json"), *extra]
            if visit.aorta(name, words) != 0:
                visit.fail(f"{name}: {visit.why(name)}")
                return
    silent, found, changes = 0, 0, []
    for i in range(runs - 1):
        stem = f"compare_{workload}_"
        equal = compare_two(visit, f"{stem}equal{i}", f"{stem}same{i}.json", f"{stem}same{i + 1}.json")
        slower = compare_two(visit, f"{stem}slower{i}", f"{stem}same{i}.json", f"{stem}more{i}.json")
        if not equal or not slower:
            return
        silent += equal["change"] == "unchanged"
        found += slower["change"] == "regression"
        changes.append((equal, slower))
    show = lambda pair: f"{pair['change_percent']:+.1f}% {pair['change']}"
    visit.say(f"{workload} {' '.join(common)}: same thing unchanged {silent} of 10, with {' '.join(more)} a regression "
              f"in {found} of 10")
    visit.say("    same: " + "; ".join(show(equal) for equal, _ in changes))
    visit.say("    more: " + "; ".join(show(slower) for _, slower in changes))
    if silent < 10 or found < 10:
        visit.fail(f"compare {workload}")


def compare(visit):
    for workload, (common, more) in COMPARED.items():
        compare_workload(visit, workload, common, more)


def shared(found):
    return "; ".join("+".join(group) for group in found["groups"] if len(group) > 1)[:200] or "none"


def map_queues(visit):
    for connections in ("1", "2", "4", "8", "32", None):
        maps = []
        for repeat in range(3):
            name = f"map_{connections}_{repeat}"
            status = visit.aorta(name, ["hwq", "map", "--device", visit.options.device, "--copy-mb", "0", "--json"],
                                 environment={"CUDA_DEVICE_MAX_CONNECTIONS": connections})
            found = visit.load(name)
            if status != 0 or not found:
                visit.fail(f"{name}: exit status {status}: {visit.why(name)}")
                break
            maps.append(found)
        if len(maps) < 3:
            continue
        compute = next(part for part in maps[0]["parts"] if part["role"] == "compute")
        agree = all(found["groups"] == maps[0]["groups"] for found in maps)
        stable = all(found["stable"] for found in maps)
        visit.say(f"connections {connections or 'unset':>5}: {compute['queues']:2} queues of {compute['streams']} compute "
                  f"streams, {maps[0]['queue_count']} in all; three {'agree' if agree else 'DIFFER'}"
                  f"{'' if stable else ', not stable'}; shared: {shared(maps[0])}")
        if not agree:
            visit.fail(f"maps with {connections} connections differ: " + " | ".join(shared(found) for found in maps))
        if connections == "1" and compute["queues"] != 1 and visit.options.device != "cpu":
            visit.fail("one connection must be one queue")


def show_run(visit, found):
    switch, figures = found["switch_latency"], found["figures"]
    us = lambda value: "null" if value is None else f"{1e3 * value:.3f}"
    host = switch["host_gaps"]
    quick, slow = switch.get("probe_quickest_pair"), switch.get("probe_slowest_pair")
    pairs = f"{us(quick['gap_ms'])}-{us(slow['gap_ms'])}" if quick and slow else "-"
    visit.say(f"{found['workload_name']:<22}{found['stream_count']:3} {found['latency_ms']['p50']:10.4f} "
              f"{found['throughput']:9.5g} {found['throughput_unit']:<10} {figures['launches_per_second']['value']:9.4g} "
              f"{us(switch['inter_stream_gap_ms']):>8} {switch['inter_stream_samples']:6} "
              f"{us(switch['intra_stream_gap_ms']):>8} {switch['intra_stream_samples']:6} "
              f"{host['inter_stream_samples'] + host['intra_stream_samples']:6} "
              f"{us(switch['estimated_switch_overhead_ms']):>7} {pairs:>15} {found['verified'] or '-'}")
    if switch["estimated_switch_overhead_ms"] is None or not switch["inter_stream_samples"]:
        visit.fail(f"{found['workload_name']} on {found['stream_count']} streams has no switch figure: {switch['reason']}")


def workloads(visit):
    if visit.aorta("list", ["hwq", "list", "--json"]) != 0:
        visit.fail(f"hwq list: {visit.why('list')}")
        return
    visit.say(f"{'workload':<22}{'str':>3} {'p50 ms':>10} {'through':>9} {'put':<10} {'launch/s':>9} {'inter us':>8} "
              f"{'n':>6} {'intra us':>8} {'n':>6} {'host n':>6} {'switch':>7} {'pairs':>15} verified")
    for one in visit.load("list"):
        workload = one["name"]
        if visit.options.workloads and workload not in visit.options.workloads:
            continue
        if visit.options.small and workload not in SMALL:
            continue
        counts = sorted({min(max(count, one["min_streams"]), one["max_streams"]) for count in (1, 8, 32)})
        for streams in counts:
            name = f"run_{workload}_{streams}"
            iterations = str(min(ITERATIONS.get(workload, 20), 3 if visit.options.small else 20))
            status = visit.aorta(name, ["hwq", "run", *visit.words(workload), "--streams", str(streams), "--iterations",
                                        iterations, "--warmup", "2", "--verify", "--quiet", "--output",
                                        visit.file(name + ".json")])
            found = visit.load(name + ".json") if os.path.exists(visit.file(name + ".json")) else None
            if status != 0 or not found:
                visit.fail(f"{name}: exit status {status}: {visit.why(name)}")
                continue
            show_run(visit, found)


def optimizer(visit):
    """How fast the host's optimizer is in zero_offload, by its threads: it decides the time there."""
    for threads in ("1", "4", "8", "16"):
        name = f"optimizer_{threads}"
        status = visit.aorta(name, ["hwq", "run", *visit.words("zero_offload"), "--iterations", "4", "--warmup", "1",
                                    "--threads", threads, "--quiet", "--output", visit.file(name + ".json")])
        found = visit.load(name + ".json") if status == 0 else None
        if not found:
            visit.fail(f"{name}: exit status {status}: {visit.why(name)}")
            continue
        figures = found["figures"]
        visit.say(f"zero_offload, {threads:>2} threads: p50 {found['latency_ms']['p50']:.1f} ms, optimizer "
                  f"{figures['optimizer']['value']:.1f} ms, {figures['optimizer_memory_rate']['value']:.1f} GB/s")


PARTS = {"rate": rate, "agreement": agreement, "compare": compare, "map": map_queues, "workloads": workloads,
         "optimizer": optimizer}


def read_line():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--workloads", nargs="+")
    parser.add_argument("--small", action="store_true", help="small sizes, for a try of this script on the CPU device")
    options = parser.parse_args()
    options.parts = options.parts.split(",")
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"--parts {','.join(unknown)}: one of {', '.join(PARTS)} is expected")
    return options


def main():
    options = read_line()
    out = os.environ.get("OUT", "/tmp")
    library = os.path.join(options.directory, "lib")
    os.environ["LD_LIBRARY_PATH"] = library + ":" + os.environ.get("LD_LIBRARY_PATH", "")
    with tempfile.TemporaryDirectory() as folder:
        visit = Visit(options, folder)
        for part in options.parts:
            begun = time.time()
            visit.until = begun + LIMITS[part]
            visit.say(f"== {part}")
            PARTS[part](visit)
            visit.say(f"   {part}: {time.time() - begun:.0f} s")
        visit.say("all well" if not visit.failed else f"{len(visit.failed)} FAILED: " + "; ".join(visit.failed)[:1500])
        with tarfile.open(os.path.join(out, "hwq_gpu.tar.gz"), "w:gz") as archive:
            archive.add(folder, "hwq_gpu", filter=lambda member: None if member.size > LARGEST else member)
        with open(os.path.join(out, "hwq_gpu.txt"), "w", encoding="utf-8") as file:
            file.write("\n".join(visit.lines) + "\n")
    return 1 if visit.failed else 0


if __name__ == "__main__":
    sys.exit(main())
