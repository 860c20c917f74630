"""What is kept of a record is what judging all of it from nothing gives, whatever happened."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.counts import repetitions, seeded
from tests.support.small_site import SITE, SmallSite, hour

from trimtab.base.encode import dumps
from trimtab.base.event import Event, EventKind, identifier_of
from trimtab.base.maintenance_window import (
    MaintenanceWindow,
    ending_of,
    event_of,
)
from trimtab.base.plain import packed
from trimtab.base.run import Run, RunStatus, Sample
from trimtab.explain.status import SlowTargetStatus
from trimtab.judge import variability
from trimtab.probe import site_judgement
from trimtab.probe.incident_search import incidents_of
from trimtab.probe.site_judgement import JudgeTerms, judge_site
from trimtab.probe.site_standing import whole_standing
from trimtab.probe.site_status import status_of
from trimtab.site.place import Place
from trimtab.store import kept
from trimtab.store.kept import keeping
from trimtab.store.store import Store

pytestmark = pytest.mark.cli
HOURS = 24 * 20
PLACE = Place(SITE, None)


@pytest.fixture(autouse=True)
def _of_short_records_too(monkeypatch):
    monkeypatch.setattr(kept, "_FEW_RUNS", 0)


def small_site(path: Path, seed: int = 1) -> Path:
    """Keep a site with a loss of a fifth, and surveys with a slow target."""
    values = np.random.default_rng(seed).normal(1e9, 2e7, HOURS)
    values[HOURS // 2 :] *= 0.8
    surveys = []
    for day in range(HOURS // 24):
        of = {f"OST{n:04}": 2e8 * (0.5 if n == 3 and day > 10 else 1.0) for n in range(8)}
        surveys.append((hour(24 * day + 0.5), {"write_bandwidth": of}))
    series = {"write_bandwidth": values, "read_bandwidth": values * 1.5}
    return SmallSite(series, surveys).keep(path)


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    return answered_once(small_site(tmp_path_factory.mktemp("answered") / "t.db"))


@pytest.fixture
def store(answered, tmp_path):
    with copy_of(answered, tmp_path / "t.db") as opened:
        yield opened


def run(number: float, value: float, **others: Any) -> Run:
    """Return one more run of the hourly probe."""
    return Run(
        id=identifier_of(hour(number), f"late-{value}"), site=SITE, probe="hourly", kind="ior",
        status=RunStatus.OK, at=hour(number), until=hour(number) + timedelta(minutes=4),
        parameters={"spec": {"name": "hourly", "nodes": 4, "tasks": 32}},
        samples=tuple(Sample(name, value, 0) for name in ("write_bandwidth", "read_bandwidth")),
        **others,
    )  # fmt: skip


def answers(store: Store, place: Place = PLACE) -> tuple[str, ...]:
    """Return all that readers ask for, as it is printed."""
    limits = place.limits
    explained = incidents_of(store, place, now=hour(HOURS))
    asked = (
        status_of(store, SITE, goal=limits.cov, window_s=limits.window_s),
        judge_site(store, place).judgement,
        whole_standing(store, place),
        replace(explained, store="", judged_at=hour(HOURS), bases={}),
    )
    return tuple(map(dumps, asked))


def answered_once(path: Path) -> Path:
    """Have a record keep all that answers are made of."""
    with pytest.MonkeyPatch.context() as patched, Store.open(path) as store:
        patched.setattr(kept, "_FEW_RUNS", 0)
        answers(store)
    return path


def copy_of(record: Path, path: Path) -> Store:
    """Open a copy of a record and of what it keeps."""
    path.write_bytes(record.read_bytes())
    return Store.open(path)


def from_nothing(store: Store, place: Place = PLACE) -> tuple[str, ...]:
    """Return the same where nothing is kept."""
    store.drop_derived()
    return answers(store, place)


def test_what_is_kept_is_read_and_not_worked_out_again(store, monkeypatch):
    first = answers(store)
    for module, name in ((site_judgement, "judge_series"), (variability, "judge_history")):
        monkeypatch.setattr(module, name, lambda *a, **k: 1 / 0)
    assert answers(store) == first
    with pytest.raises(ZeroDivisionError):
        from_nothing(store)


def test_of_a_short_record_nothing_is_kept(store, monkeypatch):
    store.drop_derived()
    monkeypatch.setattr(kept, "_FEW_RUNS", 10_000)
    answers(store)
    assert store.drop_derived() == 0


def add_a_run(store: Store, random: Any, path: Path) -> None:
    store.add_run(run(HOURS + random.random() * 40, 8e8 + random.random() * 1e8))


def add_a_late_run(store: Store, random: Any, path: Path) -> None:
    store.add_run(run(random.random() * HOURS, 4e8 + random.random() * 1e8))


def add_a_run_that_failed(store: Store, random: Any, path: Path) -> None:
    failed = run(random.random() * HOURS, random.random())
    store.add_run(replace(failed, status=RunStatus.FAILED, samples=(), problem="it ended with 1"))


def lose_a_run(store: Store, random: Any, path: Path) -> None:
    with sqlite3.connect(path) as connection:
        numbers = [number for (number,) in connection.execute("SELECT number FROM run")]
        number = (random.choice(numbers),)
        connection.execute("DELETE FROM sample WHERE run = ?", number)
        connection.execute("DELETE FROM run WHERE number = ?", number)


def rename_a_probe(store: Store, random: Any, path: Path) -> None:
    """Change rows in place, as a repair by hand does, with their checksums."""
    from sqlalchemy import update

    from trimtab.store import checksum, schema

    this = schema.run.c.number == random.randrange(1, HOURS)
    with store._writing() as connection:
        connection.execute(update(schema.run).where(this).values(path=f"/x{random.random()}"))
        checksum.resum(connection, schema.run, this)


def log_an_event(store: Store, random: Any, path: Path) -> None:
    at = hour(random.random() * HOURS)
    event = Event(
        id=identifier_of(at, f"{random.random()}"), site=SITE, kind=EventKind.CONFIG_CHANGE, at=at,
        until=None, targets=(), detail="checksums on", source="person",
    )  # fmt: skip
    store.add_event(event)


def plan_a_maintenance(store: Store, random: Any, path: Path) -> None:
    at = hour(random.random() * HOURS)
    targets = ("OST0003",) if random.random() < 0.3 else ()
    window = MaintenanceWindow(
        identifier_of(at, f"{random.random()}"), SITE, at,
        at + timedelta(hours=1 + random.random() * 40), "firmware", "person", targets,
    )  # fmt: skip
    store.add_event(event_of(window))


def end_a_maintenance(store: Store, random: Any, path: Path) -> None:
    for window in store.windows(SITE)[:1]:
        store.add_event(ending_of(window, window.at + timedelta(minutes=90), "person"))


CHANGES: tuple[Callable[[Store, Any, Path], None], ...] = (
    add_a_run,
    add_a_late_run,
    add_a_run_that_failed,
    lose_a_run,
    rename_a_probe,
    log_an_event,
    plan_a_maintenance,
    end_a_maintenance,
)


@pytest.mark.parametrize("histories", repetitions(gate=1, soak=200))
def test_whatever_happened_it_is_what_judging_from_nothing_gives(tmp_path, histories):
    random = seeded("what is kept")
    for number in range(histories):
        path = small_site(tmp_path / f"{number}.db", number)
        with Store.open(path) as store:
            for _ in range(4):
                for change in random.choices(CHANGES, k=random.randrange(0, 3)):
                    change(store, random, path)
                assert answers(store) == (now := answers(store))
            assert now == from_nothing(store)


def test_other_terms_are_not_mixed_up(store):
    whole = judge_site(store, PLACE).judgement
    strict = judge_site(store, PLACE, JudgeTerms(goal=0.001)).judgement
    part = judge_site(store, PLACE, JudgeTerms(until=hour(100).isoformat())).judgement
    only = judge_site(store, PLACE, JudgeTerms(metric="read_bandwidth")).judgement
    store.drop_derived()
    assert judge_site(store, PLACE, JudgeTerms(goal=0.001)).judgement == strict != whole
    assert judge_site(store, PLACE, JudgeTerms(metric="read_bandwidth")).judgement == only
    assert judge_site(store, PLACE).judgement == whole
    store.drop_derived()
    assert judge_site(store, PLACE, JudgeTerms(until=hour(100).isoformat())).judgement == part


def test_another_version_of_the_program_judges_again(store, monkeypatch):
    answers(store)
    monkeypatch.setattr(kept, "_version", lambda: "another")
    monkeypatch.setattr(variability, "judge_history", lambda *a, **k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        answers(store)


def test_a_damaged_value_is_worked_out_again(tmp_path, store):
    first = answers(store)
    for damage in ("document = x'00'", "document = zeroblob(4), checksum = NULL"):
        with sqlite3.connect(tmp_path / "t.db") as connection:
            connection.execute(f"UPDATE derived SET {damage}")
        assert answers(store) == first


def test_a_value_that_was_made_while_its_rows_changed_is_not_kept(store):
    rests_on = lambda sums: sorted(sums.runs.items())  # noqa: E731
    with keeping(store, SITE) as look:
        changing = lambda: store.add_run(run(HOURS, 1e9)) or 7  # noqa: E731
        assert look.remembered("count", int, rests_on, changing) == 7
    with keeping(store, SITE) as look:
        assert look.known("count", int, rests_on) is None


def test_a_look_reads_a_series_once_and_again_when_its_rows_change(tmp_path, store, monkeypatch):
    with keeping(store, SITE) as look:
        series = next(entry for entry in look.series() if entry.probe == "hourly")
        points = look.history(series)
        with monkeypatch.context() as patched:
            for name in ("series", "history"):
                patched.setattr(store, name, lambda *a, **k: 1 / 0)
            with keeping(store, SITE) as within:
                assert within.series() is look.series()
                assert within.history(series) is points
        store.add_run(run(HOURS, 1e9))
        with keeping(store, SITE) as later:
            assert later.history(series)[: len(points)] == points
            assert len(later.history(series)) == len(points) + 2
            assert next(e.runs for e in later.series() if e.key == series.key) == series.runs + 1
    with Store.open(tmp_path / "t.db") as store, keeping(store, SITE) as another:
        assert another.history(series) is not points


def test_a_store_that_may_only_be_read_answers_the_same(store, monkeypatch):
    from trimtab.base.error import UnreadableError

    def refused(*_: object) -> None:
        raise UnreadableError("the store may only be read", code="store-read-only")

    first = answers(store)
    store.drop_derived()
    monkeypatch.setattr(Store, "keep_derived", refused)
    assert (answers(store), store.derived(SITE, "status")) == (first, {})


def test_text_that_is_no_utf8_is_answered_and_not_kept(store):
    named = "\udcff"
    with keeping(store, SITE) as look:
        assert look.remembered("name", str, lambda sums: 0, lambda: named) == named
    assert store.derived(SITE, "name") == {}


def test_judged_afresh_nothing_that_is_kept_is_taken_over_and_all_is_compared(store, monkeypatch):
    first = from_nothing(store)
    with kept.afresh() as comparison:
        assert answers(store) == first
    assert comparison.values > 5
    assert comparison.differing == []
    monkeypatch.setattr(site_judgement, "judge_series", lambda *a, **k: 1 / 0)
    with pytest.raises(ZeroDivisionError), kept.afresh():
        answers(store)


def test_what_is_kept_and_wrong_is_named_and_made_right(store):
    first = answers(store)
    wrong = zlib.compress(packed(tuple[SlowTargetStatus, ...], ()))
    slow = store.derived(SITE, "slow targets")["slow targets"]
    store.keep_derived(SITE, {"slow targets": replace(slow, document=wrong)})
    with kept.afresh() as comparison:
        assert answers(store) == first
    assert comparison.differing == ["slow targets"]
    with kept.afresh() as comparison:
        assert answers(store) == first
    assert comparison.differing == []
