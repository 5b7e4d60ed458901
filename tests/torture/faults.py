"""The faults. Each takes a Bench, does one attempt and returns what happened in a few words, or raises Wrong."""
import datetime
import errno
import glob
import gzip
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

import inputs
from job import Job, Wrong, check_lines, read, remove, reported_steps, send

TIMEOUT_S = 5
STUCK_S = 12  # of the launcher, for an mpirun that waits for a stranger
BOUND_S = 30  # beyond the timeout, on a machine that does other things too

# Strategies of the trainer: ranks and keys.
STRATEGIES = [
    (2, ""),
    (2, "distributed.mode=ddp"),
    (2, "compile.enabled=true"),
    (4, "fsdp.sharding_strategy=hybrid_shard fsdp.hybrid_shard_gpus_per_node=2"),
    (3, "fsdp.sharding_strategy=shard_grad_op"),
    (2, "profiling.enabled=true workload.async_wait=true"),
]
DISTRIBUTED = [  # workloads of hwq with collectives
    "comms_compute_overlap --mm-dim 64 --comm-size 64K --iterations 200",
    "moe --iterations 3 --warmup 1",
    "fsdp_tp --blocks 2 --width 16 --heads 2 --batch 4 --positions 8 --streams 4 --iterations 200",
    "fsdp_tp --blocks 2 --width 16 --heads 2 --batch 4 --positions 8 --streams 4 --iterations 200 --tensor 2",
    "grad_accum --in 64 --hidden 64 --classes 16 --iterations 100",
]
SAID = ("aorta: ", "aorta launch: ")

CONFIG = """training: {batch_size: 4, mixed_precision: none, max_steps: 60, grad_clip_norm: 1.0, epochs: 100, log_interval: 5}
dataset: {num_samples: 200, sequence_length: 7, num_dense_features: 3, dense_dim: 10, sparse_features: 4, vocab_size: 101}
model: {vocab_size: 101, embedding_dim: 20, num_dense_features: 3, dense_dim: 10, model_dim: 24, num_heads: 3,
  num_layers: 3, mlp_hidden_dim: 40, dropout: 0.0}
dataloader: {num_workers: 1}
device: {kind: cpu}
"""


class Bench:
    """Where attempts run: the program, the folder of test libraries, a source of chance."""

    def __init__(self, aorta, tests, root, seed, every, first=1):
        self.aorta, self.tests, self.root, self.every, self.first = aorta, tests, root, every, first
        self.random = random.Random(seed)
        self.counts, self.last_past = {}, {}
        self.done = set()  # faults of which --every is through
        self.harmful, self.harmless = set(), set()  # calls that failed: whether it changed anything
        self.spans_s = {}
        self.past_commands = set()  # of file_call
        self.known_to_read = set()  # commands of mutated_input that read what is not mutated
        self.folder = None

    def fresh(self, number):
        self.folder = os.path.join(self.root, f"attempt{number:05d}")
        os.makedirs(self.folder)
        with open(os.path.join(self.folder, "tiny.yaml"), "w", encoding="utf-8") as file:
            file.write(CONFIG)

    def next(self, name, most, ranks=1):
        """A number and a rank: by chance up to `most`; with --every one after the other, from --first on, on each rank."""
        if not self.every:
            return self.random.randint(1, most), self.random.randrange(ranks)
        count = self.counts.get(name, 0)
        self.counts[name] = count + 1
        return self.first + count // ranks, count % ranks

    def past(self, name):
        """A run has no Nth call. Two in a row, and all of --every are done."""
        count = self.counts.get(name, 0)
        if self.every and self.last_past.get(name) == count - 1:
            self.done.add(name)
        self.last_past[name] = count
        return "past the last call"

    def train(self, ranks, words="", out="out", before=None, environment=None, limit_s=None):
        command = [self.aorta, "launch", "-n", str(ranks), "--"] if ranks > 1 else []
        command += [self.aorta, "train", "--config", "tiny.yaml", "--override", f"training.output_dir={out}",
                    f"distributed.timeout_s={TIMEOUT_S}", *words.split()]
        return Job(self.folder, command, limit_s or TIMEOUT_S + BOUND_S, environment, before)

    def fake_gpu(self, more=None):
        tests = self.tests
        folders = [f"{tests}/fake_gpu/cuda", f"{tests}/fake_nccl/nccl", f"{tests}/ops/fake_blas", f"{tests}/fake_cupti"]
        return {"AORTA_LIBRARY_PATH": ":".join(folders), "FAKE_GPU_KERNELS": "ignore",
                "AORTA_CACHE_DIR": os.path.join(self.root, "cache"), **(more or {})}

    def recorded(self):
        """The environment of programs on the stand-in of a GPU, whose work is recorded."""
        return {"LD_LIBRARY_PATH": f"{self.tests}/fake_gpu/cuda", "FAKE_CUPTI": glob.glob(f"{self.tests}/fake_cupti/libcupti.so*")[0]}

    def preload(self, name):
        """LD_PRELOAD of a test library. It takes no path with a space, which that of the build may have."""
        link = os.path.join(self.folder, name)
        os.symlink(os.path.join(self.tests, "torture", name), link)
        return link

    def out(self, name="out"):
        return os.path.join(self.folder, name)


