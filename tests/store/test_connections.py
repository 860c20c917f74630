"""A store whose file goes away while it is open says so instead of writing into nowhere."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.codes import raises

from trimtab.base.error import UnreadableError
from trimtab.base.snapshot import Snapshot
from trimtab.store.store import Store

AT = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_store_that_was_removed_or_replaced_takes_nothing(tmp_path: Path, replaced: bool) -> None:
    path = tmp_path / "t.db"
    with Store.open(path) as store:
        store.ensure_site("here")
        path.rename(tmp_path / "away.db")
        if replaced:
            path.write_bytes(b"another file")
        with raises(UnreadableError, "store-replaced"):
            store.add_snapshot("here", Snapshot(AT, "memory", True, ()))
        path.unlink(missing_ok=True)
        (tmp_path / "away.db").rename(path)
        assert store.add_snapshot("here", Snapshot(AT, "memory", True, ()))
