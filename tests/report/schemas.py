#!/usr/bin/python3
"""What the program writes fits the schemas of docs/schema: schemas.py AORTA SOURCE"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    print("skipped: python3-jsonschema is missing")
    sys.exit(77)

aorta, source = sys.argv[1], pathlib.Path(sys.argv[2])
data = source / "tests/trace/data"


def schema(name):
    made = subprocess.run([aorta, "help", "formats", "--schema", name], capture_output=True, text=True, check=True).stdout
    path = source / f"docs/schema/{name}.json"
    if path.read_text() != made:
        sys.exit(f"{path} is stale: aorta help formats --schema {name} > docs/schema/{name}.json")
    return json.loads(made)


def check(name, document):
    jsonschema.validate(document, schema(name))


def analyze(*paths):
    command = [aorta, "trace", "analyze", *map(str, paths), "--json", "--by", "op", "--by", "time"]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


for paths in [["fsdp2_rank0.json", "fsdp2_rank1.json"], ["h100_qwen.json"], ["mi300_resnet.json"], ["jax.trace.json"]]:
    check("trace_analyze", analyze(*(data / path for path in paths)))
run = source / "tests/report/data/original"
check("metrics", json.loads((run / "rank_00_metrics.jsonl").read_text().splitlines()[0]) | {"schema_version": 1})
with tempfile.TemporaryDirectory() as out:
    subprocess.run([aorta, "report", "--log-dir", str(run), "--output", out, "-q", "--no-pictures"], check=True)
    check("summary", json.loads(pathlib.Path(out, "summary.json").read_text()))


def unknown_keys(document, fits, path="$"):
    """The keys of a document that its schema does not have."""
    known = fits.get("properties", {})
    for key, value in document.items() if isinstance(document, dict) and known else ():
        if key not in known:
            yield f"{path}.{key}"
        yield from unknown_keys(value, known.get(key, {}), f"{path}.{key}")
    for value in document if isinstance(document, list) else ():
        yield from unknown_keys(value, fits.get("items", {}), f"{path}[]")


def refuses(name, document):
    try:
        check(name, document)
    except jsonschema.ValidationError:
        return
    sys.exit(f"{name}: a damaged document fits the schema")


def refuses_wrong_facts(name, document, part):
    """`part` of the document has facts; the schema sees a wrong one."""
    check(name, document)
    if not part["facts"] or part.get("headline") == "":
        sys.exit(f"{name}: no facts or no answer")
    part["facts"][0]["value"] = "1"
    refuses(name, document)


with tempfile.TemporaryDirectory() as out:
    for side in "ab":
        for threads in 256, 512:
            for repeat in 1, 2:
                folder = pathlib.Path(out, side, f"{threads}thread/nccl_28channels/rep{repeat}")
                folder.mkdir(parents=True)
                shutil.copy(run / "rank_00_metrics.jsonl", folder)
    command = [aorta, "sweep", "--compare", f"{out}/a", f"{out}/b", "--json"]
    compared = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
check("sweep_comparison", compared)
unknown = [key for key in unknown_keys(compared, schema("sweep_comparison")) if ".best." not in key and ".values." not in key]
if unknown or not compared["comparisons"][0]["rows"]:
    sys.exit(f"sweep_comparison: keys that the schema does not have: {unknown}")
compared["comparisons"][0]["rows"][0]["delta"] = "1"
refuses("sweep_comparison", compared)

with tempfile.TemporaryDirectory() as out:
    result = f"{out}/run.json"
    subprocess.run([aorta, "hwq", "run", "hetero_kernels", "-d", "cpu", "-s", "2", "-i", "20", "-w", "0", "-q", "--size", "16", "-o", result],
                   stdout=subprocess.DEVNULL, check=True)
    check("hwq_run", json.loads(pathlib.Path(result).read_text()))
    small = ["-d", "cpu", "-s", "1,2", "-i", "3", "-w", "0", "-q"]
    subprocess.run([aorta, "hwq", "sweep", "tiny_kernel_stress", *small, "-o", f"{out}/sweep.json"], stdout=subprocess.DEVNULL, check=True)
    swept = json.loads(pathlib.Path(out, "sweep.json").read_text())
    for one in swept["results"]:
        check("hwq_run", one)
    subprocess.run([aorta, "hwq", "run-priority", "P3", *small, "-o", out], stdout=subprocess.DEVNULL, check=True)
    files = {"hwq_sweep": swept, "hwq_run_priority": json.loads(pathlib.Path(out, "run_priority.json").read_text())}
    for name, document in files.items():
        refuses_wrong_facts(name, document, document)
    command = [aorta, "hwq", "profile", "--json", "--trace", str(data / "rocprof_results.json")]
    profile = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    refuses_wrong_facts("hwq_profile", profile, profile["recordings"][0])
    commands = {"hwq_compare": ["hwq", "compare", "-b", result, "-t", result],
                "hwq_map": ["hwq", "map", "-d", "cpu", "--streams", "2", "--copy-streams", "0", "--comm-streams", "0", "--copy-mb", "1"],
                "whatif": ["whatif", *(str(data / f"fsdp2_rank{rank}.json") for rank in (0, 1)), "--ranks", "8", "--remedy", "fusion"],
                "sdma": ["sdma", "-q", "-d", "cpu", "--matrix-size", "32", "--copy-mb", "1", "--iterations", "3"]}
    for name, command in commands.items():
        document = json.loads(subprocess.run([aorta, *command, "--json"], capture_output=True, check=True).stdout)
        refuses_wrong_facts(name, document, document)

broken = analyze(data / "h100_qwen.json")
del broken["verdict"][0]["facts"]
refuses("trace_analyze", broken)
