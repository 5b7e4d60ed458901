#!/usr/bin/python3
"""Runs the commands that the pages show: pages.py PROGRAM [--lines]. What follows "$ aorta" in a block of README.md or
docs/*.md is run on a terminal of 100 columns, in a folder with the recordings that the pages name: the real ones (../shared/traces, or AORTA_TRACES),
else files of the tests. It must end as it should. With --lines and the real ones each line that a page shows of `aorta trace`
and `aorta whatif` must come out of it, too, up to where it is cut with "…". A command that is not run has a reason here, or the test fails.
What the last column of the tables "Other tools" of trace.md names has to exist: tables, keys, options."""
import fcntl
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
WHOLE = TOP / "tests" / "trace" / "data" / "whole"
REAL = pathlib.Path(os.environ.get("AORTA_TRACES", TOP.parent / "shared" / "traces"))

# The pages' names of recordings, and the tests' files used in their place.
FILES = {
    "fsdp2_default_rank0.pt.trace.json.gz": "fsdp2_rank0.json.gz",
    "fsdp2_default_rank1.pt.trace.json.gz": "fsdp2_rank1.json.gz",
    "h100_qwen.json.gz": "h100_qwen.json.gz",
    "mi300_qwen.json.gz": "mi300_resnet.json.gz",
}
# Begin of a command, and why it is not run.
NOT_RUN = {
    "report ": "compares runs that the page does not make (report.labelled)",
    "sweep ": "takes minutes (the tests of sweeps run smaller ones)",
    "launch -n 2 -- aorta train": "trains (e2e.training)",
}
EXIT_CODES = {"launch -n 2 -- sh -c 'sleep 1; exit 3'": 3}


def commands(page):
    """(line number, command, lines of output shown) of each."""
    lines = page.read_text().split("\n")
    inside = False
    i = 0
    while i < len(lines):
        if lines[i].startswith("```"):
            inside = not inside
        if inside and lines[i].startswith("$ aorta "):
            number, words = i + 1, lines[i][2:]
            while words.endswith("\\"):
                i += 1
                words = words[:-1].rstrip() + " " + lines[i].strip()
            shown = []
            while not lines[i + 1].startswith(("```", "$ ")):
                i += 1
                shown.append(lines[i])
            yield number, words[len("aorta "):], shown
        i += 1


def runs(program, command, folder):
    """Exit code and what a terminal shows."""
    environment = dict(os.environ, PATH=f"{program.parent}:{os.environ['PATH']}", TERM="dumb")
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 100, 0, 0))
    with subprocess.Popen(["bash", "-c", f"aorta {command}"], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                          stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        output = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            output += piece
        code = process.wait(timeout=120)
    os.close(ours)
    return code, output.decode(errors="replace").replace("\r\n", "\n")


def missing(shown, output):
    """The lines shown that did not come out; runs of spaces are one, and what is behind a cut does not count."""
    plain = [re.sub(r"\s+", " ", line.strip()) for line in output.split("\n")]
    for line in shown:
        wanted = re.sub(r"\s+", " ", line.split("…")[0].strip())
        if wanted and not any(out.startswith(wanted) for out in plain):
            yield line


def named_here(page):
    """(line number, a name in the last column) of the tables that map other tools' reports to ours."""
    inside = False
    for number, line in enumerate(page.read_text().split("\n"), 1):
        if line.startswith("## "):
            inside = line == "## Other tools"
        cells = line.split(" | ")
        if inside and line.startswith("| ") and len(cells) > 1 and not line.startswith("| ---"):
            for token in re.findall(r"`([^`]+)`", cells[-1]):
                yield number, token


def is_there(token, program, folder, known):
    """Whether a table, option, command or file that a page names is there; `known`: all keys and the help's words."""
    recordings = "fsdp2_default_rank0.pt.trace.json.gz fsdp2_default_rank1.pt.trace.json.gz"
    if token.startswith("--by "):
        return runs(program, f"trace analyze {recordings} {token}", folder)[0] == 0
    if token.startswith("--"):
        return token.split()[0] in known
    if token.startswith("trace ") or token == "whatif":
        words = token.split()
        code, output = runs(program, " ".join(w for w in words if not w.startswith("--")) + " --help", folder)
        return code == 0 and all(w in output for w in words if w.startswith("--"))
    if "/" in token:
        return (TOP / token).exists()
    return f'"{token.removesuffix("[]").split(" of ")[0]}"' in known or re.search(rf"\b{re.escape(token)}\b", known) is not None


def check_named(program, folder):
    recordings = "fsdp2_default_rank0.pt.trace.json.gz fsdp2_default_rank1.pt.trace.json.gz"
    by = " ".join(f"--by {what}" for what in ("shape", "time", "stream", "memory", "path", "arrival"))
    known = ""
    for command in (f"trace analyze {recordings} --json {by}", "trace analyze --help", "trace compare --help",
                    "trace compare h100_qwen.json.gz mi300_qwen.json.gz --json"):
        known += runs(program, command, folder)[1]
    tokens = list(named_here(TOP / "docs" / "trace.md"))
    wrong = [f"trace.md:{number}: `{token}` is not there" for number, token in tokens
             if not is_there(token, program, folder, known)]
    return len(tokens), wrong


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    by_line = "--lines" in sys.argv[2:]
    wrong, run, skipped = [], 0, 0
    with tempfile.TemporaryDirectory(prefix="aorta-pages.") as folder:
        real = all((REAL / name).exists() for name in FILES)
        for name, stands_for in FILES.items():
            os.symlink(REAL / name if real else WHOLE / stands_for, os.path.join(folder, name))
        for page in (TOP / "README.md", *sorted((TOP / "docs").glob("*.md"))):
            for number, command, shown in commands(page):
                if any(command.startswith(begin) for begin in NOT_RUN):
                    skipped += 1
                    continue
                code, output = runs(program, command, folder)
                run += 1
                if code != EXIT_CODES.get(command, 0):
                    wrong.append(f"{page.name}:{number}: aorta {command}: exit {code}\n{output[-600:]}")
                elif by_line and real and command.startswith(("trace ", "whatif ")):
                    wrong += [f"{page.name}:{number}: not in the output: {line}" for line in missing(shown, output)]
        named, not_there = check_named(program, folder)
        wrong += not_there
    for line in wrong:
        print(line)
    print(f"{named} tables, options and commands named for those of other tools")
    print(f"{run} commands of the pages run{' with the real recordings' if real else ''}, {skipped} not run, {len(wrong)} wrong")
    return bool(wrong) or run < 5 or named < 50


sys.exit(main())
