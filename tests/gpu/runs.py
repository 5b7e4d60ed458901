"""Shared by people.py, unrecorded.py, pairs.py and many.py: programs that wait for their turn, whole process trees that end,
rows that are written as they are measured, and recordings that are packed.
"""
import concurrent.futures
import io
import json
import lzma
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
import traceback

LARGEST_PACK, PACKS = 14_000_000, 6
LARGEST_RECORDING = 160 << 20   # before it is packed


def read_json(path):
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write_json(path, content):
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
    os.replace(path + ".new", path)


# ---- processes ----

def descendants(ancestor):
    """All processes below this one, as torchrun gives each rank a session that killpg does not reach."""
    children = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                children.setdefault(int(file.read().rpartition(")")[2].split()[1]), []).append(int(entry))
        except OSError:
            continue
    found = [ancestor]
    for process in found:
        found += children.get(process, [])
    return found[1:]


def end(process):
    """Ends the process and all that it started."""
    below = descendants(process.pid) if process.poll() is None else []
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    for one in below:
        try:
            os.kill(one, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()


def run(command, env, log, seconds):
    """Its exit status, None where it was ended after `seconds`."""
    with open(log, "w", encoding="utf-8") as output:
        process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                   start_new_session=True)
        try:
            return process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            end(process)


PORTS = set()  # torchrun takes its port seconds after it was chosen


def free_port():
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port not in PORTS:
            PORTS.add(port)
            return port


def torchrun(ranks, words):
    """The command for this many processes of a script."""
    found = shutil.which("torchrun")
    return [*([found] if found else [sys.executable, "-m", "torch.distributed.run"]), "--nproc_per_node", str(ranks),
            "--master_addr", "127.0.0.1", "--master_port", str(free_port()), *words]


def last_lines(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    errors = [line for line in lines if "Error: " in line and "ChildFailedError" not in line]
    return errors[-1][-400:] if errors else " | ".join(lines[-3:])[-400:]


class Started:
    """A program in a process of its own that has imported what it needs and waits until the file `gate` exists: imports of
    several run at the same time, and nothing else runs while one is measured. Each rank says by gate.readyRANK that it waits.
    """

    def __init__(self, command, gate, ranks=1, env=None):
        self.gate, self.ranks, self.log = gate, ranks, gate + ".log"
        with open(self.log, "w", encoding="utf-8") as output:
            self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                            start_new_session=True)

    def ready(self):
        return all(os.path.exists(f"{self.gate}.ready{rank}") for rank in range(self.ranks))

    def wait_ready(self, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None and not self.ready():
            time.sleep(0.05)

    def finish(self, seconds):
        """Its exit status, or None when it was ended after `seconds`; then its output."""
        write_json(self.gate, {})
        try:
            status = self.process.wait(timeout=max(1, seconds))
        except subprocess.TimeoutExpired:
            status = None
        end(self.process)
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return status, file.read()

    def end(self):
        end(self.process)


# ---- rows ----

class Visit:
    """What a script finds in a limited time: OUT/NAME.jsonl has a line per row, OUT/NAME.txt what was printed."""

    def __init__(self, name, out, seconds):
        self.name, self.out, self.begin, self.seconds = name, out, time.monotonic(), seconds
        self.rows, self.lock = [], threading.Lock()
        os.makedirs(out, exist_ok=True)
        for path in (f"{name}.jsonl", f"{name}.txt"):
            with open(os.path.join(out, path), "w", encoding="utf-8"):
                pass

    def left(self):
        return self.begin + self.seconds - time.monotonic()

    def append(self, name, text):
        with self.lock, open(os.path.join(self.out, name), "a", encoding="utf-8") as file:
            file.write(text + "\n")

    def say(self, text):
        print(text, flush=True)
        self.append(f"{self.name}.txt", text)

    def row(self, **figures):
        self.rows.append(figures)
        self.append(f"{self.name}.jsonl", json.dumps(figures))

    def part(self, name, function, least):
        """Runs a part where `least` seconds are left; its failure is printed and stops nothing else."""
        if self.left() < least:
            self.say(f"== {name}: left out: {max(0, self.left()):.0f} s are left, it needs {least}")
            self.row(part=name, left_out="no time")
            return
        self.say(f"== {name}")
        begin = time.monotonic()
        try:
            function(self)
        except Exception as error:  # pylint: disable=broad-except
            self.say(f"{name} FAILED: {type(error).__name__}: {error}")
            self.append(f"{self.name}.txt", traceback.format_exc())
            self.row(part=name, failed=f"{type(error).__name__}: {error}")
        self.say(f"   {name}: {time.monotonic() - begin:.0f} s")


def table(head, rows):
    """Lines of a table with aligned columns."""
    cells = [[str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in cells]


# ---- packing ----

def fragment(work, name, largest):
    """A folder as the packed part of a tar file: such parts may follow each other."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        tar.add(os.path.join(work, name), name)
        size = tar.offset  # the end of its members, before the marks of a tar's end
    if size > LARGEST_RECORDING:
        return None, f"{size >> 20} MB"
    packed = lzma.compress(plain.getvalue()[:size], preset=4)
    return (packed, None) if len(packed) < largest else (None, f"{len(packed) >> 20} MB packed")


def pack(work, names, out, title, largest=LARGEST_PACK, most=PACKS):
    """Folders by importance, into as many files OUT/TITLE-N.tar.xz as are allowed; lines about what is left out."""
    last, packs, left_out = lzma.compress(bytes(1024), preset=0), [[] for _ in range(most)], []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, (packed, why) in zip(names, pool.map(lambda name: fragment(work, name, largest), names)):
            into = packed and next((p for p in packs if sum(map(len, p)) + len(packed) + len(last) <= LARGEST_PACK), None)
            if into is None:
                left_out.append(f"{name}: recording: {why or 'no place'}")
                continue
            into.append(packed)
    for number, parts in enumerate(packs, 1):
        if parts:
            with open(os.path.join(out, f"{title}-{number}.tar.xz"), "wb") as file:
                file.writelines([*parts, last])
    return left_out


def unpack(folder, work):
    for file in sorted(os.listdir(folder)):
        if file.endswith(".tar.xz"):
            with tarfile.open(os.path.join(folder, file)) as tar:
                tar.extractall(work, filter="data")
