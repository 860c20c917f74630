"""A store for every test of this directory that asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from trimtab.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Return an empty store, ``t.db`` in the directory of the test."""
    with Store.open(tmp_path / "t.db") as opened:
        yield opened
