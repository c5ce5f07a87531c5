"""The API reference, written from the registry before each build: one page per package, one per public name.

A name that is added to `registry.py` has a page at the next build; nothing is listed here by hand but the order of the
packages and what each is for.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from treebandit import errors
from treebandit.registry import public_names

#: Package -> title, and what it is for; packages that are not here follow with their name as the title.
PAGES = {
    "agents": ("Agents", "What decides and learns."),
    "oracles": ("Oracles", "Which rows may be chosen together: from scores to a feasible choice."),
    "core": ("Core", "The words that all packages share: candidates, decisions, rounds, the roles."),
    "saving": ("Saving", "Agents in files; the method `save` of an agent writes them."),
    "features": ("Features", "How frames, dicts and arrays become rows."),
    "models": ("Models", "What a reward model is: what a row will pay, and how sure that is."),
    "policies": ("Policies", "How an estimate becomes scores to choose by."),
    "trees": ("Trees", "Tree ensembles seen as leaves, and the libraries that grow them."),
    "environments": ("Environments", "Problems to play: they show rounds and pay rewards."),
    "evaluation": ("Evaluation", "Decision logs, and what another policy would have earned on them."),
    "datasets": ("Data sets", "Labelled tables that come with the package, and your own."),
    "experiments": ("Experiments", "Studies, runs and records."),
    "reports": ("Reports", "Tables, figures and the page of a study."),
    "service": ("Service", "The decision service."),
    "checks": ("Checks", "Contracts that classes of your own can be examined with."),
}


def grouped() -> dict[str, dict[str, str]]:
    """Package -> name -> where it is asked for."""
    top = public_names()
    groups: dict[str, dict[str, str]] = {}
    packages = {home.split(".")[1] for home in top.values()} | set(PAGES)
    for package in packages:
        inside = public_names(f"treebandit.{package}")
        for name in inside:
            at = f"treebandit.{name}" if top.get(name) == inside[name] else f"treebandit.{package}.{name}"
            groups.setdefault(package, {})[name] = at
    return groups


def write_pages(app: Sphinx, config: object) -> None:
    """Write reference/api/ anew."""
    target = Path(app.srcdir) / "reference" / "api"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    groups = grouped()
    order = [package for package in PAGES if package in groups]
    order += sorted(set(groups) - set(order))
    for package in order:
        title, purpose = PAGES.get(package, (package.capitalize(), ""))
        lines = [title, "=" * len(title), "", purpose, "", ".. autosummary::", "   :toctree: names", ""]
        lines += [f"   {at}" for _, at in sorted(groups[package].items())]
        (target / f"{package}.rst").write_text("\n".join(lines) + "\n", encoding="utf-8")
    index = ["API", "===", "", "Made from the docstrings.", "", ".. toctree::", "   :maxdepth: 2", ""]
    index += [f"   {package}" for package in order]
    (target / "index.rst").write_text("\n".join(index) + "\n", encoding="utf-8")
    (target.parent / "errors.rst").write_text(error_page(), encoding="utf-8")
    (target.parent / "http.rst").write_text(http_page(), encoding="utf-8")


def error_page() -> str:
    """The tree of exceptions, then each of them."""
    said = (errors.__doc__ or "").split("\n\n", 1)
    lines = ["Errors", "======", "", said[0].strip(), ""]
    lines += [
        "All of them are in ``treebandit.errors``; their messages say what was given, what was expected and"
    ]
    lines += ["what to do, and what raised them has changed nothing.", "", ".. code-block:: text", ""]
    lines += [f"   {line}" for line in said[1].strip().splitlines()]
    lines += ["", ".. currentmodule:: treebandit.errors", ""]
    for name in errors.__all__:
        lines += [f".. autoexception:: {name}", "   :show-inheritance:", ""]
    return "\n".join(lines)


def http_page() -> str:
    """Every operation of the service, from the document that it serves at /openapi.json."""
    from treebandit.service.app import OPERATIONS
    from treebandit.service.openapi import document

    described = document(OPERATIONS)
    lines = [
        "HTTP API",
        "========",
        "",
        "Made from the OpenAPI document, which a running service shows at ``/docs`` and",
    ]
    lines += ["serves at ``/openapi.json``. How to use it: :doc:`/service`.", ""]
    for path, methods in described["paths"].items():
        for method, each in methods.items():
            title = f"``{method.upper()} {path}``"
            lines += [title, "-" * len(title), "", each["summary"].rstrip(".") + ".", ""]
            named = [one for one in each.get("parameters", ()) if one.get("description")]
            lines += [f"- ``{one['name']}`` ({one['in']}): {one['description']}" for one in named]
            lines += ["", *_body(each, described), f"Answers: {', '.join(sorted(each['responses']))}.", ""]
    return "\n".join(lines)


def _body(operation: dict[str, Any], described: dict[str, Any]) -> list[str]:
    """The members of the JSON object that an operation takes."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
    schema = described["components"]["schemas"].get(name, {})
    members = schema.get("properties", {})
    if not members:
        return []
    needed = set(schema.get("required", ()))
    members_text = ", ".join(f"``{member}``{' (required)' if member in needed else ''}" for member in members)
    return [f"Takes a JSON object with {members_text}.", ""]


def setup(app: Sphinx) -> dict[str, bool]:
    """Before the sources are listed."""
    app.connect("config-inited", write_pages)
    return {"parallel_read_safe": True}
