"""Ask a file system that may hang: whether it answers, how full it is, exact sizes of files.

A process that waits for a lost server may not even end on a signal, so a child process asks and can
be left behind. The limits of a scan are declared here too, and `core_errors` turns what the Rust
core raises into errors of Trimtab.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, TypedDict

from trimtab.base.error import DataError, NoAnswer, ToolError, TrimtabError, UsageError, visible
from trimtab.purge.fullness import Usage
from trimtab.reach import bounded
from trimtab.reach.bounded import ask_child


@contextmanager
def core_errors(doing: str, *, hint: str | None = None) -> Iterator[None]:
    """Convert errors of the core into errors of Trimtab.

    Parameters
    ----------
    doing
        The work, as a noun: ``the scan``.
    hint
        What to do next if a call to the system failed, or a file is damaged.

    Raises
    ------
    ToolError
        A call to the system failed.
    UsageError
        A number or a path is impossible.
    DataError
        A file is damaged.
    """
    try:
        yield
    except TrimtabError:
        raise
    except OSError as error:
        named = "" if error.filename is None else f" at {visible(os.fsdecode(error.filename))}"
        why = error.strerror or str(error)
        raise ToolError(
            f"{doing} failed{named}: {visible(why)}", code="system-call-failed", hint=hint
        ) from error
    except ValueError as error:
        raise UsageError(
            f"{doing} cannot be done so: {visible(str(error))}", code="value-refused"
        ) from error
    except RuntimeError as error:
        raise DataError(
            f"{doing} failed: {visible(str(error))}", code="core-data-damaged", hint=hint
        ) from error


ANSWER_DEADLINE_S: Final = 15.0
"""Longer than for a probe: the metadata server of a file system that needs a purge may be busy."""
Measure = Callable[[str], Usage]
"""Function from the path of a root to its usage: `usage_now`, or a substitute in a test."""


def require_answer(root: str, noun: str, *, deadline_s: float = ANSWER_DEADLINE_S) -> None:
    """Raise where the file system of a root does not answer.

    A scan and a run go over the root in their own process and hang when its file system does, so a
    throw-away child lists the root first. Whatever else is wrong with the root, they report better.

    Parameters
    ----------
    noun
        The work to begin, as a noun: ``the scan``.

    Raises
    ------
    NoAnswer
        The names in the root could not be had within ``deadline_s``.
    """
    try:
        bounded.list_names(root, deadline_s=deadline_s, limit=1)
    except NoAnswer as error:
        shown = visible(root)
        raise NoAnswer(
            f"{shown} did not answer in {deadline_s:g} s: {noun} was not begun",
            code="no-answer",
            hint=f"does `ls {shown}` answer in another shell? see its servers and the kernel log "
            "(dmesg) of this host; nothing was changed, and the same command can be given again",
        ) from error
    except TrimtabError:
        return


def usage_now(root: str) -> Usage:
    """Return how full the file system of a root is, as ``df`` has it; never hangs.

    Raises
    ------
    TrimtabError
        It cannot be asked, or did not answer in time.
    """
    space = bounded.free_space(root)
    return Usage(space.used_bytes, space.available_bytes, space.capacity_bytes)


def inodes_in_use(root: str) -> tuple[int, bool]:
    """Return the inodes of a root's file system, and whether all of them are beneath the root.

    0 where it does not say; a scan then has no end that could be estimated.
    """
    try:
        space = bounded.free_space(root)
    except TrimtabError:
        return 0, False
    return max(0, space.inodes - space.inodes_free), os.path.ismount(root)


_CALL_S: Final = 0.01
"""Ten times what a busy metadata server takes: threads then mostly wait for their turn."""
_THREADS_MAX: Final = 64
_STOP_S: Final = 60.0
_TURNS: Final = 10
"""Maximum number of calls (open, read, name) that a piece of work waits for before it stops."""


class CoreLimits(TypedDict):
    """Limits as `trimtab._core.NamespaceScan` takes them."""

    delay_s: float
    latency_s_max: float | None
    each_mdt: tuple[float, int] | None


@dataclass(frozen=True, slots=True)
class ScanLimits:
    """Limits for all processes of a scan together; ``None`` for no limit.

    Attributes
    ----------
    calls_per_s
        Maximum rate of calls to the file system.
    calls_per_mdt_s
        Maximum rate of calls to each MDT of a Lustre file system.
    latency_s_max
        Target latency of a call: the rate is lowered while more than 1 % of calls (on Lustre: to
        the same MDT) take longer. Each process judges its own calls.
    """

    calls_per_s: float | None = None
    calls_per_mdt_s: float | None = None
    latency_s_max: float | None = None

    @property
    def are_shared(self) -> bool:
        """Whether several processes have to share the limits."""
        return self.calls_per_s is not None or self.calls_per_mdt_s is not None

    def threads(self, chosen: int = 0) -> int:
        """Return the number of threads that nearly reach the limit; 0: as suits the machine.

        It is never more than calls per second, even if chosen: each thread would wait for longer,
        and stopping a scan would wait for all of them.
        """
        if self.calls_per_s is None:
            return chosen
        return min(chosen, max(2, int(self.calls_per_s))) or _threads(self.calls_per_s)

    def for_core(self, threads: int, calls_a_name: int, share: float) -> CoreLimits:
        """Return the limits of one process with a number of threads and a share of the calls.

        Parameters
        ----------
        calls_a_name
            Approximate number of system calls for a name.
        """
        delay_s, each_mdt = 0.0, None
        if self.calls_per_s is not None:
            delay_s = threads * calls_a_name / (self.calls_per_s * share)
        if self.calls_per_mdt_s is not None:
            of_mdt = self.calls_per_mdt_s * share
            each_mdt = calls_a_name / of_mdt, _threads(of_mdt)
        return {"delay_s": delay_s, "latency_s_max": self.latency_s_max, "each_mdt": each_mdt}

    def stop_s(self, threads: int, calls_a_name: int, share: float) -> float:
        """Return within how many seconds such a process stops, unless the file system hangs."""
        core = self.for_core(threads, calls_a_name, share)
        turn_s = core["delay_s"]
        if core["each_mdt"] is not None:
            apart_s, at_one = core["each_mdt"]
            turn_s = max(turn_s, apart_s * min(at_one, threads or at_one))
        return max(_STOP_S, _TURNS * turn_s)


def _threads(calls_per_s: float) -> int:
    return round(min(max(calls_per_s * _CALL_S, 2), _THREADS_MAX))


@dataclass(frozen=True, slots=True)
class AskedFile:
    """One file to look at: its 16-byte identity and its path beneath the root."""

    id: bytes
    parent: bytes
    name: bytes


@dataclass(frozen=True, slots=True)
class Exact:
    """Current data of a file from all its servers.

    Attributes
    ----------
    project
        Project; ``None`` if not requested.
    errno
        Error number; 0 on success.
    """

    size_bytes: int = 0
    allocated_bytes: int = 0
    project: int | None = None
    errno: int = 0

    @property
    def known(self) -> bool:
        """Whether the file exists and all its servers answered."""
        return self.errno == 0

    @property
    def gone(self) -> bool:
        """Whether the file no longer exists, or another has its name."""
        return self.errno in (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)


NO_PROJECTS: Final = frozenset({errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})
"""Errors of file systems without projects."""

Look = Callable[[Sequence[AskedFile]], Sequence[Exact]]
"""Reads files; returns one result per file, in order."""


LOOK_DEADLINE_S: Final = 60.0
"""Deadline of one file; a sixth of it once one was late. A successful failover takes less."""


def look_on(
    root: str, *, lustre: bool, project: bool, threads: int = 0, deadline_s: float = LOOK_DEADLINE_S
) -> Look:
    """Return a function that looks at files beneath a root of this host, by FID on Lustre.

    It raises what the core raises, and `ToolError` if its process was killed.

    Notes
    -----
    A process that asks a lost OST for a size waits until the OST is back or deactivated; no signal
    ends that, and a process with such a thread does not end either. So a child asks. The core in it
    never waits for ever for a file (`crates/namespace/src/patience.rs`): a file whose servers are
    late gets ``ETIMEDOUT``. A child that has answered and cannot end is left behind, and ends once
    the OST is back.
    """
    from trimtab._core import glimpse

    def look(files: Sequence[AskedFile]) -> Sequence[Exact]:
        rows = [(file.id, file.parent, file.name) for file in files]
        question = partial(
            glimpse, root, rows, lustre=lustre, threads=threads, deadline_s=deadline_s
        )
        answers: Sequence[Exact] = ()
        for with_project in dict.fromkeys((project, False)):
            columns = ask_child(partial(question, project=with_project), root)
            answers = [Exact(*answer) for answer in zip(*columns, strict=True)]
            if not with_project or any(answer.errno not in NO_PROJECTS for answer in answers):
                break
        return answers

    return look
