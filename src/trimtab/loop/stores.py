"""Opening the store from a command: asked for within a deadline, made only where runs are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.launch import bounded

if TYPE_CHECKING:
    from trimtab.record.store import Store


def open_store(url: str | None, *, create: bool = False) -> Store:
    """Return the store at a URL, path or the default place; see `trimtab.record.store.Store.open`.

    Raises
    ------
    NoAnswer
        The file system that it lies on does not answer.
    UnreadableError
        There is none and ``create`` is false, or it cannot be read.
    """
    from trimtab.record.store import Store

    return Store.open(url, answers=bounded.describe, create=create)
