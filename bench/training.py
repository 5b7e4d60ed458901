"""Running one side of a benchmark and reading what its steps took. Used by step_time.py and recording_cost.py."""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
AORTA = os.path.join(ROOT, "build", "release", "aorta")

# One thread of arithmetic on either side; BLAS libraries read these when they are loaded.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def run(command, environment=None):
    """Standard output of a command; ends the program with what it printed when it fails.

    Settings of OpenBLAS that happen to be in the environment are not passed on.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
    done = subprocess.run(command, env={**inherited, **ONE_THREAD, **(environment or {})}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with status {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def pinned(command, core):
    """The command confined to one processor, when a number is given."""
    return command if core is None else ["taskset", "-c", str(core), *command]


def aorta_lines(config, steps, warmup, options=(), overrides=(), core=None, aorta=AORTA, ranks=1):
    """The log of rank 0 of `aorta train` for each step after the warm-up."""
    launcher = [aorta, "launch", "-n", str(ranks), "--"] if ranks > 1 else []
    with tempfile.TemporaryDirectory() as directory:
        settings = [f"training.max_steps={warmup + steps + 1}", f"training.output_dir={directory}",
                    "training.mixed_precision=none", "device.kind=cpu", "logging.level=WARNING", *overrides]
        run(pinned([*launcher, aorta, "train", "--config", config, *options, "--override", *settings], core))
        with open(f"{directory}/rank_00_metrics.jsonl", encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
    lines = lines[warmup:warmup + steps]  # the last step has no successor, so its time is not known
    if len(lines) != steps or any(line["step_ms"] is None for line in lines):
        sys.exit(f"aorta train logged the times of {len(lines)} steps, expected {steps}")
    return lines


def aorta_steps(*arguments, **options):
    """Wall time in ms of each training step, from the start of one to the start of the next; as aorta_lines."""
    return [line["step_ms"] for line in aorta_lines(*arguments, **options)]


def median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return "unknown processor"
