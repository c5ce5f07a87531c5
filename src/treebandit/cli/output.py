"""What commands share: where they may write, and how they print."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treebandit.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

#: The option --html of commands that write a page.
Page = Annotated[str | None, typer.Option(metavar="FILE", help="Write the page: one file, works offline.")]


def writable_folder(path: str, option: str) -> Path:
    """A folder that is there or can be made, as the path that an option gives."""
    folder = Path(path)
    try:
        there = next((place for place in (folder, *folder.absolute().parents) if place.exists()), folder)
        if path.strip() and there.is_dir() and os.access(there, os.W_OK | os.X_OK):
            return folder
        is_file = there.exists() and not there.is_dir()
        reason = f"{there} is no folder" if is_file else "it cannot be written to"
    except OSError as error:
        reason = f"{error.strerror}"
    raise InputError(f"{option} is {path!r}, which cannot be used ({reason}); give a folder to write into")


def writable_file(path: str, option: str) -> Path:
    """A file that can be written, as the path that an option gives."""
    file = Path(path)
    if not path.strip() or file.is_dir():
        raise InputError(f"{option} is {path!r}, which is a folder; give a file to write")
    writable_folder(str(file.parent), option)
    return file


def replace_unwritable() -> None:
    """Print a question mark for what the output's encoding does not have; the standard error escapes it anyway.

    In the C locale without UTF-8 mode Python sets `surrogateescape`, which raises for them as `strict` does.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in ("strict", "surrogateescape"):
        sys.stdout.reconfigure(errors="replace")


def print_json(text: str) -> None:
    """Print JSON, with what the output's encoding does not have as JSON escapes it."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(json.loads(text), indent=1)
    typer.echo(text)


def print_line(console: Console, text: str, style: str = "") -> None:
    """Print text as it is: brackets in names are no markup."""
    from rich.text import Text

    console.print(Text(text, style=style), soft_wrap=True)
