"""Rungs and hardware for tests, in GB/s."""

from collections.abc import Mapping, Sequence

from trimtab.base.run import Layer
from trimtab.base.site_hardware import Hardware, Parity, parse_figure
from trimtab.judge.efficiency_ladder import (
    Coverage,
    Efficiency,
    IntervalBasis,
    LadderInput,
    Rung,
    Track,
)
from trimtab.judge.ladder_analysis import build_ladder
from trimtab.judge.layer_efficiency import of_figure, of_values

GB = 1e9
ONE = Coverage(12, 1, 1)
HARDWARE = Hardware(
    drive_write=parse_figure("3.20 GB/s"),
    drive_read=parse_figure("3.50 GB/s"),
    drives=12,
    osts=1,
    oss=1,
    parity=Parity(8, 2),
    network=parse_figure("50 GB/s"),
)


def rung(
    layer: Layer, rate: str | Sequence[float], metric: str = "read_bandwidth", **more: object
) -> Rung:
    """Return a rung of the whole: printed, or with repetitions in GB/s."""
    if isinstance(rate, str):
        estimate = of_figure(parse_figure(rate))
    else:
        estimate = of_values([value * GB for value in rate], IntervalBasis.REPETITIONS)
    given: dict[str, object] = {"coverage": ONE, **more}
    return Rung(layer, metric, estimate, **given)  # pyrefly: ignore[bad-argument-type]


def track(
    *rungs: Rung, hardware: Hardware = HARDWARE, margin: float = 0.1, networked: bool = True
) -> Track:
    """Return the only track of a ladder."""
    given = LadderInput("test", hardware, rungs, networked=networked)
    (found,) = build_ladder(given, margin=margin).tracks
    return found


def efficiencies(found: Track) -> Mapping[tuple[str, str], Efficiency]:
    """Return every efficiency by layer and what it is of."""
    return {
        (step.rung.layer, one.of): one
        for step in found.steps
        for one in (*step.beneath, *([step.of_data_sheet] if step.of_data_sheet else []))
    }