def clean_span(bench, ranks, words):
    """How long a run without a fault takes, so that moments of faults are spread over all its phases."""
    key = (ranks, words)
    if key not in bench.spans_s:
        job = bench.train(ranks, words, out="clean")
        if job.wait():
            raise Wrong(f"without a fault: {job.output()[-300:]!r}")
        job.check_left()
        bench.spans_s[key] = job.elapsed()
        remove(bench.out("clean"))
    return bench.spans_s[key]


def at_a_moment(bench, ranks, words, word="train"):
    """A running job, at a moment anywhere in its life, and a rank's process; None: it had ended, or not begun."""
    moment = bench.random.uniform(0, 1.05 * clean_span(bench, ranks, words))
    job = bench.train(ranks, words)
    time.sleep(max(0.0, moment - job.elapsed()))
    found = job.ranks(word)
    return job, (found[bench.random.choice(sorted(found))] if found else None)


def ended(job, hit, directory, *words):
    """After a fault that a rank does not survive."""
    code = job.wait()
    job.check_left()
    text = job.output()
    check_lines(directory, reported_steps(text), killed=hit)
    if not hit or (code == 0 and "Verdict:" in text):
        if code:
            raise Wrong(f"exit {code} without a fault: {text[-300:]!r}")
        return "too late or too early: ran to its end"
    if code == 0:
        raise Wrong(f"exit 0 although a rank was hit: {text[-300:]!r}")
    job.check_words(*words, *SAID)
    return f"exit {code}, says which rank"


def kill_rank(bench):
    ranks, words = bench.random.choice(STRATEGIES)
    job, pid = at_a_moment(bench, ranks, words)
    return ended(job, pid and send(pid, signal.SIGKILL), bench.out(), "aorta launch: rank ")


def stop_rank(bench):
    ranks, words = bench.random.choice(STRATEGIES)
    job, pid = at_a_moment(bench, ranks, words)
    return ended(job, pid and send(pid, signal.SIGSTOP), bench.out())


def slow_rank(bench):
    """Stands still for less than the timeout: nothing may come of it."""
    ranks, words = bench.random.choice(STRATEGIES)
    job, pid = at_a_moment(bench, ranks, words)
    if pid and send(pid, signal.SIGSTOP):
        time.sleep(bench.random.uniform(0.05, 0.5 * TIMEOUT_S))
        send(pid, signal.SIGCONT)
    code = job.wait()
    job.check_left()
    if code or any(count != 60 for count in check_lines(bench.out()).values()):
        raise Wrong(f"exit {code}: {job.output()[-300:]!r}")
    return "runs to its end"


def kill_launcher(bench):
    """Nothing is left of the ranks; the launcher's folder, with Open MPI's in it, is removed by the next launch."""
    ranks, words = bench.random.choice(STRATEGIES)
    job, _ = at_a_moment(bench, ranks, words)
    send(job.process.pid, signal.SIGKILL)
    job.wait()
    job.check_left(may_leave_files=True)
    check_lines(bench.out(), reported_steps(job.output()), killed=True)
    return "ranks end with it, lines whole"


def interrupt(bench):
    ranks, words = bench.random.choice(STRATEGIES + [(1, "")])
    job, _ = at_a_moment(bench, ranks, words)
    number = bench.random.choice([signal.SIGINT, signal.SIGTERM])
    for _ in range(bench.random.choice([1, 1, 1, 2])):
        send(job.process.pid, number)
        time.sleep(bench.random.uniform(0, 0.3))
    code = job.wait()
    job.check_left()
    check_lines(bench.out(), reported_steps(job.output()))
    if code and code < 128:
        job.check_words(*SAID)
    return "ends at once or after its steps, lines whole" if code else "ran to its end"


