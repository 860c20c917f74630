"""Why runs failed: words of the C library and of tools, and what benchmarks print on full disks."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest
from tests.formats import of_formats
from tests.formats.recorded import FIXTURES

from trimtab.base.failure import Failure, failure_of
from trimtab.formats import ioload
from trimtab.formats.format_table import formats
from trimtab.formats.measurement import OutputFile

FULL = [
    path
    for path in sorted(FIXTURES.glob("*/*/*.out"))
    if re.search(r"(?:^|-)(?:full|no-space|enospc)[-.]", path.name)
]
SILENT = ("ior/{}/full-mpiio.out", "obdfilter_survey/{}/enospc.out")
"""Their tools went on without an error: IOR by MPI-IO, and the survey, whose figures are valid."""
OF_ERRNO = {
    Failure.NO_SPACE: (errno.ENOSPC,),
    Failure.QUOTA: (errno.EDQUOT,),
    Failure.READ_ONLY: (errno.EROFS,),
    Failure.STALE: (errno.ESTALE,),
    Failure.NOT_CONNECTED: (errno.ENOTCONN, errno.ESHUTDOWN),
    Failure.IO_ERROR: (errno.EIO,),
    Failure.CORRUPT: (errno.EILSEQ,),
    Failure.PERMISSION: (errno.EACCES, errno.EPERM),
}
ERRORS = [(failure, number) for failure, numbers in OF_ERRNO.items() for number in numbers]


@pytest.mark.parametrize("path", FULL, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_benchmarks_on_a_full_file_system_name_it(path: Path) -> None:
    source = of_formats.source(path)
    (form,) = (form for form in formats() if form.recognises(source))
    tool, version, name = path.relative_to(FIXTURES).parts
    is_silent = f"{tool}/{{}}/{name}" in SILENT
    for measured in form.read(source):
        wanted = None if is_silent else Failure.NO_SPACE
        assert failure_of(measured.problem) is wanted, (version, measured.problem)


def test_there_are_recordings_of_full_file_systems() -> None:
    assert len([path for path in FULL if "mpiio" not in path.name]) >= 10


@pytest.mark.parametrize(("failure", "number"), ERRORS)
def test_an_error_is_known_by_words_name_and_number(failure: Failure, number: int) -> None:
    name, words = errno.errorcode[number], os.strerror(number)
    for text in (
        words,
        f"fio: pid=7, err={number}/file:io_u.c, func=io_u error, error={words}",
        f"{words} (error {number})",
        f"ior ERROR: write() failed, errno {number}, {words} (aiori-POSIX.c:441)",
        f"write: {name}",
        f"[Errno {number}] {words}: 'a'",
        f"Io(Os {{ code: {number} }}): {words} (os error {number})",
        f"LustreError: 11-0: operation ost_write to node failed: rc = -{number}",
        f"srun: error: nid0001: task 3: {words}",
    ):
        assert failure_of(text) is failure, text


@pytest.mark.parametrize(("failure", "number"), ERRORS)
def test_a_report_of_ioload_keeps_its_error(failure: Failure, number: int) -> None:
    """Whatever it had measured before: a run is partial then."""
    path = FIXTURES / "ioload" / "0.1.0" / "no-space.out"
    (was, now) = (f"{os.strerror(n)} (os error {n})" for n in (errno.ENOSPC, number))
    text = path.read_text().replace(was, now).replace('"errno":28', f'"errno":{number}')
    (measured,) = ioload.FORMAT.read(OutputFile(path.name, text.encode()))
    assert failure_of(measured.problem) is failure


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("Stale NFS file handle", Failure.STALE),
        ("MPI_File_write_at: Other I/O error , No space left on device", Failure.NO_SPACE),
        ("MPI_File_write_at: Other I/O error , error stack", Failure.IO_ERROR),
        ("the data read is not what was written", Failure.CORRUPT),
        ("/scratch/data.7 holds wrong data: 9 bytes differ, the first at 0", Failure.CORRUPT),
        ("ssh: Could not resolve hostname nid0001: Name or service not known", Failure.NAMES),
        ("nid001000: no name service", Failure.NAMES),
        ("srun: error: Unable to allocate resources: Invalid partition", Failure.LAUNCHER),
        ("nid0001: Permission denied (publickey,password).", None),
        ("ssh: nid0001: Permission denied (publickey,password).", Failure.LAUNCHER),
        ("/scratch did not answer within 30 s; job 7", None),
        ("tool exited with error 28, rc = 5, errors: 5 of 30", None),
        ("IOR reports 16777216 bytes moved, but its files hold 6291456", None),
        ("it was ended after 3600 s", None),
        ("", None),
        (None, None),
    ],
)
def test_texts_without_an_error_number(text: str | None, failure: Failure | None) -> None:
    assert failure_of(text) is failure


@pytest.mark.parametrize("problem", [
    "srun: error: nid001077: task 12: Exited with exit code 1",
    "srun: error: nid0003: tasks 0-3,7: Segmentation fault (core dumped)",
    "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0",
    "srun: error: Node failure on nid4",
    "mpirun noticed that process rank 3 with PID 9 on node nid4 exited on signal 9 (Killed).",
    "mpiexec: nid4: rank 7 died from signal 11",
])  # fmt: skip
def test_what_a_launcher_says_of_a_task_that_ran_is_no_failed_launch(problem: str) -> None:
    assert failure_of(problem) is None


@pytest.mark.parametrize("problem", [
    "slurmstepd: error: execve(): ior: No such file or directory\n"
    "srun: error: nid1: task 0: Exited with exit code 2",
    "srun: error: Unable to create step for job 7: Invalid account",
])  # fmt: skip
def test_a_program_that_was_never_executed_is_a_failed_launch(problem: str) -> None:
    assert failure_of(problem) is Failure.LAUNCHER
