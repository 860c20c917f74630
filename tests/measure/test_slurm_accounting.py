"""Slurm's accounting: jobs and busy nodes of each hour, against a slow count of every second."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.measure.of_formats import recognised
from tests.measure.recorded import FIXTURES

from trimtab.errors import DataError
from trimtab.measure.measurement import Measurement
from trimtab.measure.slurm_accounting import read
from trimtab.measure.source import Source
from trimtab.model.run import RunStatus

TABLE = FIXTURES / "slurm_accounting" / "23.11" / "parsable2.out"
HEAD = "JobIDRaw|State|Start|End|NNodes"
FROM_S = 1_772_582_400


def source(*lines: str) -> Source:
    return Source("jobs.txt", "\n".join((*lines, "")).encode())


def measured(*rows: tuple[int, int | None, int]) -> Measurement:
    lines = [
        f"{number}|COMPLETED|{FROM_S + start}|{'Unknown' if end is None else FROM_S + end}|{nodes}"
        for number, (start, end, nodes) in enumerate(rows)
    ]
    (result,) = read(source(HEAD, *lines))
    return result


def figures(result: Measurement, name: str) -> list[float]:
    values = result.reported[name]
    assert isinstance(values, list)
    return values


def test_a_table_is_read() -> None:
    recorded = Source(TABLE.name, TABLE.read_bytes())
    assert recognised(recorded) == ["slurm-accounting"]
    (result,) = read(recorded)
    assert result.status is RunStatus.OK
    assert result.samples == ()
    assert result.reported["jobs"] == 60, "one waits, one never started"
    assert len(figures(result, "running_jobs")) == len(figures(result, "busy_nodes")) > 12


def slowly(rows: list[tuple[int, int | None, int]], begin: int, hours: int) -> list[list[float]]:
    """Return both figures of each hour, counted every minute."""
    found: list[list[float]] = []
    for hour in range(hours):
        running = busy = 0
        for minute in range(60):
            at = begin + 3600 * hour + 60 * minute
            there = [nodes for start, end, nodes in rows if start <= at < (end or 10**9)]
            running, busy = running + len(there), busy + sum(there)
        found.append([running / 60, busy / 60])
    return found


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(-300, 1500), st.one_of(st.none(), st.integers(1, 900)), st.integers(1, 99)
        ),
        min_size=2, max_size=12,
    )
)  # fmt: skip
def test_hours_are_those_of_a_slow_count(drawn: list[tuple[int, int | None, int]]) -> None:
    rows = [
        (60 * start, None if length is None else 60 * (start + length), nodes)
        for start, length, nodes in drawn
    ]
    ends = [end for _, end, _ in rows if end is not None]
    begin = -(-min(ends, default=0) // 3600) * 3600
    hours = max(start for start, _, _ in rows) // 3600 - begin // 3600
    if not ends or hours < 1:
        with pytest.raises(DataError):
            measured(*rows)
        return
    result = measured(*rows)
    assert result.reported["from_s"] == FROM_S + begin
    pairs = zip(figures(result, "running_jobs"), figures(result, "busy_nodes"), strict=True)
    expected = slowly(rows, begin, hours)
    assert [list(pair) for pair in pairs] == [pytest.approx(hour, abs=2e-3) for hour in expected]


def test_steps_are_no_jobs_and_a_job_counts_once() -> None:
    row = f"7|COMPLETED|{FROM_S - 60}|{FROM_S + 9 * 3600}|4"
    late = f"9|RUNNING|{FROM_S + 8 * 3600}|Unknown|1"
    first = f"6|COMPLETED|{FROM_S - 99}|{FROM_S}|4"
    step = f"7.batch|COMPLETED|{FROM_S - 60}|{FROM_S + 9 * 3600}|4"
    (result,) = read(source(HEAD, first, row, step, row, late))
    assert figures(result, "busy_nodes") == [4.0] * 8


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ((HEAD, "7|COMPLETED|2026-03-04T00:00:00|2026-03-04T01:00:00|4"), "zone-missing"),
        (("JobIDRaw|State|Start|End", "7|COMPLETED|1|2"), "column-missing"),
        ((HEAD,), "no-result"),
        ((HEAD, f"1|C|{FROM_S}|{FROM_S + 9}|1", f"2|C|{2 * FROM_S}|Unknown|1"), "too-long"),
    ],
)
def test_what_cannot_be_counted_is_refused(lines: tuple[str, ...], code: str) -> None:
    with pytest.raises(DataError) as error:
        read(source(*lines))
    assert error.value.code == code


def test_a_cut_table_is_partial(tmp_path: Path) -> None:
    whole = TABLE.read_text().splitlines()
    (result,) = read(source(*whole[:-1], whole[-1][:12]))
    assert result.status is RunStatus.PARTIAL