def span_of(bench, name, command, limit_s):
    """How long this command takes without a fault; its folder `out` goes."""
    if name not in bench.spans_s:
        clean = Job(bench.folder, command, limit_s)
        if clean.wait():
            raise Wrong(f"{name}: without a fault: {clean.output()[-300:]!r}")
        clean.check_left()
        bench.spans_s[name] = clean.elapsed()
        remove(bench.out())
    return bench.spans_s[name]


def signals_at_a_moment(bench, job, span_s, most_s):
    """One signal, or two; after two the job ends at once (`most_s`), whatever it was doing. Returns the first signal."""
    time.sleep(max(0.0, bench.random.uniform(0, 1.05 * span_s) - job.elapsed()))
    number = bench.random.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
    twice = number != signal.SIGKILL and bench.random.random() < 0.5
    send(job.process.pid, number)
    if twice:
        time.sleep(bench.random.uniform(0, 0.3))
        send(job.process.pid, bench.random.choice([signal.SIGINT, signal.SIGTERM]))
    second = time.monotonic()
    job.wait()
    if twice and time.monotonic() - second > most_s:
        raise Wrong(f"two signals, and {time.monotonic() - second:.1f} s to the end: {job.output()[-300:]!r}")
    return number


def interrupt_sparse(bench):
    """The sparse pipeline: preparing its batches, its steps, its report."""
    ranks = bench.random.choice([1, 2])
    command = [bench.aorta, "launch", "-n", str(ranks), "--", bench.aorta, "train", "--override", "training.output_dir=out",
               "device.kind=cpu", "RunOptions.num_batches=60", "ModelSelectionConfig.batch_size=2048", f"distributed.timeout_s={TIMEOUT_S}"]
    span_s = span_of(bench, f"sparse {ranks}", command, 150)
    job = Job(bench.folder, command, span_s + TIMEOUT_S + BOUND_S)
    number = signals_at_a_moment(bench, job, span_s, TIMEOUT_S + 10)
    job.check_left(may_leave_files=number == signal.SIGKILL)
    check_lines(bench.out(), reported_steps(job.output()), killed=number == signal.SIGKILL)
    return "ends at once or after its steps, lines whole" if job.process.returncode else "ran to its end"


def interrupt_sweep(bench):
    """A sweep of training runs: its runs end with it, what it recorded is whole, and --resume makes the rest."""
    ranks = bench.random.choice(["1", "2"])
    command = [bench.aorta, "sweep", "-o", "out", "--config", "tiny.yaml", "--grid", "training.seed=1,2,3", "--steps", "4",
               "--repeats", "1", "--no-baseline", "-n", ranks]
    span_s = span_of(bench, f"sweep {ranks}", command, 150)
    job = Job(bench.folder, command, span_s + BOUND_S)
    number = signals_at_a_moment(bench, job, span_s, 12)
    job.check_left(may_leave_files=number == signal.SIGKILL)
    recorded = read(os.path.join(bench.out(), "trials.jsonl")).splitlines(keepends=True)
    for line in recorded[:-1] if number == signal.SIGKILL else recorded:
        json.loads(line)
    again = Job(bench.folder, command + ["--resume"], 2 * span_s + BOUND_S)
    if again.wait() or "3 trials: 3 done" not in again.output():
        raise Wrong(f"--resume: {again.output()[-300:]!r}")
    again.check_left()
    return "its runs end with it, --resume makes the rest" if job.process.returncode else "ran to its end"


