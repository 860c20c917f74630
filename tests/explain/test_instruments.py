"""Instruments of an explanation: each series of a probe is one, with a limit of its own."""

from __future__ import annotations

from dataclasses import replace

from tests.explain.causes.contexts import context, gauge, runs

from trimtab.base.incident import Instrument
from trimtab.explain.context import RunFact
from trimtab.explain.explanation import instruments


def of_tasks(tasks: int, level: float) -> tuple[RunFact, ...]:
    facts = runs(level, level, probe="scale", bytes_written=level * 60.0)
    return tuple(replace(run, series=f"{tasks}", id=f"{tasks} {run.id}") for run in facts)


def seen(*facts: RunFact, apart: dict[str, str]) -> dict[str, Instrument]:
    made = replace(context(gauge("create_enabled", True), runs=facts), apart=apart)
    return {each.name: each for each in instruments(made) if each.metric == "write_bandwidth"}


def test_each_series_of_a_probe_has_its_own_limit() -> None:
    few, many = of_tasks(512, 2e9), of_tasks(4096, 9e9)
    both = seen(*few, *many, apart={"512": "tasks 512", "4096": "tasks 4,096"})
    assert set(both) == {"scale (tasks 512)", "scale (tasks 4,096)"}
    for facts, name in ((few, "scale (tasks 512)"), (many, "scale (tasks 4,096)")):
        alone = seen(*facts, apart={})["scale"]
        assert both[name].notices_below == alone.notices_below is not None
    pooled = seen(*few, *many, apart={})["scale"]
    assert pooled.notices_below != both["scale (tasks 512)"].notices_below
