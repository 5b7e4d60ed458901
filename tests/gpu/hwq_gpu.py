#!/usr/bin/env python3
"""Everything about hardware queues that has to be shown on one GPU, in one visit of some eight minutes.

    hwq_gpu.py DIRECTORY [--parts rate,map] [--device cuda:0] [--seconds 540] [--output DIR]

DIRECTORY is an unpacked `make dist`, or one with bin/ (aorta, bench_hwq_launch_rate), lib/ (libaorta_inject.so, and
libraries that the machine lacks).

  part        about  what it shows
  mistakes      6 s  bad input: exit code 2 and the text of the message
  rate         35 s  launches a second beside a plain loop on the driver: 1, 8, 32, 64 streams, eager and as a graph
  gaps         30 s  medians of the gaps that kernels stamp, beside those that the recorder sees in the same run
  map          50 s  who shares a queue with 1, 2, 4, 8, 32 connections and unset, three times each
  compare     110 s  two runs of the same thing are the same, ten of ten; with 10% more work slower, ten of ten
  workloads   230 s  all 15 at their default sizes on the fewest (1 where they may), 8 and 32 streams (or their most),
                     verified; as a graph on 8; p50 beside the original's
  copies       15 s  what the copy engines hide of 64 MiB beside a product of 4096 x 4096, in each direction
  optimizer    40 s  (only when named) the host's part of zero_offload with 1, 4, 8 and 16 threads

A part goes on after a failure. When the time is over, the parts left are named. The output stays below 9000 characters.
DIR (default $OUT, else /tmp) gets the whole output in hwq_gpu.txt, and every result, message and recording in
hwq_gpu.tar.gz. Exit status 1 when a result is wrong.
"""
import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time

PRINTED = 8200  # characters; the summary of failures comes on top
LARGEST, PACKED = 24 << 20, 96 << 20  # bytes of a file that is packed, and of all
GAPS = ["tiny_kernel_stress", "hetero_kernels", "fsdp_tp", "graph_subgraphs", "grad_accum"]
LONGER = (-0.5, 3.0)  # us: a stamped gap against the recorded one, medians on one stream
# name: arguments of all runs, and further arguments of a run with 10% more work. The products are few: after half a second
# of products an H100 lowers its clocks, and then equal runs really differ.
COMPARED = {
    "tiny_kernel_stress": (["--streams", "8", "--graph", "--iterations", "100"], ["--chains", "110"]),
    "hetero_kernels": (["--streams", "8", "--gate", "--iterations", "30"], ["--size", "4232"]),  # (4232 / 4096)³ = 1.103
}
ITERATIONS = {"zero_offload": 5, "comms_compute_overlap": 8, "large_gemm_only": 8, "activation_ckpt": 12, "tiny_kernel_stress": 50,
              "graph_subgraphs": 50, "grad_accum": 50, "rag_pipeline": 50}
# p50 in ms on 8 streams of the original toolkit (Python), on an H100 on another day.
ORIGINAL = {"hetero_kernels": 10.8, "moe": 6.4, "fsdp_tp": 9.1, "continuous_batch": 4.7, "speculative_decode": 12.2,
            "grad_accum": 4.1, "graph_subgraphs": 1.18, "rag_pipeline": 2.99, "async_dataload": 6.0}
# For a try of this script on the CPU device or a fake GPU: --small.
SMALL = {"tiny_kernel_stress": ["--chains", "20"], "hetero_kernels": ["--size", "128"], "grad_accum": [],
         "zero_offload": ["--width", "256"]}
SMALL_MORE = {"tiny_kernel_stress": ["--chains", "24"], "hetero_kernels": ["--size", "144"]}


