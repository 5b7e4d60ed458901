#!/usr/bin/python3
"""Runs the commands of docs/original.md as they stand, in a folder with config/ and scripts/, and looks for their texts.

Usage: original.py TOP AORTA
"""
import os
import re
import subprocess
import sys
import tempfile

top, aorta = map(os.path.abspath, sys.argv[1:3])


def rows():
    with open(os.path.join(top, "docs", "original.md")) as page:
        for line in page:
            cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
            if line.startswith("|") and len(cells) == 4 and cells[0] != "there" and not cells[0].startswith("---"):
                yield cells
            elif line.startswith("|") and len(cells) != 4:
                sys.exit(f"not four cells: {line}")


def words(cell):
    found = re.fullmatch("`([^`]+)`", cell)
    if not found:
        sys.exit(f"not one piece of code: {cell}")
    return found.group(1)


def check_torchrun(folder, environment):
    """The environment that torchrun gives its ranks: rank 0 starts both again under MPI, rank 1 ends well."""
    ends = []
    for rank in "10":
        ranks = {"TORCHELASTIC_RUN_ID": "none", "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2",
                 "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29533"}
        ends.append(subprocess.run([aorta, "train", "--config", "config/quickstart.yaml", "--no-report", "--override",
                                    "training.max_steps=2", "training.output_dir=torchrun", "device.kind=cpu"],
                                   cwd=folder, env={**environment, **ranks}, timeout=120, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
    good = all(end.returncode == 0 for end in ends) and not ends[0].stdout and "2 ranks, batch" in ends[1].stdout
    if not good:
        print("torchrun:", *((end.returncode, end.stdout) for end in ends))
    return good


def main():
    failed = count = 0
    with tempfile.TemporaryDirectory(prefix="aorta_original_") as folder:
        for name in ("config", "scripts"):
            os.symlink(os.path.join(top, name), os.path.join(folder, name))
        os.mkdir(os.path.join(folder, "slurm"))
        for name, does in (("scontrol", "echo n1; echo n2"), ("srun", 'echo "$* at $MASTER_ADDR:$MASTER_PORT"')):
            with open(os.path.join(folder, "slurm", name), "w") as tool:
                tool.write(f"#!/bin/sh\n{does}\n")
            os.chmod(tool.name, 0o755)
        environment = dict(os.environ, AORTA=aorta, PATH=f"{folder}/slurm:{os.path.dirname(aorta)}:" + os.environ["PATH"])
        for there, _, command, shows in rows():
            count += 1
            done = subprocess.run(["sh", "-c", words(command)], cwd=folder, env=environment, timeout=120,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
            if done.returncode == 0 and words(shows) in done.stdout:
                continue
            failed += 1
            print(f"{there}\n  $ {words(command)}\n  exit code {done.returncode}, without \"{words(shows)}\":")
            print("    " + done.stdout[-3000:].replace("\n", "\n    "))
        failed += not check_torchrun(folder, environment)
    print(f"{count - failed} of {count} rows ran well")
    return 1 if failed or count < 30 else 0


sys.exit(main())
