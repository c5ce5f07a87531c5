"""Writing a file in full or not at all."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from treebandit.files import replacing


def write_whole(path: Path, content: bytes) -> Path:
    """Write a file in full or not at all, in a folder that is made where it is missing; gives the path."""
    with suppress(OSError, ValueError):  # `replacing` tells what is wrong with a path
        path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(content)
    return path
