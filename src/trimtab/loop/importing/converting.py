"""Formats that are not text: a child process turns them into text that a format reads."""

from __future__ import annotations


def converted(path: str, content: bytes) -> bytes | None:
    """Return the text of a binary file; ``None`` where the content is to be read as it is.

    Raises
    ------
    DataError
        It could not be converted.
    """
    return None
