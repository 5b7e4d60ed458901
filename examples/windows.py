"""Windows of `aorta trace run --every`, read from standard input: for each its number, its figures, and the change."""
import json, sys


def windows():
    for line in sys.stdin:
        window = json.loads(line)
        step = window.pop("windows")
        figures = {f"aorta/{key}": value for key, value in window.items() if isinstance(value, (int, float))}
        for row in window.get("verdict", []):
            if row["gain_ms"] is not None:
                name = "_".join(str(row[key]) for key in ("cause", "collective", "rank") if row.get(key) is not None)
                figures[f"aorta/gain_ms/{name}"] = row["gain_ms"]
        yield step, figures, window["change"]
