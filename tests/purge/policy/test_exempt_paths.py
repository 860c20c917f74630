"""An exempt path that is not there, or leads through a link, is told before it keeps nothing."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

import pytest
from tests.support.codes import raises

from trimtab.errors import RefusedError
from trimtab.purge.exempt_paths import look_beneath, path_troubles, require_exempt_paths
from trimtab.purge.policy import Exemption, Policy

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
