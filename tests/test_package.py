"""What the package shows of itself, and what importing it costs.

Type checkers read the names from stubs made from the registry. To write them anew: python tests/test_package.py
"""

import ast
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import treebandit
from treebandit import errors, registry

SUBPACKAGES = ("agents", "checks", *registry._APART, "trees")
PACKAGES = ("treebandit", *(f"treebandit.{each}" for each in SUBPACKAGES))


def stub_path(package):
    return Path(import_module(package).__file__).with_suffix(".pyi")


def stub(package):
    """What a type checker reads of a package: where each public name comes from."""
    homes = registry.public_names(package)
    lines = [f"from {home} import {name} as {name}" for name, home in homes.items()]
    lines.sort(key=lambda line: (line.split()[1], line.split()[3]))
    if package == "treebandit":
        lines += ["", "__version__: str"]
    return "\n".join([*lines, ""])


@pytest.mark.parametrize("package", PACKAGES)
def test_type_checkers_are_told_what_the_registry_says(package):
    assert stub_path(package).read_text() == stub(package)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_class_and_function_is_registered_under_the_module_that_defines_it(package):
    for name, home in registry.public_names(package).items():
        value = getattr(import_module(home), name)
        if isinstance(value, type) or inspect.isfunction(value):
            assert value.__module__ == home, name


@pytest.mark.parametrize("name", PACKAGES)
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


def test_every_public_name_tells_which_extra_brings_what_it_lacks():
    code = f"""
import sys
from importlib import import_module

class OnlyNeeded:
    known = sys.stdlib_module_names | {{"treebandit", "numpy", "numba", "llvmlite", "narwhals"}}

    def find_spec(self, name, path=None, target=None):
        if path is None and name not in self.known:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, OnlyNeeded())
from treebandit import errors
for package in {PACKAGES}:
    for name in import_module(package).__all__:
        try:
            getattr(import_module(package), name)
        except errors.MissingExtraError as error:
            print(package, error.extra)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    told = {tuple(line.split()) for line in done.stdout.splitlines()}
    assert told >= {("treebandit.evaluation", "evaluation"), ("treebandit.reports", "experiments")}


def test_every_error_is_in_the_tree_of_the_docstring_and_exported():
    classes = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert classes == set(errors.__all__)
    for name in classes:
        assert name in errors.__doc__
        assert issubclass(getattr(errors, name), errors.TreebanditError)


def test_no_public_name_is_that_of_a_module_beside_it():
    """Python would set the module in place of the object as soon as somebody imports it."""
    for package in (None, *registry._APART):
        name = "treebandit" + (f".{package}" if package else "")
        folder = Path(treebandit.__file__).parent / (package or "")
        modules = {
            path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
        }
        assert not modules & set(registry.public_names(name))


def test_no_module_is_longer_than_400_lines():
    long = {p.name: n for p in source_files() if (n := len(p.read_text().splitlines())) > 400}
    assert not long


def test_nothing_runs_at_import():
    """Top-level statements are definitions, imports, constants and docstrings."""
    allowed = (
        ast.Import,
        ast.ImportFrom,
        ast.FunctionDef,
        ast.AsyncFunctionDef,
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


def test_all_compiled_code_is_kept_by_the_same_rules():
    """numba's own `njit` fails at import where no folder can be written."""
    for path in source_files():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "numba" and path.name != "compiled.py":
                assert not {"njit", "jit"} & {alias.name for alias in node.names}, path.name


def source_files():
    return sorted(Path(treebandit.__file__).parent.rglob("*.py"))


if __name__ == "__main__":
    for each in PACKAGES:
        stub_path(each).write_text(stub(each))