def kill_workload(bench):
    """A rank of a distributed workload of hwq."""
    name = bench.random.choice(DISTRIBUTED)
    result = bench.out("result.json")
    command = [bench.aorta, "launch", "-n", "2", "--", bench.aorta, "hwq", "run", *name.split(), "--device", "cpu",
               "--timeout-s", str(TIMEOUT_S), "-o", result]
    if name not in bench.spans_s:
        clean = Job(bench.folder, command, 150)
        if clean.wait():
            raise Wrong(f"{name}: without a fault: {clean.output()[-300:]!r}")
        bench.spans_s[name] = clean.elapsed()
        os.unlink(result)
    job = Job(bench.folder, command, 150 + TIMEOUT_S + BOUND_S)
    time.sleep(bench.random.uniform(0, 1.05 * bench.spans_s[name]))
    found = job.ranks("hwq")
    pid = found[bench.random.choice(sorted(found))] if found else None
    number = bench.random.choice([signal.SIGKILL, signal.SIGSTOP])
    hit = pid and send(pid, number)
    code = job.wait()
    job.check_left()
    if code == 0 and not read(result).rstrip().endswith(b"}"):
        raise Wrong("exit 0 without a whole result")
    if code:
        job.check_words(*SAID)
    if code and not hit:
        raise Wrong(f"{name}: exit {code} without a fault: {job.output()[-300:]!r}")
    return f"exit {code}" + (", says which rank" if code else "")


def trace_run(bench):
    """`aorta trace run`, its program or one of that one's children is killed, ended or stopped for a while."""
    tests, environment = bench.tests, bench.recorded()
    script = 'for i in 1 2 3 4; do "$0" ranks 2; "$0" layers 100; done'
    command = [bench.aorta, "trace", "run", "-o", "rec", "--", "/bin/sh", "-c", script, f"{tests}/record/program"]
    if "trace run" not in bench.spans_s:
        clean = Job(bench.folder, command, BOUND_S, environment)
        if clean.wait():
            raise Wrong(f"without a fault: {clean.output()[-300:]!r}")
        bench.spans_s["trace run"] = clean.elapsed()
        remove(bench.out("rec"))
    job = Job(bench.folder, command, BOUND_S, environment)
    time.sleep(bench.random.uniform(0, bench.spans_s["trace run"]))
    found = [pid for pid in job.processes() if pid != job.process.pid]
    ours = bench.random.random() < 0.4 or not found
    pid = job.process.pid if ours else bench.random.choice(found)
    number = bench.random.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
    hit = send(pid, number)
    if number == signal.SIGSTOP:
        time.sleep(bench.random.uniform(0, 1))
        send(pid, signal.SIGCONT)
    code = job.wait()
    killed = ours and hit and code in (137, 143)  # before it waits for signals it ends by one
    job.check_left(may_leave_files=killed)
    job.check_words(*(() if killed else ("aorta trace run: ", "Verdict: ")))
    if killed or not os.path.exists(bench.out("rec/analysis.json")):
        again = subprocess.run([bench.aorta, "trace", "analyze", "--recover", bench.out("rec")], capture_output=True, check=False)
        if again.returncode not in (0, 2) or (again.returncode and not again.stderr.startswith(b"aorta: ")):
            raise Wrong(f"the recording, read again: exit {again.returncode}: {again.stderr[-300:]!r}")
    else:
        json.loads(read(bench.out("rec/analysis.json")))
    if not killed and os.path.exists(bench.out("rec/.aorta.lock")):
        raise Wrong("the lock is left")
    if not hit or not code and number != signal.SIGSTOP and ours:
        return "too late: ran to its end"
    return ("stopped for a while" if number == signal.SIGSTOP else "killed or ended") + ": what was recorded is analyzed"


def make_hosts(name):
    """Two network namespaces that one link connects; False: not permitted here."""
    commands = [f"ip netns add {name}0", f"ip netns add {name}1", f"ip link add {name}v0 netns {name}0 type veth peer name {name}v1 netns {name}1",
                *(f"ip -n {name}{i} {words}" for i in (0, 1)
                  for words in ("link set lo up", f"addr add 10.77.0.{i + 1}/24 dev {name}v{i}", f"link set {name}v{i} up"))]
    return all(subprocess.run(command.split(), capture_output=True, check=False).returncode == 0 for command in commands)


