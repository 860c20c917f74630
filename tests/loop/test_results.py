"""What a directory of results holds: whole documents, the newest first, and why others are not."""

from __future__ import annotations

import os
from pathlib import Path

from tests.report.documents.test_reading import horizon_json, whatif_json
from tests.report.purge_pages import horizon_answer_of

from trimtab.loop.results import Results, results_in, signature_of

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


def filled(directory: Path) -> Path:
    """Fill a directory with a result of each kind, and with what is none."""
    directory.mkdir()
    (directory / "ages.json").write_bytes(horizon_json(horizon_answer_of(0.7)))
    (directory / "trims.json").write_bytes(whatif_json())
    (directory / "perlmutter.toml").write_text((EXAMPLES / "perlmutter.toml").read_text())
    (directory / "purge-policy.toml").write_text((EXAMPLES / "purge-policy.toml").read_text())
    (directory / "status.json").write_text('{"schema_version": 1, "series": []}')
    (directory / "half.json").write_bytes(whatif_json()[:900])
    (directory / "link.json").symlink_to(directory / "ages.json")
    (directory / "deep.json").mkdir()
    os.mkfifo(directory / "pipe.json")
    return directory


def test_each_kind_is_found_and_what_is_damaged_is_told(tmp_path):
    found = results_in(filled(tmp_path / "results"))
    assert [held.file for held in found.horizons] == ["ages.json"]
    assert [held.file for held in found.what_ifs] == ["trims.json"]
    assert [held.file for held in found.ladders] == ["perlmutter.toml"]
    (problem,) = found.problems
    assert problem.startswith("half.json: not a whole document")
    assert problem.code == "document-damaged"


def test_the_newest_comes_first(tmp_path):
    for number, name in enumerate(("b", "a", "c")):
        (tmp_path / f"{name}.json").write_bytes(whatif_json())
        os.utime(tmp_path / f"{name}.json", (1_000_000 + number, 1_000_000 + number))
    assert [held.file for held in results_in(tmp_path).what_ifs] == ["c.json", "a.json", "b.json"]


def test_a_directory_that_is_not_there_holds_nothing(tmp_path):
    assert results_in(tmp_path / "none") == Results()
    assert signature_of(tmp_path / "none") == ()
    (problem,) = results_in(Path("/proc/version")).problems
    assert problem.code == "results-unreadable"


def test_the_signature_changes_with_a_file(tmp_path):
    before = signature_of(tmp_path)
    (tmp_path / "x.json").write_text("{}")
    middle = signature_of(tmp_path)
    (tmp_path / "x.json").write_text("{} ")
    assert len({before, middle, signature_of(tmp_path)}) == 3
