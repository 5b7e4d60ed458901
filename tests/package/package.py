"""The Python package, from the sources and out of a wheel, with a program that was just built.

    package.py SOURCE AORTA FAKE_CUPTI FAKE_CUDA_FOLDER
"""
import base64
import contextlib
import ctypes
import errno
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import zipfile
from html import unescape

SOURCE, AORTA, FAKE_CUPTI, FAKE_CUDA = sys.argv[1:5]
TRACES = [os.path.join(SOURCE, f"tests/trace/data/fsdp2_rank{rank}.json") for rank in range(2)]
os.environ["AORTA_PROGRAM"] = AORTA
sys.path.insert(0, os.path.join(SOURCE, "python"))
sys.dont_write_bytecode = True

import aorta  # noqa: E402


def python(code, package=os.path.join(SOURCE, "python"), **variables):
    environment = dict(os.environ, PYTHONPATH=package, PYTHONDONTWRITEBYTECODE="1", **variables)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60)


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="aorta-package-")
        self.addCleanup(shutil.rmtree, self.folder)


class Loading(Folder):
    def test_what_the_program_says(self):
        analysis = aorta.load(*TRACES)
        reported = subprocess.run([AORTA, "trace", "analyze", "--json", *TRACES], capture_output=True, check=True)
        self.assertEqual(analysis.data, json.loads(reported.stdout))
        self.assertEqual(analysis.verdict, analysis["verdict"])
        self.assertTrue(str(analysis).startswith("Verdict: "))

    def test_every_failure_is_failed(self):
        missing = os.path.join(self.folder, "missing")
        broken = os.path.join(self.folder, "program")
        with open(broken, "w", encoding="utf-8") as file:
            file.write("\x7fELF")
        os.chmod(broken, 0o755)
        calls = {
            "a null": lambda: aorta.load("a\0b"),
            "a list that is too long": lambda: aorta.load(*["x" * 4000] * 2000),
            "no path": lambda: aorta.load(5),
            "--output": lambda: aorta.load(TRACES[0], options=["-o", os.path.join(self.folder, "mine.json")]),
            "--csv": lambda: aorta.load(TRACES[0], options=["--csv", os.path.join(self.folder, "mine")]),
            "--help": lambda: aorta.load(TRACES[0], options=["--help"]),
            "a text of options that does not end": lambda: aorta.load(TRACES[0], options="--top '3"),
            "no recording": lambda: aorta.record().analysis,
            "no recording to stop": lambda: aorta.record().stop(),
        }
        for what, call in calls.items():
            with self.subTest(what), self.assertRaises(aorta.Failed):
                call()
        for program in (broken, "/bin/true"):
            with unittest.mock.patch.dict(os.environ, AORTA_PROGRAM=program), self.assertRaises(aorta.Failed):
                aorta.load(TRACES[0])
        with unittest.mock.patch.object(tempfile, "tempdir", missing):
            with self.assertRaises(aorta.Failed):
                aorta.load(TRACES[0])
            with self.assertRaises(aorta.Failed):
                aorta.record().start()

    def test_names_of_any_length(self):
        path = os.path.join(self.folder, "long.json")
        work = {"ph": "X", "cat": "kernel", "name": "k" * 200000, "pid": 0, "tid": 7, "ts": 1, "dur": 2,
                "args": {"device": 0, "stream": 7}}
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": [work]}, file)
        self.assertEqual(len(aorta.load(path).tables["kernels"][0]["name"]), 200000)

    def test_a_name_like_an_option_is_a_file(self):
        shutil.copy(TRACES[0], os.path.join(self.folder, "--help"))
        former = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, former)
        self.assertTrue(str(aorta.load("--help")).startswith("Verdict: "))

    def test_options(self):
        plain = set(aorta.load(*TRACES).tables)
        for options, more in ((["--top", 3], 0), (("--by", "op"), 1), ("--by op --recover", 1), (iter(["--recover"]), 0),
                              (None, 0), (["-q"], 0)):
            analysis = aorta.load(*TRACES, options=options)
            self.assertTrue(str(analysis).startswith("Verdict: "), options)
            self.assertEqual(len(set(analysis.tables) - plain), more, options)

    def test_the_view_is_the_terminals(self):
        """repr and HTML: the same parts in the same order; texts of files are escaped."""
        analysis = aorta.load(*TRACES)
        plain = re.sub(r"^ +[#.]{10} ", "", analysis.text, flags=re.M).split()
        self.assertEqual(repr(analysis), analysis.text)
        html, view = analysis._repr_html_(), analysis["verdict_view"]
        words = unescape(re.sub(r"<[^>]*>", " ", html)).split()
        heads = ["share", "of", "step", "gain", "alone"]
        self.assertGreater(len(view["blocks"]), 0)
        self.assertEqual([word for word in words if word not in heads], [word for word in plain if word not in heads])
        view["blocks"][0]["worst"] = "<script>x()</script>"
        self.assertNotIn("<script>", analysis._repr_html_())

    def test_tables_are_typed(self):
        tables = aorta.load(*TRACES).tables
        self.assertEqual([row["rank"] for row in tables["ranks"]], [0, 1])
        row = tables["collectives"][0]
        self.assertIsInstance(row["kind"], str)
        self.assertIsInstance(row["count"], int)
        self.assertIsInstance(row["total_ms"], float)
        self.assertEqual(tables["collectives"].units["busbw_gbps"], "GB/s")
        self.assertEqual(list(row), tables["collectives"].columns)

    def test_every_column_has_a_unit(self):
        tables = aorta.load(*TRACES).tables
        for table in tables.values():
            self.assertEqual(sorted(table.units), sorted(table.columns))
        units = tables["gaps"].units
        self.assertEqual([units[column] for column in ("duration_ms", "parts_ms.data_wait", "cause", "step")],
                         ["ms", "ms", "text", "number"])
        self.assertEqual(tables["kernels"].units["share"], "share")

    def test_what_a_notebook_shows_of_a_table(self):
        table = aorta.load(*TRACES).tables["kernels"]
        self.assertRegex(repr(table), r"<aorta.Table kernels: \d+ rows of \d+ columns>")
        self.assertIn("<th>total_ms<br><small>ms</small></th>", table._repr_html_())
        self.assertIn("more rows", table._repr_html_())
        self.assertNotIn("<Elementwise", table._repr_html_())

    def test_version(self):
        reported = subprocess.run([AORTA, "--version"], capture_output=True, text=True, check=True).stdout
        self.assertIn(aorta.__version__, reported)
        with self.assertRaises(AttributeError):
            aorta.no_such_thing

    def test_a_missing_package_is_named(self):
        with unittest.mock.patch.dict(sys.modules, {"pandas": None, "pyarrow": None}):
            table = aorta.load(*TRACES).tables["ranks"]
            with self.assertRaisesRegex(aorta.Failed, "pip install pandas"):
                table.pandas()
            with self.assertRaisesRegex(aorta.Failed, "pip install pyarrow"):
                table.arrow()

    def test_the_notebook_runs(self):
        with open(os.path.join(SOURCE, "examples", "recording.ipynb"), encoding="utf-8") as stream:
            cells = [cell for cell in json.load(stream)["cells"] if cell["cell_type"] == "code"]
        code = "\n".join("".join(cell["source"]) for cell in cells)
        done = python(code, AORTA_NOTEBOOK_TRACES=":".join(TRACES))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"0 all_gather [0-9.]+ ms")

    def test_what_cannot_be_read_is_the_programs_error(self):
        with self.assertRaisesRegex(aorta.Failed, "nowhere.json"):
            aorta.load("nowhere.json")