def cut_link(bench):
    """The link between the hosts of two ranks on GPUs is cut, for good or for a while."""
    name = f"at{os.urandom(3).hex()}"
    if not shutil.which("ip"):
        return "left out: ip is not installed"
    try:
        if not make_hosts(name):
            return "left out: network namespaces are not permitted"
        for_good, moment = bench.random.random() < 0.7, bench.random.uniform(0, 4)
        train = f'"$0" train --config tiny.yaml --override training.output_dir=out distributed.timeout_s={TIMEOUT_S} device.kind=cuda'
        rank = "ip netns exec {0}{1} env RANK={1} LOCAL_RANK=0 {2}"
        script = (f"export WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500; {rank.format(name, 0, train)} & "
                  f"{rank.format(name, 1, train)}; second=$?; wait $!; echo codes $? $second")
        job = Job(bench.folder, ["/bin/sh", "-c", script, bench.aorta], 2 * TIMEOUT_S + 20 + BOUND_S, bench.fake_gpu())
        time.sleep(moment)
        subprocess.run(["ip", "-n", f"{name}0", "link", "set", f"{name}v0", "down"], capture_output=True, check=False)
        if not for_good:
            time.sleep(bench.random.uniform(0, 0.3 * TIMEOUT_S))
            subprocess.run(["ip", "-n", f"{name}0", "link", "set", f"{name}v0", "up"], capture_output=True, check=False)
        job.wait()
        job.check_left()
        check_lines(bench.out(), reported_steps(job.output()))
        codes = re.search(r"codes (\d+) (\d+)", job.output()).groups()
        if not set(codes) <= {"0", "1"}:
            raise Wrong(f"exits {codes}: {job.output()[-300:]!r}")
        job.check_words(*(("aorta: ", "error: ") if "1" in codes else ()))
        if not for_good and codes != ("0", "0"):
            raise Wrong(f"cut for a while, and exits {codes}: {job.output()[-300:]!r}")
        what = "for good" if for_good else "for a while"
        return f"{what}: " + ("ran to its end" if codes == ("0", "0") else "exit 1, says which rank cannot be reached")
    finally:
        for i in (0, 1):
            subprocess.run(["ip", "netns", "del", f"{name}{i}"], capture_output=True, check=False)


def listening(job):
    """(port, whether beyond the loopback, name of the program) of each socket that a process of the job listens at."""
    sockets = {}
    for table in ("tcp", "tcp6"):
        for line in read(f"/proc/net/{table}").decode().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A":
                address, port = words[1].split(":")
                sockets[f"socket:[{words[9]}]"] = (int(port, 16), not address.endswith("0100007F"))
    found = set()
    for pid in job.processes():
        for path in glob.glob(f"/proc/{pid}/fd/*"):
            try:
                link = os.readlink(path)
            except OSError:
                continue
            if link in sockets:
                found.add((*sockets[link], os.path.basename(read(f"/proc/{pid}/cmdline").split(b"\0")[0].decode())))
    return found


def make_noise(bench, port, strangers):
    """One connection that says nothing, rubbish, or the beginning of what ranks say; open until the end, or not."""
    try:
        stranger = socket.create_connection(("127.0.0.1", port), 1)
        stranger.sendall(bench.random.choice([b"", os.urandom(bench.random.choice([1, 16, 100, 4000])), b"GET / HTTP/1.0\r\n\r\n", b"\0" * 200,
                                              struct.pack("<IIiId", 0x41525633, bench.random.randrange(10), -1, bench.random.choice([84, 1 << 31]),
                                                          float("nan")) + os.urandom(148)]))
        if bench.random.random() < 0.5:
            strangers.append(stranger)
        else:
            stranger.close()
    except OSError:
        pass


def port_noise(bench):
    """Strangers at every port that the job listens at, from its start on; none of ours is open beyond the loopback."""
    gpu, strangers, beyond = bench.random.random() < 0.5, [], set()
    job = bench.train(2, "device.kind=cuda" if gpu else "", environment=bench.fake_gpu() if gpu else None,
                      limit_s=TIMEOUT_S + STUCK_S + BOUND_S)
    while job.running() and len(strangers) < 600:
        ports = listening(job)
        beyond |= {name for _, outside, name in ports if outside}
        for port, _, _ in ports:
            for _ in range(50):
                make_noise(bench, port, strangers)
        time.sleep(0.02)
    code = job.wait()
    for stranger in strangers:
        stranger.close()
    waits = "aorta launch: " in job.output()
    job.check_left()
    if "aorta" in beyond:
        raise Wrong("aorta listens beyond the loopback")
    lines = check_lines(bench.out(), reported_steps(job.output()))
    # Open MPI's own ports take part in its protocol: what a stranger writes there can make it end its ranks.
    if "tcp_peer_recv_connect_ack" in job.output() and code not in (0, 1):
        job.check_words("aorta launch: rank ")
        return "Open MPI ends the ranks because of the stranger, said"
    if code not in (0, waits) or (not waits and set(lines.values()) != {60}):
        raise Wrong(f"exit {code}, lines {lines}: {job.output()[-300:]!r}")
    if waits:
        job.check_words(*SAID)
        return "Open MPI waits for the stranger, ends in time"
    return "runs to its end" + (f"; {', '.join(sorted(beyond))} listens beyond the loopback" if beyond else "; all ports at the loopback")


