"""What goldens are made of: each scene yields names and values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from scripts.goldens.scenes import record

SCENES: Final[Mapping[str, Callable[[], Iterator[tuple[str, Any]]]]] = {
    "record": record.goldens,
}
"""Folder of tests/goldens to the scene that makes it."""
