"""What `aorta trace analyze` says, as plain Python values."""
from __future__ import annotations

import csv
import html
import json
import os
import re
import shlex
import sys
import tempfile
from typing import Any, Sequence

from ._program import Failed, failures, run
from ._view import html_of

UNIT = re.compile(r"^(.*) \[(.*)\]$")   # "busbw_gbps [GB/s]"
NAMES = re.compile(r"^(name|kernel|op|module|next|host_call|host_range|group.*|kind|cause|dims|types)$")
# What a column's name says where its heading has no unit.
SUFFIXES = (("_ms", "ms"), ("_us", "us"), ("_ns", "ns"), ("ms_per_step", "ms"), ("count_per_step", "per step"), ("_percent", "%"),
            ("bytes", "bytes"), ("bytes_each", "bytes"), ("share", "share"), ("share_of_peak", "share"), ("count", "count"),
            ("ratio", "share"), ("slowdown", "times"), ("imbalance", "times"))


def unit_of(column: str, rows: list[dict[str, Any]]) -> str:
    """"text" of names, "number" of what is only counted or numbered."""
    last = column.split(".")[-1]
    if column.split(".")[0].endswith("_ms") or column == "ms" or column.endswith("_ms_per_step"):
        return "ms"
    for suffix, unit in SUFFIXES:
        if last.endswith(suffix):
            return unit
    values = [row[column] for row in rows if row[column] is not None]
    return "text" if NAMES.match(column) or any(isinstance(value, str) for value in values) else "number"


def value_of(text: str, column: str) -> Any:
    """A cell of a CSV file: int, float, bool, None for an empty one, else str."""
    if text == "":
        return None
    if NAMES.match(column):
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return {"true": True, "false": False}.get(text, text)


def package(name: str, call: str) -> Any:
    try:
        return __import__(name)
    except ImportError:
        raise Failed(f"{call} needs the package {name}: pip install {name}") from None


SHOWN = 10


class Table(list):
    """Rows as dicts; `columns` in their order, `units` of each: "ms", "GB/s", "text", "number"."""

    def __init__(self, name: str, columns: list[str], units: dict[str, str], rows: list[dict[str, Any]]) -> None:
        super().__init__(rows)
        self.name, self.columns = name, columns
        self.units = {column: units.get(column) or unit_of(column, rows) for column in columns}

    def __repr__(self) -> str:
        return f"<aorta.Table {self.name}: {len(self)} rows of {len(self.columns)} columns>"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(column)}<br><small>{html.escape(self.units[column])}</small></th>"
                       for column in self.columns)
        body = "".join("<tr>" + "".join(f"<td>{html.escape('' if row[column] is None else str(row[column]))}</td>"
                                        for column in self.columns) + "</tr>" for row in self[:SHOWN])
        left = f"<p>{len(self) - SHOWN} more rows</p>" if len(self) > SHOWN else ""
        return f"<table><caption>{html.escape(self.name)}</caption><tr>{head}</tr>{body}</table>{left}"

    def pandas(self) -> Any:
        return package("pandas", ".pandas()").DataFrame(list(self), columns=self.columns)

    def arrow(self) -> Any:
        rows = {column: [row[column] for row in self] for column in self.columns}
        return package("pyarrow", ".arrow()").table(rows)


def read_table(file: str) -> Table:
    name = os.path.splitext(os.path.basename(file))[0]
    csv.field_size_limit(sys.maxsize)   # names of kernels have any length
    with open(file, newline="", encoding="utf-8", errors="replace") as stream:
        lines = csv.reader(stream)
        heads = next(lines, [])
        matches = [UNIT.match(head) for head in heads]
        columns = [match.group(1) if match else head for head, match in zip(heads, matches)]
        units = {column: match.group(2) for column, match in zip(columns, matches) if match}
        rows = [{column: value_of(cell, column) for column, cell in zip(columns, line)} for line in lines]
    return Table(name, columns, units, rows)


class Analysis:
    """`text`: the ten lines. `verdict`: its rows, largest gain first. `data`: all that --json has. `tables`: by name."""

    def __init__(self, text: str, data: dict[str, Any], tables: dict[str, Table]) -> None:
        self.text, self.data, self.tables = text, data, tables
        self.verdict = data["verdict"]

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_of(self.data["verdict_view"])

    def __getitem__(self, key: str) -> Any:
        return self.data[key]


@failures()
def load(*paths: str | os.PathLike[str], options: str | Sequence[str] = (), timeout: float | None = None) -> Analysis:
    """Analyses traces, a folder of them, or the directory of a run.

    options: options of `aorta trace analyze`, as words or as a text that a shell would split; not --json, --markdown, -o
    and --csv, as the analysis has what those write. timeout: seconds.
    """
    words = shlex.split(options) if isinstance(options, str) else map(str, options or ())
    with tempfile.TemporaryDirectory(prefix="aorta-") as folder:
        output, csv_folder = os.path.join(folder, "analysis.json"), os.path.join(folder, "csv")
        run("trace", "analyze", "-q", "-o", output, "--csv", csv_folder, *words, "--", *map(os.fspath, paths), timeout=timeout)
        if not os.path.isfile(output) or not os.path.isdir(csv_folder):
            raise Failed("the program wrote no analysis: -o, --csv and --help are not for `options`")
        with open(output, encoding="utf-8", errors="replace") as stream:
            data = json.load(stream)
        files = sorted(os.listdir(csv_folder))
        tables = [read_table(os.path.join(csv_folder, file)) for file in files if file.endswith(".csv")]
    return Analysis(data["verdict_view"]["text"].strip("\n"), data, {table.name: table for table in tables})