class Visit:
    """Where programs and files are, and what was found wrong."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.failed, self.lines = [], []
        self.printed, self.until = 0, 0.0

    def say(self, text):
        self.lines.append(text)
        self.printed += len(text) + 1
        if self.printed <= PRINTED:
            print(text, flush=True)
        elif self.printed - len(text) - 1 <= PRINTED:
            print("… the rest is in hwq_gpu.txt", flush=True)

    def fail(self, text):
        text = " ".join(text.split())[:300]
        self.failed.append(text)
        self.say(f"FAILED  {text}")

    def program(self, name):
        for place in ("bin", "bench", "tests"):
            path = os.path.join(self.options.directory, place, name)
            if os.path.exists(path):
                return path
        return os.path.join(self.options.directory, name)

    def file(self, name):
        return os.path.join(self.folder, name)

    def run(self, name, command, environment=None, limit=60):
        """Runs it with its output in the file `name`; its exit status, None when it did not end."""
        env = dict(os.environ, **{key: value for key, value in (environment or {}).items() if value is not None})
        for key in [key for key, value in (environment or {}).items() if value is None]:
            env.pop(key, None)
        left = min(limit, self.until - time.time())
        with open(self.file(name), "w", encoding="utf-8") as out, \
                open(self.file(name + ".err"), "w", encoding="utf-8") as err:
            print(" ".join(command), file=err, flush=True)
            if left < 1:
                print("not run: the time is over", file=err)
                return None
            try:
                return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, timeout=left,
                                      check=False).returncode
            except subprocess.TimeoutExpired:
                print(f"not over after {left:.0f} s", file=err)
            except OSError as error:
                print(error, file=err)
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
        """The end of what it said, without its command line."""
        return " ".join(self.text(name + ".err").split("\n", 1)[1].split())[-240:]

    def wrong(self, name, status):
        self.fail(f"{name}: exit status {status}: {self.why(name)}")

    def words(self, workload, more=()):
        small = SMALL.get(workload, []) if self.options.small else []
        return [workload, "--device", self.options.device, *small, *more]


def number(value, digits=3):
    return "null" if value is None else f"{value:.{digits}f}"


def percent(value):
    return "null" if value is None else f"{100 * value:+.1f}%"


# ---- bad input ----

def mistakes(visit):
    device = visit.options.device
    with open(visit.file("foreign.json"), "w", encoding="utf-8") as file:
        file.write('{"traceEvents": []}')
    with open(visit.file("cut.json"), "w", encoding="utf-8") as file:
        file.write('{"workload_name": "moe", "iteration_times_ms": [1.0, 2')
    absent = device.split(":")[0] + ":99" if device != "cpu" else "cuda:99"
    cases = [  # the words, and what the message has to hold
        (["run", "moe", "--device", absent], "99" if device != "cpu" else "cuda"),
        (["map", "--device", absent], "99" if device != "cpu" else "cuda"),
        (["run", "moee"], "moe"),
        (["run", "moe", "--streams", "33"], "4 to 32"),
        (["run", "fsdp_tp", "--streams", "3"], "4 to 16"),
        (["run", "moe", "--streams", "x"], "--streams"),
        (["run", "moe", "--device", "gpu7"], "gpu7"),
        (["run", "comms_compute_overlap", "--process-groups", "[0,1"], "--process-groups"),
        (["run", "comms_compute_overlap", "--process-groups", "[7]"], "no rank 7"),
        (["run", "comms_compute_overlap", "--comm-size", "12Q"], "--comm-size"),
        (["run", "comms_compute_overlap", "--mm-dim", "1,2"], "--mm-dim"),
        (["run", "moe", "--gate", "--sync-mode", "none"], "--gate"),
        (["run", "moe", "--output", "/dev/null/x.json"], "/dev/null"),
        (["compare", "--baseline", visit.file("foreign.json"), "--test", visit.file("foreign.json")], "trace"),
        (["compare", "--baseline", visit.file("cut.json"), "--test", visit.file("cut.json")], "cut"),
        (["compare", "--baseline", "/nowhere.json", "--test", "/nowhere.json"], "/nowhere.json"),
        (["profile", "--device", "cpu", "moe"], "no hardware queues"),
    ]
    right = 0
    for i, (words, needed) in enumerate(cases):
        status = visit.aorta(f"mistake_{i}", ["hwq", *words])
        said = visit.why(f"mistake_{i}")
        if status == 2 and needed in said:
            right += 1
        else:
            visit.fail(f"hwq {' '.join(words)}: exit status {status}, \"{needed}\" expected in: {said}")
    visit.say(f"{right} of {len(cases)} mistakes end with exit code 2 and a message that names them; a device that is not "
              f"there: \"{visit.text('mistake_0.err').splitlines()[1][:150]}\"")


# ---- launches a second ----

def rate(visit):
    status = visit.run("rate", [visit.program("bench_hwq_launch_rate")], limit=120)
    for line in visit.text("rate").splitlines():
        visit.say(line)
    if status:
        visit.wrong("rate", status)
    elif status is None:
        visit.fail(f"rate: {visit.why('rate')}")


# ---- gaps stamped and recorded ----

def gaps(visit):
    """A stamp is inside its kernel, so a stamped gap is longer than a recorded one by the kernel's start and end."""
    visit.say(f"{'workload':<19}{'gap':<14}{'stamped us':>11}{'recorded us':>12}{'difference':>11}")
    for workload in GAPS:
        name = f"gaps_{workload}"
        status = visit.aorta(name + "_record", ["trace", "run", "-q", "--output", visit.file(name + "_spool"), "--",
                                                visit.program("aorta"), "hwq", "run", workload, "--device",
                                                visit.options.device, "--streams", "8", "--iterations", "20", "--gate",
                                                "--output", visit.file(name + "_run.json")])
        if status != 0:
            visit.wrong(name + "_record", status)
            continue
        status = visit.aorta(name, ["hwq", "profile", "--json", "--trace", visit.file(name + "_spool")])
        recorded, run = visit.load(name), visit.load(name + "_run.json")
        if status != 0 or not recorded or not run:
            visit.wrong(name, status)
            continue
        for kind in ("intra_stream", "inter_stream"):
            switch = run["switch_latency"]
            stamped = switch[f"{kind}_gap_ms"]
            seen = recorded["recordings"][0]["profile"]["gaps"][kind]["p50_ns"]
            if switch[f"{kind[:5]}_source"] != "workload" or stamped is None or seen is None:
                visit.say(f"{workload:<19}{kind:<14} the workload has no such gap")
                continue
            longer = 1e3 * stamped - 1e-3 * seen
            visit.say(f"{workload:<19}{kind:<14}{1e3 * stamped:11.3f}{1e-3 * seen:12.3f}{longer:+11.3f}")
            if kind == "intra_stream" and not LONGER[0] <= longer <= LONGER[1]:
                visit.fail(f"{name}: {kind} gaps differ by {longer:+.3f} us; {LONGER[0]} to {LONGER[1]} is expected")


