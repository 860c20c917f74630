"""A Darshan log that PyDarshan cannot read is a Darshan log all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.formats.recorded import FIXTURES

from trimtab.probe.imports.import_reading import read_file

pytestmark = pytest.mark.system

LOG = FIXTURES / "darshan" / "3.5.0" / "writer-reader.darshan"


@pytest.mark.parametrize("size", [100, 600])
def test_without_its_kind_it_says_why_it_cannot_be_read(size: int, tmp_path: Path) -> None:
    path = tmp_path / "cut.darshan"
    path.write_bytes(LOG.read_bytes()[:size])
    recognised, named = read_file(str(path)), read_file(str(path), "darshan")
    assert (recognised.kind, recognised.problem) == ("darshan", named.problem)
    assert "PyDarshan cannot read this" in (recognised.problem or "")


def test_a_whole_log_is_read_without_its_kind() -> None:
    reading = read_file(str(LOG))
    assert (reading.kind, reading.problem) == ("darshan", None)
    assert reading.measurements
