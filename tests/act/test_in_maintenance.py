"""In a maintenance controllers leave targets alone, unless they are told otherwise."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from tests.act.test_deciding import NOW
from tests.act.world import MemoryStore, site

from trimtab.act.observing import busy
from trimtab.base.event import identifier_of
from trimtab.base.maintenance_window import IN_MAINTENANCE, MaintenanceWindow, event_of
from trimtab.base.snapshot import Snapshot

HOUR = timedelta(hours=1)
EMPTY = Snapshot(NOW, "lustre", True, ())


@pytest.mark.parametrize(
    ("targets", "hours", "names"),
    [((), 0, [""]), (("OST0001",), 0, ["OST0001"]), ((), 5, []), ((), -5, [])],
)
def test_what_a_window_holds(
    tmp_path: Path, targets: tuple[str, ...], hours: int, names: list[str]
) -> None:
    """Each policy and the way back ask for it: their own tests hold the reason of a probe."""
    store: Any = cast("Any", MemoryStore(tmp_path))
    here = site(limits=None)
    at = NOW + (hours - 1) * HOUR
    window = MaintenanceWindow(
        identifier_of(at, "w"), here.name, at, at + 2 * HOUR, "firmware", "person", targets
    )
    store.add_event(event_of(window))
    store.open_slots = lambda site: ()
    reasons = busy(here, store, EMPTY, NOW)
    assert [name for name, why in reasons.items() if why.code == IN_MAINTENANCE] == names
    otherwise = replace(here, policies=replace(here.policies, in_maintenance=True))
    assert not any(
        why.code == IN_MAINTENANCE for why in busy(otherwise, store, EMPTY, NOW).values()
    )
