"""Small scenarios for tests."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from trimtab.twin import scenario as model

DAY = 86400.0
START = datetime(2023, 7, 1, tzinfo=UTC)
DRIVE = model.DriveModel("pm1733", 15.36e12, 3.5e9, 3.2e9, 800e3, 133e3, 0.12, 1.0)


def small(days: float = 3.0, **changed: Any) -> model.Scenario:
    """Return eight OSTs like Perlmutter's, an hour an epoch, a column each."""
    scenario = model.Scenario(
        name="small",
        title="eight OSTs",
        start=START,
        length_s=days * DAY,
        osts=model.Osts(8, DRIVE),
        mdts=model.Mdts(2),
        server=model.Server(),
        clients=model.Clients(32, 50e9),
        users=model.Users(
            count=100,
            fullness=0.6,
            daily_writes_bytes=8 * 135e12 * 0.076,
            daily_reads_bytes=8 * 135e12 * 0.076,
            lifetimes=(
                model.Lifetime(0.7, DAY),
                model.Lifetime(0.28, 20 * DAY),
                model.Lifetime(0.02, None),
            ),
        ),
        seed=7,
        resolution=model.Resolution(classes=None, groups=16, superblock_units=64),
        probes=(
            model.ProbeLoad("ior", "ior", "every 1h", 1, 64, bytes_written=3e12),
            model.ProbeLoad("survey", "obdfilter-survey", "daily at 20:00"),
        ),
    )
    return replace(scenario, **changed)