class Profiler:
    """As torch.profiler.profile: writes a trace where it is reported to."""

    def __init__(self, trace):
        self.trace = trace

    def export_chrome_trace(self, path):
        shutil.copy(self.trace, path)


class FullDisk(Profiler):
    """Half of the trace fits."""

    def export_chrome_trace(self, path):
        with open(self.trace, "rb") as whole, open(path, "wb") as half:
            half.write(whole.read(1000))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


class Verdicts(Folder):
    """Rank 0 and rank 1 share a folder; each writes its trace, then rank 0 prints.

        rank 1   write cycle0/rank1.json ────┐
        rank 0   write cycle0/rank0.json     └─ both there: analyse, print, remove
    """

    def rank(self, rank, ranks=2, **options):
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks))
        self.addCleanup(lambda: [os.environ.pop(name, None) for name in ("RANK", "WORLD_SIZE")])
        return aorta.verdict(self.folder, file=self.log, **options)

    def setUp(self):
        super().setUp()
        self.log = io.StringIO()

    def test_ten_lines_of_all_ranks(self):
        got = []
        self.rank(1, keep=False)(Profiler(TRACES[1]))
        verdict = self.rank(0, keep=False, on_result=got.append)
        verdict(Profiler(TRACES[0]))
        analysis = verdict.result()
        self.assertEqual(analysis.text, aorta.load(*TRACES).text)
        self.assertEqual(self.log.getvalue().strip(), analysis.text.strip())
        self.assertEqual(repr(verdict), analysis.text)
        self.assertEqual(verdict._repr_html_(), analysis._repr_html_())
        self.assertEqual(got, [analysis])
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_late_rank_is_waited_for(self):
        verdict = self.rank(0, timeout_s=30)
        verdict(Profiler(TRACES[0]))
        time.sleep(0.2)
        late = threading.Thread(target=shutil.copy, args=(TRACES[1], os.path.join(self.folder, "cycle0", "rank1.json")))
        late.start()
        self.assertEqual(len(verdict.result().data["ranks"]), 2)
        late.join()

    def test_a_missing_rank_is_said(self):
        verdict = self.rank(0, timeout_s=0.2)
        verdict(Profiler(TRACES[0]))
        self.assertEqual(len(verdict.result().data["ranks"]), 1)
        self.assertIn("1 of 2 ranks", self.log.getvalue())

    def test_a_broken_trace_is_said_and_training_goes_on(self):
        broken = os.path.join(self.folder, "broken")
        with open(broken, "w", encoding="utf-8") as file:
            file.write("{")
        verdict = self.rank(0, ranks=1)
        verdict(Profiler(broken))
        with self.assertRaises(aorta.Failed):
            verdict.result()
        self.assertIn("no verdict: ", self.log.getvalue())
        verdict(Profiler(TRACES[0]))                        # the next cycle
        self.assertEqual(len(verdict.result().data["ranks"]), 1)

    def test_traces_of_an_earlier_run_are_not_mixed_in(self):
        self.rank(0, ranks=1)(Profiler(TRACES[0]))
        verdict = self.rank(0, ranks=1)                     # the next run, the same directory
        verdict(Profiler(TRACES[0]))
        with self.assertRaisesRegex(aorta.Failed, "of an earlier run"):
            verdict.result()

    def test_a_trace_that_cannot_be_written_ends_no_training(self):
        verdict = self.rank(0, ranks=1)
        verdict(Profiler(os.path.join(self.folder, "nowhere.json")))
        with self.assertRaises(aorta.Failed):
            verdict.result()
        self.assertIn("no verdict: ", self.log.getvalue())

    def test_half_a_trace_is_removed(self):
        verdict = self.rank(0, ranks=1)
        verdict(FullDisk(TRACES[0]))
        with self.assertRaisesRegex(aorta.Failed, "No space left"):
            verdict.result()
        self.assertEqual(os.listdir(os.path.join(self.folder, "cycle0")), [])

    def test_nothing_can_be_printed_and_training_goes_on(self):
        """A full disk behind the log; a log that is closed."""
        with open("/dev/full", "w", encoding="utf-8") as full:
            self.log = full
            verdict = self.rank(0, ranks=1, keep=False)
            verdict(Profiler(TRACES[0]))
            self.assertEqual(len(verdict.result().data["ranks"]), 1)
            verdict(Profiler(os.path.join(self.folder, "nowhere.json")))
            with self.assertRaises(aorta.Failed):
                verdict.result()
            self.assertEqual(os.listdir(self.folder), ["cycle1"])
            with contextlib.suppress(OSError):
                full.close()
        verdict(Profiler(TRACES[0]))
        self.assertEqual(len(verdict.result().data["ranks"]), 1)

    def test_a_folder_that_cannot_be_written_ends_no_training(self):
        """Read-only, of a file system that has no space (/dev/full as a trace), a file in its place."""
        taken = os.path.join(self.folder, "taken")
        with open(taken, "w", encoding="utf-8"):
            pass
        for place in ("/proc/aorta", taken, os.path.join(taken, "below")):
            os.environ.update(RANK="0", WORLD_SIZE="1")
            verdict = aorta.verdict(place, file=self.log)
            verdict(Profiler(TRACES[0]))
            with self.assertRaises(aorta.Failed):
                verdict.result()
            self.assertIn(place, self.log.getvalue())

    def test_no_space_for_the_analysis_ends_no_training(self):
        verdict = self.rank(0, ranks=1, keep=False)
        with unittest.mock.patch("tempfile.tempdir", "/proc/aorta"):
            verdict(Profiler(TRACES[0]))
            with self.assertRaises(aorta.Failed):
                verdict.result()
        self.assertIn("no verdict: ", self.log.getvalue())
        self.assertEqual(os.listdir(self.folder), [])

    def test_what_on_result_raises_leaves_nothing(self):
        verdict = self.rank(0, ranks=1, keep=False, on_result=lambda analysis: analysis.nothing)
        with unittest.mock.patch("threading.excepthook"):
            verdict(Profiler(TRACES[0]))
            verdict.result()
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_foreign_folder_is_refused(self):
        """Somebody made the folder first, open to all: its name can be guessed."""
        code = ("import aorta._profiler as p, os, tempfile\n"
                f"tempfile.tempdir = {self.folder!r}\n"
                "name = p.common_folder()\nprint(oct(os.stat(name).st_mode & 0o777))\nos.chmod(name, 0o777)\n"
                "p.common_folder()")
        done = python(code, RANK="0", WORLD_SIZE="2", TORCHELASTIC_RUN_ID="job/../1")
        self.assertEqual(done.stdout.strip(), "0o700")
        self.assertIn("not this user's alone", done.stderr)


