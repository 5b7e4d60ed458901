"""Why does a GPU's communication not overlap with compute? The program `aorta`, from Python.

    with torch.profiler.profile(on_trace_ready=aorta.verdict(), ...) as profiler: ...   ten lines in the log, each cycle
    with aorta.record() as recording: ...                                              the same without that profiler
    aorta.load(path).tables["kernels"]                                                 every table as rows

All analysis is the program's; this package starts it and reads its files.
"""
from ._analysis import Analysis, Table, load
from ._profiler import Verdict, verdict
from ._program import Failed
from ._record import Recording, record

__all__ = ["Analysis", "Failed", "Recording", "Table", "Verdict", "load", "record", "verdict"]
