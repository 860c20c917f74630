"""A sizing is the steady state of a simulation: both say the same of an OST."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from trimtab.twin import scenario as model
from trimtab.twin.scenario_key import preset
from trimtab.twin.simulation.engine import Simulation
from trimtab.twin.whatif.ost_amplification import BURST_FILES, MiniatureSize, Probing, amplify
from trimtab.twin.whatif.sizing_figure import case_of, ost_write_bytes_per_s
from trimtab.twin.whatif.whatif_request import SizingRequest, TrimWord

DAY = 86400.0
DAILY = 0.068
"""Capacities: Perlmutter's 2.5 PB a day."""
SMALL = MiniatureSize(16, 64, seeds=8)
"""Of both, so that they differ by nothing else."""
GRID = (  # thresholds themselves, 0.75 and 0.85, have OSTs on either side of a leap by ten
    (0.60, "nightly", "classic", "pm1733"),
    (0.74, "nightly", "classic", "pm1733"),
    (0.74, "never", "classic", "pm1733"),
    (0.74, "nightly", "classic", "pm1735"),
    (0.80, "nightly", "optimize-scan", "pm1733"),
    (0.84, "nightly", "classic", "pm1733"),
    (0.87, "nightly", "classic", "pm1733"),
    (0.85, "nightly", "el9", "pm1733"),
    (0.85, "discard", "el9", "pm1735"),
)


def simulated(
    request: SizingRequest, fullness: float, trim: TrimWord, miniature: MiniatureSize = SMALL
) -> model.Scenario:
    """Return 16 OSTs that stay as full, as somebody would write them down, surveyed each hour."""
    one = request.scenario
    osts = replace(one.osts, count=16)
    whole = model.capacity_bytes(replace(one, osts=osts))
    users = replace(
        one.users,
        fullness=fullness,
        fullness_spread=0.0,
        daily_writes_bytes=DAILY * whole,
        lifetimes=(model.Lifetime(1.0, fullness / DAILY * DAY),),
        rhythm=0.0,
        burstiness=0.0,
    )
    return replace(
        one,
        osts=osts,
        users=users,
        trim=model.Trim(DAY if trim == "nightly" else None, trim == "discard"),
        probes=(model.ProbeLoad("survey", "obdfilter-survey", "every 6h"),),
        purge=model.Purge(),
        gating=model.Gating(),
        changes=(),
        faults=(),
        length_s=60 * DAY,
        resolution=replace(
            one.resolution,
            classes=None,
            groups=miniature.groups,
            superblock_units=miniature.superblock_units,
        ),
    )


@pytest.mark.calibration
@pytest.mark.parametrize(("fullness", "trim", "family", "drive"), GRID)
def test_size_and_twin_run_agree(
    fullness: float, trim: TrimWord, family: model.AllocatorFamily, drive: str
) -> None:
    request = SizingRequest(1e15, preset(drive).model, osts=16, family=family)
    (sized,) = amplify([case_of(trim, request, fullness, DAILY)], miniature=SMALL)
    of = Simulation(simulated(request, fullness, trim))
    of.run(of.now + timedelta(days=50))
    surveys = [run.write_bytes_per_s for run in of.trace.surveys[-80:]]
    twin = float(np.mean(surveys))
    size = ost_write_bytes_per_s(request, sized.simulated, sized.walks, from_clients=False)
    assert size == pytest.approx(twin, rel=0.05)


@pytest.mark.calibration
@pytest.mark.parametrize("trim", ["never", "nightly"])
def test_they_agree_beside_a_probe_whose_runs_share_superblocks_with_users(trim: TrimWord) -> None:
    """As many bytes an hour as users write, in runs of less than a superblock of the miniature."""
    request = SizingRequest(1e15, preset("pm1733").model, osts=4)
    miniature = MiniatureSize(64, 1024, seeds=4)
    case, probing = case_of(trim, request, 0.6, 2 * DAILY), Probing(0.5, DAILY / 24)
    (sized,) = amplify([case], probing=probing, miniature=miniature)
    alone = simulated(request, 0.6, trim, miniature)
    osts = replace(alone.osts, count=4)
    whole = model.capacity_bytes(replace(alone, osts=osts))
    run = DAILY / 24 * whole
    probed = replace(
        alone,
        osts=osts,
        users=replace(alone.users, daily_writes_bytes=DAILY * whole),
        probes=(
            model.ProbeLoad("hourly", "ior", "every 1h", 1, 4 * BURST_FILES, bytes_written=run),
        ),
    )
    of = Simulation(probed)
    of.run(of.now + timedelta(days=50))
    twin = float(np.mean(of.trace.of("amplification")[-20 * 24 :]))
    assert sized.simulated == pytest.approx(twin, rel=0.05)
