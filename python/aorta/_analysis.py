"""The results of `aorta trace analyze` as plain Python values."""
import csv
import json
import os
import re
import shlex
import sys
import tempfile

from ._program import Failed, failures, run
from ._view import html_of

UNIT = re.compile(r"^(.*) \[(.*)\]$")   # "busbw_gbps [GB/s]"
NAMES = re.compile(r"^(name|kernel|op|module|next|host_call|host_range|group.*|kind|cause|dims|types)$")


def value_of(text, column):
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


class Table(list):
    """Rows as dicts; `columns` in their order, `units` of those that have one."""

    def __init__(self, name, columns, units, rows):
        super().__init__(rows)
        self.name, self.columns, self.units = name, columns, units

    def pandas(self):
        import pandas
        return pandas.DataFrame(list(self), columns=self.columns)

    def arrow(self):
        import pyarrow
        return pyarrow.table({column: [row[column] for row in self] for column in self.columns})


def read_table(file):
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

    def __init__(self, text, data, tables):
        self.text, self.data, self.tables = text, data, tables
        self.verdict = data["verdict"]

    def __str__(self):
        return self.text

    __repr__ = __str__

    def _repr_html_(self):
        return html_of(self.data["verdict_view"])

    def __getitem__(self, key):
        return self.data[key]


@failures()
def load(*paths, options=(), timeout=None):
    """Analyses traces, a folder of them, or the directory of a run.

    options: options of `aorta trace analyze`, as words or as a text that a shell would split; not --json, --markdown, -o
    and --csv, as the analysis has what those write. timeout: seconds.
    """
    words = shlex.split(options) if isinstance(options, str) else map(str, options or ())
    with tempfile.TemporaryDirectory(prefix="aorta-") as folder:
        output, csv_folder = os.path.join(folder, "analysis.json"), os.path.join(folder, "csv")
        text = run("trace", "analyze", "-q", "-o", output, "--csv", csv_folder, *words, "--", *map(os.fspath, paths),
                   timeout=timeout)
        if not os.path.isfile(output) or not os.path.isdir(csv_folder):
            raise Failed("the program wrote no analysis: -o, --csv and --help are not for `options`")
        with open(output, encoding="utf-8", errors="replace") as stream:
            data = json.load(stream)
        files = sorted(os.listdir(csv_folder))
        tables = [read_table(os.path.join(csv_folder, file)) for file in files if file.endswith(".csv")]
    return Analysis(text.strip("\n"), data, {table.name: table for table in tables})
