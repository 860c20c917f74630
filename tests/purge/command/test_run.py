"""What a run, or a dry run, prints at its end."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trimtab.cli import main
from trimtab.purge.run import run_log
from trimtab.purge.run.exchange import StopReason
from trimtab.purge.run.journal_line import RunPace
from trimtab.purge.run.run_plan import PurgeRunDocument
from trimtab.purge.run.run_result import RunResult
from trimtab.purge.run.screen import run_document
from trimtab.show.screen_document import print_document

SINCE = datetime(2026, 11, 28, 3, tzinfo=UTC)
PACE = RunPace(57_861, SINCE, SINCE.replace(second=30), 1.2)
DRY = RunResult(
    id="r", apply=False, reason=StopReason.EXHAUSTED, text="all files of the plan are done",
    objections=(), files=57_860, bytes=1_105_954_079, freed_bytes=0,
    outcomes={"would_delete": 57_860, "touched": 1}, before=None, after=None, rows_left=0,
    recovered_rows=0, unexplained=(), journal=Path("j"), users=5, pace=PACE,
)  # fmt: skip
LOADED: Any = SimpleNamespace(
    plan=SimpleNamespace(
        id="p", file_system=SimpleNamespace(root="/scratch"), candidates=SimpleNamespace(files=9)
    )
)


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({}, "would delete 57,860 files, 1.03 GiB, of 5 users"),
        ({"apply": True}, "deleted 57,860 files, 1.03 GiB, of 5 users"),
        ({"files": 1, "bytes": 10, "users": 1}, "would delete 1 file, 10 B, of 1 user"),
        ({"files": 0, "bytes": 0, "users": 0}, "would delete nothing"),
        ({"files": 0, "bytes": 0, "users": 0, "apply": True}, "deleted nothing"),
    ],
)
def test_the_first_line_is_the_answer(capsys, changes, first):
    print_document(run_document(replace(DRY, **changes), LOADED))
    assert capsys.readouterr().out.splitlines()[0] == first


def test_the_end_says_how_fast_it_went_and_how_late_the_file_system_was(capsys):
    print_document(run_document(DRY, LOADED))
    words = "57,861 rows, 1,928.7 a second; 99 % of the slowest batch within 1.2 s"
    assert f"speed  {words}" in capsys.readouterr().out


def test_a_run_that_a_signal_ends_says_what_it_came_to(capsys, monkeypatch):
    result = replace(
        DRY, apply=True, reason=StopReason.INTERRUPTED, text="stopped by SIGTERM", rows_left=3
    )
    monkeypatch.setattr(
        run_log, "run_logged", lambda *_, **__: PurgeRunDocument(LOADED, result, ())
    )
    with pytest.raises(SystemExit) as ended:
        main(["purge", "run", "/plan", "--apply"])
    printed = capsys.readouterr()
    assert ended.value.code == 130
    assert printed.out.splitlines()[0] == "deleted 57,860 files, 1.03 GiB, of 5 users"
    assert "3 of 9 rows left" in printed.out
    assert "stopped by SIGTERM" in printed.err
    assert "the same command goes on with the rest" in printed.err