# ---- the same and not the same ----

def compare_two(visit, name, first, second):
    """What it says of the change, when its exit code fits that."""
    status = visit.aorta(name, ["hwq", "compare", "--json", "--baseline", visit.file(first), "--test",
                                visit.file(second)])
    found = visit.load(name)
    if status is None or not found:
        visit.wrong(name, status)
        return None
    pair = found["pairs"][0]
    if status != (pair["change"] == "regression"):
        visit.fail(f"{name}: exit status {status} for a change called {pair['change']}")
    return pair


def compare_runs(visit, workload, common, more):
    """Eleven runs, and ten that do more, in turn."""
    for i in range(11):
        for side, extra in (("same", []), ("more", more)):
            name = f"compare_{workload}_{side}{i}"
            if name.endswith("more10"):
                continue
            status = visit.aorta(name, ["hwq", "run", *visit.words(workload, common), "--quiet",
                                        "--output", visit.file(name + ".json"), *extra])
            if status != 0:
                visit.wrong(name, status)
                return False
    return True


def compare_workload(visit, workload, common, more):
    more = SMALL_MORE[workload] if visit.options.small else more
    if not compare_runs(visit, workload, common, more):
        return
    stem, pairs = f"compare_{workload}_", {"equal": [], "slower": []}
    for i in range(10):
        for side, other in (("equal", f"same{i + 1}"), ("slower", f"more{i}")):
            pair = compare_two(visit, f"{stem}{side}{i}", f"{stem}same{i}.json", f"{stem}{other}.json")
            if not pair:
                return
            pairs[side].append(pair)
    silent = sum(pair["change"] == "unchanged" for pair in pairs["equal"])
    found = sum(pair["change"] == "regression" for pair in pairs["slower"])
    mark = {"unchanged": "", "uncertain": "?", "regression": "!", "improvement": "*"}
    show = lambda side: " ".join(f"{pair['change_percent']:+.2f}{mark[pair['change']]}" for pair in pairs[side])
    visit.say(f"{workload} {' '.join(common)}: the same thing unchanged {silent} of 10, with {' '.join(more)} a regression "
              f"{found} of 10")
    visit.say(f"  % same: {show('equal')}\n  % more: {show('slower')}   (! regression, * improvement, ? uncertain)")
    if silent < 10 or found < 10:
        visit.fail(f"compare {workload}: {silent} and {found} of 10")


def compare(visit):
    for workload, (common, more) in COMPARED.items():
        compare_workload(visit, workload, common, more)


# ---- who shares a queue ----

def shared(found):
    return "; ".join("+".join(group) for group in found["groups"] if len(group) > 1)[:120] or "none"


