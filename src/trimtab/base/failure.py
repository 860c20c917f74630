"""Why a run failed: the class of the error that its problem text names.

Benchmarks print errors in the words of the C library, as a number or by its name; the Lustre client
prints the negated number (``rc = -28``). The text is all that a store holds of an error, so classes
are derived from it, also for runs that were stored long ago.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final


class Failure(StrEnum):
    """Class of the error that made a run fail."""

    NO_SPACE = "no-space"
    """ENOSPC: a target is full, or out of inodes."""
    QUOTA = "quota"
    """EDQUOT: the quota of the user, group or project is used up."""
    READ_ONLY = "read-only"
    """EROFS."""
    STALE = "stale"
    """ESTALE: the file is gone, or its server forgot it."""
    NOT_CONNECTED = "not-connected"
    """ENOTCONN, ESHUTDOWN: the client lost its connection, or was evicted."""
    IO_ERROR = "io-error"
    """EIO."""
    CORRUPT = "corrupt"
    """Data read back differ from those written."""
    PERMISSION = "permission"
    """EACCES, EPERM."""
    NAMES = "names"
    """A host name was not resolved."""
    LAUNCHER = "launcher"
    """The launcher or the batch system did not start it."""


DATA_ERRORS: Final = re.compile(
    r"not what was written|(?:incorrect|wrong) data|data (?:mismatch|corruption)"
    r"|verify(?:ing)? (?:failed|bad)|verification (?:failed|error)",
    re.I,
)
"""Wording in stored runs for the code ``data-corrupt`` of `trimtab.formats`."""
NAME_ERRORS: Final = re.compile(
    r"could not resolve|cannot resolve|unable to resolve|failed to resolve|not resolve"
    r"|name resolution|resolution of (?:host)?names?|getaddrinfo|gethostby|unknown host"
    r"|name or service not known|no address associated|nodename nor servname|servfail|nxdomain"
    r"|no name service|name service (?:is |was )?(?:down|unavailable|not available)"
    r"|\bDNS\b|\bEAI_",
    re.I,
)
"""How glibc, ssh, Slurm and MPI report an unresolved name (getaddrinfo(3), gai_strerror)."""
LAUNCHER_ERRORS: Final = re.compile(
    r"\b(?:srun|sbatch|salloc|slurm\w*|mpirun|mpiexec|orte\w*|prte\w*|pmix?\w*|prolog|epilog"
    r"|munge|ssh|scheduler|queue|allocation|launch\w*|job)\b"
    r"|not on PATH|was not found|may not be executed|cannot start|could not be started"
    r"|no slot of .{0,80} was begun|did not start|the watch (?:ended|was)|pending",
    re.I,
)
"""Launchers, and how `trimtab.reach` and `trimtab.watch` report a run that never began."""
_PROGRAM_ENDED: Final = re.compile(
    r"\btasks? [-\d,]+: (?:exited with|killed|terminated|aborted|segmentation fault|bus error"
    r"|floating point exception|out of memory)"
    r"|\brank \d+ (?:exited with|died from)|returned a non-zero exit|exited with non-zero status"
    r"|exited on signal|bad termination of one of your application|\boom[-_ ]kill|node failure on",
    re.I,
)
"""How srun, PALS, Open MPI and Hydra report that a task ended or a node died: the program had been
launched, and the launcher does not know why it failed."""
_NOT_EXECUTED: Final = re.compile(r"\bexecve\b", re.I)
"""... unless there was no program to run: srun then reports its exit as well."""
FILE_SYSTEM_ERRORS: Final = re.compile(
    r"did not answer|does not answer in|read-only|no space left|no permission to write"
    r"|input/output error|stale file handle|transport endpoint|free space",
    re.I,
)
"""A file system that prevents a probe from starting: not the launcher's fault."""


def _error(names: str, numbers: str, words: str) -> re.Pattern[str]:
    """Return the pattern of an error by name, by number as tools print it, or by its words.

    A bare ``error 5`` or ``rc = 5`` is as often an exit code or a count.
    """
    number = (
        rf"\b(?:errno|os error)\W{{0,3}}(?:{numbers})\b|\berror=(?:{numbers})\b"
        rf"|\(error (?:{numbers})\)|\brc ?= ?-(?:{numbers})\b"
    )
    return re.compile(rf"\b(?:{names})\b|{number}|{words}", re.I)


_PATTERNS: Final = (
    (Failure.NO_SPACE, _error("ENOSPC", "28", r"no space left")),
    (Failure.QUOTA, _error("EDQUOT", "122", r"disk quota exceeded")),
    (Failure.READ_ONLY, _error("EROFS", "30", r"read-only file ?system")),
    (Failure.STALE, _error("ESTALE", "116", r"stale (?:NFS )?file handle")),
    (Failure.NOT_CONNECTED, _error("ENOTCONN|ESHUTDOWN", "107|108", r"transport endpoint")),
    (
        Failure.CORRUPT,
        # fio reports a failed verification as EILSEQ.
        _error("EILSEQ", "84", rf"{DATA_ERRORS.pattern}|invalid or incomplete multibyte"),
    ),
    (Failure.IO_ERROR, _error("EIO", "5", r"input/output error|\bI/O error")),
    (Failure.NAMES, NAME_ERRORS),
    (
        Failure.PERMISSION,
        # What ssh lists in parentheses are the ways to log in: that run was never launched.
        _error("EACCES|EPERM", "13|1", r"permission denied(?! ?\()|operation not permitted"
               r"|no permission to write"),
    ),
)  # fmt: skip
"""The more specific comes first: MPI-IO reports ``Other I/O error`` for most of them."""


def is_of_launcher(problem: str) -> bool:
    """Return whether a text has the words of a launcher, and none of a program that it launched.

    Examples
    --------
    >>> is_of_launcher("srun: error: Unable to create step: Job has expired")
    True
    >>> is_of_launcher("srun: error: nid1: task 12: Exited with exit code 1")
    False
    """
    ended = _PROGRAM_ENDED.search(problem) and not _NOT_EXECUTED.search(problem)
    return LAUNCHER_ERRORS.search(problem) is not None and not ended


def failure_of(problem: str | None) -> Failure | None:
    """Return the class of the error that the problem of a run names.

    Returns
    -------
    Failure | None
        The most specific class if the text names several: a launcher only passes on what its
        program prints. ``None`` if it names none.

    Examples
    --------
    >>> failure_of("srun: error: task 3: write: No space left on device")
    <Failure.NO_SPACE: 'no-space'>
    >>> failure_of("it was ended after 3600 s") is None
    True
    """
    text = problem or ""
    for failure, pattern in _PATTERNS:
        if pattern.search(text):
            return failure
    if is_of_launcher(text) and not FILE_SYSTEM_ERRORS.search(text):
        return Failure.LAUNCHER
    return None
