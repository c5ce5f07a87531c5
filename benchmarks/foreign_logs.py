"""What Vowpal Wabbit itself reads in files of its formats: tests/evaluation/foreign_logs.json.

    python -m venv vw && vw/bin/pip install vowpalwabbit==9.11.9
    vw/bin/python benchmarks/foreign_logs.py tests/evaluation/files [FOLDER OF MORE FILES]

For every decision: its label (action, cost, probability), and for every action how many features it has and their sum,
shared ones and the constant included. Files ending in json, dsjson or txt are read as dsjson, all others as text.
"""

import json
import re
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

FILE = Path(__file__).parent.parent / "tests" / "evaluation" / "foreign_logs.json"
READ = """
import sys, vowpalwabbit
workspace = vowpalwabbit.Workspace(sys.argv[1], enable_logging=True)
workspace.finish()
print("LOG")
print("\\n".join(workspace.get_log()))
"""


def read_by_vw(path):
    """One entry per decision, as audit and progress tell it."""
    json_format = path.suffix in (".json", ".dsjson", ".txt")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "log"
        copy.write_bytes(path.read_bytes())
        options = f"--cb_adf {'--dsjson ' if json_format else ''}-d {copy} -t --audit --progress 1"
        done = subprocess.run(
            [sys.executable, "-c", READ, options], capture_output=True, text=True, check=True
        )
    audit, _, log = done.stdout.partition("LOG\n")
    actions = [_features(line) for line in audit.splitlines() if line.startswith("\t")]
    rows = re.findall(r"^\S+ +\S+ +\d+ +[\d.]+ +(\S+) +(\S+) +(\d+)\s*$", log, re.MULTILINE)
    events = []
    for label, predicted, _ in rows:
        size = len(predicted.split(",")) if "," in predicted else None
        parts = label.split(":")
        events.append({"label": [float(part) for part in parts] if len(parts) == 3 else None, "size": size})
    return {"labels": [event["label"] for event in events], "actions": actions}


def _features(line):
    """Number and sum of an action's features; audit prints name:hash:value:weight."""
    values = [float(word.rsplit(":", 3)[-2]) for word in line.strip().split("\t")]
    return [len(values), sum(values)]


def main():
    found = {}
    for folder in map(Path, sys.argv[1:]):
        for path in sorted(folder.iterdir()):
            found[path.name] = read_by_vw(path)
    FILE.write_text(json.dumps({"version": version("vowpalwabbit"), "files": found}, indent=None) + "\n")
    for name, each in found.items():
        print(name, each["labels"][:4], each["actions"][:4], len(each["labels"]), len(each["actions"]))


if __name__ == "__main__":
    main()
