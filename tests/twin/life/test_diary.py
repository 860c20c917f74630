"""The diary: one writer, whole lines, and time in one line however long it lasts."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.codes import raises

from trimtab.base.error import RefusedError, UnreadableError
from trimtab.twin.life import NAME, PASS, Diary

START = datetime(2026, 11, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    begun = Diary(tmp_path)
    begun.begin("abc", START, START, version="1")
    return begun


def lines(directory: Path) -> list[dict[str, object]]:
    return [json.loads(one) for one in (directory / NAME).read_text().splitlines()]


def test_where_there_is_none_nothing_is_read(tmp_path: Path) -> None:
    assert Diary(tmp_path / "nowhere").read() == ({}, ())
    assert Diary(tmp_path / "nowhere").time() is None


def test_what_is_written_is_read(diary: Diary, tmp_path: Path) -> None:
    diary.add({"do": "trim", "how": {"column": 2}}, START + HOUR)
    first, deeds = Diary(tmp_path).read()
    assert first["fingerprint"] == "abc"
    assert [one["do"] for one in deeds] == [PASS, "trim"]
    assert deeds[1]["how"] == {"column": 2}
    assert datetime.fromisoformat(deeds[1]["at"]) == START + HOUR


def test_time_takes_one_line_however_often_it_is_kept(diary: Diary, tmp_path: Path) -> None:
    for hour in range(50):
        diary.keep_time(START + hour * HOUR)
    assert len(lines(tmp_path)) == 2
    diary.add({"do": "trim", "how": {}}, START + 50 * HOUR)
    for hour in range(51, 60):
        diary.keep_time(START + hour * HOUR)
    assert [one.get("do") for one in lines(tmp_path)] == [None, PASS, "trim", PASS]
    assert Diary(tmp_path).time() == START + 59 * HOUR


def test_another_process_goes_on_in_the_line_of_the_time(diary: Diary, tmp_path: Path) -> None:
    diary.keep_time(START + HOUR)
    diary.close()
    other = Diary(tmp_path)
    other.read()
    other.keep_time(START + 2 * HOUR)
    assert len(lines(tmp_path)) == 2
    assert Diary(tmp_path).time() == START + 2 * HOUR


@given(cut=st.integers(min_value=1, max_value=60))
def test_a_line_that_was_cut_off_is_left_out_and_written_over(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    directory = tmp_path_factory.mktemp("cut")
    begun = Diary(directory)
    begun.begin("abc", START, START, version="1")
    begun.add({"do": "set", "how": {"key": "allocator.c1", "value": 0.25}}, START + HOUR)
    begun.close()
    path = directory / NAME
    path.write_bytes(path.read_bytes()[:-cut])
    after = Diary(directory)
    assert len(after.read()[1]) == 1
    after.add({"do": "trim", "how": {}}, START + 2 * HOUR)
    assert [one["do"] for one in Diary(directory).read()[1]] == [PASS, "trim"]
    assert path.read_bytes().endswith(b"}\n")


@pytest.mark.parametrize(
    "text",
    [
        "no json\n",
        "[]\n",
        "{}\n",
        '{"fingerprint":"abc","watched_from":"2026-11-01T00:00:00+00:00","version":"1"}\n[]\n',
        '{"fingerprint":"abc","watched_from":"2026-11-01T00:00:00+00:00","version":"1"}\n{"do":"pass"}\n',
        '{"fingerprint":"abc","watched_from":"2026-11-01T00:00:00+00:00","version":"1"}\n'
        '{"at":"2026-11-01T00:00:00","do":"pass"}\n',
        '{"fingerprint":"abc","watched_from":"2026-11-01T00:00:00+00:00","version":"1"}\n{"at":7,"do":"pass"}\n',
        "\0\0\0\n",
        "\xff\xfe\n",
    ],
)
def test_what_is_no_diary_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_bytes(text.encode("latin-1"))
    with raises(UnreadableError, "diary-unreadable"):
        Diary(tmp_path).read()


@pytest.mark.parametrize("name", ["watched_from", "version"])
def test_a_diary_of_an_unreleased_version_is_refused(tmp_path: Path, name: str) -> None:
    begun = {"fingerprint": "abc", "watched_from": START.isoformat(), "version": "1"}
    del begun[name]
    (tmp_path / NAME).write_text(json.dumps(begun) + "\n")
    with raises(UnreadableError, "format-unreleased", str(tmp_path)):
        Diary(tmp_path).time()


def test_two_do_not_write_at_once(diary: Diary, tmp_path: Path) -> None:
    other = Diary(tmp_path)
    other.read()
    diary.keep_time(START + HOUR)
    before = (tmp_path / NAME).read_bytes()
    with raises(RefusedError, "twin-in-use"):
        other.add({"do": "trim", "how": {}}, START + HOUR)
    assert (tmp_path / NAME).read_bytes() == before
    assert Diary(tmp_path).time() == START + HOUR  # reading is free


@pytest.mark.parametrize("deed", [True, False])
def test_nobody_writes_after_what_they_have_not_read(
    diary: Diary, tmp_path: Path, deed: bool
) -> None:
    late = Diary(tmp_path)
    late.read()
    if deed:
        diary.add({"do": "trim", "how": {}}, START + HOUR)
    else:
        diary.keep_time(START + HOUR)
    diary.close()
    with raises(RefusedError, "twin-in-use"):
        late.keep_time(START + HOUR)
    late.read()
    late.keep_time(START + 2 * HOUR)


def test_a_life_that_was_announced_has_no_time_yet(tmp_path: Path) -> None:
    Diary(tmp_path).announce()
    first, deeds = Diary(tmp_path).read()
    assert (first, deeds) == ({"fingerprint": None}, ())
    assert Diary(tmp_path).time() is None
    Diary(tmp_path).begin("abc", START, START + HOUR, version="1")
    assert Diary(tmp_path).time() == START + HOUR


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with raises(UnreadableError, "file-unwritable"):
        Diary(tmp_path / "file").begin("abc", START, START, version="1")
    (tmp_path / NAME).mkdir()
    with raises(UnreadableError, "file-unreadable"):
        Diary(tmp_path).read()
