"""Agents as bytes: in memory only, as models may hold personal data."""

from __future__ import annotations

import io
from typing import Any

from treebandit import saving


def saved_bytes(agent: Any, *, history: bool = True) -> bytes:
    """What `agent.save` writes."""
    file = io.BytesIO()
    agent.save(file, history=history)
    return file.getvalue()


def loaded(data: bytes, *, max_bytes: int = saving.NO_LIMIT) -> Any:
    """The agent in such bytes. max_bytes: what it may take in memory; what this service has saved may take any."""
    return saving.load(io.BytesIO(data), max_bytes=max_bytes)


def publishable(agent: Any) -> bytes:
    """The agent without its history, as deciders load it; a SavedFileError where they could not."""
    data = saved_bytes(agent, history=False)
    loaded(data)
    return data
