"""Fixtures of all tests of probes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from trimtab.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Yield a store of the test's own, below a directory of its own."""
    with Store.open(tmp_path / "store" / "t.db") as opened:
        yield opened
