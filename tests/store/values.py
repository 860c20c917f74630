"""Runs and snapshots to keep, by hand and by hypothesis."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from trimtab.base.event import Event, EventKind, new_identifier
from trimtab.base.run import METRIC_UNITS, RawOutput, Run, RunStatus, Sample
from trimtab.base.snapshot import (
    TELEMETRY_UNITS,
    HostSnapshot,
    NotAvailable,
    Reading,
    Setting,
    Snapshot,
    Target,
    TargetSnapshot,
)
from trimtab.store.store import Store

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def a_run(
    hour: int = 0,
    *,
    site: str = "scratch",
    status: RunStatus = RunStatus.OK,
    values: tuple[float, ...] = (2e9, 2.1e9),
    outputs: tuple[RawOutput, ...] = (),
    **changes: object,
) -> Run:
    """Return a run at noon and so many hours, with write bandwidths of those values."""
    at = NOON + timedelta(hours=hour)
    fields: dict[str, object] = {
        "id": new_identifier(at),
        "site": site,
        "probe": "check",
        "kind": "fio",
        "status": status,
        "at": at,
        "parameters": {"spec": {"tasks": 4, "duration_s": 5.0}, "moved_bytes": hour},
        "samples": tuple(
            Sample("write_bandwidth", value, repetition, output=0, line=repetition + 1)
            for repetition, value in enumerate(values)
        ),
        "outputs": outputs,
    }
    return Run(**(fields | changes))  # type: ignore[arg-type]


def keep(store: Store, *runs: Run) -> Run:
    """Keep runs one by one, and return the first."""
    for run in runs:
        store.add_run(run)
    return runs[0]


def store_of(path: Path, *runs: Run) -> Path:
    """Return the path of a new store that keeps these runs."""
    with Store.open(path) as store:
        for run in runs:
            store.add_run(run)
    return path


def execute(path: Path, *statements: str) -> list[tuple[Any, ...]]:
    """Execute statements on the file of a store, as another program; return what the last gives."""
    with closing(sqlite3.connect(path)) as connection, connection:
        rows: list[tuple[Any, ...]] = []
        for statement in statements:
            rows = connection.execute(statement).fetchall()
        return rows


def run_together(workers: Sequence[BaseProcess]) -> None:
    """Start processes at once, and require that each of them ends well."""
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0] * len(workers)


def an_output(text: bytes = b"bw=2000MB/s\n", label: str = "write 0") -> RawOutput:
    """Return a raw output that says ``text``."""
    return RawOutput(label, ("fio", "--name=write"), text, b"", 0, NOON, 5.02)


def an_event(hour: int = 0, kind: EventKind = EventKind.TRIM, site: str = "scratch") -> Event:
    """Return an event at noon and so many hours."""
    at = NOON + timedelta(hours=hour)
    return Event(new_identifier(at), site, kind, at, "fstrim -v", "person", None, ("OST0000",))


def a_snapshot(minute: int = 0, used_bytes: int = 10) -> Snapshot:
    """Return a snapshot of one target at noon and so many minutes."""
    readings = (
        Reading("used_bytes", used_bytes, "statvfs"),
        Reading("drive_percentage_used", None, reason="nvme is not installed"),
    )
    target = TargetSnapshot(Target("/scratch", "file-system"), readings)
    return Snapshot(NOON + timedelta(minutes=minute), "local", True, (target,))


# Text as it can come from file names and tools: any Unicode, NUL, the store's own escape, bytes
# that are no UTF-8 (as os.fsdecode gives them), SQL and markup.
texts = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs"]),
        st.sampled_from("\x00\x10\x1b'\"%_\\\n<&"),
        st.integers(0xDC80, 0xDCFF).map(chr),
    ),
    max_size=20,
)
optional_texts = st.none() | texts
times = st.datetimes(datetime(1969, 1, 1), datetime(2400, 1, 1), timezones=st.just(UTC)).map(
    lambda at: at.replace(fold=0)  # which means nothing in UTC
)
finite = st.floats(allow_nan=False, allow_infinity=False)
# SQLite keeps a whole REAL as an integer (sqlite.org/datatype3.html), which has no minus zero.
measured = finite.map(lambda value: value + 0.0)
small = st.integers(0, 2**31 - 1)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | finite | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    """Draw a sample with or without value, reason, target, line."""
    value = draw(st.none() | measured)
    return Sample(
        metric=draw(st.sampled_from(sorted(METRIC_UNITS))),
        value=value,
        repetition=draw(st.none() | small),
        target=draw(optional_texts),
        statistic=draw(texts),
        output=draw(st.none() | small),
        line=draw(st.none() | st.integers(0, 2**62)),
        reason=draw(texts if value is None else optional_texts),
    )


raw_outputs = st.builds(
    RawOutput,
    label=texts,
    argv=st.lists(texts, max_size=4).map(tuple),
    stdout=st.binary(max_size=200),
    stderr=st.binary(max_size=20),
    exit_code=st.none() | st.integers(-64, 255),
    started_at=st.none() | times,
    elapsed_s=st.none() | st.floats(0, 1e9),
    truncated=st.booleans(),
)
runs = st.builds(
    Run,
    id=times.map(new_identifier),
    site=texts,
    probe=texts,
    kind=texts,
    status=st.sampled_from(RunStatus),
    at=st.none() | times,
    until=st.none() | times,
    at_reason=optional_texts,
    tool_version=optional_texts,
    path=optional_texts,
    host=optional_texts,
    trimtab_version=optional_texts,
    parameters=st.dictionaries(texts, json_values, max_size=4),
    problem=optional_texts,
    samples=st.lists(samples(), max_size=4).map(tuple),
    outputs=st.lists(raw_outputs, max_size=3).map(tuple),
)


@st.composite
def readings(draw: st.DrawFn) -> Reading:
    """Draw a reading of any type, or a missing one."""
    value = draw(
        st.none()
        | st.booleans()
        | st.integers(-(2**70), 2**70)
        | st.floats(allow_nan=False)
        | texts
    )
    return Reading(
        name=draw(st.sampled_from(sorted(TELEMETRY_UNITS))),
        value=value,
        source=draw(optional_texts),
        reason=draw(texts) if value is None else None,
        label=draw(optional_texts),
    )


targets = st.builds(Target, texts, texts, optional_texts)
kept_readings = st.lists(readings(), max_size=6).map(tuple)
kept_settings = st.dictionaries(
    texts, st.builds(Setting, texts, texts, texts) | st.builds(NotAvailable, texts), max_size=3
)
hosts = st.builds(
    HostSnapshot,
    name=texts,
    role=st.sampled_from(["server", "client"]),
    answered=st.booleans(),
    problem=optional_texts,
    readings=kept_readings,
    settings=kept_settings,
)
snapshots = st.builds(
    Snapshot,
    at=times,
    driver=texts,
    complete=st.booleans(),
    targets=st.lists(
        st.builds(TargetSnapshot, targets, kept_readings, kept_settings), max_size=4
    ).map(tuple),
    hosts=st.lists(hosts, max_size=3).map(tuple),
)
events = st.builds(
    Event,
    id=times.map(new_identifier),
    site=texts,
    kind=st.sampled_from(EventKind),
    at=times,
    detail=texts,
    source=texts,
    until=st.none() | times,
    targets=st.lists(texts, max_size=3).map(tuple),
)
