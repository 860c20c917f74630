"""What changed within the interval in which an incident began, and what changed too late."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.explain.causes.contexts import (
    BAD_FROM,
    HOUR,
    LOST,
    OSTS,
    START,
    WELL,
    context,
    event,
    incident,
    quiet,
    run,
    runs,
    setting,
    shows,
    with_log,
)

from trimtab.base.event import EventKind
from trimtab.base.incident import NAMED, Found
from trimtab.explain.causes.configuration_change import CONFIGURATION_CHANGE
from trimtab.explain.causes.onset import down_before, onset_of
from trimtab.explain.causes.open_targets import FEW_TARGETS_OPEN
from trimtab.explain.context import Context
from trimtab.explain.explanation import conclude, gather

CHANGE = EventKind.CONFIG_CHANGE
BETWEEN = replace(incident(), onset=(BAD_FROM - HOUR, BAD_FROM))
"""An incident of hourly runs: it began between two of them."""
AFTER_WEEKS = replace(incident(), onset=(START - timedelta(days=20), BAD_FROM))
"""One that began while the probe did not run."""


def test_an_entry_anywhere_in_a_gap_is_within_the_onset() -> None:
    log = with_log(event(CHANGE, BAD_FROM - timedelta(days=9), "compute nodes reinstalled"))
    piece = shows(CONFIGURATION_CHANGE, quiet(of=AFTER_WEEKS, events=log), "change-logged",
                  Found.FOR, says="between the last good run and the first bad run")  # fmt: skip
    # In three weeks chance has an entry more often than in an hour.
    near = with_log(event(CHANGE, BAD_FROM - HOUR / 2, "compute nodes reinstalled"))
    sharp = shows(CONFIGURATION_CHANGE, quiet(of=BETWEEN, events=near), "change-logged")
    assert 0.3 < piece.weight < sharp.weight - 0.5
    # Where the onset is sharp, the same entry is too early.
    shows(CONFIGURATION_CHANGE, quiet(of=BETWEEN, events=log), "change-logged",
          Found.NOT_AVAILABLE)  # fmt: skip


def changed_at(name: str, hours: float) -> list[dict[str, object]]:
    """Return a setting that has another value from so long after the first bad hour."""
    rows = setting(name, "0", targets=["nid1"])
    return [row | {"value": "1" if row["at"] >= BAD_FROM + hours * HOUR else "0"} for row in rows]


@pytest.mark.parametrize("hours", [-1, 0, 3, 6])
def test_a_setting_that_was_as_before_when_runs_were_slow_is_not_it(hours: float) -> None:
    of = quiet(of=BETWEEN, settings=changed_at("checksums", hours))
    found = {piece.what.code for piece in CONFIGURATION_CHANGE.evidence(of)
             if piece.found is Found.FOR}  # fmt: skip
    assert ("setting-changed" in found) == (hours <= 0)


def test_a_setting_that_no_byte_passes_is_not_named() -> None:
    def sure(name: str) -> float:
        of = quiet(of=BETWEEN, settings=changed_at(name, 0))
        causes = conclude(of.incident, gather(of)).causes
        return next((c.confidence for c in causes if c.cause == "configuration-change"), 0.0)

    assert sure("checksums") >= NAMED > sure("debug_mb")
    assert sure("checksums") > sure("some_tunable") > sure("debug_mb")


@pytest.mark.parametrize(
    ("name", "metric", "most"),
    [
        ("statahead_max", "file_stat_rate", 1.5),
        ("statahead_max", "write_bandwidth", 0.0),
        ("pages_per_rpc", "write_bandwidth", 1.5),
        ("read_ahead_mb", "file_creation_rate", 0.0),
        ("debug", "write_bandwidth", 1.5),
        ("debug_mb", "file_stat_rate", 0.0),
        ("obdfilter/soft_sync_limit", "write_bandwidth", 1.2),
    ],
)
def test_a_setting_counts_where_it_is_on_the_path_of_what_is_slow(
    name: str, metric: str, most: float
) -> None:
    of = replace(incident(metric=metric), onset=BETWEEN.onset)
    piece = shows(CONFIGURATION_CHANGE, quiet(of=of, settings=changed_at(name, 0)),
                  "setting-changed")  # fmt: skip
    assert piece.weight == pytest.approx(most, abs=0.01)


def test_changes_of_other_things_are_no_rivals() -> None:
    def weight(*details: str) -> float:
        more = (event(CHANGE, BAD_FROM - (40 + n) * HOUR, detail)
                for n, detail in enumerate(details))  # fmt: skip
        log = with_log(event(CHANGE, BAD_FROM - timedelta(days=9), "clients reinstalled"), *more)
        return shows(
            CONFIGURATION_CHANGE, quiet(of=AFTER_WEEKS, events=log), "change-logged"
        ).weight

    assert weight() == weight("dashboards moved", "debug_mb set on clients")
    assert weight() > weight("kernel of OSSs updated", "LNet credits raised")


def test_as_many_runs_as_noise_asks_for_tell_that_it_was_down() -> None:
    def down(noise: float, hours: float) -> bool:
        facts = [
            replace(fact, values={k: v * (1 + noise * (n % 5 - 2)) for k, v in fact.values.items()})
            for n, fact in enumerate(runs(WELL, LOST))
        ]
        return down_before(context(of=BETWEEN, runs=facts), BAD_FROM + hours * HOUR)

    assert onset_of(context(of=BETWEEN)) == BETWEEN.onset
    assert not down(0.01, 0)
    assert down(0.01, 0.5)
    assert not down(0.1, 0.5)
    assert down(0.1, 11)


def closed(first_slow_h: float) -> Context:
    """Return targets closed 5 hours after surveys date the onset, no snapshots."""
    hours = (BAD_FROM - 48 * HOUR + n * HOUR for n in range(60))
    facts = [run(at, {"write_bandwidth": LOST if at >= BAD_FROM + first_slow_h * HOUR else WELL})
             for at in hours]  # fmt: skip
    log = with_log(event(EventKind.TARGET_CLOSED, BAD_FROM + 5 * HOUR, "over the limit",
                         targets=OSTS[:6]))  # fmt: skip
    return context(runs=facts, events=log)


def test_closing_while_runs_are_well_is_not_late() -> None:
    shows(FEW_TARGETS_OPEN, closed(5), "event-logged-late", Found.FOR)
    shows(FEW_TARGETS_OPEN, closed(0), "event-logged-late", Found.NEUTRAL)
