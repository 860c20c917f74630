"""Small scenarios for tests."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from trimtab.twin.scenario import (
    Clients,
    DriveModel,
    Lifetime,
    Mdts,
    Osts,
    ProbeLoad,
    Resolution,
    Scenario,
    Server,
    Users,
)

DAY = 86400.0
START = datetime(2023, 7, 1, tzinfo=UTC)
DRIVE = DriveModel("pm1733", 15.36e12, 3.5e9, 3.2e9, 800e3, 133e3, 0.12, 1.0)


def small(days: float = 3.0, **changed: Any) -> Scenario:
    """Return eight OSTs like Perlmutter's, an hour an epoch, a column each."""
    scenario = Scenario(
        name="small",
        title="eight OSTs",
        start=START,
        length_s=days * DAY,
        osts=Osts(8, DRIVE),
        mdts=Mdts(2),
        server=Server(),
        clients=Clients(32, 50e9),
        users=Users(
            count=100,
            fullness=0.6,
            daily_writes_bytes=8 * 135e12 * 0.076,
            daily_reads_bytes=8 * 135e12 * 0.076,
            lifetimes=(Lifetime(0.7, DAY), Lifetime(0.28, 20 * DAY), Lifetime(0.02, None)),
        ),
        seed=7,
        resolution=Resolution(classes=None, groups=16, superblock_units=64),
        probes=(
            ProbeLoad("ior", "ior", "every 1h", 1, 64, bytes_written=3e12),
            ProbeLoad("survey", "obdfilter-survey", "daily at 20:00"),
        ),
    )
    return replace(scenario, **changed)
