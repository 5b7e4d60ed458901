"""Finds and runs the program `aorta` that is installed with this package."""
from __future__ import annotations

import contextlib
import functools
import os
import re
import subprocess
import sys
from typing import NoReturn

HERE = os.path.dirname(os.path.abspath(__file__))


class Failed(RuntimeError):
    """The program failed; the message is its output. All other failures are of this class, too."""


@contextlib.contextmanager
def failures():
    """Whatever fails in it is a Failed; also a decorator: @failures()."""
    try:
        yield
    except Failed:
        raise
    except Exception as error:
        raise Failed(f"{type(error).__name__}: {error}") from error


def path() -> str:
    """Where the program is: AORTA_PROGRAM, else the one that was installed with this package."""
    program = os.environ.get("AORTA_PROGRAM") or os.path.join(HERE, "bin", "aorta")
    if not os.access(program, os.X_OK):
        raise Failed(f"{program} is not a program; install the wheel again, or name one in AORTA_PROGRAM")
    return program


def library() -> str:
    """The library that records this process."""
    beside = os.path.dirname(path())
    for folder in ("../lib", ".", "../lib/aorta/record"):
        file = os.path.join(beside, folder, "libaorta_inject.so")
        if os.path.exists(file):
            return file
    raise Failed(f"libaorta_inject.so is not near {path()}: install the wheel again")


def become(*arguments: str) -> NoReturn:
    """Goes on as the program, with these arguments."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(path(), ["aorta", *arguments])


def main() -> NoReturn:
    become(*sys.argv[1:])


@functools.lru_cache(maxsize=None)
def version() -> str:
    """The program's, "0.1.0"."""
    found = re.search(r"\d+(\.\d+)+", run("--version"))
    return found.group() if found else "unknown"


@failures()
def run(*arguments: str, timeout: float | None = None) -> str:
    """What the program prints. Failed where it fails or takes more than `timeout` seconds."""
    try:
        done = subprocess.run([path(), *arguments], capture_output=True, text=True, errors="replace", timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failed(f"aorta {arguments[0]} took more than {timeout} s") from None
    if done.returncode != 0:
        raise Failed(done.stderr.strip() or f"aorta {arguments[0]} ended with status {done.returncode}")
    return done.stdout