def map_queues(visit):
    for connections in ("1", "2", "4", "8", "32", None):
        maps = []
        for repeat in range(3):
            name = f"map_{connections}_{repeat}"
            status = visit.aorta(name, ["hwq", "map", "--device", visit.options.device, "--copy-mb", "0", "--json"],
                                 environment={"CUDA_DEVICE_MAX_CONNECTIONS": connections})
            found = visit.load(name)
            if status != 0 or not found:
                visit.wrong(name, status)
                break
            maps.append(found)
        if len(maps) < 3:
            continue
        compute = next(part for part in maps[0]["parts"] if part["role"] == "compute")
        agree = all(found["groups"] == maps[0]["groups"] for found in maps)
        stable = all(found["stable"] for found in maps)
        visit.say(f"connections {connections or 'unset':>5}: {compute['queues']:2} queues of {compute['streams']} compute "
                  f"streams, {maps[0]['queue_count']} in all; three {'agree' if agree else 'DIFFER'}"
                  f"{'' if stable else ', not stable'}; shared: {shared(maps[0])}"
                  + (f"; all busy: about {maps[0]['busy_queue_count']}" if maps[0]["busy_queue_count"] else ""))
        if not agree:
            visit.fail(f"maps with {connections} connections differ: " + " | ".join(shared(found) for found in maps))
        if connections == "1" and compute["queues"] != 1 and not visit.options.small:
            visit.fail("one connection must be one queue")


# ---- all workloads ----

def show_run(visit, found, replayed):
    switch, figures = found["switch_latency"], found["figures"]
    name, streams, p50 = found["workload_name"], found["stream_count"], found["latency_ms"]["p50"]
    us = lambda value: number(None if value is None else 1e3 * value)
    original = ORIGINAL.get(name) if streams == 8 else None
    best = min(p50, replayed or p50)
    ratio = f"{best / original:.2f}" if original else "-"
    samples = lambda kind: f"{switch[kind + '_stream_samples']}{(switch[kind + '_source'] or '-')[0]}"
    host, limit = switch["host_gaps"], found["limit"]
    visit.say(f"{name:<21}{streams:3}{p50:10.4f}{number(replayed) if replayed else '-':>9} {ratio:>4} "
              f"{figures['launches_per_second']['value']:8.3g}{us(switch['inter_stream_gap_ms']):>9} {samples('inter'):<7}"
              f"{us(switch['intra_stream_gap_ms']):>8} {samples('intra'):<7}"
              f"{host['inter_stream_samples'] + host['intra_stream_samples']:5}"
              f"{us(switch['estimated_switch_overhead_ms']):>7} {limit['by'] or '-':<9}{number(limit['busy_share'], 2)} "
              f"{number(limit['streams_at_once'], 1):>4} {found['verified'] or '-'}")
    if switch["estimated_switch_overhead_ms"] is None or not switch["inter_stream_samples"] or \
            not switch["intra_stream_samples"]:
        visit.fail(f"{name} on {streams} streams lacks a switch figure: {switch['reason']}")
    if original and best > 1.01 * original and not visit.options.small:
        visit.fail(f"{name} on 8 streams: p50 {best:.3f} ms, the original's {original} ms (1% is the difference of days)")


def run_workload(visit, workload, streams, more):
    name = f"run_{workload}_{streams}{''.join(more).replace('--', '_')}"
    iterations = 3 if visit.options.small else ITERATIONS.get(workload, 20)
    status = visit.aorta(name, ["hwq", "run", *visit.words(workload), "--streams", str(streams), "--iterations",
                                str(iterations), "--warmup", "2", "--quiet", "--output", visit.file(name + ".json"), *more])
    found = visit.load(name + ".json") if os.path.exists(visit.file(name + ".json")) else None
    if status != 0 or not found:
        visit.wrong(name, status)
        return None
    return found


def workloads(visit):
    status = visit.aorta("list", ["hwq", "list", "--json"])
    if status != 0:
        visit.wrong("list", status)
        return
    visit.say("p50 as a graph, and the better of both over the original's, on 8 streams; gaps in us with their samples "
              "(w: the workload's own, p: the probe's); host: gaps in which the device waited for the host")
    visit.say(f"{'workload':<21}str    p50 ms    graph orig launch/s    inter n          intra n        host switch limit   busy at once")
    for one in visit.load("list"):
        workload = one["name"]
        if visit.options.workloads and workload not in visit.options.workloads:
            continue
        if visit.options.small and workload not in SMALL:
            continue
        for streams in sorted({min(max(count, one["min_streams"]), one["max_streams"]) for count in (1, 8, 32)}):
            found = run_workload(visit, workload, streams, ["--verify"])
            replay = run_workload(visit, workload, streams, ["--graph"]) if found and streams == 8 else None
            if found:
                show_run(visit, found, replay["latency_ms"]["p50"] if replay else None)