def struck(bench, kind, ranks, words, environment):
    """The run of a program of which one call fails, and what came of it."""
    job = bench.train(ranks, words, environment=environment)
    code = job.wait()
    job.check_left()
    text = job.output()
    check_lines(bench.out(), reported_steps(text))
    called = re.search(r"strike: (\w+)", text)
    if code not in (0, 1) or (code and not called):
        raise Wrong(f"{environment}: exit {code}: {text[-300:]!r}")
    job.check_words(*(SAID if code else ()))
    if not called:
        return bench.past(kind)
    if code == 0:
        bench.harmless.add(called.group(1))
        return "a call whose failure changes nothing"
    bench.harmful.add(called.group(1))
    return "exit 1, names what failed"


def device_call(bench):
    """The Nth call of the CUDA driver fails: out of memory, illegal address, launch failed, unknown."""
    number, _ = bench.next("device_call", 1500, 1)
    code = bench.random.choice([2, 700, 719, 999])
    return struck(bench, "device_call", 1, "device.kind=cuda training.max_steps=2",
                  bench.fake_gpu({"FAKE_GPU_STRIKE": f"*:{number}:{code}"}))


def device_call_of_two(bench):
    """The same with collectives, on one of two ranks."""
    number, rank = bench.next("device_call_of_two", 1500, 2)
    code = bench.random.choice([2, 700, 719, 999])
    return struck(bench, "device_call_of_two", 2, "device.kind=cuda training.max_steps=2",
                  bench.fake_gpu({"FAKE_GPU_STRIKE": f"*:{number}:{code}", "FAKE_GPU_STRIKE_RANK": str(rank)}))


def nccl_call(bench):
    """The Nth call of NCCL fails on one of two ranks: CUDA error, system error, internal error, remote error."""
    number, rank = bench.next("nccl_call", 120, 2)
    code = bench.random.choice([1, 2, 3, 6])
    return struck(bench, "nccl_call", 2, "device.kind=cuda training.max_steps=2",
                  bench.fake_gpu({"FAKE_NCCL_STRIKE": f"*:{number}:{code}", "FAKE_NCCL_STRIKE_RANK": str(rank)}))


def mpi_call(bench):
    """The Nth call of Open MPI fails on one of two ranks."""
    number, rank = bench.next("mpi_call", 400, 2)
    return struck(bench, "mpi_call", 2, "training.max_steps=2",
                  {"LD_PRELOAD": bench.preload("libmpi_strike.so"), "MPI_STRIKE": f"*:{number}:16",
                   "MPI_STRIKE_RANK": str(rank)})


def full_disk(bench):
    """A file system of N bytes (as root), or no file above N bytes."""
    size = bench.next("full_disk", 160)[0] * 1024
    directory = bench.out("disk")
    os.makedirs(directory)
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", directory], capture_output=True, check=False).returncode == 0
    words = bench.random.choice(["", "profiling.enabled=true"]) + " training.max_steps=12"
    before = None if mounted else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    try:
        job = bench.train(bench.random.choice([1, 2]), words, out="disk/out", before=before)
        code = job.wait()
        job.check_left()
        check_lines(os.path.join(directory, "out"), 0)
        for name in os.listdir(os.path.join(directory, "out")) if os.path.isdir(os.path.join(directory, "out")) else []:
            path = os.path.join(directory, "out", name)
            if name.endswith(".tmp") or (name.endswith(".png") and not os.path.getsize(path)):
                raise Wrong(f"left behind: {name} of {os.path.getsize(path)} bytes")
        job.check_words(*(SAID if code else ()))
        if code == 0 and "Written:" not in job.output():
            raise Wrong("exit 0, and not all was written")
        if code == 0:
            return bench.past("full_disk")
        return f"exit {code}, names the file"
    finally:
        if mounted:
            subprocess.run(["umount", "-l", directory], check=False)


