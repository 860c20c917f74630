"""``lfs df`` from a file: snapshots of every file system in it, and nothing from a damaged one."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.formats.damage import RUBBISH, cuts, flips
from tests.formats.of_formats import recognised
from tests.formats.recorded import REAL_DATA
from tests.support.codes import raises
from tests.support.narrow import present

from trimtab.base.error import DataError, code_of
from trimtab.base.snapshot import ROUNDED as ROUNDED_LABEL
from trimtab.base.snapshot import Snapshot
from trimtab.formats.source import OutputFile
from trimtab.probe.imports.lfs_df_dump import problems, recognises, snapshots, why_not_judged
from trimtab.store.store import Store

AT = datetime(2017, 6, 20, 12, tzinfo=UTC)
KIB = 1024

SPACE = """\
UUID                   1K-blocks        Used   Available Use%  Mounted on
scratch-MDT0000_UUID     2316144        1776     2089828   1%  /scratch[MDT:0]
scratch-OST0000_UUID     3833116        1528     3605492   1%  /scratch[OST:0]
scratch-OST000a_UUID     3833116        2528     3604492   1%  /scratch[OST:10] DN

filesystem_summary:      7666232        4056     7209984   1%  /scratch

"""
INODES = """\
UUID                      Inodes       IUsed       IFree IUse%  Mounted on
scratch-MDT0000_UUID     1000000         300      999700   1%  /scratch[MDT:0]
scratch-OST0000_UUID      600000         100      599900   1%  /scratch[OST:0]
scratch-OST000a_UUID      600000         100      599900   1%  /scratch[OST:10]

filesystem_summary:      1000000         300      999700   1%  /scratch

