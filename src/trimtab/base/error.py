"""Errors that Trimtab raises on purpose, sentences with a stable code, and text made safe to show.

::

    TrimtabError
    ├── UsageError          wrong use: an argument, a site file, a path          exit code 2
    ├── ToolError           a probe, tool or node failed                         exit code 3
    │   ├── NoAnswer        a file system did not answer within its deadline
    │   ├── NeverStarted    a batch job did not begin: nothing was measured, nothing is wrong
    │   ├── JobLost         a batch job was taken away while it ran; its state says by whom
    │   └── Undelivered     a receiver did not take a message, or may not have taken it
    ├── RefusedError        a safety rule says no                                exit code 4
    └── UnreadableError     data or store that cannot be read or written         exit code 5
        └── DataError       a malformed file: which one, and the line

    Interrupted             the person or the system asked to stop               exit code 130

`Interrupted` is separate, like ``KeyboardInterrupt``, so that no handler of errors swallows it.
A panic of Rust is separate too, by PyO3's choice: work that must not die of one runs within
`panics_as_errors`, the only place where a ``BaseException`` becomes an error. Anything else that
escapes is a bug (exit code 1).

An error's message says what happened and where, its hint what to do next. Its code names the
problem for programs and tests and outlives every rewording. Any other sentence that a program may
rely on (a reason, a note, an outcome) is a `Message`; JSON has its code beside it, as ``reason``
and ``reason_code``.

File names and tool output may be any bytes. Shown as they are, they could steer a terminal, hide in
a page, or not be written at all: `visible` escapes whatever cannot be seen, and `storable` whatever
no database takes.
"""

from __future__ import annotations

import re
import shlex
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from importlib.metadata import Distribution


_UNPRINTABLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that show nothing, or move the text around them (U+202E and kin)."""

_NAMED: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


class _Path(Protocol):
    """A path, without the modules that reach files: what is pure shows paths too."""

    def __fspath__(self) -> str: ...


def visible(text: str | bytes | _Path, *, keep: str = "") -> str:
    r"""Return a text or a path with everything that cannot be seen written as an escape.

    Control characters, undecodable bytes (kept by Python as lone surrogates) and marks that turn
    the direction of writing become ``\x1b`` or ``\u202e``.

    Parameters
    ----------
    keep
        Characters that stay as they are: line feeds where several lines are shown.

    Examples
    --------
    >>> visible("a\udcffb\x1b[2J")
    'a\\xffb\\x1b[2J'
    >>> visible(b"a\xffb") == visible("a\udcffb")
    True
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    elif not isinstance(text, str):
        text = text.__fspath__()
    if text.isprintable():
        return text
    return "".join(_shown(character, keep) for character in text)


def shell_text(argv: Sequence[str]) -> str:
    r"""Return a command that a reader can paste into bash and that runs exactly ``argv``.

    Arguments that cannot be shown as they are become ``$'...'`` with their bytes, so the text is
    both visible and exact.

    Examples
    --------
    >>> print(shell_text(["fstrim", "-v", "/my scratch"]))
    fstrim -v '/my scratch'
    >>> print(shell_text(["ls", "a\nb"]))
    ls $'a\x0ab'
    """
    return " ".join(_shell_word(argument) for argument in argv)


def site_word(name: str) -> str:
    """Return a site as a command that looks at it takes it: its path where its name was made up.

    Examples
    --------
    >>> site_word("scratch"), site_word("/dev/vda:/my data")
    ('scratch', "'/my data'")
    """
    return shell_text([site_place(name)])


def site_place(name: str) -> str:
    """Return `site_word` as it is, unquoted."""
    path = name.rpartition(":")[2]
    return path if path.startswith("/") else name


def _shown(character: str, keep: str) -> str:
    if character in keep or unicodedata.category(character) not in _UNPRINTABLE:
        return character
    if character in _NAMED:
        return _NAMED[character]
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # the byte that surrogateescape encodes (PEP 383)
        return f"\\x{code - 0xDC00:02x}"
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _shell_word(argument: str) -> str:
    if all(unicodedata.category(character) not in _UNPRINTABLE for character in argument):
        return shlex.quote(argument)
    return "$'" + "".join(_ansi_c(character) for character in argument) + "'"


def _ansi_c(character: str) -> str:
    if character in "'\\":
        return f"\\{character}"
    if unicodedata.category(character) not in _UNPRINTABLE:
        return character
    # surrogatepass keeps a surrogate that encodes no byte: it cannot be in a real argv,
    # but a report must not fail on it.
    errors = "surrogateescape" if 0xDC80 <= ord(character) <= 0xDCFF else "surrogatepass"
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", errors))


ESCAPE: Final = "\x10"
_UNSTORABLE = re.compile("[\x00\x10\ud800-\udfff]")
_ESCAPED = re.compile("\x10([0-9a-f]{4})")


def storable(text: str) -> str:
    r"""Return the text with what no database takes escaped.

    File names that are not UTF-8 become lone surrogates in Python (PEP 383), which neither SQLite
    nor PostgreSQL can store, and PostgreSQL refuses NUL. Both are written as DLE ("data link
    escape", U+0010) and four hexadecimal digits; DLE itself is written the same way. All other text
    stays as it is, and `restored` reverses it.

    Examples
    --------
    >>> storable("/scratch/caf\udce9"), storable("plain")
    ('/scratch/caf\x10dce9', 'plain')
    """
    if text.isascii() and "\x00" not in text and ESCAPE not in text:
        return text
    return _UNSTORABLE.sub(lambda match: f"{ESCAPE}{ord(match.group()):04x}", text)


