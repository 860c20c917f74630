"""Whether a target got slower after a change, from its surveys beside those of the others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from trimtab.act.first_target import with_verdicts
from trimtab.base.action import Action, ActionKind, Instruction, Outcome
from trimtab.base.error import Message
from trimtab.base.event import new_identifier
from trimtab.base.run import Run, RunStatus, Sample
from trimtab.store.store import Store

NOW = datetime(2026, 11, 22, tzinfo=UTC)
TARGETS = ("OST0000", "OST0001", "OST0002", "OST0003")


def keep_survey(store: Store, day: int, rates: dict[str, float]) -> None:
    at = NOW + timedelta(days=day)
    samples = tuple(
        Sample(metric, scale * rate, target=target)
        for target, rate in rates.items()
        for metric, scale in (("write_bandwidth", 1e9), ("read_bandwidth", 2e9))
    )
    store.add_run(
        Run(new_identifier(at), "s", "survey", "survey", RunStatus.OK, at=at, samples=samples)
    )


def keep_run(store: Store, day: int, rate: float) -> None:
    at = NOW + timedelta(days=day)
    samples = (Sample("write_bandwidth", rate), Sample("write_time", 1.0 / rate))
    store.add_run(
        Run(new_identifier(at), "s", "hourly", "fio", RunStatus.OK, at=at, samples=samples)
    )


def done(stage: int = 0) -> Action:
    instruction = Instruction(
        ActionKind.SET, "OST0000", Message("a", "b"), setting="x", value="0", stage=stage
    )
    return Action(
        new_identifier(NOW), "s", "tunables", "p", "me", NOW, instruction,
        until=NOW + timedelta(minutes=1), outcome=Outcome.DONE,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("after", "load", "slower"),
    [(10.0, 1.0, 0.0), (8.0, 1.0, 0.2), (8.0, 0.8, 0.0), (11.0, 1.0, -0.1)],
)
def test_a_target_is_compared_with_itself_beside_the_others(
    tmp_path: Path, after: float, load: float, slower: float
) -> None:
    with Store.open(tmp_path / "t.db") as store:
        for day in (-3, -2, -1):
            keep_survey(store, day, dict.fromkeys(TARGETS, 10.0))
        for day in (1, 2):
            others = dict.fromkeys(TARGETS[1:], 10.0 * load)
            keep_survey(store, day, {"OST0000": after, **others})
        (action,) = with_verdicts(store, "s", [done()])
    assert float(action.facts["slower"]) == pytest.approx(slower, abs=1e-3)


def test_without_a_survey_after_it_nothing_is_told(tmp_path: Path) -> None:
    with Store.open(tmp_path / "t.db") as store:
        (action,) = with_verdicts(store, "s", [done()])
        assert action.facts == {}
        keep_survey(store, -1, dict.fromkeys(TARGETS, 10.0))
        (action,) = with_verdicts(store, "s", [done()])
        assert "slower" not in action.facts
        keep_survey(store, 1, dict.fromkeys(TARGETS[1:], 10.0))
        (action,) = with_verdicts(store, "s", [done()])
        assert "slower" not in action.facts


def test_a_verdict_is_pending_only_where_a_survey_after_the_change_can_tell(
    tmp_path: Path,
) -> None:
    with Store.open(tmp_path / "t.db") as store:
        # Surveyed for nothing, again and again, if it had no survey before.
        (action,) = with_verdicts(store, "s", [done()], surveyed=True)
        assert action.facts == {}
        keep_survey(store, -1, dict.fromkeys(TARGETS, 10.0))
        (action,) = with_verdicts(store, "s", [done()], surveyed=True)
        assert action.facts == {"verdict": "pending"}
        keep_survey(store, 1, dict.fromkeys(TARGETS, 10.0))
        (action,) = with_verdicts(store, "s", [done()], surveyed=True)
        assert list(action.facts) == ["slower"]


@pytest.mark.parametrize(
    ("after", "stage", "facts"),
    [
        (8.0, 0, {"slower": "0.2000"}),
        (10.0, 1, {"slower": "0.0000"}),
        (8.0, 2, {}),  # others have changed by then
        (None, 0, {"verdict": "pending"}),
        (None, 1, {}),
    ],
)
def test_a_first_change_is_compared_with_the_runs_of_the_named_probe(
    tmp_path: Path, after: float | None, stage: int, facts: dict[str, str]
) -> None:
    with Store.open(tmp_path / "t.db") as store:
        for day in (-3, -2, -1):
            keep_run(store, day, 10.0)
        if after is not None:
            keep_run(store, 1, after)
        (action,) = with_verdicts(store, "s", [done(stage)], probe="hourly")
        assert action.facts == facts
        assert with_verdicts(store, "s", [done(stage)])[0].facts == {}


def test_a_survey_and_a_probe_tell_the_worse_of_the_two(tmp_path: Path) -> None:
    with Store.open(tmp_path / "t.db") as store:
        for day, rate in ((-1, 10.0), (1, 9.0)):
            keep_survey(store, day, {**dict.fromkeys(TARGETS, 10.0), "OST0000": rate})
        keep_run(store, -1, 10.0)
        (action,) = with_verdicts(store, "s", [done()], surveyed=True, probe="hourly")
        assert action.facts == {"slower": "0.1000", "verdict": "pending"}
        keep_run(store, 1, 7.0)
        (action,) = with_verdicts(store, "s", [done()], surveyed=True, probe="hourly")
        assert action.facts == {"slower": "0.3000"}
