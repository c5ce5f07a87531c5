"""Answers that are not a success."""

from __future__ import annotations


class Refused(Exception):  # noqa: N818
    """An answer that is not a success."""

    def __init__(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, headers or {}
