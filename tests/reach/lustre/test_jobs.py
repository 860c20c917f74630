"""Running jobs of the machine, where Slurm is on this host."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from trimtab.base.error import ToolError, code_of
from trimtab.base.snapshot import NotAvailable
from trimtab.reach.lustre.server_query import JOBS, running_jobs
from trimtab.reach.process import ProcessResult

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)


def answer(stdout: bytes, code: int = 0, stderr: bytes = b"") -> Any:
    def run(argv: Sequence[str], **_options: Any) -> ProcessResult:
        assert tuple(argv) == JOBS
        return ProcessResult(tuple(argv), stdout, stderr, code, None, AT, 0.1, 20.0)

    return run


def test_each_running_job_is_a_line() -> None:
    assert running_jobs(answer(b"17\n18\n18\n")) == 3
    assert running_jobs(answer(b"")) == 0, "an empty machine is a measurement"


@pytest.mark.parametrize("stdout", [b"JOBID\n17\n", b"error: x\n", b"\xff\n"])
def test_anything_else_is_no_number(stdout: bytes) -> None:
    jobs = running_jobs(answer(stdout))
    assert isinstance(jobs, NotAvailable)
    assert code_of(jobs.reason) == "scheduler-failed"


def test_without_slurm_there_is_a_reason_and_no_zero() -> None:
    def missing(argv: Sequence[str], **_options: Any) -> ProcessResult:
        raise ToolError("squeue is not installed", code="tool-missing")

    for jobs in (running_jobs(missing), running_jobs(answer(b"", 1, b"Unable to contact"))):
        assert isinstance(jobs, NotAvailable)
        assert jobs.reason
