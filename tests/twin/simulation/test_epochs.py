"""What a drive copies does not hang on how long an epoch is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.twin.simulation.small import DAY, small

from trimtab.twin.scenario import Trim
from trimtab.twin.simulation.engine import Simulation

pytestmark = pytest.mark.calibration

STEADY = {"burstiness": 0.0, "rhythm": 0.0, "fullness": 0.7}


def amplification(epoch_s: float) -> float:
    """Return what drives wrote for each byte of the host over the last of ten days."""
    base = small(10.0, trim=Trim(every_s=DAY))
    scenario = replace(
        base,
        users=replace(base.users, **STEADY),
        resolution=replace(base.resolution, epoch_s=epoch_s),
    )
    of = Simulation(scenario, threads=1)
    of.run(of.now + (of.end - of.now) / 2)
    flash, host = of.state.flash_written_total.copy(), of.state.bytes_written_total.copy()
    of.run()
    flash, host = of.state.flash_written_total - flash, of.state.bytes_written_total - host
    return float(flash.sum() / host.sum())


def test_write_amplification_is_that_of_short_epochs_whatever_their_length():
    """A day's epoch wrote all jobs of the day at once and trimmed once: it copied half as much."""
    quarter = amplification(900.0)
    for epoch_s in (3600.0, 6 * 3600.0, DAY):
        assert amplification(epoch_s) == pytest.approx(quarter, rel=0.03), epoch_s
