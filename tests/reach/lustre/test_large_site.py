"""298 OSTs and 16 MDTs on 157 servers: one fan-out a snapshot, each server asked once.

What it costs is measured by ``make bench-snapshot``: timings decide no test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.fake_lustre.state import FakeLustre

from trimtab.base.site import Servers
from trimtab.reach.lustre.lustre_driver import LustreDriver
from trimtab.reach.process import ProcessResult
from trimtab.store.snapshot_batch import Base, Values, decode, frame_of

pytestmark = pytest.mark.system

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_a_snapshot_of_a_large_site_is_one_round_trip() -> None:
    fake = FakeLustre.perlmutter()
    names = tuple(server.name for server in fake.servers)
    asked: list[tuple[str, ...]] = []

    def fan_out(
        nodes: Sequence[str], argv: Sequence[str], **how: Any
    ) -> Mapping[str, ProcessResult]:
        asked.append(tuple(nodes))
        return fake.fan_out(nodes, argv, **how)

    driver = LustreDriver(
        "/scratch",
        fake.file_system,
        Servers(oss=names, sudo=True),
        execute=fake.execute,
        fan_out=fan_out,
    )
    snapshot = driver.snapshot(AT)
    assert len(asked) == 1
    assert sorted(asked[0]) == sorted(names)
    assert len(names) == 157
    kinds = [one.target.kind for one in snapshot.targets]
    assert (kinds.count("ost"), kinds.count("mdt")) == (298, 16)
    assert snapshot.complete
    assert all(one.target.server for one in snapshot.targets)
    assert all(one.number("used_bytes") for one in snapshot.targets)
    # OST indices are hexadecimal in names and decimal in lfs df.
    assert snapshot.targets[-1].target.name == "OST0129"
    base = Base.of(frame_of(snapshot))
    assert len(base.batch) < 512 * 1024
    changes = base.changes(Values.of(base.frame))
    assert decode(changes, base, at=AT, driver="lustre", complete=True) == snapshot
