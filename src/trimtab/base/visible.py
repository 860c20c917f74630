"""Text from outside, made safe to show and safe to store, without losing anything.

File names and tool output may be any bytes. Shown as they are, they could steer a terminal, hide in
a page, or not be written at all: `visible` escapes whatever cannot be seen.

File names that are not UTF-8 become lone surrogates in Python (PEP 383), which neither SQLite nor
PostgreSQL can store, and PostgreSQL refuses NUL. `storable` writes both as DLE ("data link escape",
U+0010) and four hexadecimal digits; DLE itself is written the same way. All other text is stored as
it is, and `restored` reverses it.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Sequence
from typing import Final, Protocol

_UNPRINTABLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that show nothing, or move what stands around them (U+202E and kin)."""

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
    if 0xDC80 <= code <= 0xDCFF:  # the byte that surrogateescape stands for (PEP 383)
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
    # surrogatepass keeps a surrogate that stands for no byte: it cannot be in a real argv,
    # but a report must not fail on it.
    errors = "surrogateescape" if 0xDC80 <= ord(character) <= 0xDCFF else "surrogatepass"
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", errors))


ESCAPE: Final = "\x10"
_UNSTORABLE = re.compile("[\x00\x10\ud800-\udfff]")
_ESCAPED = re.compile("\x10([0-9a-f]{4})")


def storable(text: str) -> str:
    r"""Return the text with what no database takes escaped.

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
