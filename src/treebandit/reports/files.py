"""Writing a file in full or not at all."""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path

from treebandit.errors import SavedFileError


def write_whole(path: Path, content: bytes) -> Path:
    """Write under a name of its own and rename, so that half a file is never seen; gives the path."""
    temporary = path.parent / f".{uuid.uuid4().hex}.tmp"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SavedFileError(f"{str(path)!r} cannot be written ({reason}); give another path") from error
    finally:
        with contextlib.suppress(OSError, ValueError):
            temporary.unlink(missing_ok=True)
    return path
