#!/usr/bin/python3
"""kubernetes.py AORTA SOURCE PROGRAM CUPTI CUDA: the manifests of scripts/kubernetes have only fields of Kubeflow's
kinds, and the commands of their pods work, with stand-ins for pip, torchrun and mpirun."""
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"skipped: {missing} (scripts/bootstrap check installs it)")
    sys.exit(77)

aorta, source, program, cupti, cuda = sys.argv[1:6]
manifests = {kind: yaml.safe_load(pathlib.Path(source, f"scripts/kubernetes/{kind}.yaml").read_text())
             for kind in ("pytorchjob", "mpijob")}
schema = json.loads(pathlib.Path(source, "tests/cluster/kubernetes.json").read_text())
validator = jsonschema.Draft7Validator(schema)


def specs(job):
    return job["spec"].get("pytorchReplicaSpecs") or job["spec"]["mpiReplicaSpecs"]


def check_fields():
    jsonschema.Draft7Validator.check_schema(schema)
    for kind, job in manifests.items():
        errors = list(validator.iter_errors(job))
        assert not errors, f"{kind}: {errors[0].context or errors[0]}"
        for name, replica in specs(job).items():
            pod = replica["template"]["spec"]
            volumes = {volume["name"] for volume in pod["volumes"]}
            for container in pod["containers"]:
                mounts = {mount["name"] for mount in container.get("volumeMounts", [])}
                assert mounts <= volumes, f"{kind}, {name}: {mounts - volumes} is no volume"
    # The operator starts what the container of this name runs.
    for replica in specs(manifests["pytorchjob"]).values():
        assert replica["template"]["spec"]["containers"][0]["name"] == "pytorch"


def check_refusals():
    """Each of these is an error that an operator would report, or worse, would not."""
    changes = [("pytorchjob", lambda job: job["spec"].update(nprocPerNode=8)),
               ("pytorchjob", lambda job: job["spec"].update(procPerNode="8")),
               ("pytorchjob", lambda job: specs(job)["Master"].update(replicas=2)),
               ("pytorchjob", lambda job: specs(job)["Master"]["template"]["spec"]["containers"][0].pop("image")),
               ("mpijob", lambda job: job["spec"].pop("mpiReplicaSpecs")),
               ("mpijob", lambda job: job.update(apiVersion="kubeflow.org/v1")),
               ("mpijob", lambda job: job["spec"]["runPolicy"].update(cleanPodPolicy="Never")),
               ("mpijob", lambda job: specs(job)["Worker"]["template"]["spec"]["containers"][0]["args"].append(1))]
    for kind, change in changes:
        job = copy.deepcopy(manifests[kind])
        change(job)
        assert not validator.is_valid(job), f"{kind}: a wrong field passes: {job}"


def run_pods(kind, folder):
    """The pods that run something of ours, side by side. Rank and rendezvous are what the operator's variables give."""
    tools = folder / "bin"
    tools.mkdir(parents=True)
    (tools / "aorta").symlink_to(aorta)
    stand_ins = {"pip": 'test "$1 $2" = "install --no-index" && test -e "$3"',
                 "torchrun": f'test "$1" = "{folder}/shared/train.py" && RANK=$POD_RANK exec "{program}" live 5',
                 "python3": f'test "$1" = "{folder}/shared/train.py" && exec "{program}" live 5',
                 "mpirun": f'test "$2" = 16 && shift 5 && for r in 0 1; do RANK=$r "$@" & done; wait'}
    for name, text in stand_ins.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    (folder / "shared").mkdir()
    (folder / "shared/aorta-0.whl").touch()
    running, rank, base_s = [], 0, int(time.time())
    for replica in specs(manifests[kind]).values():
        for container in replica["template"]["spec"]["containers"]:
            words = [word.replace("/shared", f"{folder}/shared").replace("--every 30", "--every 1")
                     for word in container["command"] + container["args"]]
            if "--every" in words:
                words[words.index("--every") + 1] = "1"
            if words[0] == "/usr/sbin/sshd":
                continue
            environment = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}", POD_RANK=str(rank), WORLD_SIZE="2",
                               LIVE_BASE=f"{base_s}000000000", FAKE_CUPTI=cupti, LD_LIBRARY_PATH=cuda)
            for name in ("RANK", "LOCAL_RANK"):
                environment.pop(name, None)
            running.append(subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                            text=True))
            rank += container["name"] == "pytorch"
    outputs = [process.communicate(timeout=60)[0] for process in running]
    assert all(process.returncode == 0 for process in running), outputs
    lines = [json.loads(line) for line in (folder / "shared/windows.jsonl").read_text().splitlines()]
    assert sum(line["ranks"] == 2 for line in lines) >= 2, f"{kind}: {lines or outputs}"
    assert "\naorta_ranks " in (folder / "shared/aorta.prom").read_text()


check_fields()
check_refusals()
with tempfile.TemporaryDirectory() as work:
    for kind in manifests:
        run_pods(kind, pathlib.Path(work, kind))
print("ok")
