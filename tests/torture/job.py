"""A job of ours in a folder of its own, and what every job must leave behind whatever happened to it."""
import fcntl
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import time

MARK = "AORTA_TORTURE"
OF_KILLED = ("aorta-launch-", "aorta-trace-")
# What a terminal would act on: controls but for tab and line feed, C1, and halves of UTF-8 are never printed raw.
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\udc80-\udcff]")


class Wrong(Exception):
    """What an attempt found that must not be."""


class Job:
    """Starts a command with its own TMPDIR and session; `limit_s` bounds its life whatever it does."""

    def __init__(self, folder, command, limit_s, environment=None, before=None):
        self.folder, self.command, self.limit_s = folder, command, limit_s
        self.temporary = os.path.join(folder, "tmp")
        os.makedirs(self.temporary, exist_ok=True)
        self.mark = f"{os.getpid()}.{time.monotonic_ns()}"
        self.shared = set(shared_memory())
        self.environment = {**os.environ, **(environment or {}), "TMPDIR": self.temporary, MARK: self.mark,
                            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}
        self.output_path = os.path.join(folder, "output")
        with open(self.output_path, "wb") as output:
            self.started = time.monotonic()
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=folder,
                                            env=self.environment, start_new_session=True, preexec_fn=before)

    def elapsed(self):
        return time.monotonic() - self.started

    def running(self):
        return self.process.poll() is None

    def wait(self):
        """The exit code; Wrong when the job outlives its limit."""
        try:
            code = self.process.wait(max(0.1, self.limit_s - self.elapsed()))
        except subprocess.TimeoutExpired:
            state = ", ".join(f"{pid} {command_of(pid)[:60]}" for pid in self.processes())
            self.end()
            raise Wrong(f"still running after {self.limit_s:.0f} s: {state}") from None
        return code if code >= 0 else 128 - code

    def end(self):
        for pid in self.processes():
            send(pid, signal.SIGCONT)
            send(pid, signal.SIGKILL)
        self.process.wait()

    def processes(self):
        """All processes with this job's mark, whatever their parent is."""
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdigit() and f"{MARK}={self.mark}".encode() in read(f"/proc/{entry}/environ").split(b"\0"):
                if state_of(int(entry)) not in ("Z", "X", ""):
                    found.append(int(entry))
        return found

    def ranks(self, word="train"):
        """Processes of the program under test by rank, once they are that program."""
        found = {}
        for pid in self.processes():
            words = read(f"/proc/{pid}/cmdline").split(b"\0")
            variables = dict(pair.split(b"=", 1) for pair in read(f"/proc/{pid}/environ").split(b"\0") if b"=" in pair)
            if len(words) > 1 and words[1] == word.encode() and os.path.basename(words[0]) == b"aorta":
                found[int(variables.get(b"RANK", variables.get(b"OMPI_COMM_WORLD_RANK", b"0")))] = pid
        return found

    def output(self):
        with open(self.output_path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()

    def check_left(self, may_leave_files=False):
        """No process, file or shared memory is left; of a command that was killed, its folders."""
        until = time.monotonic() + 5
        while self.processes() and time.monotonic() < until:
            time.sleep(0.02)
        left = self.processes()
        if left:
            names = ", ".join(f"{pid} {command_of(pid)[:60]}" for pid in left)
            self.end()
            raise Wrong(f"processes left: {names}")
        while (segments := self.segments(may_leave_files)) and time.monotonic() < until + 5:
            time.sleep(0.1)  # other jobs of this machine make and unlink theirs
        if segments:
            raise Wrong(f"shared memory left: {', '.join(segments)}")
        own = ("aorta-rescued-", *(OF_KILLED if may_leave_files else ()))
        files = [name for name in os.listdir(self.temporary) if not name.startswith(own)]
        if files:
            raise Wrong(f"files left in TMPDIR: {', '.join(files[:4])}")

    def segments(self, may_leave_files):
        """Shared memory that came since the start and that nobody has mapped or locked."""
        left = [name for name in shared_memory() if name not in self.shared and not mapped(name) and not locked(name)]
        left = [name for name in left if os.path.exists(name) and not (may_leave_files and os.path.basename(name).startswith(OF_KILLED))]
        for name in left:
            if "aorta-fake-nccl" in name:  # of the tests' library, where a communicator never was complete
                os.unlink(name)
        return [name for name in left if "aorta-fake-nccl" not in name]

    def check_words(self, *parts):
        """Something was said, nothing of it raw, and one of `parts` with it."""
        text = self.output()
        if RAW.search(text):
            raise Wrong(f"printed raw: {text[max(0, RAW.search(text).start() - 40):][:80]!r}")
        if "Sanitizer" in text or "runtime error:" in text:
            raise Wrong("a sanitizer's report")
        if parts and not any(part in text for part in parts):
            raise Wrong(f"none of {parts} was said: {text[-300:]!r}")


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def state_of(pid):
    text = read(f"/proc/{pid}/stat").rsplit(b")", 1)[-1].split()
    return text[0].decode() if text else ""


def command_of(pid):
    return read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace")


def send(pid, number):
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


def shared_memory():
    return glob.glob("/dev/shm/*")


def mapped(name):
    return any(name.encode() in read(f"/proc/{pid}/maps") for pid in os.listdir("/proc") if pid.isdigit())


def locked(name):
    """A launcher's folder, as long as the launcher lives."""
    try:
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(folder)
    return False


def check_lines(directory, least=0, killed=False):
    """Every line of every rank is whole, and no step is missing. Returns steps by rank. A write that SIGKILL ends in the middle
    leaves half a last line, which readers leave out (docs/metrics-format.md)."""
    steps = {}
    for path in sorted(glob.glob(os.path.join(directory, "rank_*_metrics.jsonl"))):
        data = read(path)
        if killed:
            data = data[:data.rfind(b"\n") + 1]
        if data and not data.endswith(b"\n"):
            raise Wrong(f"{os.path.basename(path)}: the last line is torn")
        for number, line in enumerate(data.splitlines()):
            try:
                step = json.loads(line)["global_step"]
            except (ValueError, KeyError) as error:
                raise Wrong(f"{os.path.basename(path)}: line {number + 1}: {error}") from None
            if step != number:
                raise Wrong(f"{os.path.basename(path)}: line {number + 1} is step {step}")
        steps[path] = len(data.splitlines())
    if any(count < least for count in steps.values()):
        raise Wrong(f"{least} steps were reported, files hold {sorted(steps.values())}")
    return steps


def reported_steps(text):
    """Steps that the log said were done."""
    return max([int(number) for number in re.findall(r"step (\d+) of \d+: loss", text)], default=0)


def remove(folder):
    shutil.rmtree(folder, ignore_errors=True)
