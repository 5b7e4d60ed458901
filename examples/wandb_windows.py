"""Sends windows of `aorta trace run --every` to W&B: tail -n +1 -F windows.jsonl | python3 wandb_windows.py"""
import wandb

from windows import windows

run = wandb.init(project="training", job_type="aorta")
for step, figures, change in windows():
    run.log(figures, step=step)
    if change:
        run.alert("aorta", change)
run.finish()
