"""Made-up states and scenarios of plain numbers."""

from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from trimtab.twin import scenario as model
from trimtab.twin.simulated_reading import (
    CRITERIA,
    MdtState,
    OstState,
    SettingState,
    SimulatedState,
)

START = datetime(2023, 7, 1, tzinfo=UTC)
FLAGS = ("create_enabled", "degraded", "failover_active", "answers")
HOURLY = model.ProbeLoad("hourly", "ior", "every 1h", 4, 8, 2**20, 4e12, 1800.0)
DAILY = model.ProbeLoad("survey", "obdfilter-survey", "daily at 21:00")


def state_of(
    osts: int = 8,
    columns: int | None = None,
    mdts: int = 4,
    settings: SettingState | None = None,
    at: datetime = START,
    hours: float = 0.0,
) -> SimulatedState:
    """Return a state in which every number is another; counters grow with ``hours``."""
    settings = settings or SettingState()
    count = columns or osts
    number = np.arange(count, dtype=float)
    criteria = len(CRITERIA[settings.family])
    values: dict[str, np.ndarray] = {}
    for place, one in enumerate(fields(OstState)):
        if one.name in FLAGS:
            values[one.name] = np.full(count, one.name in ("create_enabled", "answers"))
        elif one.name.startswith("allocator_") and one.name.endswith(
            ("loops_total", "considered_total")
        ):
            base = 1e5 * (place + 1) + np.arange(criteria) * 1e3
            values[one.name] = number[:, None] * 10 + base + hours * 100
        else:
            values[one.name] = 1e6 * (place + 1) + number + hours * 1000
    values |= {
        "capacity_bytes": np.full(count, 120e12),
        "used_bytes": 80e12 + number * 1e9,
        "inodes_total": np.full(count, 2e8),
        "inodes_used": 1e8 + number,
        "last_trim_s": np.full(count, START.timestamp() - 86400.0),
        "server_cpu_fraction": 0.25 + number / 1000,
        "drive_percentage_used": np.full(count, 0.05),
        "drive_write_amplification": 1.5 + number / 100,
    }
    own = np.arange(mdts, dtype=float)
    return SimulatedState(
        at=at,
        osts=OstState(**values),
        mdts=MdtState(
            capacity_bytes=np.full(mdts, 3e12),
            used_bytes=1e12 + own,
            inodes_total=np.full(mdts, 4e9),
            inodes_used=1e9 + own,
            metadata_operations_total=1e10 + own + hours * 1e6,
            server_cpu_fraction=0.1 + own / 100,
            bytes_discarded_total=own * 1e9,
            last_trim_s=np.full(mdts, START.timestamp() - 86400.0),
        ),
        column=np.arange(osts) % count,
        settings=settings,
    )


def changed(state: SimulatedState, **arrays: Any) -> SimulatedState:
    """Return a state with other arrays of its OSTs."""
    return replace(state, osts=replace(state.osts, **arrays))


def scenario_of(osts: int = 8, hours: float = 336.0, **others: object) -> model.Scenario:
    """Return a scenario of that many OSTs."""
    drive = model.DriveModel("PM1733", 15.36e12, 7e9, 3.2e9, 1.5e6, 135e3, 0.1, 1.0)
    return model.Scenario(
        "toy",
        "A toy",
        START,
        hours * 3600.0,
        model.Osts(osts, drive, per_server=2),
        model.Mdts(4),
        model.Server(),
        model.Clients(100, 25e9),
        model.Users(count=100, fullness=0.6, daily_writes_bytes=1e14, daily_reads_bytes=1e14),
        seed=7,
        timezone="America/Los_Angeles",
        probes=(HOURLY, DAILY),
        **others,  # type: ignore[arg-type]
    )