def restored(text: str) -> str:
    """Return the text that `storable` was given."""
    if ESCAPE not in text:
        return text
    return _ESCAPED.sub(lambda match: chr(int(match.group(1), 16)), text)


CODE: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
"""Lower-case words joined by hyphens: ``too-few-runs``."""


class Message(str):
    """A sentence with its code. It is a ``str`` wherever a sentence is wanted.

    Parameters
    ----------
    code
        Stable, as `CODE` says; the same code for the same meaning wherever it arises.
    text
        One sentence, without a final full stop; free to change from version to version.

    Raises
    ------
    ValueError
        For a code of another form.

    Notes
    -----
    Formatting and joining return a plain ``str``: give the code to the sentence that is whole.

    Examples
    --------
    >>> reason = Message("too-few-runs", "3 of at least 24 runs in the window")
    >>> reason.code, reason[:4]
    ('too-few-runs', '3 of')
    """

    __slots__ = ("code",)
    code: str

    def __new__(cls, code: str, text: str) -> Message:
        """Return the sentence with its code."""
        if CODE.fullmatch(code) is None:
            raise ValueError(f"{code!r} is no code: lower-case words joined by hyphens")
        message = super().__new__(cls, text)
        message.code = code
        return message

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> object:
        """Keep the code in what pydantic writes and reads: ``[code, text]``."""
        from pydantic_core import core_schema

        text = core_schema.str_schema()
        return core_schema.no_info_after_validator_function(
            lambda pair: cls(*pair),
            core_schema.tuple_schema([text, text]),
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda message: (message.code, str(message))
            ),
        )

    def __reduce__(self) -> tuple[type[Message], tuple[str, str]]:
        """Keep the code when the sentence passes to another process."""
        return Message, (self.code, str(self))


def code_of(text: str | None) -> str | None:
    """Return the code of a sentence; ``None`` where it has none, as text read from a store."""
    return text.code if isinstance(text, Message) else None


def joined(*sentences: str | None) -> str | None:
    """Return sentences as one, with the code of the first that has one; ``None`` of none.

    Examples
    --------
    >>> joined(None, Message("line-cut", "line 3 is cut"), "no space").code
    'line-cut'
    """
    present = tuple(dict.fromkeys(sentence for sentence in sentences if sentence))
    code = next(filter(None, map(code_of, present)), None)
    text = "; ".join(present)
    return Message(code, text) if code is not None else text or None


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
    """Set on an error that is part of a document which was printed already."""

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
        The `trimtab.reach.process.ProcessResult` of the command that ran then, with what it had
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
        No receiver could be reached: the next message will fare alike.
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
    Such an exception is no request to stop, so code that handles the errors of one piece of work
    and goes on with the next must catch it too. ``KeyboardInterrupt`` (including `Interrupted`),
    ``SystemExit`` and ``GeneratorExit`` are such requests, and pass.

    Raises
    ------
    Panic
        Raised in place of such an exception.
    """
    try:
        yield
    except (Exception, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        raise Panic(str(error) or type(error).__name__) from error


_DISTRIBUTION: Final = "trimtab"


def install_command(extra: str) -> str:
    """Return the shell command that adds an extra to this installation.

    It names the wheel or the checkout that the installation was made from, never ``trimtab`` alone:
    that name is on no public index, so pip would install whatever a stranger registered there.
    Where nothing shows what the installation was made from (a wheelhouse, a package), the command
    has ``WHEEL`` for the path of the release's wheel.
    """
    from importlib.metadata import PackageNotFoundError, distribution  # slow, and hardly needed

    try:
        origin = _origin(distribution(_DISTRIBUTION))
    except PackageNotFoundError:
        origin = ()
    if origin:
        *options, source = origin
        return shell_text([sys.executable, "-m", "pip", "install", *options, f"{source}[{extra}]"])
    pip = shell_text([sys.executable, "-m", "pip", "install"])
    return f"{pip} 'WHEEL[{extra}]' (WHEEL: the path of the release's trimtab-*.whl)"


def _origin(made: Distribution) -> tuple[str, ...]:
    """Return what pip installed, with the option before it; nothing where it is not recorded.

    PEP 610: ``direct_url.json``. A wheel that pip chose from an index or a directory has none.
    """
    import json  # with urllib slow, and hardly needed: every start of a command imports this module
    from urllib.parse import unquote, urlsplit

    try:
        recorded = json.loads(made.read_text("direct_url.json") or "{}")
        url = urlsplit(str(recorded["url"]))
    except (ValueError, KeyError, TypeError):
        return ()
    if url.scheme != "file":
        return ()
    path = unquote(url.path)
    editable = recorded.get("dir_info", {}).get("editable", False)
    return ("--editable", path) if editable else (path,)


@contextmanager
def system_errors(problem: str, *, code: str, hint: str | None = None) -> Iterator[None]:
    """Raise an `OSError` of the block as an `UnreadableError`.

    Parameters
    ----------
    problem
        What failed and where; what the system says is added.

    Raises
    ------
    UnreadableError
        A call to the system failed.
    """
    try:
        yield
    except OSError as error:
        message = f"{problem}: {error.strerror or error}"
        raise UnreadableError(message, code=code, hint=hint) from error
