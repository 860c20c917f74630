"""On which OSTs a file lies, from ``lfs getstripe`` as a running Lustre answers it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fake_lustre.state import FakeLustre

from trimtab.base.snapshot import NotAvailable
from trimtab.reach.lustre.lustre_client import parse_placement, read_placement

RECORDED = Path(__file__).parents[2] / "fixtures/lustre/2.17.0/client-files.out"
FILE = "/scratch/t-fake/a"


def test_a_file_is_asked_for_as_lfs_takes_it() -> None:
    fake = FakeLustre.small(layouts={FILE: [2]})
    assert read_placement(FILE, fake.execute) == ("OST0002",)


def test_a_path_that_looks_like_an_option_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fake = FakeLustre.small(layouts={f"{tmp_path}/-i": [1]})
    assert read_placement("-i", fake.execute) == ("OST0001",)


def test_a_recorded_layout_and_each_part_of_it() -> None:
    text = RECORDED.read_text()
    text = text[text.index(FILE) : text.index("[0x")]
    assert parse_placement(FILE, text) == ("OST0002",)
    row = text.index("\t     2")
    for end in range(row):
        assert isinstance(parse_placement(FILE, text[:end]), NotAvailable)
