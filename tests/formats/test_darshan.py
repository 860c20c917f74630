"""Darshan: the dump of a log in its own process, and what is read of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats import of_formats
from tests.formats.damage import sampled
from tests.formats.of_formats import by_name, figure
from tests.formats.recorded import FIXTURES, REAL_DATA

from trimtab.base.error import DataError, code_of, install_command
from trimtab.base.run import RunStatus
from trimtab.formats import darshan
from trimtab.formats.darshan import FORMAT
from trimtab.formats.measurement import Measurement, OutputFile

REAL = REAL_DATA / "darshan"
KEPT = FIXTURES / "darshan"
MIB = 2**20


@cache
def dumped(path: Path, *, environment: tuple[tuple[str, str], ...] = ()) -> tuple[int, bytes]:
    """Return exit code and output of the process that prints a log."""
    pytest.importorskip("darshan", reason="PyDarshan is not installed")
    done = subprocess.run(
        darshan.dump_command(str(path)),
        capture_output=True,
        timeout=120,
        check=False,
        env={**os.environ, **dict(environment)},
    )
    assert done.stderr == b""
    return done.returncode, done.stdout


def real(name: str) -> OutputFile:
    path = REAL / name
    if not path.exists():
        pytest.skip(f"no recorded data under {REAL_DATA} (set TRIMTAB_REAL_DATA)")
    code, out = dumped(path)
    assert code == 0
    return OutputFile(str(path), out)


def group(rank: int, target: int | None, **changes: Any) -> dict[str, Any]:
    return {
        "rank": rank,
        "mount": "/scratch",
        "type": "lustre",
        "targets": None if target is None else [target],
        "files": 1,
        "bytes_read": 0,
        "bytes_written": 100 * MIB,
        "read_s": 0.0,
        "write_s": 1.0,
        "metadata_s": 0.25,
    } | changes


def shared(target: int | None, **changes: Any) -> dict[str, Any]:
    slow = {"fastest_rank": 0, "fastest_s": 0.5, "slowest_rank": 1, "slowest_s": 2.0}
    return group(-1, target, **slow) | changes


def read(content: bytes) -> Measurement:
    (one,) = FORMAT.read(OutputFile("x", content))
    return one


def dump(*groups: dict[str, Any], **changes: Any) -> bytes:
    """Return a dump as the process prints it: of one module with these groups."""
    keys = ("bytes_read", "bytes_written", "read_s", "write_s", "metadata_s")
    sums = {key: sum(one[key] for one in groups) for key in keys}
    job = {"id": 7, "processes": 4, "start_s": 1e9, "end_s": 1e9 + 5, "elapsed_s": 6.0}
    job |= {"executable": "ior", "arguments": "-w"}
    module = {"module": "POSIX", "partial": False, "records": len(groups), "groups": len(groups)}
    lines = [
        {"darshan_dump": 1, "log_version": "3.41", "library_version": "3.4.4"},
        {"job": job},
        module | sums | changes,
        *groups,
        {"end": True},
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def measured(*groups: dict[str, Any], **changes: Any) -> Measurement:
    return read(dump(*groups, **changes))


def posix_of(name: str) -> Measurement:
    """Return what a log of the collection says of POSIX."""
    return by_name(FORMAT.read(real(name)))["posix"]


@pytest.mark.system
def test_the_bad_ost_is_named_as_lustre_names_it() -> None:
    assert of_formats.recognised(real("sample-badost.darshan")) == ["darshan"]
    posix = posix_of("sample-badost.darshan")
    assert (posix.status, posix.layer, posix.tool_version) == (RunStatus.OK, "application", "3.1.3")
    assert (posix.requested["tasks"], posix.requested["application"]) == (2048, "ior")
    assert posix.reported["slowest_target"] == "OST000e"  # 14 in decimal, of 24
    assert posix.reported["slowest_target_ratio"] == pytest.approx(49.475, abs=0.001)
    assert posix.reported["targets"] == 24
    assert (posix.reported["slowest_rank"], posix.reported["mount"]) == (1507, "/scratch1")
    # What Darshan's own accumulator makes of the log: 673.464 MiB/s, 778.494 s, 512 GiB.
    assert figure(posix, "write_bandwidth").value == pytest.approx(673.4640899451731 * MIB)
    assert figure(posix, "bytes_written").value == 549_755_813_888
    assert (figure(posix, "bytes_read").value, figure(posix, "elapsed").value) == (0, 780)
    for target, rate in (("OST000e", 29.33e6), ("OST000d", 1774.6e6)):
        assert figure(posix, "write_bandwidth", target=target).value == pytest.approx(
            rate, rel=1e-3
        )
    assert figure(posix, "write_time", "sum", "OST000e").value == pytest.approx(46446.892, abs=1e-3)
    assert figure(posix, "bytes_written", target="OST000e").value == 85 * 256 * MIB


@pytest.mark.system
def test_a_healthy_job_names_no_ost() -> None:
    posix = posix_of("sample-goodost.darshan")
    assert posix.status is RunStatus.OK
    assert "slowest_target" not in posix.reported
    assert posix.reported["targets"] == 24
    assert figure(posix, "write_bandwidth").value == pytest.approx(13078.748559778762 * MIB)
    moved = [one.value for one in posix.samples if one.metric == "bytes_written" and one.target]
    assert moved == [2 * 1024 * MIB] * 24


@pytest.mark.system
def test_bytes_of_all_osts_are_the_bytes_of_all() -> None:
    for name in ("sample-badost.darshan", "sample-goodost.darshan"):
        samples = posix_of(name).samples
        parts = [one.value or 0 for one in samples if one.metric == "bytes_written"]
        assert parts[0] == sum(parts[1:])


@pytest.mark.system
def test_the_streams_of_a_job_are_a_result_of_their_own() -> None:
    stdio = by_name(FORMAT.read(real("sample-badost.darshan")))["stdio"]
    assert figure(stdio, "bytes_read").value == 1_654_784
    assert figure(stdio, "bytes_written").value == 1_989
    both = figure(stdio, "read_bandwidth")
    assert (both.value, code_of(both.reason)) == (None, "time-of-both")
    assert not any(one.target for one in stdio.samples)


def test_slowest_rank_as_darshan_counts_it() -> None:
    """Own files: the longest of a rank, with metadata; shared ones: each its slowest process."""
    one = measured(
        group(0, 1),
        group(0, 2, write_s=2.0),
        group(1, 3, write_s=3.0, metadata_s=0.0),
        shared(4, slowest_s=0.75),
        shared(5, slowest_s=0.5),
    )
    assert figure(one, "write_bandwidth").value == 500 * MIB / (3.5 + 0.75 + 0.5)
    assert figure(one, "write_bandwidth", "data").value == 500 * MIB / (3.0 + 0.75 + 0.5)
    assert (one.reported["slowest_rank"], one.reported["slowest_rank_s"]) == (0, 3.5)


def test_reading_and_writing_have_no_time_of_both_apart() -> None:
    one = measured(group(0, 1), group(1, 2, bytes_read=50 * MIB, bytes_written=0, read_s=2.0))
    for metric, rate in (("write_bandwidth", 100 * MIB), ("read_bandwidth", 25 * MIB)):
        assert (figure(one, metric).value, figure(one, metric, "data").value) == (None, rate)


def test_a_shared_file_that_was_read_and_written_has_no_time_of_each() -> None:
    one = measured(shared(1, bytes_read=MIB, read_s=1.0))
    assert (one.status, figure(one, "write_bandwidth", "data").value) == (RunStatus.OK, None)
    assert figure(one, "write_bandwidth", target="OST0001").value is None
    assert figure(one, "bytes_written", target="OST0001").value == 100 * MIB


def test_striped_files_are_counted_and_left_out() -> None:
    one = measured(group(0, 1), group(1, None, targets=[1, 2], files=3))
    assert [gap.what for gap in one.missing] == ["3 files per OST"]
    assert one.reported["targets"] == 1
    assert figure(one, "bytes_written", target="OST0001").value == 100 * MIB


def test_without_lustre_there_is_nothing_per_ost() -> None:
    one = measured(group(0, None, type="xfs"))
    assert [gap.what for gap in one.missing] == ["figures per OST"]
    assert not any(sample.target for sample in one.samples)
    assert "slowest_target" not in one.reported


def test_the_osts_of_two_file_systems_are_not_mixed() -> None:
    one = measured(group(0, 1), group(1, 1), group(2, 1, mount="/home", bytes_written=MIB))
    assert one.reported["mount"] == "/scratch"
    assert figure(one, "bytes_written", target="OST0001").value == 200 * MIB
    assert [gap.what for gap in one.missing] == ["figures per OST of /home"]


@pytest.mark.parametrize(
    ("count", "seconds", "size", "named"),
    [(4, 3.0, 100, True), (4, 2.9, 100, False), (3, 30.0, 100, False), (8, 30.0, 1, False)],
)
def test_which_ost_is_named(count: int, seconds: float, size: int, named: bool) -> None:
    """Three times the median; not among fewer than four, nor one that holds hardly anything."""
    groups = [group(index, index) for index in range(count - 1)]
    slow = group(count, 0x14, write_s=seconds * size / 100, bytes_written=size * MIB)
    reported = measured(*groups, slow).reported
    assert reported.get("slowest_target") == ("OST0014" if named else None)


def test_a_log_without_room_for_its_records_is_partial() -> None:
    one = measured(group(0, 1), partial=True)
    assert (one.status, one.codes) == (RunStatus.PARTIAL, ("records-incomplete",))


def test_a_job_that_moved_nothing_is_no_result() -> None:
    assert measured(group(0, 1, bytes_written=0, write_s=0.0)).status is RunStatus.FAILED


@pytest.mark.parametrize("damage", [None, -2.08e-304, -5.0])
@pytest.mark.parametrize(
    ("key", "lost"), [("read_s", ""), ("write_s", "write_time"), ("metadata_s", "metadata_time")]
)
def test_a_damaged_time_costs_what_is_made_of_it(damage: float | None, key: str, lost: str) -> None:
    """Logs of another byte order have such times in one record of one module."""
    groups = [group(rank, rank) for rank in range(4)]
    whole = measured(*groups)
    one = read(with_sum(dump(*groups), groups[0], groups[0] | {key: damage}, key))
    assert (one.status, one.codes) == (RunStatus.PARTIAL, ("time-damaged",))
    for sample, other in zip(one.samples, whole.samples, strict=True):
        if sample.value is None:
            assert code_of(sample.reason or "") == "time-damaged"
            of_whole = sample.metric == lost or sample.metric.endswith("bandwidth")
            assert of_whole or sample.target == "OST0000"
        else:
            assert (sample.value, sample.reason) == (other.value, other.reason)
    assert figure(one, "bytes_written").value == figure(whole, "bytes_written").value
    assert figure(one, "write_bandwidth").value is None
    assert "slowest_rank" not in one.reported


def with_sum(content: bytes, group: dict[str, Any], other: dict[str, Any], key: str) -> bytes:
    """Return a dump with one group changed, and its sum as the process makes it."""
    header, job, module, *rest = content.splitlines()
    sums = json.loads(module) | {key: other[key]}
    changed = b"\n".join([header, job, json.dumps(sums).encode(), *rest]) + b"\n"
    return changed.replace(json.dumps(group).encode(), json.dumps(other).encode())


def test_a_damaged_time_of_a_shared_file_leaves_its_slowest_process() -> None:
    damaged = with_sum(dump(shared(2)), shared(2), shared(2, metadata_s=-1.0), "metadata_s")
    one, other = measured(shared(2)), read(damaged)
    assert figure(other, "write_bandwidth").value == figure(one, "write_bandwidth").value
    assert figure(other, "metadata_time", "sum").value is None


def test_times_that_are_none_are_dumped_as_none() -> None:
    from trimtab.formats import darshan_dump as process

    times = [process._seconds(value) for value in (1.5, 0, -1e-300, float("nan"), float("inf"))]
    assert times == [1.5, 0.0, None, None, None]


def test_a_line_that_was_lost_or_altered_is_noticed() -> None:
    whole = dump(group(0, 1), group(1, 2), group(2, 3)).splitlines(keepends=True)
    for index in range(len(whole)):
        for changed in (whole[:index] + whole[index + 1 :], whole[: index + 1] + whole[index:]):
            with pytest.raises(DataError):
                read(b"".join(changed))


@given(st.integers(0, 3), st.sampled_from(["bytes_written", "write_s", "metadata_s"]), st.data())
@settings(deadline=None)
def test_an_altered_figure_is_noticed(index: int, key: str, data: st.DataObject) -> None:
    groups = [group(rank, rank) for rank in range(4)]
    value = data.draw(st.floats(0, 1e12).filter(lambda x: abs(x - groups[index][key]) > 1e-3))
    old, new = (json.dumps(one).encode() for one in (groups[index], groups[index] | {key: value}))
    if abs(value - groups[index][key]) > 1e-8 * sum(one[key] for one in groups):
        with pytest.raises(DataError):
            read(dump(*groups).replace(old, new))


def test_errors_of_the_process_are_told_with_the_line() -> None:
    with pytest.raises(DataError) as caught:
        read(b'{"darshan_dump":1}\n{"job":{"processes":1}}\n{"error":"why"}\n')
    assert (caught.value.line, caught.value.reason) == (3, "why")
    with pytest.raises(DataError, match="why"):
        read(b'{"error":"why"}\n')


def test_a_binary_log_is_recognised_and_says_what_it_takes() -> None:
    for order in ("little", "big"):
        content = b"3.41\0\0\0\0" + (6567223).to_bytes(8, order) + b"\0" * 900
        assert darshan.is_log(content)
        assert of_formats.recognised(OutputFile("x", content)) == ["darshan"]
        with pytest.raises(DataError) as caught:
            FORMAT.read(OutputFile("x", content))
        assert install_command("darshan") in (caught.value.hint or "")
    assert not darshan.is_log(b"3.41\0\0\0\0" + b"\0" * 900)
    assert not darshan.is_log(b"")


@pytest.mark.system
def test_without_pydarshan_the_reason_has_the_command(tmp_path: Path) -> None:
    (tmp_path / "darshan.py").write_text("raise ImportError('not here')\n")
    code, out = dumped(tmp_path / "x.darshan", environment=(("PYTHONPATH", str(tmp_path)),))
    assert code == 1
    with pytest.raises(DataError) as caught:
        FORMAT.read(OutputFile("x", out))
    assert install_command("darshan") in caught.value.reason


def test_the_process_is_told_apart_from_what_lies_where_it_starts() -> None:
    assert darshan.dump_command("/x y")[:2] == (sys.executable, "-P")
    assert darshan.dump_command("/x y")[-1] == "/x y"


@pytest.mark.system
def test_a_log_that_is_cut_is_refused(tmp_path: Path) -> None:
    """Cut in the middle it crashes the C library: that is what the process is for."""
    whole = KEPT / "3.5.0" / "writer-reader.darshan"
    content = whole.read_bytes()
    cut = tmp_path / "cut.darshan"
    for part in (0.3, 0.5):
        cut.write_bytes(content[: int(part * len(content))])
        code, out = dumped.__wrapped__(cut)
        assert code != 0, part
        with pytest.raises(DataError):
            FORMAT.read(OutputFile("x", out))
    # Only what is not read of it is lost here: the figures are those of the whole.
    cut.write_bytes(content[:-1])
    assert dumped.__wrapped__(cut) == dumped(whole)


@pytest.mark.system
@pytest.mark.parametrize("path", sorted(KEPT.glob("*/*.json")), ids=lambda path: path.stem)
def test_our_own_logs_are_dumped_as_they_were(path: Path) -> None:
    """The dump kept beside each log is what the process prints, but for PyDarshan's version."""
    code, out = dumped(path.with_suffix(".darshan"))
    assert code == 0
    kept, found = ([json.loads(line) for line in t.splitlines()] for t in (path.read_bytes(), out))
    for lines in (kept, found):
        lines[0].pop("reader_version")
    assert found == kept


