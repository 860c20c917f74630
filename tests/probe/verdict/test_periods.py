"""What a record says of a past period is kept, and is what reading all of it from nothing says."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.probe.verdict.test_keeping import (
    add_a_late_run,
    answered_once,
    answers,
    copy_of,
    from_nothing,
    lose_a_run,
    run,
)
from tests.support.counts import repetitions, seeded
from tests.support.small_site import SITE, SmallSite, hour

from trimtab.base.error import UnreadableError
from trimtab.base.site import SiteLimits
from trimtab.base.snapshot import HostSnapshot, Reading, Snapshot
from trimtab.explain.failed_run import BadChecksums
from trimtab.explain.remembered_spells import low_together, recurring_hours
from trimtab.explain.slow_hour import periodic, pooled
from trimtab.explain.spell import LookedSeries, Spell
from trimtab.probe import site_judgement
from trimtab.probe.bad_checksums import ChecksumsQuestion, bad_checksums, grown_over
from trimtab.probe.incident_question import FactsQuestion
from trimtab.probe.incident_search import incidents_of
from trimtab.probe.site_judgement import judge_site
from trimtab.probe.survey_record import survey_record
from trimtab.site.place import Place
from trimtab.store import kept
from trimtab.store.kept import keeping
from trimtab.store.kept_period import PERIOD, bounds_of
from trimtab.store.store import Store

pytestmark = pytest.mark.cli
DAYS = 42
"""From the middle of one period to the beginning of the third."""
HOURS = 24 * DAYS
PLACE = Place(SITE, None)


@pytest.fixture(autouse=True)
def _of_short_records_too(monkeypatch):
    monkeypatch.setattr(kept, "_FEW_RUNS", 0)


def counted(number: float, count: int | None) -> Snapshot:
    """Return a snapshot in which a server has counted so many bad checksums."""
    silent = count is None
    reading = Reading(
        "checksum_errors_total",
        count,
        None if silent else "dmesg",
        "it does not answer" if silent else None,
    )
    steady = Reading("checksum_errors_total", 7, "dmesg", None)
    hosts = (
        HostSnapshot("oss01", "server", readings=(reading,)),
        HostSnapshot("oss02", "server", readings=(steady,)),
    )
    return Snapshot(hour(number), "lustre", True, (), hosts=hosts)


def months(path: Path, seed: int, days: int = DAYS) -> Path:
    """Keep a site of several periods: a loss, low nights, lost runs, surveys, and counts."""
    random, hours = np.random.default_rng(seed), 24 * days
    values = random.normal(1e9, 2e7, hours)
    values[hours // 2 :] *= 0.8
    values[(np.arange(hours) % 24 < 3) & (np.arange(hours) > 24 * 20)] *= 0.7
    values[random.integers(0, hours, 3)] = np.nan
    surveys = [
        (
            hour(24 * day + 0.5),
            {"write_bandwidth": {f"OST{n:04}": 2e8 * (0.5 if n == 3 else 1.0) for n in range(8)}},
        )
        for day in range(0, days, 5)
    ]
    SmallSite({"write_bandwidth": values, "read_bandwidth": values * 1.5}, surveys).keep(path)
    count = 0
    with Store.open(path) as store:
        for number in range(0, hours, 12):
            count += int(random.random() < 0.03)
            store.add_snapshot(SITE, counted(number, None if random.random() < 0.2 else count))
    return path


def add_a_run(store: Store, random: Any, path: Path) -> None:
    store.add_run(run(HOURS + random.random() * 40, 8e8 + random.random() * 1e8))


def add_a_run_of_before_the_record(store: Store, random: Any, path: Path) -> None:
    """Keep a run whose clock was set back by years."""
    store.add_run(run(-24 * 365 * 60 * random.random(), 9e8))


def add_a_snapshot(store: Store, random: Any, path: Path) -> None:
    store.add_snapshot(SITE, counted(HOURS + random.random() * 40, random.randrange(4)))


def add_a_late_snapshot(store: Store, random: Any, path: Path) -> None:
    store.add_snapshot(SITE, counted(random.random() * HOURS, random.randrange(4)))


def lose_snapshots(store: Store, random: Any, path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM snapshot WHERE number % 7 = ?", (random.randrange(7),))


def another_version(store: Store, random: Any, path: Path) -> None:
    """Have all that is kept be of another version of the program."""
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE derived SET basis = basis || 'x'")
        connection.execute("UPDATE derived SET checksum = NULL WHERE number % 2 = 0")


def lose_what_is_kept(store: Store, random: Any, path: Path) -> None:
    """Drop some of what is kept, as where writing it was cut short."""
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM derived WHERE number % 3 = ?", (random.randrange(3),))


def add_by_another_writer(store: Store, random: Any, path: Path) -> None:
    """Have another process keep a run, and what it makes of the record, meanwhile."""
    with Store.open(path) as other:
        other.add_run(run(HOURS + random.random() * 40, 9e8))
        judge_site(other, PLACE)


CHANGES: tuple[Callable[[Store, Any, Path], None], ...] = (
    add_a_run,
    add_a_late_run,
    add_a_run_of_before_the_record,
    lose_a_run,
    add_a_snapshot,
    add_a_late_snapshot,
    lose_snapshots,
    another_version,
    lose_what_is_kept,
    add_by_another_writer,
)


@pytest.mark.parametrize("histories", repetitions(gate=1, soak=60))
def test_whatever_happened_in_any_period_it_is_what_reading_from_nothing_gives(tmp_path, histories):
    random = seeded("periods")
    for number in range(histories):
        path = months(tmp_path / f"{number}.db", number)
        with Store.open(path) as store:
            for _ in range(2):
                for change in random.choices(CHANGES, k=random.randrange(1, 4)):
                    change(store, random, path)
                now = answers(store)
            assert now == from_nothing(store)


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    return answered_once(months(tmp_path_factory.mktemp("answered") / "t.db", 1))


@pytest.fixture
def store(answered, tmp_path):
    with copy_of(answered, tmp_path / "t.db") as opened:
        yield opened


def test_after_one_more_run_only_its_period_is_read(store, monkeypatch):
    answers(store)
    store.add_run(run(HOURS, 8e8))
    read: list[int | None] = []

    def noting(name: str) -> None:
        method = getattr(Store, name)

        def noted(self: Store, *words: Any) -> Any:
            read.append(words[-1])
            return method(self, *words)

        monkeypatch.setattr(Store, name, noted)

    noting("run_points")
    noting("runs_in")
    monkeypatch.setattr(Store, "history", lambda *a, **k: 1 / 0)
    asked = []
    monkeypatch.setattr(ChecksumsQuestion, "answer", lambda question: asked.append(question) or ())
    found = incidents_of(store, PLACE, now=hour(HOURS))
    judge_site(store, PLACE)
    assert asked == []
    begin, end = bounds_of(read[0] or 0)
    assert begin <= hour(HOURS) <= end
    assert set(read) == {read[0]}
    assert len(read) == 2
    monkeypatch.undo()
    monkeypatch.setattr(kept, "_FEW_RUNS", 0)
    store.drop_derived()
    anew = incidents_of(store, PLACE, now=hour(HOURS))
    assert found == anew


def test_after_one_more_run_only_the_last_weeks_windows_are_made(tmp_path, monkeypatch):
    days = 75  # a window rests on runs of two periods after its own
    judge, made = site_judgement.judge_series, []
    noting = lambda *a, **k: made.append(judge(*a, **k)) or made[-1]  # noqa: E731
    with Store.open(months(tmp_path / "t.db", 1, days)) as store:
        judge_site(store, PLACE)
        store.add_run(run(24 * days, 8e8))
        monkeypatch.setattr(site_judgement, "judge_series", noting)
        judged = judge_site(store, PLACE).judgement.series
    hourly = [each for each in judged if each.overall.n > HOURS]
    assert len(made) == len(hourly) == 2
    for part, whole in zip(made, hourly, strict=True):
        assert 0 < len(part.rolling) < len(whole.rolling) == 24 * days + 1


def test_windows_of_a_series_so_dense_that_some_are_left_out_are_made_anew(store, monkeypatch):
    monkeypatch.setattr("trimtab.judge.rolling._CELLS_MOST", 20_000)
    judge_site(store, PLACE)
    store.add_run(run(HOURS, 8e8))
    now = judge_site(store, PLACE).judgement
    assert len(now.series[0].rolling) < HOURS / 2
    assert judge_site(store, PLACE).judgement == now
    store.drop_derived()
    assert judge_site(store, PLACE).judgement == now


def test_measurements_of_past_surveys_are_not_read_again(store, monkeypatch):
    first = store.survey_frame(SITE)
    with keeping(store, SITE) as look:
        assert survey_record(look).equals(first)
    store.add_run(run(HOURS, 8e8))
    with monkeypatch.context() as patched, keeping(store, SITE) as look:
        patched.setattr(Store, "survey_frame", lambda *a, **k: 1 / 0)
        assert survey_record(look).equals(first)
    lost = first["run"][0]
    with sqlite3.connect(store.location.path) as connection:
        connection.execute("DELETE FROM run WHERE id = ?", (lost,))
    with keeping(store, SITE) as look:
        assert survey_record(look).equals(first.filter(first["run"] != lost))


def test_a_kill_before_anything_is_kept_loses_nothing(store, monkeypatch):
    first = answers(store)
    store.drop_derived()
    with monkeypatch.context() as patched:
        patched.setattr(Store, "keep_derived", lambda *a: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            answers(store)
    assert answers(store) == first


def test_a_store_that_may_only_be_read_gives_the_same(store, monkeypatch):
    first = answers(store)
    store.add_run(run(HOURS, 8e8))
    second = answers(store)
    store.drop_derived()

    def refused(*_: object) -> None:
        raise UnreadableError("the store may only be read", code="store-read-only")

    monkeypatch.setattr(Store, "keep_derived", refused)
    assert answers(store) == second != first


def test_limits_of_an_edited_site_file_hold_in_every_period(store):
    before = answers(store)
    strict = SiteLimits(cov=0.001)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Place, "limits", property(lambda self: strict))
        assert answers(store) == (kept_ := answers(store)) != before
        assert kept_ == from_nothing(store)
    assert answers(store) == before


def test_judged_afresh_all_periods_are_compared(store):
    first = answers(store)
    with kept.afresh() as comparison:
        assert answers(store) == first
    assert (comparison.values > 10, comparison.differing) == (True, [])
    wrong = next(noun for (noun,) in _nouns(store) if noun.startswith("checksums, period"))
    of_another = next(
        noun for (noun,) in _nouns(store) if noun.startswith("checksums, period") and noun != wrong
    )
    both = store.derived(SITE, wrong, of_another)
    store.keep_derived(SITE, {wrong: replace(both[wrong], document=both[of_another].document)})
    with kept.afresh() as comparison:
        assert answers(store) == first
    assert comparison.differing == [wrong]


def _nouns(store: Store) -> list[tuple[str]]:
    with sqlite3.connect(store.location.path) as connection:  # type: ignore[arg-type]
        return connection.execute("SELECT noun FROM derived ORDER BY noun").fetchall()


def test_facts_of_periods_are_those_of_the_record(store):
    url = store.location.url
    store.add_run(run(-24 * 365 * 60, 9e8))
    (whole,) = FactsQuestion(url, SITE).answer()
    periods = sorted({period for _, period in store.sums(SITE).runs_in})
    parts = FactsQuestion(url, SITE, None, tuple(periods)).answer()
    assert periods[0] < 0
    assert len(parts) == len(periods) > 3
    assert tuple(fact for part in parts for fact in part.runs) == whole.runs


def test_sums_of_periods_add_up_and_are_of_their_rows(store):
    sums = store.sums(SITE)
    for name, total in sums.runs.items():
        parts = [of for (series, _), of in sums.runs_in.items() if series == name]
        assert total == (sum(n for n, _ in parts), sum(of for _, of in parts))
    counts = [
        len(store.snapshot_times(SITE, since=a, until=b))
        for a, b in map(bounds_of, sums.snapshots_in)
    ]
    assert counts == [count for count, _ in sums.snapshots_in.values()]
    assert sums.tables["snapshot"][0] == sum(counts)


def grown(store: Store) -> list[tuple[str, float, int]]:
    periods = tuple(sorted(store.sums("world").snapshots_in))
    question = ChecksumsQuestion(store.location.url, "world", periods, periods[-1])
    return said(grown_over(store, "world", question.answer()))


def said(found: Iterable[BadChecksums]) -> list[tuple[str, float, int]]:
    return sorted(
        (each.where, (each.at - hour(0)).total_seconds() / 3600, each.count) for each in found
    )


@pytest.mark.parametrize("seed", range(6))
def test_counts_of_periods_grow_as_those_of_the_record(tmp_path, seed):
    random = np.random.default_rng(seed)
    first = (bounds_of(730)[0] - hour(0)) // timedelta(hours=1)
    with Store.open(tmp_path / "t.db") as store:
        store.ensure_site("world", driver="lustre", identity="lustre:w", path="/w")
        count = 5
        for number in range(-24 * 3, 24 * 30, 6):
            step = random.random()
            count = count + int(step < 0.05) if step > 0.01 else 0
            is_silent = random.random() < 0.3 or (seed % 2 and -24 < number < 30)
            store.add_snapshot("world", counted(first + number, None if is_silent else count))
        times = store.snapshot_times("world")
        assert len(store.sums("world").snapshots_in) == 3
        assert grown(store) == said(bad_checksums(store, "world", times[0], times[-1]))
        assert grown(store)


def test_spells_of_looks_are_those_of_all_looks_and_made_once(tmp_path):
    days = 75  # of more than one look
    with Store.open(months(tmp_path / "t.db", 1, days)) as store:
        judged = judge_site(store, PLACE)
    series = [(each, judged.frames[each.key]) for each in judged.judgement.series]
    made: dict[str, tuple[Spell, ...]] = {}

    def remember(digest: str, make: Callable[[], Any]) -> Any:
        if digest not in made:
            made[digest] = tuple(make())
            count[0] += 1
        return made[digest]

    count = [0]
    now = hour(24 * days)
    looked = LookedSeries(series, now)
    for of, frame in series:
        parts = looked.of(of.key)
        expected = periodic(parts, frame, "UTC")
        assert recurring_hours(parts, frame, "UTC", remember=remember) == expected
        assert recurring_hours(parts, frame, "Europe/Zurich", remember=remember) == periodic(
            parts, frame, "Europe/Zurich"
        )
        assert len(parts) > 1
    assert low_together(looked.together(), remember=remember) == pooled(looked.together())
    before = count[0]
    again = LookedSeries([(of, frame.clone()) for of, frame in series], now)
    for of, frame in series:
        recurring_hours(again.of(of.key), frame, "UTC", remember=remember)
    low_together(again.together(), remember=remember)
    assert count[0] == before
    assert any(made.values())


def test_periods_are_as_long_as_looks():
    from trimtab.explain.spell import EVERY

    assert PERIOD == EVERY
