"""Sends windows of `aorta trace run --every` to W&B: tail -n +1 -F windows.jsonl | python3 wandb_windows.py"""
import json, sys, wandb

run = wandb.init(project="training", job_type="aorta")
for line in sys.stdin:
    window = json.loads(line)
    step = window.pop("windows")
    figures = {f"aorta/{key}": value for key, value in window.items() if isinstance(value, (int, float))}
    for row in window.get("verdict", []):
        if row["gain_ms"] is not None:
            name = "_".join(str(row[key]) for key in ("cause", "collective", "rank") if row.get(key) is not None)
            figures[f"aorta/gain_ms/{name}"] = row["gain_ms"]
    run.log(figures, step=step)
    if window["change"]:
        run.alert("aorta", window["change"])
run.finish()
