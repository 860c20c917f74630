"""How far a sweep is: its runs so far, and the settings that a person must make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.model.excluded_runs import doubts_text
from trimtab.report.sections import Section
from trimtab.report.text import levels_text

if TYPE_CHECKING:
    from trimtab.loop.sweep import SweepState


_SETTINGS_SHOWN = 8


def extent_sections(state: SweepState) -> tuple[Section, ...]:
    """Return the progress of a sweep, which of its runs count, and what a person must do."""
    sweep = state.sweep
    measured = f"{state.measured} of {len(state.points)} runs measured, "
    count = sum(doubt.runs for doubt in state.doubts)
    doubts = (
        f"{count} of them hold{'s' * (count == 1)} no credible figure: {doubts_text(state.doubts)}"
    )
    other = f"{state.left_out} stored runs are left out: they belong to another probe"
    waiting = (
        f"{levels_text(levels)}: then add "
        + " ".join(f"--now {key}={value}" for key, value in levels.items())
        for levels in state.waiting[:_SETTINGS_SHOWN]
    )
    return (
        Section(
            "Measured so far",
            lines=(
                f"{measured}{len(sweep.points)} points, {sweep.rounds} rounds",
                *((f"always {levels_text(sweep.fixed)}",) if sweep.fixed else ()),
                *((doubts,) if state.doubts else ()),
                *((other,) if state.left_out else ()),
                *(f"failed: {failure}" for failure in state.failures),
            ),
        ),
        Section("to be set by hand before the rest can be measured", lines=tuple(waiting)),
    )
