"""Every error that Trimtab raises on purpose, in one tree.

::

    TrimtabError
    ├── UsageError          wrong use: an argument, a site file, a path          exit code 2
    ├── ToolError           a probe, tool or node failed                         exit code 3
    │   ├── NoAnswer        a file system did not answer within its deadline
    │   ├── NeverStarted    a batch job did not begin: nothing was measured, nothing is wrong
    │   ├── JobLost         a batch job was taken away while it ran: by whom is its state
    │   └── Undelivered     a receiver did not take a message, or nobody knows whether it did
    ├── RefusedError        a safety rule says no                                exit code 4
    └── UnreadableError     data or store that cannot be read or written         exit code 5
        └── DataError       a file that is not what it should be: which, and the line

    Interrupted             the person or the system asked to stop               exit code 130

`Interrupted` stands apart, as ``KeyboardInterrupt`` does, so that no handler of errors swallows it.
A panic of Rust stands apart as well, by PyO3's choice: what must outlive one runs its work within
`panics_as_errors`, the only place where a ``BaseException`` becomes an error.
Anything else that escapes is a bug (exit code 1). A message says what happened and where, the hint
what to do next; the code names the problem for programs and tests and outlives every rewording.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trimtab.message import code_of


class TrimtabError(Exception):
    """The base of every error raised on purpose.

    Parameters
    ----------
    message
        What happened, and where.
    code
        Stable name of the problem, lower-case words joined by hyphens: ``site-unknown``. Without
        one it is the code of the message, else of the class.
    hint
        What the reader can do next, if there is something.
    """

    exit_code = 1
    code = "error"
    reported = False
    """Set on an error that stands in a document which was printed already."""

    def __init__(self, message: str, *, code: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or code_of(message) or type(self).code
        self.hint = hint


class UsageError(TrimtabError):
    """Wrong use: a bad argument, path or site file."""

    exit_code = 2
    code = "usage"


class ToolError(TrimtabError):
    """A probe, tool or node failed; the message carries what it printed, shortened."""

    exit_code = 3
    code = "tool-failed"


class NoAnswer(ToolError):
    """A file system did not answer within its deadline: a result, not a bug."""

    code = "no-answer"


class NeverStarted(ToolError):
    """A batch job that never began: refused, held, cancelled in the queue, or pending too long.

    The probe is missing then, which says nothing about the file system.
    """

    code = "never-started"


class JobLost(ToolError):
    """A batch job that began and was taken away before its commands had ended.

    Parameters
    ----------
    message
        What happened, and where.
    state
        As the batch system names it: ``NODE_FAIL``, ``PREEMPTED`` ...; ``None`` where it does not
        answer.
    result
        The `trimtab.launch.process.ProcessResult` of the command that ran then, with what it had
        printed; ``None`` between two commands.
    """

    code = "job-lost"

    def __init__(
        self,
        message: str,
        *,
        state: str | None,
        result: object | None = None,
        code: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.state = state
        self.result = result

    @property
    def unfinished(self) -> bool:
        """Whether its time was over: such a run counts as 0, as one that was too slow here."""
        return self.state == "TIMEOUT"


class Undelivered(ToolError):
    """A receiver, of mail or over HTTP, did not take a message.

    Parameters
    ----------
    code
        ``receiver-unreachable``, ``receiver-refused``, ``receiver-answer-unexpected``,
        ``secret-unreadable`` or ``secret-exposed``.
    unreachable
        There was nobody to give anything to: the next message will fare alike.
    unclear
        The connection broke after the message was given: it may have been taken.
    for_good
        This message would be refused again.
    retry_after_s
        As the receiver asks; ``None``: it does not say.
    """

    code = "undelivered"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        unreachable: bool = False,
        unclear: bool = False,
        for_good: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, code=code)
        self.unreachable, self.unclear = unreachable, unclear
        self.for_good, self.retry_after_s = for_good, retry_after_s


class RefusedError(TrimtabError):
    """A safety rule forbids what was asked."""

    exit_code = 4
    code = "refused"


class UnreadableError(TrimtabError):
    """Data or a store that cannot be read or written; nothing was lost by trying."""

    exit_code = 5
    code = "unreadable"


class DataError(UnreadableError):
    """A file that does not hold what its format says.

    Parameters
    ----------
    message
        What is wrong with it.
    file
        Its name, as given; ``None`` while only the content is at hand.
    line
        The line, counted from 1; ``None`` where it is of the whole.
    """

    code = "data"

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        code: str | None = None,
        hint: str | None = None,
    ) -> None:
        place = ":".join(str(part) for part in (file, line) if part is not None)
        super().__init__(
            f"{place}: {message}" if place else message, code=code or code_of(message), hint=hint
        )
        self.reason = message
        self.file = file
        self.line = line

    def of(self, file: str) -> DataError:
        """Return the same error with the file that it is about."""
        return DataError(self.reason, file=file, line=self.line, code=self.code, hint=self.hint)


def unreleased(noun: str, again: str, *, file: str | None = None) -> DataError:
    """Return that something has a format which no released version wrote: it is not read.

    Parameters
    ----------
    noun
        What it is, and where: ``the store /var/lib/trimtab/trimtab.db``.
    again
        How its content is had again, as a command.
    file
        Its name where the noun does not say it.
    """
    return DataError(
        f"{noun} was made by an unreleased version of Trimtab, whose formats are not read",
        file=file,
        code="format-unreleased",
        hint=f"nothing in it was touched; {again}",
    )


class Interrupted(KeyboardInterrupt):
    """A person or the system asked Trimtab to stop (SIGINT, SIGTERM, SIGHUP)."""

    exit_code = 130
    code = "interrupted"
    reported = False

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Panic(Exception):
    """A library gave up within a call, as Rust does where it cannot go on: a bug, not a result."""


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Turn everything that is no ``Exception`` into a `Panic`, except a request to end.

    PyO3 derives its ``PanicException`` from ``BaseException``, a class of its own in each library.
    Such an exception asks nobody to stop, so whoever handles the errors of one piece of work and
    goes on with the next must meet it too. ``KeyboardInterrupt`` (`Interrupted` among it),
    ``SystemExit`` and ``GeneratorExit`` do ask for an end, and pass.

    Raises
    ------
    Panic
        From the exception that it stands for.
    """
    try:
        yield
    except (Exception, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        raise Panic(str(error) or type(error).__name__) from error