# Kernels of 100 us, one a millisecond, put into the stand-in for CUPTI: five before the recording and six in it.
RECORDED = """
import ctypes, os, time
class Activity(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_uint32), ("name", ctypes.c_char_p), ("start", ctypes.c_uint64), ("end", ctypes.c_uint64),
                ("device", ctypes.c_uint32), ("context", ctypes.c_uint32), ("stream", ctypes.c_uint32),
                ("correlation", ctypes.c_uint32), ("rest", ctypes.c_uint8 * 256)]
cupti = ctypes.CDLL(os.environ["FAKE_CUPTI"])
cupti.fake_cupti.restype = ctypes.POINTER(ctypes.CFUNCTYPE(None, ctypes.POINTER(Activity)))
record = cupti.fake_cupti()[0]
ctypes.CDLL("libcuda.so.1").cuInit(0)
def work(count):
    for i in range(count):
        begin = time.time_ns() + i * 1000000
        record(ctypes.byref(Activity(kind=10, name=b"gemm", start=begin, end=begin + 100000, context=1, stream=7,
                                     correlation=i + 1)))
import aorta
work(5)
with aorta.record() as recording:
    try:
        aorta.record().start()
    except aorta.Failed as error:
        print(error)
    work(6)
folder = recording.directory
print(recording.analysis.tables["kernels"][0]["count"], os.path.exists(folder))
print(recording)
"""