def file_commands(bench):
    """Commands that write files, with the names of what they write; "page" and the like are there before, as "old"."""
    tiny, corpus = ["--config", "tiny.yaml"], inputs.corpus(bench)
    trace = next(os.path.join(place, name) for place, _, names in os.walk(corpus) for name in sorted(names) if "trace" in name and ".json" in name)
    return [
        (["hwq", "run", "tiny_kernel_stress", "--device", "cpu", "--iterations", "5", "--warmup", "1", "-q", "-o", "result.json", "--html",
          "page.html"], ["result.json", "page.html"]),
        (["report", "--log-dir", os.path.join(corpus, "run"), "-o", "report", "--html", "page.html"], ["report/summary.json", "page.html"]),
        (["trace", "analyze", trace, "--html", "page.html", "--csv", "tables"], ["page.html"]),
        (["trace", "merge", os.path.join(corpus, "run"), "-o", "merged.json.gz"], ["merged.json.gz"]),
        (["train", *tiny, "--override", "training.output_dir=out", "training.max_steps=6", "profiling.enabled=true"],
         ["out/rank_00_metrics.jsonl", "out/summary.json"]),
        (["sweep", "-o", "sweep", *tiny, "--grid", "training.seed=1,2", "--steps", "2", "--repeats", "1", "--no-baseline"],
         ["sweep/trials.jsonl", "sweep/index.html"]),
        (["trace", "run", "-o", "rec", "--", f"{bench.tests}/record/program", "normal"], ["rec/analysis.json"]),
    ]


def check_whole(path):
    """A file is as it was, or whole: no half of one under its name."""
    data = read(path)
    if data == b"old":
        return
    if path.endswith(".gz"):
        data = gzip.decompress(data)
    if path.endswith((".json", ".json.gz")):
        json.loads(data)
    if path.endswith(".html") and not data.rstrip().endswith(b"</html>"):
        raise Wrong(f"{path}: a piece of a page")


def file_call(bench):
    """The Nth call that changes files fails: no space, an error of the disk, a quota, no permission, a server that forgot."""
    commands = file_commands(bench)
    number, which = bench.next("file_call", 60, len(commands))
    command, files = commands[which]
    code = bench.random.choice([errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.ESTALE])
    lasting = bench.random.choice([0, 1])
    for name in [name for name in files if "/" not in name]:
        with open(bench.out(name), "w", encoding="utf-8") as file:
            file.write("old")
    job = Job(bench.folder, [bench.aorta, *command], BOUND_S, {
        "LD_PRELOAD": bench.preload("libfile_strike.so"), "FILE_STRIKE": f"*:{number}:{code}:{lasting}",
        **(bench.recorded() if command[:2] == ["trace", "run"] else {})})
    ended_with = job.wait()
    job.check_left(may_leave_files=True)
    called = re.search(r"strike: (\w+)", job.output())
    attempt = f"{' '.join(command[:2])}, call {number} ({called and called.group(1)}), error {code}"
    missing = [name for name in files if not os.path.exists(bench.out(name)) or read(bench.out(name)) == b"old"]
    if ended_with not in (0, 1, 2) or (ended_with and not called):
        raise Wrong(f"{attempt}: exit {ended_with}: {job.output()[-300:]!r}")
    # The exit code of trace run is its program's: it says what it could not keep.
    if not ended_with and missing and not (command[:2] == ["trace", "run"] and "aorta trace run: cannot" in job.output() and "Verdict: " in job.output()):
        raise Wrong(f"{attempt}: exit 0 without {missing}")
    for name in set(files) - set(missing):
        check_whole(bench.out(name))
    if ended_with:
        job.check_words("aorta", "error: ")
    left = [name for place, _, names in os.walk(bench.folder) for name in names if name.endswith(".tmp")]
    if left and not (lasting or called.group(1) == "unlink"):
        raise Wrong(f"{attempt}: left behind: {left}")
    if not called:
        bench.past_commands.add(which)
        if bench.every and len(bench.past_commands) == len(commands):
            bench.done.add("file_call")
        return "past the last call"
    (bench.harmful if ended_with else bench.harmless).add(called.group(1))
    return f"exit {ended_with}, names what failed" if ended_with else "a call whose failure loses nothing"


def removed_directory(bench):
    ranks, words = bench.random.choice(STRATEGIES)
    job, pid = at_a_moment(bench, ranks, words)
    remove(bench.out())
    code = job.wait()
    job.check_left()
    text = job.output()
    counts = check_lines(bench.out())
    if "was removed during the run" in text and (code != 1 or len(counts) != ranks or set(counts.values()) != {60}):
        raise Wrong(f"exit {code}, lines {counts}: {text[-300:]!r}")
    if code not in (0, 1):
        raise Wrong(f"exit {code}: {text[-300:]!r}")
    if code:
        job.check_words(*SAID)
    return "exit 1, all lines written again" if code and counts else f"exit {code}, before the first or after the last line"


