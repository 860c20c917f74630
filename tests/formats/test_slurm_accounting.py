"""What is read beside benchmarks: Slurm's accounting, against a slow count; what smartctl says."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.damage import cuts
from tests.formats.of_formats import read_or_none, recognised
from tests.formats.recorded import FIXTURES
from tests.support.codes import raises

from trimtab.base.error import DataError
from trimtab.base.run import RunStatus
from trimtab.formats.measurement import Measurement, OutputFile
from trimtab.formats.slurm_accounting import read
from trimtab.formats.smartctl import FORMAT

TABLE = FIXTURES / "slurm_accounting" / "23.11" / "parsable2.out"
HEAD = "JobIDRaw|State|Start|End|NNodes"
FROM_S = 1_772_582_400


def source(*lines: str) -> OutputFile:
    return OutputFile("jobs.txt", "\n".join((*lines, "")).encode())


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
    recorded = OutputFile(TABLE.name, TABLE.read_bytes())
    assert recognised(recorded) == ["slurm-accounting"]
    (result,) = read(recorded)
    assert (result.status, result.samples) == (RunStatus.OK, ())
    assert result.reported["jobs"] == 60, "one waits, one never started"
    assert len(figures(result, "running_jobs")) == len(figures(result, "busy_nodes")) > 12


def slowly(rows: list[tuple[int, int | None, int]], begin: int, hours: int) -> list[list[float]]:
    """Return both figures of each hour, counted every minute."""
    found: list[list[float]] = []
    for hour in range(hours):
        running = busy = 0
        for at in range(begin + 3600 * hour, begin + 3600 * (hour + 1), 60):
            there = [n for start, end, n in rows if start <= at < (10**9 if end is None else end)]
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
    first = f"6|COMPLETED|{FROM_S - 99}|{FROM_S}|4"
    row = f"7|COMPLETED|{FROM_S - 60}|{FROM_S + 9 * 3600}|4"
    late = f"9|RUNNING|{FROM_S + 8 * 3600}|Unknown|1"
    (result,) = read(source(HEAD, first, row, row.replace("7|", "7.batch|", 1), row, late))
    assert figures(result, "busy_nodes") == [4.0] * 8


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ((HEAD, "7|COMPLETED|2026-03-04T00:00:00|2026-03-04T01:00:00|4"), "zone-missing"),
        (("JobIDRaw|State|Start|End", "7|COMPLETED|1|2"), "column-missing"),
        ((HEAD,), "no-result"),
        ((HEAD, "7|COMPLETED|2026-03-04T00:00:00+99:00|2026-99-04T01:00:00Z|4"), "no-result"),
        ((HEAD, f"1|C|{FROM_S}|{FROM_S + 9}|1", f"2|C|{2 * FROM_S}|Unknown|1"), "too-long"),
    ],
)
def test_what_cannot_be_counted_is_refused(lines: tuple[str, ...], code: str) -> None:
    with raises(DataError, code):
        read(source(*lines))


ROWS = (
    "6|COMPLETED|2026-03-28T22:00:00|2026-03-28T23:00:00|4",
    "7|COMPLETED|2026-03-28T22:30:00|2026-03-29T05:30:00|3",
    "8|RUNNING|2026-03-29T06:00:00|Unknown|2",
)
"""In the night in which clocks go forward in Europe: five hours from 23:00 to 5:00."""


@pytest.mark.parametrize(
    ("timezone", "begin", "hours"),
    [("Europe/Zurich", "2026-03-28T22:00:00+00:00", 6), ("UTC", "2026-03-28T23:00:00+00:00", 7)],
)
def test_local_times_are_of_the_zone_that_is_given(timezone: str, begin: str, hours: int) -> None:
    (result,) = read(replace(source(HEAD, *ROWS), timezone=timezone))
    began = datetime.fromisoformat(begin)
    assert (result.began, result.reported["from_s"]) == (began, began.timestamp())
    assert figures(result, "busy_nodes") == [*[3.0] * (hours - 1), 1.5]
    with pytest.raises(DataError, match="--timezone"):
        read(source(HEAD, *ROWS))


@pytest.mark.parametrize("zone", ["Z", "+0100", "-09:00"])
def test_times_with_a_zone_of_their_own_keep_it(zone: str) -> None:
    rows = [row.replace(":00|", f":00{zone}|") for row in ROWS]
    (result,) = read(replace(source(HEAD, *rows), timezone="Asia/Tokyo"))
    assert result.began == datetime.fromisoformat(f"2026-03-28T23:00:00{zone}")


@pytest.mark.parametrize("parsable", ["", "|"])
@pytest.mark.parametrize("wrong", ["9|a|b|C|1|2|1|", "9|a|C|1|2", "9|a|C|1|2|1|x|y"])
def test_lines_with_another_number_of_fields_are_left_out(parsable: str, wrong: str) -> None:
    """A name with a separator in it moves all that follows by a column."""
    head = "JobIDRaw|JobName|State|Start|End|NNodes|Comment" + parsable
    rows = [
        f"{number}|x|C|{FROM_S + start}|{FROM_S + end}|4|{parsable}"
        for number, (start, end) in enumerate([(-60, 0), (0, 4 * 3600), (4 * 3600, 5 * 3600)])
    ]
    (whole,) = read(source(head, *rows))
    assert whole.status is RunStatus.OK, "the last field may be empty"
    (result,) = read(source(head, *rows[:2], wrong + parsable, *rows[2:]))
    assert result.status is RunStatus.PARTIAL
    assert "1 line has another number of fields" in (result.problem or "")
    assert figures(result, "busy_nodes") == figures(whole, "busy_nodes")


def test_a_cut_table_is_partial() -> None:
    whole = TABLE.read_text().splitlines()
    assert read(source(*whole[:-1], whole[-1][:12]))[0].status is RunStatus.PARTIAL


NVME = {
    "json_format_version": [1, 0],
    "smartctl": {
        "version": [7, 3],
        "argv": ["smartctl", "-j", "-a", "/dev/nvme0"],
        "exit_status": 0,
    },
    "local_time": {"time_t": 1795855853},
    "device": {"name": "/dev/nvme0", "type": "nvme", "protocol": "NVMe"},
    "model_name": "SAMSUNG MZWLR7T6HBLA",
    "serial_number": "S6EXNE0R",
    "smart_status": {"passed": True},
    "nvme_smart_health_information_log": {
        "critical_warning": 0,
        "available_spare": 100,
        "percentage_used": 7,
        "data_units_read": 3_000_000,
        "data_units_written": 2_000_000,
        "media_errors": 3,
    },
    "power_on_time": {"hours": 9000},
}
SCSI = {
    "scsi_grown_defect_list": 2,
    "scsi_error_counter_log": {
        "read": {"total_uncorrected_errors": 4},
        "write": {"total_uncorrected_errors": 1},
    },
}
ATA = {
    "ata_smart_attributes": {
        "table": [{"id": 5, "name": "Reallocated_Sector_Ct", "raw": {"value": 8, "string": "8"}}]
    },
    "ata_device_statistics": {
        "pages": [{"table": [{"name": "Percentage Used Endurance Indicator", "value": 12}]}]
    },
}


def document(*parts: dict[str, Any], **changes: object) -> str:
    head = {name: NVME[name] for name in ("json_format_version", "smartctl", "smart_status")}
    merged: dict[str, object] = {} if parts and parts[0] is NVME else dict(head)
    for part in parts:
        merged |= part
    return json.dumps(merged | changes, indent=2)


def read_drive(text: str) -> Measurement:
    source = OutputFile("smart.json", text.encode())
    assert recognised(source) == ["smartctl"]
    (measured,) = FORMAT.read(source)
    return measured


def test_an_nvme_drive() -> None:
    measured = read_drive(document(NVME))
    assert (measured.status, measured.layer) == (RunStatus.OK, "drive")
    assert measured.began == datetime(2026, 11, 28, 8, 50, 53, tzinfo=UTC)
    told = measured.reported
    assert (told["percentage_used"], told["media_errors"]) == (0.07, 3)
    assert told["host_written_bytes"] == 2_000_000 * 512_000
    assert "7 % of its life used, 3 media errors" in str(told["answer"])
    assert measured.samples == ()


def test_scsi_drives_of_old_and_new_versions_and_an_ata_drive() -> None:
    old: dict[str, object] = {"scsi_percentage_used_endurance_indicator": 9}
    for used in (old, {"endurance_used": {"current_percent": 9}}):
        told = read_drive(document(SCSI, used)).reported
        assert (told["percentage_used"], told["media_errors"]) == (0.09, 5)
        assert told["grown_defects"] == 2
    told = read_drive(document(ATA)).reported
    assert (told["reallocated_sectors"], told["percentage_used"]) == (8, 0.12)
    assert "media_errors" not in told


def test_a_drive_that_fails_says_so() -> None:
    measured = read_drive(document(NVME, smart_status={"passed": False}))
    assert measured.warnings == ("the drive reports that it is failing",)


def test_what_was_not_read_is_told() -> None:
    content = (FIXTURES / "smartctl/7.3/absent.json").read_bytes()
    with raises(DataError, "no-result", "Unable to detect device type"):
        FORMAT.read(OutputFile("absent.json", content))
    partly = read_drive(
        document(NVME, smartctl={"exit_status": 4, "messages": [{"string": "odd"}]})
    )
    assert (partly.status, partly.warnings) == (RunStatus.PARTIAL, ("odd",))


def test_cut_and_odd_documents_are_refused() -> None:
    for cut in cuts(document(NVME).encode(), seed=1, count=20):
        assert read_or_none(FORMAT, OutputFile("x", cut)) is None
    for value in ("x", None, [], 1e999, -1, True):
        odd = document(NVME, nvme_smart_health_information_log={"percentage_used": value})
        assert "percentage_used" not in read_drive(odd).reported
