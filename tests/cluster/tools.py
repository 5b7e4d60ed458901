#!/usr/bin/python3
"""tools.py AORTA SOURCE PROGRAM CUPTI CUDA: what other tools make of a live recording's files. The scripts of
examples for W&B and MLflow run unchanged, with stand-ins of the calls that those document; the file for
TensorBoard is read by Google's protobuf library, from the layout that TensorFlow documents for event files."""
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

aorta, source, program, cupti, cuda = sys.argv[1:6]

WANDB = '''
import json, sys
calls = []
def init(entity=None, project=None, dir=None, id=None, name=None, notes=None, tags=None, config=None, group=None,
         job_type=None, mode=None, resume=None):
    return Run()
class Run:
    def log(self, data, step=None, commit=None):
        calls.append([data, step])
    def alert(self, title, text, level=None, wait_duration=None):
        calls.append([title, text])
    def finish(self, exit_code=None, quiet=None):
        print(json.dumps(calls))
'''
MLFLOW = '''
import contextlib, json
calls = []
def set_experiment(experiment_name=None, experiment_id=None):
    pass
@contextlib.contextmanager
def start_run(run_id=None, experiment_id=None, run_name=None, nested=False, tags=None, description=None):
    yield
    print(json.dumps(calls))
def log_metrics(metrics, step=None, synchronous=None, run_id=None, timestamp=None, model_id=None):
    assert all(isinstance(value, (int, float)) for value in metrics.values()), metrics
    # The names that a server takes.
    import re
    assert all(re.fullmatch(r"[\\w\\-. /]+", name) for name in metrics), metrics
    calls.append([metrics, step])
def set_tag(key, value, synchronous=None):
    calls.append([key, value])
'''


def record(folder):
    environment = dict(os.environ, LD_LIBRARY_PATH=cuda, FAKE_CUPTI=cupti, LIVE_RANKS="2", LIVE_LATE="1", LIVE_CHANGE="3")
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        environment.pop(name, None)
    subprocess.run([aorta, "trace", "run", "--every", "2", "--json-lines", "windows.jsonl", "--tensorboard", "board",
                    "--", program, "live-ranks", "7"], cwd=folder, env=environment, check=True, capture_output=True)
    lines = [json.loads(line) for line in (folder / "windows.jsonl").read_text().splitlines()]
    assert len(lines) >= 3 and any(line["change"] for line in lines), lines
    return lines


def run_recipe(folder, name, stand_in):
    (folder / f"{name}.py").write_text(stand_in)
    environment = dict(os.environ, PYTHONPATH=str(folder), PYTHONDONTWRITEBYTECODE="1")
    with open(folder / "windows.jsonl") as lines:
        done = subprocess.run([sys.executable, os.path.join(source, "examples", f"{name}_windows.py")], cwd=folder,
                              env=environment, stdin=lines, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_recipe(calls, lines, name):
    metrics = {step: data for data, step in calls if isinstance(data, dict)}
    assert list(metrics) == [line["windows"] for line in lines], f"{name}: {metrics}"
    for line in lines:
        got = metrics[line["windows"]]
        for key in ("step_ms", "overlap_ratio"):  # the last window often has no step
            assert got.get(f"aorta/{key}") == line[key], f"{name}: {key} of {got}, {line}"
        for row in line["verdict"]:
            if row["gain_ms"] is not None:
                assert row["gain_ms"] in got.values(), f"{name}: {row['cause']} is missing in {got}"
    assert any("gain" in key for data in metrics.values() for key in data), f"{name}: no gains"
    said = [text for data, text in calls if isinstance(data, str)]
    assert said == [line["change"] for line in lines if line["change"]], f"{name}: {said}"


def masked_crc(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    crc ^= 0xffffffff
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def event_class():
    """tensorflow.Event with the fields that scalars have, as event.proto and summary.proto number them."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="event.proto", package="tensorflow", syntax="proto3")
    rows = {"Value": [("tag", 1, field.TYPE_STRING), ("simple_value", 2, field.TYPE_FLOAT)],
            "Summary": [("value", 1, "Value")],
            "Event": [("wall_time", 1, field.TYPE_DOUBLE), ("step", 2, field.TYPE_INT64),
                      ("file_version", 3, field.TYPE_STRING), ("summary", 5, "Summary")]}
    for name, fields in rows.items():
        message = file.message_type.add(name=name)
        for key, number, kind in fields:
            row = message.field.add(name=key, number=number, label=field.LABEL_OPTIONAL)
            if isinstance(kind, str):
                row.type, row.type_name = field.TYPE_MESSAGE, f".tensorflow.{kind}"
                row.label = field.LABEL_REPEATED if kind == "Value" else field.LABEL_OPTIONAL
            else:
                row.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    descriptor = pool.FindMessageTypeByName("tensorflow.Event")
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(pool).GetPrototype(descriptor)


def check_board(folder, lines):
    try:
        event_type = event_class()
    except ImportError as missing:
        print(f"skipped: TensorBoard's file ({missing}: scripts/bootstrap check installs it)")
        return
    assert masked_crc(b"123456789") == ((0xe3069283 >> 15 | 0xe3069283 << 17) + 0xa282ead8) & 0xffffffff
    files = list((folder / "board").iterdir())
    assert len(files) == 1 and "tfevents" in files[0].name, files
    data, at, events = files[0].read_bytes(), 0, []
    while at < len(data):
        length, length_crc = struct.unpack_from("<QI", data, at)
        body = data[at + 12:at + 12 + length]
        assert length_crc == masked_crc(data[at:at + 8])
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked_crc(body)
        event = event_type.FromString(body)
        assert event.SerializeToString(deterministic=True)  # nothing unknown broke it
        assert not list(event.UnknownFields()) if hasattr(event, "UnknownFields") else True
        events.append(event)
        at += 16 + length
    assert events[0].file_version == "brain.Event:2"
    assert [event.step for event in events[1:]] == [line["windows"] for line in lines]
    for event, line in zip(events[1:], lines):
        scalars = {value.tag: value.simple_value for value in event.summary.value}
        for key in ("step_ms", "exposed_comm_ms"):
            written = scalars.get(f"aorta/{key}")
            assert written is line[key] or math.isclose(written, line[key], rel_tol=1e-6), scalars


with tempfile.TemporaryDirectory() as work:
    folder = pathlib.Path(work)
    lines = record(folder)
    check_recipe(run_recipe(folder, "wandb", WANDB), lines, "W&B")
    check_recipe(run_recipe(folder, "mlflow", MLFLOW), lines, "MLflow")
    check_board(folder, lines)
print("ok")
