"""Secrets: read from a safe place, and never told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trimtab.base.error import Undelivered
from trimtab.reach.mail import secret_of


def failure(reference: str) -> Undelivered:
    with pytest.raises(Undelivered) as raised:
        secret_of(reference)
    assert raised.value.unreachable
    return raised.value


def test_a_secret_is_read_from_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secret"
    file.write_text("sesame\n")
    for mode in (0o400, 0o600):
        file.chmod(mode)
        assert secret_of(f"file:{file}") == "sesame"
    monkeypatch.setenv("SESAME", "open")
    assert secret_of("env:SESAME") == "open"


def test_a_secret_that_is_not_there_is_named_by_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOBODY", raising=False)
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "empty").chmod(0o400)
    (tmp_path / "odd").write_bytes(b"\xff\xfe")
    (tmp_path / "odd").chmod(0o400)
    for reference in (
        f"file:{tmp_path}/none", f"file:{tmp_path}/empty", f"file:{tmp_path}/odd", "env:NOBODY",
    ):  # fmt: skip
        assert failure(reference).code == "secret-unreadable"


@pytest.mark.parametrize("mode", [0o404, 0o444, 0o644, 0o602, 0o620])
def test_a_secret_that_others_can_reach_is_not_used(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "secret"
    file.write_text("sesame\n")
    file.chmod(mode)
    error = failure(f"file:{file}")
    assert error.code == "secret-exposed"
    assert "sesame" not in error.message


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file away")
def test_a_group_reads_what_is_roots_alone(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("sesame\n")
    file.chmod(0o440)
    assert secret_of(f"file:{file}") == "sesame"
    os.chown(file, 65534, -1)
    file.chmod(0o400)
    assert failure(f"file:{file}").code == "secret-exposed"


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert failure(f"file:{tmp_path}/pipe").code == "secret-exposed"
    assert failure(f"file:{tmp_path}").code in {"secret-exposed", "secret-unreadable"}
