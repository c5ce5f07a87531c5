"""Run the tests with the oldest versions of all libraries that pyproject.toml allows.

python scripts/test_oldest.py [arguments of pytest]

The environment is .venv-oldest, resolved by uv (`--resolution lowest-direct`). torch comes in the one
version of constraints.txt; left out is SUMO, whose files a recorder's tests compare.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".venv-oldest"
EXTRAS = (
    "sklearn",
    "xgboost-cpu",
    "lightgbm",
    "bart",
    "experiments",
    "evaluation",
    "service",
    "cluster",
    "dev",
)
#: Tests that hold for the pinned versions only: exact choices, printed help and numbers, pictures of charts.
PINNED = (
    "tests/test_golden.py",
    "tests/golden",
    "tests/test_docs.py",
    "tests/test_evaluation_docs.py",
    "tests/reports/test_page.py",
    "tests/models/test_network.py",
)


def main(arguments: list[str]) -> int:
    """Make the environment where pyproject.toml has changed since, and run pytest in it."""
    python, stamp = HOME / "bin" / "python", HOME / "oldest.txt"
    if not stamp.exists() or stamp.stat().st_mtime < (ROOT / "pyproject.toml").stat().st_mtime:
        install(python, stamp)
    ignored = [f"--ignore={path}" for path in PINNED if (ROOT / path).exists()]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(HOME / "numba"), "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONPATH", None)
    command = [python, "-m", "pytest", "-m", "not slow", *ignored, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


def install(python: Path, stamp: Path) -> None:
    """An environment with the least of each version that the project asks for."""
    if not python.exists():
        venv.create(HOME, with_pip=True)
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "uv"], check=True
    )
    uv = [HOME / "bin" / "uv", "--quiet", "pip"]
    wanted = [part for extra in EXTRAS for part in ("--extra", extra)]
    resolved = HOME / "resolved.txt"
    subprocess.run(
        [
            *uv,
            "compile",
            "--resolution",
            "lowest-direct",
            "pyproject.toml",
            *wanted,
            "--output-file",
            resolved,
        ],
        cwd=ROOT,
        check=True,
    )
    at = ["--python", python]
    subprocess.run([*uv, "install", *at, "--requirements", resolved], check=True)
    torch = next(
        line for line in (ROOT / "constraints.txt").read_text().split() if line.startswith("torch==")
    )
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", torch], check=True
    )
    subprocess.run([*uv, "install", *at, "--no-deps", "--editable", "."], cwd=ROOT, check=True)
    resolved.replace(stamp)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
