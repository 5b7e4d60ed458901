"""Sends windows of `aorta trace run --every` to MLflow: tail -n +1 -F windows.jsonl | python3 mlflow_windows.py"""
import json, sys, mlflow

mlflow.set_experiment("training")
with mlflow.start_run(run_name="aorta"):
    for line in sys.stdin:
        window = json.loads(line)
        step = window.pop("windows")
        figures = {f"aorta/{key}": value for key, value in window.items() if isinstance(value, (int, float))}
        for row in window.get("verdict", []):
            if row["gain_ms"] is not None:
                name = "_".join(str(row[key]) for key in ("cause", "collective", "rank") if row.get(key) is not None)
                figures[f"aorta/gain_ms/{name}"] = row["gain_ms"]
        mlflow.log_metrics(figures, step=step)
        if window["change"]:
            mlflow.set_tag("aorta.change", window["change"])