class Recordings(Folder):
    def test_a_block_is_recorded(self):
        done = python(RECORDED, FAKE_CUPTI=FAKE_CUPTI, LD_LIBRARY_PATH=FAKE_CUDA)
        lines = done.stdout.splitlines()
        self.assertEqual(done.stderr, "")
        self.assertIn("being recorded already", lines[0])
        self.assertEqual(lines[1], "6 False")
        self.assertTrue(lines[2].startswith("Verdict: "), done.stdout)

    def test_without_a_gpu_the_reason_is_said(self):
        done = python("import aorta\nwith aorta.record() as r: pass\nprint(r)")
        self.assertIn("aorta._program.Failed: ", done.stderr)
        self.assertRegex(done.stderr, "are recorded; .*cupti")

    def test_an_old_recording_is_not_mixed_with_a_new_one(self):
        open(os.path.join(self.folder, "1-0.spool"), "w", encoding="utf-8").close()
        with self.assertRaisesRegex(aorta.Failed, "holds a recording"):
            aorta.record(self.folder).start()


class Commands(unittest.TestCase):
    def module(self, *arguments):
        environment = dict(os.environ, PYTHONPATH=os.path.join(SOURCE, "python"), PYTHONDONTWRITEBYTECODE="1")
        return subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, env=environment,
                              timeout=60)

    def test_modules_are_commands(self):
        self.assertTrue(self.module("aorta", "--version").stdout.startswith("aorta "))
        self.assertIn("hetero_kernels", self.module("aorta.hw_queue_eval", "list").stdout)
        self.assertIn("config/quickstart.yaml", self.module("aorta.train").stderr)


