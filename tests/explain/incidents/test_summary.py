"""What the summary of an incident names: the series that leads, and what lost most."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from trimtab.base.incident import Shape
from trimtab.base.run import RunStatus
from trimtab.base.series import ChangeStatus, SeriesKey
from trimtab.explain.context import RunFact
from trimtab.explain.failed_run import failures, lone_runs
from trimtab.explain.incident_detection import merged
from trimtab.explain.spell import Spell, name_of, percent_off

AT = datetime(2026, 3, 2, tzinfo=UTC)


def spell(probe: str, effect: float | None, depth: float, apart: str = "") -> Spell:
    key = SeriesKey(
        "s", probe, "ior", "write_bandwidth", "B/s", comparability=probe + apart, apart=apart
    )
    what = "2 runs did not finish" if effect is None else percent_off(effect, more_is_better=True)
    return Spell(
        shape=Shape.STEP, key=key, name=name_of(key), at=AT, until=None,
        last=AT + timedelta(days=3), detected_at=AT, certainty=ChangeStatus.CONFIRMED,
        depth=depth, what=what, effect=effect, is_level=True,
    )  # fmt: skip


def summary(*spells: Spell) -> str:
    (incident,) = merged(spells, {}, site="s", now=AT + timedelta(days=3))
    return incident.summary.partition(": ")[2]


def test_the_largest_loss_is_named_however_noisy_its_series() -> None:
    steady = [spell(f"steady{n}", 0.85 - n / 100, 20.0 - n) for n in range(5)]
    noisy = spell("scale", 0.1, 6.0, apart="tasks 4,096")
    assert summary(*steady, noisy) == (
        "steady0 write_bandwidth 15 % lower; scale write_bandwidth (tasks 4,096) 90 % lower; "
        "steady4 write_bandwidth 19 % lower; 3 more"
    )


def test_lost_runs_do_not_push_it_out() -> None:
    lost = [spell(f"lost{n}", None, 9.0) for n in range(3)]
    told = summary(spell("lead", 0.8, 20.0), *lost, spell("noisy", 0.1, 6.0))
    assert told == (
        "lead write_bandwidth 20 % lower; lost0 write_bandwidth 2 runs did not finish; "
        "noisy write_bandwidth 90 % lower; 2 more"
    )


def test_a_series_that_only_scatters_lost_nothing() -> None:
    lead, other = spell("lead", 0.5, 20.0), spell("other", 0.8, 8.0)
    spread = replace(
        spell("spread", None, 30.0), shape=Shape.UNSTEADY, what="COV 20 %", is_level=False,
        key=lead.key,
    )  # fmt: skip
    assert summary(lead, other, spread).endswith("other write_bandwidth 20 % lower; "
                                                 "spread write_bandwidth COV 20 %")  # fmt: skip


def fact(hour: float, tasks: int) -> RunFact:
    at = AT + timedelta(hours=hour)
    return RunFact(f"{hour}", at, None, "scale", "ior", f"{tasks}", RunStatus.FAILED)


def frames(*tasks: int) -> dict[SeriesKey, pl.DataFrame]:
    frame = pl.DataFrame(
        {
            "at": [AT + timedelta(hours=n) for n in range(-900, 9)],
            "value": [1.0] * 909,
            "unfinished": [False] * 909,
        },
        schema_overrides={"at": pl.Datetime("us", "UTC")},
    )
    return {
        SeriesKey(
            "s", "scale", "ior", "write_bandwidth", "B/s", f"{of}", apart=f"tasks {of}"
        ): frame
        for of in tasks
    }


@pytest.mark.parametrize(
    ("tasks", "words"),
    [((512, 512, 512), "3 runs failed (tasks 512)"), ((512, 64), "2 runs failed")],
)
def test_runs_that_failed_are_told_with_their_series(tasks: tuple[int, ...], words: str) -> None:
    runs = [fact(hour, of) for hour, of in enumerate(tasks)]
    (spell,) = failures(runs, {"512": "tasks 512", "64": "tasks 64"})
    assert (spell.name, spell.what) == ("scale", words)


def test_a_lone_run_is_told_with_its_series() -> None:
    runs = [fact(0, 512)]
    known = frames(512, 64)
    (lone,) = lone_runs(failures(runs), known, runs)
    assert lone.apart == "tasks 512"
    (other,) = lone_runs(failures(runs), {}, runs)
    assert other.apart == ""
