"""The watch writes planned windows into the log book; Slurm that is silent stops nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.watched import Moving, a_log, a_site
from tests.watch.alert.parcels_of import NOON

from trimtab.base.error import ToolError
from trimtab.base.event import identifier_of
from trimtab.base.maintenance_window import MaintenanceWindow
from trimtab.base.site import SiteLauncher
from trimtab.base.site_maintenance import SiteMaintenance
from trimtab.store.store import Store
from trimtab.watch import maintenance_calendar as module
from trimtab.watch.maintenance_calendar import MaintenanceCalendar

pytestmark = pytest.mark.system
HOUR = timedelta(hours=1)


def test_plans_of_the_file_and_of_slurm_are_kept_and_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = NOON + 5 * HOUR
    reserved = [
        MaintenanceWindow(
            identifier_of(at, "x"), "scratch", at, at + HOUR, "reservation x", "slurm"
        )
    ]

    def planned(_client: Any, _site: str) -> tuple[MaintenanceWindow, ...]:
        if not reserved:
            raise ToolError("slurmctld is silent", code="reservations-unknown")
        return tuple(reserved)

    monkeypatch.setattr(module, "find_slurm", lambda: SimpleNamespace(programs={}))
    monkeypatch.setattr(module, "planned_by_slurm", planned)
    firmware = SiteMaintenance("fw", "daily at 16:00", 2 * 3600.0, "firmware")
    site = replace(a_site(), maintenance=(firmware,), launchers=(SiteLauncher("slurm", "slurm"),))
    log, lines = a_log()
    with Store.open(tmp_path / "t.db") as store:
        calendar = MaintenanceCalendar(site, store, log=log, clock=Moving(NOON))

        def known(hours: float) -> list[tuple[str, bool]]:
            calendar.idle(NOON + hours * HOUR)
            windows = store.windows(site.name)
            return [(each.source, each.ended_at is not None) for each in windows]

        both = [("site-file", False), ("slurm", False)]
        assert known(0) == both
        reserved.clear()
        assert known(0.5) == known(1.5) == both, "what cannot be asked cancels nothing"
        assert "slurmctld is silent" in lines.text()
        later = at + HOUR
        reserved.append(
            MaintenanceWindow(
                identifier_of(later, "x"), "scratch", later, later + HOUR, "reservation x", "slurm"
            )
        )
        assert known(3) == [("site-file", False), ("slurm", True), ("slurm", False)]
