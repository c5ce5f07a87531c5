"""What the package shows of itself, and what importing it costs."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import treebandit
from treebandit import errors

ROOMS = ["agents", "datasets", "environments", "experiments", "reports", "trees"]


@pytest.mark.parametrize("name", ["treebandit", *(f"treebandit.{room}" for room in ROOMS)])
def test_every_exported_name_is_there_and_documented(name):
    package = import_module(name)
    for exported in package.__all__:
        value = getattr(package, exported)
        if isinstance(value, type) or callable(value):
            assert value.__doc__ or getattr(value, "__origin__", None), f"{name}.{exported}"
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        _ = package.nothing


def test_importing_loads_no_library():
    heavy = [
        "numpy",
        "numba",
        "scipy",
        "sklearn",
        "xgboost",
        "lightgbm",
        "torch",
        "polars",
        "pandas",
        "altair",
    ]
    code = f"import sys, treebandit; print([m for m in sys.modules if m.split('.')[0] in {heavy}])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"


def test_deciding_loads_no_tree_library(tmp_path):
    code = (
        "import sys, treebandit\n"
        "treebandit.TEUCB(seed=0).choose([0.0, 1.0], arms=[0, 1])\n"
        "print([m for m in ('xgboost', 'sklearn', 'lightgbm', 'torch') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"


def test_every_error_is_in_the_tree_of_the_docstring_and_exported():
    classes = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert classes == set(errors.__all__)
    for name in classes:
        assert name in errors.__doc__
        assert issubclass(getattr(errors, name), errors.TreebanditError)


def test_no_module_is_longer_than_400_lines():
    long = {p.name: n for p in source_files() if (n := len(p.read_text().splitlines())) > 400}
    assert not long


def test_nothing_runs_at_import():
    """Top-level statements are definitions, imports, constants and docstrings."""
    allowed = (
        ast.Import,
        ast.ImportFrom,
        ast.FunctionDef,
        ast.ClassDef,
        ast.Assign,
        ast.AnnAssign,
        ast.If,
        ast.Try,
    )
    for path in source_files():
        for node in ast.parse(path.read_text()).body:
            docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            command = isinstance(node, ast.Expr) and (path.name == "__main__.py" or path.parent.name == "cli")
            assert docstring or command or isinstance(node, allowed), f"{path.name}:{node.lineno}"


def source_files():
    return sorted(Path(treebandit.__file__).parent.rglob("*.py"))