"""


def source(text: str) -> OutputFile:
    return OutputFile("lfs-df.txt", text.encode())


def only(text: str) -> Snapshot:
    ((_, snapshot),) = snapshots(source(text), AT)
    return snapshot


def edison() -> OutputFile:
    path = REAL_DATA / "lfs-df" / "edison-lfs-df.txt.gz"
    if not path.exists():
        pytest.skip(f"no recorded data under {REAL_DATA} (set TRIMTAB_REAL_DATA)")
    return OutputFile(str(path), gzip.decompress(path.read_bytes()))


def numbers(found: tuple[tuple[str, Snapshot], ...]) -> dict[tuple[str, str, str], object]:
    return {
        (name, target.target.name, reading.name): reading.value
        for name, snapshot in found
        for target in snapshot.targets
        for reading in target.readings
        if reading.value is not None
    }


def test_bytes_inodes_and_flags_of_each_target() -> None:
    snapshot = only(SPACE + INODES)
    assert (snapshot.at, snapshot.driver, snapshot.complete) == (AT, "lustre", True)
    assert [one.target.name for one in snapshot.targets] == ["MDT0000", "OST0000", "OST000a"]
    assert [one.target.kind for one in snapshot.targets] == ["mdt", "ost", "ost"]
    slow = present(snapshot.of("OST000a"))
    assert (slow.number("capacity_bytes"), slow.number("used_bytes")) == (3833116 * KIB, 2528 * KIB)
    assert slow.number("available_bytes") == 3604492 * KIB
    assert (slow.number("inodes_total"), slow.number("inodes_free")) == (600_000, 599_900)
    assert (slow.value("degraded"), slow.value("create_enabled")) == (True, False)
    assert slow.reading("read_only") is None
    assert present(slow.reading("used_bytes")).source == "lfs df, line 4"


def test_without_inodes_they_are_missing_with_a_reason() -> None:
    reading = present(present(only(SPACE).of("OST0000")).reading("inodes_free"))
    assert reading.reason == "lfs df -i has no line for it in the file"


def test_inodes_alone() -> None:
    snapshot = only(INODES)
    target = present(snapshot.of("MDT0000"))
    assert snapshot.complete
    assert target.number("inodes_free") == 999_700
    assert target.reading("used_bytes") is not None
    assert target.number("used_bytes") is None


def test_a_target_that_did_not_answer_makes_it_incomplete() -> None:
    text = SPACE.replace(
        "\nfilesystem_summary", "OST000b             : inactive device\n\nfilesystem_summary"
    )
    snapshot = only(text)
    assert not snapshot.complete
    reading = present(present(snapshot.of("OST000b")).reading("used_bytes"))
    assert reading.reason == "lfs df: inactive device"
    assert problems(source(text)) == ("OST000b: inactive device",)


def test_the_file_systems_of_edison() -> None:
    content = edison()
    assert recognises(content)
    assert recognised(content) == []
    found = dict(snapshots(content, AT))
    assert list(found) == ["snx11035", "snx11036", "snx11168", "snx11025"]
    assert all(one.complete for one in found.values())
    counts = {
        name: sum(target.target.kind == "ost" for target in one.targets)
        for name, one in found.items()
    }
    assert counts == {"snx11035": 24, "snx11036": 36, "snx11168": 248, "snx11025": 24}
    target = present(found["snx11035"].of("OST0001"))
    assert target.number("capacity_bytes") == 90767651352 * KIB
    assert target.number("used_bytes") == 64867282280 * KIB
    assert target.number("available_bytes") == 24942697308 * KIB
    assert target.fullness() == pytest.approx(0.7223, abs=1e-4)


def test_those_of_a_recent_lustre() -> None:
    paths = [
        path
        for path in sorted(REAL_DATA.glob("lustre-2.17/*/*lfs_df*.out"))
        if recognises(OutputFile(str(path), path.read_bytes()))
    ]
    if not paths:
        pytest.skip(f"no recorded data under {REAL_DATA} (set TRIMTAB_REAL_DATA)")
    found: dict[str, tuple[tuple[str, Snapshot], ...]] = {}
    refused: dict[str, str] = {}
    for path in paths:
        try:
            found[path.stem] = snapshots(OutputFile(str(path), path.read_bytes()), AT)
        except DataError as error:
            refused[path.stem] = error.code
    assert found
    for name, each in found.items():
        for _, snapshot in each:
            for target in snapshot.targets:
                told = target.number("capacity_bytes") or target.number("inodes_total")
                told = told or target.number("capacity_bytes", ROUNDED_LABEL)
                assert told or not snapshot.complete, name
    for code in refused.values():
        assert code in {"lfs-df-unusable", "lfs-df-repeated"}


def test_it_is_kept_by_the_store(tmp_path: Path) -> None:
    with Store.open(tmp_path / "t.db") as store:
        kept = store.snapshot(store.add_snapshot("s", only(SPACE + INODES)))
    assert kept is not None
    target = present(kept.of("OST000a"))
    assert target.number("used_bytes") == 2528 * KIB
    assert target.value("degraded") is True


@pytest.mark.parametrize("position", [2, 3])
def test_a_line_that_was_lost_or_altered_is_refused(position: int) -> None:
    lines = SPACE.splitlines(keepends=True)
    lost = "".join(lines[:position] + lines[position + 1 :])
    altered = (
        SPACE.replace("3605492", "3605592") if position == 2 else SPACE.replace("2528", "9528")
    )
    for text in (lost, altered):
        with raises(DataError, "lfs-df-unusable", "missing or was altered") as caught:
            snapshots(source(text), AT)
        assert caught.value.line is not None


def test_two_times_in_one_file_are_refused() -> None:
    with raises(DataError, "lfs-df-repeated"):
        snapshots(source(SPACE + SPACE), AT)


def test_numbers_for_people_are_not_used() -> None:
    text = SPACE.replace("1K-blocks", "    bytes").replace("3833116", "  3.7G")
    assert recognises(source(text))
    with raises(DataError, "lfs-df-unusable", "ignored"):
        snapshots(source(text), AT)


def test_the_line_ends_of_windows_change_nothing() -> None:
    text = SPACE + INODES
    assert numbers(snapshots(source(text.replace("\n", "\r\n")), AT)) == numbers(
        snapshots(source(text), AT)
    )
    assert numbers(snapshots(OutputFile("x", b"\xef\xbb\xbf" + text.encode()), AT)) == numbers(
        snapshots(source(text), AT)
    )


def test_cut_anywhere_it_gives_no_other_number() -> None:
    text = (SPACE + INODES).encode()
    whole = numbers(snapshots(OutputFile("x", text), AT))
    for content in cuts(text, seed=1):
        try:
            found = snapshots(OutputFile("x", content), AT)
        except DataError:
            continue
        assert numbers(found).items() <= whole.items()
        if len(content) < len(SPACE) - 2:
            assert not any(one.complete for _, one in found)


def test_damage_and_rubbish_never_raise_another_error() -> None:
    for content in (*RUBBISH, *flips((SPACE + INODES).encode(), seed=2)):
        try:
            found = snapshots(OutputFile("x", content), AT)
        except DataError:
            continue
        assert all(not isinstance(value, int) or value >= 0 for value in numbers(found).values())


ROUNDED = """\
UUID                       bytes        Used   Available Use% Mounted on
scratch-MDT0000_UUID       39.8G        3.8M       39.8G   1% /scratch[MDT:0]
scratch-OST0000_UUID       94.1G        5.4G       88.8G   6% /scratch[OST:0]
scratch-OST0001_UUID        1.4T       93.4G        1.3T   7% /scratch[OST:1] f