def optimizer(visit):
    """How fast the host's optimizer is in zero_offload, by its threads: it decides the time there."""
    for threads in ("1", "4", "8", "16"):
        name = f"optimizer_{threads}"
        status = visit.aorta(name, ["hwq", "run", *visit.words("zero_offload"), "--iterations", "4", "--warmup", "1",
                                    "--threads", threads, "--quiet", "--output", visit.file(name + ".json")])
        found = visit.load(name + ".json") if status == 0 else None
        if not found:
            visit.wrong(name, status)
            continue
        figures = found["figures"]
        visit.say(f"zero_offload, {threads:>2} threads: p50 {found['latency_ms']['p50']:.1f} ms, optimizer "
                  f"{figures['optimizer']['value']:.1f} ms, {figures['optimizer_memory_rate']['value']:.1f} GB/s")


# name: what it does, the most seconds it may take, whether it is among those that are done unasked
# ---- what copy engines hide ----

def copies(visit):
    for direction in ("d2h", "h2d", "d2d", "p2p"):
        name = f"copies_{direction}"
        words = ["sdma", "--direction", direction, "--json"]
        small = ["--matrix-size", "256", "--copy-mb", "1"] if visit.options.small else []
        status = visit.aorta(name, [*words, "--device", visit.options.device, *small])
        found = visit.load(name)
        if direction == "p2p" and status == 2:
            visit.say(f"p2p: {visit.why(name)}")  # one device
        elif status != 0 or not found:
            visit.wrong(name, status)
        else:
            visit.say(f"{direction}: product {found['gemm_alone_ms']['p50']:.3f} ms, copy {found['copy_alone_ms']['p50']:.3f} ms "
                      f"({found['copy_alone_gbps']:.1f} GB/s), together {found['together_ms']['p50']:.3f}: "
                      f"{percent(found['share_of_ideal'])[1:]} of what is ideal")


PARTS = {"mistakes": (mistakes, 30, True), "rate": (rate, 120, True), "gaps": (gaps, 100, True),
         "map": (map_queues, 90, True), "compare": (compare, 180, True), "workloads": (workloads, 400, True), "copies": (copies, 30, True),
         "optimizer": (optimizer, 90, False)}


def read_line():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--parts", default=",".join(name for name, (_, _, unasked) in PARTS.items() if unasked))
    parser.add_argument("--workloads", nargs="+", metavar="NAME", help="only these in the part workloads")
    parser.add_argument("--seconds", type=float, default=540, help="for all; what is left then is not run (540)")
    parser.add_argument("--output", default=os.environ.get("OUT", "/tmp"), metavar="DIR")
    parser.add_argument("--small", action="store_true", help="small sizes, for a try of this script without a GPU")
    options = parser.parse_args()
    options.parts = options.parts.split(",")
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"--parts {','.join(unknown)}: one of {', '.join(PARTS)} is expected")
    return options


def pack(visit, path):
    left = PACKED
    with tarfile.open(path, "w:gz") as archive:
        for folder, _, names in os.walk(visit.folder):
            for name in sorted(names):
                file = os.path.join(folder, name)
                size = os.path.getsize(file)
                if size > min(LARGEST, left):
                    visit.lines.append(f"not packed: {os.path.relpath(file, visit.folder)} of {size} bytes")
                    continue
                left -= size
                archive.add(file, "hwq_gpu/" + os.path.relpath(file, visit.folder))


def do_parts(visit):
    ends = time.time() + visit.options.seconds
    for part in visit.options.parts:
        begun = time.time()
        visit.until = min(begun + PARTS[part][1], ends)
        visit.say(f"== {part}")
        try:
            PARTS[part][0](visit)
        except (KeyError, IndexError, TypeError, ValueError, OSError) as error:  # the other parts go on
            visit.fail(f"{part}: {type(error).__name__} {error}")
        visit.say(f"   {part}: {time.time() - begun:.0f} s")


def main():
    options = read_line()
    library = os.path.join(options.directory, "lib")
    os.environ["LD_LIBRARY_PATH"] = library + ":" + os.environ.get("LD_LIBRARY_PATH", "")
    os.makedirs(options.output, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        visit = Visit(options, folder)
        do_parts(visit)
        last = "all well" if not visit.failed else f"{len(visit.failed)} FAILED: " + "; ".join(
            text[:60] for text in visit.failed)[:600]
        visit.lines.append(last)
        print(last, flush=True)
        pack(visit, os.path.join(options.output, "hwq_gpu.tar.gz"))
        with open(os.path.join(options.output, "hwq_gpu.txt"), "w", encoding="utf-8") as file:
            file.write("\n".join(visit.lines) + "\n")
    return 1 if visit.failed else 0


if __name__ == "__main__":
    sys.exit(main())
