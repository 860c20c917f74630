"""A plan is read only if every byte of it is what was signed, by the key of this place.

Its candidates are verified by row group: no row is handed out of bytes that were not signed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from functools import reduce
from operator import getitem
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.purge.plan.making import DAY_S, KEY, MADE_AT, Row, draft, frame_of, make
from tests.purge.run.core_world import outcomes_of, rules_of
from tests.support.codes import raises

from trimtab import _core
from trimtab.base.error import DataError, RefusedError, TrimtabError, UnreadableError, UsageError
from trimtab.base.trusted_file import trusted_directory
from trimtab.purge.plan.candidate import hashes_of
from trimtab.purge.plan.plan_directory import (
    LoadedPlan,
    load_plan,
    open_candidates,
    published_before,
)
from trimtab.purge.plan.plan_signature import (
    PUBLISHED_FILE,
    Publication,
    SigningKey,
    create_key,
    read_key,
    write_publication,
)

ROWS = [Row(b"ada/one"), Row(b"bob/two", 1001)]
FILES = ("plan.json", "signature", "candidates.parquet")


@pytest.fixture
def plan(tmp_path: Path) -> LoadedPlan:
    return make(tmp_path / "plan", ROWS)


def publication(loaded: LoadedPlan, **changed: object) -> Publication:
    values = {
        "plan_id": loaded.plan.id,
        "plan_sha256": loaded.sha256,
        "published_at": MADE_AT + timedelta(hours=1),
        "not_before": MADE_AT + timedelta(days=14, hours=1),
        "directory": "/var/lib/notices/1",
        "previous_plan_id": None,
        "lists": (),
    }
    return Publication(**(values | changed))  # pyrefly: ignore[bad-argument-type]


def publish(loaded: LoadedPlan, evidence: Publication, key: SigningKey = KEY) -> LoadedPlan:
    with trusted_directory(loaded.directory, "the plan", private=True) as directory:
        write_publication(directory, evidence, key)
    return load_plan(loaded.directory, KEY)


@pytest.mark.parametrize("name", FILES)
def test_one_bit_that_changed_is_found(plan: LoadedPlan, name: str) -> None:
    file = plan.directory / name
    data = file.read_bytes()
    for place in range(0, len(data), max(1, len(data) // 40)):
        changed = bytearray(data)
        changed[place] ^= 1
        file.write_bytes(changed)
        with pytest.raises(TrimtabError):
            load_plan(plan.directory, KEY)
    file.write_bytes(data)
    assert load_plan(plan.directory, KEY) == plan


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_was_cut_off_or_is_gone_is_found(plan: LoadedPlan, name: str) -> None:
    file = plan.directory / name
    data = file.read_bytes()
    for size in (0, 1, len(data) // 2, len(data) - 1):
        if data[:size] == data.rstrip(b"\n") and name == "signature":
            continue  # its line feed says nothing
        file.write_bytes(data[:size])
        with pytest.raises(TrimtabError):
            load_plan(plan.directory, KEY)
    file.unlink()
    with pytest.raises(UnreadableError):
        load_plan(plan.directory, KEY)


def test_a_plan_of_another_key_is_refused(plan: LoadedPlan) -> None:
    with raises(RefusedError, "key-mismatch"):
        load_plan(plan.directory, SigningKey(bytes(32)))


def test_a_forged_plan_is_refused(plan: LoadedPlan) -> None:
    """Whoever has no key can only take the signature of something else."""
    text = json.loads((plan.directory / "plan.json").read_bytes())
    text["file_system"]["root"] = "/home"
    (plan.directory / "plan.json").write_text(json.dumps(text))
    with raises(RefusedError, "signature-mismatch"):
        load_plan(plan.directory, KEY)


def test_candidates_of_another_plan_are_refused(plan: LoadedPlan, tmp_path: Path) -> None:
    other = make(tmp_path / "other", [Row(b"home/precious")])
    shutil.copy(other.candidates, plan.candidates)
    with raises(RefusedError, "candidates-changed"):
        load_plan(plan.directory, KEY)
    assert load_plan(plan.directory, KEY, candidates=False).plan == plan.plan


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: (file.rename(f"{file}.real"), file.symlink_to(f"{file}.real")),
        lambda file: os.chown(file, 12345, -1),
        lambda file: file.chmod(0o644),
        lambda file: os.link(file, f"{file}.twin"),
        lambda file: (file.unlink(), os.mkfifo(file, 0o600)),
        lambda file: (file.unlink(), file.mkdir()),
    ],
)
def test_a_file_that_others_could_have_written_is_refused(
    plan: LoadedPlan, name: str, spoil: Callable[[Path], object]
) -> None:
    spoil(plan.directory / name)
    with pytest.raises(RefusedError):
        load_plan(plan.directory, KEY)


def test_so_is_a_directory(plan: LoadedPlan, tmp_path: Path) -> None:
    for mode, owner in ((0o750, 0), (0o700, 12345)):
        plan.directory.chmod(mode)
        os.chown(plan.directory, owner, -1)
        with raises(RefusedError, "file-untrusted"):
            load_plan(plan.directory, KEY)
    os.chown(plan.directory, 0, -1)
    (tmp_path / "link").symlink_to(plan.directory)
    (tmp_path / "up").symlink_to(tmp_path)
    for path in (tmp_path / "link", tmp_path / "up" / "plan"):
        with raises(RefusedError, "path-is-link"):
            load_plan(path, KEY)
    with pytest.raises(UnreadableError):
        load_plan(tmp_path / "none", KEY)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text.replace("2026-12-06", "2026-11-23"),
        lambda text: text.replace('"lists": []', '"lists": [], "more": 1'),
        lambda text: text.replace("/var/lib", "/tmp/lib"),
        lambda text: text[:-10],
        lambda text: "[]",
        lambda text: "{}",
        lambda text: '{"publication": {}, "signature": null}',
    ],
)
def test_evidence_that_was_changed_is_none(plan: LoadedPlan, spoil: Callable[[str], str]) -> None:
    publish(plan, publication(plan))
    file = plan.directory / PUBLISHED_FILE
    text = file.read_text()
    assert spoil(text) != text
    file.write_text(spoil(text))
    with pytest.raises((RefusedError, DataError)):
        load_plan(plan.directory, KEY)


def test_evidence_of_another_plan_or_key_or_that_promises_too_little_is_none(
    plan: LoadedPlan,
) -> None:
    for wrong in ({"plan_id": "another"}, {"plan_sha256": "another"}):
        with raises(RefusedError, "publication-mismatch"):
            publish(plan, publication(plan, **wrong))
    with raises(RefusedError, "key-mismatch"):
        publish(plan, publication(plan), SigningKey(bytes(32)))
    with raises(RefusedError, "publication-early"):
        publish(plan, publication(plan, not_before=MADE_AT + timedelta(days=14)))


def test_the_plan_published_before_is_found(tmp_path: Path) -> None:
    made = []
    for number, days in enumerate((21, 14, 7, 0)):
        at = MADE_AT - timedelta(days=days)
        loaded = make(tmp_path / f"plan-{number}", ROWS, draft(at))
        if number != 2:  # that one was never published
            soon = at + timedelta(hours=1)
            times = {"published_at": soon, "not_before": soon + timedelta(days=14)}
            loaded = publish(loaded, publication(loaded, **times))
        made.append(loaded)
    damaged = tmp_path / "plan-9"
    damaged.mkdir(mode=0o700)
    (damaged / "plan.json").write_text("{}")
    found, passed = published_before(made[3], KEY)
    assert found == made[1]
    assert ["plan-9" in one for one in passed] == [True]
    assert published_before(made[0], KEY)[0] is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_rubbish_never_passes_for_a_plan(plan: LoadedPlan, data: st.DataObject) -> None:
    """Cut, doubled and exchanged bytes of ``plan.json``, signed by nobody."""
    file = plan.directory / "plan.json"
    good = file.read_bytes()
    start = data.draw(st.integers(0, len(good)))
    end = data.draw(st.integers(start, len(good)))
    bad = good[:start] + data.draw(st.binary(max_size=20)) + good[end:]
    if bad == good:
        return
    file.write_bytes(bad)
    try:
        with pytest.raises(RefusedError):
            load_plan(plan.directory, KEY)
    finally:
        file.write_bytes(good)


def test_a_signed_plan_of_another_format_is_refused(plan: LoadedPlan) -> None:
    signed = json.loads((plan.directory / "plan.json").read_bytes())
    for change in (
        {"format": 5},
        {"format": "1"},
        {"quarantine": "../x"},
        {"more": 1},
        {"notice_s": 1.5},
        {"id": None},
    ):
        sign(plan.directory, json.dumps(signed | change).encode())
        with pytest.raises(DataError):
            load_plan(plan.directory, KEY)
    sign(plan.directory, json.dumps(signed).encode())
    assert load_plan(plan.directory, KEY).plan == plan.plan


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_plan_of_an_unreleased_version_is_refused(plan: LoadedPlan, number: int) -> None:
    """The first format had a quarantine whose name users could foresee."""
    text = json.loads((plan.directory / "plan.json").read_bytes()) | {"format": number}
    if number == 1:
        del text["quarantine"]
    sign(plan.directory, json.dumps(text).encode())
    with raises(DataError, "format-unreleased", "unreleased version") as caught:
        load_plan(plan.directory, KEY)
    assert "purge plan" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "place", [(), ("file_system",), ("index",), ("rules",), ("horizon",), ("candidates",)]
)
def test_every_field_of_a_plan_is_required(plan: LoadedPlan, place: tuple[str, ...]) -> None:
    signed = (plan.directory / "plan.json").read_bytes()
    names = list(reduce(getitem, place, json.loads(signed)))
    assert len(names) >= 6
    for name in names:
        text = json.loads(signed)
        del reduce(getitem, place, text)[name]
        sign(plan.directory, json.dumps(text).encode())
        with pytest.raises(DataError):
            load_plan(plan.directory, KEY)


def sign(directory: Path, data: bytes) -> None:
    (directory / "plan.json").write_bytes(data)
    (directory / "signature").write_text(
        json.dumps({
            "algorithm": "hmac-sha256",
            "key": KEY.fingerprint,
            "signature": KEY.sign("purge plan", data),
        })
    )  # fmt: skip


def test_a_plan_knows_its_days(plan: LoadedPlan) -> None:
    assert plan.plan.earliest == MADE_AT + timedelta(days=14)
    assert plan.plan.before.isoformat() == "2026-03-01T00:00:00+00:00"
    assert (plan.plan.notice_s, plan.plan.candidates.files) == (14 * DAY_S, len(ROWS))


def test_a_key_is_read_back_and_never_shown(tmp_path: Path) -> None:
    key = create_key(tmp_path / "key")
    assert read_key(tmp_path / "key") == key
    assert len(key.secret) == 32
    assert key.secret.hex() not in repr(key)
    assert repr(key.secret) not in repr(key)
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600


def test_keys_differ() -> None:
    one, other = SigningKey(bytes(32)), SigningKey(b"\1" * 32)
    assert one.fingerprint != other.fingerprint
    signature = one.sign("purge plan", b"data")
    assert one.signed("purge plan", b"data", signature)
    assert not one.signed("purge plan", b"datA", signature)
    assert not one.signed("purge plan published", b"data", signature)
    assert not other.signed("purge plan", b"data", signature)
    assert not one.signed("purge plan", b"data", "ä")


def test_a_key_is_never_written_over(tmp_path: Path) -> None:
    create_key(tmp_path / "key")
    before = (tmp_path / "key").read_bytes()
    with pytest.raises(UsageError):
        create_key(tmp_path / "key")
    assert (tmp_path / "key").read_bytes() == before


@pytest.mark.parametrize(
    ("mode", "owner", "owner_above", "code"),
    [
        pytest.param(0o640, 0, 0, "file-untrusted", id="others can read it"),
        pytest.param(0o600, 12345, 0, "file-untrusted", id="of somebody else"),
        pytest.param(0o600, 0, 12345, "directory-untrusted", id="below somebody else's"),
    ],
)
def test_a_key_that_is_not_roots_alone_is_refused(
    tmp_path: Path, mode: int, owner: int, owner_above: int, code: str
) -> None:
    key = tmp_path / "above" / "etc" / "key"
    key.parent.mkdir(parents=True)
    create_key(key)
    key.chmod(mode)
    os.chown(key, owner, -1)
    os.chown(tmp_path / "above", owner_above, -1)
    with raises(RefusedError, code):
        read_key(key)


@pytest.mark.parametrize(
    "content", [b"", b"trimtab-purge-key-1 " + b"00" * 31 + b"\n", b"\xff" * 90, b"x" * 5000]
)
def test_what_is_no_key_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(RefusedError):
        read_key(tmp_path / "key")


def test_links_and_pipes_are_refused(tmp_path: Path) -> None:
    create_key(tmp_path / "key")
    (tmp_path / "link").symlink_to(tmp_path / "key")
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("link", "pipe"):
        with pytest.raises(RefusedError):
            read_key(tmp_path / name)
    # One that is not there is named by its path.
    with raises(UnreadableError, "path-unreadable", str(tmp_path / "none")):
        read_key(tmp_path / "none")


GROUP_ROWS = 20


@pytest.fixture
def grouped(tmp_path: Path) -> LoadedPlan:
    """Return a plan of three groups of rows, with all that a removal reads."""
    none = pl.lit(None, pl.Int64)
    rows = [Row(b"ada/%03d" % row, inode=row + 1) for row in range(3 * GROUP_ROWS)]
    frame = frame_of(rows).with_columns(
        id_kind=pl.lit("inode"),
        device=pl.lit(1, pl.UInt64),
        gid=pl.lit(1000, pl.UInt32),
        atime_ns=none,
        mtime_ns=none,
        ctime_ns=none,
        btime_ns=none,
        type=pl.lit("f"),
    )
    return make(tmp_path / "plan", frame, group_rows=GROUP_ROWS)


def bounds(plan: LoadedPlan) -> list[tuple[int, int]]:
    """Return where each part begins and ends."""
    ends, end = [], 0
    for part in plan.plan.candidates.parts:
        ends.append((end, end := end + part.size_bytes))
    return ends


def removal(candidates: _core.Candidates, root: Path) -> _core.Removal:
    return _core.Removal(
        candidates, root, rules_of(2**40), before_s=2**40, quarantine=".quarantine"
    )


def had(ask: Callable[[int, int], object], group: int) -> bool:
    """Return whether rows of a group can be had; if not, the error says which and what to do."""
    try:
        ask(group * GROUP_ROWS, GROUP_ROWS)
    except RefusedError as error:
        first = group * GROUP_ROWS
        words = f"row group {group} of 3, rows {first} to {first + GROUP_ROWS - 1} is not what"
        told = error.code == "candidates-changed" and words in error.message
        assert told and "make a new plan" in (error.hint or "")  # noqa: PT017, PT018
        return False
    return True


def readable(candidates: _core.Candidates, root: Path) -> list[int]:
    """Return the groups of which rows can be had; who lists and who deletes agree on that."""
    listed = [group for group in range(3) if had(candidates.listed, group)]
    assert [group for group in range(3) if had(removal(candidates, root).check, group)] == listed
    return listed


def test_no_byte_of_the_file_is_in_no_part(grouped: LoadedPlan) -> None:
    parts = grouped.plan.candidates.parts
    assert [part.rows for part in parts] == [20, 20, 20, 0]
    assert sum(part.size_bytes for part in parts) == grouped.candidates.stat().st_size
    with grouped.candidates.open("rb") as file:
        hashes = hashes_of(grouped.candidates, file.fileno())
    assert (hashes.sha256, hashes.parts) == (grouped.plan.candidates.sha256, parts)
    candidates = open_candidates(grouped)
    assert candidates.rows == 60
    assert readable(candidates, grouped.directory) == [0, 1, 2]


def test_any_byte_that_changed_is_found_before_a_row_of_its_part_is_had(
    grouped: LoadedPlan,
) -> None:
    """Each byte of the file in turn: magic, groups, footer."""
    with grouped.candidates.open("r+b", buffering=0) as file:
        opened = {"path": grouped.candidates, "descriptor": file.fileno()}
        _, parts = _core.parts_of(**opened)
        for number, (start, end) in enumerate(bounds(grouped)):
            for place in range(start, end):
                byte = os.pread(file.fileno(), 1, place)
                os.pwrite(file.fileno(), bytes([byte[0] ^ 0x10]), place)
                with pytest.raises(RefusedError):
                    _core.Candidates(**opened, parts=parts).listed(number * GROUP_ROWS, 1)
                if place % 500 == 0 and number < 3:
                    others = sorted({0, 1, 2} - {number})
                    assert readable(open_candidates(grouped), grouped.directory) == others
                os.pwrite(file.fileno(), byte, place)
    assert end == grouped.candidates.stat().st_size
    assert readable(open_candidates(grouped), grouped.directory) == [0, 1, 2]


def test_groups_that_changed_places_are_found(grouped: LoadedPlan) -> None:
    (_, end), (_, last), _, _ = bounds(grouped)
    data = grouped.candidates.read_bytes()
    grouped.candidates.write_bytes(data[:4] + data[end:last] + data[4:end] + data[last:])
    assert readable(open_candidates(grouped), grouped.directory) == [2]


@pytest.mark.parametrize("change", [b"", b"\0", b"PAR1"])
def test_another_length_is_found_at_once(grouped: LoadedPlan, change: bytes) -> None:
    data = grouped.candidates.read_bytes()
    grouped.candidates.write_bytes(data + change if change else data[:-1])
    with raises(RefusedError, "candidates-changed"):
        open_candidates(grouped)


def test_a_file_that_is_put_in_its_place_is_not_read(grouped: LoadedPlan, tmp_path: Path) -> None:
    candidates = open_candidates(grouped)
    other = tmp_path / "other"
    other.write_bytes(bytes(grouped.candidates.stat().st_size))
    other.chmod(0o600)
    other.rename(grouped.candidates)
    assert readable(candidates, tmp_path) == [0, 1, 2]
    with raises(RefusedError, "candidates-changed"):
        open_candidates(grouped)


def test_what_was_verified_is_what_is_decoded(grouped: LoadedPlan, tmp_path: Path) -> None:
    """A group is overwritten in place after it was listed: its rows are those that were signed."""
    root = tmp_path / "root"
    (root / "ada").mkdir(parents=True)
    candidates = open_candidates(grouped)
    candidates.listed(10, 20)
    size = grouped.candidates.stat().st_size
    with grouped.candidates.open("r+b", buffering=0) as file:
        file.write(bytes(size))
    remover = removal(candidates, root)
    assert set(outcomes_of(remover.check(0, 40))) == {"gone"}
    with raises(RefusedError, "candidates-changed"):
        remover.check(40, 1)
    os.truncate(grouped.candidates, 100)
    with raises(RefusedError, "candidates-changed"):
        remover.check(41, 1)
    # The groups of a batch stay, whatever else is looked at meanwhile.
    assert remover.check(15, 20).outcomes


@pytest.mark.parametrize(
    "spoil",
    [
        lambda parts: parts.clear(),
        lambda parts: parts.pop(0),
        lambda parts: parts[0].update(rows=19),
        lambda parts: parts[0].update(sha256=None),
        lambda parts: parts[0].update(sha256="ab"),
        lambda parts: parts[0].update(sha256="x" * 64),
        lambda parts: parts[0].update(size_bytes=-1),
        lambda parts: parts.pop(),
    ],
)
def test_parts_that_do_not_add_up_are_none(grouped: LoadedPlan, spoil) -> None:
    text = json.loads((grouped.directory / "plan.json").read_bytes())
    spoil(text["candidates"]["parts"])
    sign(grouped.directory, json.dumps(text).encode())
    with pytest.raises(DataError):
        load_plan(grouped.directory, KEY)


def test_parts_of_another_file_are_refused(grouped: LoadedPlan) -> None:
    """The lengths fit and so do the hashes, the groups do not: nothing of it is believed."""
    data = grouped.candidates.read_bytes()
    with grouped.candidates.open("rb") as file:
        opened = {"path": grouped.candidates, "descriptor": file.fileno()}
        _, parts = _core.parts_of(**opened)
        (rows, length, _), (others, more, _), *rest = parts
        joined = (rows + others, length + more, hashlib.sha256(data[: length + more]).digest())
        with pytest.raises(DataError, match="other groups"):
            _core.Candidates(**opened, parts=[joined, *rest])
        with pytest.raises(ValueError, match="behind the rows"):
            _core.Candidates(**opened, parts=[])


def test_a_file_without_rows_has_a_footer_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "none.parquet"
    frame_of([]).write_parquet(path)
    with path.open("rb") as file:
        _, parts = _core.parts_of(path, file.fileno())
    assert (parts[-1][0], sum(part[1] for part in parts)) == (0, path.stat().st_size)
