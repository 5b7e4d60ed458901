"""Records some steps of this process: kernels, copies and launches by CUPTI, without PyTorch's profiler."""
from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import sys
import tempfile
from typing import Sequence

from ._analysis import Analysis, load
from ._program import Failed, failures, library

REASONS = {errno.EBUSY: "this process is being recorded already (aorta.record, or aorta trace run)",
           errno.ETIMEDOUT: "CUPTI does not answer; what is written so far is kept"}


def synchronize() -> None:
    """Waits for the device, so that all of its work has an end; where CUDA never began there is nothing to wait for."""
    torch = sys.modules.get("torch")
    if torch is not None:
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.synchronize()
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW).cuCtxSynchronize()


def check(code: int, folder: str) -> None:
    if code:
        raise Failed(f"{folder}: " + REASONS.get(code, os.strerror(code)))


class Recording:
    """`with aorta.record() as recording: …`, then recording.analysis, and print(recording) for the ten lines."""

    def __init__(self, directory: str | None = None, options: Sequence[str] = ()) -> None:
        self.directory, self.options = directory, options
        self._kept, self._analysis, self._inject = directory is not None, None, None

    @failures()
    def start(self) -> Recording:
        self._inject = ctypes.CDLL(library(), mode=os.RTLD_NOW | os.RTLD_LOCAL)
        if self._kept:
            os.makedirs(self.directory, exist_ok=True)
            if any(name.endswith(".spool") for name in os.listdir(self.directory)):
                raise Failed(f"{self.directory} holds a recording: name another directory, or remove it")
        else:
            self.directory = tempfile.mkdtemp(prefix="aorta-")
        synchronize()
        check(self._inject.aorta_record_begin(os.fsencode(self.directory)), self.directory)
        return self

    @failures()
    def stop(self) -> None:
        if self._inject is None:
            raise Failed("the recording was not started")
        synchronize()
        code = self._inject.aorta_record_end()
        if code != errno.ESRCH:     # it ended on its own, and the records have the reason
            check(code, self.directory)

    @property
    def analysis(self) -> Analysis:
        if self._inject is None:
            raise Failed("the recording was not started")
        if self._analysis is None:
            try:
                self._analysis = load(self.directory, options=self.options)
            finally:
                if not self._kept:
                    shutil.rmtree(self.directory, ignore_errors=True)
        return self._analysis

    def __str__(self) -> str:
        return str(self.analysis)

    def __repr__(self) -> str:
        return f"<aorta.Recording of {self.directory or 'nothing yet'}>"

    def _repr_html_(self) -> str:
        return self.analysis._repr_html_()

    def __enter__(self) -> Recording:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()


def record(directory: str | None = None, options: Sequence[str] = ()) -> Recording:
    """Records what the process does in the block. `directory`: where to keep the records (else they are analysed when
    asked for, and removed). `options`: more of `aorta trace analyze`."""
    return Recording(directory, options)
