import json
import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from functools import reduce
from operator import getitem
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.purge.plan.making import (
    DAY_S,
    KEY,
    MADE_AT,
    Row,
    draft,
    frame_of,
    make,
)
from tests.support.codes import raises

from trimtab.base.error import DataError, RefusedError, TrimtabError, UnreadableError
from trimtab.purge.plan.plan_directory import LoadedPlan, load_plan, published_before
from trimtab.purge.plan.plan_signature import SigningKey
from trimtab.purge.plan.publication import PUBLISHED_FILE, Publication, write_publication
from trimtab.store.trusted_file import trusted_directory

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
    plan.directory.chmod(0o750)
    with raises(RefusedError, "file-untrusted"):
        load_plan(plan.directory, KEY)
    plan.directory.chmod(0o700)
    os.chown(plan.directory, 12345, -1)
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


def test_evidence_of_another_plan_or_key_is_none(plan: LoadedPlan) -> None:
    with raises(RefusedError, "publication-mismatch"):
        publish(plan, publication(plan, plan_id="another"))
    with raises(RefusedError, "publication-mismatch"):
        publish(plan, publication(plan, plan_sha256="another"))
    with raises(RefusedError, "key-mismatch"):
        publish(plan, publication(plan), SigningKey(bytes(32)))


def test_evidence_that_promises_too_little_is_none(plan: LoadedPlan) -> None:
    with raises(RefusedError, "publication-early"):
        publish(plan, publication(plan, not_before=MADE_AT + timedelta(days=14)))


def test_the_signature_of_a_plan_is_none_of_a_publication(plan: LoadedPlan) -> None:
    data = (plan.directory / "plan.json").read_bytes()
    assert KEY.sign("purge plan", data) != KEY.sign("purge plan published", data)


def test_the_plan_published_before_is_found(tmp_path: Path) -> None:
    made = []
    for number, days in enumerate((21, 14, 7, 0)):
        at = MADE_AT - timedelta(days=days)
        loaded = make(tmp_path / f"plan-{number}", ROWS, draft(at))
        if number != 2:  # that one was never published
            evidence = publication(
                loaded,
                published_at=at + timedelta(hours=1),
                not_before=at + timedelta(days=14, hours=1),
            )
            loaded = publish(loaded, evidence)
        made.append(loaded)
    damaged = tmp_path / "plan-9"
    damaged.mkdir(mode=0o700)
    (damaged / "plan.json").write_text("{}")
    found, passed = published_before(made[3], KEY)
    assert found == made[1]
    assert len(passed) == 1
    assert "plan-9" in passed[0]
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
    assert plan.plan.notice_s == 14 * DAY_S
    assert frame_of(ROWS).height == plan.plan.candidates.files
