"""A small followed Lustre, for every test of this directory that asks for one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fake_lustre.followed import Follower, caught_up
from tests.fake_lustre.namespace import ROOT, FakeNamespace


@pytest.fixture
def lustre() -> FakeNamespace:
    """A tree with a directory of two files, read by Trimtab."""
    fake = FakeNamespace(2)
    fake.register()
    fake.directory = fake.create(ROOT, b"d", kind="d", mdt=1)  # type: ignore[attr-defined]
    for name in (b"a", b"b"):
        fake.create(fake.directory, name)  # type: ignore[attr-defined]
    return fake


@pytest.fixture
def follower(lustre: FakeNamespace, tmp_path: Path) -> Follower:
    """Somebody who follows it, and is up to date."""
    return caught_up(lustre, tmp_path)


@pytest.fixture
def striped(lustre: FakeNamespace, tmp_path: Path) -> Follower:
    """Somebody who follows a tree with two striped directories, ``s`` and ``t``."""
    for name in (b"s", b"t"):
        directory = lustre.create(ROOT, name, kind="d", stripes=2)
        for number in range(4):
            lustre.create(directory, b"f%d" % number)
    return caught_up(lustre, tmp_path)