def two_jobs(bench):
    first = bench.train(2)
    time.sleep(bench.random.uniform(0, 2))
    second = bench.train(bench.random.choice([1, 2]))
    codes = [first.wait(), second.wait()]
    first.check_left()
    second.check_left()
    counts = check_lines(bench.out())
    if not set(codes) <= {0, 2} or 0 not in codes or set(counts.values()) != {60}:
        raise Wrong(f"exits {codes}, lines {counts}")
    if 2 in codes and "another job writes into" not in first.output() + second.output():
        raise Wrong(f"exits {codes} without the holder's name")
    return "the second is refused, with the holder's name" if 2 in codes else "one after the other"


def follow_each_other(windows):
    """Windows of a program of 600 steps, named by a time of day that does not jump."""
    starts = [datetime.datetime.strptime(window["window_start"], "%Y-%m-%dT%H:%M:%SZ") for window in windows]
    return sum(window["steps"] for window in windows) > 500 and (max(starts) - min(starts)).total_seconds() < 60


def clock_jumps(bench):
    """The time of day jumps by hours, forth and back, as ntp and people do: nothing waits for it, ends by it or loses by it."""
    libraries = [os.path.join(bench.tests, "..", "lib", "libfaketimeMT.so.1"), *glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")]
    library = next(filter(os.path.exists, libraries), None)
    if not library:
        return "left out: libfaketime is not installed"
    stamp, what = bench.out("offset"), bench.random.choice(["train", "sweep", "trace run", "windows"])
    stop = threading.Event()

    def jump():
        stop.wait(1.5 if what == "windows" else 0)  # the time of day at which a process starts names its windows
        while not stop.wait(0.1):
            with open(stamp + ".new", "w", encoding="utf-8") as file:
                file.write(f"{bench.random.choice('+-')}{bench.random.randint(1, 9)}h")
            os.replace(stamp + ".new", stamp)

    with open(stamp, "w", encoding="utf-8") as file:
        file.write("+0")
    environment = {"LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": stamp, "FAKETIME_NO_CACHE": "1", "NO_FAKE_STAT": "1",
                   "DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    sweep = [bench.aorta, "sweep", "-o", "out", "--config", "tiny.yaml", "--grid", "training.seed=1,2", "--steps", "4", "--repeats", "1",
             "--no-baseline", "-n", "2", "--timeout-s", "60"]
    thread = threading.Thread(target=jump)
    thread.start()
    try:
        if what == "train":
            job = bench.train(2, environment=environment)
        elif what == "sweep":
            job = Job(bench.folder, sweep, 4 * BOUND_S, environment)
        elif what == "windows":
            job = Job(bench.folder, [bench.aorta, "trace", "run", "--every", "1", "--json-lines", "lines", "--", f"{bench.tests}/record/program",
                                     "live", "6"], BOUND_S, {**environment, **bench.recorded()})
        else:
            job = Job(bench.folder, [bench.aorta, "trace", "run", "-o", "rec", "--", f"{bench.tests}/record/program", "layers", "100"], BOUND_S,
                      {**environment, **bench.recorded()})
        code = job.wait()
    finally:
        stop.set()
        thread.join()
    job.check_left()
    whole = {"train": lambda: set(check_lines(bench.out()).values()) == {60}, "sweep": lambda: ": 2 done" in job.output(),
             "windows": lambda: follow_each_other([json.loads(line) for line in read(bench.out("lines")).splitlines()]),
             "trace run": lambda: " 720 kernels and copies" in job.output() and "Verdict: " in job.output()}
    if code or not whole[what]():
        raise Wrong(f"{what}: exit {code}: {job.output()[-300:]!r}")
    return f"{what}: runs to its end, all is whole"


FAULTS = [kill_rank, stop_rank, slow_rank, kill_launcher, interrupt, interrupt_sparse, interrupt_sweep, kill_workload, trace_run, cut_link, port_noise, device_call, device_call_of_two, nccl_call,
          mpi_call, full_disk, file_call, removed_directory, two_jobs, clock_jumps]
