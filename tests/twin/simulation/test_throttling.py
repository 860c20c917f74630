from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.twin.simulation.small import small

from trimtab.twin.scenario import Queue
from trimtab.twin.simulation.ost_rate import ThrottlingTerms, slowdown, throttling


@pytest.mark.calibration
def test_throttling_takes_nothing_where_it_is_off_or_nothing_is_collected():
    amplification = np.array([1.0, 1.9, 1.65])
    off = small(queue=Queue(writeback_throttling=False))
    assert throttling(off, amplification).tolist() == [1.0, 1.0, 1.0]
    left = throttling(small(), amplification)
    assert left[0] == pytest.approx(1.0, abs=0.01)
    # Turning it off gave 10 % back where collection limits writes (S1, IV.A.4).
    assert 0.85 < left[1] < 0.96
    assert min(left[0], left[1]) <= left[2] <= 1.0


def test_it_is_the_ratio_of_two_windows():
    scenario = small()
    on = ThrottlingTerms(scenario.osts.drive, scenario.osts.raid, scenario.queue, 1.9)
    off = replace(on, queue=Queue(writeback_throttling=False))
    ratio = slowdown(on).write_bytes_per_s / slowdown(off).write_bytes_per_s
    assert throttling(scenario, np.array([1.9]))[0] == pytest.approx(ratio)
