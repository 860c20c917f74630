"""Where a report goes, and how it is written: complete or not at all."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.base.error import UnreadableError, UsageError, system_errors
from trimtab.base.small_file import written_beside
from trimtab.base.visible import visible
from trimtab.reach import bounded

if TYPE_CHECKING:
    from trimtab.base.run import Run


def check_report_path(path: Path, *, deadline_s: float = bounded.DEADLINE_S) -> None:
    """Return if a report can be written to ``path``; check before a minute of measuring.

    ``path`` may be on a file system that hangs: a throw-away child looks at it, and nothing else
    does before that child has answered.

    Raises
    ------
    UsageError
        The directory is missing, or ``path`` is a directory, a device or a pipe.
    NoAnswer
        The file system did not answer in ``deadline_s``.
    """
    state = bounded.describe(os.fspath(path), deadline_s=deadline_s)
    if state.exists:
        if state.kind != "file":
            kind = "a directory" if state.kind == "directory" else "not a regular file"
            raise UsageError(
                f"{visible(os.fspath(path))} is {kind}",
                code="not-a-file",
                hint="give a file name that ends in .html",
            )
    elif state.failure is not None and state.failure.name not in {"ENOENT", "ENOTDIR"}:
        raise bounded.error_of(state.failure, state.path)
    # A link's target file is replaced, so its directory counts. Every path component answered
    # above.
    directory = os.path.dirname(os.path.realpath(state.path))  # noqa: PTH120 (a plain string)
    _check_directory(directory, deadline_s)


def _check_directory(directory: str, deadline_s: float) -> None:
    state = bounded.describe(directory, deadline_s=deadline_s)
    if state.kind == "directory":
        return
    if state.kind is not None:
        raise UsageError(
            f"{visible(directory)} is not a directory",
            code="not-a-directory",
            hint="give another path",
        )
    if state.failure is not None and state.failure.name not in {"ENOENT", "ENOTDIR"}:
        raise bounded.error_of(state.failure, directory)
    raise UsageError(
        f"the directory {visible(directory)} does not exist",
        code="directory-missing",
        hint="create it",
    )


def report_path(named: str | None, directory: Path, *, site: str | None, path: str) -> Path:
    """Return where the report of a check goes, and refuse at once what cannot be written there.

    Parameters
    ----------
    named
        The file that a person named; ``None``: one in ``directory``, after the site or the path.

    Raises
    ------
    UsageError, NoAnswer
        As `check_report_path`.
    UnreadableError
        The directory cannot be created.
    """
    import hashlib

    if named is not None:
        check_report_path(Path(named))
        return Path(named)
    problem = f"{directory} cannot be created"
    with system_errors(problem, code="cannot-write", hint="name a file with --out"):
        directory.mkdir(mode=0o750, parents=True, exist_ok=True)
    # Two paths may read alike once their signs are gone: the hash keeps them apart.
    identity = hashlib.sha256(os.fsencode(f"{site}:{path}")).hexdigest()[:8]
    words = re.sub(r"[^A-Za-z0-9]+", "-", site or path).strip("-") or "root"
    return directory / f"{words[:100]}-{identity}.html"


def report_of(report: Path, run: Run | None, *, named: bool = False) -> Path:
    """Return where the report of a check goes that may have measured nothing.

    The report of the last check that did is worth more: it is not written over. A file that a
    person named is written as named unless there is one already.
    """
    if named and not report.exists():
        return report
    measured = run is not None and any(sample.believed for sample in run.samples)
    return report if measured else report.with_stem(f"{report.stem}-inspection")


def write_report(path: Path, page: str | bytes) -> None:
    """Write a page to ``path`` atomically: either the old or the new file exists at any moment.

    A symbolic link stays; its target file is replaced.

    Raises
    ------
    UsageError
        ``path`` cannot hold a report (see `check_report_path`).
    NoAnswer
        Its file system does not answer.
    UnreadableError
        It could not be written: no space, no permission, a read-only file system.
    """
    check_report_path(path)
    target = path.resolve()
    data = page.encode("utf-8") if isinstance(page, str) else page
    try:
        with written_beside(target, data) as temporary:
            temporary.replace(target)
    except OSError as error:
        raise UnreadableError(
            f"the report could not be written to {visible(os.fspath(path))}: "
            f"{error.strerror or error}",
            code="report-not-written",
            hint="give another file",
        ) from error
