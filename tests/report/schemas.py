#!/usr/bin/python3
"""What the program writes fits the schemas of docs/schema: schemas.py AORTA SOURCE"""
import json
import pathlib
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

broken = analyze(data / "h100_qwen.json")
del broken["verdict"][0]["facts"]
try:
    check("trace_analyze", broken)
except jsonschema.ValidationError:
    sys.exit(0)
sys.exit("a verdict without facts fits the schema")