class Wheels(Folder):
    """A wheel of a tree is installed as an installer would: unpacked, with the rights it names."""

    def setUp(self):
        super().setUp()
        tree = os.path.join(self.folder, "tree")
        for part in ("bin", "lib", "config"):
            os.makedirs(os.path.join(tree, part))
        shutil.copy(AORTA, os.path.join(tree, "bin"))
        shutil.copy(os.path.join(os.path.dirname(AORTA), "libaorta_inject.so"), os.path.join(tree, "lib"))
        shutil.copy(os.path.join(SOURCE, "config/quickstart.yaml"), os.path.join(tree, "config"))
        self.tree, self.out = tree, os.path.join(self.folder, "out")

    def pack(self):
        subprocess.run([sys.executable, os.path.join(SOURCE, "tools/wheel"), self.tree, self.out], check=True,
                       capture_output=True)
        name, = os.listdir(self.out)
        return os.path.join(self.out, name)

    def test_a_wheel_is_whole_and_works(self):
        path = self.pack()
        self.assertRegex(os.path.basename(path), r"^aorta-[\d.]+-py3-none-manylinux_2_\d+_\w+\.whl$")
        site = os.path.join(self.folder, "site")
        with zipfile.ZipFile(path) as wheel:
            record = next(name for name in wheel.namelist() if name.endswith(".dist-info/RECORD"))
            rows = [line.split(",") for line in wheel.read(record).decode().splitlines()]
            self.assertEqual(sorted(row[0] for row in rows), sorted(wheel.namelist()))
            for name, digest, size in rows:
                data = wheel.read(name)
                if name == record:
                    continue
                self.assertEqual(digest, "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("="))
                self.assertEqual(int(size), len(data))
            info = os.path.dirname(record)
            metadata = wheel.read(f"{info}/METADATA").decode()
            for line in ("License: MIT", "Requires-Python: >=3.8", "Keywords: profiling,GPU",
                         "Classifier: Programming Language :: C", 'Requires-Dist: pandas; extra == "pandas"'):
                self.assertIn(f"\n{line}", metadata)
            self.assertIn("aorta/py.typed", wheel.namelist())
            with open(os.path.join(SOURCE, "LICENSE"), "rb") as license:
                self.assertEqual(wheel.read(f"{info}/licenses/LICENSE"), license.read())
            for info in wheel.infolist():
                os.chmod(wheel.extract(info, site), info.external_attr >> 16 & 0o777)
        environment = {name: value for name, value in os.environ.items() if name != "AORTA_PROGRAM"}
        done = subprocess.run([sys.executable, "-m", "aorta", "--version"], capture_output=True, text=True, check=True,
                              env=dict(environment, PYTHONPATH=site))
        self.assertIn(re.search(r"aorta-([\d.]+)-", path).group(1), done.stdout)

    def test_the_same_tree_makes_the_same_wheel(self):
        with open(self.pack(), "rb") as first:
            data = first.read()
        with open(self.pack(), "rb") as second:
            self.assertEqual(second.read(), data)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
