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
