"""Sends windows of `aorta trace run --every` to MLflow: tail -n +1 -F windows.jsonl | python3 mlflow_windows.py"""
import mlflow

from windows import windows

mlflow.set_experiment("training")
with mlflow.start_run(run_name="aorta"):
    for step, figures, change in windows():
        mlflow.log_metrics(figures, step=step)
        if change:
            mlflow.set_tag("aorta.change", change)
