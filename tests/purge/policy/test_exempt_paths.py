"""An exempt path that keeps nothing is told before: not there, a link, listed in another form."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from datetime import date
from pathlib import Path

import pytest
from tests.support import loopback
from tests.support.codes import raises

from trimtab.base.error import RefusedError
from trimtab.purge.exempt_path import (
    FoundPath,
    Look,
    look_beneath,
    path_troubles,
    require_exempt_paths,
)
from trimtab.purge.purge_policy import Exemption, Policy

NOW_S = 1_800_000_000


def policy_of(*paths: bytes, until: date | None = None) -> Policy:
    return Policy(
        "scratch", "/scratch", exemptions=tuple(Exemption("path", path, until) for path in paths)
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "kept" / "deep").mkdir(parents=True)
    (tmp_path / "kept" / "file").write_text("")
    (tmp_path / "link").symlink_to("kept")
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkdir(os.fsencode(tmp_path) + b"/caf\xe9")  # noqa: PTH102 (bytes)
    return tmp_path


@pytest.mark.parametrize("path", [b"", b"kept", b"kept/deep", b"kept/file", b"caf\xe9"])
def test_what_is_there_is_no_trouble(root: Path, path: bytes) -> None:
    assert list(path_troubles(policy_of(path), look_beneath(root), now_s=NOW_S)) == []


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (b"gone", "exempt-path-missing"),
        (b"gone/deeper", "exempt-path-missing"),
        (b"kept/file/below", "exempt-path-missing"),
        (b"link", "exempt-path-link"),
        (b"link/deep", "exempt-path-link"),
        (b"dangling/x", "exempt-path-link"),
    ],
)
def test_what_keeps_nothing_is_told(root: Path, path: bytes, code: str) -> None:
    (trouble,) = path_troubles(policy_of(path), look_beneath(root), now_s=NOW_S)
    assert trouble.code == code
    with raises(RefusedError, code):
        require_exempt_paths(policy_of(path), look_beneath(root), now_s=NOW_S)


def test_what_is_over_need_not_be_there(root: Path) -> None:
    over = policy_of(b"gone", until=date(2020, 1, 1))
    require_exempt_paths(over, look_beneath(root), now_s=NOW_S)


def test_many_troubles_end(root: Path) -> None:
    many = policy_of(*(f"gone{number}".encode() for number in range(9)))
    with raises(RefusedError, "exempt-path-missing"):
        require_exempt_paths(many, look_beneath(root), now_s=NOW_S)


def test_other_exemptions_are_not_looked_for(root: Path) -> None:
    policy = Policy("scratch", "/scratch", exemptions=(Exemption("user", 1),))
    require_exempt_paths(policy, look_beneath(root), now_s=NOW_S)


def looks(**listed: bytes) -> Look:
    """Return a look at a tree in which directories list some names otherwise."""

    def look(directory: bytes, names: Collection[bytes]) -> dict[bytes, FoundPath]:
        return {name: FoundPath("directory", listed.get(name.decode())) for name in names}

    return look


@pytest.mark.parametrize(
    ("path", "listed", "advice"),
    [
        (b"keep", {"keep": b"Keep"}, "write Keep"),
        (b"a/keep/b", {"keep": b"KEEP"}, "write KEEP"),
        (
            b"caf\xc3\xa9/x",
            {"café": b"cafe\xcc\x81"},
            f'path_hex = "{b"/scratch/cafe".hex()}cc812f78"',
        ),
        (b"a/.zfs", {".zfs": b""}, "does not list .zfs"),
    ],
)
def test_a_name_that_is_listed_otherwise_is_named_as_listed(
    path: bytes, listed: dict[str, bytes], advice: str
) -> None:
    (trouble,) = path_troubles(policy_of(path), looks(**listed), now_s=NOW_S)
    assert trouble.code == "exempt-path-unlisted"
    assert trouble.endswith(advice) or advice in trouble
    # Of a plan that is carried out, too: what is exempt may be gone by then, and not elsewhere.
    planned = policy_of(path)
    with raises(RefusedError, "exempt-path-unlisted"):
        require_exempt_paths(planned, looks(**listed), now_s=NOW_S, planned=planned)


@pytest.mark.system
def test_where_case_is_folded_a_path_is_written_as_it_is_listed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with loopback.folding(tmp_path, root):
        (root / "Keep" / "Deep").mkdir(parents=True)
        (root / "keep" / "file").write_text("")
        assert (root / "Keep" / "deep").is_dir()
        as_listed = policy_of(b"keep", b"keep/deep", b"keep/file")
        assert list(path_troubles(as_listed, look_beneath(root), now_s=NOW_S)) == []
        for path, advice in (
            (b"Keep", "Keep as keep: write keep"),
            (b"keep/Deep", "Deep as deep: write deep"),
            (b"keep/FILE", "FILE as file: write file"),
        ):
            (trouble,) = path_troubles(policy_of(path), look_beneath(root), now_s=NOW_S)
            assert trouble.endswith(advice)


def test_only_what_was_exempt_at_the_plan_may_be_gone_at_its_run(root: Path) -> None:
    look, planned = look_beneath(root), policy_of(b"gone")
    require_exempt_paths(planned, look, now_s=NOW_S, planned=planned)
    with raises(RefusedError, "exempt-path-missing"):
        require_exempt_paths(policy_of(b"gone", b"typo"), look, now_s=NOW_S, planned=planned)


def test_a_directory_is_listed_once_whatever_it_holds_of_exempt_paths(root: Path) -> None:
    asked: list[bytes] = []

    def look(directory: bytes, names: Collection[bytes]) -> Mapping[bytes, FoundPath]:
        asked.append(directory)
        return look_beneath(root)(directory, names)

    policy = policy_of(b"kept", b"kept/deep", b"kept/file", b"caf\xe9", b"gone", b"gone/deeper")
    assert len(list(path_troubles(policy, look, now_s=NOW_S))) == 2
    assert sorted(asked) == [b"", b"kept"]
