"""Places to survey."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fake_lustre.state import FakeLustre
from tests.probe.survey.places import Place, make


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Return two pairs of OSSs with two OSTs each."""
    return make(tmp_path, FakeLustre.pair(mount=str(tmp_path / "scratch")))


@pytest.fixture
def small(tmp_path: Path) -> Place:
    """Return a file system of four OSTs on one server, with its site file."""
    place = make(tmp_path, FakeLustre.small(mount=str(tmp_path / "scratch")))
    (tmp_path / "here.toml").write_text(
        f'[site]\nname = "here"\ndriver = "lustre"\npath = "{place.site.path}"\n'
        f'file_system = "scratch"\n\n[servers]\noss = "lustre1"\nmds = "lustre1"\n\n'
        f'[servers.ssh]\ncommand = "{place.installed.ssh[0]}"\n'
    )
    return place