@pytest.mark.parametrize("path", sorted(KEPT.glob("*/*.json")), ids=lambda path: path.stem)
def test_a_kept_dump_is_whole(path: Path) -> None:
    assert FORMAT.read(OutputFile(str(path), path.read_bytes()))[0].status is RunStatus.OK


@sampled
def test_damage_of_a_dump_with_osts() -> None:
    groups = [group(rank, rank) for rank in range(6)] + [shared(3)]
    of_formats.check_damaged(FORMAT, OutputFile("x", dump(*groups)))


@pytest.mark.system
def test_slowest_rank_is_that_of_darshans_own_accumulator() -> None:
    """Held against PyDarshan's derived metrics, in a process of its own."""
    program = (
        "import json, sys, darshan\n"
        "from darshan.backend.cffi_backend import accumulate_records\n"
        "for path in sys.argv[1:]:\n"
        "    report = darshan.DarshanReport(path, read_all=False)\n"
        "    report.mod_read_all_records('POSIX')\n"
        "    records = report.records['POSIX'].to_df()\n"
        "    found = accumulate_records(records, 'POSIX', report.metadata['job']['nprocs'])\n"
        "    derived = found.derived_metrics\n"
        "    print(json.dumps([derived.agg_time_by_slowest, derived.total_bytes]))\n"
    )
    pytest.importorskip("darshan", reason="PyDarshan is not installed")
    paths = [*sorted(KEPT.glob("*/*.darshan")), *sorted(REAL.glob("*.darshan"))]
    argv = (sys.executable, "-c", program, *map(str, paths))
    done = subprocess.run(argv, capture_output=True, timeout=120, check=True)
    compared = 0
    for path, line in zip(paths, done.stdout.splitlines(), strict=True):
        time_s, moved = json.loads(line)
        posix = by_name(FORMAT.read(OutputFile("x", dumped(path)[1])))["posix"]
        read, written = (figure(posix, key).value or 0 for key in ("bytes_read", "bytes_written"))
        assert read + written == moved
        if not read:
            compared += 1
            assert figure(posix, "write_bandwidth").value == pytest.approx(written / time_s)
    assert compared
