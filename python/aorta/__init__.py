"""Why does a GPU's communication not overlap with compute? The program `aorta`, from Python.

    with torch.profiler.profile(on_trace_ready=aorta.verdict(), ...) as profiler: ...   ten lines in the log, each cycle
    with aorta.record() as recording: ...                                              the same without that profiler
    aorta.load(path).tables["kernels"]                                                 every table as rows

All analysis is the program's; this package starts it and reads its files.
"""
from ._analysis import Analysis, Table, load
from ._profiler import Verdict, verdict
from ._program import Failed, version
from ._record import Recording, record

__all__ = ["Analysis", "Failed", "Recording", "Table", "Verdict", "load", "record", "verdict"]


def __getattr__(name: str) -> str:
    """`aorta.__version__` is the program's, asked for when it is needed."""
    if name == "__version__":
        return version()
    raise AttributeError(f"module 'aorta' has no attribute {name!r}")
