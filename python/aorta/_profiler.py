"""The verdict of each cycle of PyTorch's profiler, in the log of rank 0."""
from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import stat
import sys
import tempfile
import threading
import time
from typing import Any, Callable, Sequence, TextIO

from ._analysis import Analysis, load
from ._program import Failed

LOOK_S = 0.05       # between two looks for the other ranks' files


def number(*names: str, fallback: int) -> int:
    for name in names:
        text = os.environ.get(name, "")
        if text.isdigit():
            return int(text)
    return fallback


def place() -> tuple[int, int]:
    """(rank, ranks), as torch.distributed says, else torchrun, mpirun or srun."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return (number("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", fallback=0),
            number("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS", fallback=1))


def common_folder() -> str:
    """A folder that all ranks of this machine and nobody else can name: its owner and rights are checked."""
    job = "-".join(os.environ.get(name, "") for name in ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "MASTER_PORT"))
    if place()[1] == 1 or not job.strip("-"):
        return tempfile.mkdtemp(prefix="aorta-")
    tidy = "".join(c if c.isalnum() or c == "-" else "_" for c in job)
    folder = os.path.join(tempfile.gettempdir(), f"aorta-{os.getuid()}-{tidy}-{os.getppid()}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise Failed(f"{folder} is not this user's alone: give verdict() a directory")
    return folder


class Verdict:
    """on_trace_ready of torch.profiler.profile. After each cycle every rank writes its trace, and rank 0 prints the ten
    lines of them all. A thread does this, so that training goes on; `result()` waits for it."""

    def __init__(self, directory: str | None = None, keep: bool | None = None,
                 on_result: Callable[[Analysis], object] | None = None, file: TextIO | None = None,
                 timeout_s: float = 60, options: Sequence[str] = ()) -> None:
        self.directory, self.keep = directory, directory is not None if keep is None else keep
        self.on_result, self.file, self.timeout_s, self.options = on_result, file, timeout_s, options
        self.cycles, self._thread, self._result, self._error = 0, None, None, None

    def __call__(self, profiler: Any) -> None:
        rank, ranks = place()
        self._wait()
        try:
            folder = self._write(profiler, rank)
            if rank == 0:
                thread = threading.Thread(target=self._judge, args=(folder, ranks), name="aorta-verdict")
                thread.start()
                self._thread = thread
        except (OSError, RuntimeError) as error:    # no space, no thread: training goes on
            self._report(error, rank)

    def _say(self, text):
        with contextlib.suppress(OSError, ValueError):  # a full disk, a closed file: training goes on
            print(text, file=self.file or sys.stderr, flush=True)

    def _report(self, error, rank=0):
        self._error = error if isinstance(error, Failed) else Failed(f"{type(error).__name__}: {error}")
        if rank == 0:
            self._say(f"aorta: no verdict: {error}")

    def _write(self, profiler, rank):
        """This rank's trace of the cycle, with a dot before its name until it is whole."""
        if self.directory is None:
            self.directory = common_folder()
            atexit.register(self._remove_empty)
        folder = os.path.join(self.directory, f"cycle{self.cycles}")
        self.cycles += 1
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f"rank{rank}.json")
        if os.path.exists(path):
            raise Failed(f"{path} is of an earlier run: name another directory, or remove it")
        written = os.path.join(folder, f".rank{rank}.json")
        try:
            profiler.export_chrome_trace(written)
            os.replace(written, path)
        except BaseException:   # half a trace would take the space that is missing
            with contextlib.suppress(OSError):
                os.unlink(written)
            raise
        return folder

    def _arrived(self, folder, ranks):
        until = time.monotonic() + self.timeout_s
        while True:
            found = [name for name in os.listdir(folder) if not name.startswith(".")]
            if len(found) >= ranks or time.monotonic() > until:
                return len(found)
            time.sleep(LOOK_S)

    def _judge(self, folder, ranks):
        try:
            arrived = self._arrived(folder, ranks)
            if arrived < ranks:
                self._say(f"aorta: {arrived} of {ranks} ranks have written to {folder}: give verdict() a directory that all "
                          "of them share")
            self._result, self._error = load(folder, options=self.options, timeout=max(self.timeout_s, 60) * 10), None
            self._say(self._result.text)
            if self.on_result:
                self.on_result(self._result)
        except (Failed, OSError, ValueError) as error:
            self._report(error)
        finally:
            if not self.keep:
                shutil.rmtree(folder, ignore_errors=True)

    def _wait(self):
        if self._thread:
            self._thread.join()
            self._thread = None

    def _remove_empty(self):
        self._wait()
        if not self.keep and place()[0] == 0:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __repr__(self) -> str:
        return repr(self._result) if self._result else super().__repr__()

    def _repr_html_(self) -> str | None:
        return self._result._repr_html_() if self._result else None

    def result(self) -> Analysis | None:
        """The Analysis of the last cycle on rank 0; None on all other ranks. Raises the analysis's error, if any."""
        self._wait()
        if self._error:
            raise self._error
        return self._result


def verdict(directory: str | None = None, keep: bool | None = None,
            on_result: Callable[[Analysis], object] | None = None, file: TextIO | None = None, timeout_s: float = 60,
            options: Sequence[str] = ()) -> Verdict:
    """torch.profiler.profile(on_trace_ready=aorta.verdict()).

    directory: where all ranks write their traces; it must be shared by several nodes. None: a folder in the temporary
    directory of the machine, for ranks of one node. keep: whether traces stay (where a directory is named).
    on_result: called with each Analysis, on a thread. file: where the lines go (stderr). timeout_s: how long rank 0
    waits for the other ranks' files. options: more of `aorta trace analyze`.
    """
    return Verdict(directory, keep, on_result, file, timeout_s, options)
