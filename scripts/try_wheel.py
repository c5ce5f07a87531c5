"""Install the built wheel into an empty environment; decide, learn, save and load there, as the README does first.

python scripts/try_wheel.py dist

The environment has what `pip install` of the wheel alone brings. The program runs as a user who may write neither
site-packages nor a home folder, and without a network.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

PROGRAM = """
import socket, sys, tempfile

def refuse(*_):
    raise AssertionError("the network was asked for")

socket.socket.connect = socket.getaddrinfo = refuse
from pathlib import Path
import numpy as np
import treebandit

random, offers = np.random.default_rng(0), ["coffee", "tea", "water"]
agent = treebandit.Bandit(seed=0)
for _ in range(200):
    visitor = random.normal(size=5)
    row = agent.choose(visitor, arms=offers)[0]
    agent.learn(visitor, float(row == (visitor[0] > 0)), arms=[offers[row]])
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "agent.treebandit"
    agent.save(path)
    again = treebandit.load(path)
assert np.array_equal(agent.choose(visitor, arms=offers), again.choose(visitor, arms=offers))
assert not {"scipy", "sklearn", "pandas", "polars", "torch", "xgboost"} & set(sys.modules)
print(f"treebandit {treebandit.__version__} decides, learns, saves and loads")
"""


def main(folder: str) -> None:
    """Try the newest wheel of a folder."""
    wheel = max(Path(folder).glob("treebandit-*.whl"), key=os.path.getmtime)
    constraints = Path(__file__).parent.parent / "constraints.txt"
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch) / "environment"
        venv.create(home, with_pip=True)
        python = home / "bin" / "python"
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--constraint", constraints, wheel], check=True)
        size = sum(
            path.stat().st_size for path in home.rglob("*") if path.is_file() and not path.is_symlink()
        )
        print(f"{wheel.name}: {size / 2**20:.0f} MB with what it needs, pip included", flush=True)
        for packages in home.glob("lib/python*/site-packages"):
            packages.chmod(0o555)
            (packages / "treebandit").chmod(0o555)
        hidden = {"PYTHONPATH", "NUMBA_CACHE_DIR", "VIRTUAL_ENV"}
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        environment |= {"HOME": "/nonexistent", "XDG_CACHE_HOME": "/nonexistent"}
        work = Path(scratch) / "work"  # the one folder that may be written: the README saves into it
        work.mkdir()
        work.chmod(0o777)
        Path(scratch).chmod(0o755)
        nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
        program = PROGRAM + first_block(constraints.with_name("README.md"))
        subprocess.run([python, "-c", program], check=True, cwd=work, env=environment, **nobody)


def first_block(readme: Path) -> str:
    """The README's first minute."""
    found = re.search(r"```python\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


if __name__ == "__main__":
    main(*sys.argv[1:])
