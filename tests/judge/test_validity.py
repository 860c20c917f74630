"""Runs that did not do what was asked are not judged; a probe that was changed is not broken."""

import csv
import gzip
from datetime import UTC, datetime, timedelta

import pytest
from tests.judge.history import START
from tests.measure.recorded import REAL_DATA
from tests.support.known import known
from tests.support.sentences import numbers

from trimtab.judge.validity import Workload, invalid_runs, mismatch, workloads
from trimtab.message import code_of

GIB = 1024**3
SPEC = {"bytes_read": 1536.0 * GIB, "opens": 4098.0, "tasks": 2048.0}
BROKEN = {**SPEC, "bytes_read": 0.022 * GIB}


def daily(*did, start=START):
    return [Workload(f"run-{day}", start + timedelta(days=day), one) for day, one in enumerate(did)]


def test_a_run_as_asked_is_valid_and_rounding_is_no_difference():
    as_asked = Workload("a", START, {"bytes_read": 1.001 * SPEC["bytes_read"]}, SPEC)
    assert invalid_runs([as_asked]) == ()


@pytest.mark.parametrize(
    ("name", "value", "figures"),
    [
        ("bytes_read", 0.022 * GIB, [22.5, 1.5]),
        ("opens", 4000.0, [4000, 4098]),
        ("tasks", 1024.0, [1024, 2048]),
        ("tasks", 0.0, [0, 2048]),
    ],
)
def test_every_quantity_counts(name, value, figures):
    run = Workload("a", START, {**SPEC, name: value}, SPEC)
    (invalid,) = invalid_runs([run])
    assert (invalid.run, invalid.at) == ("a", START)
    assert (code_of(invalid.reason), numbers(invalid.reason)) == ("workload-differs", figures)
    assert name.replace("_", " ") in invalid.reason


def test_what_is_not_known_is_not_compared():
    assert mismatch({"tasks": None}, SPEC) is None
    assert mismatch({"tasks": 5.0}, {"tasks": None}) is None
    assert mismatch({"tasks": 5.0}, {}) is None


def test_figures_that_print_alike_are_told_in_bytes():
    found = known(
        mismatch({"bytes_read": 1000.0 * GIB}, {"bytes_read": 1000.4 * GIB}, tolerance=1e-5)
    )
    assert " B instead of " in found


def test_a_stretch_of_another_workload_is_a_broken_probe():
    found = workloads(daily(*[SPEC] * 60, *[BROKEN] * 15, *[SPEC] * 60))
    assert [spec.figures for spec in found.specs] == [SPEC]
    assert [one.run for one in found.invalid] == [f"run-{day}" for day in range(60, 75)]
    assert code_of(found.invalid[0].reason) == "workload-unlike-series"
    assert numbers(found.invalid[0].reason) == [22.5, 1.5, 120]
    assert found.notes == ()


def test_a_lasting_change_is_another_series_and_is_said():
    bigger = {**SPEC, "tasks": 4096.0}
    found = workloads(daily(*[SPEC] * 60, *[bigger] * 45))
    assert [spec.n for spec in found.specs] == [60, 45]
    assert found.invalid == ()
    assert found.spec_of["run-59"] == 0
    assert found.spec_of["run-60"] == 1
    (note,) = found.notes
    assert note.code == "workload-changed"
    for figure in ("45 ", "2026-04-30", "2026-06-13", "4,096", "2,048"):
        assert figure in note


def test_a_new_workload_at_the_end_may_be_either_and_is_said():
    bigger = {**SPEC, "tasks": 4096.0}
    found = workloads(daily(*[SPEC] * 60, *[bigger] * 12))
    assert len(found.invalid) == 12
    (note,) = found.notes
    assert note.code == "workload-new-at-end"
    for figure in (" 12 ", "2026-04-30 00:00", "4,096"):
        assert figure in note


def test_two_workloads_in_turn_are_two_series():
    shared = {**SPEC, "opens": 2050.0}
    found = workloads(daily(*[SPEC, shared, SPEC] * 30))
    assert [spec.n for spec in found.specs] == [60, 30]
    assert found.invalid == ()


def test_accidents_all_year_long_are_no_series():
    every_tenth = [BROKEN if day % 10 == 0 else SPEC for day in range(365)]
    found = workloads(daily(*every_tenth))
    assert len(found.specs) == 1
    assert len(found.invalid) == 37


def test_a_slow_creep_is_not_one_workload():
    creeping = [{"bytes_read": 1e12 * 1.004**day} for day in range(40)]
    assert len(workloads(daily(*creeping)).invalid) > 30


def test_runs_of_which_nothing_is_known_are_neither():
    found = workloads([*daily(SPEC, SPEC), Workload("dark", None, {"tasks": None})])
    assert found.unconfirmed == ("dark",)
    assert set(found.spec_of) == {"run-0", "run-1"}
    assert workloads([]).specs == ()


def test_a_run_without_a_time_is_held_against_the_commonest():
    found = workloads([*daily(SPEC, SPEC, SPEC), Workload("timeless", None, BROKEN)])
    assert [one.run for one in found.invalid] == ["timeless"]


def edison(file_system: str) -> list[Workload]:
    path = REAL_DATA / "tokio-abc" / "edison-summaries_2017-02-14-2018-02-15.csv.gz"
    if not path.exists():
        pytest.skip(f"no recorded data under {REAL_DATA} (set TRIMTAB_REAL_DATA)")
    with gzip.open(path, "rt") as file:
        head, *rows = csv.reader(file)
    place = {name: number + 1 for number, name in enumerate(head)}  # an unnamed index stands first
    return [
        Workload(
            row[0],
            datetime.fromtimestamp(float(row[place["darshan_start_time"]]), UTC),
            {
                "bytes_read": float(row[place["darshan_tot_bytes_read_posix"]]),
                "opens": float(row[place["darshan_tot_opens_posix"]]),
                "tasks": float(row[place["darshan_nprocs"]]),
            },
        )
        for row in rows
        if row[place["darshan_app"]].endswith("/dbscan_read")
        and row[place["_file_system"]] == file_system
    ]


@pytest.mark.calibration
def test_edisons_broken_probe_is_recognized():
    days = []
    for file_system in ("scratch1", "scratch2", "scratch3"):
        found = workloads(edison(file_system))
        assert len(found.specs) == 1
        assert found.specs[0].figures["bytes_read"] == pytest.approx(1536 * GIB, rel=0.001)
        empty = [run for run in found.invalid if numbers(run.reason)[:2] == [22.5, 1.5]]
        assert len(found.invalid) - len(empty) <= 5
        days += [one.at.date() for one in empty if one.at is not None]
    # From 23 August until the first whole run on 7 September.
    assert (min(days).isoformat(), max(days).isoformat()) == ("2017-08-23", "2017-09-06")