filesystem_summary:         1.5T       98.8G        1.4T   7% /scratch

"""


def test_what_is_rounded_is_kept_with_a_label_and_in_no_frame(tmp_path: Path) -> None:
    snapshot = only(ROUNDED)
    assert snapshot.complete
    ost = present(snapshot.of("OST0001"))
    assert ost.number("used_bytes", ROUNDED_LABEL) == 93.4 * KIB**3
    assert (ost.number("capacity_bytes", ROUNDED_LABEL), ost.fullness()) == (1.4 * KIB**4, None)
    assert "rounded" in (present(ost.reading("used_bytes")).reason or "")
    assert code_of(why_not_judged(snapshot)) == "figures-rounded"
    with Store.open(tmp_path / "t.db") as store:
        store.add_snapshot("s", snapshot)
        assert store.latest_snapshot("s") == snapshot
        readings, _ = store.telemetry_frames("s", store.snapshot_times("s"))
    assert readings.filter(readings["name"] == "used_bytes")["number"].null_count() == 3


def test_exact_figures_are_taken_before_rounded_ones() -> None:
    assert only(SPACE + ROUNDED) == only(SPACE)
    assert why_not_judged(only(ROUNDED + SPACE)) is None
    assert why_not_judged(only(SPACE)) is None
    assert present(only(ROUNDED + INODES).of("OST0000")).number("inodes_free") == 599900
    other = ROUNDED.replace("scratch-", "home-").replace("/scratch", "/home")
    assert [name for name, _ in snapshots(source(SPACE + other), AT)] == ["scratch", "home"]


@pytest.mark.parametrize("lost", [2, 3])
def test_a_rounded_line_that_was_lost_is_noticed(lost: int) -> None:
    lines = ROUNDED.splitlines(keepends=True)
    with raises(DataError, "lfs-df-unusable"):
        only("".join(lines[:lost] + lines[lost + 1 :]))


def test_a_rounded_output_that_was_cut_is_not_complete() -> None:
    for content in cuts(ROUNDED.encode(), 1):
        text = content.decode()
        try:
            ((_, snapshot),) = snapshots(source(text), AT)
        except DataError:
            continue
        whole = {target.target.name: target for target in only(ROUNDED).targets}
        assert all(target == whole[target.target.name] for target in snapshot.targets)
        assert snapshot.complete == ("\n" in text[ROUNDED.index("filesystem_summary") :])
        assert snapshot.complete or problems(source(text))
    with raises(DataError, "lfs-df-repeated"):
        only(ROUNDED + ROUNDED)
